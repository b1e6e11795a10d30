"""Ops with a dependence carried along an axis: their meaning is a `Recurrence`."""

from __future__ import annotations

from itertools import product

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Carried, Comprehension, Expr, Inside, Map, Read, Recurrence
from autocomp.ir.node import Attrs
from autocomp.ir.ops.pointwise import axes_of
from autocomp.ir.ops.table import Op, register
from autocomp.ir.types import Sym, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


# ---- stencil
def _stencil_infer(t: Types, a: Attrs) -> TensorType:
    x, w = t
    if not x.dtype.is_float or w.dtype != x.dtype:
        raise ModelError(f"x and weights must be of one float type, not {x} and {w}", where="stencil")
    if x.rank == 0 or w.rank != x.rank or any(isinstance(d, Sym) or d % 2 == 0 for d in w.shape):
        raise ModelError(f"weights {w} of a stencil over {x} need rank {x.rank} and odd, fixed extents", where="stencil")
    if not isinstance(a["steps"], int) or a["steps"] < 1:
        raise ModelError(f"steps is {a['steps']!r}, a positive int is needed", where="stencil")
    return x


def _stencil_reference(x: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    state, w = x[0], x[1]
    reach = [d // 2 for d in w.shape]
    inner = tuple(slice(r, n - r) for r, n in zip(reach, state.shape))
    if any(n <= 2 * r for r, n in zip(reach, state.shape)):
        return state.copy()
    for _ in range(a["steps"]):
        new = state.copy()
        new[inner] = sum(w[tap] * state[tuple(slice(k, n - 2 * r + k) for k, r, n in zip(tap, reach, state.shape))]
                         for tap in np.ndindex(*w.shape))
        state = new
    return state


def _stencil_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    reach = [int(str(d)) // 2 for d in t[1].shape]
    total: Expr | None = None
    for tap in product(*(range(2 * r + 1) for r in reach)):
        weight = Read(out.dtype, 1, tuple(aff(k) for k in tap))
        cell = Carried(out.dtype, tuple(aff(x.name) + (k - r) for x, k, r in zip(axes, tap, reach)))
        term = Map(out.dtype, "mul", (weight, cell))
        total = term if total is None else Map(out.dtype, "add", (total, term))
    inner: tuple[Aff, ...] = ()
    for x, r in zip(axes, reach):
        last = aff(x.extent.name if isinstance(x.extent, Sym) else x.extent) - 1 - r
        inner += (aff(x.name) - r, last - aff(x.name)) if r else ()
    assert total is not None
    keep = Carried(out.dtype, tuple(aff(x.name) for x in axes))
    step = Map(out.dtype, "where", (Inside.of(inner), total, keep)) if inner else total
    init = Read(out.dtype, 0, tuple(aff(x.name) for x in axes))
    return Comprehension(axes, Recurrence(out.dtype, Axis("t", a["steps"] + 1), axes, init, step, aff(a["steps"])))


register(Op("stencil", (2, 2), _stencil_infer, _stencil_reference, _stencil_meaning, attrs={"steps": ...},
            doc="x, `steps` times replaced by the sum of weights[d] * x[i + d - reach]; cells nearer than reach to an edge keep "
                "their value"))


# ---- linear scan
def _scan_infer(t: Types, a: Attrs) -> TensorType:
    if t[0] != t[1] or not t[0].dtype.is_float or t[0].rank == 0:
        raise ModelError(f"decay {t[0]} and x {t[1]} must be equal float types of rank 1 or more", where="linear_scan")
    if isinstance(t[0].shape[0], Sym):
        raise ModelError(f"the scanned dimension of {t[0]} must be fixed", where="linear_scan")
    return t[1]


def _scan_reference(x: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    decay, values = x
    h = np.empty_like(values)
    h[0] = values[0]
    for t in range(1, len(values)):
        h[t] = decay[t] * h[t - 1] + values[t]
    return h


def _scan_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    time, space = axes[0], axes[1:]
    here = tuple(aff(x.name) for x in space)
    step = Map(out.dtype, "add", (Map(out.dtype, "mul", (Read(out.dtype, 0, (aff("t"), *here)), Carried(out.dtype, here))),
                                  Read(out.dtype, 1, (aff("t"), *here))))
    init = Read(out.dtype, 1, (aff(0), *here))
    return Comprehension(axes, Recurrence(out.dtype, Axis("t", time.extent), space, init, step, aff(time.name)))


register(Op("linear_scan", (2, 2), _scan_infer, _scan_reference, _scan_meaning,
            doc="h[0] = x[0], h[t] = decay[t] * h[t-1] + x[t] along the first dimension (a cumulative sum where decay is 1)"))
