"""Reading images at computed places: GridSample, RoiAlign, DeformConv. Each is look-ups of corners, weighted and summed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.contractions import per_channel
from autocomp.frontends.onnx.pointwise import cast
from autocomp.frontends.onnx.registry import lower
from autocomp.frontends.onnx.shapes import cut, reshape
from autocomp.ir.node import Node
from autocomp.ir.types import I64


def _total(c: Call, terms: Sequence[Node], op: str = "add") -> Node:
    out = terms[0]
    for t in terms[1:]:
        out = c.op(op, out, t)
    return out


def rows_at(c: Call, rows: Node, places: Sequence[Node], sizes: Sequence[int], base: Node) -> Node:
    """rows[base + row-major position of `places` in a box of `sizes`]; rows is [count, channels], places and base broadcast."""
    linear = base
    for p, stride in zip(places, [prod(sizes[k + 1 :]) for k in range(len(sizes))], strict=True):
        linear = c.op("add", linear, p if stride == 1 else c.op("mul", p, stride))
    return c.op("gather", rows, linear, axis=0)


def _inside(c: Call, i: Node, n: int) -> Node:
    return c.op("and", c.op("ge", i, 0), c.op("lt", i, n))


def _clamped(c: Call, i: Node, n: int) -> Node:
    return c.op("min", c.op("max", i, 0), n - 1)


def column(c: Call, x: Node, k: int) -> Node:
    """x[..., k]."""
    last = x.type.rank - 1
    return reshape(c, cut(c, x, {last: (k, k + 1, 1)}), x.type.shape[:last])


# ---- GridSample
def _reflected(c: Call, x: Node, lo: float, hi: float) -> Node:
    """x mirrored at lo and hi until it lies between them."""
    if hi <= lo:
        return c.op("mul", x, 0) if x.type.dtype.is_int else c.op("add", c.op("mul", x, 0.0), lo)
    span = hi - lo
    at = c.op("mod", c.op("sub", x, lo), 2 * span)
    return c.op("add", c.op("where", c.op("le", at, span), at, c.op("sub", c.const(2 * span, x.type.dtype), at)), lo)


def _mirrored_index(c: Call, i: Node, n: int, aligned: bool) -> Node:
    """An element's number mirrored into 0..n-1: about the centres of the outer elements, or about their outer edges."""
    period = max(1, 2 * (n - 1)) if aligned else 2 * n
    at = c.op("mod", i, period)
    return c.op("where", c.op("lt", at, n), at, c.op("sub", c.const(period - (0 if aligned else 1), I64), at))


def _grid_coordinate(c: Call, v: Node, n: int, mode: str, padding: str, aligned: bool) -> Node:
    """Where a normalised coordinate (-1 to 1) lies among n elements.

    A cubic's elements are moved inside one by one instead (torch and onnxruntime agree; the onnx package's own reference
    moves the coordinate, which flattens the curve at the border).
    """
    shifted = c.op("add", v, 1.0)
    x = c.op("mul", shifted, (n - 1) / 2) if aligned else c.op("mul", c.op("sub", c.op("mul", shifted, float(n)), 1.0), 0.5)
    x = c.op("round", x) if mode == "nearest" else x
    if padding == "border" and mode != "cubic":
        return c.op("min", c.op("max", x, 0.0), float(n - 1))
    if padding == "reflection":
        return _reflected(c, x, 0.0, n - 1.0) if aligned else _reflected(c, x, -0.5, n - 0.5)
    return x


def _cubic_weights(c: Call, t: Node, a: float = -0.75) -> list[Node]:
    """Keys' kernel at t+1, t, 1-t, 2-t for t in [0, 1)."""
    one_less = c.op("sub", c.const(1.0, t.type.dtype), t)

    def far(d: Node) -> Node:
        p = c.op("sub", c.op("mul", d, a), 5 * a)
        return c.op("sub", c.op("mul", c.op("add", c.op("mul", p, d), 8 * a), d), 4 * a)

    def near(d: Node) -> Node:
        return c.op("add", c.op("mul", c.op("sub", c.op("mul", d, a + 2), a + 3), c.op("mul", d, d)), 1.0)

    return [far(c.op("add", t, 1.0)), near(t), near(one_less), far(c.op("add", one_less, 1.0))]


def _grid_taps(c: Call, x: Node, n: int, mode: str, padding: str, aligned: bool) -> list[tuple[Node, Node | None]]:
    """(index, weight or None for 1) of the elements along one dimension that a coordinate reads."""
    if mode == "nearest":
        found: list[tuple[Node, Node | None]] = [(cast(c, x, I64), None)]
    else:
        low = c.op("floor", x)
        t, first = c.op("sub", x, low), cast(c, low, I64)
        weights = [c.op("sub", c.const(1.0, t.type.dtype), t), t] if mode == "linear" else _cubic_weights(c, t)
        start = 0 if mode == "linear" else -1
        found = [(first if start + k == 0 else c.op("add", first, start + k), w) for k, w in enumerate(weights)]
    out: list[tuple[Node, Node | None]] = []
    for i, w in found:
        if padding == "reflection":
            i = _mirrored_index(c, i, n, aligned)
        elif padding == "zeros":
            keep = cast(c, _inside(c, i, n), x.type.dtype)
            w = keep if w is None else c.op("mul", w, keep)
        out.append((_clamped(c, i, n), w))
    return out


