"""The `where` language: small, total, and nothing in it is Python.

    expr  ::= and ('or' and)*          and ::= not ('and' not)*         not ::= 'not' not | cmp
    cmp   ::= sum (('=='|'!='|'<'|'<='|'>'|'>='|'in'|'not' 'in') sum)?
    sum   ::= term (('+'|'-') term)*   term ::= unary (('*'|'/'|'//'|'%') unary)*   unary ::= '-' unary | post
    post  ::= atom ('[' expr ']' | '[' expr? ':' expr? ']')*
    atom  ::= number | inf | string | true | false | ?var | name | name '(' args ')' | '[' args ']' | '(' expr ')'

There is no recursion, no assignment and no attribute access; every function comes from the vocabulary of the rule's
phase. A question that cannot be answered (a symbolic dimension in arithmetic, an index out of range) is a refusal
with its reason, never an exception that reaches the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from autocomp.rewrite.location import Text

if TYPE_CHECKING:
    from autocomp.rewrite.vocabulary import Function

MAX_LENGTH = 4000
MAX_DEPTH = 40
OPERATORS = frozenset(("or", "and", "not", "in"))  # words that are no values
CLOSING = frozenset((",", ")", "]", ":", "end of text"))  # what stands behind an expression
MAX_LEVELS = 100  # of a tree: `a and b and ..` is one level an operator
TOKEN = re.compile(r"""\s*(?:
    (?P<number>\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+)
  | (?P<string>'[^']*'|"[^"]*")
  | (?P<var>\?[A-Za-z_]\w*(?:\.\.\.)?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op>==|!=|<=|>=|//|[-+*/%<>()\[\],:=])
)""", re.X)


class Token(NamedTuple):
    kind: str
    value: str
    at: int


def tokens(text: Text) -> list[Token]:
    """All tokens and an `end` one. Raises RuleError at the first character that starts none."""
    s, out, pos = text.value, [], 0
    if len(s) > MAX_LENGTH:
        raise text.error(f"{len(s)} characters in one expression, at most {MAX_LENGTH} are read", 0)
    end = len(s.rstrip())
    while pos < end:
        m = TOKEN.match(s, pos)
        if not m:
            at = pos + len(s[pos:]) - len(s[pos:].lstrip())
            raise text.error(f"unexpected character '{s[at]}'", at)
        kind = str(m.lastgroup)
        out.append(Token(kind, m.group(kind), m.start(kind)))
        pos = m.end()
    return [*out, Token("end", "end of text", len(s))]


# ---- the tree -----------------------------------------------------------------------------------------------------
class _Node:
    """What `where.py` compiles of an expression stands beside its fields, and stays in its process."""

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_run"}


@dataclass(frozen=True)
class Lit(_Node):
    value: Any
    at: int = 0

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return f"'{self.value}'"
        return str(self.value).lower() if isinstance(self.value, bool) else str(self.value)


@dataclass(frozen=True)
class Ref(_Node):
    """?name, or ?name... for a list of operands."""

    name: str
    rest: bool = False
    at: int = 0

    def __str__(self) -> str:
        return f"?{self.name}{'...' if self.rest else ''}"


@dataclass(frozen=True)
class Word(_Node):
    """A bare word of the vocabulary (a kind, a dtype, an option's name); its value is its own text."""

    name: str
    at: int = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call(_Node):
    name: str
    args: tuple[Expr, ...]
    at: int = 0

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class Items(_Node):
    items: tuple[Expr, ...]
    at: int = 0

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True)
class Part(_Node):
    """base[index], or base[low:high] with None for an open end."""

    base: Expr
    low: Expr | None
    high: Expr | None = None
    slice: bool = False
    at: int = 0

    def __str__(self) -> str:
        low, high = ("" if e is None else str(e) for e in (self.low, self.high))
        return f"{_grouped(self.base, 9)}[{low}:{high}]" if self.slice else f"{_grouped(self.base, 9)}[{low}]"


@dataclass(frozen=True)
class Op(_Node):
    """A unary (`-`, `not`) or binary operator."""

    op: str
    args: tuple[Expr, ...]
    at: int = 0

    def __str__(self) -> str:
        p = PRECEDENCE[self.op]
        if len(self.args) == 1:
            return f"{self.op}{' ' if self.op == 'not' else ''}{_grouped(self.args[0], p)}"
        return f"{_grouped(self.args[0], p)} {self.op} {_grouped(self.args[1], p + 1)}"


Expr = Lit | Ref | Word | Call | Items | Part | Op
PRECEDENCE = {"or": 1, "and": 2, "not": 3, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "in": 4, "not in": 4,
              "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6}
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in"}


def _grouped(e: Expr, p: int) -> str:
    return f"({e})" if isinstance(e, Op) and PRECEDENCE[e.op] < p else str(e)


def below(e: Expr) -> tuple[Expr, ...]:
    """What an expression is made of."""
    if isinstance(e, (Call, Op)):
        return e.args
    if isinstance(e, Items):
        return e.items
    return tuple(x for x in (e.base, e.low, e.high) if x is not None) if isinstance(e, Part) else ()


def walk(e: Expr) -> Iterator[Expr]:
    """The expression and everything below it."""
    yield e
    for b in below(e):
        yield from walk(b)


def negate(e: Expr) -> Expr:
    """not e, with the negation pushed down to the comparisons."""
    if isinstance(e, Op):
        if e.op == "not":
            return e.args[0]
        if e.op in OPPOSITE:
            return Op(OPPOSITE[e.op], e.args, e.at)
        if e.op in ("and", "or"):
            return Op("or" if e.op == "and" else "and", tuple(map(negate, e.args)), e.at)
    if isinstance(e, Lit) and isinstance(e.value, bool):
        return Lit(not e.value, e.at)
    return Op("not", (e,), e.at)


# ---- parsing ------------------------------------------------------------------------------------------------------
class Parser:
    """Recursive descent over the tokens of one text; `pattern.py` shares it."""

    def __init__(self, text: Text) -> None:
        self.text, self.tokens, self.i, self.depth = text, tokens(text), 0, 0

    @property
    def now(self) -> Token:
        return self.tokens[self.i]

    def take(self, *values: str) -> Token | None:
        """The token, if it is an operator or word of one of these texts."""
        t = self.tokens[self.i]
        if t.value in values and t.kind in ("op", "name"):
            self.i += 1
            return t
        return None

    def need(self, value: str) -> Token:
        t = self.take(value)
        if not t:
            raise self.text.error(f"expected '{value}', found '{self.now.value}'", self.now.at)
        return t

    def end(self, e: Expr | None = None) -> None:
        """The text ends here. `e`: what was read, which is not too deep for what goes through it."""
        stack = [(e, 1)] if e is not None else []
        while stack:
            x, level = stack.pop()
            if level > MAX_LEVELS:
                raise self.text.error(f"more than {MAX_LEVELS} operators one within the other", 0, "write several shorter conditions")
            stack += [(b, level + 1) for b in below(x)]
        if self.now.kind != "end":
            raise self.text.error(f"unexpected '{self.now.value}' after a complete expression", self.now.at)

    def expr(self) -> Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.text.error(f"nested deeper than {MAX_DEPTH}", self.now.at)
        if self.now.kind not in ("op", "end") and self.now.value not in OPERATORS:  # most are one value
            behind = self.tokens[self.i + 1]
            if behind.value in CLOSING and behind.kind in ("op", "end"):
                self.depth -= 1
                return self.atom()
        e = self.conjunction()
        while t := self.take("or"):
            e = Op("or", (e, self.conjunction()), t.at)
        self.depth -= 1
        return e

    def conjunction(self) -> Expr:
        e = self.negation()
        while t := self.take("and"):
            e = Op("and", (e, self.negation()), t.at)
        return e

    def negation(self) -> Expr:
        nots = []
        while t := self.take("not"):
            nots.append(t.at)
        e = self.comparison()
        for at in reversed(nots):
            e = Op("not", (e,), at)
        return e

    def comparison(self) -> Expr:
        e = self.binary(("+", "-"), lambda: self.binary(("*", "/", "//", "%"), self.unary))
        if t := self.take("==", "!=", "<", "<=", ">", ">=", "in"):
            return Op(t.value, (e, self.binary(("+", "-"), lambda: self.binary(("*", "/", "//", "%"), self.unary))), t.at)
        if self.now.value == "not" and self.tokens[self.i + 1].value == "in":
            at = self.now.at
            self.i += 2
            return Op("not in", (e, self.binary(("+", "-"), lambda: self.binary(("*", "/", "//", "%"), self.unary))), at)
        return e

    def binary(self, ops: tuple[str, ...], term: Callable[[], Expr]) -> Expr:
        e = term()
        while t := self.take(*ops):
            e = Op(t.value, (e, term()), t.at)
        return e

    def unary(self) -> Expr:
        minus = []
        while t := self.take("-"):
            minus.append(t.at)
        e = self.postfix()
        for at in reversed(minus):
            e = Lit(-e.value, at) if isinstance(e, Lit) and not isinstance(e.value, (bool, str)) else Op("-", (e,), at)
        return e

    def postfix(self) -> Expr:
        e = self.atom()
        while t := self.take("["):
            low = None if self.now.value == ":" else self.expr()
            if self.take(":"):
                high = None if self.now.value == "]" else self.expr()
                e = Part(e, low, high, True, t.at)
            else:
                e = Part(e, low, None, False, t.at)
            self.need("]")
        return e

    def listing(self, close: str) -> tuple[Expr, ...]:
        out: list[Expr] = []
        while not self.take(close):
            if out:
                self.need(",")
            out.append(self.expr())
        return tuple(out)

    def atom(self) -> Expr:
        t = self.now
        self.i += 1
        if t.kind == "number":
            return Lit(float(t.value) if re.search(r"[.eE]", t.value) else int(t.value), t.at)
        if t.kind == "string":
            return Lit(t.value[1:-1], t.at)
        if t.kind == "var":
            return Ref(t.value[1:].removesuffix("..."), t.value.endswith("..."), t.at)
        if t.kind == "name" and t.value in ("true", "false"):
            return Lit(t.value == "true", t.at)
        if t.kind == "name" and t.value == "inf":
            return Lit(inf, t.at)
        if t.kind == "name":
            return Call(t.value, self.listing(")"), t.at) if self.take("(") else Word(t.value, t.at)
        if t.value == "[":
            return Items(self.listing("]"), t.at)
        if t.value == "(":
            e = self.expr()
            self.need(")")
            return e
        raise self.text.error(f"expected a value, found '{t.value}'", t.at)


def parse_expr(text: Text) -> Expr:
    """The expression. Raises RuleError at file:line:column."""
    p = Parser(text)
    e = p.expr()
    p.end(e)
    return e


def check_names(e: Expr, text: Text, variables: frozenset[str], functions: Mapping[str, Function],
                words: frozenset[str], phase: str) -> None:
    """Raises RuleError on an unbound variable, an unknown function or word, or a wrong number of arguments."""
    asked = {id(a): f.words for x in walk(e) if isinstance(x, Call) and (f := functions.get(x.name)) and f.words for a in x.args[:1]}
    for x in walk(e):
        if isinstance(x, Ref) and x.name not in variables:
            raise text.error(f"?{x.name} is not bound by the pattern", x.at, bound_are(variables))
        if isinstance(x, Word) and x.name not in words:
            step = f"a variable has a question mark: ?{x.name}" if x.name in variables else nearest(x.name, asked.get(id(x), words), phase)
            raise text.error(f"unknown word '{x.name}'", x.at, step)
        if isinstance(x, Call):
            if x.name not in functions:
                raise text.error(f"unknown function '{x.name}'", x.at, nearest(x.name, functions, phase))
            low, high = functions[x.name].least, functions[x.name].most
            if not low <= len(x.args) <= high:
                wants = str(low) if low == high else f"{low} to {high}" if high < 4096 else f"at least {low}"
                raise text.error(f"{x.name} takes {wants} arguments, got {len(x.args)}", x.at)


def bound_are(variables: frozenset[str]) -> str:
    """A next step for a variable that is not bound."""
    return f"bound are {', '.join('?' + v for v in sorted(variables)) or 'none'}"


def nearest(name: str, known: Mapping[str, Any] | frozenset[str], phase: str) -> str:
    """A next step for a name that is not known: the one most like it, all of them where they are few, or what lists those of the phase."""
    listed = f"known are {', '.join(sorted(known))}" if len(known) <= 40 else f"`autocomp rules words {phase}` lists them"
    return meant(name, known) or listed


def meant(name: str, known: Iterable[str]) -> str:
    """A question for the name that is most like one which is not known, "" where none is."""
    near = get_close_matches(name, sorted(known), 1, 0.6)
    return f"did you mean '{near[0]}'?" if near else ""
