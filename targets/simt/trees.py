"""Reductions as C++: registers, then lanes by exchange, then waves through shared memory, then the blocks of a cluster through each
other's. The tree is read off the layout. Waves of a layout are those of the whole cluster; `warp` is a wave's number in its block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autocomp.targets.simt.digits import digit, register
from autocomp.targets.simt.expressions import function, held, literal
from autocomp.targets.simt.placed import tile_of

from autocomp.ir.monoids import identity
from autocomp.ir.types import DType
from autocomp.tile.layout import Digit, Layout, weights
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

OVER_BLOCKS = " over blocks"


def far(place: str) -> bool:
    """Whether other blocks of a cluster read this place of a block's shared memory."""
    return place.endswith(OVER_BLOCKS)


def reduce(at: Printer, s: Stmt) -> None:
    """Registers, then lanes by exchange, then waves through shared memory; the tree is read off the layout."""
    src, dst = at.bufs[s.srcs[0]], at.bufs[s.dst]
    layout, out = at.place.layouts[src.name], at.place.layouts[dst.name]
    gone = set(s.axis.split(","))
    op = str(s.expr)
    combine = lambda a, b: function(op, [a, b], dst.dtype)
    t = at.names.fresh("t")
    n = out.registers
    at.put(f"{held(dst.dtype)} {t}[{n}];")
    with at.over(n):
        at.put(f"{t}[r] = {literal(identity(op, dst.dtype), dst.dtype)};")
    with at.over(layout.registers):
        to = register(out, layout, "r", dst.name)
        step = f"{t}[{to}] = {combine(f'{t}[{to}]', f'{at.names.of(src.name)}[r]')};"
        ok = [c for a in gone if layout.extent(a) > tile_of(at.p, a) for c in at.inside(layout, [a], "r")]
        at.put(f"if ({' && '.join(ok)}) {step}" if ok else step)
    if s.dst not in at.deferred:
        tree(at, s, t)
    with at.over(n):
        name = at.names.of(s.dst)
        at.put(f"{name}[r] = {combine(f'{name}[r]', f'{t}[r]') if s.acc else f'{t}[r]'};")


def tree(at: Printer, s: Stmt, t: str) -> None:
    """Combine the workers' parts of a reduction in registers `t`: lanes by exchange, waves through shared memory."""
    dst = at.bufs[s.dst]
    layout, n = at.place.layouts[s.srcs[0]], at.place.layouts[s.dst].registers
    gone = set(s.axis.split(","))
    combine = lambda a, b: function(str(s.expr), [a, b], dst.dtype)
    for d, w in weights(layout.lane):
        if d.axis in gone:
            for bit in range((d.count - 1).bit_length()):
                with at.over(n):
                    at.put(f"{t}[r] = {combine(f'{t}[r]', f'ac_shuffle_xor({t}[r], {w << bit})')};")
    if any(d.axis in gone for d in layout.wave):
        across_waves(at, t, n, layout, gone, dst.dtype, combine, f"tree of {s.dst}")


def across_waves(at: Printer, t: str, n: int, layout: Layout, gone: set[str], dtype: DType, combine: Callable[[str, str], str],
                 key: str) -> None:  # fmt: skip
    """Every wave leaves its partial result in shared memory and reads those of its peers, first in its block, then in the others."""
    own = layout.waves // at.place.cluster
    near, far = _levels(layout, own)
    for part, inside in ((near, True), (far, False)):
        peers = [0]
        for d, w in part:
            if d.axis in gone:
                peers = [p + i * w for i in range(d.count) for p in peers]
        if len(peers) == 1:
            continue
        name = key if inside else key + OVER_BLOCKS
        box = leave(at, t, n, own, dtype, name)
        if inside:
            kept = [digit(at.warp, Digit(d.axis, w, d.count), w, tuple(x for x, _ in near)) for d, w in part if d.axis not in gone]
            of = f"{box}[((%s) * {n} + r) * {at.place.wave} + lane]"
        else:
            kept = [f"ac_cluster_rank() / {w} % {d.count} * {w}" for d, w in part if d.axis not in gone]
            of = f"ac_peer(&{box}[({at.warp} * {n} + r) * {at.place.wave} + lane], %s)"
        read = [of % " + ".join((*kept, str(p))) for p in peers]
        with at.over(n):
            at.put(f"{held(dtype)} sum = {read[0]};")
            for other in read[1:]:
                at.put(f"sum = {combine('sum', other)};")
            at.put(f"{t}[r] = sum;")


def leave(at: Printer, t: str, n: int, waves: int, dtype: DType, key: str) -> str:
    """The block's partial results in shared memory, and the barrier behind them; the name of the place."""
    bytes_ = waves * at.place.wave * n * (8 if dtype.bits == 64 else 4)
    key = at.tree_key(key, bytes_)
    if key not in at.place.trees:
        at.place.trees[key] = at.place.reserve(bytes_)
    at.before_write(key)
    box = at.names.fresh("box")
    at.put(f"{held(dtype)} *{box} = ({held(dtype)} *)({at.memory} + {at.place.trees[key]});")
    with at.over(n):
        at.put(f"{box}[({at.warp} * {n} + r) * {at.place.wave} + lane] = {t}[r];")
    at.before_read(key)
    return box


def _levels(layout: Layout, own: int) -> tuple[list[tuple[Digit, int]], list[tuple[Digit, int]]]:
    """The wave digits of a layout with their weights: those within a block of `own` waves, and those over blocks (weights in blocks)."""
    near, far = [], []
    for d, w in weights(layout.wave):
        inside = min(d.count, max(1, own // w))
        if inside > 1:
            near.append((Digit(d.axis, d.stride, inside), w))
        if d.count > inside:
            far.append((Digit(d.axis, d.stride * inside, d.count // inside), max(1, w // own)))
    return near, far
