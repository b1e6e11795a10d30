"""NumPy's reductions: sums, extremes, moments, norms, and what runs along an axis."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.tracing.arguments import array, axes_of, axis_of, builder, common
from autocomp.frontends.tracing.array import Tracer
from autocomp.frontends.tracing.registry import FUNCTIONS, function
from autocomp.frontends.tracing.selection import diagonal
from autocomp.frontends.tracing.shapes import broadcast_to, ravel
from autocomp.ir.types import BOOL, F64, I8, I64, U64, Sym


def _reduction(op: str) -> Callable[..., Tracer]:
    def reduce(x: Tracer, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tracer:
        x = x if dtype is None else x.astype(dtype)
        if op in ("reduce_sum", "reduce_prod") and dtype is None and not x.element.is_float and x.element.bits < 64:
            x = x.astype(U64 if x.element.kind == "u" else I64)
        if op in ("reduce_any", "reduce_all"):
            x = x if x.element == BOOL else x != 0
        elif x.element == BOOL:
            return reduce(x.astype(I8), axis, None, keepdims).astype(BOOL)
        axes = axes_of(axis, x.ndim)
        if op in ("reduce_max", "reduce_min") and 0 in (x.shape[a] for a in axes):
            raise ModelError(f"{x.type} has no elements along {list(axes)}, so none is the largest or smallest", where="trace")
        return x.op(op, axes=axes, keepdims=bool(keepdims))

    return reduce


for _names, _entry in (
    (("sum",), "reduce_sum"), (("prod",), "reduce_prod"), (("any",), "reduce_any"), (("all",), "reduce_all"),
    (("max", "amax"), "reduce_max"), (("min", "amin"), "reduce_min"),
):  # fmt: skip
    function(*_names)(_reduction(_entry))


@function("mean")
def mean(x: Tracer, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tracer:
    x = x.astype(dtype) if dtype is not None else x if x.element.is_float else x.astype(F64)
    if not x.element.is_float:
        raise UnsupportedOp(f"a mean in {x.dtype}", where="trace", hint="compute it in a float dtype")
    return x.op("reduce_mean", axes=axes_of(axis, x.ndim), keepdims=bool(keepdims))


@function("var")
def var(x: Tracer, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False, correction: float = 0) -> Tracer:
    x = x.astype(dtype) if dtype is not None else x if x.element.is_float else x.astype(F64)
    if not x.element.is_float:
        raise UnsupportedOp(f"a mean in {x.dtype}", where="trace", hint="compute it in a float dtype")
    axes, less = axes_of(axis, x.ndim), ddof or correction
    centred = x - mean(x, axes, keepdims=True)
    if not less:
        return mean(centred * centred, axes, keepdims=keepdims)
    if any(isinstance(x.shape[a], Sym) for a in axes):
        raise UnsupportedOp(f"ddof={less} over an open size of {x.type}", where="trace", hint="fix the dimension, or scale the variance")
    n = prod(x.shape[a] for a in axes)
    total = FUNCTIONS["sum"](centred * centred, axes, None, keepdims)
    return total / x.dtype.type(max(n - less, 0))


@function("std")
def std(x: Tracer, axis: Any = None, **kwargs: Any) -> Any:
    return np.sqrt(var(x, axis, **kwargs))


def _arg(op: str) -> Callable[..., Tracer]:
    def arg(x: Tracer, axis: int | None = None, *, keepdims: bool = False) -> Tracer:
        if axis is None:
            y = ravel(x).op(op, axes=(0,), keepdims=False)
            return y.reshape((1,) * x.ndim) if keepdims else y
        return x.op(op, axes=(axis_of(axis, x.ndim),), keepdims=keepdims)

    return arg


function("argmax")(_arg("reduce_argmax"))
function("argmin")(_arg("reduce_argmin"))


def _running(op: str) -> Callable[..., Tracer]:
    def run(x: Tracer, axis: int | None = None, dtype: Any = None) -> Tracer:
        x = ravel(x) if axis is None else x
        if dtype is None and not x.element.is_float and x.element.bits < 64:
            dtype = U64 if x.element.kind == "u" else I64
        x = x if dtype is None else x.astype(dtype)
        return x.op(op, axis=axis_of(0 if axis is None else axis, x.ndim))

    return run


function("cumsum", "cumulative_sum")(_running("cumsum"))
function("cumprod", "cumulative_prod")(_running("cumprod"))
function("ptp")(lambda x, axis=None, keepdims=False: FUNCTIONS["max"](x, axis, None, keepdims) - FUNCTIONS["min"](x, axis, None, keepdims))
function("count_nonzero")(lambda x, axis=None, keepdims=False: FUNCTIONS["sum"](x != 0, axis, I64, keepdims))
function("trace")(lambda x, offset=0: FUNCTIONS["sum"](diagonal(x, offset), -1))


@function("average")
def average(x: Tracer, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    x = array(x, builder(x, weights))
    w = array(weights, x.b)
    dtype = common(x.dtype, w.dtype, *(() if x.element.is_float and w.element.is_float else (np.dtype(float),)))
    x, w = x.astype(dtype), w.astype(dtype)
    if w.shape != x.shape:
        axes = axes_of(axis, x.ndim)
        if axis is None or w.shape != tuple(x.shape[a] for a in axes):
            raise ModelError(f"weights {w.type} of {x.type} along {axis}", where="trace", hint="give one weight an element, or along axis")
        w = w.transpose(tuple(np.argsort(axes).tolist()))
        w = broadcast_to(w.reshape(tuple(d if k in axes else 1 for k, d in enumerate(x.shape))), x.shape)
    total = FUNCTIONS["sum"]
    return total(x * w, axis, None, keepdims) / total(w, axis, None, keepdims)


@function("norm", "vector_norm")
def norm(x: Tracer, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The 2-norm (of all elements, or along axes), or the 1- or maximum norm of vectors."""
    if ord not in (None, 1, 2, np.inf) or (ord is not None and not isinstance(axis, int) and x.ndim != 1):
        raise UnsupportedOp(f"numpy.linalg.norm of order {ord}", where="trace", hint="use the 2-norm, or 1 or inf of vectors")
    if not x.element.is_float:
        x = x.astype(F64)
    if ord in (1, np.inf):
        return FUNCTIONS["sum" if ord == 1 else "max"](abs(x), axis, None, keepdims)
    return np.sqrt(FUNCTIONS["sum"](x * x, axis, None, keepdims))
