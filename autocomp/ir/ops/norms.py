"""Normalisations: entries that decompose into arithmetic and reductions, in f32 where the operand is a 16-bit float."""

from __future__ import annotations

from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.node import Attrs
from autocomp.ir.ops.table import Op, register
from autocomp.ir.types import F32, SHORT_FLOATS, SHORT_NUMPY, DType, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


def _float(name: str, t: Types) -> TensorType:
    if not t[0].dtype.is_float:
        raise ModelError(f"does not take {t[0]}", where=name)
    return t[0]


def _wide(d: DType) -> DType:
    return F32 if d in SHORT_FLOATS else d


def _enter(b: Any, x: Any) -> Any:
    wide = _wide(x.type.dtype)
    return x if wide == x.type.dtype else b.op("cast", x, to=wide.name)


def _leave(b: Any, y: Any, dtype: DType) -> Any:
    return y if y.type.dtype == dtype else b.op("cast", y, to=dtype.name)


def _np(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.dtype in SHORT_NUMPY else x


def _out(y: np.ndarray, x: np.ndarray, out: TensorType) -> np.ndarray:
    return y if x.dtype == np.float64 else y.astype(out.dtype.numpy)


# ---- softmax, log_softmax over axes
def _softmax_reference(log: bool) -> Any:
    def reference(xs: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
        x, axes = _np(xs[0]), tuple(a["axes"])
        with np.errstate(invalid="ignore"):
            z = x - np.max(x, axis=axes, keepdims=True, initial=-np.inf)
            e = np.exp(z)
            total = np.sum(e, axis=axes, keepdims=True)
            y = z - np.log(total) if log else e / total
        return _out(y, xs[0], o)

    return reference


def _softmax_decompose(log: bool) -> Any:
    def decompose(b: Any, x: Any, a: Attrs) -> Any:
        v = _enter(b, x[0])
        z = b.op("sub", v, b.op("reduce_max", v, axes=a["axes"], keepdims=True))
        e = b.op("exp", z)
        total = b.op("reduce_sum", e, axes=a["axes"], keepdims=True)
        y = b.op("sub", z, b.op("log", total)) if log else b.op("div", e, total)
        return _leave(b, y, x[0].type.dtype)

    return decompose


def _float_rule(name: str) -> Any:
    return lambda t, a: _float(name, t)


for _name, _log in (("softmax", False), ("log_softmax", True)):
    register(
        Op(
            _name,
            (1, 1),
            _float_rule(_name),
            _softmax_reference(_log),
            decompose=_softmax_decompose(_log),  # type: ignore[misc]
            attrs={"axes": ...},
            doc="exp(x - max) over its sum" + (", logarithm of it" if _log else ""),
        )
    )


# ---- layer norm: x, scale, bias; rms norm: x, scale
def _stats(x: np.ndarray, axes: tuple[int, ...], eps: float) -> tuple[np.ndarray, np.ndarray]:
    mean = np.mean(x, axis=axes, keepdims=True)
    return mean, 1 / np.sqrt(np.mean((x - mean) ** 2, axis=axes, keepdims=True) + x.dtype.type(eps))


def _layer_reference(xs: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    x = _np(xs[0])
    mean, r = _stats(x, tuple(a["axes"]), a["eps"])
    return _out((x - mean) * r * _np(xs[1]) + _np(xs[2]), xs[0], o)


def _layer_decompose(b: Any, x: Any, a: Attrs) -> Any:
    v = _enter(b, x[0])
    mean = b.op("reduce_mean", v, axes=a["axes"], keepdims=True)
    d = b.op("sub", v, mean)
    var = b.op("reduce_mean", b.op("mul", d, d), axes=a["axes"], keepdims=True)
    r = b.op("rsqrt", b.op("add", var, b.const(a["eps"], v.type.dtype)))
    y = b.op("add", b.op("mul", b.op("mul", d, r), _enter(b, x[1])), _enter(b, x[2]))
    return _leave(b, y, x[0].type.dtype)


register(
    Op(
        "layer_norm",
        (3, 3),
        lambda t, a: _float("layer_norm", t),
        _layer_reference,
        decompose=_layer_decompose,
        attrs={"axes": ..., "eps": 1e-5},
        doc="(x - mean) / sqrt(var + eps) * scale + bias",
    )
)


def _rms_reference(xs: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    x = _np(xs[0])
    r = 1 / np.sqrt(np.mean(x * x, axis=tuple(a["axes"]), keepdims=True) + x.dtype.type(a["eps"]))
    return _out(x * r * _np(xs[1]), xs[0], o)


def _rms_decompose(b: Any, x: Any, a: Attrs) -> Any:
    v = _enter(b, x[0])
    mean = b.op("reduce_mean", b.op("mul", v, v), axes=a["axes"], keepdims=True)
    r = b.op("rsqrt", b.op("add", mean, b.const(a["eps"], v.type.dtype)))
    return _leave(b, b.op("mul", b.op("mul", v, r), _enter(b, x[1])), x[0].type.dtype)


register(
    Op(
        "rms_norm",
        (2, 2),
        lambda t, a: _float("rms_norm", t),
        _rms_reference,
        decompose=_rms_decompose,
        attrs={"axes": ..., "eps": 1e-5},
        doc="x / sqrt(mean(x^2) + eps) * scale",
    )
)


# ---- batch norm (inference): x, scale, bias, mean, var along dimension 1
def _batch_shape(rank: int) -> tuple[int, ...]:
    return (-1,) + (1,) * (rank - 2)


def _batch_reference(xs: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    x = _np(xs[0])
    s, b, m, v = (_np(p).reshape(_batch_shape(x.ndim)) for p in xs[1:])
    return _out((x - m) / np.sqrt(v + v.dtype.type(a["eps"])) * s + b, xs[0], o)


def _batch_decompose(b: Any, x: Any, a: Attrs) -> Any:
    v = _enter(b, x[0])
    wide = v.type.dtype
    scale, bias, mean, var = (p if p.type.dtype == wide else b.op("cast", p, to=wide.name) for p in x[1:])
    factor = b.op("mul", scale, b.op("rsqrt", b.op("add", var, b.const(a["eps"], wide))))
    shift = b.op("sub", bias, b.op("mul", mean, factor))
    shape = (x[1].type.shape[0],) + (1,) * (x[0].type.rank - 2)
    factor, shift = (b.op("reshape", p, shape=shape) for p in (factor, shift))
    return _leave(b, b.op("add", b.op("mul", v, factor), shift), x[0].type.dtype)


register(
    Op(
        "batch_norm",
        (5, 5),
        lambda t, a: _float("batch_norm", t),
        _batch_reference,
        decompose=_batch_decompose,
        attrs={"eps": 1e-5},
        doc="(x - mean) / sqrt(var + eps) * scale + bias, one of each a channel",
    )
)
