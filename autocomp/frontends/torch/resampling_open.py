"""Resizing along an axis whose sizes are known when the program runs: which elements are read, and with what weight, is computed in f32 as
torch does it. (`resampling` has the tables for sizes that are numbers.)"""

from __future__ import annotations

from collections.abc import Callable

from autocomp.frontends.torch.call import Call
from autocomp.ir.node import Node
from autocomp.ir.types import F32, I64, Dim

Taps = list[tuple[Node, Node | None]]
"""(which element of the axis, with what weight) for each output element; None for a weight of 1."""


class Places:
    """The elements of an axis of x for each of `out` output elements. `factor`: how many outputs there are for one element, where torch is
    given that number."""

    def __init__(self, c: Call, x: Node, axis: int, out: Dim, factor: float | None, align: bool) -> None:
        self.c, self.align = c, align
        self.number = lambda v: c.b.const(v, F32)
        self.o = c.op("iota", shape=(out,), axis=0, dtype=F32.name)
        length = lambda y, k: c.cast(c.op("extent", y, axis=k, dtype=I64.name), F32)
        self.n, self.out = length(x, axis), length(self.o, 0)
        self.step = self.number(1 / factor) if factor else c.op("div", self.n, self.out)
        self.end = c.op("sub", c.op("extent", x, axis=axis, dtype=I64.name), c.b.const(1, I64))

    def element(self, at: Node) -> Node:
        """A whole number of f32 as an index within the axis."""
        return self.c.op("max", self.c.op("min", self.c.cast(at, I64), self.end), self.c.b.const(0, I64))

    def sources(self) -> Node:
        """Where each output element lies between those of x."""
        c, one = self.c, self.number(1)
        if self.align:
            return c.op("mul", self.o, c.op("div", c.op("sub", self.n, one), c.op("max", c.op("sub", self.out, one), one)))
        half = self.number(0.5)
        return c.op("sub", c.op("mul", c.op("add", self.o, half), self.step), half)


def nearest(p: Places) -> Taps:
    return [(p.element(p.c.op("floor", p.c.op("mul", p.o, p.step))), None)]


def nearest_exact(p: Places) -> Taps:
    return [(p.element(p.c.op("floor", p.c.op("mul", p.c.op("add", p.o, p.number(0.5)), p.step))), None)]


def linear(p: Places) -> Taps:
    c, one = p.c, p.number(1)
    x = c.op("max", p.sources(), p.number(0))
    low = c.op("min", c.op("floor", x), c.cast(p.end, F32))
    part = c.op("min", c.op("sub", x, low), one)
    return [(p.element(low), c.op("sub", one, part)), (p.element(c.op("add", low, one)), part)]


def cubic(free: float) -> Callable[[Places], Taps]:
    """Keys' kernel with its free number; neighbours beyond an end are the end."""

    def taps(p: Places) -> Taps:
        c = p.c
        series = lambda d, *factors: _series(p, d, factors)
        x = p.sources()
        low = c.op("floor", x)
        t = c.op("sub", x, low)
        found: Taps = []
        for k in range(4):
            d = c.op("abs", c.op("sub", t, p.number(k - 1)))
            near = k in (1, 2)
            weight = series(d, free + 2, -(free + 3), 0, 1) if near else series(d, free, -5 * free, 8 * free, -4 * free)
            found.append((p.element(c.op("add", low, p.number(k - 1))), weight))
        return found

    return taps


def _series(p: Places, d: Node, factors: tuple[float, ...]) -> Node:
    """A polynomial of d, highest power first."""
    y = p.number(factors[0])
    for f in factors[1:]:
        y = p.c.op("add", p.c.op("mul", y, d), p.number(f))
    return y


def weighted(c: Call, x: Node, axis: int, taps: Taps) -> Node:
    """The weighted sum of the elements along an axis."""
    total: Node | None = None
    for at, weight in taps:
        part = c.op("gather", x, at, axis=axis)
        if weight is not None:
            form = (*weight.type.shape, *[1] * (x.type.rank - axis - 1))
            part = c.op("mul", part, c.cast(c.op("reshape", weight, shape=form), x.type.dtype))
        total = part if total is None else c.op("add", total, part)
    assert total is not None
    return total
