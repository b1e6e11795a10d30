"""Running sums, products and extrema: a reduction over the elements up to each position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Comprehension, Expr, Map, Read, Reduce
from autocomp.ir.monoids import neutral
from autocomp.ir.node import Attrs
from autocomp.ir.ops.pointwise import axes_of
from autocomp.ir.ops.table import Op, register
from autocomp.ir.scalar import accumulator
from autocomp.ir.types import DType, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


def _infer(name: str) -> Callable[[Types, Attrs], TensorType]:
    def infer(t: Types, a: Attrs) -> TensorType:
        if not 0 <= a["axis"] < t[0].rank:
            raise ModelError(f"axis {a['axis']} is no dimension of {t[0]}", where=name)
        return t[0]

    return infer


def _wide(monoid: str, dtype: DType) -> DType:
    """The type that elements are folded in: extrema of short integers stay in theirs, whose end is what no elements give."""
    return dtype if dtype.is_int and monoid in ("max", "min") else accumulator(dtype)


def _meaning(monoid: str, fn: str) -> Callable[[Types, Attrs, TensorType], Comprehension]:
    def meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
        axes, axis = axes_of(out.shape), a["axis"]
        r = Axis("r", t[0].shape[axis])
        here, there = aff(axes[axis].name), aff("r")
        ahead = there - here if a["reverse"] else here - there
        index = tuple(there if k == axis else aff(x.name) for k, x in enumerate(axes))
        read: Expr = Read(t[0].dtype, 0, index, (ahead - 1 if a["exclusive"] else ahead,), neutral(fn, t[0].dtype))
        wide = _wide(monoid, out.dtype)
        value: Expr = Reduce(wide, monoid, (r,), (read if wide == out.dtype else Map(wide, "cast", (read,)),))
        return Comprehension(axes, value if wide == out.dtype else Map(out.dtype, "cast", (value,)))

    return meaning


def _reference(numpy: Callable[..., Any], fn: str) -> Callable[[Arrays, Attrs, TensorType], np.ndarray]:
    def reference(x: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
        axis = a["axis"]
        v = np.flip(x[0], axis) if a["reverse"] else x[0]
        y = numpy(v.astype(accumulator(out.dtype).numpy) if v.dtype != np.float64 else v, axis=axis)
        if a["exclusive"]:
            first = np.full_like(np.delete(y, slice(1, None), axis), neutral(fn, out.dtype))
            y = np.concatenate([first, np.delete(y, slice(-1, None), axis)], axis)
        y = np.flip(y, axis) if a["reverse"] else y
        return y if x[0].dtype == np.float64 else y.astype(out.dtype.numpy)

    return reference


_TABLE = (
    ("cumsum", "sum", "add", np.cumsum), ("cumprod", "prod", "mul", np.cumprod),
    ("cummax", "max", "max", np.maximum.accumulate), ("cummin", "min", "min", np.minimum.accumulate),
)  # fmt: skip
for _name, _monoid, _fn, _numpy in _TABLE:
    register(
        Op(
            _name,
            (1, 1),
            _infer(_name),
            _reference(_numpy, _fn),
            _meaning(_monoid, _fn),
            attrs={"axis": ..., "exclusive": False, "reverse": False},
            doc=f"running {_monoid} along axis; exclusive: of the elements before; reverse: from the end",
        )
    )
