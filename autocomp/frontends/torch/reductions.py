"""ATen operators along axes: reductions, what runs along an axis, the largest elements."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.torch.call import TABLE, Call, Lowering, axes_of, axis_of, row
from autocomp.frontends.torch.ordering import ranked
from autocomp.frontends.torch.pointwise import arithmetic
from autocomp.ir.node import Node
from autocomp.ir.sizes import product
from autocomp.ir.types import BOOL, F32, F64, I64, SHORT_FLOATS


def _reduction(op: str) -> Lowering:
    def lower(c: Call, x: Node, dim: Any = None, keepdim: bool = False, **_: Any) -> Node:
        assert c.out is not None
        if op in ("reduce_any", "reduce_all"):
            x = x if x.type.dtype == BOOL else c.op("ne", x, c.b.const(0, x.type.dtype))
        elif op in ("reduce_max", "reduce_min") and x.type.dtype == BOOL:
            return c.op("reduce_any" if op == "reduce_max" else "reduce_all", x, axes=axes_of(x, dim), keepdims=keepdim)
        elif op in ("reduce_sum", "reduce_mean", "reduce_prod"):
            x = c.cast(x, c.out.dtype)
        return c.op(op, x, axes=axes_of(x, dim), keepdims=keepdim)

    return lower


for _name, _op in {"sum": "reduce_sum", "mean": "reduce_mean", "prod": "reduce_prod", "amax": "reduce_max", "amin": "reduce_min",
                   "any": "reduce_any", "all": "reduce_all"}.items():  # fmt: skip
    TABLE[_name] = _reduction(_op)


# what torch._check asks of data
TABLE["_is_all_true"] = lambda c, x: c.op("reduce_all", x, axes=axes_of(x, None))
TABLE["_is_any_true"] = lambda c, x: c.op("reduce_any", x, axes=axes_of(x, None))


@row("linalg_vector_norm")
def _norm(c: Call, x: Node, order: float = 2, dim: Any = None, keepdim: bool = False) -> Node:
    assert c.out is not None
    return c.cast(_length(c, c.cast(x, c.out.dtype), order, axes_of(x, dim), keepdim), c.out.dtype)


def _length(c: Call, x: Node, order: float, axes: tuple[int, ...], keepdim: bool = False) -> Node:
    """As `length`, but of one element the magnitude, whose square may be beyond the type (torch's own kernels and decompositions)."""
    if order != 0 and all(x.type.shape[a] == 1 for a in axes):
        return c.op("reduce_max", c.op("abs", x), axes=axes, keepdims=keepdim)
    return length(c, x, order, axes, keepdim)


def length(c: Call, x: Node, order: float, axes: tuple[int, ...], keepdim: bool = False) -> Node:
    """The norm of this order of x over axes; of short floats in f32, for their powers and sums may be beyond the type."""
    x = c.op("abs", c.cast(x, F32) if x.type.dtype in SHORT_FLOATS else x)
    d = x.type.dtype
    total = lambda y, op="reduce_sum": c.op(op, y, axes=axes, keepdims=keepdim)
    if order == 2:
        return c.op("sqrt", total(c.op("mul", x, x)))
    if order == 0:
        return total(c.cast(c.op("ne", x, c.b.const(0, d)), d))
    if order == 1 or abs(order) == float("inf"):
        return total(x, "reduce_sum" if order == 1 else "reduce_max" if order > 0 else "reduce_min")
    return c.op("pow", total(c.op("pow", x, c.b.const(order, d))), c.b.const(1 / order, d))


@row("dist")
def _dist(c: Call, a: Node, b: Node, order: float = 2) -> Node:
    assert c.out is not None
    difference = c.op("sub", c.cast(a, c.out.dtype), c.cast(b, c.out.dtype))
    return c.cast(_length(c, difference, order, axes_of(difference, None)), c.out.dtype)


def _between(c: Call, a: Node, b: Node) -> Node:
    """[.., i, j, k]: a[.., i, k] - b[.., j, k]."""
    apart = lambda x, at: c.op("reshape", x, shape=(*x.type.shape[: x.type.rank - at], 1, *x.type.shape[x.type.rank - at :]))
    return c.op("sub", apart(a, 1), apart(b, 2))


@row("_cdist_forward")
def _distances(c: Call, a: Node, b: Node, order: float, mode: Any = None) -> Node:
    """Of each row of a from each of b."""
    assert c.out is not None
    difference = _between(c, a, b)
    return c.shaped(c.cast(length(c, difference, order, (difference.type.rank - 1,)), c.out.dtype))


@row("_cdist_backward")
def _distances_back(c: Call, g: Node, a: Node, b: Node, order: float, distances: Node) -> Node:
    """The gradient by a's rows: of a distance of 0 it is 0."""
    assert c.out is not None
    d = _between(c, a, b)
    last = lambda x: c.op("reshape", x, shape=(*x.type.shape, 1))
    zero, far = c.b.const(0, d.type.dtype), last(distances)
    if order == 0:
        return c.op("broadcast", zero, shape=c.out.shape)
    if order == 1:
        way = c.op("sign", d)
    elif order == inf:
        way = c.op("where", c.op("eq", c.op("abs", d), far), c.op("sign", d), zero)
    else:
        over = c.op("div", d, far) if order == 2 else c.op("mul", c.op("sign", d), c.op("pow", c.op("div", c.op("abs", d), far),
                                                                                       c.b.const(order - 1, d.type.dtype)))  # fmt: skip
        way = c.op("where", c.op("eq", far, zero), zero, over)
    return c.shaped(c.op("reduce_sum", c.op("mul", way, last(g)), axes=(d.type.rank - 2,), keepdims=False))


@row("_pdist_forward")
def _pairs(c: Call, x: Node, order: float = 2) -> Node:
    """Of each row from each later one."""
    assert c.out is not None
    rows = x.type.shape[0]
    if not isinstance(rows, int):
        raise c.refuse(f"pairs the rows of {x.type}", "fix the dimension")
    if rows < 2:
        return c.op("broadcast", c.b.const(0, c.out.dtype), shape=c.out.shape)
    check_table(rows * (rows - 1), c.where)
    first, second = (c.op("gather", x, c.array(at.astype(np.int64)), axis=0) for at in np.triu_indices(rows, 1))
    return c.cast(length(c, c.op("sub", first, second), order, (1,)), c.out.dtype)


@row("max", "min")
def _extremum(c: Call, x: Node, dim: Any = None, keepdim: bool = False) -> Any:
    if isinstance(dim, Node):
        return arithmetic(c.name)(c, x, dim)
    truth = x.type.dtype == BOOL
    x = c.cast(x, I64) if truth else x
    value = c.op(f"reduce_{c.name}", x, axes=axes_of(x, dim), keepdims=keepdim)
    value = c.cast(value, BOOL) if truth else value
    if dim is None:
        return value
    if not x.type.rank:
        return value, c.b.const(0, I64)
    return value, c.op(f"reduce_arg{c.name}", x, axes=axes_of(x, dim), keepdims=keepdim)


@row("argmax", "argmin")
def _arg(c: Call, x: Node, dim: Any = None, keepdim: bool = False) -> Node:
    if dim is None or not x.type.rank:
        x, dim = c.op("reshape", x, shape=(product(x.type.shape),)), 0
    return c.op(f"reduce_{c.name}", x, axes=axes_of(x, dim), keepdims=keepdim)


@row("var_mean")
def _var_mean(c: Call, x: Node, dim: Any = None, correction: Any = 1, keepdim: bool = False, **_: Any) -> tuple[Node, Node]:
    return _var(c, x, dim, correction, keepdim), c.op("reduce_mean", x, axes=axes_of(x, dim), keepdims=keepdim)


@row("var")
def _var(c: Call, x: Node, dim: Any = None, correction: Any = 1, keepdim: bool = False, **_: Any) -> Node:
    """Of short floats in f32, for the squares and their sum may be beyond the type where the variance is not."""
    return c.cast(_variance(c, c.cast(x, F32) if x.type.dtype in SHORT_FLOATS else x, dim, correction, keepdim), x.type.dtype)


def _variance(c: Call, x: Node, dim: Any, correction: Any, keepdim: bool) -> Node:
    axes = axes_of(x, dim)
    less = 1 if correction is None else correction
    d = c.op("sub", x, c.op("reduce_mean", x, axes=axes, keepdims=True))
    if less == 0:
        return c.op("reduce_mean", c.op("mul", d, d), axes=axes, keepdims=keepdim)
    total = c.op("reduce_sum", c.op("mul", d, d), axes=axes, keepdims=keepdim)
    fixed = prod(n for a in axes if isinstance(n := x.type.shape[a], int))
    open_axes = [a for a in axes if not isinstance(x.type.shape[a], int)]
    if not open_axes:
        return c.op("div", total, c.b.const(max(fixed - less, 0), x.type.dtype))
    count = c.b.const(fixed, F64)
    for a in open_axes:
        count = c.op("mul", count, c.op("extent", x, axis=a, dtype=F64.name))
    return c.op("div", total, c.cast(c.op("max", c.op("sub", count, c.b.const(less, F64)), c.b.const(0, F64)), x.type.dtype))


@row("cumsum", "cumprod")
def _running(c: Call, x: Node, dim: int, **_: Any) -> Node:
    assert c.out is not None
    x = c.cast(x, c.out.dtype)
    return c.op(c.name, x, axis=axis_of(x, dim)) if x.type.rank else x


@row("_softmax", "softmax", "_log_softmax", "log_softmax")
def _softmax(c: Call, x: Node, dim: int, *_: Any, **__: Any) -> Node:
    assert c.out is not None
    return c.op(c.name.removeprefix("_"), c.cast(x, c.out.dtype), axes=axes_of(x, dim))


@row("topk")
def _topk(c: Call, x: Node, k: int, dim: int = -1, largest: bool = True, *_: Any) -> tuple[Node, Node]:
    if not x.type.rank:
        return x, c.b.const(0, I64)
    return ranked(c, x, axis_of(x, dim), k, largest)
