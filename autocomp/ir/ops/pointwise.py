"""Pointwise entries: one for every scalar function, with NumPy broadcasting."""

from __future__ import annotations

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Comprehension, Map, Read
from autocomp.ir.node import Attrs
from autocomp.ir.ops.table import Op, register
from autocomp.ir.scalar import SCALAR, apply, result_dtype
from autocomp.ir.types import DTYPES, Dim, TensorType


def axes_of(shape: tuple[Dim, ...], prefix: str = "i") -> tuple[Axis, ...]:
    """Axes i0, i1, ... over a shape."""
    return tuple(Axis(f"{prefix}{k}", d) for k, d in enumerate(shape))


def broadcast_shapes(where: str, *shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """NumPy's rule; equal symbols match. Raises ModelError with the shapes."""
    rank = max(map(len, shapes))
    out: list[Dim] = []
    for i in range(rank):
        dims = {s[i - rank + len(s)] for s in shapes if i - rank + len(s) >= 0} - {1}
        if len(dims) > 1:
            text = " and ".join(str([str(d) for d in s]).replace("'", "") for s in shapes)
            raise ModelError(f"shapes {text} do not broadcast", where=where)
        out.append(dims.pop() if dims else 1)
    return tuple(out)


def broadcast_index(shape: tuple[Dim, ...], axes: tuple[Axis, ...]) -> tuple[Aff, ...]:
    """Index of an operand of `shape` at the point `axes` of the broadcast result."""
    tail = axes[len(axes) - len(shape) :]
    return tuple(aff(a.name) if d != 1 or a.extent == 1 else aff(0) for d, a in zip(shape, tail))


def _entry(name: str) -> Op:
    fn = SCALAR[name]

    def infer(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
        shape = broadcast_shapes(name, *(t.shape for t in types))
        if name == "cast":
            if attrs["to"] not in DTYPES:
                raise ModelError(f"cast to unknown dtype '{attrs['to']}'", where="cast", hint=f"dtypes: {', '.join(DTYPES)}")
            return TensorType(DTYPES[attrs["to"]], shape)
        try:
            return TensorType(result_dtype(name, [t.dtype for t in types]), shape)
        except TypeError as e:
            raise ModelError(str(e), where=name) from None

    def reference(args: tuple[np.ndarray, ...], attrs: Attrs, out: TensorType) -> np.ndarray:
        dtype = out.dtype
        if dtype.is_float and name != "cast" and any(a.dtype == np.float64 for a in args):
            dtype = DTYPES["f64"]
        return apply(name, args, dtype)

    def comprehension(types: tuple[TensorType, ...], attrs: Attrs, out: TensorType) -> Comprehension:
        axes = axes_of(out.shape)
        reads = tuple(Read(t.dtype, k, broadcast_index(t.shape, axes)) for k, t in enumerate(types))
        return Comprehension(axes, Map(out.dtype, name, reads))

    return Op(
        name,
        (fn.arity, fn.arity),
        infer,
        reference,
        comprehension,
        attrs={"to": ...} if name == "cast" else {},
        commutes=fn.commutes,
        doc=f"{name} of each element",
    )


for _name in SCALAR:
    register(_entry(_name))
