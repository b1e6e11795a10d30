"""Expressions as vector cores compute them: single precision throughout, choices by one comparison each, and no masks that only hide
what lies outside of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autocomp.targets.ascend.geometry import extent
from autocomp.targets.ascend.tables import stored
from autocomp.targets.ascend.whole import is_short

from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Const, Expr, Index, Inside, Map
from autocomp.ir.types import BOOL, I64, DType, widens
from autocomp.tile.program import TileProgram, Value

COMPARISONS = {"lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "eq": "EQ", "ne": "NE"}


def _sign(x: Expr) -> Expr:
    """1, -1, or x where that is 0 or no number."""
    c = lambda v: Const(x.dtype, v)
    return _where(_is("gt", x, c(0.0)), c(1.0), _where(_is("lt", x, c(0.0)), c(-1.0), x))


def _log1p(x: Expr) -> Expr:
    """log(u) x / (u - 1) for u = 1 + x as it is rounded (Kahan): what rounding takes from u is in both factors. x where u is 1, log(u)
    where nothing is lost."""
    one = Const(x.dtype, 1.0)
    u = Map(x.dtype, "add", (x, one))
    back, log = Map(x.dtype, "sub", (u, one)), Map(x.dtype, "log", (u,))
    rest = Map(x.dtype, "mul", (log, Map(x.dtype, "div", (x, back))))
    return _where(_is("eq", u, one), x, _where(_is("eq", back, x), log, rest))


def _expm1(x: Expr) -> Expr:
    """(u - 1) x / log(u) for u = exp(x) as it is rounded (Kahan): what rounding takes from u is in both factors. x where u is 1, u - 1
    where |x| > 16."""
    c = lambda v: Const(x.dtype, v)
    u = Map(x.dtype, "exp", (x,))
    less = Map(x.dtype, "sub", (u, c(1.0)))
    rest = Map(x.dtype, "mul", (less, Map(x.dtype, "div", (x, Map(x.dtype, "log", (u,))))))
    far = Map(x.dtype, "abs", (x,))
    return _where(_is("gt", far, c(16.0)), less, _where(_is("eq", u, c(1.0)), x, rest))


def _where(c: Expr, x: Expr, y: Expr) -> Expr:
    return Map(y.dtype, "where", (c, x, y))


def _is(fn: str, a: Expr, b: Expr) -> Expr:
    return Map(BOOL, fn, (a, b))


CHOSEN: Mapping[str, Callable[[Expr], Expr]] = {"sign": _sign, "log1p": _log1p, "expm1": _expm1}  # functions that are choices among others


def settled(e: Expr, p: TileProgram, known: Mapping[str, object]) -> Expr:
    """Without conversions to floating-point types and to integers that have all values, and without masks that are true for all elements
    inside the axes' extents: copies, reductions and the cube unit take the true counts, so what lies outside never matters. `known`:
    truth values by name.
    Raises UnsupportedOp for a conversion to a float that vector cores do not have.

        where(a and b, x, y)  ->  where(a, where(b, x, y), y)
    """
    again = lambda x: settled(x, p, known)
    if isinstance(e, Map) and e.fn == "cast" and e.dtype.is_float:
        stored(e.dtype, p.name)  # a shorter type rounds, and what it rounds to is asked for
    if isinstance(e, Map) and e.fn == "cast" and e.dtype != BOOL and (e.dtype.is_float or is_kept(e.operands[0].dtype, e.dtype)):
        return again(e.operands[0])
    if isinstance(e, Map) and e.fn in CHOSEN and e.dtype.is_float:
        return again(CHOSEN[e.fn](e.operands[0]))
    if isinstance(e, Map) and e.fn == "where":
        condition, x, y = e.operands
        return _chosen(e, condition, again(x), again(y), p, known)
    if isinstance(e, Const) or not e.args:
        return e
    return e.with_args(tuple(again(a) for a in e.args))


def is_kept(a: DType, b: DType) -> bool:
    """Whether an integer's number is the same in another type."""
    return not a.is_float and widens(a, b) and is_short(a)


def _chosen(e: Map, c: Expr, x: Expr, y: Expr, p: TileProgram, known: Mapping[str, object]) -> Expr:
    """where(c, x, y) by comparisons alone."""
    if isinstance(c, Value) and isinstance(known.get(c.name), Expr):
        return _chosen(e, known[c.name], x, y, p, known)  # type: ignore[arg-type]
    if isinstance(c, Inside):
        left = [g for g in c.guard if not holds_inside(g, p)]
        for g in reversed(left):
            x = _chosen(e, Map(BOOL, "ge", (Index(I64, g), Index(I64, aff(0)))), x, y, p, known)
        return x
    if isinstance(c, Map) and c.fn in ("and", "or"):
        a, b = c.operands
        inner = _chosen(e, b, x, y, p, known)
        return _chosen(e, a, inner, y, p, known) if c.fn == "and" else _chosen(e, a, x, inner, p, known)
    if isinstance(c, Map) and c.fn == "not":
        return _chosen(e, c.operands[0], y, x, p, known)
    if isinstance(c, Map) and not any(isinstance(a, Index) for a in c.operands):
        c = c.with_args(tuple(settled(a, p, known) for a in c.operands))
    return e.with_args((c, x, y))


def difference(c: Expr) -> tuple[Aff, str] | None:
    """(d, comparison) where a condition says `d compared with 0` about indices; None for other conditions."""
    if isinstance(c, Map) and c.fn in COMPARISONS and all(isinstance(a, (Index, Const)) for a in c.operands):
        a, b = (x.index if isinstance(x, Index) else aff(int(x.value)) for x in c.operands)  # type: ignore[attr-defined]
        return a - b, COMPARISONS[c.fn]
    return None


def holds_inside(g: Aff, p: TileProgram) -> bool:
    """Whether a guard says no more than that an index is smaller than its axis' extent."""
    return any(g == aff(extent(p, a)) - 1 - a for a in g.names() if a in dict(p.axes))
