"""Numbers that torch computes from symbolic sizes: as dimensions, and as scalars that are computed when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.frontends.torch.guards import guarded, whole_quotient
from autocomp.ir.builder import Builder
from autocomp.ir.node import Node
from autocomp.ir.sizes import Linear, larger, linear, product, quotient, size_of, smaller, summed
from autocomp.ir.types import F64, I64, Dim, Sym

ROUNDED = ("TruncToInt", "FloorToInt", "CeilToInt")  # of a float
FOLDED = {"Add": "add", "Mul": "mul", "Max": "max", "Min": "min"}  # of any number of operands
PAIRS = {"FloorDiv": "floordiv", "CleanDiv": "floordiv", "Mod": "mod", "PythonMod": "mod", "IntTrueDiv": "div", "FloatTrueDiv": "div",
         "Pow": "pow", "PowByNatural": "pow", "FloatPow": "pow"}  # fmt: skip


def is_size(x: Any) -> bool:
    """A SymInt or a SymFloat."""
    return hasattr(x, "node") and hasattr(x.node, "expr")


def from_behind(x: Any) -> bool:
    """Whether a size is negative for all values of its symbols: 2 - n of a slice of n >= 16 elements."""
    expr = x.node.expr
    return bool(expr.is_negative or (not expr.is_nonnegative and x.node.shape_env.bound_sympy(expr).upper < 0))


class Sizes:
    """`symbol` gives the dimension of a symbol of torch's; `said`: an input that has a symbol which no other input has, None where there is
    none; `read`: numbers that are read from tensors, as scalars."""

    def __init__(self, b: Builder, symbol: Callable[[Any, Any], Dim], said: Callable[[Sym], Node] | None = None) -> None:
        self.b, self.symbol, self.said = b, symbol, said
        self.read: dict[Any, Node] = {}

    def dim(self, x: Any, where: str) -> Dim:
        """As a dimension. Raises UnsupportedOp where it is computed."""
        expr = guarded(x) if self.said is not None else x.node.expr  # what torch.compile asks of sizes is looked at in each call
        if expr.is_number:
            return int(expr)
        if expr.is_symbol:
            return self.symbol(expr, x)
        found = Sizes.factors(expr)
        if len(found) == 1:
            return size_of(self.linear(expr.expand(), x, where))
        return product(size_of(self.linear(f.expand(), x, where)) for f in found)

    @staticmethod
    def factors(expr: Any) -> list[Any]:
        """Of a product: those factors that are no numbers, the first times the number. torch multiplies products of sums out."""
        from sympy import preorder_traversal

        if len(expr.free_symbols) > 1 or type(expr).__name__ == "Mul" or any(e.is_Pow for e in preorder_traversal(expr)):
            expr = expr.factor()
        number, rest = expr.as_coeff_Mul()
        powers = lambda f: [f.base] * int(f.exp) if f.is_Pow and f.exp.is_Integer and f.exp > 0 else [f]
        parts = [g for f in (rest.args if rest.is_Mul else (rest,)) for g in powers(f)]
        return [parts[0] * number, *parts[1:]] if number.is_Integer and len(parts) > 1 else [expr]

    def linear(self, expr: Any, x: Any, where: str) -> Linear:
        """A sum of multiples of symbols, of their products and of quotients by numbers. Raises UnsupportedOp on others."""
        if expr.is_Integer:
            return {}, int(expr)
        if expr.is_symbol:
            return linear(self.symbol(expr, x))
        kind = type(expr).__name__
        if kind == "Add":
            return summed([(self.linear(e, x, where), 1) for e in expr.args])
        if kind in ("FloorDiv", "CleanDiv") and expr.args[1].is_Integer and expr.args[1] > 0:
            return quotient(self.linear(expr.args[0].expand(), x, where), int(expr.args[1]))
        if kind in ("FloorDiv", "CleanDiv") and (less := without_common(*expr.args)) is not None:
            return self.linear(less, x, where)
        if kind in ("FloorDiv", "CleanDiv") and (times := _times(*(self.linear(e.expand(), x, where) for e in expr.args))):
            return {}, times
        if kind in ("FloorDiv", "CleanDiv") and (whole := whole_quotient(*expr.args)) is not None:
            return self.linear(whole, x, where)
        if kind in ("FloorDiv", "CleanDiv") and (rounded := self._rounded(expr.args[0], expr.args[1], x)) is not None:
            return self.linear(rounded, x, where)
        if kind in ("Mod", "PythonMod") and expr.args[1].is_Integer and expr.args[1] > 0:
            of, by = self.linear(expr.args[0].expand(), x, where), int(expr.args[1])
            return summed([(of, 1), (quotient(of, by), -by)])
        if kind in ("Min", "Max"):
            return reduce(smaller if kind == "Min" else larger, (self.linear(e.expand(), x, where) for e in expr.args))
        if kind in ROUNDED and (scaled := _scaled(expr.args[0])) is not None and (scaled[1] > 0 or kind != "TruncToInt"):
            size, above, below = scaled
            up = -1 if kind == "CeilToInt" else 1
            return summed([(quotient(summed([(self.linear(size.expand(), x, where), above * up)]), below), up)])
        number, rest = expr.as_coeff_Mul()
        if number.is_Integer and number != 1:
            return summed([(self.linear(rest, x, where), int(number))])
        if len(found := Sizes.factors(expr)) > 1:
            return linear(product(size_of(self.linear(f.expand(), x, where)) for f in found))
        raise UnsupportedOp(f"the size {expr} is computed from symbols", where=where,
                            hint="sizes are sums of multiples of symbols and products, and sums divided by numbers")  # fmt: skip

    def _rounded(self, of: Any, by: Any, x: Any) -> Any:
        """The quotient by a symbol and a number of a multiple of them and a number that is less: h for `(h*w + w - 1) // w`, n for
        `(n**2 + 2*n) // (n + 1)`, the places of a diagonal in a row. None on others."""
        from sympy import Function, div

        more, s = by.as_coeff_Add()
        if not s.is_symbol or not more.is_Integer or of.atoms(Function) or not isinstance(d := self.symbol(s, x), Sym):
            return None
        whole, rest = div(of, by, s)
        least = d.lo + int(more)
        return (whole if rest >= 0 else whole - 1) if rest.is_Integer and -least <= rest < least else None

    def scalar(self, x: Any, where: str) -> Node:
        """As a scalar of i64, or f64 where torch has a float. Raises UnsupportedOp on what is no sum, product, quotient of sizes."""

        def of(e: Any) -> Node:
            kind = type(e).__name__
            if e.is_number:
                return self.b.const(int(e), I64) if e.is_integer else self.b.const(float(e), F64)
            if e in self.read:
                return cast(self.read[e], I64 if self.read[e].type.dtype.is_int else F64)
            if e.is_symbol:
                return self.extent(self.symbol(e, x), where)
            if kind in FOLDED or kind in PAIRS:
                op, parts = FOLDED.get(kind) or PAIRS[kind], [of(a) for a in e.args]
                real = op == "div" or any(p.type.dtype == F64 for p in parts)
                total, *rest = (cast(p, F64) for p in parts) if real else parts
                for p in rest:
                    total = self.b.op(op, total, p)
                return total
            if kind == "ToFloat":
                return cast(of(e.args[0]), F64)
            raise UnsupportedOp(f"the number {expr} is computed from symbolic sizes", where=where, hint="fix the dimension")

        def cast(n: Node, to: Any) -> Node:
            return n if n.type.dtype == to else self.b.op("cast", n, to=to.name)

        expr = x.node.expr
        return of(expr)

    def extent(self, d: Dim, where: str) -> Node:
        if isinstance(d, int):
            return self.b.const(d, I64)
        axes = [(n, k, s) for n in self.b.inputs for k, s in enumerate(n.type.shape)]
        found = next(((n, k) for n, k, s in axes if s == d), None)
        if found is None and (of := next(((n, k, line) for n, k, s in axes if (line := _line(d, s))), None)):
            n, k, (times, more, by) = of
            size = self.b.op("sub", self.b.op("extent", n, axis=k, dtype=I64.name), self.b.const(more, I64))
            return self.b.op("floordiv", self.b.op("mul", size, self.b.const(times, I64)), self.b.const(by, I64))
        if found is None and self.said is not None:
            found = self.said(d), 0
        if found is None:
            raise UnsupportedOp(f"'{d}' is the size of no input", where=where, hint="fix numbers that are arguments: they are no tensors")
        return self.b.op("extent", found[0], axis=found[1], dtype=I64.name)


def _line(d: Sym, size: Dim) -> tuple[int, int, int] | None:
    """(a, n, b) such that `d` is a times what a size has more than n, over b: of s and `4*s + 3` (1, 3, 4). None where it is none."""
    (mine, zero), (parts, more) = linear(d), linear(size)
    s = next(iter(mine))
    return (mine[s], more, parts[s]) if len(mine) == 1 and not zero and [*parts] == [s] and parts[s] > 0 else None


def without_common(of: Any, by: Any) -> Any:
    """A quotient without the factors that both sides have: s // 2 for `s**2 // (2*s)`. None where they have none."""
    from sympy import Poly, cancel, fraction, together
    from torch.utils._sympy.functions import FloorDiv

    if not (of.is_polynomial() and by.is_polynomial() and by.free_symbols):
        return None
    above, below = fraction(together(cancel(of / by)))
    whole = all(c.is_Integer for e in (above, below) if e.free_symbols for c in Poly(e).coeffs())
    return FloorDiv(above, below) if whole and below.is_Integer and below > 0 else None


