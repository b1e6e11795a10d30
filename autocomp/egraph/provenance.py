"""Which of the model's own nodes each kernel of a cover computes.

    chosen: out = view(t7), t7 = merged product of q, k, v       model: q = x @ wq, k = x @ wk, v = x @ wv
    the kernel that stores t7 computes q, k and v; who reads the view of it computes none of them

A class that the model has is computed by the kernel that holds it. Where a rule gave it another form, so are those of the model's
nodes below it that the new form does without, down to tensors that are stored or that the kernel holds as well. A stored tensor that the
model does not have (in another order of dimensions, several merged into one) stands for the classes of the model that are views of it, and
is as good as those stored; where there is none (a part of a result), for the nearest classes of the model that are made from it, before
other stored tensors if it feeds any such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autocomp.egraph.chosen import Cover
from autocomp.egraph.cut import Cut
from autocomp.egraph.frozen import ENode
from autocomp.egraph.subject import Subject, SubjectNode


class Provenance:
    """Answers for the kernels of one cover."""

    def __init__(self, c: Cover, s: Subject) -> None:
        self.subject = s
        self._model: dict[int, list[ENode]] = {
            k: [e for e in cls.nodes if e.why == "source" and e.children] for k, cls in s.frozen.classes.items()}  # fmt: skip
        self._stored = {*c.used(), *c.extra, *s.memory, *s.literal}
        held = (s.nodes[n] for x in c.used() for n in c.pick[x].nodes)
        self._readers: dict[int, list[SubjectNode]] = {}
        for n in s.nodes:
            for child in dict.fromkeys(n.enode.children):
                if not self._has(child):
                    self._readers.setdefault(child, []).append(n)
        self._views = {k: self._nearest(k, views=True) for k in c.used() if not self._has(k)}
        viewed = {x for found in self._views.values() for x in found}
        self._done = self._stored | viewed | {n.cls for n in held if n.enode.why == "source"}  # by some kernel

    def _has(self, k: int) -> bool:
        """Whether the model has a class (as more than a leaf)."""
        return bool(self._model.get(k))

    def of(self, roots: Iterable[int], cut: Cut) -> tuple[int, ...]:
        """The nodes of the model that a kernel computes, which stores `roots` by `cut`: numbers in the graph's `nodes()`."""
        picks = {self.subject.nodes[n].cls: self.subject.nodes[n] for n in cut.nodes}
        found: set[int] = set()
        for k, node in picks.items():
            found.update(self._held(k, node, picks))
        for k in roots:
            if not self._has(k):
                for top in self._made_from(k):
                    found.update(self._below(top))
        return tuple(sorted(n for k in found for n in self.subject.frozen.nodes.get(k, ())))

    def _held(self, k: int, node: SubjectNode, picks: dict[int, SubjectNode]) -> Iterator[int]:
        """Classes of the model that a kernel computes by holding class `k` in one of its forms."""
        if not self._has(k):
            return
        if node.enode.why == "source":
            yield k
        elif not node.form.view or any(child in picks for child in node.enode.children):
            yield from self._below(k)

    def _made_from(self, k: int) -> set[int]:
        """Classes of the model that a stored tensor stands for, which the model does not have."""
        return self._views.get(k) or self._nearest(k, across=False) or self._nearest(k)

    def _nearest(self, k: int, views: bool = False, across: bool = True) -> set[int]:
        """The nearest classes of the model that are made from `k`: all that are views of it, or else those that fewest steps lead to.
        `across`: also through other stored tensors."""
        found: set[int] = set()
        seen, level = {k}, [k]
        while level and (views or not found):
            above = []
            for x in level:
                for n in self._readers.get(x, ()):
                    if n.cls in seen or (views and not n.form.view):
                        continue
                    seen.add(n.cls)
                    if self._has(n.cls):
                        found.add(n.cls)
                    elif across or n.cls not in self._stored:
                        above.append(n.cls)
            level = above
        return found

    def _below(self, k: int) -> Iterator[int]:
        """`k` and the model's nodes below it, down to what is stored, in memory, or computed by a kernel in the model's own form."""
        seen, stack = {k}, [k]
        while stack:
            x = stack.pop()
            yield x
            for child in (child for e in self._model[x] for child in e.children):
                if child not in seen and child not in self._done and self._has(child):
                    seen.add(child)
                    stack.append(child)
