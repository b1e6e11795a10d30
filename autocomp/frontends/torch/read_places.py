"""Places along a dimension that are read from a tensor i of one element. torch has a number for what it holds (u0).

    x[i], x.select(0, i)    select(x, 0, u0)                       ->  gather(x, i)
    x.narrow(0, i, k)       slice(x, 0, u0, u0 + k, of u0 = -k: n) ->  gather(x, i + (0, 1, .. k - 1))
    x[i] = y                select_scatter(x, y, 0, u0)            ->  y where the place along x is i, else x

A negative place counts from the end, and one outside reads the nearest element and writes none. A slice x[i : i + k] is not one of these:
torch gives it fewer than k elements where it does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autocomp.frontends.torch.call import Call
from autocomp.frontends.torch.sizes import is_size
from autocomp.ir.node import Node
from autocomp.ir.types import I64, Dim

if TYPE_CHECKING:
    from autocomp.frontends.torch.export import Reader

FIRST = {"select": 2, "slice": 2, "select_scatter": 3, "slice_scatter": 3}
"""Operator -> which argument is the place. That of a slice has its end behind it."""


def read_places(reader: Reader, node: Any, name: str, where: str) -> dict[int, Any]:
    """Arguments of a node that are read from tensors, by their numbers: the place as a scalar of i64, and of a slice in the place of its
    end how many there are. None where the node has no such."""
    at = FIRST.get(name, 0)
    given = node.args[at : at + 3]
    start = _number(reader, given[0]) if at and given else None
    if start is None or not _is_read(reader, start):
        return {}
    place = reader.sizes.scalar(start, where)
    if name.startswith("select"):
        return {at: place}
    end: Any = _number(reader, given[1]) if len(given) > 1 else None
    if len(given) != 2 or not is_size(end) or (count := _count(start.node.expr, end.node.expr)) is None:
        return {}
    sizes = node.meta["val"].shape if name == "slice" else ()
    for d in sizes:
        if is_size(d) and d.node.expr.is_symbol and d.node.shape_env.is_unbacked_symint(d.node.expr):
            reader.counts.setdefault(d.node.expr, count)
    return {at: place, at + 1: count}


def _number(reader: Reader, a: Any) -> Any:
    return reader.values[a] if hasattr(a, "meta") else a


def _is_read(reader: Reader, x: Any) -> bool:
    return is_size(x) and not x.node.expr.free_symbols.isdisjoint(reader.sizes.read)


def _count(start: Any, end: Any) -> int | None:
    """The k of `narrow`, whose end is start + k, and n where that is 0 and start negative. None of other slices."""
    from sympy import Piecewise

    wraps = (end - start).atoms(Piecewise)
    rest = (end - start).xreplace(dict.fromkeys(wraps, 0)).expand()
    return int(rest) if len(wraps) == 1 and rest.is_Integer and rest > 0 else None


def places(c: Call, x: Node, axis: int, place: Node, count: int | None = None) -> Node:
    """The places along an axis from one on: a scalar, or a vector of `count`."""
    n = x.type.shape[axis]
    length = c.b.const(n, I64) if isinstance(n, int) else c.op("extent", x, axis=axis, dtype=I64.name)
    place = c.cast(place, I64)
    place = c.op("where", c.op("lt", place, c.b.const(0, I64)), c.op("add", place, length), place)
    return place if count is None else c.op("add", place, c.op("iota", shape=(count,), axis=0, dtype=I64.name))


def written_at(c: Call, x: Node, source: Node, axis: int, place: Node, count: int) -> Node:
    """x with `source` [.., count, ..] at the places along an axis from one on."""
    shape = x.type.shape
    lies: tuple[Dim, ...] = tuple(d if k == axis else 1 for k, d in enumerate(shape))
    behind = c.op("sub", c.op("iota", shape=(shape[axis],), axis=0, dtype=I64.name), places(c, x, axis, place))
    inside = c.op("and", c.op("ge", behind, c.b.const(0, I64)), c.op("lt", behind, c.b.const(count, I64)))
    row = c.op("max", c.op("min", behind, c.b.const(count - 1, I64)), c.b.const(0, I64))
    inside = c.op("broadcast", c.op("reshape", inside, shape=lies), shape=shape)
    source = c.op("broadcast", source, shape=shape) if count == 1 else c.op("gather", source, row, axis=axis)
    return c.op("where", inside, source, x)
