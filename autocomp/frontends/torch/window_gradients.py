"""ATen operators that sum what overlapping windows give each place: col2im, and the gradients of pools.

Windows whose places are one after the other (col2im) are sums of padded slices. Of others, along an axis, place i is in the windows of
which `sources[i]` are the numbers. Their sum is a look-up in a table that is known when the model is read and a reduction, so each place
is computed once and nothing is written at indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.torch.call import Call, per_axis, row
from autocomp.frontends.torch.pooling import adaptive_spans
from autocomp.ir.node import Node
from autocomp.ir.sizes import linear, product, quotient, size_of, summed, total
from autocomp.ir.types import F32, I64, SHORT_FLOATS, Dim

Sources = list[list[int]]


def collected(c: Call, x: Node, axis: int, sources: Sources) -> Node:
    """y[.., i, ..] = the sum of x[.., s, ..] over s of sources[i]."""
    most = max(map(len, sources), default=0)
    if not most:
        shape = tuple(len(sources) if k == axis else d for k, d in enumerate(x.type.shape))
        return c.op("broadcast", c.b.const(0, x.type.dtype), shape=shape)
    check_table(len(sources) * most, c.where)
    at, inside = np.zeros((len(sources), most), np.int64), np.zeros((len(sources), most), bool)
    for i, those in enumerate(sources):
        at[i, : len(those)], inside[i, : len(those)] = those, True
    y = c.op("gather", x, c.array(at), axis=axis)
    if not inside.all():
        mask = inside.reshape(*inside.shape, *[1] * (x.type.rank - axis - 1))
        y = c.op("where", c.array(mask), y, c.b.const(0, x.type.dtype))
    return c.op("reduce_sum", y, axes=(axis + 1,), keepdims=False)


def _windows(n: int, out: int, k: int, stride: int, pad: int, dilation: int) -> np.ndarray:
    """[k, out]: the place of an axis of n that element k of window o covers; -1 outside."""
    at = np.arange(out) * stride + np.arange(k)[:, None] * dilation - pad
    return np.where((at >= 0) & (at < n), at, -1)


def _sources(n: int, places: np.ndarray) -> Sources:
    """The numbers at which each of n places stands."""
    found: Sources = [[] for _ in range(n)]
    for number, place in enumerate(places.reshape(-1)):
        if place >= 0:
            found[int(place)].append(number)
    return found


def _overlapped(c: Call, x: Node, places: Sequence[np.ndarray]) -> Node:
    """x [.., k0, k1, .., out0, out1, ..] -> [.., n0, n1, ..]: the sum over all elements k of windows o that cover a place. `places`: of
    each axis [k, out], and behind them the axis' length."""
    n = len(places) // 2
    lead = x.type.rank - 2 * n
    x = c.op("transpose", x, perm=(*range(lead), *(lead + v for k in range(n) for v in (k, n + k))))
    for j in range(n):
        at, size = places[2 * j], int(places[2 * j + 1])
        shape = x.type.shape
        flat = c.op("reshape", x, shape=(*shape[: lead + j], at.size, *shape[lead + j + 2 :]))
        x = collected(c, flat, lead + j, _sources(size, at))
    return x


def _sizes(c: Call, x: Node, n: int) -> tuple[int, ...]:
    """The last n dimensions, of numbers. Raises UnsupportedOp."""
    if any(not isinstance(d, int) for d in x.type.shape[-n:]):
        raise c.refuse(f"sums windows of {x.type}", "fix the dimensions that windows slide along")
    return tuple(map(int, x.type.shape[-n:]))  # type: ignore[arg-type]


