"""`@autocomp.rule`: the same rule as in a rule file, from a Python function.

    @autocomp.rule(phase="algebra")
    def double(x):
        "adding a value to itself is a multiplication"
        return op.add(x, x), op.mul(x, 2)

The function is called once, with a variable for each parameter, and returns (lhs, rhs); what it does is not part of the
rule. With `lhs=` (or `match=`) and `rhs=` as text it is not called. Pass the rule as `optimize(..., rules=[double])`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from autocomp.errors import RuleError
from autocomp.rewrite.load import build_rule
from autocomp.rewrite.location import Location
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.yaml_source import Located


class Symbol:
    """A piece of pattern text under construction; the usual operators make the table's ops."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, o: Any) -> Symbol:
        return op.add(self, o)

    def __radd__(self, o: Any) -> Symbol:
        return op.add(o, self)

    def __sub__(self, o: Any) -> Symbol:
        return op.sub(self, o)

    def __rsub__(self, o: Any) -> Symbol:
        return op.sub(o, self)

    def __mul__(self, o: Any) -> Symbol:
        return op.mul(self, o)

    def __rmul__(self, o: Any) -> Symbol:
        return op.mul(o, self)

    def __truediv__(self, o: Any) -> Symbol:
        return op.div(self, o)

    def __rtruediv__(self, o: Any) -> Symbol:
        return op.div(o, self)

    def __matmul__(self, o: Any) -> Symbol:
        return op.matmul(self, o)

    def __neg__(self) -> Symbol:
        return op.neg(self)


class _Ops:
    """`op.matmul(a, b)`: any op of the phase's vocabulary, attributes as keywords (text is an expression)."""

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        def apply(*args: Any, **attrs: Any) -> Symbol:
            return Symbol(f"{name}({', '.join([*map(_spell, args), *(f'{k}={_spell(v)}' for k, v in attrs.items())])})")

        return apply


op = _Ops()


def _spell(v: Any) -> str:
    if isinstance(v, Symbol):
        return v.text
    if isinstance(v, (list, tuple)):
        return f"[{', '.join(map(_spell, v))}]"
    return str(v).lower() if isinstance(v, bool) else str(v)


def rule(
    fn: Callable[..., Any] | None = None,
    *,
    phase: str = "",
    name: str | None = None,
    lhs: str | None = None,
    rhs: str | None = None,
    where: Sequence[str] = (),
    **fields: Any,
) -> Callable[[Callable[..., Any]], Rule]:
    """Decorator: the function becomes a Rule named `name` or phase/function. Other fields are those of a rule file.

    Raises RuleError as a rule file would, at the function's own file and line.
    """

    if fn is not None or not phase:
        raise RuleError("a rule names its phase", where="autocomp.rule", hint='write @autocomp.rule(phase="algebra") above the function')

    def decorate(fn: Callable[..., Any]) -> Rule:
        code = inspect.unwrap(fn).__code__
        at = Location(code.co_filename.rsplit("/", 1)[-1], code.co_firstlineno, spelled=True)
        left, right = lhs, rhs
        if left is None and "match" not in fields:
            made = fn(*(Symbol(f"?{p}") for p in inspect.signature(fn).parameters))
            if not isinstance(made, tuple) or len(made) != 2:
                raise RuleError(
                    f"{fn.__name__} must return (lhs, rhs), it returned {type(made).__name__}",
                    where=str(at),
                    hint="return op.add(x, x), op.mul(x, 2)",
                )
            left, right = (_spell(m) for m in made)
        data: dict[str, Any] = {
            "name": name or f"{phase}/{fn.__name__}",
            "phase": phase,
            "why": inspect.getdoc(fn) or "",
            **fields,
        }
        data |= {k: v for k, v in (("lhs", left), ("rhs", right), ("where", tuple(where))) if v}
        return build_rule(_located(data, at))

    return decorate


def _located(v: Any, at: Location) -> Located:
    if isinstance(v, dict):
        return Located({k: _located(x, at) for k, x in v.items()}, at)
    if isinstance(v, (list, tuple)):
        return Located(tuple(_located(x, at) for x in v), at)
    return Located(v, at)
