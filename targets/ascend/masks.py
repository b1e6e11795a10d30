"""Expressions as vector cores compute them: single precision throughout, choices by one comparison each, and no masks that only hide
what lies outside of a tensor."""

from __future__ import annotations

from collections.abc import Mapping

from autocomp.targets.ascend.geometry import extent
from autocomp.targets.ascend.made import of_others
from autocomp.targets.ascend.tables import stored
from autocomp.targets.ascend.whole import is_short

from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Const, Expr, Index, Inside, Map, postorder
from autocomp.ir.types import BOOL, I64, DType, widens
from autocomp.tile.program import TileProgram, Value

COMPARISONS = {"lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "eq": "EQ", "ne": "NE"}


def settled(e: Expr, p: TileProgram, known: Mapping[str, object], words: frozenset[str] = frozenset()) -> Expr:
    """Without conversions to floating-point types and to integers that have all values, and without masks that are true for all elements
    inside the axes' extents: copies, reductions and the cube unit take the true counts, so what lies outside never matters. `known`:
    truth values by name; `words`: integers whose conversions round.
    Raises UnsupportedOp for a conversion to a float that vector cores do not have.

        where(a and b, x, y)  ->  where(a, where(b, x, y), y)
    """
    again = lambda x: settled(x, p, known, words)
    if isinstance(e, Map) and e.fn == "cast" and e.dtype.is_float:
        stored(e.dtype, p.name)  # a shorter type rounds, and what it rounds to is asked for
    rounds = bool(words) and any(isinstance(x, Value) and x.name in words for x in postorder(e))
    if isinstance(e, Map) and e.fn == "cast" and e.dtype != BOOL and (
        (e.dtype.is_float and not (rounds and e.operands[0].dtype.is_int)) or is_kept(e.operands[0].dtype, e.dtype)
    ):
        return again(e.operands[0])
    if isinstance(e, Map) and (made := of_others(e.fn, e.dtype)) is not None:
        return again(made(*e.operands))
    if isinstance(e, Map) and e.fn == "where":
        condition, x, y = e.operands
        return _chosen(e, condition, again(x), again(y), p, known, words)
    if isinstance(e, Const) or not e.args:
        return e
    return e.with_args(tuple(again(a) for a in e.args))


def is_kept(a: DType, b: DType) -> bool:
    """Whether an integer's number is the same in another type."""
    return not a.is_float and widens(a, b) and is_short(a)


def _chosen(e: Map, c: Expr, x: Expr, y: Expr, p: TileProgram, known: Mapping[str, object], words: frozenset[str]) -> Expr:
    """where(c, x, y) by comparisons alone."""
    if isinstance(c, Value) and isinstance(known.get(c.name), Expr):
        return _chosen(e, known[c.name], x, y, p, known, words)  # type: ignore[arg-type]
    if isinstance(c, Inside):
        left = [g for g in c.guard if not holds_inside(g, p)]
        for g in reversed(left):
            x = _chosen(e, Map(BOOL, "ge", (Index(I64, g), Index(I64, aff(0)))), x, y, p, known, words)
        return x
    if isinstance(c, Map) and c.fn in ("and", "or"):
        a, b = c.operands
        inner = _chosen(e, b, x, y, p, known, words)
        return _chosen(e, a, inner, y, p, known, words) if c.fn == "and" else _chosen(e, a, x, inner, p, known, words)
    if isinstance(c, Map) and c.fn == "not":
        return _chosen(e, c.operands[0], y, x, p, known, words)
    if isinstance(c, Map) and of_others(c.fn, c.dtype) is not None:
        c = settled(c, p, known, words)
    elif isinstance(c, Map) and not any(isinstance(a, Index) for a in c.operands):
        c = c.with_args(tuple(settled(a, p, known, words) for a in c.operands))
    return e.with_args((c, x, y))


def difference(c: Expr) -> tuple[Aff, str] | None:
    """(d, comparison) where a condition says `d compared with 0` about indices; None for other conditions."""
    if isinstance(c, Map) and c.fn in COMPARISONS and any(isinstance(x, Index) for x in postorder(c)):
        a, b = (of_indices(x) for x in c.operands)
        return (a - b, COMPARISONS[c.fn]) if a is not None and b is not None else None
    return None


def of_indices(e: Expr) -> Aff | None:
    """The index that an expression of indices and whole numbers is, where it only adds and subtracts them; None for others."""
    if isinstance(e, Index):
        return e.index
    if isinstance(e, Const) and isinstance(e.value, int):
        return aff(e.value)
    if not isinstance(e, Map) or e.fn not in ("add", "sub"):
        return None
    a, b = (of_indices(x) for x in e.operands)
    return None if a is None or b is None else a + b if e.fn == "add" else a - b


def holds_inside(g: Aff, p: TileProgram) -> bool:
    """Whether a guard says no more than that an index is smaller than its axis' extent."""
    return any(g == aff(extent(p, a)) - 1 - a for a in g.names() if a in dict(p.axes))
