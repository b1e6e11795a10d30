"""What is zero past the end of a reduced axis, where a tile sticks out: loads bring zeros there, and some maps of them keep that.

    w[r, j] * s[r, j]      zero where both loads are          (q[r, j] - 8) * s[r, j]      zero too: a finite number times zero
"""

from __future__ import annotations

from math import isfinite

from autocomp.ir.body import Const, Expr, Index, Inside, Load, Map

KEEPS = {"cast", "as_stored", "neg", "abs", "relu"}  # f(0) = 0
BOUNDED = KEEPS | {"add", "sub", "mul", "max", "min", "where", "bitand", "bitor", "shr", "shl"}  # finite for finite operands


def vanishes(e: Expr, tails: frozenset[str]) -> bool:
    """Whether a value is exactly zero where any of the axes `tails` is past its end."""
    if isinstance(e, Load):
        return tails <= _follows(e) and not (e.guard and e.fill)
    if isinstance(e, Const):
        return e.value == 0
    if not isinstance(e, Map):
        return False
    if e.fn in KEEPS or e.fn in ("shr", "shl"):
        return vanishes(e.operands[0], tails)
    if e.fn in ("add", "sub"):
        return all(vanishes(x, tails) for x in e.operands)
    if e.fn == "where":
        return all(vanishes(x, tails) for x in e.operands[1:])
    if e.fn in ("mul", "bitand"):
        first, second = e.operands
        return any(vanishes(x, tails) and _finite(y, tails) for x, y in ((first, second), (second, first)))
    return False


def _finite(e: Expr, tails: frozenset[str]) -> bool:
    """Whether a value is a finite number there, whatever memory holds: of loads, those that are zero or of integers."""
    if isinstance(e, Load):
        return not e.dtype.is_float or vanishes(e, tails)
    if isinstance(e, Const):
        return isfinite(e.value)
    if isinstance(e, Map):
        return e.fn in BOUNDED and all(_finite(x, tails) for x in e.operands)
    return isinstance(e, (Index, Inside))


def _follows(e: Load) -> frozenset[str]:
    return frozenset().union(*(i.names() for i in e.index))
