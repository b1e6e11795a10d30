"""What a node's operands are in a body: loads or inlined bodies, joined from the first operand to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autocomp.egraph.cut import Cut
from autocomp.egraph.grammar import Operand


class Part(NamedTuple):
    """An operand's choice: a load (no cut) or an inlined body."""

    operand: Operand
    cls: int
    cut: Cut | None
    steps: frozenset[tuple[int, int, str]]
    flow: float


class Joined(NamedTuple):
    """Choices for the first operands of a node, and what they have together. `took`: what their leaves took, in ticks, one that several
    operands load once; `kinds`: how many there are of each kind, a digit a kind."""

    parts: tuple[Part, ...]
    leaves: frozenset[int]
    inside: frozenset[int]
    nodes: frozenset[int]
    took: int
    ops: int
    kinds: int

    def and_(self, new: Part, took: int, kinds: int) -> Joined:
        """(parts), new -> (parts, new)."""
        inside, nodes = (self.inside | new.cut.inside, self.nodes | new.cut.nodes) if new.cut else (self.inside, self.nodes)
        return Joined((*self.parts, new), self.leaves | new.operand.leaves, inside, nodes, took, self.ops + new.operand.ops, kinds)


NONE = Joined((), frozenset(), frozenset(), frozenset(), 0, 0, 0)

More = tuple[Joined, Part, int, int, int]  # choices, one more, and of both what their leaves took, their kinds, their operations


def joined(partial: Sequence[Joined], choices: Sequence[tuple[Part, int]], took: Mapping[int, int]) -> list[More]:
    """Each of `partial` with each choice, a part and its kind's digit, where no tensor is both loaded and computed inside, and an interior
    class has one node. `took`: ticks of each leaf. One loop without calls: concatenations ask for millions."""
    out: list[More] = []
    add = out.append
    known = [(o, o.operand.leaves, None if o.cut is None else (o.cut.inside, o.cut.nodes), o.operand.ops, n) for o, n in choices]
    for p in partial:
        _, leaves, inside, nodes, before, ops, kinds = p
        for o, mine, cut, own, n in known:
            if not mine.isdisjoint(inside):
                continue
            if cut is not None:
                held, has = cut
                if not held.isdisjoint(leaves):
                    continue
                if not held.isdisjoint(inside) and len(has & nodes) != len(held & inside):
                    continue
            add((p, o, before + sum([took[x] for x in mine if x not in leaves]), kinds + n, ops + own))
    return out
