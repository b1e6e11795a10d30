"""ATen operators that resize images: along each axis a weighted sum of a few elements that are known when the model is read."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Any

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.torch import resampling_open
from autocomp.frontends.torch.call import Call, row
from autocomp.ir.node import Node
from autocomp.ir.sizes import product
from autocomp.ir.types import F32, SHORT_FLOATS, Dim

CUBIC = -0.75  # the free number of Keys' kernel, as torch has it

Taps = list[tuple[np.ndarray, np.ndarray | None]]
"""(which element of the axis, with what weight) for each output element; None for a weight of 1."""


def _upsampling(n: int, taps: Callable[[int, int, float | None, bool], Taps], corners: bool) -> Callable[..., Node]:
    """The row of an operator that resizes the last n axes. Its arguments beside x: sizes and, of all but nearest ones, align_corners;
    then factors, in one list or apart."""

    def lower(c: Call, x: Node, *rest: Any, **named: Any) -> Node:
        assert c.out is not None
        if taps in (_linear, _cubic) and not x.type.dtype.is_float:
            raise c.refuse(f"resizes {x.type}")
        if 0 in x.type.shape:
            return _nothing(c, x)
        align = bool(rest[1]) if corners else False
        last = rest[2 if corners else 1 :]
        factors = last[0] if last and isinstance(last[0], list) else named.get("scale_factors") or [*last] or None
        d = x.type.dtype
        y = c.cast(x, F32) if d in SHORT_FLOATS else x
        for k in range(n):
            axis = y.type.rank - n + k
            size, out = x.type.shape[axis], c.out.shape[axis]
            factor = factors[k] if factors and k < len(factors) else None
            if not isinstance(size, int) or not isinstance(out, int):
                y = _open(c, y, axis, out, taps, factor, align)
                continue
            if size == out and (factor is None or taps in (_linear, _nearest)):  # torch copies, whatever the factor says
                continue
            check_table(out, c.where)
            y = _weighted(c, y, axis, taps(size, out, factor, align))
        return c.cast(y, d)

    return lower


def _nothing(c: Call, x: Node) -> Node:
    """Of no images or no channels, as many results. Raises UnsupportedOp where there are some."""
    assert c.out is not None
    if 0 not in c.out.shape:
        raise c.refuse(f"resizes {x.type} to {c.out}")
    return c.op("broadcast", c.b.const(0, x.type.dtype), shape=c.out.shape)


def _open(c: Call, x: Node, axis: int, out: Dim, taps: Callable[..., Taps], factor: float | None, align: bool) -> Node:
    """Along an axis of symbolic sizes: a broadcast where each element is repeated a power of two of times, which f32 divides by exactly,
    else computed look-ups."""
    n = x.type.shape[axis]
    if taps is _nearest and factor and factor.is_integer() and log2(factor).is_integer() and out == product((n, int(factor))):
        return _repeated(c, x, axis, int(factor), out)
    places = resampling_open.Places(c, x, axis, out, factor, align)
    return resampling_open.weighted(c, x, axis, OPEN[taps](places))


def _repeated(c: Call, x: Node, axis: int, times: int, out: Dim) -> Node:
    """Each element `times` times along an axis."""
    shape = x.type.shape
    apart = c.op("reshape", x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    wide = c.op("broadcast", apart, shape=(*shape[: axis + 1], times, *shape[axis + 1 :]))
    return c.op("reshape", wide, shape=(*shape[:axis], out, *shape[axis + 1 :]))


def _weighted(c: Call, x: Node, axis: int, taps: Taps) -> Node:
    total: Node | None = None
    for at, weight in taps:
        part = _chosen(c, x, axis, at)
        if weight is not None:
            form = (len(at), *[1] * (x.type.rank - axis - 1))
            part = c.op("mul", part, c.array(weight.reshape(form).astype(x.type.dtype.numpy)))
        total = part if total is None else c.op("add", total, part)
    assert total is not None
    return total


def _chosen(c: Call, x: Node, axis: int, at: np.ndarray) -> Node:
    """x[at] along an axis: a broadcast where each element is repeated as often as the others, else a look-up."""
    n, out = int(x.type.shape[axis]), len(at)  # type: ignore[arg-type]
    if out % n == 0 and np.array_equal(at, np.arange(out) // (out // n)):
        return _repeated(c, x, axis, out // n, out)
    return c.op("gather", x, c.array(at.astype(np.int64)), axis=axis)


def _step(n: int, out: int, factor: float | None) -> np.float32:
    """How far one output element lies from the next, in f32 as torch computes it."""
    return np.float32(1 / factor) if factor else np.float32(n) / np.float32(out)


def _sources(n: int, out: int, factor: float | None, align: bool) -> np.ndarray:
    o = np.arange(out, dtype=np.float32)
    if align:
        return o * (np.float32(n - 1) / np.float32(out - 1) if out > 1 else np.float32(0))
    return (o + np.float32(0.5)) * _step(n, out, factor) - np.float32(0.5)


def _nearest(n: int, out: int, factor: float | None, align: bool) -> Taps:
    at = np.floor(np.arange(out, dtype=np.float32) * _step(n, out, factor)).astype(np.int64)
    return [(np.minimum(at, n - 1), None)]


def _nearest_exact(n: int, out: int, factor: float | None, align: bool) -> Taps:
    at = np.floor((np.arange(out, dtype=np.float32) + np.float32(0.5)) * _step(n, out, factor)).astype(np.int64)
    return [(np.minimum(at, n - 1), None)]


def _linear(n: int, out: int, factor: float | None, align: bool) -> Taps:
    x = np.maximum(_sources(n, out, factor, align), np.float32(0))
    low = np.minimum(np.floor(x).astype(np.int64), n - 1)
    part = np.clip(x - low, 0, 1)
    return [(low, 1 - part), (np.minimum(low + 1, n - 1), part)]


def _cubic(n: int, out: int, factor: float | None, align: bool) -> Taps:
    """Keys' kernel; neighbours beyond an end are the end."""
    x = _sources(n, out, factor, align).astype(np.float64)
    low = np.floor(x)
    d = np.abs((x - low)[:, None] - np.arange(-1, 3))
    near = ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1
    weights = np.where(d <= 1, near, ((CUBIC * d - 5 * CUBIC) * d + 8 * CUBIC) * d - 4 * CUBIC)
    return [(np.clip(low.astype(np.int64) + k - 1, 0, n - 1), weights[:, k]) for k in range(4)]


