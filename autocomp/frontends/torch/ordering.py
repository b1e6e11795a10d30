"""ATen operators that sort, rank or search: orders of elements along an axis."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import Call, axis_of, row
from autocomp.frontends.torch.pointwise import common_type
from autocomp.frontends.torch.views import sliced
from autocomp.ir.monoids import neutral
from autocomp.ir.node import Node
from autocomp.ir.sizes import linear, product, quotient, size_of, total
from autocomp.ir.types import BOOL, F32, I32, I64, SHORT_FLOATS, U8, Dim, Sym


def ranked(c: Call, x: Node, axis: int, k: int | None = None, largest: bool = False) -> tuple[Node, Node]:
    """(values, indices) of the first k elements along an axis in order, all by default; ties keep the lower index first, NaN is the
    largest, as in torch."""
    n = x.type.shape[axis]
    if isinstance(n, Sym) and k is not None and k > n.lo:
        raise c.refuse(f"takes {k} of the symbolic dimension {axis} of {x.type}, which may be {n.lo}", f"give it at least {k}")
    y = c.cast(x, U8) if x.type.dtype == BOOL else x
    values, indices = (c.op("topk", y, k=n if k is None else k, axis=axis, largest=largest, part=p) for p in ("values", "indices"))
    return c.cast(values, x.type.dtype), indices


@row("sort", "argsort")
def _sort(c: Call, x: Node, *args: Any, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    """sort(x, dim, descending), or sort.stable(x, stable=, dim=, descending=)."""
    if args and isinstance(args[0], bool):
        args = args[1:]
    dim, descending = (*args, dim, descending)[:2] if len(args) != 1 else (args[0], descending)
    both = ranked(c, x, axis_of(x, dim), largest=descending) if x.type.rank else (x, c.b.const(0, I64))
    return both[1] if c.name == "argsort" else both


@row("kthvalue")
def _kth(c: Call, x: Node, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Node, Node]:
    if not x.type.rank:
        return x, c.b.const(0, I64)
    axis = axis_of(x, dim)
    values, indices = ranked(c, x, axis, k)
    return _at(c, values, axis, k - 1, keepdim), _at(c, indices, axis, k - 1, keepdim)


@row("median", "nanmedian")
def _median(c: Call, x: Node, dim: Any = None, keepdim: bool = False) -> Any:
    """The lower of two in the middle. median is NaN where an element is, nanmedian counts those that are none."""
    if not x.type.rank:
        return x if dim is None else (x, c.b.const(0, I64))
    if dim is None:
        x, axis = c.op("reshape", x, shape=(product(x.type.shape),)), 0
    else:
        axis = axis_of(x, dim)
    n = x.type.shape[axis]
    if not n:
        raise c.refuse(f"has no middle in {x.type}")
    values, indices = ranked(c, x, axis)
    if c.name == "nanmedian" and x.type.dtype.is_float:
        found = _median_of_numbers(c, x, values, indices, axis, keepdim)
        return found[0] if dim is None else found
    k, end = size_of(quotient(linear(total([(n, 1)], -1)), 2)), total([(n, 1)], -1)
    value, index = _at(c, values, axis, k, keepdim), _at(c, indices, axis, k, keepdim)
    if x.type.dtype.is_float:  # NaN is the largest: the last one tells
        last = _at(c, values, axis, end, keepdim)
        where = c.op("reduce_argmax", c.cast(c.op("isnan", x), I32), axes=(axis,), keepdims=keepdim)
        odd = c.op("isnan", last)
        value, index = c.op("where", odd, last, value), c.op("where", odd, where, index)
    return value if dim is None else (value, index)


def _median_of_numbers(c: Call, x: Node, values: Node, indices: Node, axis: int, keepdim: bool) -> tuple[Node, Node]:
    """The middle of the first elements in order, which are those that are not NaN; NaN where all are."""
    number = lambda v: c.b.const(v, I64)
    count = c.op("reduce_sum", c.cast(c.op("not", c.op("isnan", x)), I64), axes=(axis,), keepdims=True)
    middle = c.op("floordiv", c.op("max", c.op("sub", count, number(1)), number(0)), number(2))
    here = c.op("eq", c.op("iota", shape=x.type.shape, axis=axis, dtype=I64.name), middle)
    pick = lambda v: c.op("reduce_max", c.op("where", here, v, number(-1)), axes=(axis,), keepdims=True)
    place = pick(indices)
    value = c.op("gather_elements", x, place, axis=axis)
    shape = place.type.shape if keepdim else tuple(d for k, d in enumerate(x.type.shape) if k != axis)
    return c.op("reshape", value, shape=shape), c.op("reshape", place, shape=shape)


@row("mode")
def _mode(c: Call, x: Node, dim: int = -1, keepdim: bool = False) -> tuple[Node, Node]:
    """(the value that most elements along an axis have, the least of several, where it last is): each is compared with each."""
    if not x.type.rank:
        return x, c.b.const(0, I64)
    axis, d = axis_of(x, dim), x.type.dtype
    if not x.type.shape[axis]:
        raise c.refuse(f"has no elements in {x.type}")
    y = c.cast(x, U8) if d == BOOL else x
    place = lambda at: c.op("reshape", y, shape=(*x.type.shape[:at], 1, *x.type.shape[at:]))
    same = c.cast(c.op("eq", place(axis), place(axis + 1)), I64)
    often = c.op("reduce_sum", same, axes=(axis,), keepdims=False)
    often = c.op("max", often, c.b.const(1, I64)) if d.is_float else often  # NaN, which is not even itself
    chosen = c.op("eq", often, c.op("reduce_max", often, axes=(axis,), keepdims=True))
    chosen = c.op("and", chosen, c.op("not", c.op("isnan", y))) if d.is_float else chosen
    most = c.b.const(neutral("min", y.type.dtype), y.type.dtype)
    least = c.op("reduce_min", c.op("where", chosen, y, most), axes=(axis,), keepdims=True)
    here = c.op("and", chosen, c.op("eq", y, least))  # nowhere where all are NaN: then the first
    number = c.op("iota", shape=x.type.shape, axis=axis, dtype=I64.name)
    index = c.op("reduce_max", c.op("where", here, number, c.b.const(0, I64)), axes=(axis,), keepdims=True)
    value = c.op("gather_elements", x, index, axis=axis)
    shape = index.type.shape if keepdim else tuple(n for k, n in enumerate(x.type.shape) if k != axis)
    return c.op("reshape", value, shape=shape), c.op("reshape", index, shape=shape)


def _at(c: Call, x: Node, axis: int, k: Dim, keepdim: bool) -> Node:
    """x[.., k, ..]."""
    y = sliced(c, x, axis, k, total([(k, 1)], 1))
    return y if keepdim else c.op("reshape", y, shape=(*x.type.shape[:axis], *x.type.shape[axis + 1 :]))


@row("bucketize")
def _bucketize(c: Call, x: Any, boundaries: Node, *, out_int32: bool = False, right: bool = False) -> Node:
    """How many boundaries lie below each element (`right`: below or at it)."""
    assert c.out is not None
    x = c.value(x, boundaries.type.dtype) if not isinstance(x, Node) else x
    return c.cast(_below(c, boundaries, c.op("reshape", x, shape=(*x.type.shape, 1)), right), c.out.dtype)


@row("searchsorted")
def _searchsorted(c: Call, boundaries: Node, x: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
                  sorter: Node | None = None) -> Node:  # fmt: skip
    """The same, by rows of boundaries where they have more than one dimension."""
    assert c.out is not None
    x = c.value(x, boundaries.type.dtype) if not isinstance(x, Node) else x
    if sorter is not None:
        boundaries = c.op("gather_elements", boundaries, sorter, axis=boundaries.type.rank - 1)
    if boundaries.type.rank > 1:
        boundaries = c.op("reshape", boundaries, shape=(*boundaries.type.shape[:-1], 1, boundaries.type.shape[-1]))
    right = right or side == "right"
    return c.cast(_below(c, boundaries, c.op("reshape", x, shape=(*x.type.shape, 1)), right), c.out.dtype)


@row("histc")
def _histc(c: Call, x: Node, bins: int = 100, min: Any = 0, max: Any = 0) -> Node:
    """How many elements lie in each of `bins` intervals of equal length from min to max, of which the last one holds its end; between the
    least and the largest element where min is max."""
    d, n = x.type.dtype, product(x.type.shape)
    flat = c.op("reshape", c.cast(x, F32) if d in SHORT_FLOATS else x, shape=(n,))
    wide = flat.type.dtype
    number = lambda v: c.b.const(v, wide)
    low, high = number(min), number(max)
    if min == max and n:
        low, high = (c.op(f"reduce_{m}", flat, axes=(0,), keepdims=False) for m in ("min", "max"))
        one = c.op("eq", low, high)
        low, high = (c.op("where", one, c.op(f, v, number(1)), v) for f, v in (("sub", low), ("add", high)))
    inside = c.op("and", c.op("ge", flat, low), c.op("le", flat, high))
    place = c.op("mul", c.op("sub", flat, low), number(bins))
    place = c.op("div" if wide.is_float else "floordiv", place, c.op("sub", high, low))
    place = c.op("where", inside, place, number(-1))  # before it is an integer: what lies outside may have none
    place = c.op("min", c.cast(place, I64), c.b.const(bins - 1, I64))
    at = c.op("iota", shape=(bins, n), axis=0, dtype=I64.name)
    here = c.op("eq", at, c.op("reshape", place, shape=(1, n)))
    return c.cast(c.op("reduce_sum", c.cast(here, I64), axes=(1,), keepdims=False), d)


@row("repeat_interleave")
def _repeated(c: Call, repeats: Node, output_size: Any = None, **_: Any) -> Node:
    """The number of each element as often as it says, where how many there are in all is given."""
    if output_size is None:
        raise c.refuse("how many elements there are depends on data", "give its output_size")
    return c.cast(at_or_below(c, c.op("cumsum", repeats, axis=0), output_size), repeats.type.dtype)


def at_or_below(c: Call, boundaries: Node, n: Dim) -> Node:
    """For each number under n how many ascending boundaries are at or below it, i64[n]."""
    at = c.op("iota", shape=(n, 1), axis=0, dtype=I64.name)
    return _below(c, c.cast(boundaries, I64), at, True)


def _below(c: Call, boundaries: Node, x: Node, right: bool) -> Node:
    """NaN is above all boundaries, as it is not at or below one."""
    d = common_type(x, boundaries)
    beyond = c.op("not", c.op("gt" if right else "ge", c.cast(boundaries, d), c.cast(x, d)))
    return c.op("reduce_sum", c.cast(beyond, I64), axes=(beyond.type.rank - 1,), keepdims=False)
