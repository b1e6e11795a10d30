"""One body of a class: its leaves, its nodes, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autocomp.egraph.grammar import Record
from autocomp.ir.types import Dim

TICKS = 2.0**50  # a second: times are whole numbers of these, so that sums are the same in any order and in every layer
NONE_IN_PART: Mapping[int, float] = {}


class Cut(NamedTuple):
    """One body for class `cls`. `again`: how often an interior node is evaluated, where more than once an element.
    `steps`: (consumer node, operand, row) of every inlining. `top`: interior classes at the root's points (by-products). `part`: the share
    of a leaf that it reads, where that is not all of it."""

    cls: int
    leaves: frozenset[int]
    nodes: frozenset[int]
    inside: frozenset[int]
    record: Record
    ops: int
    again: Mapping[int, float]
    steps: frozenset[tuple[int, int, str]]
    top: frozenset[int]
    heavy: frozenset[int]
    part: Mapping[int, float] = NONE_IN_PART
    time: float = 0.0
    flow: float = 0.0

    def order(self) -> tuple[object, ...]:
        """Total order for ties."""
        return (len(self.nodes), sorted(self.leaves), sorted(self.nodes))

    def before(self, other: Cut) -> bool:
        """Is this one's flow less, or equal and its order less?"""
        return self.flow < other.flow or (self.flow == other.flow and self.order() < other.order())


def lacks(shape: Sequence[Dim], of: Sequence[Dim]) -> bool:
    """Whether a shape is another with one point of some axes in place of all."""
    return len(shape) == len(of) and shape != of and all(d in (1, e) for d, e in zip(shape, of))


def points(shape: Sequence[Dim]) -> list[Dim]:
    """A shape without its extents of 1."""
    return [d for d in shape if d != 1]


def whole(seconds: float) -> float:
    """The nearest whole number of ticks, in seconds."""
    return round(seconds * TICKS) / TICKS if seconds < 1e6 else seconds
