"""ATen operators over the elements up to each position along an axis, beside running sums and products: extrema and their places, sums of
exponentials. The sums are reductions over the whole axis in which what lies behind the position is masked."""

from __future__ import annotations

from autocomp.frontends.torch.call import Call, axis_of, row
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, F32, I64, SHORT_FLOATS, U8


class Prefixes:
    """The elements of x (.., n, ..) up to each position of an axis, as (.., n, n, ..): positions, then elements."""

    def __init__(self, c: Call, x: Node, axis: int) -> None:
        n = x.type.shape[axis]
        self.c, self.axis = c, axis
        self.shape = (*x.type.shape[:axis], n, *x.type.shape[axis:])
        self.place = c.op("iota", shape=self.shape, axis=axis + 1, dtype=I64.name)
        self.inside = c.op("le", self.place, c.op("iota", shape=self.shape, axis=axis, dtype=I64.name))

    def elements(self, x: Node) -> Node:
        return self._along(x, self.axis)

    def positions(self, x: Node) -> Node:
        return self._along(x, self.axis + 1)

    def _along(self, x: Node, new: int) -> Node:
        apart = self.c.op("reshape", x, shape=(*x.type.shape[:new], 1, *x.type.shape[new:]))
        return self.c.op("broadcast", apart, shape=self.shape)

    def reduced(self, op: str, values: Node, otherwise: Node) -> Node:
        return self.c.op(op, self.c.op("where", self.inside, values, otherwise), axes=(self.axis + 1,), keepdims=False)


@row("cummax", "cummin")
def _extrema(c: Call, x: Node, dim: int) -> tuple[Node, Node]:
    """(values, places): of equal ones the last, and from the first NaN on NaN."""
    if not x.type.rank:
        return x, c.b.const(0, I64)
    if 0 in x.type.shape:
        return x, c.op("broadcast", c.b.const(0, I64), shape=x.type.shape)
    axis, y = axis_of(x, dim), c.cast(x, U8) if x.type.dtype == BOOL else x
    best = c.op(c.name, y, axis=axis)
    same = c.op("eq", y, best)  # there an element is the largest so far, and the last such place in front of any is its extremum's
    if y.type.dtype.is_float:
        same = c.op("or", same, c.op("isnan", y))
    place = c.op("where", same, c.op("iota", shape=y.type.shape, axis=axis, dtype=I64.name), c.b.const(-1, I64))
    return c.cast(best, x.type.dtype), c.op("cummax", place, axis=axis)


@row("logcumsumexp")
def _sums_of_exponentials(c: Call, x: Node, dim: int) -> Node:
    """log(sum exp(x)) up to each position, about the largest of them."""
    if not x.type.rank or 0 in x.type.shape:
        return x
    axis, y = axis_of(x, dim), c.cast(x, F32) if x.type.dtype in SHORT_FLOATS else x
    prefixes = Prefixes(c, y, axis)
    largest = c.op("cummax", y, axis=axis)
    zero = c.b.const(0, y.type.dtype)
    endless = c.op("or", c.op("isinf", largest), c.op("isnan", largest))
    about = c.op("where", endless, zero, largest)
    terms = c.op("exp", c.op("sub", prefixes.elements(y), prefixes.positions(about)))
    return c.cast(c.op("add", c.op("log", prefixes.reduced("reduce_sum", terms, zero)), about), x.type.dtype)
