"""ATen's grid_sampler: images read at places that a tensor gives, as sums of their looked-up and weighted neighbours."""

from __future__ import annotations

import itertools
from functools import reduce

from autocomp.frontends.torch.call import Call, row
from autocomp.ir.node import Node
from autocomp.ir.sizes import product
from autocomp.ir.types import F32, I64, SHORT_FLOATS, DType

ZEROS, BORDER, REFLECTION = range(3)
BILINEAR, NEAREST, BICUBIC = range(3)
CUBIC = -0.75  # the free number of Keys' kernel, as torch has it


@row("grid_sampler_2d", "grid_sampler_3d")
def _grid_sampler(c: Call, x: Node, grid: Node, mode: int, padding: int, align: bool) -> Node:
    """out[n, c, places] = sum over the neighbours of grid[n, places] of weight * x[n, c, neighbour]."""
    rank, dtype = x.type.rank - 2, x.type.dtype
    n, channels, *sizes = x.type.shape
    if 0 in x.type.shape:
        raise c.refuse(f"samples {x.type} at {grid.type}", "give images with elements")
    places = grid.type.shape[1:-1]
    axes = Axes(c, F32 if dtype in SHORT_FLOATS else dtype, padding, align)
    taps = [axes.taps(axes.column(grid, rank - 1 - k), axes.length(x, k + 2), mode) for k in range(rank)]
    steps = steps_of(c, x)
    rows = c.op("transpose", x, perm=(0, *range(2, rank + 2), 1))
    rows = c.op("reshape", rows, shape=(product((n, *sizes)), channels))
    first = c.op("iota", shape=(n, *[1] * len(places)), axis=0, dtype=I64.name)
    first = c.op("mul", first, steps[0])
    total: Node | None = None
    for corner in itertools.product(*taps):
        at: Node = first
        weight: Node | None = None
        inside: Node | None = None
        for k, (i, w, keep) in enumerate(corner):
            at = c.op("add", at, c.op("mul", i, steps[k + 1]))
            weight = w if weight is None or w is None else c.op("mul", weight, w)
            inside = keep if inside is None or keep is None else c.op("and", inside, keep)
        value = c.cast(c.op("gather", rows, at, axis=0), axes.dtype)
        spread = lambda v: c.op("reshape", v, shape=(n, *places, 1))
        if inside is not None:
            value = c.op("where", spread(inside), value, c.b.const(0, axes.dtype))
        if weight is not None:
            value = c.op("mul", value, spread(weight))
        total = value if total is None else c.op("add", total, value)
    assert total is not None
    return c.cast(c.op("transpose", total, perm=(0, rank + 1, *range(1, rank + 1))), dtype)


def steps_of(c: Call, x: Node) -> list[Node]:
    """Of images [n, channels, ..]: how many places lie in one of them, in one of its rows, .., as scalars of i64."""
    number, open_ = 1, list[Node]()  # the product of the sizes that are numbers, and the others
    steps = [c.b.const(1, I64)]
    for axis in reversed(range(2, x.type.rank)):
        d = x.type.shape[axis]
        if isinstance(d, int):
            number *= d
        else:
            open_.append(c.op("extent", x, axis=axis, dtype=I64.name))
        steps.append(reduce(lambda y, n: c.op("mul", y, n), open_, c.b.const(number, I64)))
    return steps[::-1]


