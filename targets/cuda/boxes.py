"""Results leave a kernel with roles in boxes of 64 x 64: registers, shared memory, the bulk engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autocomp.targets.cuda.bulk import tensor_map
from autocomp.targets.simt.access import contiguous_axis
from autocomp.targets.simt.expressions import STORED, index
from autocomp.targets.simt.placement import ALIGN, tile_of

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.tile.layout import Layout
from autocomp.tile.program import Stmt, Tensor

if TYPE_CHECKING:
    from autocomp.targets.cuda.specialised import TeamPrinter

STAGE = 16384  # bytes in which a warpgroup leaves results for the bulk engine: two boxes of 64 x 64


def store_boxes(at: TeamPrinter, s: Stmt) -> bool:
    """Prints a store through shared memory and the bulk engine: whole lines, clipped at the edges by the engine. False where its rows do
    not allow it."""
    made = _out_box(at, s)
    if made is None:
        return False
    number, start, cols, groups, offset = made
    y, kind = at.names.of(s.srcs[0]), STORED[at.bufs[s.srcs[0]].dtype.name]
    repeats = at.place.layouts[s.srcs[0]].registers // (groups * 32)
    at.stored = True
    at.put(f"unsigned char *const box{number} = {at.memory} + {offset} + (wave / 4) * {STAGE};")
    if at.persistent and repeats * groups % 2:  # the last tile ended in the half that this one begins with
        at.put("if (threadIdx.x % 128 == 0) ac_bulk_wait<0>();")
    with _each_box(at, at.place.layouts[s.srcs[0]], repeats, groups):
        box = at.names.fresh("to")
        at.put(f"unsigned char *{box} = box{number} + (m * {groups} + g) % 2 * 8192;")
        at.put("if (threadIdx.x % 128 == 0) ac_bulk_wait<1>();")
        at.put("ac_barrier_sync(2 + wave / 4, 128);")
        with at.over(4, "q"):
            at.put("unsigned part[4];", f"ac_pack<{kind}, 8>(part, &{y}[(m * {groups} + g) * 32 + q * 8]);")
            at.put(f"ac_stmatrix4({box} + ac_swizzle<128>(wave % 4 * 16 + lane % 16, q * 32 + lane / 16 * 16), part);")
        at.put("ac_async_fence();", "ac_barrier_sync(2 + wave / 4, 128);")
        row = f"(wave / 4 * {repeats} + m) * 64"
        here = {cols[0]: "g * 64", cols[1]: row}
        coordinates = [_position(at, a, here) for a in start]
        at.put(f"if (threadIdx.x % 128 == 0) ac_bulk_store(&map{number}, {box}, {', '.join(coordinates)});")
    return True


@contextmanager
def _each_box(at: TeamPrinter, layout: Layout, repeats: int, groups: int) -> Iterator[None]:
    """A loop over boxes: m counts 64 rows, g 64 columns."""
    if at.in_shares(layout):
        with at.registers(layout, "b", 32):
            at.put(f"const int m = b / {groups}, g = b % {groups};")
            yield
    else:
        with at.over(repeats, "m"), at.over(groups, "g"):
            yield


def _position(at: TeamPrinter, a: Aff, local: dict[str, str]) -> str:
    """An index at the tile's first element plus local offsets."""
    return index(a, lambda n: f"({' + '.join(x for x in (at.base.get(n), local.get(n)) if x) or '0'})")


def _out_box(at: TeamPrinter, s: Stmt) -> tuple[int, tuple[Aff, ...], tuple[str, str], int, int] | None:
    """(descriptor's number, start, (column axis, row axis), groups of 64 columns, staging offset) of a store in boxes of 64 x 64."""
    t = at.p.tensor(s.dst)
    layout = at.place.layouts[s.srcs[0]]
    reg = layout.reg
    if t is None or t.dtype.bytes != 2 or len(reg) < 3 or t.guard:
        return None
    if (reg[0].stride, reg[0].count, reg[1].stride, reg[2].stride) != (1, 2, 8, 8):
        return None
    col, row = reg[0].axis, reg[1].axis
    wide, high = layout.extent(col), layout.extent(row)
    if at.in_shares(layout) and layout.registers // 32 % at.parts.count:
        return None
    if (reg[2].axis, reg[2].count * 8) != (col, wide) or wide % 64 or high % 64:
        return None
    if contiguous_axis(t) != col or layout.axes() != {col, row}:
        return None
    try:
        made, start, rows = tensor_map(t, {col: 64, row: 64}, {a: at.p.extent(a) for a in t.axes}, col, frozenset(), "")
    except UnsupportedOp:
        return None
    if rows != 64 or any(tile_of(at.p, a) != layout.extent(a) for a in (col, row) if a in at.base):
        return None
    if any(at.p.extent(a) != n for a, n in zip((col, row), (_dim_of(t, col), _dim_of(t, row)))):
        return None
    at.placer.maps.append(made)
    return len(at.placer.maps) - 1, start, (col, row), wide // 64, at.place.reserve(STAGE * at.workers, ALIGN)


def _dim_of(t: Tensor, axis: str) -> object:
    """The extent of the dimension that an axis alone indexes, so that the engine clips where the axis ends."""
    return next((n for i, n in zip(t.index, t.shape) if i == Aff.of(axis)), None)
