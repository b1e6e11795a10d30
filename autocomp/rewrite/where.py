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


Run = Callable[[Env], Any]


def evaluate(e: Expr, env: Env) -> Any:
    """The value of an expression. Raises Unanswerable with the reason."""
    return _compiled(e)(env)


def _compiled(e: Expr) -> Run:
    """An expression as one function, made once and kept beside its fields: a condition is asked of thousands of choices."""
    run: Run | None = e.__dict__.get("_run")
    if run is None:
        run = e.__dict__["_run"] = _COMPILE[type(e)](e)
    return run


def _value(e: Lit | Word) -> Run:
    value = e.value if isinstance(e, Lit) else e.name
    return lambda env: value


def _ref(e: Ref) -> Run:
    name = e.name

    def run(env: Env) -> Any:
        try:
            return env.variables[name]
        except KeyError:
            raise Unanswerable(f"?{name} is not known here") from None

    return run


def _call(e: Call) -> Run:
    name, parts = e.name, [_compiled(a) for a in e.args]

    def run(env: Env) -> Any:
        f = env.functions.get(name)
        if f is None:
            raise Unanswerable(f"{name}() cannot be asked here")
        args = [part(env) for part in parts]
        try:
            return f(*args)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError, OverflowError) as x:
            raise Unanswerable(f"{e} has no answer ({x})") from None

    return run


def _items(e: Items) -> Run:
    parts = [_compiled(i) for i in e.items]
    return lambda env: tuple([part(env) for part in parts])


def _part(e: Part) -> Run:
    whole, ends = _compiled(e.base), [None if b is None else _compiled(b) for b in (e.low, e.high)]

    def run(env: Env) -> Any:
        base = whole(env)
        low, high = (None if end is None else end(env) for end in ends)
        try:
            return tuple(base[low:high]) if e.slice else base[low]
        except (TypeError, IndexError, KeyError) as x:
            raise Unanswerable(f"{e} has no answer ({x})") from None

    return run


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
}
_NUMBERS = frozenset((int, float, bool))  # whatever the operator: neither a symbol nor a list


def _operator(e: Op) -> Run:
    first, second = _compiled(e.args[0]), _compiled(e.args[-1])
    if e.op == "and":
        return lambda env: bool(first(env)) and bool(second(env))
    if e.op == "or":
        return lambda env: bool(first(env)) or bool(second(env))
    if e.op == "not":
        return lambda env: not first(env)
    return _negative(e, first) if len(e.args) == 1 else _binary(e, first, second)


def _negative(e: Op, of: Run) -> Run:
    def run(env: Env) -> Any:
        a = of(env)
        _check_operands(e, a)
        try:
            return -a
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as x:
            raise Unanswerable(f"{e} has no answer ({x})") from None

    return run


def _binary(e: Op, first: Run, second: Run) -> Run:
    function = _BINARY[e.op]

    def run(env: Env) -> Any:
        a, b = first(env), second(env)
        if type(a) not in _NUMBERS or type(b) not in _NUMBERS:
            _check_operands(e, a, b)
        try:
            return function(a, b)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as x:
            raise Unanswerable(f"{e} has no answer ({x})") from None

    return run


def _check_operands(e: Op, *args: Any) -> None:
    """Raises Unanswerable for what no operator takes: an open size, which has no order, and a list that is multiplied."""
    if any(isinstance(a, Sym) for a in args) and e.op not in ("==", "!=", "in", "not in"):
        raise Unanswerable(f"{e} depends on a symbolic dimension ({', '.join(map(str, args))})")
    if e.op == "*" and any(isinstance(a, (tuple, str)) for a in args):
        raise Unanswerable(f"{e} multiplies a list")


_COMPILE: dict[type, Callable[[Any], Run]] = {
    Lit: _value, Word: _value, Ref: _ref, Items: _items, Call: _call, Part: _part, Op: _operator,
}  # fmt: skip


def holds(conditions: tuple[Expr, ...], env: Env) -> Answer:
    """Whether all conditions hold; if not, the first that fails and the values it saw."""
    for c in conditions:
        try:
            if not _compiled(c)(env):
                return Answer(False, partial(_explain, c, env))
        except Unanswerable as x:
            return Answer(False, partial(str, x.with_traceback(None)))  # which would hold every frame from here to the program
    return YES


def equated(c: Expr) -> tuple[Expr, ...]:
    """The two sides of a condition that says that numbers are equal, `a == b`, or close; () for any other."""
    says = (isinstance(c, Op) and c.op == "==") or (isinstance(c, Call) and c.name == "close")
    return c.args[:2] if says and isinstance(c, (Op, Call)) else ()


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
