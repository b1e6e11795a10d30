"""Element-wise ops: one entry for every scalar function, with NumPy broadcasting. And constants spread over an index space."""

from __future__ import annotations

import numpy as np

from autocomp.ir.body import Comprehension, Const, Index, Map
from autocomp.ir.node import Attrs
from autocomp.ir.ops.common import Arrays, Types, aff, axis_of, broadcast_read, broadcast_shapes, fail, ints, loop_axes
from autocomp.ir.ops.table import Op, register
from autocomp.ir.scalar import SCALAR, apply, convert, result_dtype
from autocomp.ir.types import BOOL, I64, DType, Sym, TensorType


def _pointwise(fn: str) -> Op:
    def dtype(types: Types, attrs: Attrs) -> DType:
        if fn == "cast":
            return attrs["dtype"]
        try:
            return result_dtype(fn, [t.dtype for t in types])
        except TypeError as e:
            fail(fn, str(e), types)

    def infer(types: Types, attrs: Attrs) -> TensorType:
        return TensorType(dtype(types, attrs), broadcast_shapes(fn, types))

    def reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
        return apply(fn, arrays, t.dtype)

    def comprehension(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
        axes = loop_axes(t.shape)
        return Comprehension(axes, Map(t.dtype, fn, tuple(broadcast_read(k, x, axes) for k, x in enumerate(types))))

    n = SCALAR[fn].arity
    return Op(fn, (n, n), infer, reference, comprehension, attrs={"dtype": ...} if fn == "cast" else {},
              commutes=SCALAR[fn].commutes, doc=f"{fn}, element by element")


for _fn in SCALAR:
    register(_pointwise(_fn))


# ---- iota: the index along an axis
def _iota_infer(types: Types, attrs: Attrs) -> TensorType:
    if not 0 <= attrs["axis"] < len(attrs["shape"]):
        fail("iota", f"axis {attrs['axis']} is outside the shape {attrs['shape']}")
    return TensorType(attrs["dtype"], attrs["shape"])


def _iota_reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
    shape = tuple(attrs["shape"])
    n = [shape[attrs["axis"]] if k == attrs["axis"] else 1 for k in range(len(shape))]
    return np.broadcast_to(np.arange(shape[attrs["axis"]]).reshape(n), shape).astype(t.dtype.numpy)


def _iota_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    axes = loop_axes(t.shape)
    return Comprehension(axes, Index(t.dtype, aff(axes[attrs["axis"]].name)))


register(Op("iota", (0, 0), _iota_infer, _iota_reference, _iota_body, attrs={"shape": ..., "axis": 0, "dtype": I64},
            canonical=lambda types, a: {**a, "shape": ints(a["shape"]), "axis": axis_of("iota", a["axis"], len(a["shape"]))},
            doc="the index along `axis`, as a tensor of `shape`"))


# ---- extent: the size of a dimension as a value
def _extent_infer(types: Types, attrs: Attrs) -> TensorType:
    return TensorType(attrs["dtype"], ())


def _extent_reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
    return np.asarray(arrays[0].shape[attrs["axis"]], t.dtype.numpy)


def _extent_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    d = types[0].shape[attrs["axis"]]
    return Comprehension((), Index(t.dtype, aff(d.name if isinstance(d, Sym) else d)))


register(Op("extent", (1, 1), _extent_infer, _extent_reference, _extent_body, attrs={"axis": ..., "dtype": I64},
            canonical=lambda types, a: {**a, "axis": axis_of("extent", a["axis"], types[0].rank)},
            doc="the size of dimension `axis` as a scalar (symbolic dimensions are known when the program runs)"))


# ---- one_hot
def _one_hot_infer(types: Types, attrs: Attrs) -> TensorType:
    if not types[0].dtype.is_int:
        fail("one_hot", "indices must be integers", types)
    s = types[0].shape
    return TensorType(attrs["dtype"], (*s[:attrs["axis"]], attrs["depth"], *s[attrs["axis"]:]))


def _one_hot_reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
    n, axis = attrs["depth"], attrs["axis"]
    idx = np.expand_dims(arrays[0].astype(np.int64), axis)
    k = np.arange(n).reshape([n if d == axis else 1 for d in range(idx.ndim)])
    return convert((idx == k) | (idx + n == k), t.dtype)


def _one_hot_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    axes, axis, idx = loop_axes(t.shape), attrs["axis"], types[0].dtype
    rest = (*axes[:axis], *axes[axis + 1:])
    k = Map(I64, "cast", (broadcast_read(0, types[0], rest),)) if idx != I64 else broadcast_read(0, types[0], rest)
    at = Index(I64, aff(axes[axis].name))
    wrapped = Map(I64, "add", (k, Const(I64, attrs["depth"])))
    hit = Map(BOOL, "or", (Map(BOOL, "eq", (k, at)), Map(BOOL, "eq", (wrapped, at))))
    return Comprehension(axes, hit if t.dtype == BOOL else Map(t.dtype, "cast", (hit,)))


register(Op("one_hot", (1, 1), _one_hot_infer, _one_hot_reference, _one_hot_body,
            attrs={"depth": ..., "axis": -1, "dtype": BOOL},
            canonical=lambda types, a: {**a, "axis": axis_of("one_hot", a["axis"], types[0].rank + 1)},
            doc="1 where the new axis' index is the operand (negative ones count from the end), else 0"))
