"""How many tensors a left side may match, counted before egglog is asked: within a call it cannot be stopped.

Classes of many forms multiply: add(add(?x, ?y), ?z) over classes of 100 sums each has 10,000 matches a class. Only e-graphs that have
grown are looked at: where each class has a form or two, a left side matches no more often than there are terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from autocomp.egraph.engine import Term
from autocomp.forks import kept_property
from autocomp.rewrite.pattern import Apply, Pattern

Node = tuple[int, ...]  # the classes of a form's operands


class Forms:
    """The forms of each class by op. `classes`: term -> class."""

    def __init__(self, terms: Sequence[Term], classes: Sequence[int]) -> None:
        self._terms, self._classes = terms, classes
        self._most: dict[str, int] = {}  # terms of one class
        self._number: Counter[str] = Counter()
        for (op, _), n in Counter((t.op, c) for t, c in zip(terms, classes, strict=True)).items():
            self._number[op] += n
            self._most[op] = max(self._most.get(op, 0), n)

    @kept_property
    def _of(self) -> dict[str, dict[int, list[Node]]]:
        """By op and class, congruent terms once."""
        seen: set[tuple[object, ...]] = set()
        out: dict[str, dict[int, list[Node]]] = {}
        for t, c in zip(self._terms, self._classes, strict=True):
            children = tuple([self._classes[a] for a in t.args])
            key = (t.op, t.attrs, children, c)
            if key not in seen:
                seen.add(key)
                out.setdefault(t.op, {}).setdefault(c, []).append(children)
        return out

    def at_most(self, p: Pattern, enough: int) -> int:
        """No fewer than the matches of a left side; counted by numbers of terms alone where that is at most `enough`."""
        if not isinstance(p, Apply):
            return 1
        rough = self._number[p.op]
        for op, often in Counter(_inner(p.args)).items():
            rough *= self._most.get(op, 0) ** often
        return rough if rough <= enough else sum(self._below(p).values())

    def _below(self, p: Apply) -> dict[int, int]:
        """Matches of a pattern at each class, as if no variable stood twice."""
        args = [(n, self._below(a)) for n, a in enumerate(p.args) if isinstance(a, Apply)]
        out: dict[int, int] = {}
        for c, nodes in self._of.get(p.op, {}).items():
            total = 0
            for node in nodes:
                if len(node) == len(p.args):
                    ways = 1
                    for n, of in args:
                        ways *= of.get(node[n], 0)
                    total += ways
            if total:
                out[c] = total
        return out


def _inner(args: Iterable[Pattern]) -> list[str]:
    """Ops of the applications among patterns, with those inside of them."""
    return [op for a in args if isinstance(a, Apply) for op in (a.op, *_inner(a.args))]