def _times(of: Linear, by: Linear) -> int:
    """How many times a sum is another: 4 for `4*s + 4` and `s + 1`. 0 where it is no whole multiple."""
    (parts, offset), (others, other) = of, by
    s = next(iter(others), None)
    k = parts.get(s, 0) // others[s] if s is not None else 0
    return k if (parts, offset) == ({s: n * k for s, n in others.items()}, other * k) else 0


def _scaled(expr: Any) -> tuple[Any, int, int] | None:
    """(size, a, b > 0) of a float a/b times a size, as torch has it of factors and of steps; None on others. Of a product b is a power of
    two, so that it is exact; a size that is divided by a whole number is whole as a float where it is whole."""
    kind = type(expr).__name__
    if kind == "ToFloat":
        return expr.args[0], 1, 1
    if kind not in ("Mul", "FloatTrueDiv") or len(expr.args) != 2:
        return None
    number = next((float(e) for e in (expr.args if kind == "Mul" else expr.args[1:]) if e.is_number), 0.0)
    of = next((e.args[0] for e in (expr.args if kind == "Mul" else expr.args[:1]) if type(e).__name__ == "ToFloat"), None)
    above, below = number.as_integer_ratio()
    if kind == "FloatTrueDiv":
        above, below = (below, above) if above > 0 else (-below, -above)
    return (of, above, below) if of is not None and 0 < abs(above) < 2**20 and 0 < below < 2**20 else None


def is_dimension(kind: object) -> bool:
    """Whether an argument of this type of ATen's schema is a size, or a list of sizes; others are numbers to compute with."""
    return "int" in str(kind).lower()

