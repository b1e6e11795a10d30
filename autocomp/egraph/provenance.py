"""Which of the model's own nodes each kernel of a cover computes.

    chosen: out = view(t7), t7 = merged product of q, k, v       model: q = x @ wq, k = x @ wk, v = x @ wv
    the kernel that stores t7 computes q, k and v; who reads the view of it computes none of them

A class that the model has is computed by the kernel that holds it. Where a rule gave it another form, so are those of the model's
nodes below it that the new form does without, down to tensors that are stored or that the kernel holds as well. A stored tensor that the
model does not have stands for the classes of the model that are made from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autocomp.egraph.chosen import Cover
from autocomp.egraph.cuts import Cut
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
        self._done = self._stored | {n.cls for n in held if n.enode.why == "source"}  # by some kernel
        self._readers: dict[int, list[int]] = {}
        for n in s.nodes:
            for child in n.enode.children:
                if child in self._stored and not self._has(child):
                    self._readers.setdefault(child, []).append(n.cls)

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
        """Classes of the model that have a form over `k`, a stored tensor that the model does not have."""
        found: set[int] = set()
        seen, stack = {k}, [k]
        while stack:
            for reader in self._readers_of(stack.pop()):
                if reader in seen:
                    continue
                seen.add(reader)
                if self._has(reader):
                    found.add(reader)
                else:
                    stack.append(reader)
        return found

    def _readers_of(self, k: int) -> list[int]:
        if k not in self._readers:
            self._readers[k] = [n.cls for n in self.subject.nodes if k in n.enode.children]
        return self._readers[k]

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
