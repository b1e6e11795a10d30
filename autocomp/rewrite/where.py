"""Evaluating `where` conditions and attribute expressions: an answer or a refusal that says which part failed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from autocomp.ir.types import Sym
from autocomp.rewrite.expr import Call, Expr, Items, Lit, Op, Part, Ref, Word, walk

if TYPE_CHECKING:
    from autocomp.rewrite.rule import Rule


class Unanswerable(Exception):
    """The question has no answer for these values; the message says why."""


@dataclass(frozen=True)
class Env:
    """What names mean: `variables` for ?name, `functions` for calls (given evaluated arguments, may raise Unanswerable)."""

    variables: Mapping[str, Any]
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """ok, or the condition that failed with the values its parts had. True in a boolean context when ok."""

    ok: bool
    why: Callable[[], str] = str

    @property
    def reason(self) -> str:
        """Made when it is asked for: most refusals are only counted."""
        return self.why()

    def __bool__(self) -> bool:
        return self.ok


YES = Answer(True)


def evaluate(e: Expr, env: Env) -> Any:
    """The value of an expression. Raises Unanswerable with the reason."""
    return _EVALUATE[type(e)](e, env)


def _ref(e: Ref, env: Env) -> Any:
    if e.name not in env.variables:
        raise Unanswerable(f"?{e.name} is not known here")
    return env.variables[e.name]


def _call(e: Call, env: Env) -> Any:
    f = env.functions.get(e.name)
    if f is None:
        raise Unanswerable(f"{e.name}() cannot be asked here")
    args = [evaluate(a, env) for a in e.args]
    try:
        return f(*args)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError, OverflowError) as x:
        raise Unanswerable(f"{e} has no answer ({x})") from None


def _part(e: Part, env: Env) -> Any:
    base = evaluate(e.base, env)
    low, high = (None if b is None else evaluate(b, env) for b in (e.low, e.high))
    try:
        return tuple(base[low:high]) if e.slice else base[low]
    except (TypeError, IndexError, KeyError) as x:
        raise Unanswerable(f"{e} has no answer ({x})") from None


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
}
_NUMBERS = frozenset((int, float, bool))  # whatever the operator: neither a symbol nor a list


def _operator(e: Op, env: Env) -> Any:
    if e.op in ("and", "or"):
        left = bool(evaluate(e.args[0], env))
        return left if left == (e.op == "or") else bool(evaluate(e.args[1], env))
    if e.op == "not":
        return not evaluate(e.args[0], env)
    args = [evaluate(a, env) for a in e.args]
    if not _NUMBERS.issuperset(map(type, args)):
        if any(isinstance(a, Sym) for a in args) and e.op not in ("==", "!=", "in", "not in"):
            raise Unanswerable(f"{e} depends on a symbolic dimension ({', '.join(map(str, args))})")
        if e.op == "*" and any(isinstance(a, (tuple, str)) for a in args):
            raise Unanswerable(f"{e} multiplies a list")
    try:
        return -args[0] if len(args) == 1 else _BINARY[e.op](*args)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as x:
        raise Unanswerable(f"{e} has no answer ({x})") from None


_EVALUATE: dict[type, Callable[[Any, Env], Any]] = {
    Lit: lambda e, env: e.value,
    Word: lambda e, env: e.name,
    Ref: _ref,
    Items: lambda e, env: tuple(evaluate(i, env) for i in e.items),
    Call: _call,
    Part: _part,
    Op: _operator,
}


def holds(conditions: tuple[Expr, ...], env: Env) -> Answer:
    """Whether all conditions hold; if not, the first that fails and the values it saw."""
    for c in conditions:
        try:
            if not evaluate(c, env):
                return Answer(False, partial(_explain, c, env))
        except Unanswerable as x:
            return Answer(False, partial(str, x.with_traceback(None)))  # which would hold every frame from here to the program
    return YES


def asks_isl(e: Expr) -> bool:
    """Is a condition a question to isl: `legal(tile)`, `legal(split)`?"""
    return isinstance(e, Call) and e.name == "legal"


def listed(rule: Rule, name: str, of: Expr, env: Env) -> tuple[Any, ...]:
    """What a formula gives to choose from. Raises RuleError where that is no list."""
    try:
        value = evaluate(of, env)
    except Unanswerable as x:
        raise rule.choice_error(name, 0, f"?{name}: {x}", f"write `choose: {{{name}: [..]}}`") from None
    if not isinstance(value, (tuple, list)):
        what = f"?{name} has {str(value)[:40]} to choose from, which is no list"
        raise rule.choice_error(name, 0, what, f"write `choose: {{{name}: [..]}}`")
    return tuple(value)


def _explain(c: Expr, env: Env) -> str:
    """`rank(?c) == 0 is false: rank(?c) is 2`; of conditions that are joined by `and`, the first that fails."""
    while isinstance(c, Op) and c.op == "and":
        c = c.args[1] if evaluate(c.args[0], env) else c.args[0]
    text, parts = _parts(c)
    values = _seen(text, parts, env)
    return f"{text} is false" + (f": {values}" if values else "")


def _seen(text: str, parts: Iterable[tuple[str, Expr]], env: Env) -> str:
    """`rank(?c) is 2`: the values of a condition's parts."""
    seen = {}
    for name, x in parts:
        try:
            seen[name] = evaluate(x, env)
        except Unanswerable:
            continue
    told = {k: v for k, v in seen.items() if k != text and isinstance(v, (int, float, str, tuple, Sym, bool))}
    return ", ".join(f"{k} is {show(v)}" for k, v in told.items())


def held(conditions: tuple[Expr, ...], env: Env) -> tuple[tuple[str, str], ...]:
    """Conditions that hold, each with the values of its parts: `("rank(?x) <= 4", "rank(?x) is 2")`."""
    return tuple((_parts(c)[0], _seen(*_parts(c), env)) for c in conditions)


@lru_cache(maxsize=1024)
def _parts(c: Expr) -> tuple[str, tuple[tuple[str, Expr], ...]]:
    """A condition's text, and its calls and variables with theirs (conditions are explained for many values)."""
    return str(c), tuple({str(x): x for x in walk(c) if isinstance(x, Call | Ref)}.items())


def show(v: Any) -> str:
    """A value as people write it in rule files."""
    if isinstance(v, tuple):
        return f"[{', '.join(map(show, v))}]"
    return str(v).lower() if isinstance(v, bool) else str(v)