class Axes:
    """What is the same for each axis: the type to compute in, what lies beyond the ends, whether -1 and 1 are centres or edges."""

    def __init__(self, c: Call, dtype: DType, padding: int, align: bool) -> None:
        self.c, self.dtype, self.padding, self.align = c, dtype, padding, align

    def do(self, op: str, x: Node, v: float | Node) -> Node:
        return self.c.op(op, x, self.c.value(v, x.type.dtype))

    def length(self, x: Node, axis: int) -> int | Node:
        """An axis' size: a number, or a scalar in the type of the coordinates."""
        d = x.type.shape[axis]
        return d if isinstance(d, int) else self.c.op("extent", x, axis=axis, dtype=self.dtype.name)

    def line(self, n: int | Node, times: float, more: float) -> float | Node:
        """n times a number and another more."""
        return self.do("add", self.do("mul", n, times), more) if isinstance(n, Node) else n * times + more

    def column(self, grid: Node, k: int) -> Node:
        last = grid.type.rank - 1
        starts, limits = [0] * (last + 1), [*grid.type.shape]
        starts[last], limits[last] = k, k + 1
        part = self.c.op("slice", grid, starts=tuple(starts), limits=tuple(limits), steps=(1,) * (last + 1))
        return self.c.cast(self.c.op("reshape", part, shape=grid.type.shape[:last]), self.dtype)

    def taps(self, v: Node, n: int | Node, mode: int) -> list[tuple[Node, Node | None, Node | None]]:
        """(element, weight or None for 1, whether it lies inside or None for always) of the neighbours of a coordinate."""
        v = self.pixel(v, n)
        if mode == BICUBIC:
            low = self.c.op("floor", v)
            weights = self.cubic(self.c.op("sub", v, low))
            return [self.element(self.moved(self.do("add", low, k - 1.0), n), n, w) for k, w in enumerate(weights)]
        v = self.moved(v, n)
        if mode == NEAREST:
            return [self.element(self.c.op("round", v), n, None)]
        low = self.c.op("floor", v)
        t = self.c.op("sub", v, low)
        rest = self.c.op("sub", self.c.b.const(1, self.dtype), t)
        return [self.element(low, n, rest), self.element(self.do("add", low, 1.0), n, t)]

    def pixel(self, v: Node, n: int | Node) -> Node:
        """A coordinate of the grid, -1 to 1, in elements."""
        v = self.do("add", v, 1.0)
        return self.do("mul", v, self.line(n, 0.5, -0.5)) if self.align else self.do("mul", self.do("sub", self.do("mul", v, n), 1.0), 0.5)

    def element(self, i: Node, n: int | Node, weight: Node | None) -> tuple[Node, Node | None, Node | None]:
        inside = None
        if self.padding == ZEROS:
            inside = self.c.op("and", self.do("ge", i, 0), self.do("le", i, self.line(n, 1, -1)))
        return self.c.cast(self.between(i, n), I64), weight, inside

    def between(self, v: Node, n: int | Node) -> Node:
        """Inside the axis, whatever v is: of NaN the first."""
        v = self.c.op("where", self.do("ge", v, 0), v, self.c.b.const(0, self.dtype))
        return self.do("min", v, self.line(n, 1, -1))

    def moved(self, v: Node, n: int | Node, held: bool = True) -> Node:
        """A coordinate as the padding moves it: onto the ends, or mirrored at them, and then `held` between them."""
        if self.padding == ZEROS:
            return v
        if self.padding == REFLECTION:
            lo, less = (0.0, 1.0) if self.align else (-0.5, 0.0)
            if n == 1 and self.align:
                v = self.do("mul", v, 0.0)
            else:
                turn = self.line(n, 2.0, -2 * less)
                at = self.do("mod", self.c.op("abs", self.do("sub", v, lo)), turn)
                back = self.c.op("sub", self.c.value(turn, self.dtype), at)
                v = self.do("add", self.c.op("min", at, back), lo)
        return self.between(v, n) if held else v

    def cubic(self, t: Node) -> list[Node]:
        """Keys' weights of the neighbours at distances t + 1, t, 1 - t and 2 - t."""
        a, rest = CUBIC, self.c.op("sub", self.c.b.const(1, self.dtype), t)

        def far(d: Node) -> Node:
            y = self.do("sub", self.do("mul", d, a), 5 * a)
            y = self.do("add", self.c.op("mul", y, d), 8 * a)
            return self.do("sub", self.c.op("mul", y, d), 4 * a)

        def near(d: Node) -> Node:
            y = self.do("sub", self.do("mul", d, a + 2), a + 3)
            return self.do("add", self.c.op("mul", self.c.op("mul", y, d), d), 1.0)

        return [far(self.do("add", t, 1.0)), near(t), near(rest), far(self.do("add", rest, 1.0))]
