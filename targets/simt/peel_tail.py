"""Tail peeling (directive `peel_tail`): whole tiles of a map move whole vectors, and only the tile that the end cuts moves its elements
one by one.

    before   a = copy x                        after   peeled
             b = copy y                                    a = copy x
             c = map a + b                                 b = copy y
             store z = c                               c = map a + b
                                                       peeled
                                                           store z = c

    of 16271027 elements of 2 bytes, in tiles of 2048:   if (i0_b + 2048 <= 16271027)  vectors of 8 elements
                                                         else                          each element behind a comparison

Of a row that a block's threads keep in registers, those that the end may cut are known: only they are compared with it (`certain`).

    row of 5003 by 128 threads:   if (r0_t + r * 128 < 5003)    after   if (r < 39 || r0_t + r * 128 < 5003)

Of as many conditions as a thread has elements compilers keep seven at once (`PREDICATES`). So what a map loads and stores under its own
comparisons comes seven elements at a time, where rows begin anywhere and no vectors fit: 58 x 80 rows of 77841 f32 in tiles of 4096 took
1012 us, 783 with all loads of a tile under way (H200, 2026-12-01). And a scan that goes on from turn to turn compares elements in the turn
that the end cuts, the last one, and loads one element behind the other else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.cpu.flat import dim_text
from autocomp.targets.simt.access import PREDICATES, VECTOR_BYTES, access_width, contiguous_axis, vector_width
from autocomp.targets.simt.facts import Facts
from autocomp.targets.simt.placed import tile_of

from autocomp.ir.types import dim_hint
from autocomp.tile.program import Loop, Stmt, TileProgram, walk
from autocomp.tile.steps import Over, Scheme, Step, Steps, bodies, stmt_of

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer


@dataclass(frozen=True)
class Peeled(Scheme):
    """Copies and stores that move vectors where their tile is whole."""

    says = "peeled"


def peeled(p: TileProgram, threads: int) -> frozenset[str]:
    """The axis along which the large tensors of a map lie side by side, where its end would cut their vectors and each thread has a whole
    one, or more elements than a thread has conditions; the axis along which a scan goes on from turn to turn, where its end cuts the last
    one; else none."""
    if turns := _turning(p):
        return turns
    if any(s.op not in ("copy", "map", "store") for s, _ in walk(p.body)):
        return frozenset()
    size = lambda t: prod(dim_hint(n) for n in t.shape)
    whole = max(size(t) for t in p.outputs)
    large = [t for t in (*p.inputs, *p.outputs) if 2 * size(t) >= whole]
    near = {contiguous_axis(t) for t in large if any(n != 1 for n in t.shape)}
    grid = next((x.axes for x in p.body if isinstance(x, Loop) and x.kind == "grid"), ())
    if len(near) != 1 or not near <= set(grid):
        return frozenset()
    (axis,) = near
    width = lambda t, extent: vector_width(t, axis, VECTOR_BYTES // t.dtype.bytes, extent)
    wider = all(width(t, 0) > width(t, p.extent(axis)) for t in large)
    has = prod(tile_of(p, a) for a in grid) // threads
    widest = max(width(t, 0) for t in large)
    return frozenset(near) if (wider and has >= widest) or (has > PREDICATES * widest and _cut(p, axis)) else frozenset()


def _turning(p: TileProgram) -> frozenset[str]:
    scans = ((s.axis.lstrip("-"), loops) for s, loops in walk(p.body) if s.op == "scan")
    scanned = {axis for axis, loops in scans if any(x.kind == "serial" and axis in x.axes for x in loops)}
    return frozenset(a for a in scanned if _cut(p, a)) if len(scanned) == 1 else frozenset()


def _cut(p: TileProgram, axis: str) -> bool:
    """Whether an axis may end within its last tile."""
    n = p.extent(axis)
    return not isinstance(n, int) or n % tile_of(p, axis) != 0


def whole_turn(at: Printer, axis: str) -> str:
    """The condition that no end cuts the tile along a peeled axis."""
    return f"{at.base[axis]} + {tile_of(at.p, axis)} <= {dim_text(at.p.extent(axis))}"


def peel_tail(steps: Steps, facts: Facts) -> Steps:
    """Groups the copies, and the stores, that stand side by side and move vectors along a peeled axis."""
    p, place = facts.p, facts.place
    turning = place.peeled and place.peeled == _turning(p)

    def kind(n: Step) -> str:
        s = stmt_of(n)
        t = p.tensor(_view(s)) if s and s.op in ("copy", "store") else None
        layout = place.layouts.get(s.dst if s.op == "copy" else s.srcs[0]) if s and t else None
        if s is None or t is None or layout is None or s.dst in {*place.words, *place.shared, *place.staged, *place.strips, *place.late}:
            return ""
        (axis,) = place.peeled
        width = access_width(p, layout, t, place.peeled)
        alone = turning or (width == 1 and layout.registers > PREDICATES)
        runs = layout.reg and (alone or layout.reg[0].axis == axis) and layout.extent(axis) == tile_of(p, axis)
        return s.op if runs and axis in t.axes and (alone or width > 1) else ""

    def change(body: Steps) -> Steps:
        out: list[Step] = []
        for op, same in groupby(body, kind):
            stmts = tuple(same)
            out += [Over(stmts, None, (Peeled(),))] if op else stmts
        return tuple(out)

    return bodies(steps, change) if place.peeled else steps


def write(at: Printer, stmts: tuple[Stmt, ...]) -> None:
    """Both forms of peeled copies or stores, the one for whole tiles first."""
    (axis,) = at.place.peeled
    for uncut, head in ((at.place.peeled, f"if ({whole_turn(at, axis)})"), (frozenset[str](), "else")):
        at.uncut = uncut
        with at.block(head):
            for s in stmts:
                t = at.p.tensor(_view(s))
                assert t is not None
                (at.load if s.op == "copy" else at.store_registers)(s, t)


def _view(s: Stmt) -> str:
    """The name of what a copy reads or a store writes."""
    return s.srcs[0] if s.op == "copy" else s.dst
