"""Look-ups by index tuples, and one-hot vectors: data-dependent reads of fixed shape."""

from __future__ import annotations

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.affine import aff
from autocomp.ir.body import Comprehension, Expr, Gather, Index, Map, Read
from autocomp.ir.node import Attrs
from autocomp.ir.ops.data import check_index, wrapped
from autocomp.ir.ops.pointwise import axes_of
from autocomp.ir.ops.table import Op, register
from autocomp.ir.types import BOOL, I64, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


# ---- gather_nd: out[b, p, rest] = x[b, indices[b, p, :], rest]
def _nd_infer(t: Types, a: Attrs) -> TensorType:
    x, at = t
    check_index("gather_nd", at)
    batch = a["batch_dims"]
    depth = at.shape[-1] if at.rank else 0
    if not isinstance(depth, int) or not 0 <= batch < at.rank or batch + depth > x.rank or x.shape[:batch] != at.shape[:batch]:
        raise ModelError(f"index tuples {at} do not fit {x} with {batch} batch dimensions", where="gather_nd")
    return TensorType(x.dtype, at.shape[:-1] + x.shape[batch + depth :])


def _nd_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes, batch, at = axes_of(out.shape), a["batch_dims"], t[1]
    places, depth = at.rank - 1, int(at.shape[-1])  # type: ignore[arg-type]
    lead = tuple(aff(x.name) for x in axes[:places])
    plain = [Index(I64, aff(x.name)) for x in axes]
    tuples = [wrapped(Read(at.dtype, 1, (*lead, aff(k))), t[0].shape[batch + k]) for k in range(depth)]
    return Comprehension(axes, Gather(out.dtype, 0, (*plain[:batch], *tuples, *plain[places:])))


def _nd_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    batch, depth = a["batch_dims"], x[1].shape[-1]
    places = x[1].shape[:-1]
    at = [np.arange(n).reshape([n if k == j else 1 for j in range(len(places))]) for k, n in enumerate(places[:batch])]
    tuples = [x[1][..., k].astype(np.int64) for k in range(depth)]
    return x[0][(*at, *tuples)] if at or tuples else np.broadcast_to(x[0], o.shape)  # type: ignore[arg-type]


register(
    Op(
        "gather_nd",
        (2, 2),
        _nd_infer,
        _nd_reference,
        _nd_meaning,
        attrs={"batch_dims": 0},
        doc="x at index tuples (the last dimension of `indices`), the first batch_dims dimensions shared; negatives count back",
    )
)


# ---- one_hot(indices, values): values[1] where the index stands, values[0] elsewhere
def _hot_infer(t: Types, a: Attrs) -> TensorType:
    at, values = t
    check_index("one_hot", at)
    if values.shape != (2,) or not 0 <= a["axis"] <= at.rank or a["depth"] < 0:
        raise ModelError(
            f"takes indices and [off, on], an axis in 0..{at.rank} and a depth of 0 or more; got {at}, {values}, "
            f"axis {a['axis']}, depth {a['depth']}",
            where="one_hot",
        )
    return TensorType(values.dtype, (*at.shape[: a["axis"]], a["depth"], *at.shape[a["axis"] :]))


def _hot_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes, axis = axes_of(out.shape), a["axis"]
    at: Expr = Read(t[0].dtype, 0, tuple(aff(x.name) for k, x in enumerate(axes) if k != axis))
    wide = at if t[0].dtype == I64 else Map(I64, "cast", (at,))
    here = Map(BOOL, "eq", (wrapped(wide, a["depth"]), Index(I64, aff(axes[axis].name))))
    off, on = (Read(out.dtype, 1, (aff(k),)) for k in range(2))
    return Comprehension(axes, Map(out.dtype, "where", (here, on, off)))


def _hot_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    at = np.expand_dims(x[0].astype(np.int64), a["axis"])
    at = np.where(at < 0, at + a["depth"], at)
    along = [a["depth"] if k == a["axis"] else 1 for k in range(at.ndim)]
    return np.where(at == np.arange(a["depth"]).reshape(along), x[1][1], x[1][0])


register(
    Op(
        "one_hot",
        (2, 2),
        _hot_infer,
        _hot_reference,
        _hot_meaning,
        attrs={"depth": ..., "axis": ...},
        doc="`depth` long vectors along a new axis: values[1] at the index (negatives count back), values[0] elsewhere",
    )
)
