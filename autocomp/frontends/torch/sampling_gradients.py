"""The way back of ATen's grid_sampler: what a place read goes back to the elements that it read, by their weights, and to its coordinates,
by how the weights change with them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autocomp.frontends.torch.call import Call, row
from autocomp.frontends.torch.sampling import BICUBIC, NEAREST, REFLECTION, ZEROS, Axes, steps_of
from autocomp.ir.node import Node
from autocomp.ir.sizes import product
from autocomp.ir.types import F32, I64, SHORT_FLOATS


@dataclass(frozen=True)
class _Tap:
    """A neighbour along an axis: its element, its weight (() for 1), whether it lies inside (() for always), and how much the weight grows
    with the grid's coordinate (() for not at all)."""

    at: Node
    weight: tuple[Node, ...]
    inside: tuple[Node, ...]
    slope: tuple[Node, ...] = ()


@row("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def _grid_sampler(c: Call, grad: Node, x: Node, grid: Node, mode: int, padding: int, align: bool, mask: Sequence[bool]) -> Any:
    """Gradients of the images (added where their elements were read) and of the grid."""
    if 0 in (*x.type.shape, *grid.type.shape):
        raise c.refuse(f"is the way back of samples of {x.type} at {grid.type}", "give images and places with elements")
    if mode == BICUBIC:
        raise c.refuse("is the way back of 16 neighbours of each place: dozens of kernels", "torch's own is one")
    n, channels, *sizes = x.type.shape
    places, dtype, rank = grid.type.shape[1:-1], x.type.dtype, len(sizes)
    wide = F32 if dtype in SHORT_FLOATS else dtype
    axes = Axes(c, wide, padding, align)
    taps = [_taps(axes, axes.column(grid, rank - 1 - k), axes.length(x, k + 2), mode) for k in range(rank)]
    last = lambda v: c.cast(c.op("transpose", v, perm=(0, *range(2, rank + 2), 1)), wide)
    times = lambda v, *factors: [v := c.op("mul", v, f) for f in factors][-1] if factors else v
    spread = lambda v: c.op("reshape", v, shape=(n, *places, 1))
    g, rows = last(grad), c.op("reshape", last(x), shape=(product((n, *sizes)), channels))
    steps = steps_of(c, x)
    first = c.op("mul", c.op("iota", shape=(n, *[1] * len(places)), axis=0, dtype=I64.name), steps[0])
    written: list[tuple[Node, Node]] = []
    moved: list[list[Node]] = [[] for _ in sizes]
    for corner in itertools.product(*taps):
        at, seen = first, g
        for k, tap in enumerate(corner):
            at = c.op("add", at, c.op("mul", tap.at, steps[k + 1]))
            for inside in tap.inside:
                seen = c.op("where", spread(inside), seen, c.b.const(0, wide))
        if mask[0]:
            written.append((at, times(seen, *(spread(w) for tap in corner for w in tap.weight))))
        if mask[1] and any(tap.slope for tap in corner):
            value = c.op("reduce_sum", c.op("mul", seen, c.op("gather", rows, at, axis=0)), axes=(rank + 1,), keepdims=False)
            for k, tap in enumerate(corner):
                moved[k].append(times(value, *tap.slope, *(w for j, t in enumerate(corner) if j != k for w in t.weight)))
    image = _added(c, written, (*x.type.shape[:1], *sizes, channels)) if mask[0] else None
    return image if image is None else c.cast(image, dtype), _of_grid(c, moved, grid) if mask[1] else None


def _added(c: Call, written: Sequence[tuple[Node, Node]], shape: Sequence[Any]) -> Node:
    """Images [n, channels, ..] in which each update is added to a row of `shape` [n, .., channels]."""
    *front, channels = shape
    at = [c.op("reshape", i, shape=(product(i.type.shape), 1)) for i, _ in written]
    new = [c.op("reshape", u, shape=(product(u.type.shape[:-1]), channels)) for _, u in written]
    joined = lambda parts: parts[0] if len(parts) == 1 else c.op("concat", *parts, axis=0)
    zeros = c.op("broadcast", c.b.const(0, new[0].type.dtype), shape=(product(front), channels))
    y = c.op("scatter_nd", zeros, joined(at), joined(new), reduction="add")
    return c.op("transpose", c.op("reshape", y, shape=tuple(shape)), perm=(0, len(front), *range(1, len(front))))


def _of_grid(c: Call, moved: Sequence[Sequence[Node]], grid: Node) -> Node:
    """The grid's gradient: its last axis counts the image's axes from the last one."""
    columns = []
    for parts in reversed(moved):
        total = parts[0] if parts else c.op("broadcast", c.b.const(0, F32), shape=grid.type.shape[:-1])
        for p in parts[1:]:
            total = c.op("add", total, p)
        columns.append(c.cast(c.op("reshape", total, shape=(*grid.type.shape[:-1], 1)), grid.type.dtype))
    return c.op("concat", *columns, axis=grid.type.rank - 1)


def _taps(axes: Axes, v: Node, n: int | Node, mode: int) -> list[_Tap]:
    """The neighbours of a coordinate of the grid, as `Axes.taps` has them, with their slopes."""
    c = axes.c
    found = axes.taps(v, n, mode)
    taps = [_Tap(at, () if w is None else (w,), () if inside is None else (inside,)) for at, w, inside in found]
    if mode == NEAREST:
        return taps
    raw, scale = axes.pixel(v, n), c.value(axes.line(n, 0.5, -0.5 if axes.align else 0.0), axes.dtype)
    up = _moves(axes, raw, n, scale)
    return [_Tap(taps[0].at, taps[0].weight, taps[0].inside, (c.op("neg", up),)), _Tap(taps[1].at, taps[1].weight, taps[1].inside, (up,))]


def _moves(axes: Axes, v: Node, n: int | Node, scale: Node) -> Node:
    """How much the padded coordinate moves with the grid's: not at all where it is held at an end, backwards where it is mirrored."""
    c, do = axes.c, axes.do
    up = c.op("broadcast", scale, shape=v.type.shape)
    if axes.padding == ZEROS:
        return up
    zero = c.b.const(0, axes.dtype)
    at = v
    if axes.padding == REFLECTION:
        lo, span = (0.0, axes.line(n, 1.0, -1.0)) if axes.align else (-0.5, axes.line(n, 1.0, 0.0))
        if n == 1 and axes.align:
            return c.op("broadcast", zero, shape=v.type.shape)
        off = do("sub", v, lo)
        turns = c.op("floor", do("div", c.op("abs", off), span))
        back = c.op("xor", c.op("lt", off, zero), do("eq", do("mod", turns, 2.0), 1.0))
        up, at = c.op("where", back, c.op("neg", up), up), axes.moved(v, n, held=False)
    return c.op("where", c.op("and", do("gt", at, 0.0), do("lt", at, axes.line(n, 1.0, -1.0))), up, zero)
