"""Expressions as vector cores compute them: single precision throughout, and no masks that only hide what lies outside of a tensor."""

from __future__ import annotations

from autocomp.targets.ascend.geometry import extent

from autocomp.ir.affine import aff
from autocomp.ir.body import Const, Expr, Inside, Map
from autocomp.tile.program import TileProgram


def settled(e: Expr, p: TileProgram) -> Expr:
    """Without conversions between floating-point types, and without masks that are true for all elements inside the axes' extents:
    copies, reductions and the cube unit take the true counts, so what lies outside never matters."""
    if isinstance(e, Map) and e.fn == "cast" and e.dtype.is_float and e.operands[0].dtype.is_float:
        return settled(e.operands[0], p)
    if isinstance(e, Map) and e.fn == "where" and isinstance(e.operands[0], Inside) and holds_inside(e.operands[0], p):
        return settled(e.operands[1], p)
    if isinstance(e, Const) or not e.args:
        return e
    return e.with_args(tuple(settled(a, p) for a in e.args))


def holds_inside(mask: Inside, p: TileProgram) -> bool:
    """Whether every guard says no more than that an index is smaller than its axis' extent."""
    axes = [a for a, _ in p.axes]
    return all(any(g == aff(extent(p, a)) - 1 - a for a in g.names() if a in axes) for g in mask.guard)
