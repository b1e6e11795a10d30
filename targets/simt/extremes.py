"""Which values on chip may lie where cheaper arithmetic fails: near a float's largest numbers, or below its normal ones."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, log2

from autocomp.ir.body import Const, Expr, Gather, Map
from autocomp.ir.types import BF16, F32, F64
from autocomp.tile.program import Stmt, TileProgram, Value, walk

BOUNDED = {"exp", "exp2", "sigmoid", "tanh", "erf", "sin", "cos", "tan", "atan", "sign", "log", "log2", "log1p"}
WIDE = (BF16, F32, F64)
FAR = 120  # log2 of a magnitude that no product or sum of ordinary numbers has; f16 ends at 16


def extreme(x: float) -> bool:
    """Whether a constant is such a number (the least float of a mask)."""
    return isfinite(x) and x != 0 and abs(log2(abs(x))) > FAR


def extremes(p: TileProgram) -> frozenset[str]:
    """Values that maps make of tensors whose type has such numbers, or of such constants. What a product sums is not among them, nor an
    exponential: they would overflow."""
    found: set[str] = set()
    statements = [s for s, _ in walk(p.body)]
    while new := {s.dst for s in statements if s.dst not in found and _makes(p, s, found)}:
        found |= new
    return frozenset(found)


def _makes(p: TileProgram, s: Stmt, known: set[str]) -> bool:
    if s.op == "copy":
        t = p.tensor(s.srcs[0])
        return s.srcs[0] in known if t is None else t.dtype in WIDE or extreme(t.fill)
    if s.op == "map":
        assert isinstance(s.expr, Expr)
        return reaches(s.expr, known.__contains__)
    return s.op == "reduce" and s.srcs[0] in known


def reaches(e: Expr, known: Callable[[str], bool]) -> bool:
    """Whether an expression may have such a value, as its operands may (`known`, of an operand's name)."""
    if isinstance(e, Const):
        return e.dtype.is_float and extreme(float(e.value))
    if isinstance(e, Value):
        return known(e.name)
    if isinstance(e, Gather):
        return e.dtype in WIDE
    return isinstance(e, Map) and e.fn not in BOUNDED and e.dtype.is_float and any(reaches(a, known) for a in e.args)
