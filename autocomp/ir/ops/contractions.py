"""Contractions: sums of products. Matrix units apply to these."""

from __future__ import annotations

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Comprehension, Contract, Expr, Map, Read
from autocomp.ir.node import Attrs
from autocomp.ir.ops.pointwise import broadcast_shapes
from autocomp.ir.ops.table import Op, register
from autocomp.ir.scalar import accumulator
from autocomp.ir.types import SHORT_NUMPY, DType, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


def contracted(out: DType, axes: tuple[Axis, ...], a: Expr, b: Expr) -> Expr:
    """The contraction in its accumulator's type, cast to `out`."""
    wide = accumulator(out)
    value = Contract(wide, axes, a, b)
    return value if wide == out else Map(out, "cast", (value,))


def widened(x: Arrays) -> Arrays:
    """16-bit floats as f32, short integers as i32 (as the accumulators are)."""
    short = lambda v: v.dtype.kind in "iu" and v.dtype.itemsize < 4
    return tuple(v.astype(np.float32) if v.dtype in SHORT_NUMPY else v.astype(np.int32) if short(v) else v for v in x)


def _result(y: np.ndarray, x: Arrays, out: TensorType) -> np.ndarray:
    return y if x[0].dtype == np.float64 else y.astype(out.dtype.numpy)


def _same_dtype(name: str, t: Types) -> DType:
    if t[0].dtype != t[1].dtype or t[0].dtype.kind == "b":
        raise ModelError(f"takes two numeric operands of one dtype, got {t[0]} and {t[1]}", where=name)
    return t[0].dtype


# ---- matmul
def _matmul_infer(t: Types, a: Attrs) -> TensorType:
    dtype = _same_dtype("matmul", t)
    x, y = t
    if x.rank < 1 or y.rank < 1 or x.shape[-1] != y.shape[-2 if y.rank > 1 else 0]:
        raise ModelError(f"inner dimensions of {x} and {y} differ", where="matmul")
    batch = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    return TensorType(dtype, batch + x.shape[-2:-1] + (y.shape[-1:] if y.rank > 1 else ()))


def _matmul_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    x, y = t
    rows, cols = x.rank > 1, y.rank > 1
    lead = out.rank - rows - cols
    batch = tuple(Axis(f"b{k}", d) for k, d in enumerate(out.shape[:lead]))
    k = Axis("k", x.shape[-1])
    m = (Axis("m", x.shape[-2]),) if rows else ()
    n = (Axis("n", y.shape[-1]),) if cols else ()
    at = lambda s, tail: (
        tuple(aff(b.name) if d != 1 or b.extent == 1 else aff(0) for d, b in zip(s, batch[len(batch) - len(s) :]))
        + tuple(aff(v.name) for v in tail)
    )
    a_read = Read(x.dtype, 0, at(x.shape[:-2], (*m, k)))
    b_read = Read(y.dtype, 1, at(y.shape[:-2], (k, *n)))
    return Comprehension(batch + m + n, contracted(out.dtype, (k,), a_read, b_read))


register(
    Op(
        "matmul",
        (2, 2),
        _matmul_infer,
        lambda x, a, o: _result(np.matmul(*widened(x)), x, o),
        _matmul_meaning,
        doc="NumPy's matmul: batched, 1-D operands as rows or columns",
    )
)


# ---- einsum of two operands
def _spec(a: Attrs, t: Types) -> tuple[str, str, str]:
    spec = a["spec"].replace(" ", "")
    ins, arrow, out = spec.partition("->")
    parts = ins.split(",")
    if (
        len(parts) != 2
        or not arrow
        or any(len(set(p)) != len(p) for p in (*parts, out))
        or "." in spec
        or not set(out) <= set(ins)
    ):
        raise ModelError(f"spec '{a['spec']}' is not of the form 'ab,bc->ac' with distinct letters", where="einsum")
    for p, x in zip(parts, t):
        if len(p) != x.rank:
            raise ModelError(f"'{p}' has {len(p)} letters for {x}", where="einsum")
    return parts[0], parts[1], out


def _einsum_extents(a: Attrs, t: Types) -> dict[str, object]:
    x, y, _ = _spec(a, t)
    extents: dict[str, object] = {}
    for letters, ty in ((x, t[0]), (y, t[1])):
        for c, d in zip(letters, ty.shape):
            if extents.setdefault(c, d) != d:
                raise ModelError(f"'{c}' is {extents[c]} and {d} in {t[0]}, {t[1]}", where="einsum")
    return extents


def _einsum_infer(t: Types, a: Attrs) -> TensorType:
    extents = _einsum_extents(a, t)
    return TensorType(_same_dtype("einsum", t), tuple(extents[c] for c in _spec(a, t)[2]))  # type: ignore[misc]


def _einsum_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    x, y, z = _spec(a, t)
    extents = _einsum_extents(a, t)
    axis = {c: Axis(f"e{c}", d) for c, d in extents.items()}  # type: ignore[arg-type]
    reads = [Read(ty.dtype, k, tuple(aff(axis[c].name) for c in s)) for k, (s, ty) in enumerate(((x, t[0]), (y, t[1])))]
    reduced = tuple(axis[c] for c in dict.fromkeys(x + y) if c not in z)
    axes = tuple(axis[c] for c in z)
    if not reduced:
        return Comprehension(axes, Map(out.dtype, "mul", tuple(reads)))
    return Comprehension(axes, contracted(out.dtype, reduced, *reads))


register(
    Op(
        "einsum",
        (2, 2),
        _einsum_infer,
        lambda x, a, o: _result(np.einsum(a["spec"], *widened(x)), x, o),
        _einsum_meaning,
        attrs={"spec": ...},
        doc="Einstein summation of two operands",
    )
)
