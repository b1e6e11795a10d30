"""Reductions as C++: registers, then lanes by exchange, then waves through shared memory, then the blocks of a cluster through each
other's. The tree is read off the layout. Waves of a layout are those of the whole cluster; `warp` is a wave's number in its block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from autocomp.targets.simt.digits import digit, register
from autocomp.targets.simt.expressions import function, held, literal, under
from autocomp.targets.simt.placed import tile_of

from autocomp.ir.monoids import identity
from autocomp.ir.types import DType
from autocomp.tile.layout import Digit, Layout, weights
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

OVER_BLOCKS = " over blocks"
SHARED_OUT = 64  # reads of a thread from which one more barrier costs less: 32 waves of 8 sums each took 5 us of a block's time


def far(place: str) -> bool:
    """Whether other blocks of a cluster read this place of a block's shared memory."""
    return place.endswith(OVER_BLOCKS)


def places(name: str) -> tuple[str, str]:
    """What waves, and blocks, leave of a value while they combine it."""
    return f"tree of {name}", f"tree of {name}{OVER_BLOCKS}"


def combined(op: str, a: str, b: str, dtype: DType) -> str:
    """Two parts of a reduction as one. Both are evaluated: `&&` leaves out an exchange with other lanes where its first operand decides."""
    return f"ac_{op}({a}, {b})" if op in ("and", "or") else function(op, [a, b], dtype)


def reduce(at: Printer, s: Stmt) -> None:
    """Registers, then lanes by exchange, then waves through shared memory; the tree is read off the layout."""
    src, dst = at.bufs[s.srcs[0]], at.bufs[s.dst]
    layout, out = at.place.layouts[src.name], at.place.layouts[dst.name]
    gone = s.axis.split(",")
    op = str(s.expr)
    combine = lambda a, b: combined(op, a, b, dst.dtype)
    t = at.names.fresh("t")
    n = out.registers
    at.put(f"{held(dst.dtype)} {t}[{n}];")
    with at.over(n):
        at.put(f"{t}[r] = {literal(identity(op, dst.dtype), dst.dtype)};")
    with at.over(layout.registers):
        to = register(out, layout, "r", dst.name)
        step = f"{t}[{to}] = {combine(f'{t}[{to}]', at.read_at(src.name, layout, 'r'))};"
        padded = [a for a in gone if layout.extent(a) > tile_of(at.p, a)]
        ok = [c for a in padded for c in at.inside(layout, [a], "r")] if padded and not at.covered(src.name, op) else []
        at.put(under(ok, step))
    if s.dst not in at.deferred:
        tree(at, s, t)
    with at.over(n):
        name = at.names.of(s.dst)
        at.put(f"{name}[r] = {combine(f'{name}[r]', f'{t}[r]') if s.acc else f'{t}[r]'};")


def tree(at: Printer, s: Stmt, t: str, over_blocks: bool = True) -> None:
    """Combine the workers' parts of a reduction in registers `t`: lanes by exchange, waves through shared memory, and blocks of a cluster
    through each other's."""
    _tree(at, s, t, at.place.layouts[s.dst].registers, f"tree of {s.dst}", over_blocks)


def trees(at: Printer, pairs: Sequence[tuple[Stmt, str]], over_blocks: bool = True) -> None:
    """The same of several reductions, each with its registers; those that combine alike meet once, side by side."""
    left = list(pairs)
    while left:
        alike = lambda s: (s.expr, s.axis, at.bufs[s.dst].dtype, at.place.layouts[s.srcs[0]])
        mine = [x for x in left if alike(x[0]) == alike(left[0][0])]
        left = [x for x in left if x not in mine]
        if len(mine) == 1:
            tree(at, *mine[0], over_blocks)
            continue
        both, n, lies = side_by_side(at, mine)
        _tree(at, mine[0][0], both, n, f"tree of {mine[0][0].dst}", over_blocks)
        for s, name in mine:
            with at.over(len(lies[s.dst])):
                at.put(f"{name}[r] = {both}[{lies[s.dst].start} + r];")


def side_by_side(at: Printer, pairs: Sequence[tuple[Stmt, str]]) -> tuple[str, int, dict[str, range]]:
    """One array with the registers of several reductions, one behind another: its name, its length, and where each one's lie."""
    lies, n = dict[str, range](), 0
    for s, _ in pairs:
        lies[s.dst] = range(n, n + at.place.layouts[s.dst].registers)
        n = lies[s.dst].stop
    both = at.names.fresh("both")
    at.put(f"{held(at.bufs[pairs[0][0].dst].dtype)} {both}[{n}];")
    for s, name in pairs:
        with at.over(len(lies[s.dst])):
            at.put(f"{both}[{lies[s.dst].start} + r] = {name}[r];")
    return both, n, lies


def _tree(at: Printer, s: Stmt, t: str, n: int, key: str, over_blocks: bool) -> None:
    dst, layout = at.bufs[s.dst], at.place.layouts[s.srcs[0]]
    gone = set(s.axis.split(","))
    combine = lambda a, b: combined(str(s.expr), a, b, dst.dtype)
    for d, w in weights(layout.lane):
        if d.axis in gone:
            for bit in range((d.count - 1).bit_length()):
                with at.over(n):
                    at.put(f"{t}[r] = {combine(f'{t}[r]', f'ac_shuffle_xor({t}[r], {w << bit})')};")
    if any(d.axis in gone for d in layout.wave):
        across_waves(at, t, n, layout, gone, dst.dtype, combine, key, over_blocks)


