"""Conditions of tiling and scheduling rules as egglog primitives over whole numbers, where egglog can state them.

    ?bm * ?bn <= 128 * ?t   ->   (bool-<= (* bm bn) (* 128 t))

What mentions no variable is a number before egglog sees it, or one that it looks up for each kernel. What egglog cannot state (a word,
a division that may be by zero, numbers past 63 bits) is answered in Python and handed over as a table; `Condition.text` is then "".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autocomp.egraph.room import Need
from autocomp.rewrite.expr import Call, Expr, Op, Ref, Word, below, walk
from autocomp.rewrite.where import Env, Unanswerable, asks_isl, evaluate, holds

LIMIT = 2**62
COMPARE = {"==": "bool-=", "<": "bool-<", "<=": "bool-<=", ">": "bool->", ">=": "bool->="}
ARITHMETIC = {"+": "+", "-": "-", "*": "*", "//": "/", "%": "%"}


class Unstated(Exception):
    """egglog has no words for it."""


@dataclass(frozen=True)
class Number:
    """An egglog expression over i64 with the interval that its value lies in; `truth`: 1 where something holds, else 0."""

    text: str
    low: int
    high: int
    truth: bool = False


Variables = Mapping[str, Number | None]  # None: a word, which only Python can speak of
Known = Callable[[Expr], Number | bool | None]  # what mentions no variable; None: neither a whole number nor a truth


@dataclass(frozen=True)
class Condition:
    """One `where` condition: the boolean expression that egglog decides ("" if it cannot), and the variables it mentions. `need`: what of
    a block it compares, where it is one of `fits(tile)`."""

    expr: Expr
    text: str
    variables: tuple[str, ...]
    need: Need | None = None

    def why_not(self, env: Env) -> str:
        """Why it fails for these values, "" if it holds."""
        answer = holds((self.expr,), env)
        if answer or self.need is None:
            return answer.reason
        try:
            needed, available = (evaluate(x, env) for x in (self.need.needed, self.need.available))
        except Unanswerable:  # a chip without such a memory, a number that is not known here
            return f"fits(tile) is false: {self.need.what}: {answer.reason}"
        return f"fits(tile) is false: {self.need.what}: needs {needed}, has {available}"


def is_legal(e: Expr) -> bool:
    """Is the condition the question to isl about the axes that tiles cut? (`legal(split)` has one answer for a kernel.)"""
    return isinstance(e, Call) and asks_isl(e) and not any(isinstance(a, Word) and a.name == "split" for a in e.args)


def variables_of(e: Expr, free: Variables) -> tuple[str, ...]:
    """The free variables that an expression mentions, in their order."""
    names = {x.name for x in walk(e) if isinstance(x, Ref)}
    return tuple(n for n in free if n in names)


def mentions(e: Expr, free: Variables) -> bool:
    """Whether an expression mentions a free variable."""
    return e.name in free if isinstance(e, Ref) else any(mentions(x, free) for x in below(e))


def condition(e: Expr, free: Variables, known: Known) -> Condition:
    """`free` are the variables that egglog binds; `known` answers for all others and for functions."""
    mentioned = variables_of(e, free)
    try:
        text = _truth(e, free, known) if mentioned else ""
    except Unstated:
        text = ""
    return Condition(e, text, mentioned)


def number(e: Expr, free: Variables, known: Known) -> Number:
    """An expression as i64 arithmetic. Raises Unstated."""
    if not mentions(e, free):
        value = known(e)
        if not isinstance(value, Number) or value.truth:
            raise Unstated(str(e))
        return value
    if isinstance(e, Ref):
        own = free[e.name]
        if own is None:
            raise Unstated(f"?{e.name} is a word")
        return own
    if isinstance(e, Op) and e.op == "-" and len(e.args) == 1:
        a = number(e.args[0], free, known)
        return Number(f"(- 0 {a.text})", -a.high, -a.low)
    if isinstance(e, Op) and e.op in ARITHMETIC:
        return _binary(e.op, number(e.args[0], free, known), number(e.args[1], free, known))
    if isinstance(e, Call) and e.name in ("min", "max") and len(e.args) == 2:
        a, b = (number(x, free, known) for x in e.args)
        pick = min if e.name == "min" else max
        return Number(f"({e.name} {a.text} {b.text})", pick(a.low, b.low), pick(a.high, b.high))
    raise Unstated(str(e))


def _binary(op: str, a: Number, b: Number) -> Number:
    """Division and remainder are egglog's, which truncate: they agree with Python's where nothing is negative."""
    if op in ("//", "%"):
        if a.low < 0 or b.low <= 0:
            raise Unstated(op)
        ends = [a.low // b.high, a.high // b.low] if op == "//" else [0, b.high - 1]
    elif op == "*":
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    elif op == "+":
        ends = [a.low + b.low, a.high + b.high]
    else:
        ends = [a.low - b.high, a.high - b.low]
    if max(map(abs, ends)) >= LIMIT:
        raise Unstated(f"{op} may pass 63 bits")
    return Number(f"({ARITHMETIC[op]} {a.text} {b.text})", min(ends), max(ends))


def _truth(e: Expr, free: Variables, known: Known) -> str:
    """A condition as an expression of egglog's sort bool. Raises Unstated."""
    if isinstance(e, Op) and e.op in ("and", "or"):
        return f"({e.op} {_truth(e.args[0], free, known)} {_truth(e.args[1], free, known)})"
    if isinstance(e, Op) and e.op == "not":
        return f"(not {_truth(e.args[0], free, known)})"
    if isinstance(e, Op) and e.op == "!=":
        return f"(not {_truth(Op('==', e.args), free, known)})"
    if isinstance(e, Op) and e.op in COMPARE:
        a, b = (number(x, free, known) for x in e.args)
        return f"({COMPARE[e.op]} {a.text} {b.text})"
    if isinstance(e, Call) and e.name == "fits" and len(e.args) == 2:
        room = number(Call("int", (Call("room", e.args[:1]),)), free, known)
        return f"(bool-<= {number(e.args[1], free, known).text} {room.text})"
    value = None if mentions(e, free) else known(e)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Number) and value.truth:
        return f"(bool-= {value.text} 1)"
    raise Unstated(str(e))
