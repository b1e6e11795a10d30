"""Factors that vector cores make, handed to the cube core as fractals (directive `handed_fractals`).

    rows of the factor in memory -> L1, each row a run of its copy    ->    columns of fractals in memory -> L1 as they lie, one run

The conversion to half precision puts each block of sixteen elements of a row where its fractal has it: it writes a block behind the other
with the tile's rows between, and one more, so that the blocks of a repeat lie in different banks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autocomp.targets.ascend.api import fact
from autocomp.targets.ascend.geometry import extent
from autocomp.targets.ascend.operand import Operand
from autocomp.targets.ascend.tables import stored, table

from autocomp.ir.types import DType
from autocomp.tile.agents import Work
from autocomp.tile.program import TileProgram

if TYPE_CHECKING:
    from autocomp.targets.ascend.vector import VectorPart

MOST = 240  # rows of one instruction


def whole_fractals(p: TileProgram, v: VectorPart, dtype: DType, depth: str) -> bool:
    """Whether a factor of `dtype` has whole fractals along its depth (what lies behind its end is not zero), and few rows."""
    return dtype.bytes == 2 and extent(p, depth) % int(table()["fractal"]) == 0 and v.g.count <= MOST


def handed(v: VectorPart, name: str, x: Operand, dtype: DType, scratch: str, slot: str, columns: str, own: str, rows: int) -> None:
    """Vector value `x` of rows `own` of a tile of `rows`, to a slot of memory as columns of fractals, `columns` elements of each row."""
    g, element, side, block = v.g, stored(dtype, v.p.name), int(table()["fractal"]), int(fact("block"))
    gap, pitch = g.count + 1, g.pitch(x.lane)
    out = v.staged(v.frame, f"{name}_out", element, pitch // side * gap * block)
    v.applied.add("handed_fractals")
    v.v([f"{table()['to_fractals']}({out}, {x.name}, {g.count}, {pitch});"], (x,), Operand(out, x.kind, x.lane))
    shape = f"ac_copy({columns} / {side}, {own} * {block}, {gap} - {own}, ({rows} - {own}) * {block})"
    copy = v.guarded((f"DataCopyPad({scratch}_g[{slot} + {side} * w_row], {out}[0], {shape});",))
    v.frame.works.append(Work("vector.MTE3", (out,), (scratch,), copy))
