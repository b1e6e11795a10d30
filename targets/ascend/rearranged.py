"""Tiles whose elements lie otherwise in memory than on vector cores: copied as they lie there, then put in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from autocomp.targets.ascend.copies import Region
from autocomp.targets.ascend.geometry import Geometry
from autocomp.targets.ascend.operand import Operand

from autocomp.ir.types import DType

if TYPE_CHECKING:
    from autocomp.targets.ascend.transfers import Transfers

SPREAD = 16  # elements of a row that are copied for one that is wanted, at most


def strided(v: Transfers, r: Region) -> int:
    """How far neighbours of a row lie apart, where they are neither side by side nor in other rows; else 0."""
    kind, lane = v.g.kind(r.axes, v.p.name)
    step = r.step.get(lane, 0)
    return step if kind == "full" and 1 < step <= SPREAD and v.true[lane] != "1" and not is_turned(v, r) else 0


def picked(v: Transfers, name: str, r: Region, dtype: DType, step: int, load: Callable[[str, Region, DType], Operand]) -> Operand:
    """Every `step`th element of rows: `load` copies what lies between too, and a look-up by their offsets leaves it out."""
    kind, lane = v.g.kind(r.axes, v.p.name)
    n = v.g.lanes[lane]
    lies = replace(v.g, lanes={**v.g.lanes, lane: (n - 1) * step + 1})
    true = {**v.true, lane: f"(({v.true[lane]} - 1) * {step} + 1)"}
    with v.lying(lies, true):
        x = load(name, replace(r, step={**r.step, lane: 1}), dtype)
    line, places = v.temporary("line", lane), v.temporary("line", lane, element="int32_t")
    offsets = f"{places.name}_bytes"
    size = v.g.bytes("line", lane)
    v.frame.declarations.append(f"const LocalTensor<uint32_t> {offsets} = ac_at<uint32_t>(ub, {size}, {places.offset});")
    v.v([f"ac_offsets({places.name}, {line.name}, {step}, {n});"], (), places, line)
    v.release(line)
    d = v.temporary(kind, lane, name, x.element)
    v.v([f"ac_picked({d.name}, {x.name}, {offsets}, {v.g.count}, {n}, {lies.pitch(lane)}, {v.g.pitch(lane)});"], (x, places), d)
    v.release(places)
    with v.lying(lies, true):
        v.release(x)
    return d


def is_alone(v: Transfers, r: Region) -> bool:
    """Whether a tile has one element for all rows and lanes (a bias of the only row whose products are folded)."""
    tiles = dict(v.g.rows)
    return len(v.g.lanes) == 1 and any(n > 1 for n in tiles.values()) and all(tiles.get(a) == 1 for a in r.axes)


def spread_out(v: Transfers, name: str, r: Region, dtype: DType) -> Operand:
    """Such an element at every lane: it comes as a row's statistic does, and is added to zeros."""
    (lane,) = v.g.lanes
    with v.lying(Geometry((), v.g.lanes, v.g.block), v.true):
        x = v.load(name, r, dtype)
    d = v.temporary("line", lane, name, x.element)
    v.v([f"Duplicate({d.name}, {x.neutral}, {v.g.pitch(lane)});"], (), d)
    v.v([f"ac_Add_stat({d.name}, {d.name}, {x.name}, 1, {v.g.pitch(lane)});"], (d, x), d)
    with v.lying(Geometry((), v.g.lanes, v.g.block), v.true):
        v.release(x)
    return d


def is_turned(v: Transfers, r: Region) -> bool:
    """Whether neighbours in memory are of different rows of a tile."""
    wide = [a for a, n in v.g.rows if n > 1]
    kind, lane = v.g.kind(r.axes, v.p.name)
    return kind == "full" and v.true[lane] != "1" and r.step.get(lane, 0) != 1 and [r.step.get(a, 0) for a in wide] == [1]


def turned(v: Transfers, name: str, r: Region, dtype: DType) -> Operand:
    """A tile whose rows run along another axis in memory: copied as it lies there, then turned."""
    (row, rows), = ((a, n) for a, n in v.g.rows if n > 1)
    _, lane = v.g.kind(r.axes, v.p.name)
    lies = Geometry(((lane, -(-v.g.lanes[lane] // 16) * 16),), {row: rows}, v.g.block)
    with v.lying(lies, v.true):
        x = v.load(name, r, dtype)
    size = max(-(-rows // 8) * 8 * v.g.pitch(lane) * 4, v.g.bytes("full", lane))
    form = "ac_f32" if x.element == "float" else f"LocalTensor<{x.element}>"
    d = Operand(f"{name}_turned", "full", lane, v.ub.take(size), x.element)
    v.frame.declarations.append(f"const {form} {d.name} = ac_at<{x.element}>(ub, {size}, {d.offset});")
    v.v([f"ac_turn({d.name}, {x.name}, {v.g.lanes[lane]}, {rows}, {lies.pitch(row)}, {v.g.pitch(lane)});"], (x,), d)
    with v.lying(lies, v.true):
        v.release(x)
    return d
