"""ATen operators that centre and scale: batch, layer, group, instance and root mean square norms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

from autocomp.frontends.torch.call import Call, row
from autocomp.ir.node import Node
from autocomp.ir.types import F32, F64, SHORT_FLOATS, DType


@row("_native_batch_norm_legit_no_training", "batch_norm")
def _batch_norm(c: Call, x: Node, w: Node | None, b: Node | None, mean: Any, var: Any, *rest: Any) -> Any:
    if c.name == "batch_norm" and rest[0]:
        if mean is None and var is None:
            return _of_batch(c, x, w, b, rest[2])[0]
        raise c.refuse("is training", "export the model in eval mode")
    eps = rest[-1] if c.name != "batch_norm" else rest[2]
    shape = (x.type.shape[1],)
    one = lambda v, fill: c.op("broadcast", c.b.const(fill, mean.type.dtype), shape=shape) if v is None else v
    y = c.op("batch_norm", x, one(w, 1), one(b, 0), mean, var, eps=eps)
    return y if c.name == "batch_norm" else (y, *_unset(c, c.outs[1:]))


def _unset(c: Call, types: Sequence[Any]) -> list[Node]:
    """Results that torch leaves empty."""
    return [c.op("broadcast", c.b.const(0, t.dtype), shape=t.shape) for t in types]


@row("native_layer_norm", "layer_norm")
def _layer_norm(c: Call, x: Node, shape: list[int], w: Node | None = None, b: Node | None = None, eps: float = 1e-5, *_: Any) -> Any:
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    if c.read - {0}:
        return _with_statistics(c, x, axes, w, b, eps)
    own = x.type.shape[x.type.rank - len(shape) :]
    one = lambda v, fill: c.op("broadcast", c.b.const(fill, x.type.dtype), shape=own) if v is None else v
    y = c.op("layer_norm", x, one(w, 1), one(b, 0), axes=axes, eps=eps)
    return y if c.name == "layer_norm" else (y, None, None)


def _with_statistics(c: Call, x: Node, axes: tuple[int, ...], w: Node | None, b: Node | None, eps: float) -> tuple[Node, ...]:
    """A layer norm with the mean and the inverse deviation."""
    y, mean, inverse = centred(c, wide(c, x), axes, eps)
    y = y if w is None else c.op("mul", y, c.cast(w, y.type.dtype))
    y = y if b is None else c.op("add", y, c.cast(b, y.type.dtype))
    return c.cast(y, x.type.dtype), *(c.cast(v, t.dtype) for v, t in zip((mean, inverse), c.outs[1:]))


@row("rms_norm")
def _rms_norm(c: Call, x: Node, shape: list[int], w: Node | None = None, eps: float | None = None) -> Node:
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    w = c.op("broadcast", c.b.const(1, x.type.dtype), shape=x.type.shape[axes[0] :]) if w is None else w
    own = F64.eps if x.type.dtype == F64 else F32.eps  # torch's default: of the type that it computes in
    return c.op("rms_norm", x, w, axes=axes, eps=own if eps is None else eps)


@row("_native_batch_norm_legit", "_native_batch_norm_legit_functional")
def _batch_statistics(c: Call, x: Node, w: Node | None, b: Node | None, *rest: Any) -> Any:
    """With the statistics of the batch; running ones, where given, move toward them by the momentum, variances with n - 1."""
    *running, training, momentum, eps = rest
    as_torch = lambda *values: tuple(v if v is None else c.cast(v, t.dtype) for v, t in zip(values, c.outs, strict=True))
    if not training:  # statistics are read, none are kept
        one = lambda v, fill: c.op("broadcast", c.b.const(fill, running[0].type.dtype), shape=running[0].type.shape) if v is None else v
        y = c.op("batch_norm", x, one(w, 1), one(b, 0), *running, eps=eps)
        return as_torch(y, *_unset(c, c.outs[1:3]), *(running if len(c.outs) > 3 else ()))
    y, mean, inverse = _of_batch(c, x, w, b, eps)
    if not running:
        return as_torch(y, mean, inverse)
    number = lambda v: c.b.const(v, mean.type.dtype)
    var = c.op("sub", c.op("div", number(1), c.op("mul", inverse, inverse)), number(eps))
    var = c.op("mul", var, _unbiased(c, x, mean.type.dtype))
    moved = lambda old, new: c.op("add", c.op("mul", c.cast(old, new.type.dtype), number(1 - momentum)), c.op("mul", new, number(momentum)))
    return as_torch(y, mean, inverse, moved(running[0], mean), moved(running[1], var))


def _unbiased(c: Call, x: Node, dtype: DType) -> Node:
    """n / (n - 1) of the n elements of a channel."""
    counted = {a: d for a, d in enumerate(x.type.shape) if a != 1}
    n = prod(d for d in counted.values() if isinstance(d, int))
    open_ = [c.op("extent", x, axis=a, dtype=dtype.name) for a, d in counted.items() if not isinstance(d, int)]
    if not open_:
        return c.b.const(n / max(n - 1, 1), dtype)
    all_ = reduce(lambda a, b: c.op("mul", a, b), open_, c.b.const(n, dtype))
    return c.op("div", all_, c.op("max", c.op("sub", all_, c.b.const(1, dtype)), c.b.const(1, dtype)))


def _of_batch(c: Call, x: Node, w: Node | None, b: Node | None, eps: float) -> tuple[Node, ...]:
    """(y, mean, 1 / deviation) of each channel, over all other dimensions."""
    axes = (0, *range(2, x.type.rank))
    y, mean, inverse = centred(c, wide(c, x), axes, eps)
    channels = (x.type.shape[1],)
    return (c.cast(_per_channel(c, y, w, b), x.type.dtype), *(c.op("reshape", v, shape=channels) for v in (mean, inverse)))


@row("native_group_norm")
def _group_norm(c: Call, x: Node, w: Node | None, b: Node | None, n: Any, channels: Any, rest: Any, groups: int, eps: float) -> Any:
    shape = x.type.shape
    inner = (int(shape[1]) // groups, *shape[2:])  # type: ignore[arg-type]
    flat = c.op("reshape", wide(c, x), shape=(shape[0], groups, *inner))
    y, mean, inverse = centred(c, flat, tuple(range(2, flat.type.rank)), eps)
    y = c.cast(_per_channel(c, y, w, b, (groups, inner[0])), x.type.dtype)  # before the row is cut: in the kernel that has it
    of_group = lambda v: c.cast(c.op("reshape", v, shape=(shape[0], groups)), x.type.dtype)
    return c.op("reshape", y, shape=shape), of_group(mean), of_group(inverse)


def wide(c: Call, x: Node) -> Node:
    return c.cast(x, F32) if x.type.dtype in SHORT_FLOATS else x


def centred(c: Call, x: Node, axes: tuple[int, ...], eps: float) -> tuple[Node, Node, Node]:
    """((x - mean) / deviation, mean, 1 / deviation) over axes, which stay as ones."""
    mean = c.op("reduce_mean", x, axes=axes, keepdims=True)
    centred = c.op("sub", x, mean)
    var = c.op("reduce_mean", c.op("mul", centred, centred), axes=axes, keepdims=True)
    inverse = c.op("rsqrt", c.op("add", var, c.b.const(eps, x.type.dtype)))
    return c.op("mul", centred, inverse), mean, inverse


def _per_channel(c: Call, x: Node, w: Node | None, b: Node | None, channels: tuple[Any, ...] = ()) -> Node:
    """x w + b with one number a channel, in the type of x; `channels`: the dimensions behind the first that channels are, all in the
    second if there are none."""
    lead = lambda v: channels or v.type.shape
    of = lambda v: c.op("reshape", c.cast(v, x.type.dtype), shape=(*lead(v), *[1] * (x.type.rank - 1 - len(lead(v)))))
    x = x if w is None else c.op("mul", x, of(w))
    return x if b is None else c.op("add", x, of(b))


@row("_weight_norm_interface_backward")
def _weight_norm_back(c: Call, grad: Node, v: Node, g: Node, norms: Node, dim: int) -> tuple[Node, Node]:
    """Gradients of direction and length of a weight g * v / norm(v), whose norms are over all dimensions but one."""
    dtype = v.type.dtype
    axes = tuple(k for k in range(v.type.rank) if k != dim % v.type.rank)
    shape = tuple(1 if k in axes else d for k, d in enumerate(v.type.shape))
    grad, v, g, norms = (wide(c, x) for x in (grad, v, g, norms))
    along = lambda x: c.op("reshape", c.cast(x, v.type.dtype), shape=shape)
    lengths, norms = along(g), along(norms)
    unit = c.op("div", v, norms)
    of_length = c.op("reduce_sum", c.op("mul", grad, unit), axes=axes, keepdims=True)
    of_v = c.op("mul", c.op("div", lengths, norms), c.op("sub", grad, c.op("mul", unit, of_length)))
    return c.cast(of_v, dtype), c.cast(c.op("reshape", of_length, shape=g.type.shape), c.outs[1].dtype)
