"""NumPy's functions that choose elements: by a condition, by indices, by order, and the diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.tracing.arguments import array, axis_of, builder, common, together
from autocomp.frontends.tracing.array import Tracer, lift
from autocomp.frontends.tracing.registry import UFUNCS, function
from autocomp.frontends.tracing.shapes import broadcast_to, expand_dims, moveaxis, pad, ravel
from autocomp.ir.types import BOOL, F16, I64


@function("where")
def where(condition: Any, x: Any, y: Any) -> Tracer:
    b = builder(condition, x, y)
    if not isinstance(x, Tracer) and not isinstance(y, Tracer):
        kinds = common(x, y)
        branches = [array(v, b, kinds).astype(kinds) for v in (x, y)]
    else:
        branches = together([x, y])
    mask = array(condition, b, BOOL)
    mask = mask if mask.element == BOOL else mask != 0
    return mask.op("where", *(v.node for v in branches))


@function("clip")
def clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = a_min if a_min is not None else min, a_max if a_max is not None else max
    x = x if low is None or _beyond(x, low, -1) else UFUNCS["maximum"](x, low)
    return x if high is None or _beyond(x, high, 1) else UFUNCS["minimum"](x, high)


def _beyond(x: Any, limit: Any, side: int) -> bool:
    """Whether a Python integer lies below (side -1) or above all integers of x's type, so that it limits nothing."""
    if not (isinstance(x, Tracer) and x.element.is_int and isinstance(limit, int)) or isinstance(limit, (bool, np.generic)):
        return False
    ends = np.iinfo(x.dtype)
    return limit < ends.min if side < 0 else limit > ends.max


def within(at: Any, n: Any) -> None:
    """Raises ModelError where indices that are known lie outside a dimension of n."""
    if isinstance(at, Tracer) or not isinstance(n, int):
        return
    known = np.asarray(at)
    if known.size and known.dtype.kind in "iu" and not (known.min() >= -n and known.max() < n):
        raise ModelError(f"an index of {known.min()}..{known.max()} is out of range for a dimension of {n}", where="trace")


@function("take")
def take(x: Any, indices: Any, axis: int | None = None) -> Tracer:
    b = builder(x, indices)
    x = array(x, b)
    x, axis = (ravel(x), 0) if axis is None else (x, axis_of(axis, x.ndim))
    within(indices, x.shape[axis])
    at = indices if isinstance(indices, Tracer) else Tracer(b, lift(b, np.asarray(indices), I64))
    return x.op("gather", at.node, axis=axis)


@function("repeat")
def repeat(x: Tracer, repeats: Any, axis: int | None = None) -> Tracer:
    x, axis = (ravel(x), 0) if axis is None else (x, axis_of(axis, x.ndim))
    if not isinstance(repeats, int):
        return take(x, np.repeat(np.arange(x.shape[axis]), repeats), axis)
    y = expand_dims(x, axis + 1)
    y = broadcast_to(y, (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]))
    return y.reshape((*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]))


@function("take_along_axis")
def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Tracer:
    b = builder(x, indices)
    x, at = array(x, b), array(indices, b)
    within(indices, x.shape[axis_of(axis, x.ndim)])
    rest = tuple(k for k in range(x.ndim) if k != axis_of(axis, x.ndim))
    if any(at.shape[k] != x.shape[k] for k in rest):
        shape = tuple(x.shape[k] if k in rest else at.shape[k] for k in range(x.ndim))
        at = broadcast_to(at, shape)
    return x.op("gather_elements", at.node, axis=axis_of(axis, x.ndim))


@function("round", "around")
def round_(x: Tracer, decimals: int = 0) -> Any:
    if not x.element.is_float:
        if x.element == BOOL:
            return round_(x.astype(F16), decimals)
        if decimals < 0:
            raise UnsupportedOp(f"numpy.round of {x.type} to {decimals} decimals", where="trace", hint="cast it to a float first")
        return x.copied()
    if decimals == 0:
        return np.rint(x)
    scale = x.dtype.type(10.0 ** abs(decimals))
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


@function("nan_to_num")
def nan_to_num(x: Tracer, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    if not x.element.is_float:
        return x.copied()
    limits = ml_dtypes.finfo(x.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    numbers = [array(v, x.b, x.element) for v in (nan, high, low)]
    return where(np.isnan(x), numbers[0], where(np.isinf(x), where(x > 0, *numbers[1:]), x))


@function("isclose")
def isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """As NumPy: what is compared with is a float, and no infinity is close to anything but itself."""
    b = builder(x, y)
    y = array(y, b)
    y = y if y.element.is_float else y.astype(common(y.dtype, 1.0))
    x = array(x, b, y.element if isinstance(x, (int, float)) else None)
    near = (np.abs(x - y) <= atol + rtol * np.abs(y)) & np.isfinite(y) | (x == y)
    return near | np.isnan(x) & np.isnan(y) if equal_nan else near


@function("sort")
def sort(x: Tracer, axis: int = -1) -> Tracer:
    axis = axis_of(axis, x.ndim)
    return x.op("topk", k=x.shape[axis], axis=axis, largest=False, part="values")


@function("argsort")
def argsort(x: Tracer, axis: int = -1) -> Tracer:
    axis = axis_of(axis, x.ndim)
    return x.op("topk", k=x.shape[axis], axis=axis, largest=False, part="indices")


# ---- diagonals and triangles
def _grid(x: Tracer, offset: int) -> Tracer:
    """column - row - offset of the last two dimensions. Raises ModelError where x has fewer."""
    if x.ndim < 2:
        raise ModelError(f"{x.type} has no two dimensions", where="trace")
    rows, cols = x.shape[-2:]
    i, j = (Tracer(x.b, x.b.op("iota", shape=(rows, cols), axis=a)) for a in range(2))
    return j - i - offset


def _triangle(below: bool) -> Any:
    def triangle(x: Tracer, k: int = 0) -> Tracer:
        x = broadcast_to(x, (x.shape[0], x.shape[0])) if x.ndim == 1 else x
        at = _grid(x, k)
        return where(at <= 0 if below else at >= 0, x, array(0, x.b, x.element))

    return triangle


function("tril")(_triangle(True))
function("triu")(_triangle(False))


@function("diagonal")
def diagonal(x: Tracer, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tracer:
    if x.ndim < 2:
        raise ModelError(f"{x.type} has no diagonal", where="trace")
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, cols = x.shape[-2:]
    n = max(0, min(rows - max(-offset, 0), cols - max(offset, 0)))
    at = np.arange(n) * (cols + 1) + (offset if offset >= 0 else -offset * cols)
    return take(x.reshape((*x.shape[:-2], rows * cols)), at, -1)


@function("diag")
def diag(x: Tracer, k: int = 0) -> Tracer:
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ModelError(f"{x.type} is no row and no matrix", where="trace")
    n = x.shape[0] + abs(k)
    wide = broadcast_to(pad(x, ((max(-k, 0), max(k, 0)),)).reshape(n, 1), (n, n))
    return where(_grid(wide, k) == 0, wide, array(0, x.b, x.element))


@function("diff")
def diff(x: Tracer, n: int = 1, axis: int = -1) -> Tracer:
    axis = axis_of(axis, x.ndim)
    before = tuple(slice(None) for _ in range(axis))
    if n < 0:
        raise ModelError(f"numpy.diff of order {n}", where="trace")
    for _ in range(n):
        pair = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = pair[0] ^ pair[1] if x.element == BOOL else pair[0] - pair[1]
    return x
