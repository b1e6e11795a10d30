"""Pooling and normalisation."""

from __future__ import annotations

from math import prod

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.contractions import per_channel, window
from autocomp.frontends.onnx.pointwise import cast
from autocomp.frontends.onnx.registry import LOWERINGS, lower
from autocomp.frontends.onnx.shapes import reshape
from autocomp.ir.node import Node
from autocomp.ir.types import DType


def _pool(c: Call, op: str) -> Node:
    x = c.x()
    kernel = c.ints_attr("kernel_shape")
    if kernel is None:
        c.broken("has no attribute 'kernel_shape'")
    attrs = window(c, c.shape(x)[2:], kernel, c.flag("ceil_mode", 0))
    if op == "avgpool" and c.flag("count_include_pad", 0):
        return _average_with_pads(c, x, kernel, attrs)
    return c.op(op, x, **_within(c.shape(x)[2:], kernel, attrs))


def _within(spatial: tuple[int, ...], kernel: tuple[int, ...], attrs: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The window's attributes without the elements that lie in the pads wherever it stands: a window of 2^32 over 32 elements has 63."""
    lo, hi, window = list(attrs["lo"]), list(attrs["hi"]), list(kernel)
    for k, (n, s, d) in enumerate(zip(spatial, attrs["strides"], attrs["dilations"], strict=True)):
        moves = (n + lo[k] + hi[k] - d * (window[k] - 1) - 1) // s * s  # of the window, from its first place to its last
        first, last = max(0, -((moves - lo[k]) // d)), min(window[k] - 1, (n - 1 + lo[k]) // d)
        if moves >= 0 and n > 0 and 0 <= first <= last and (first, last) != (0, window[k] - 1):
            lo[k], window[k] = lo[k] - first * d, last - first + 1
            hi[k] = moves + d * (window[k] - 1) + 1 - n - lo[k]
    return attrs | {"lo": tuple(lo), "hi": tuple(hi), "window": tuple(window)}


def _average_with_pads(c: Call, x: Node, kernel: tuple[int, ...], attrs: dict[str, tuple[int, ...]]) -> Node:
    """Pads given by the model count, what rounding the output size up adds does not."""
    declared = window(c, c.shape(x)[2:], kernel)
    if declared["hi"] == attrs["hi"]:
        return c.op("avgpool", x, **attrs, window=kernel, count_include_pad=True)
    lo, hi = (0, 0, *declared["lo"]), (0, 0, *declared["hi"])
    rest = tuple(a - b for a, b in zip(attrs["hi"], declared["hi"], strict=True))
    padded = c.op("pad", x, lo=lo, hi=hi)
    return c.op("avgpool", padded, **(attrs | {"lo": (0,) * len(kernel), "hi": rest}), window=kernel)


@lower("MaxPool")
def max_pool(c: Call) -> tuple[Node, ...]:
    values = _pool(c, "maxpool")
    if c.n_outputs == 1:
        return (values,)
    x, kernel = c.x(), c.ints_attr("kernel_shape") or ()
    attrs = window(c, c.shape(x)[2:], kernel, c.flag("ceil_mode", 0))
    return values, c.op("maxpool_index", x, **_within(c.shape(x)[2:], kernel, attrs), column_major=c.flag("storage_order", 0))


@lower("MaxUnpool")
def max_unpool(c: Call) -> Node:
    """Every value at the place that its index names, zeros elsewhere."""
    x, at = c.x(0), c.x(1)
    rank = len(c.shape(x)) - 2
    kernel = c.ints_attr("kernel_shape") or ()
    strides, pads = c.ints_attr("strides", (1,) * rank) or (), c.ints_attr("pads", (0,) * 2 * rank) or ()
    made = tuple((d - 1) * s - pads[k] - pads[k + rank] + w for k, (d, s, w) in enumerate(zip(c.shape(x)[2:], strides, kernel)))
    own = (*c.shape(x)[:2], *made)
    shape = c.static_ints(2) if c.has(2) else own
    if any(b < a for a, b in zip(own, shape, strict=True)):
        c.broken(f"has an output shape {list(shape)} smaller than {list(own)}")
    zero = c.op("broadcast", c.const(0.0, x.type.dtype), shape=(prod(own),))
    flat = c.op("scatter_elements", zero, reshape(c, at, (x.type.elements,)), reshape(c, x, (x.type.elements,)), axis=0)
    return c.op("pad", reshape(c, flat, own), lo=(0,) * len(own), hi=tuple(b - a for a, b in zip(own, shape, strict=True)))


LOWERINGS["", "AveragePool"] = lambda c: _pool(c, "avgpool")


@lower("LpPool")
def lp_pool(c: Call) -> Node:
    x, p = c.x(), float(c.int_attr("p", 2))
    kernel = c.ints_attr("kernel_shape") or ()
    attrs = window(c, c.shape(x)[2:], kernel, c.flag("ceil_mode", 0))
    total = c.op("sumpool", _lp(c, x, p), **_within(c.shape(x)[2:], kernel, attrs))
    return c.op("pow", total, 1.0 / p)


def _lp(c: Call, x: Node, p: float) -> Node:
    return c.op("mul", x, x) if p == 2.0 else c.op("pow", c.op("abs", x), p)


def _global(op: str):
    return lambda c: c.op(op, c.x(), axes=tuple(range(2, c.x().type.rank)), keepdims=True)


LOWERINGS["", "GlobalAveragePool"] = _global("reduce_mean")
LOWERINGS["", "GlobalMaxPool"] = _global("reduce_max")


@lower("GlobalLpPool")
def global_lp_pool(c: Call) -> Node:
    x, p = c.x(), float(c.int_attr("p", 2))
    return c.op("pow", c.op("reduce_sum", _lp(c, x, p), axes=tuple(range(2, x.type.rank)), keepdims=True), 1.0 / p)


# ---- normalisation
@lower("BatchNormalization")
def batch_norm(c: Call) -> tuple[Node, ...]:
    x, scale, bias, mean, var = (c.x(k) for k in range(5))
    eps = c.float_attr("epsilon", 1e-5)
    dtype = x.type.dtype
    training = (
        c.int_attr("training_mode", 0) if c.opset >= 14 else (c.opset < 7 and not c.int_attr("is_test", 0) and c.n_outputs > 1)
    )
    if not training:
        return (c.op("batch_norm", x, *(cast(c, v, dtype) for v in (scale, bias, mean, var)), eps=eps),)
    axes = (0, *range(2, x.type.rank))
    now = c.op("reduce_mean", x, axes=axes, keepdims=True)
    centred = c.op("sub", x, now)
    spread = c.op("reduce_mean", c.op("mul", centred, centred), axes=axes, keepdims=True)
    y = c.op("div", centred, c.op("sqrt", c.op("add", spread, eps)))
    y = c.op("add", c.op("mul", y, per_channel(c, scale, x.type.rank)), per_channel(c, bias, x.type.rank))
    keep = c.float_attr("momentum", 0.9)
    run = lambda old, new: c.op(
        "add", c.op("mul", old, keep), c.op("mul", cast(c, reshape(c, new, old.type.shape), old.type.dtype), 1.0 - keep)
    )
    return y, run(mean, now), run(var, spread)


@lower("InstanceNormalization")
def instance_norm(c: Call) -> Node:
    x = c.x()
    y = normalised(c, x, tuple(range(2, x.type.rank)), c.float_attr("epsilon", 1e-5))
    return c.op("add", c.op("mul", y, per_channel(c, c.x(1), x.type.rank)), per_channel(c, c.x(2), x.type.rank))


def normalised(c: Call, x: Node, axes: tuple[int, ...], eps: float) -> Node:
    """(x - mean) / sqrt(var + eps) over axes."""
    centred = c.op("sub", x, c.op("reduce_mean", x, axes=axes, keepdims=True))
    var = c.op("reduce_mean", c.op("mul", centred, centred), axes=axes, keepdims=True)
    return c.op("div", centred, c.op("sqrt", c.op("add", var, eps)))


def _stash(c: Call, dtype: DType) -> DType:
    """The type in which statistics are computed: f32 for 16-bit floats unless the model says otherwise."""
    from autocomp.frontends.onnx.data import dtype_named

    stash = dtype_named(c.int_attr("stash_type", 1), c.where)
    return stash if dtype.bits < 32 else dtype


@lower("GroupNormalization")
def group_norm(c: Call) -> Node:
    x, groups = c.x(), c.int_attr("num_groups")
    n, ch, *spatial = c.shape(x)
    if groups < 1 or (isinstance(ch, int) and ch % groups):
        c.broken(f"num_groups is {groups}, which does not divide {ch} channels", "any divisor of the channels")
    wide = _stash(c, x.type.dtype)
    y = reshape(c, cast(c, x, wide), (n, groups, ch // groups * prod(spatial)))
    y = cast(c, reshape(c, normalised(c, y, (2,), c.float_attr("epsilon", 1e-5)), c.shape(x)), x.type.dtype)
    scale, bias = c.x(1), c.x(2)
    if c.opset < 21 and scale.type.shape == (groups,):
        spread = lambda v: reshape(c, c.op("broadcast", reshape(c, v, (groups, 1)), shape=(groups, ch // groups)), (ch,))
        scale, bias = spread(scale), spread(bias)
    return c.op("add", c.op("mul", y, per_channel(c, scale, x.type.rank)), per_channel(c, bias, x.type.rank))


@lower("LayerNormalization")
def layer_norm(c: Call) -> tuple[Node, ...]:
    x, scale = c.x(0), c.x(1)
    axes = tuple(range(c.axis(c.int_attr("axis", -1), x.type.rank), x.type.rank))
    wide, eps = _stash(c, x.type.dtype), c.float_attr("epsilon", 1e-5)
    shape = tuple(x.type.shape[k] for k in axes)
    bias = c.maybe(2) if c.has(2) else c.const(0.0, x.type.dtype)
    if c.n_outputs == 1 and wide == x.type.dtype:
        spread = lambda v: v if v.type.shape == shape else c.op("broadcast", v, shape=shape)
        return (c.op("layer_norm", x, spread(scale), spread(bias), axes=axes, eps=eps),)
    y = cast(c, x, wide)
    mean = c.op("reduce_mean", y, axes=axes, keepdims=True)
    centred = c.op("sub", y, mean)
    var = c.op("reduce_mean", c.op("mul", centred, centred), axes=axes, keepdims=True)
    inverse = c.op("div", c.const(1.0, wide), c.op("sqrt", c.op("add", var, eps)))
    out = c.op("mul", cast(c, c.op("mul", centred, inverse), x.type.dtype), scale)
    return (c.op("add", out, bias), mean, inverse)  # type: ignore[arg-type]


@lower("RMSNormalization")
def rms_norm(c: Call) -> Node:
    x, scale = c.x(0), c.x(1)
    axes = tuple(range(c.axis(c.int_attr("axis", -1), x.type.rank), x.type.rank))
    wide, eps = _stash(c, x.type.dtype), c.float_attr("epsilon", 1e-5)
    shape = tuple(x.type.shape[k] for k in axes)
    if wide == x.type.dtype:
        scale = scale if scale.type.shape == shape else c.op("broadcast", scale, shape=shape)
        return c.op("rms_norm", x, scale, axes=axes, eps=eps)
    y = cast(c, x, wide)
    mean = c.op("reduce_mean", c.op("mul", y, y), axes=axes, keepdims=True)
    y = cast(c, c.op("div", y, c.op("sqrt", c.op("add", mean, eps))), x.type.dtype)
    return c.op("mul", y, scale)


@lower("LRN")
def lrn(c: Call) -> Node:
    return c.op(
        "lrn",
        c.x(),
        size=c.int_attr("size"),
        alpha=c.float_attr("alpha", 1e-4),
        beta=c.float_attr("beta", 0.75),
        bias=c.float_attr("bias", 1.0),
    )


@lower("MeanVarianceNormalization")
def mean_variance(c: Call) -> Node:
    x = c.x()
    axes = c.axes(c.ints_attr("axes", (0, 2, 3)) or (), x.type.rank)
    centred = c.op("sub", x, c.op("reduce_mean", x, axes=axes, keepdims=True))
    var = c.op("reduce_mean", c.op("mul", centred, centred), axes=axes, keepdims=True)
    return c.op("div", centred, c.op("add", c.op("sqrt", var), 1e-9))
