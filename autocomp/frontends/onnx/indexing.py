"""Look-ups and scatters by index."""

from __future__ import annotations

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