@row("col2im")
def _col2im(c: Call, x: Node, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Node:
    """Columns [.., channels * k0 * k1, windows] -> an image to which each window is added: axis by axis a sum of padded slices."""
    assert c.out is not None
    k, d, p, s = (per_axis(2, v) for v in (kernel, dilation, padding, stride))
    out = [size_of(quotient(summed([(linear(n), 1)], 2 * b - e * (a - 1) - 1 + f), f)) for n, a, e, b, f in zip(size, k, d, p, s)]
    y = c.op("reshape", _wide(c, x), shape=(*c.out.shape[:-2], *k, *out))
    lead = y.type.rank - 4
    for j in range(2):  # [.., k0, k1, o0, o1] -> [.., k1, n0, o1] -> [.., n0, n1]
        y = _added(c, y, lead, lead + 2, s[j], d[j], p[j], size[j])
    return c.cast(y, x.type.dtype)


def _added(c: Call, x: Node, taps: int, windows: int, stride: int, dilation: int, pad: int, n: Dim) -> Node:
    """[.., k, .., o, ..] -> [.., .., n, ..]: element a of window w is added at w * stride + a * dilation - pad of n places. Places are
    pairs (place // stride, place % stride): elements that lie one behind the other, `stride` of them, are one slice, shifted by whole
    pairs."""
    k = int(x.type.shape[taps])  # type: ignore[arg-type]
    if dilation > 1 and stride > 1:  # with zeros for the elements that are left out
        shape = x.type.shape
        x = _padded(c, c.op("reshape", x, shape=(*shape[: taps + 1], 1, *shape[taps + 1 :])), taps + 1, 0, dilation - 1)
        x = c.op("reshape", x, shape=(*shape[:taps], k * dilation, *shape[taps + 1 :]))
        k, dilation = k * dilation, 1
    group = stride if dilation == 1 else 1
    count = -(-k // group)
    x = _padded(c, x, taps, 0, count * group - k)
    terms = []
    for q in range(count):
        term = _cut(c, x, taps, q * group, (q + 1) * group)
        terms.append(_padded(c, term, windows, q * dilation, (count - 1 - q) * dilation))
    y = terms[0]
    for term in terms[1:]:
        y = c.op("add", y, term)
    rank = y.type.rank  # the places within a pair behind the pairs
    y = c.op("transpose", y, perm=(*(a for a in range(windows + 1) if a != taps), taps, *range(windows + 1, rank)))
    shape = y.type.shape
    covered = product((shape[windows - 1], group))
    y = c.op("reshape", y, shape=(*shape[: windows - 1], covered, *shape[windows + 1 :]))
    y = _padded(c, y, windows - 1, 0, max(0, stride - 1 - pad))  # places that no window reaches
    return _cut(c, y, windows - 1, pad, total([(n, 1)], pad))


def _padded(c: Call, x: Node, axis: int, lo: int, hi: int) -> Node:
    at = lambda v: tuple(v if k == axis else 0 for k in range(x.type.rank))
    return c.op("pad", x, lo=at(lo), hi=at(hi), value=0.0) if lo or hi else x


def _cut(c: Call, x: Node, axis: int, start: int, limit: Dim) -> Node:
    if start == 0 and limit == x.type.shape[axis]:
        return x
    starts = tuple(start if k == axis else 0 for k in range(x.type.rank))
    limits = tuple(limit if k == axis else d for k, d in enumerate(x.type.shape))
    return c.op("slice", x, starts=starts, limits=limits, steps=(1,) * x.type.rank)


def _wide(c: Call, x: Node) -> Node:
    return c.cast(x, F32) if x.type.dtype in SHORT_FLOATS else x


def _spread(c: Call, y: Node, x: Node, k: Sequence[int], places: Sequence[np.ndarray]) -> Node:
    """The gradient of x: y has [.., k0, k1, .., out0, out1, ..], broadcast where windows give their elements all the same."""
    shape = (*y.type.shape[: x.type.rank - len(k)], *k, *y.type.shape[-len(k) :])
    return c.cast(_overlapped(c, y if y.type.shape == shape else c.op("broadcast", y, shape=shape), places), x.type.dtype)


def _apart(c: Call, y: Node, n: int) -> Node:
    """[.., out0, ..] -> [.., 1, .., out0, ..]: with an axis for each one of the window's."""
    shape = y.type.shape
    return c.op("reshape", y, shape=(*shape[:-n], *[1] * n, *shape[-n:]))


@row("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def _max_pool(c: Call, grad: Node, x: Node, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, index: Node) -> Node:
    """A window's gradient goes to the place that its index names."""
    n = 2 if "2d" in c.name else 3
    sizes, outs = _sizes(c, x, n), _sizes(c, grad, n)
    k, s, p, d = (per_axis(n, v) for v in (kernel, stride or kernel, padding, dilation))
    each = [_windows(m, o, a, b, e, f) for m, o, a, b, e, f in zip(sizes, outs, k, s, p, d)]
    check_table(prod(v.size for v in each), c.where)
    place = np.zeros((*k, *outs), np.int64)
    for j, at in enumerate(each):
        form = [at.shape[0] if i == j else at.shape[1] if i == n + j else 1 for i in range(2 * n)]
        place = place * sizes[j] + at.reshape(form)
    mine = c.op("eq", _apart(c, c.cast(index, I64), n), c.array(place))
    y = c.op("where", mine, _apart(c, _wide(c, grad), n), c.b.const(0, _wide(c, grad).type.dtype))
    return _spread(c, y, x, k, [v for at, m in zip(each, sizes) for v in (at, np.asarray(m))])


@row("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward")
def _adaptive_max(c: Call, grad: Node, x: Node, index: Node) -> Node:
    """Windows of several lengths overlap anywhere: each gradient is added at the place that its index names."""
    n = 2 if "2d" in c.name else 3
    sizes, outs, lead = _sizes(c, x, n), _sizes(c, grad, n), x.type.shape[:-n]
    y = _wide(c, grad)
    flat = lambda v: c.op("reshape", v, shape=(*lead, prod(outs)))
    zeros = c.op("broadcast", c.b.const(0, y.type.dtype), shape=(*lead, prod(sizes)))
    y = c.op("scatter_elements", zeros, flat(c.cast(index, I64)), flat(y), axis=len(lead), reduction="add")
    return c.cast(c.op("reshape", y, shape=x.type.shape), x.type.dtype)


@row("avg_pool2d_backward", "avg_pool3d_backward")
def _avg_pool(c: Call, grad: Node, x: Node, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool,
              divisor: int | None) -> Node:  # fmt: skip
    """A window's gradient over how many elements it counts goes to each of its places."""
    n = 2 if "2d" in c.name else 3
    sizes, outs = _sizes(c, x, n), _sizes(c, grad, n)
    k, s, p = (per_axis(n, v) for v in (kernel, stride or kernel, padding))
    each = [_windows(m, o, a, b, e, 1) for m, o, a, b, e in zip(sizes, outs, k, s, p)]
    y = _wide(c, grad)
    if divisor is not None:
        y = c.op("div", y, c.b.const(divisor, y.type.dtype))
    else:
        counts = np.ones(())
        for m, o, a, b, e in zip(sizes, outs, k, s, p):
            begin = np.arange(o) * b - e
            end = np.minimum(begin + a, m + e)
            within = end - begin if include else np.minimum(end, m) - np.maximum(begin, 0)
            counts = np.multiply.outer(counts, within.astype(np.float64))
        y = c.op("div", y, c.array(counts.astype(y.type.dtype.numpy)))
    return _spread(c, _apart(c, y, n), x, k, [v for at, m in zip(each, sizes) for v in (at, np.asarray(m))])


@row("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def _adaptive(c: Call, grad: Node, x: Node) -> Node:
    """The windows of an adaptive pool may have several lengths."""
    n = 2 if "2d" in c.name else 3
    sizes, outs = _sizes(c, x, n), _sizes(c, grad, n)
    y, counts = _wide(c, grad), np.ones(())
    lead = x.type.rank - n
    every = [adaptive_spans(m, o) for m, o in zip(sizes, outs)]
    for begin, end in every:
        counts = np.multiply.outer(counts, (end - begin).astype(np.float64))
    y = c.op("div", y, c.array(counts.astype(y.type.dtype.numpy)))
    for j, (begin, end) in enumerate(every):
        within = [[int(o) for o in np.flatnonzero((begin <= i) & (i < end))] for i in range(sizes[j])]
        y = collected(c, y, lead + j, within)
    return c.cast(y, x.type.dtype)


@row("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def _replication_pad_back(c: Call, g: Node, x: Node, pad: list[int]) -> Node:
    """A place has what came to it, and one at an edge also what came behind the edge."""
    y = c.cast(g, F32) if g.type.dtype in SHORT_FLOATS else g
    for k in range(len(pad) // 2):
        axis, lo = x.type.rank - 1 - k, pad[2 * k]
        n, out = x.type.shape[axis], y.type.shape[axis]
        if not isinstance(n, int) or not isinstance(out, int):
            raise c.refuse(f"is the gradient of padding {x.type} along dimension {axis}", "fix the dimension")
        if pad[2 * k : 2 * k + 2] != [0, 0]:
            y = collected(c, y, axis, _sources(n, np.clip(np.arange(out) - lo, 0, n - 1)))
    return c.cast(y, x.type.dtype)
