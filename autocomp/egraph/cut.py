"""One body of a class: its leaves, its nodes, and what is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from autocomp.egraph.grammar import Record
from autocomp.ir.types import Dim

TICKS = 2.0**50  # a second: times are whole numbers of these, so that sums are the same in any order and in every layer
LAST = 1e3  # times its price that a cut without a schedule takes, where a cover is to be made of those that have one
NONE_IN_PART: Mapping[int, float] = {}


class Cut(NamedTuple):
    """One body for class `cls`. `again`: how often an interior node is evaluated, where more than once an element.
    `steps`: (consumer node, operand, row) of every inlining. `top`: interior classes at the root's points (by-products). `part`: the share
    of a leaf that it reads, where that is not all of it. `number`: of its body among those of one subject (`held.Built`)."""

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
    number: int = -1
    time: float = 0.0
    flow: float = 0.0

    def key(self, extra: Iterable[int] = ()) -> tuple[object, ...]:
        """What a cut of any cover of one subject is known by; `extra`: by-products that it stores."""
        return key_of(self.cls, self.leaves, self.nodes, extra)

    def alike(self) -> tuple[object, ...]:
        """What cuts have in common that take about as many times what their prices say: reductions and products, and the body's kind."""
        return (self.heavy, self.record.kind)

    def order(self) -> tuple[object, ...]:
        """Total order for ties."""
        return (len(self.nodes), sorted(self.leaves), sorted(self.nodes))

    def taking(self, time: float, flow: float) -> Cut:
        """The cut with these seconds."""
        return Cut(*self[:-2], time, flow)

    def before(self, other: Cut) -> bool:
        """Is this one's flow less, or equal and its order less?"""
        return self.flow < other.flow or (self.flow == other.flow and self.order() < other.order())


def key_of(cls: int, leaves: frozenset[int], nodes: frozenset[int], extra: Iterable[int] = ()) -> tuple[object, ...]:
    """`Cut.key` of a cut that is not made yet."""
    return (cls, leaves, nodes, frozenset(extra))


@dataclass
class Known:
    """What cuts of earlier covers take by their schedules. `seconds`: of each (`Cut.key`); `times`: what they take of what their prices
    say, the least of those alike (`Cut.alike`), `typical` where there are none. `settled`: others are taken where there is no way without
    them alone."""

    seconds: dict[tuple[object, ...], float] = field(default_factory=dict)
    times: dict[tuple[object, ...], float] = field(default_factory=dict)
    typical: float = 1.0
    settled: bool = False
    roofs: set[tuple[object, ...]] = field(default_factory=set)  # cuts of which `seconds` has what they take that store by-products too

    def add(self, key: tuple[object, ...], alike: tuple[object, ...], seconds: float, said: float) -> None:
        """One more cut, whose price said so many seconds; without its by-products it takes no more."""
        if key not in self.seconds or key in self.roofs:
            self.roofs.discard(key)
            self.seconds[key] = seconds
            plain: tuple[object, ...] = (*key[:-1], frozenset())
            if plain not in self.seconds:
                self.seconds[plain] = seconds
                self.roofs.add(plain)
            self.times[alike] = min(self.times.get(alike, inf), max(1.0, seconds / max(said, 1e-12)))

    def bodies(self) -> dict[int, list[frozenset[int]]]:
        """For each node those of the known cuts that hold it."""
        out: dict[int, list[frozenset[int]]] = {}
        for nodes in {key[2] for key in self.seconds}:
            assert isinstance(nodes, frozenset)
            for n in nodes:
                out.setdefault(n, []).append(nodes)
        return out

    def of(self, cut: Cut, extra: Iterable[int], said: float) -> float:
        """Seconds of a cut: known ones, else what its price says by what cuts like it took of theirs."""
        known = self.seconds.get(cut.key(extra))
        if known is None:
            return said * self.times.get(cut.alike(), self.typical) * (LAST if self.settled else 1.0)
        return known


def lacks(shape: Sequence[Dim], of: Sequence[Dim]) -> bool:
    """Whether a shape is another with one point of some axes in place of all."""
    return len(shape) == len(of) and shape != of and all(d in (1, e) for d, e in zip(shape, of))


def points(shape: Sequence[Dim]) -> list[Dim]:
    """A shape without its extents of 1."""
    return [d for d in shape if d != 1]


def whole(seconds: float) -> float:
    """The nearest whole number of ticks, in seconds."""
    return round(seconds * TICKS) / TICKS if seconds < 1e6 else seconds
