"""Masks by a row's and a lane's index in single precision: the lowest number past an edge, written where the tile lies.

    where(row + c >= lane, x, -inf)    ->    of a column of eight lanes, rows on one side are filled, and the eight at the edge are the
                                             smaller of x and a triangle of infinities, made once; columns in front of the edge stay

A comparison for all elements makes their indices first, and is done in every block; here one that no edge cuts costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autocomp.targets.ascend.half_masks import BARRIER, Step, mask_of
from autocomp.targets.ascend.operand import Operand, number
from autocomp.targets.ascend.tables import table

from autocomp.ir.body import Expr, Map
from autocomp.tile.program import Value

if TYPE_CHECKING:
    from autocomp.targets.ascend.vector_core import VectorCore

SIDE = 8  # elements of a block


def cut(v: VectorCore, e: Expr) -> tuple[Expr, Step] | None:
    """What such a mask keeps, and where, if that is a tile which nobody reads otherwise; None for other expressions."""
    if not isinstance(e, Map) or e.fn != "where" or not v.row or len(v.g.lanes) == 0:
        return None
    found = next((m for lane in v.g.lanes if (m := mask_of(e, v.row, lane)) is not None), None)
    if found is None:
        return None
    x = kept = found[0]
    while isinstance(x, Map) and (x.fn == "mul" or cut(v, x) is not None):
        x = cut(v, x)[0] if x.fn == "where" else x.operands[0]  # type: ignore[index]
    o = v.values.get(x.name) if isinstance(x, Value) else None
    if o is None or (o.kind, o.element) != ("full", "float") or (x is kept and x.name not in v.ending):  # type: ignore[attr-defined]
        return None
    return found if mask_of(e, v.row, o.lane) == found else None


def masked(v: VectorCore, x: Operand, s: Step) -> Operand:
    """The tile with that mask."""
    name, t = f"lanes_{s.kind}", table()
    if name not in v.depth:
        at = v.ub.take(SIDE * SIDE * 4, 1, name)
        v.depth[name] = 1
        below = "true" if s.kind == "until" else "false"
        v.before += [f"const ac_f32 {name} = ac_at<float>(ub, {SIDE * SIDE * 4}, {at});",
                     f"{t['lanes_edge']}({name}, {number(s.number)}, {below});", BARRIER]  # fmt: skip
    first = f"int32_t({v.start[v.row]}) - int32_t({v.start[x.lane]}) + {s.first}"
    call = f"{t[f'lanes_{s.kind}']}({x.name}, {name}, {first}, {v.g.count}, {v.g.pitch(x.lane)}, {number(s.number)});"
    v.v([call, BARRIER], (x,))
    return x