@lower("GridSample")
def grid_sample(c: Call) -> Node:
    x, grid = c.x(0), c.x(1)
    n, ch, *sizes = c.shape(x)
    places = c.shape(grid)[1:-1]
    mode, padding = c.str_attr("mode", "linear"), c.str_attr("padding_mode", "zeros")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic") or padding not in ("zeros", "border", "reflection"):
        c.broken(f"has mode '{mode}' and padding_mode '{padding}'")
    if len(sizes) != c.shape(grid)[-1]:
        c.broken(f"has coordinates of {c.shape(grid)[-1]} for {len(sizes)} spatial dimensions")
    aligned = c.flag("align_corners", 0)
    rows = reshape(c, c.op("transpose", x, perm=(0, *range(2, x.type.rank), 1)), (n * prod(sizes), ch))
    check_table(n, c.where)
    base = c.array((np.arange(n) * prod(sizes)).reshape(n, *[1] * len(places)), I64)
    taps = []
    for k, size in enumerate(sizes):
        v = _grid_coordinate(c, column(c, grid, len(sizes) - 1 - k), size, mode, padding, aligned)
        taps.append(_grid_taps(c, v, size, mode, padding, aligned))
    terms = []
    for corner in product(*taps):
        value = rows_at(c, rows, [i for i, _ in corner], sizes, base)
        weights = [w for _, w in corner if w is not None]
        if weights:
            value = c.op("mul", value, cast(c, reshape(c, _total(c, weights, "mul"), (n, *places, 1)), x.type.dtype))
        terms.append(value)
    last = x.type.rank - 1
    return c.op("transpose", _total(c, terms), perm=(0, last, *range(1, last)))


# ---- corners of an element box, outside of which nothing is
def _corners(c: Call, y: Node, x: Node, h: int, w: int) -> list[tuple[Node, Node, Node]]:
    """(row, column, weight) of the four neighbours of (y, x); the weight is 0 for those outside the image."""
    out = []
    axes = []
    for v, n in ((y, h), (x, w)):
        low = c.op("floor", v)
        t, i = c.op("sub", v, low), cast(c, low, I64)
        pairs = ((i, c.op("sub", c.const(1.0, v.type.dtype), t)), (c.op("add", i, 1), t))
        axes.append([(_clamped(c, k, n), c.op("mul", wt, cast(c, _inside(c, k, n), v.type.dtype))) for k, wt in pairs])
    for (i, wi), (j, wj) in product(*axes):
        out.append((i, j, c.op("mul", wi, wj)))
    return out


# ---- RoiAlign
def _samples(c: Call, start: Node, size: Node, bins: int, ratio: int) -> Node:
    """[rois, bins * ratio] coordinates: `ratio` evenly spaced in each of `bins` bins of start .. start + size."""
    check_table(bins * ratio, c.where)
    steps = (np.arange(bins * ratio) + 0.5) / (bins * ratio)
    rois = start.type.shape[0]
    along = lambda v: reshape(c, v, (rois, 1))
    return c.op("add", along(start), c.op("mul", along(size), c.array(steps.reshape(1, -1), start.type.dtype)))


def _roi_taps(c: Call, v: Node, n: int) -> list[tuple[Node, Node]]:
    """(index, weight) of both neighbours; coordinates over one element outside count as 0, others are moved inside."""
    known = cast(c, c.op("and", c.op("ge", v, -1.0), c.op("le", v, float(n))), v.type.dtype)
    v = c.op("min", c.op("max", v, 0.0), float(n - 1))
    low = c.op("floor", v)
    t, i = c.op("sub", v, low), cast(c, low, I64)
    return [
        (i, c.op("mul", c.op("sub", c.const(1.0, v.type.dtype), t), known)),
        (_clamped(c, c.op("add", i, 1), n), c.op("mul", t, known)),
    ]


