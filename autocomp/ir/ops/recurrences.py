"""Ops with a dependence carried along time: their meaning is a `Recurrence`."""

from __future__ import annotations

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Comprehension, Const, Expr, Inside, Map, Prev, Read, Recurrence
from autocomp.ir.node import Attrs
from autocomp.ir.ops.pointwise import axes_of
from autocomp.ir.ops.table import Op, register
from autocomp.ir.scalar import accumulator
from autocomp.ir.types import Sym, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


def _taps(a: Attrs) -> list[tuple[int, ...]]:
    """Offsets as tuples; over one dimension they may be given as plain ints."""
    return [o if isinstance(o, tuple) else (o,) for o in a["offsets"]]


def _reach(a: Attrs, rank: int) -> list[tuple[int, int]]:
    """How far the taps reach below and above a cell, a dimension."""
    return [
        (max(0, *(-o[d] for o in _taps(a))), max(0, *(o[d] for o in _taps(a))))
        if len(_taps(a)) > 1
        else (max(0, -_taps(a)[0][d]), max(0, _taps(a)[0][d]))
        for d in range(rank)
    ]


def _stencil_infer(t: Types, a: Attrs) -> TensorType:
    x = t[0]
    if not x.dtype.is_float or x.rank == 0:
        raise ModelError(f"takes floats of rank 1 or more, not {x}", where="stencil")
    if any(isinstance(d, Sym) for d in x.shape):
        raise UnsupportedOp(f"symbolic dimensions of {x}", where="stencil", hint="fix them with dims={...}")
    if not a["offsets"] or len(a["offsets"]) != len(a["weights"]) or any(len(o) != x.rank for o in _taps(a)):
        raise ModelError(
            f"{len(a['offsets'])} offsets and {len(a['weights'])} weights: each weight needs an offset of "
            f"{x.rank} numbers for {x}",
            where="stencil",
        )
    if not isinstance(a["steps"], int) or a["steps"] < 1:
        raise ModelError(f"steps is {a['steps']!r}, a positive int is needed", where="stencil")
    return x


def _stencil_reference(x: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    wide = np.float64 if x[0].dtype == np.float64 else accumulator(out.dtype).numpy.type
    state = x[0].astype(wide)
    shape, reach = state.shape, _reach(a, out.rank)
    if all(n > lo + hi for n, (lo, hi) in zip(shape, reach)):
        inner = tuple(slice(lo, n - hi) for n, (lo, hi) in zip(shape, reach))
        for _ in range(a["steps"]):
            new = state.copy()
            new[inner] = sum(
                wide(w) * state[tuple(slice(lo + d, n - hi + d) for n, (lo, hi), d in zip(shape, reach, o))]
                for o, w in zip(_taps(a), a["weights"])
            )
            state = new
    return state if x[0].dtype == np.float64 else state.astype(out.dtype.numpy)


def _stencil_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    """where(interior, sum of w_k * A[t, s + o_k], A[t, s]); only cells whose every neighbour exists change."""
    axes, space, wide = axes_of(out.shape), axes_of(out.shape, "s"), accumulator(out.dtype)
    here = tuple(aff(x.name) for x in space)
    inside: tuple[Aff, ...] = ()
    for i, n, (lo, hi) in zip(here, out.shape, _reach(a, out.rank)):
        assert isinstance(n, int)
        inside += ((i - lo,) if lo else ()) + ((aff(n - 1 - hi) - i,) if hi else ())
    total: Expr | None = None
    for o, w in zip(_taps(a), a["weights"]):
        cell = Prev(wide, tuple(i + d for i, d in zip(here, o)), inside)
        term = Map(wide, "mul", (Const(wide, float(w)), cell))
        total = term if total is None else Map(wide, "add", (total, term))
    assert total is not None
    step = Map(wide, "where", (Inside.of(inside), total, Prev(wide, here))) if inside else total
    init: Expr = Read(out.dtype, 0, here)
    init = init if wide == out.dtype else Map(wide, "cast", (init,))
    value = Recurrence(wide, Axis("t", a["steps"]), space, init, step, tuple(aff(x.name) for x in axes))
    return Comprehension(axes, value if wide == out.dtype else Map(out.dtype, "cast", (value,)))


register(
    Op(
        "stencil",
        (1, 1),
        _stencil_infer,
        _stencil_reference,
        _stencil_meaning,
        attrs={"offsets": ..., "weights": ..., "steps": ...},
        doc="A[t+1, i] = sum of weights[k] * A[t, i + offsets[k]], `steps` times; cells nearer to an edge than a tap reaches "
        "keep their value",
    )
)
