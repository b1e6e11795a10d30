"""Look-ups and scatters by index."""

from __future__ import annotations

import numpy as np

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.pointwise import cast
from autocomp.frontends.onnx.registry import lower
from autocomp.frontends.onnx.shapes import cut, reshape
from autocomp.ir.node import Node
from autocomp.ir.types import I64


@lower("Gather")
def gather(c: Call) -> Node:
    x, at = c.x(0), c.x(1)
    axis = c.axis(c.int_attr("axis", 0), x.type.rank)
    if c.importer.constants.is_constant(at) and at.type.rank == 0 and isinstance(x.type.shape[axis], int):
        d, k = x.type.shape[axis], int(c.static(1))
        if not -d <= k < d:  # type: ignore[operator]
            c.broken(f"index {k} is out of range for a dimension of {d}")
        y = cut(c, x, {axis: (k % d, k % d + 1, 1)})  # type: ignore[operator]
        return reshape(c, y, x.type.shape[:axis] + x.type.shape[axis + 1 :])
    return c.op("gather", x, at, axis=axis)


@lower("GatherElements")
def gather_elements(c: Call) -> Node:
    return c.op("gather_elements", c.x(0), c.x(1), axis=c.axis(c.int_attr("axis", 0), c.x(0).type.rank))


@lower("GatherND")
def gather_nd(c: Call) -> Node:
    return c.op("gather_nd", c.x(0), cast(c, c.x(1), I64), batch_dims=c.int_attr("batch_dims", 0))


@lower("OneHot")
def one_hot(c: Call) -> Node:
    at, depth = cast(c, c.x(0), I64), int(c.static(1).reshape(-1)[0])
    return c.op("one_hot", at, c.x(2), depth=depth, axis=c.axis(c.int_attr("axis", -1), at.type.rank + 1))


@lower("ScatterElements", "Scatter")
def scatter_elements(c: Call) -> Node:
    x = c.x(0)
    axis = c.axis(c.int_attr("axis", 0), x.type.rank)
    return c.op("scatter_elements", x, c.x(1), c.x(2), axis=axis, reduction=c.str_attr("reduction", "none"))


@lower("ScatterND")
def scatter_nd(c: Call) -> Node:
    return c.op("scatter_nd", c.x(0), c.x(1), c.x(2), reduction=c.str_attr("reduction", "none"))


@lower("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(c: Call) -> Node:
    x, at = c.x(0), reshape(c, c.x(1), (c.x(1).type.elements,))
    return c.op("gather", x if x.type.rank > 1 else reshape(c, x, (1, *x.type.shape)), at, axis=max(x.type.rank - 1, 1))


@lower("ReverseSequence")
def reverse_sequence(c: Call) -> Node:
    x, lengths = c.x(0), cast(c, c.x(1), I64)
    batch, time = c.axis(c.int_attr("batch_axis", 1), x.type.rank), c.axis(c.int_attr("time_axis", 0), x.type.rank)
    shape = c.shape(x)
    t = c.importer.node("iota", [], {"shape": shape, "axis": time})
    n = reshape(c, lengths, tuple(d if k == batch else 1 for k, d in enumerate(shape)))
    return c.op("gather_elements", x, c.op("where", c.op("lt", t, n), c.op("sub", c.op("sub", n, 1), t), t), axis=time)


@lower("Compress")
def compress(c: Call) -> Node:
    """Elements whose condition holds; the condition must be known while compiling, since it decides the shape."""
    x, keep = c.x(), c.static(1).reshape(-1).astype(bool)
    if "axis" not in c.attrs:
        x, axis = reshape(c, x, (x.type.elements,)), 0
    else:
        axis = c.axis(c.int_attr("axis"), x.type.rank)
    if len(keep) > c.shape(x)[axis]:
        c.broken(f"has {len(keep)} conditions for a dimension of {c.shape(x)[axis]}")
    return c.op("gather", x, c.array(np.flatnonzero(keep), I64), axis=axis)


@lower("TensorScatter")
def tensor_scatter(c: Call) -> Node:
    """past[b, p] is replaced by update[b, p - write[b]] where that exists; `circular` counts modulo the cache's length."""
    past, update = c.x(0), c.x(1)
    rank, mode = past.type.rank, c.str_attr("mode", "linear")
    axis = c.axis(c.int_attr("axis", -2), rank)
    length, count = c.shape(past)[axis], c.shape(update)[axis]
    if mode not in ("linear", "circular") or axis == 0:
        c.broken(f"has mode '{mode}' and axis {axis}")
    place = c.importer.node("iota", [], {"shape": c.shape(past), "axis": axis})
    if c.has(2):
        place = c.op("sub", place, reshape(c, cast(c, c.x(2), I64), (past.type.shape[0], *[1] * (rank - 1))))
    if mode == "circular":
        place = c.op("mod", place, length)
    new = c.op("gather_elements", update, c.op("min", c.op("max", place, 0), count - 1), axis=axis)
    return c.op("where", c.op("and", c.op("ge", place, 0), c.op("lt", place, count)), new, past)


MAX_DETERMINANT = 4
"""Rows of a determinant that is expanded by minors."""


@lower("Det")
def det(c: Call) -> Node:
    x = c.x()
    n = c.shape(x)[-1]
    if x.type.rank < 2 or c.shape(x)[-2] != n or n == 0:
        c.broken(f"takes square matrices, not {x.type}")
    if n > MAX_DETERMINANT:
        c.refuse(f"is of {n} rows; up to {MAX_DETERMINANT} are expanded", hint="move it out of the model")
    lead, last = x.type.shape[:-2], x.type.rank - 1
    at = [[reshape(c, cut(c, x, {last - 1: (i, i + 1, 1), last: (j, j + 1, 1)}), lead) for j in range(n)] for i in range(n)]

    def minor(row: int, columns: tuple[int, ...]) -> Node:
        if len(columns) == 1:
            return at[row][columns[0]]
        total: Node | None = None
        for k, j in enumerate(columns):
            term = c.op("mul", at[row][j], minor(row + 1, columns[:k] + columns[k + 1 :]))
            total = term if total is None else c.op("sub" if k % 2 else "add", total, term)
        assert total is not None
        return total

    return minor(0, tuple(range(n)))
