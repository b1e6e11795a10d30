"""Masks over indices: where one says that the rest of a reduction is its identity, a loop can end there."""

from __future__ import annotations

from collections.abc import Collection

from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Const, Contract, Expr, Index, Map, Reduce
from autocomp.ir.monoids import MONOIDS


def guard_of(e: Expr) -> Aff | None:
    """g where a comparison of indices says g >= 0."""
    if not (isinstance(e, Map) and len(e.args) == 2 and all(isinstance(a, Index) for a in e.args)):
        return None
    a, b = (x.index for x in e.args)  # type: ignore[attr-defined]
    return {"ge": a - b, "gt": a - b - 1, "le": b - a, "lt": b - a - 1}.get(e.fn)


def end_of(e: Reduce | Contract, axis: str, rows: Collection[str]) -> tuple[str, int] | None:
    """(row i, c) where all that a reduction folds past index i + c of an axis is its identity, by a mask over indices."""
    if not isinstance(e, Reduce) or not MONOIDS[e.monoid].modules:
        return None
    x = e.operands[0]
    while isinstance(x, Map) and x.fn == "cast":
        x = x.args[0]
    if not (isinstance(x, Map) and x.fn == "where" and isinstance(x.args[2], Const) and x.args[2].value == float("-inf")):
        return None
    g = guard_of(x.args[0])
    if g is None or g.coef(axis) != -1:
        return None
    rest = g + axis
    named = [n for n in rest.names() if n in rows]
    if len(named) != 1 or rest.coef(named[0]) != 1 or rest != aff(named[0]) + rest.const:
        return None
    return named[0], rest.const


def shares_left(depth: int, step: int, rows: int, tile: int, past: int) -> tuple[float, float]:
    """Of a loop over `depth` in steps, the share of turns that tiles of rows make in the mean, and the longest of them (`turns_left`)."""
    left, whole = turns_left(depth, step, rows, tile, past), -(-depth // step)
    return sum(left) / len(left) / whole, max(left) / whole


def turns_left(depth: int, step: int, rows: int, tile: int, past: int) -> list[int]:
    """Turns of a loop over `depth` in steps that each tile of rows makes, where it ends behind the step that holds index i + past, i its
    last row."""
    return [max(0, min(-(-depth // step), (b + tile - 1 + past) // step + 1)) for b in range(0, rows, tile)]