def across_waves(at: Printer, t: str, n: int, layout: Layout, gone: set[str], dtype: DType, combine: Callable[[str, str], str],
                 key: str, over_blocks: bool = True) -> None:  # fmt: skip
    """Every wave leaves its partial result in shared memory and reads those of its peers, first in its block, then in the others."""
    own = layout.waves // at.place.cluster
    for inside in (True, False) if over_blocks else (True,):
        peers = _peers(at, layout, gone, inside)
        if len(peers) == 1:
            continue
        box, mark = leave(at, t, n, own, dtype, key if inside else key + OVER_BLOCKS)
        if inside and len(peers) == own and n * len(peers) >= SHARED_OUT:
            _share_out(at, box, mark, t, n, len(peers), combine)
            continue
        read = read_all(at, box, n, layout, gone, inside)
        with at.over(n):
            at.put(f"{held(dtype)} sum = {read[0]};")
            for other in read[1:]:
                at.put(f"sum = {combine('sum', other)};")
            at.put(f"{t}[r] = sum;")


def _peers(at: Printer, layout: Layout, gone: set[str], inside: bool) -> list[int]:
    """Numbers, beside a wave's (inside) or a block's own digits, of those whose parts it combines."""
    peers = [0]
    for d, w in levels(layout, layout.waves // at.place.cluster)[0 if inside else 1]:
        if d.axis in gone:
            peers = [p + i * w for i in range(d.count) for p in peers]
    return peers


def over_blocks(at: Printer, s: Stmt) -> bool:
    """Whether the blocks of a cluster share a reduction."""
    return len(_peers(at, at.place.layouts[s.srcs[0]], set(s.axis.split(",")), False)) > 1


def read_all(at: Printer, box: str, n: int, layout: Layout, gone: set[str], inside: bool) -> list[str]:
    """Register r of what every peer left."""
    part = levels(layout, layout.waves // at.place.cluster)[0 if inside else 1]
    if inside:
        kept = [digit(at.warp, Digit(d.axis, w, d.count), w, tuple(x for x, _ in part)) for d, w in part if d.axis not in gone]
        of = f"{box}[((%s) * {n} + r) * {at.place.wave} + lane]"
    else:
        kept = [f"ac_cluster_rank() / {w} % {d.count} * {w}" for d, w in part if d.axis not in gone]
        of = f"ac_peer(&{box}[({at.warp} * {n} + r) * {at.place.wave} + lane], %s)"
    return [of % " + ".join((*kept, str(p))) for p in _peers(at, layout, gone, inside)]


def _share_out(at: Printer, box: str, mark: str, t: str, n: int, waves: int, combine: Callable[[str, str], str]) -> None:
    """Each wave combines some of the registers of all, in the first one's place."""
    place = lambda wave, r: f"{box}[({wave} * {n} + {r}) * {at.place.wave} + lane]"
    at.before_write(mark, own=True)
    with at.block(f"for (int q = {at.warp}; q < {n}; q += {waves})"), at.block(f"for (int p = 1; p < {waves}; ++p)", unroll=True):
        at.put(f"{place(0, 'q')} = {combine(place(0, 'q'), place('p', 'q'))};")
    at.before_read(mark)
    with at.over(n):
        at.put(f"{t}[r] = {place(0, 'r')};")


def leave(at: Printer, t: str, n: int, waves: int, dtype: DType, key: str) -> tuple[str, str]:
    """The block's partial results in shared memory, and the barrier behind them; the text and the name of the place."""
    bytes_ = waves * at.place.wave * n * (8 if dtype.bits == 64 else 4)
    key = at.tree_key(key, bytes_)
    if key not in at.place.trees:
        at.place.trees[key] = at.place.reserve(bytes_ * (2 if at.turn and far(key) else 1))
    at.before_write(key)
    box = at.names.fresh("box")
    half = f" + {at.turn} % 2 * {bytes_}" if at.turn and far(key) else ""
    at.put(f"{held(dtype)} *{box} = ({held(dtype)} *)({at.memory} + {at.place.trees[key]}{half});")
    with at.over(n):
        at.put(f"{box}[({at.warp} * {n} + r) * {at.place.wave} + lane] = {t}[r];")
    at.before_read(key)
    return box, key


def levels(layout: Layout, own: int) -> tuple[list[tuple[Digit, int]], list[tuple[Digit, int]]]:
    """The wave digits of a layout with their weights: those within a block of `own` waves, and those over blocks (weights in blocks)."""
    near, far = [], []
    for d, w in weights(layout.wave):
        inside = min(d.count, max(1, own // w))
        if inside > 1:
            near.append((Digit(d.axis, d.stride, inside), w))
        if d.count > inside:
            far.append((Digit(d.axis, d.stride * inside, d.count // inside), max(1, w // own)))
    return near, far
