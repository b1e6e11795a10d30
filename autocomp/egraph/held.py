"""What covers of one e-graph before this one have found of each group of classes, where this one would find the same.

    cuts of a group = f(forms of its classes, cuts of what they read, which nodes no body may have together)

A later cover differs from an earlier one in the last of these alone. So a group has the cuts that it had where what it reads has the very
lists that it had, and no pair of nodes that is new, or is gone, has its watched nodes among those that the group's bodies may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from autocomp.egraph.cut import Cut
from autocomp.egraph.subject import Subject

Without = frozenset[frozenset[int]]


@dataclass(frozen=True)
class Group:
    """Of one group: what it was found with, and what was found. `reads`: the lists of cuts of the classes outside of it; `done`: bodies
    that were priced for it."""

    without: Without
    reads: tuple[tuple[int, list[Cut] | None], ...]
    cuts: dict[int, list[Cut]]
    flow: dict[int, float]
    shared: dict[int, float]
    refused: dict[str, int]
    done: int


@dataclass
class Built:
    """Bodies that covers have looked at, by the node and the numbers of its operands' bodies (-1: loaded), without what a cover decides
    (`without`, seconds of schedules, flow): the reason against one, and the body, with a number, as far as it was made. `said`: seconds
    that bodies take by their prices, by number. At most as many as covers may look at (`budget.cover_effort`)."""

    bodies: dict[tuple[int, ...], tuple[str | None, Cut | None]] = field(default_factory=dict)
    said: dict[int, float] = field(default_factory=dict)

    def add(self, key: tuple[int, ...], refused: str | None, cut: Cut | None) -> tuple[str | None, Cut | None]:
        """One more body."""
        numbered = None if cut is None else cut._replace(number=len(self.bodies))
        self.bodies[key] = refused, numbered
        return refused, numbered


@dataclass
class Held:
    """One entry a group of the subject, of the last cover that looked at it. `of`: rules and options, which all entries are for."""

    subject: Subject
    of: object = None
    built: Built = field(default_factory=Built)
    groups: dict[int, Group] = field(default_factory=dict)
    _cones: list[int] = field(default_factory=list)
    _reads: list[tuple[int, ...]] = field(default_factory=list)
    _changed: dict[tuple[Without, Without], int] = field(default_factory=dict)

    def asked(self, of: object) -> None:
        """A cover by these rules and options begins."""
        self._changed.clear()
        if of != self.of:
            self.groups.clear()
            self.built = Built()
            self.of = of

    def reads(self, group: int) -> tuple[int, ...]:
        """Classes outside of a group that its forms read."""
        if not self._reads:
            s = self.subject
            inside = [frozenset(g) for g in s.order]
            self._reads = [tuple(dict.fromkeys(x for c in g for n in s.by_class[c] for x in n.enode.children if x not in own))
                           for g, own in zip(s.order, inside)]  # fmt: skip
        return self._reads[group]

    def cone(self, group: int) -> int:
        """A bit for each node that bodies of a group's classes may hold."""
        if not self._cones:
            s = self.subject
            at = {c: k for k, g in enumerate(s.order) for c in g}
            for k, g in enumerate(s.order):
                bits = 0
                for c in g:
                    for n in s.by_class[c]:
                        bits |= 1 << n.id
                for x in self.reads(k):
                    bits |= self._cones[at[x]] if x in at else 0
                self._cones.append(bits)
        return self._cones[group]

    def same(self, group: int, without: Without, watched: Callable[[frozenset[int]], Iterable[int]],
             cuts: dict[int, list[Cut]]) -> Group | None:  # fmt: skip
        """What a group had, where it has the same now."""
        found = self.groups.get(group)
        if found is None or any(cuts.get(x) is not held for x, held in found.reads):
            return None
        key = found.without, without
        if key not in self._changed:
            self._changed[key] = sum(1 << n for n in {n for w in found.without ^ without for n in watched(w)})
        return None if self._changed[key] & self.cone(group) else found
