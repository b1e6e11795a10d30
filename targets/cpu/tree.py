"""The loop tree of a block: loops over elements and over tiles, contractions in register tiles, and statements at their leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Union

from autocomp.tile.program import Loop, Stmt


@dataclass(eq=False)
class Point:
    """Loop over the elements of an axis inside the current tile; `vector`: one step is a vector."""

    axis: str
    vector: bool
    body: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Tiles:
    """A loop of the program that steps from tile to tile."""

    loop: Loop
    body: list[Node]


@dataclass(eq=False)
class Contraction:
    """mma statements over the same output axes, run in register tiles.

    starts: accumulators that begin at zero (their fill is absorbed). epilogue: element-wise statements done on the
    registers. loop: the reduction's tile loop when it was pulled inside (then `starts` hold at its first step and the
    epilogue at its last).
    """

    mmas: list[Stmt]
    starts: frozenset[str]
    epilogue: list[Stmt]
    loop: Loop | None = None


Node = Union[Point, Tiles, Contraction, Stmt]


def statements(nodes: Sequence[Node]) -> Iterator[Stmt]:
    """All statements below, in order."""
    for n in nodes:
        if isinstance(n, Stmt):
            yield n
        elif isinstance(n, Contraction):
            yield from n.mmas
            yield from n.epilogue
        else:
            yield from statements(n.body)


def points(nodes: Sequence[Node]) -> Iterator[Point]:
    """All loops over elements below."""
    for n in nodes:
        if isinstance(n, Point):
            yield n
        if isinstance(n, (Point, Tiles)):
            yield from points(n.body)


def contractions(nodes: Sequence[Node]) -> Iterator[Contraction]:
    """All contractions below."""
    for n in nodes:
        if isinstance(n, Contraction):
            yield n
        elif not isinstance(n, Stmt):
            yield from contractions(n.body)
