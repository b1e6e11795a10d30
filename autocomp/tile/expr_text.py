"""Text of map expressions and of index expressions: printed infix, parsed back to the same objects.

A literal takes its type from its neighbours (x * 2.0) or from the destination; where neither says, a suffix does (2.0f32).

    idx(2*j + 1, i64)      the value of an index expression        idx(j) < 4096    j is inside its extent
    inside(h - 1, 8 - h)   every expression is >= 0                in0{a, b}        gather: element at computed indices
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from autocomp.errors import ModelError
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Const, Expr, Gather, Index, Inside, Map
from autocomp.ir.scalar import SCALAR, result_dtype
from autocomp.ir.types import BOOL, DTYPES, DType
from autocomp.tile.program import Value

MOST = 1 << 62
INFIX = {"add": ("+", 2), "sub": ("-", 2), "mul": ("*", 3), "div": ("/", 3),
         "lt": ("<", 1), "le": ("<=", 1), "gt": (">", 1), "ge": (">=", 1), "eq": ("==", 1), "ne": ("!=", 1)}
_BY_SIGN = {sign: (name, level) for name, (sign, level) in INFIX.items()}
_SUFFIX = "|".join(sorted(DTYPES, key=len, reverse=True))
_TOKEN = re.compile(rf"\s*(?:(?P<num>\d+\.?\d*(?:e[+-]?\d+)?(?P<type>{_SUFFIX})?(?![\w.]))"
                    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign><=|>=|==|!=|\+=|->|[-+*/<>=(){}\[\],:]))")


# ---------------------------------------------------------------- printing
def show_aff(a: Aff) -> str:
    """An index expression; what `parse` reads back."""
    return str(a).replace(" + -", " - ")


def _typed(e: Expr) -> DType | None:
    """The dtype that the text of `e` shows by itself (None: literals only)."""
    if isinstance(e, Const):
        return BOOL if e.dtype == BOOL else None
    if isinstance(e, Map) and e.fn != "cast" and SCALAR[e.fn].result == "same":
        return next((t for o in _alike(e) if (t := _typed(o)) is not None), None)
    return e.dtype


def _alike(e: Map) -> tuple[Expr, ...]:
    """Operands that share one dtype."""
    return e.operands[1:] if e.fn == "where" else e.operands


def _literal(e: Const, expected: DType | None) -> str:
    if e.dtype == BOOL:
        return "true" if e.value else "false"
    v = float(e.value) if e.dtype.is_float else int(e.value)
    text = {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(repr(v), repr(v))
    if expected is not None:
        return text
    return f"cast({e.dtype}, {text})" if not math.isfinite(v) else f"{text}{e.dtype}"


def show_expr(e: Expr, expected: DType | None = None, level: int = 0) -> str:
    """Infix text of a map's expression; `expected` is the destination's dtype."""
    if isinstance(e, Value):
        return e.name
    if isinstance(e, Const):
        return _literal(e, expected)
    if isinstance(e, Index):
        return f"idx({show_aff(e.index)}, {e.dtype})"
    if isinstance(e, Inside):
        return _show_inside(e, level)
    if isinstance(e, Gather):
        return f"{e.tensor}{{{', '.join(show_expr(i) for i in e.index)}}}"
    assert isinstance(e, Map), type(e)
    if e.fn == "cast":
        return f"cast({e.dtype}, {show_expr(e.operands[0])})"
    seen = next((t for o in _alike(e) if (t := _typed(o)) is not None), None)
    if seen is None and SCALAR[e.fn].result == "same":
        seen = expected
    wanted: list[DType | None] = [seen] * len(e.operands)
    if e.fn == "where":
        wanted[0] = BOOL
    if e.fn in INFIX:
        sign, mine = INFIX[e.fn]
        left, right = (show_expr(o, w, mine + k) for k, (o, w) in enumerate(zip(e.operands, wanted)))
        text = f"{left} {sign} {right}"
        return f"({text})" if mine < level else text
    return f"{e.fn}({', '.join(show_expr(o, w) for o, w in zip(e.operands, wanted))})"


def _show_inside(e: Inside, level: int) -> str:
    """`idx(j) < E` for the guard E - 1 - j, which masks of tails are; otherwise the list of guards."""
    if len(e.guard) == 1:
        g = e.guard[0]
        minus = [a for a, c in g.terms if c == -1 and isinstance(a, str)]
        rest = [(a, c) for a, c in g.terms if c != -1]
        symbol = len(rest) == 1 and rest[0][1] == 1 and isinstance(rest[0][0], str) and g.const == -1
        if len(minus) == 1 and len(g.terms) == len(rest) + 1 and (symbol or not rest):
            bound = rest[0][0] if rest else str(g.const + 1)
            return f"(idx({minus[0]}) < {bound})" if level > 1 else f"idx({minus[0]}) < {bound}"
    return f"inside({', '.join(show_aff(g) for g in e.guard)})"


# ---------------------------------------------------------------- parsing
class Reader:
    """Tokens of one line. Raises ModelError with the line and the column."""

    def __init__(self, text: str, where: str = "tile program") -> None:
        self.text, self.where, self.at = text, where, 0
        self.tokens: list[tuple[str, str, int]] = []
        pos = 0
        while pos < len(text.rstrip()):
            m = _TOKEN.match(text, pos)
            if not m:
                raise ModelError(f"unexpected {text[pos:].strip()[:1]!r}", where=f"{where}:{pos + 1}")
            kind = m.lastgroup if m.lastgroup != "type" else "num"
            self.tokens.append((kind or "num", m.group().strip(), m.end() - len(m.group().lstrip())))
            pos = m.end()

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        t = self.peek()
        if not t:
            self.fail("a token is missing")
        self.at += 1
        return t

    def take(self, text: str) -> bool:
        if self.peek() == text:
            self.at += 1
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            self.fail(f"expected {text!r}, found {self.peek() or 'the end'!r}")

    def fail(self, what: str) -> None:
        column = self.tokens[self.at][2] + 1 if self.at < len(self.tokens) else len(self.text) + 1
        raise ModelError(what, where=f"{self.where}:{column}", hint="the grammar stands in autocomp/tile/program.py")

    def items(self, close: str, one: Callable[[], object]) -> list:
        """one, one, ... up to `close`, which is consumed."""
        out: list = []
        while not self.take(close):
            if out:
                self.need(",")
            out.append(one())
        return out

    def dtype(self) -> DType:
        if self.peek() not in DTYPES:
            near = get_close_matches(self.peek(), DTYPES, 1)
            self.fail(f"expected a dtype, found {self.peek() or 'the end'!r}" + (f"; did you mean '{near[0]}'?" if near else ""))
        return DTYPES[self.next()]

    def whole(self) -> int:
        """A whole number of one or more."""
        if not self.peek().isdecimal() or not 0 < int(self.peek()) <= MOST:
            self.fail(f"expected a whole number of 1 or more, found {self.peek() or 'the end'!r}")
        return int(self.next())

    # ---- index expressions
    def aff(self) -> Aff:
        sign = -1 if self.take("-") else 1  # before the term is read
        out = self.term() * sign
        while self.peek() in ("+", "-"):
            sign = -1 if self.next() == "-" else 1
            sign *= -1 if self.take("-") else 1
            out = out + self.term() * sign
        return out

    def term(self) -> Aff:
        if self.kind() == "num":
            n = self.whole() if self.peek() != "0" else int(self.next())
            return self.atom() * n if self.take("*") else aff(n)
        if self.take("-"):
            return -self.term()
        return self.atom()

    def atom(self) -> Aff:
        if self.take("floor"):
            self.need("(")
            self.need("(")
            num = self.aff()
            self.need(")")
            self.need("/")
            den = self.whole()
            self.need(")")
            return num // den
        if self.take("("):
            inner = self.aff()
            if self.take(")"):
                if self.take("mod"):
                    inner = inner % self.whole()
                else:
                    return inner
                self.need(")")
                return inner
            self.need(")")
        if self.kind() != "name":
            self.fail(f"expected an axis, found {self.peek() or 'the end'!r}")
        return aff(self.next())


class ExprReader(Reader):
    """`dtypes`: of values and of gathered tensors, by name."""

    def __init__(self, text: str, values: dict[str, DType], tensors: dict[str, DType], where: str = "tile program") -> None:
        super().__init__(text, where)
        self.values, self.tensors = values, tensors

    def parse(self, expected: DType) -> Expr:
        tree = self.comparison()
        if self.peek():
            self.fail(f"unexpected {self.peek()!r}")
        return self.build(tree, expected)

    # An untyped tree: ("lit", text, suffix) | ("leaf", Expr) | (function, [trees]) | ("cast", dtype, tree) | ("gather", ..)
    def comparison(self) -> tuple:
        left = self.binary(2)
        if self.peek() in _BY_SIGN and _BY_SIGN[self.peek()][1] == 1:
            fn = _BY_SIGN[self.next()][0]
            if left[0] == "bare":
                return ("leaf", Inside.of((self.aff() - 1 - left[1],)))
            return (fn, [left, self.binary(2)])
        return left

    def binary(self, level: int) -> tuple:
        if level > 3:
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _BY_SIGN and _BY_SIGN[self.peek()][1] == level:
            fn = _BY_SIGN[self.next()][0]
            left = (fn, [left, self.binary(level + 1)])
        return left

    def unary(self) -> tuple:
        if self.take("-"):
            inner = self.unary()
            if inner[0] != "lit" or inner[1].startswith("-"):
                self.fail("a minus sign stands before literals only; write neg(x)")
            return ("lit", "-" + inner[1], inner[2])
        if self.kind() == "num":
            m = re.fullmatch(rf"(.*?)({_SUFFIX})?", self.next())
            assert m
            return ("lit", m[1], m[2] or "")
        if self.take("("):
            inner = self.comparison()
            self.need(")")
            return inner
        name = self.next()
        if name in ("inf", "nan"):
            return ("lit", name, "")
        if name in ("true", "false"):
            return ("leaf", Const(BOOL, name == "true"))
        if name in self.values:
            return ("leaf", Value(self.values[name], name))
        if name in self.tensors and self.take("{"):
            return ("gather", name, self.items("}", self.comparison))
        if not self.take("("):
            self.at -= 1
            self.fail(f"unknown value {name!r}")
        return self.call(name)

    def call(self, name: str) -> tuple:
        if name == "idx":
            index = self.aff()
            if self.take(")"):
                return ("bare", index)
            self.need(",")
            dtype = self.dtype()
            self.need(")")
            return ("leaf", Index(dtype, index))
        if name == "inside":
            return ("leaf", Inside.of(tuple(self.items(")", self.aff))))
        if name == "cast":
            dtype = self.dtype()
            self.need(",")
            inner = self.comparison()
            self.need(")")
            return ("cast", dtype, inner)
        if name not in SCALAR:
            self.at -= 2  # where its name stands
            self.fail(f"unknown function {name!r}")
        return (name, self.items(")", self.comparison))

    def typed(self, t: tuple) -> DType | None:
        if t[0] == "lit":
            return DTYPES[t[2]] if t[2] else None
        if t[0] == "leaf":
            return t[1].dtype
        if t[0] == "cast":
            return t[1]
        if t[0] == "bare":
            raise ModelError("idx(axis) without a dtype stands only left of '<'", where=f"{self.where}:1")
        if t[0] == "gather":
            return self.tensors[t[1]]
        if SCALAR[t[0]].result == "bool":
            return BOOL
        return self.first_type(t[0], t[1])

    def first_type(self, fn: str, operands: Sequence[tuple]) -> DType | None:
        return next((d for o in (operands[1:] if fn == "where" else operands) if (d := self.typed(o)) is not None), None)

    def build(self, t: tuple, expected: DType | None) -> Expr:
        if t[0] == "leaf":
            return t[1]
        if t[0] == "lit":
            dtype = DTYPES[t[2]] if t[2] else expected
            if dtype is None:
                raise ModelError(f"literal {t[1]} has no type", where=f"{self.where}:1", hint=f"write {t[1]}f32")
            if not dtype.is_float and not t[1].lstrip("-").isdecimal():
                raise ModelError(f"{t[1]} is no {dtype}", where=f"{self.where}:1", hint="write a whole number, or cast")
            return Const(dtype, float(t[1]) if dtype.is_float else int(t[1]))
        if t[0] == "cast":
            if t[2][0] == "lit" and t[2][1].lstrip("-") in ("inf", "nan") and not t[2][2]:
                return Const(t[1], float(t[2][1]))
            return Map(t[1], "cast", (self.build(t[2], None),))
        if t[0] == "gather":
            return Gather(self.tensors[t[1]], t[1], tuple(self.build(i, None) for i in t[2]))
        if t[0] == "bare":
            raise ModelError("idx(axis) without a dtype stands only left of '<'", where=f"{self.where}:1")
        fn, operands = t
        seen = self.first_type(fn, operands) or (expected if SCALAR[fn].result == "same" else None)
        args = tuple(self.build(o, BOOL if fn == "where" and k == 0 else seen) for k, o in enumerate(operands))
        try:
            return Map(result_dtype(fn, [a.dtype for a in args]), fn, args)
        except TypeError as e:
            raise ModelError(str(e), where=f"{self.where}:1") from e
