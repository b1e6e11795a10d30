"""What a node's operands are in a body: loads or inlined bodies, joined from the first operand to the last."""

from __future__ import annotations

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

    @property
    def ops(self) -> int:
        return self.operand.ops


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

    def joins(self, new: Part) -> bool:
        """No tensor both loaded and computed inside, one node an interior class."""
        if not new.operand.leaves.isdisjoint(self.inside):
            return False
        if new.cut is None:
            return True
        if not new.cut.inside.isdisjoint(self.leaves):
            return False
        shared = new.cut.inside & self.inside
        return not shared or len(new.cut.nodes & self.nodes) == len(shared)

    def and_(self, new: Part, took: int, kinds: int) -> Joined:
        """(parts), new -> (parts, new)."""
        inside, nodes = (self.inside | new.cut.inside, self.nodes | new.cut.nodes) if new.cut else (self.inside, self.nodes)
        return Joined((*self.parts, new), self.leaves | new.operand.leaves, inside, nodes, took, self.ops + new.ops, kinds)


NONE = Joined((), frozenset(), frozenset(), frozenset(), 0, 0, 0)