@lower("RoiAlign")
def roi_align(c: Call) -> Node:
    x, rois, batch = c.x(0), c.x(1), cast(c, c.x(2), I64)
    n, ch, h, w = c.shape(x)
    count = c.shape(rois)[0]
    out_h, out_w, ratio = c.int_attr("output_height", 1), c.int_attr("output_width", 1), c.int_attr("sampling_ratio", 0)
    if ratio <= 0:
        c.refuse("takes as many samples a bin as the region is large (sampling_ratio 0)", hint="set sampling_ratio")
    half = c.opset >= 16 and c.str_attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    scaled = c.op("mul", rois, c.float_attr("spatial_scale", 1.0))
    scaled = c.op("sub", scaled, 0.5) if half else scaled
    x1, y1, x2, y2 = (column(c, scaled, k) for k in range(4))
    length: Callable[[Node, Node], Node] = lambda a, b: c.op("sub", b, a) if half else c.op("max", c.op("sub", b, a), 1.0)
    ys = _samples(c, y1, length(y1, y2), out_h, ratio)
    xs = _samples(c, x1, length(x1, x2), out_w, ratio)
    rows = reshape(c, c.op("transpose", x, perm=(0, 2, 3, 1)), (n * h * w, ch))
    base = c.op("mul", reshape(c, batch, (count, 1, 1)), h * w)
    ny, nx = out_h * ratio, out_w * ratio
    terms = []
    for (i, wi), (j, wj) in product(_roi_taps(c, ys, h), _roi_taps(c, xs, w)):
        i, wi = (reshape(c, v, (count, ny, 1)) for v in (i, wi))
        j, wj = (reshape(c, v, (count, 1, nx)) for v in (j, wj))
        weight = reshape(c, c.op("mul", wi, wj), (count, ny, nx, 1))
        terms.append(c.op("mul", rows_at(c, rows, [i, j], [h, w], base), cast(c, weight, x.type.dtype)))
    mode = c.str_attr("mode", "avg")
    if mode not in ("avg", "max"):
        c.broken(f"has unknown mode '{mode}'")
    both = _total(c, terms, "add" if mode == "avg" else "max")
    both = reshape(c, both, (count, out_h, ratio, out_w, ratio, ch))
    pooled = c.op("reduce_mean" if mode == "avg" else "reduce_max", both, axes=(2, 4))
    return c.op("transpose", pooled, perm=(0, 3, 1, 2))


# ---- DeformConv
@lower("DeformConv")
def deform_conv(c: Call) -> Node:
    """A convolution whose taps are moved by `offset` and scaled by `mask`: taps looked up first, then one contraction."""
    x, weight, offset = c.x(0), c.x(1), c.x(2)
    (n, ch, h, w), (outs, per, kh, kw) = c.shape(x), c.shape(weight)
    oh, ow = c.shape(offset)[2:]
    groups, parts, taps = c.int_attr("group", 1), c.int_attr("offset_group", 1), kh * kw
    strides, dilations = c.ints_attr("strides", (1, 1)) or (), c.ints_attr("dilations", (1, 1)) or ()
    pads = c.ints_attr("pads", (0, 0, 0, 0)) or ()
    if per * groups != ch or ch % parts or c.shape(offset)[1] != parts * taps * 2:
        c.broken(f"weights {weight.type} and offsets {offset.type} do not fit {x.type} in {groups} and {parts} groups")
    moved = reshape(c, offset, (n, parts, taps, 2, oh, ow))
    grid = []
    for d, (out, k, other) in enumerate(((oh, kh, kw), (ow, kw, kh))):
        check_table(taps * out, c.where)
        tap = np.repeat(np.arange(k), other) if d == 0 else np.tile(np.arange(k), other)
        at = tap.reshape(taps, 1, 1) * dilations[d] + np.arange(out).reshape((out, 1) if d == 0 else (1, out)) * strides[d] - pads[d]
        part = reshape(c, cut(c, moved, {3: (d, d + 1, 1)}), (n, parts, taps, oh, ow))
        grid.append(c.op("add", part, c.array(at, x.type.dtype)))
    image = reshape(c, c.op("transpose", x, perm=(0, 2, 3, 1)), (n, h, w, parts, ch // parts))
    rows = reshape(c, c.op("transpose", image, perm=(0, 3, 1, 2, 4)), (n * parts * h * w, ch // parts))
    check_table(n * parts, c.where)
    base = c.array((np.arange(n * parts) * h * w).reshape(n, parts, 1, 1, 1), I64)
    wide = (n, parts, taps, oh, ow, 1)
    terms = [
        c.op("mul", rows_at(c, rows, [i, j], [h, w], base), reshape(c, wt, wide)) for i, j, wt in _corners(c, grid[0], grid[1], h, w)
    ]
    value = _total(c, terms)
    if c.has(4):
        value = c.op("mul", value, reshape(c, c.x(4), wide))
    value = c.op("transpose", value, perm=(0, 1, 5, 2, 3, 4))
    value = reshape(c, value, (n, groups, per * taps, oh * ow))
    y = c.op("matmul", reshape(c, weight, (1, groups, outs // groups, per * taps)), value)
    y = reshape(c, y, (n, outs, oh, ow))
    return c.op("add", y, per_channel(c, c.x(3), 4)) if c.has(3) else y
