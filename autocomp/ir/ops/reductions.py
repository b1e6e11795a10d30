"""Reductions over axes: each names a monoid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Comprehension, Index, Map, Read, Reduce
from autocomp.ir.node import Attrs
from autocomp.ir.ops.table import Op, register
from autocomp.ir.scalar import accumulator
from autocomp.ir.types import F32, I64, SHORT_FLOATS, SHORT_NUMPY, DType, Sym, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


def reduced_type(name: str, t: TensorType, a: Attrs, dtype: DType) -> TensorType:
    """Type after dropping (or keeping as 1) `axes`. Raises ModelError on axes that t does not have."""
    axes = a["axes"]
    if any(not 0 <= x < t.rank for x in axes) or len(set(axes)) != len(axes):
        raise ModelError(f"axes {list(axes)} are not distinct dimensions of {t}", where=name)
    keep = [1 if k in axes else d for k, d in enumerate(t.shape) if a["keepdims"] or k not in axes]
    return TensorType(dtype, tuple(keep))


def split_axes(t: TensorType, a: Attrs, out: TensorType) -> tuple[tuple[Axis, ...], tuple[Axis, ...], tuple[Any, ...]]:
    """(output axes, reduced axes, index of the operand). Over no axes of the operand, one element is reduced."""
    axes = tuple(Axis(f"i{k}", d) for k, d in enumerate(out.shape))
    kept = iter([x for k, x in enumerate(axes) if not (a["keepdims"] and k in a["axes"])])
    reduced = {k: Axis(f"r{j}", t.shape[k]) for j, k in enumerate(a["axes"])}
    index = tuple(aff(reduced[k].name) if k in reduced else aff(next(kept).name) for k in range(t.rank))
    return axes, tuple(reduced[k] for k in sorted(reduced)) or (Axis("r0", 1),), index


def _entry(name: str, monoid: str, numpy: Callable[..., Any], result: Callable[[DType], DType], kinds: str) -> Op:
    def infer(t: Types, a: Attrs) -> TensorType:
        if t[0].dtype.kind not in kinds:
            raise ModelError(f"does not take {t[0]}", where=name)
        return reduced_type(name, t[0], a, result(t[0].dtype))

    def reference(x: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
        wide = x[0].astype(np.float32) if out.dtype in SHORT_FLOATS and x[0].dtype != np.float64 else x[0]
        y = numpy(wide, axis=tuple(a["axes"]), keepdims=a["keepdims"])
        return y if x[0].dtype == np.float64 else y.astype(out.dtype.numpy)

    def comprehension(t: Types, a: Attrs, out: TensorType) -> Comprehension:
        axes, reduced, index = split_axes(t[0], a, out)
        read = Read(t[0].dtype, 0, index)
        wide = accumulator(out.dtype) if monoid in ("sum", "prod") else out.dtype
        value = Reduce(wide, monoid, reduced, (read if wide == t[0].dtype else Map(wide, "cast", (read,)),))
        return Comprehension(axes, value if wide == out.dtype else Map(out.dtype, "cast", (value,)))

    return Op(name, (1, 1), infer, reference, comprehension, attrs={"axes": ..., "keepdims": False}, doc=f"{monoid} over axes")


def _initial(fn: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """numpy max/min with the identity as initial value, so that empty axes are defined."""

    def run(x: np.ndarray, axis: tuple[int, ...], keepdims: bool) -> Any:
        import ml_dtypes

        limits = ml_dtypes.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        low = limits.min if limits else -np.inf
        high = limits.max if limits else np.inf
        return fn(x, axis=axis, keepdims=keepdims, initial=low if kind == "max" else high)

    return run


_same = lambda d: d
register(_entry("reduce_sum", "sum", np.sum, _same, "fiu"))
register(_entry("reduce_prod", "prod", np.prod, _same, "fiu"))
register(_entry("reduce_max", "max", _initial(np.max, "max"), _same, "fiu"))
register(_entry("reduce_min", "min", _initial(np.min, "min"), _same, "fiu"))
register(_entry("reduce_any", "any", np.any, _same, "b"))
register(_entry("reduce_all", "all", np.all, _same, "b"))


# ---- arg-max, arg-min: the monoid carries (value, index)
def _arg_entry(name: str, monoid: str, last: Callable[..., Any], sign: int) -> Op:
    def infer(t: Types, a: Attrs) -> TensorType:
        if len(a["axes"]) != 1:
            raise ModelError(f"takes one axis, got {list(a['axes'])}", where=name)
        out = reduced_type(name, t[0], a, I64)
        if t[0].shape[a["axes"][0]] == 0:
            raise ModelError(f"axis {a['axes'][0]} of {t[0]} has no elements, so none is the largest or smallest", where=name)
        return out

    def reference(x: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
        axis = a["axes"][0]
        y = np.expand_dims(last(x[0], axis=axis), axis).astype(np.int64)
        return y if a["keepdims"] else np.squeeze(y, axis)

    def comprehension(t: Types, a: Attrs, out: TensorType) -> Comprehension:
        axes, reduced, index = split_axes(t[0], a, out)
        at = Index(I64, aff(reduced[0].name))
        return Comprehension(axes, Reduce(I64, monoid, reduced, (Read(t[0].dtype, 0, index), at), "i"))

    return Op(
        name, (1, 1), infer, reference, comprehension, attrs={"axes": ..., "keepdims": False}, doc="index of the first extremum"
    )


register(_arg_entry("reduce_argmax", "argmax", np.argmax, 1))
register(_arg_entry("reduce_argmin", "argmin", np.argmin, -1))


# ---- mean
def _mean_infer(t: Types, a: Attrs) -> TensorType:
    if not t[0].dtype.is_float:
        raise ModelError(f"does not take {t[0]}", where="reduce_mean")
    return reduced_type("reduce_mean", t[0], a, t[0].dtype)


def _mean_reference(x: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    wide = np.float32 if x[0].dtype in SHORT_NUMPY else x[0].dtype
    return np.mean(x[0], axis=tuple(a["axes"]), keepdims=a["keepdims"], dtype=wide).astype(x[0].dtype)  # type: ignore[no-any-return]


def _mean_decompose(b: Any, x: Any, a: Attrs) -> Any:
    from math import prod

    wide = F32 if x[0].type.dtype in SHORT_FLOATS else x[0].type.dtype
    y = x[0] if wide == x[0].type.dtype else b.op("cast", x[0], to=wide.name)
    total = b.op("reduce_sum", y, axes=a["axes"], keepdims=a["keepdims"])
    shape = x[0].type.shape
    n = prod(d for k in a["axes"] if isinstance(d := shape[k], int))
    y = b.op("mul", total, b.const(1.0 / n if n else float("nan"), wide))
    for k in a["axes"]:
        if isinstance(shape[k], Sym):
            y = b.op("div", y, b.op("extent", x[0], axis=k, dtype=wide.name))
    return y if wide == x[0].type.dtype else b.op("cast", y, to=x[0].type.dtype.name)


register(
    Op(
        "reduce_mean",
        (1, 1),
        _mean_infer,
        _mean_reference,
        decompose=_mean_decompose,
        attrs={"axes": ..., "keepdims": False},
        doc="sum over the number of elements",
    )
)