# ---- with antialiasing: where an image gets smaller each element is the mean over as much of it as it stands for
def _tent(d: np.ndarray) -> np.ndarray:
    return np.maximum(0, 1 - d)


def _keys(d: np.ndarray) -> np.ndarray:
    """Keys' kernel with the number that torch takes here."""
    a = -0.5
    return np.where(d < 1, ((a + 2) * d - (a + 3)) * d * d + 1, np.where(d < 2, a * (((d - 5) * d + 8) * d - 4), 0))


def _antialiased(kernel: Callable[[np.ndarray], np.ndarray], reach: float) -> Callable[..., Node]:
    def lower(c: Call, x: Node, size: Any, align: bool, *factors: Any) -> Node:
        assert c.out is not None
        given = factors[0] if factors and isinstance(factors[0], list) else [*factors]
        if not x.type.dtype.is_float:
            raise c.refuse(f"resizes {x.type}")
        if 0 in x.type.shape:
            return _nothing(c, x)
        d = x.type.dtype
        y = c.cast(x, F32) if d in SHORT_FLOATS else x
        for k, axis in enumerate((x.type.rank - 2, x.type.rank - 1)):
            n, out = x.type.shape[axis], c.out.shape[axis]
            if not isinstance(n, int) or not isinstance(out, int):
                raise c.refuse(f"resizes the symbolic dimension {axis} of {x.type} with antialiasing", "fix the dimension")
            if n == out:
                continue
            factor = given[k] if k < len(given) else None
            scale = (n - 1) / (out - 1) if align and out > 1 else 0.0 if align else 1 / factor if factor else n / out
            y = _means(c, y, axis, out, scale, kernel, reach)
        return c.cast(y, d)

    return lower


def _means(c: Call, x: Node, axis: int, out: int, scale: float, kernel: Callable[[np.ndarray], np.ndarray], reach: float) -> Node:
    """`out` means along an axis, each of the elements in a window of it, whose weights add up to 1."""
    n, wide = int(x.type.shape[axis]), max(scale, 1.0)  # type: ignore[arg-type]
    centre = (scale * (np.arange(out) + 0.5))[:, None]
    first = np.maximum(np.trunc(centre - reach * wide + 0.5), 0).astype(np.int64)
    behind = np.minimum(np.trunc(centre + reach * wide + 0.5), n).astype(np.int64)
    most = int((behind - first).max())
    check_table(out * most, c.where)
    j = first + np.arange(most)
    w = np.where(j < behind, kernel(np.abs((j - centre + 0.5) / wide)), 0.0)
    form = (out, most, *[1] * (x.type.rank - axis - 1))
    y = c.op("gather", x, c.array(np.minimum(j, behind - 1)), axis=axis)
    if not (j < behind).all():  # what no window holds counts for nothing, also where it is NaN
        y = c.op("where", c.array((j < behind).reshape(form)), y, c.b.const(0, x.type.dtype))
    y = c.op("mul", y, c.array((w / w.sum(1, keepdims=True)).reshape(form).astype(x.type.dtype.numpy)))
    return c.op("reduce_sum", y, axes=(axis + 1,), keepdims=False)


row("_upsample_bilinear2d_aa")(_antialiased(_tent, 1.0))
row("_upsample_bicubic2d_aa")(_antialiased(_keys, 2.0))
OPEN = {_nearest: resampling_open.nearest, _nearest_exact: resampling_open.nearest_exact, _linear: resampling_open.linear,
        _cubic: resampling_open.cubic(CUBIC)}  # fmt: skip

for _n, _kind in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    row(f"upsample_{_kind}")(_upsampling(_n, _linear, True))
    row(f"upsample_nearest{_n}d")(_upsampling(_n, _nearest, False))
    row(f"_upsample_nearest_exact{_n}d")(_upsampling(_n, _nearest_exact, False))
row("upsample_bicubic2d")(_upsampling(2, _cubic, True))
