"""Ops that are decompositions into other entries; front ends may emit them, the pipeline sees the parts.

16-bit floats are widened to f32 inside and rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from autocomp.ir.node import Attrs, Node
from autocomp.ir.ops.common import Arrays, Types, axes_of, fail
from autocomp.ir.ops.reductions import reduced_shape
from autocomp.ir.ops.table import Op, register
from autocomp.ir.scalar import accumulator, convert
from autocomp.ir.types import Sym, TensorType

Build = Callable[[Any, tuple[Node, ...], Attrs], Node]


def _widened(body: Build) -> Build:
    """body on operands in the accumulator's type, its result rounded to the first operand's dtype."""
    def decompose(b: Any, nodes: tuple[Node, ...], attrs: Attrs) -> Node:
        dtype = nodes[0].type.dtype
        wide = accumulator(dtype)
        if wide == dtype:
            return body(b, nodes, attrs)
        return b.op("cast", body(b, tuple(b.op("cast", n, dtype=wide) for n in nodes), attrs), dtype=dtype)
    return decompose


def _mean(b: Any, nodes: tuple[Node, ...], attrs: Attrs) -> Node:
    x, axes = nodes[0], attrs["axes"]
    total = b.op("reduce_sum", x, axes=axes, keepdims=attrs["keepdims"])
    dims = [x.type.shape[a] for a in axes]
    total = b.op("div", total, float(prod(d for d in dims if isinstance(d, int))))
    for a, d in zip(axes, dims):
        if isinstance(d, Sym):
            total = b.op("div", total, b.op("extent", x, axis=a, dtype=x.type.dtype))
    return total


def mean_of(b: Any, x: Node, axes: tuple[int, ...]) -> Node:
    return _mean(b, (x,), Attrs({"axes": axes, "keepdims": True}))


def _floats(name: str, shape: Callable[[Types, Attrs], TensorType] | None = None) -> Callable[[Types, Attrs], TensorType]:
    def infer(types: Types, attrs: Attrs) -> TensorType:
        if any(t.dtype != types[0].dtype for t in types) or not types[0].dtype.is_float:
            fail(name, "needs float operands of one dtype", types)
        return shape(types, attrs) if shape else types[0]
    return infer


def _axes(types: Types, a: dict[str, Any]) -> dict[str, Any]:
    return {**a, "axes": axes_of("composite", a["axes"], types[0].rank)}


def _wide_reference(f: Callable[[list[np.ndarray], Attrs], np.ndarray]) -> Callable[[Arrays, Attrs, TensorType], np.ndarray]:
    def reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
        with np.errstate(all="ignore"):
            return convert(f([a.astype(accumulator(t.dtype).numpy) for a in arrays], attrs), t.dtype)
    return reference


register(Op("mean", (1, 1), _floats("mean", lambda ts, a: TensorType(
    ts[0].dtype, reduced_shape(ts[0].shape, a["axes"], a["keepdims"]))),
    _wide_reference(lambda x, a: x[0].mean(axis=a["axes"], keepdims=a["keepdims"])), decompose=_widened(_mean),
    attrs={"axes": None, "keepdims": False}, canonical=_axes, doc="arithmetic mean over axes"))


def _exp_sum(b: Any, x: Node, axes: tuple[int, ...]) -> tuple[Node, Node, Node]:
    shifted = b.op("sub", x, b.op("reduce_max", x, axes=axes, keepdims=True))
    e = b.op("exp", shifted)
    return shifted, e, b.op("reduce_sum", e, axes=axes, keepdims=True)


def _softmax(b: Any, nodes: tuple[Node, ...], attrs: Attrs) -> Node:
    _, e, total = _exp_sum(b, nodes[0], attrs["axes"])
    return b.op("div", e, total)


def _log_softmax(b: Any, nodes: tuple[Node, ...], attrs: Attrs) -> Node:
    shifted, _, total = _exp_sum(b, nodes[0], attrs["axes"])
    return b.op("sub", shifted, b.op("log", total))


def _np_softmax(x: list[np.ndarray], a: Attrs) -> np.ndarray:
    e = np.exp(x[0] - x[0].max(axis=a["axes"], keepdims=True))
    return e / e.sum(axis=a["axes"], keepdims=True)


def _np_log_softmax(x: list[np.ndarray], a: Attrs) -> np.ndarray:
    s = x[0] - x[0].max(axis=a["axes"], keepdims=True)
    return s - np.log(np.exp(s).sum(axis=a["axes"], keepdims=True))


for _n, _d, _r in (("softmax", _softmax, _np_softmax), ("log_softmax", _log_softmax, _np_log_softmax)):
    register(Op(_n, (1, 1), _floats(_n), _wide_reference(_r), decompose=_widened(_d), attrs={"axes": (-1,)}, canonical=_axes,
                doc=f"{_n} over axes"))


def _affine(b: Any, y: Node, nodes: tuple[Node, ...]) -> Node:
    """y * scale + bias, with what there is of them."""
    y = b.op("mul", y, nodes[1]) if len(nodes) > 1 else y
    return b.op("add", y, nodes[2]) if len(nodes) > 2 else y  # noqa: PLR2004


def _layer_norm(b: Any, nodes: tuple[Node, ...], attrs: Attrs) -> Node:
    x, axes = nodes[0], attrs["axes"]
    d = b.op("sub", x, mean_of(b, x, axes))
    var = mean_of(b, b.op("mul", d, d), axes)
    return _affine(b, b.op("mul", d, b.op("rsqrt", b.op("add", var, attrs["eps"]))), nodes)


def _rms_norm(b: Any, nodes: tuple[Node, ...], attrs: Attrs) -> Node:
    x = nodes[0]
    var = mean_of(b, b.op("mul", x, x), attrs["axes"])
    return _affine(b, b.op("mul", x, b.op("rsqrt", b.op("add", var, attrs["eps"]))), nodes)


def _np_norm(centre: bool) -> Callable[[list[np.ndarray], Attrs], np.ndarray]:
    def f(x: list[np.ndarray], a: Attrs) -> np.ndarray:
        d = x[0] - x[0].mean(axis=a["axes"], keepdims=True) if centre else x[0]
        y = d / np.sqrt((d * d).mean(axis=a["axes"], keepdims=True) + a["eps"])
        y = y * x[1] if len(x) > 1 else y
        return y + x[2] if len(x) > 2 else y  # noqa: PLR2004
    return f


register(Op("layer_norm", (1, 3), _floats("layer_norm"), _wide_reference(_np_norm(True)), decompose=_widened(_layer_norm),
            attrs={"axes": (-1,), "eps": 1e-5}, canonical=_axes, doc="(x - mean) / sqrt(var + eps) [* scale [+ bias]]"))
register(Op("rms_norm", (1, 2), _floats("rms_norm"), _wide_reference(_np_norm(False)), decompose=_widened(_rms_norm),
            attrs={"axes": (-1,), "eps": 1e-5}, canonical=_axes, doc="x / sqrt(mean(x^2) + eps) [* scale]"))


def _channel_shape(x: Any, axis: int) -> tuple[int, ...]:
    return tuple(-1 if k == axis else 1 for k in range(x))


def _batch_norm(b: Any, nodes: tuple[Node, ...], attrs: Attrs) -> Node:
    x, scale, bias, mean, var = nodes
    a = b.op("div", scale, b.op("sqrt", b.op("add", var, attrs["eps"])))
    shift = b.op("sub", bias, b.op("mul", mean, a))
    spread = _channel_shape(x.type.rank, attrs["axis"])
    return b.op("add", b.op("mul", x, b.op("reshape", a, shape=spread)), b.op("reshape", shift, shape=spread))


def _np_batch_norm(x: list[np.ndarray], a: Attrs) -> np.ndarray:
    s, b, m, v = (p.reshape(_channel_shape(x[0].ndim, a["axis"])) for p in x[1:])
    return (x[0] - m) / np.sqrt(v + a["eps"]) * s + b


def _batch_norm_shape(types: Types, attrs: Attrs) -> TensorType:
    c = types[0].shape[attrs["axis"]]
    if any(t.shape != (c,) for t in types[1:]):
        fail("batch_norm", f"scale, bias, mean and var must have shape ({c},)", types)
    return types[0]


register(Op("batch_norm", (5, 5), _floats("batch_norm", _batch_norm_shape), _wide_reference(_np_batch_norm),
            decompose=_widened(_batch_norm), attrs={"axis": 1, "eps": 1e-5},
            doc="inference form: x, scale, bias, mean, var; the channel is dimension `axis`"))
