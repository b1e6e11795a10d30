"""NumPy's functions that arrange elements: shapes, order of dimensions, repeats, joining and splitting, and new arrays in the shape of
another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.tracing.arguments import array, axes_of, axis_of, builder, together
from autocomp.frontends.tracing.array import Tracer, numpy_dtype
from autocomp.frontends.tracing.registry import function
from autocomp.ir.builder import Builder
from autocomp.ir.ops.pointwise import broadcast_shapes
from autocomp.ir.ops.repeats import PAD_MODES
from autocomp.ir.types import DType, may_be_one


@function("reshape")
def reshape(x: Tracer, /, shape: Any = None, order: str = "C", *, newshape: Any = None) -> Tracer:
    return x.reshape(shape if shape is not None else newshape, order=order)


@function("ravel")
def ravel(x: Tracer, order: str = "C") -> Tracer:
    return x.reshape(-1, order=order) if x.size else x.reshape(0)


function("transpose", "permute_dims")(lambda x, axes=None: x.transpose(*(axes or ())))
function("matrix_transpose")(lambda x: x.mT)
function("flatten")(lambda x, order="C": ravel(x, order).copied())
function("copy", "conj")(lambda x, *a, **k: x.copied())
function("real")(lambda x: x)
function("astype")(lambda x, dtype, copy=True: x.astype(dtype))
function("shape")(lambda x: x.shape)
function("ndim")(lambda x: x.ndim)
function("size")(lambda x, axis=None: x.size if axis is None else x.shape[axis])


@function("swapaxes")
def swapaxes(x: Tracer, axis1: int, axis2: int) -> Tracer:
    a, b = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return x.transpose(order)


@function("moveaxis")
def moveaxis(x: Tracer, source: Any, destination: Any) -> Tracer:
    src, dst = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    if len(src) != len(dst):
        raise ModelError(f"moves axes {source} to {destination}", where="trace", hint="give as many destinations")
    order = [k for k in range(x.ndim) if k not in src]
    for d, s in sorted(zip(dst, src)):
        order.insert(d, s)
    return x.transpose(order)


@function("expand_dims")
def expand_dims(x: Tracer, axis: Any) -> Tracer:
    many = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    rank = x.ndim + len(many)
    new, rest = axes_of(many, rank), iter(x.shape)
    return x.reshape(tuple(1 if k in new else next(rest) for k in range(rank)))


@function("squeeze")
def squeeze(x: Tracer, axis: Any = None) -> Tracer:
    drop = [k for k, d in enumerate(x.shape) if d == 1] if axis is None else list(axes_of(axis, x.ndim))
    if axis is None and (k := next((k for k, d in enumerate(x.shape) if may_be_one(d)), None)) is not None:
        raise UnsupportedOp(
            f"squeezes {x.type} without axes, and its axis {k} ('{x.shape[k]}') may be 1 when the program runs",
            where="trace",
            hint=f"name the axes: squeeze(axis={tuple(drop)})" if drop else "leave it out",
        )
    if any(x.shape[k] != 1 for k in drop):
        raise ModelError(f"squeezes axes {drop} of {x.type}, which are not all 1", where="trace")
    return x.reshape(tuple(d for k, d in enumerate(x.shape) if k not in drop))


@function("broadcast_to")
def broadcast_to(x: Tracer, shape: Any) -> Tracer:
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return x if shape == x.shape else x.op("broadcast", shape=shape)


@function("broadcast_arrays")
def broadcast_arrays(*values: Any) -> tuple[Tracer, ...]:
    b = builder(*values)
    xs = [array(v, b) for v in values]
    shape = broadcast_shapes("broadcast_arrays", *(x.shape for x in xs))
    return tuple(broadcast_to(x, shape) for x in xs)


@function("flip")
def flip(x: Tracer, axis: Any = None) -> Tracer:
    axes = axes_of(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(x.ndim))]


function("fliplr")(lambda x: flip(x, 1))
function("flipud")(lambda x: flip(x, 0))


@function("roll")
def roll(x: Tracer, shift: Any, axis: Any = None) -> Tracer:
    if axis is None:
        return roll(ravel(x), shift, 0).reshape(x.shape)
    axes, x = axes_of(axis, x.ndim), x.copied()
    for a, s in zip(axes, shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes), strict=True):
        k = s % x.shape[a] if x.shape[a] else 0
        before = tuple(slice(None) for _ in range(a))
        x = concatenate([x[(*before, slice(x.shape[a] - k, None))], x[(*before, slice(None, x.shape[a] - k))]], a) if k else x
    return x


@function("tile")
def tile(x: Tracer, reps: Any) -> Tracer:
    times = tuple(reps) if isinstance(reps, (tuple, list)) else (reps,)
    rank = max(len(times), x.ndim)
    x = x.reshape((1,) * (rank - x.ndim) + x.shape)
    return x.op("tile", repeats=(1,) * (rank - len(times)) + times)


@function("pad")
def pad(x: Tracer, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Tracer:
    try:
        widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2))
    except ValueError:
        raise ModelError(f"pad widths {pad_width} for {x.type}", where="trace", hint="give (before, after) of each dimension") from None
    if widths.dtype.kind not in "iu" or (widths < 0).any():
        raise ModelError(f"pad widths {pad_width}", where="trace", hint="give whole numbers from 0 on")
    lo, hi = tuple(widths[:, 0].tolist()), tuple(widths[:, 1].tolist())
    if mode == "constant" and np.ndim(constant_values) == 0 and not isinstance(constant_values, Tracer):
        return x.op("pad", lo=lo, hi=hi, value=filled(constant_values, x.element))
    if mode not in PAD_MODES:
        raise UnsupportedOp(f"numpy.pad in mode '{mode}' with {constant_values}", where="trace",
                            hint=f"modes: constant (one number), {', '.join(PAD_MODES)}")  # fmt: skip
    return x.op(f"pad_{mode}", lo=lo, hi=hi)


# ---- joining and splitting
@function("concatenate", "concat")
def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Tracer:
    xs = together(arrays)
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    return xs[0].copied() if len(xs) == 1 else xs[0].op("concat", *(x.node for x in xs[1:]), axis=axis_of(axis, xs[0].ndim))


@function("stack")
def stack(arrays: Sequence[Any], axis: int = 0) -> Tracer:
    xs = together(arrays)
    return concatenate([expand_dims(x, axis_of(axis, xs[0].ndim + 1)) for x in xs], axis_of(axis, xs[0].ndim + 1))


def _at_least(x: Any, rank: int, b: Builder) -> Tracer:
    x = array(x, b)
    return x.reshape((1,) * (rank - x.ndim) + x.shape) if x.ndim < rank else x


@function("hstack")
def hstack(arrays: Sequence[Any]) -> Tracer:
    xs = [_at_least(a, 1, builder(*arrays)) for a in arrays]
    return concatenate(xs, 0 if xs[0].ndim == 1 else 1)


function("vstack", "row_stack")(lambda arrays: concatenate([_at_least(a, 2, builder(*arrays)) for a in arrays], 0))


@function("split")
def split(x: Tracer, indices_or_sections: Any, axis: int = 0) -> list[Tracer]:
    n, parts = x.shape[axis_of(axis, x.ndim)], indices_or_sections
    if isinstance(parts, (int, np.integer)) and (parts < 1 or n % parts):
        raise ModelError(f"splits {x.type} into {parts} equal parts", where="trace", hint="use np.array_split for parts of several sizes")
    return array_split(x, parts, axis)


@function("array_split")
def array_split(x: Tracer, indices_or_sections: Any, axis: int = 0) -> list[Tracer]:
    sections = indices_or_sections
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    if isinstance(sections, (int, np.integer)):
        if sections < 1:
            raise ModelError(f"splits {x.type} into {sections} parts", where="trace")
        sizes = [n // sections + (k < n % sections) for k in range(sections)]
        edges = np.cumsum([0, *sizes]).tolist()
    else:
        edges = [0, *sections, n]
    before = tuple(slice(None) for _ in range(axis))
    return [x[(*before, slice(a, b))] for a, b in zip(edges, edges[1:])]


@function("unstack")
def unstack(x: Tracer, axis: int = 0) -> tuple[Tracer, ...]:
    return tuple(moveaxis(x, axis, 0))


# ---- arrays like another
def filled(value: Any, dtype: DType) -> float | int | bool:
    """A number as an element of `dtype`. Raises ModelError on a Python integer that it does not hold."""
    if isinstance(value, int) and dtype.is_int and not np.iinfo(dtype.numpy).min <= value <= np.iinfo(dtype.numpy).max:
        raise ModelError(f"{value} does not fit {dtype.numpy}", where="trace")
    return np.asarray(value).astype(dtype.numpy).item()  # type: ignore[no-any-return]


def full_like(x: Tracer, fill_value: Any, dtype: Any = None, shape: Any = None) -> Tracer:
    kind = x.element if dtype is None else numpy_dtype(dtype)
    one = fill_value.astype(kind) if isinstance(fill_value, Tracer) else Tracer(x.b, x.b.const(filled(fill_value, kind), kind))
    return broadcast_to(one, x.shape if shape is None else shape)


def _like(value: float) -> Callable[..., Tracer]:
    return lambda x, dtype=None, shape=None: full_like(x, value, dtype, shape)


function("zeros_like", "empty_like")(_like(0))
function("ones_like")(_like(1))
function("full_like")(full_like)
function("result_type")(lambda *v: np.result_type(*(a.dtype if isinstance(a, Tracer) else a for a in v)))
