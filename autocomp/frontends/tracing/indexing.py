"""Indexing of tracers: integers, slices, None and Ellipsis are views; integer arrays are look-ups."""

from __future__ import annotations

from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.tracing.arguments import array
from autocomp.frontends.tracing.array import Tracer
from autocomp.frontends.tracing.registry import protocol
from autocomp.frontends.tracing.selection import take, within
from autocomp.frontends.tracing.shapes import broadcast_arrays, moveaxis, stack
from autocomp.ir.types import I64, Sym


def _is_array(k: Any) -> bool:
    return isinstance(k, (Tracer, np.ndarray, list)) or (isinstance(k, np.generic) and not isinstance(k, np.integer))


@protocol("__getitem__")
def index(x: Tracer, key: Any) -> Tracer:
    """x[key]. Raises UnsupportedOp for boolean masks, whose result's shape depends on data, ModelError out of range."""
    keys = [int(k) if isinstance(k, np.integer) else k for k in (key if isinstance(key, tuple) else (key,))]
    for k in keys:
        known = k is None or k is Ellipsis or isinstance(k, (int, slice)) or _is_array(k)
        if not known or isinstance(k, bool):
            raise UnsupportedOp(f"indexing with a {type(k).__name__}", where="trace", hint="use integers, slices and arrays")
    real = sum(k is not None and k is not Ellipsis for k in keys)
    if real > x.ndim:
        raise ModelError(f"{real} indices for {x.type}, which has {x.ndim} dimensions", where="trace")
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[at : at + 1] = [slice(None)] * (x.ndim - real)
    arrays = [k for k in keys if _is_array(k)]
    y, places = _basic(x, keys)
    return _advanced(y, arrays, places) if arrays else y


def _basic(x: Tracer, keys: list[Any]) -> tuple[Tracer, list[int]]:
    """(integers, slices and None applied, the dimensions that arrays still have to index)."""
    starts, limits, steps, shape, places, dim = [], [], [], [], [], 0
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        n = x.shape[dim]
        dim += 1
        if _is_array(k) or (isinstance(k, slice) and all(v is None for v in (k.start, k.stop, k.step))):
            if _is_array(k):
                places.append(len(shape))
            s = slice(0, n, 1)
            shape.append(n)
        elif isinstance(n, Sym):
            raise UnsupportedOp(f"a part of the symbolic dimension {n}", where="trace", hint="fix the dimension")
        elif isinstance(k, int):
            if not -n <= k < n:
                raise ModelError(f"index {k} is out of range for a dimension of {n}", where="trace")
            s = slice(k % n, k % n + 1, 1)
        else:
            first, last, step = k.indices(n)
            s = slice(first, max(last, first) if step > 0 else last, step)
            shape.append(len(range(first, last, step)))
        starts.append(s.start)
        limits.append(s.stop)
        steps.append(s.step)
    whole = all(a == 0 and b == n and c == 1 for a, b, c, n in zip(starts, limits, steps, x.shape))
    cut = x if whole else x.op("slice", starts=tuple(starts), limits=tuple(limits), steps=tuple(steps))
    return cut.reshape(tuple(shape)), places


def _advanced(x: Tracer, arrays: list[Any], places: list[int]) -> Tracer:
    """x indexed by integer arrays along `places`: one array anywhere, or several in neighbouring dimensions."""
    values = [a if isinstance(a, Tracer) else np.asarray(a) for a in arrays]
    for v in values:
        kind = v.dtype.kind
        if kind == "b":
            raise UnsupportedOp("indexing with a mask: the result's shape depends on the data", where="trace",
                                hint="use np.where, or sums of masked values")  # fmt: skip
        if kind not in "iu":
            raise ModelError(f"indices of dtype {v.dtype}", where="trace", hint="use integers")
    if len(values) == 1:
        return take(x, values[0], axis=places[0])
    if places != list(range(places[0], places[0] + len(places))):
        raise UnsupportedOp("indexing with arrays in dimensions that are not neighbours", where="trace", hint="transpose first")
    for v, place in zip(values, places):
        within(v, x.shape[place])
    first = places[0]
    front = x if first == 0 else moveaxis(x, places, list(range(len(places))))
    tuples = stack(broadcast_arrays(*(array(v, x.b, I64).astype(I64) for v in values)), axis=-1)
    y = front.op("gather_nd", tuples.node)
    rank = tuples.ndim - 1
    return y if first == 0 else moveaxis(y, list(range(rank)), list(range(first, first + rank)))
