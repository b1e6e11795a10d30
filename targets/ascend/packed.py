"""Directive joined_rows, of chips whose copies are of whole blocks: rows of results that lie behind each other in memory leave as one run.

    out[46 r ..] = row r, for each row    ->    x = Gather(rows, places);  out[0 .. 46 rows] = x

In unified buffer each row begins at a block, and a row that ends within one takes a copy of its own and the scalar unit. A look-up takes
the rows' elements without what lies between, by byte offsets that a core makes once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.ascend.copies import Region
from autocomp.targets.ascend.geometry import Geometry, extent, geometry, strides, tile_of
from autocomp.targets.ascend.half_masks import BARRIER
from autocomp.targets.ascend.operand import Operand

from autocomp.cost.instructions import behind_each_other
from autocomp.tile.program import Tensor, TileProgram

if TYPE_CHECKING:
    from autocomp.targets.ascend.transfers import Transfers

DIRECTIVE = "joined_rows"


@dataclass(frozen=True)
class Run:
    """`rows`: the axes, with their tiles, of which rows lie behind each other, outermost first; `outer`: the others; `row`: elements of a
    row; `run`: of all of them."""

    rows: tuple[tuple[str, int], ...]
    outer: tuple[tuple[str, int], ...]
    row: int
    run: int


def run_of(p: TileProgram, g: Geometry, step: dict[str, int], lane: str, bytes_: int) -> Run | None:
    """The run that a tile's rows make; None where a row is whole blocks, or has nothing behind it."""
    row = g.lanes.get(lane, 0)
    wide = [(a, n) for a, n in g.rows if n > 1]
    if row * bytes_ % 32 == 0 or step.get(lane, 0) != 1:
        return None
    n = behind_each_other(wide, step, (lane, row), lambda a: extent(p, a) % tile_of(p, a) == 0)
    rows = tuple(wide[-n:])
    return Run(rows, tuple(wide[:-n]), row, row * prod(k for _, k in rows)) if n else None


def run_of_result(p: TileProgram, t: Tensor) -> Run | None:
    """The same of a result of a tile program."""
    step, _ = strides(t, p.name)
    lane = next((a for a, n in step.items() if n == 1 and extent(p, a) > 1), "")
    g = geometry(p, {})
    return run_of(p, g, step, lane, t.dtype.bytes) if lane in g.lanes else None


def packed(v: Transfers, name: str, r: Region, element: str, o: Operand) -> tuple[Operand, Geometry, dict[str, str], Region] | None:
    """A value whose rows lie without gaps, how it lies, its true counts, and where it goes; None where that is nothing else. It lies in a
    ring to be copied from where it has its type in memory."""
    size = {"half": 2}.get(o.element, 4)
    found = run_of(v.p, v.g, dict(r.step), o.lane, r.bytes) if o.kind == "full" else None
    if found is None:
        return None
    (first, n), lane = found.rows[0], o.lane
    g = Geometry(found.outer, {lane: found.run}, v.g.block)
    places = _places(v, found, v.g.pitch(lane), size)
    true = {**v.true, lane: str(found.run) if v.true[first].isdigit() else f"{v.true[first]} * {found.run // n}"}
    with v.lying(g, true):
        if element == o.element:
            d = Operand(v.staged(v.frame, name, element, -(-g.elements("full", lane) // 32) * 32 * r.bytes), "full", lane, element=element)
        else:
            d = v.temporary("full", lane, name, o.element)
    apart = v.g.pitch(lane) * prod(n for _, n in found.rows)
    v.v([f"ac_picked({d.name}, {o.name}, {places}, {g.count}, {found.run}, {apart}, {g.pitch(lane)});"], (o,), d)
    v.applied.add(DIRECTIVE)
    step = {**{a: r.step[a] for a, _ in found.outer}, lane: 1}
    return d, g, true, replace(r, step=step, axes=(*(a for a, _ in found.outer), lane))


def _places(v: Transfers, found: Run, pitch: int, size: int) -> str:
    """Where the elements of a run lie, in bytes, as words that a core makes in front of its loop."""
    name = f"places_{found.row}_{found.run}_{pitch * size}"
    if name not in v.depth:
        room = -(-found.run // 64) * 64 * 4
        at, spare = v.ub.take(room, 1, name), v.ub.take(room)
        v.ub.give(spare, room)
        v.depth[name] = 1
        t = f"ac_at<float>(ub, {room}, {spare})"
        v.before += [f"const LocalTensor<uint32_t> {name} = ac_at<uint32_t>(ub, {room}, {at});",
                     f"ac_places_of_rows({name}, {t}, {found.row}, {pitch}, {size}, {found.run});", BARRIER]  # fmt: skip
    return name
