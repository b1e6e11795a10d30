"""Ops that name a monoid of several states: what monoid rules rewrite softmax and attention into."""

from __future__ import annotations

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Comprehension, Expr, Index, Map, Read, Reduce
from autocomp.ir.monoids import fold
from autocomp.ir.node import Attrs
from autocomp.ir.ops.pointwise import broadcast_shapes
from autocomp.ir.ops.reductions import reduced_type, split_axes
from autocomp.ir.ops.table import Op, register
from autocomp.ir.types import TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


# ---- max_sumexp: part m = max of x, part l = sum of exp(x - m)
def _sumexp_infer(t: Types, a: Attrs) -> TensorType:
    if not t[0].dtype.is_float or t[0].dtype.bits < 32 or a["part"] not in ("m", "l"):
        raise ModelError(f"does not take {t[0]} for part '{a['part']}'", where="max_sumexp")
    return reduced_type("max_sumexp", t[0], a, t[0].dtype)


def _sumexp_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    y = fold("max_sumexp", x, tuple(a["axes"]), a["part"], x[0].dtype)
    return y if a["keepdims"] else np.squeeze(y, tuple(a["axes"]))


def _sumexp_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes, reduced, index = split_axes(t[0], a, out)
    return Comprehension(axes, Reduce(out.dtype, "max_sumexp", reduced, (Read(t[0].dtype, 0, index),), a["part"]))


register(
    Op(
        "max_sumexp",
        (1, 1),
        _sumexp_infer,
        _sumexp_reference,
        _sumexp_meaning,
        attrs={"axes": ..., "keepdims": False, "part": ...},
        doc="running maximum and sum of exponentials in one pass",
    )
)


# ---- welford: mean and variance in one pass, by (n, sum, squared deviations)
def _welford_infer(t: Types, a: Attrs) -> TensorType:
    if not t[0].dtype.is_float or t[0].dtype.bits < 32 or a["part"] not in ("mean", "var"):
        raise ModelError(f"does not take {t[0]} for part '{a['part']}'", where="welford")
    return reduced_type("welford", t[0], a, t[0].dtype)


def _welford_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    return (np.mean if a["part"] == "mean" else np.var)(x[0], axis=tuple(a["axes"]), keepdims=a["keepdims"])


def _welford_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes, reduced, index = split_axes(t[0], a, out)
    x = (Read(t[0].dtype, 0, index),)
    if a["part"] == "var":
        return Comprehension(axes, Reduce(out.dtype, "welford", reduced, x))
    mean: Expr = Reduce(out.dtype, "welford", reduced, x, "s")
    for axis in reduced:
        mean = Map(
            out.dtype, "div", (mean, Index(out.dtype, aff(axis.extent if isinstance(axis.extent, int) else axis.extent.name)))
        )
    return Comprehension(axes, mean)


register(
    Op(
        "welford",
        (1, 1),
        _welford_infer,
        _welford_reference,
        _welford_meaning,
        attrs={"axes": ..., "keepdims": False, "part": ...},
        doc="mean or variance (over n) in one pass over the operand",
    )
)


# ---- softmax_weighted_sum(s, v) = softmax(s) @ v
def _weighted_infer(t: Types, a: Attrs) -> TensorType:
    s, v = t
    if s.dtype != v.dtype or not s.dtype.is_float or s.rank < 2 or v.rank < 2 or s.shape[-1] != v.shape[-2]:
        raise ModelError(f"scores {s} and values {v} do not match", where="softmax_weighted_sum")
    return TensorType(s.dtype, (*broadcast_shapes("softmax_weighted_sum", s.shape[:-2], v.shape[:-2]), s.shape[-2], v.shape[-1]))


def _weighted_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    s, v = (y.astype(np.float32) if y.dtype.itemsize < 4 else y for y in x)
    high = np.max(s, axis=-1, keepdims=True)
    e = np.exp(s - (np.where(high == -np.inf, 0, high) if a["masked"] else high))
    total = np.sum(e, axis=-1, keepdims=True)
    y = np.matmul(e / (np.where(total == 0, 1, total) if a["masked"] else total), v)
    return y if x[0].dtype == np.float64 else y.astype(o.dtype.numpy)


def _weighted_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    from autocomp.ir.scalar import accumulator

    s, v = t
    batch = tuple(Axis(f"b{k}", d) for k, d in enumerate(out.shape[:-2]))
    i, j, e = Axis("i", s.shape[-2]), Axis("j", s.shape[-1]), Axis("e", v.shape[-1])
    lead = lambda shape: tuple(
        aff(b.name) if d != 1 or b.extent == 1 else aff(0) for d, b in zip(shape, batch[len(batch) - len(shape) :])
    )
    wide = accumulator(out.dtype)
    score: Expr = Read(s.dtype, 0, (*lead(s.shape[:-2]), aff("i"), aff("j")))
    score = score if wide == s.dtype else Map(wide, "cast", (score,))
    monoid = "masked_softmax_weighted" if a["masked"] else "softmax_weighted"
    value = Reduce(wide, monoid, (j,), (score, Read(v.dtype, 1, (*lead(v.shape[:-2]), aff("j"), aff("e")))))
    return Comprehension((*batch, i, e), value if wide == out.dtype else Map(out.dtype, "cast", (value,)))


register(
    Op(
        "softmax_weighted_sum",
        (2, 2),
        _weighted_infer,
        _weighted_reference,
        _weighted_meaning,
        attrs={"masked": False},
        doc="softmax(s) @ v in one pass over the keys; masked: 0 where all scores are -inf (else NaN)",
    )
)
