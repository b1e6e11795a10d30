"""Rules that are nearly right: each shipped rule with one thing changed, to see whether the checker notices.

A condition dropped, negated or weakened; operands swapped; a number, an axis, a permutation, a cast, an op, a variable changed on the right
side; an inexact rule that says it is exact. Many of them are wrong, some are as right as before: `judge.py` says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autocomp.ir.ops import OPS
from autocomp.rewrite.expr import OPPOSITE, Call, Expr, Items, Lit, Op, Part, Ref, negate
from autocomp.rewrite.instance import Instance, tensors
from autocomp.rewrite.pattern import Apply, Pattern
from autocomp.rewrite.rule import Example, Rule
from autocomp.rewrite.vocabulary import GRAPH_PHASES

WEAKER = {"==": ("<=", ">="), ">": (">=",), "<": ("<=",), ">=": (">",), "<=": ("<",), "and": ("or",), "or": ("and",)}
OTHER_OP = {
    "add": "sub", "sub": "add", "mul": "add", "div": "mul", "max": "min", "min": "max", "exp": "exp2", "relu": "abs", "silu": "sigmoid",
    "gelu": "gelu_tanh", "rsqrt": "sqrt", "reduce_sum": "reduce_max", "reduce_max": "reduce_min", "reduce_min": "reduce_max",
    "reduce_prod": "reduce_sum", "maxpool": "sumpool", "sumpool": "maxpool", "neg": "abs",
}  # fmt: skip
LARGER = 16  # times the sizes that a rule chooses from
OTHER_CALL = {"channels_first": "channels_last", "channels_last": "channels_first", "shape": "", "inverse": "", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """A rule with one thing changed, and what that is."""

    rule: Rule
    what: str


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Every rule that one change makes of a rule of the graph phases (its examples are those for which its conditions hold), or of one
    about schedules."""
    seen = {rule.text + str(rule.exact)}
    for changed, what in _changes(rule) if rule.phase in GRAPH_PHASES else _of_schedules(rule):
        key = changed.text + str(changed.exact)
        if key not in seen:
            seen.add(key)
            yield Mutant(replace(changed, name=f"{rule.name}~{len(seen) - 1}", examples=tuple(_kept(changed))), what)


def _kept(rule: Rule) -> Iterator[Example]:
    """The positive examples that the changed rule still takes: what an author who made this slip would have given."""
    for example in rule.examples:
        if example.fires and example.bindings:
            try:
                if Instance(rule, dict(example.bindings)).conditions():
                    yield example
            except Exception:
                continue


def _changes(rule: Rule) -> Iterator[tuple[Rule, str]]:
    yield from _of_conditions(rule)
    assert rule.lhs is not None and rule.rhs is not None
    names = sorted(tensors(rule.lhs))
    for rhs, what in _sides(rule.rhs, names):
        yield replace(rule, rhs=rhs), what
    if not rule.exact:
        yield replace(rule, exact=True), "it says that it is exact"
    if rule.finite:
        yield replace(rule, finite=False), "it says that it holds for infinities"


# ---- rules about schedules
def _of_schedules(rule: Rule) -> Iterator[tuple[Rule, str]]:
    """A condition, a candidate or a field changed."""
    yield from _of_conditions(rule)
    for k, (name, of) in enumerate(rule.choose):
        if isinstance(of, tuple) and all(isinstance(v, int) for v in of):
            for sizes, what in (
                (tuple(LARGER * v for v in of), f"?{name} {LARGER} times as large"),
                (tuple(v + 1 for v in of), f"?{name} more by 1"),
            ):
                yield replace(rule, choose=(*rule.choose[:k], (name, sizes), *rule.choose[k + 1 :])), what
    if not isinstance(rule.rhs, Apply):
        return
    attrs = rule.rhs.attrs
    for k, (name, e) in enumerate(attrs):
        yield replace(rule, rhs=replace(rule.rhs, attrs=(*attrs[:k], *attrs[k + 1 :]))), f"without {name}"
        for other, f in attrs[k + 1 :]:
            if isinstance(e, Ref) and isinstance(f, Ref) and e.name != f.name:
                swapped = tuple((n, f if n == name else e if n == other else x) for n, x in attrs)
                yield replace(rule, rhs=replace(rule.rhs, attrs=swapped)), f"{name} and {other} swapped"
        for new, what in _numbers(e):
            yield replace(rule, rhs=replace(rule.rhs, attrs=tuple((n, new if n == name else x) for n, x in attrs))), f"{name}: {what}"


# ---- conditions
def _of_conditions(rule: Rule) -> Iterator[tuple[Rule, str]]:
    for k, c in enumerate(rule.where):
        others = (*rule.where[:k], *rule.where[k + 1 :])
        yield replace(rule, where=others), f"without the condition {c}"
        yield replace(rule, where=(*rule.where[:k], negate(c), *rule.where[k + 1 :])), f"the condition {c} negated"
        for e in _weaker(c):
            yield replace(rule, where=(*rule.where[:k], e, *rule.where[k + 1 :])), f"{e} for the condition {c}"


def _weaker(c: Expr) -> Iterator[Expr]:
    if isinstance(c, Op):
        for op in WEAKER.get(c.op, ()):
            yield Op(op, c.args, c.at)
        if c.op in OPPOSITE and len(c.args) == 2:
            for k, a in enumerate(c.args):
                for e, _ in _numbers(a):
                    yield Op(c.op, tuple(e if j == k else b for j, b in enumerate(c.args)), c.at)
        if c.op in ("and", "or"):
            yield from c.args


def _numbers(e: Expr) -> Iterator[tuple[Expr, str]]:
    """The expression with one of its numbers off by one, or one of its functions another one."""
    if isinstance(e, Lit) and isinstance(e.value, (int, float)) and not isinstance(e.value, bool):
        for v in (e.value + 1, e.value - 1):
            yield Lit(v, e.at), f"{v} for {e}"
    elif isinstance(e, (Call, Op, Items)):
        parts: Sequence[Expr] = e.items if isinstance(e, Items) else e.args
        for k, a in enumerate(parts):
            for new, what in _numbers(a):
                swapped = tuple(new if j == k else b for j, b in enumerate(parts))
                yield (Items(swapped, e.at) if isinstance(e, Items) else replace(e, args=swapped)), what
        if isinstance(e, Call) and e.name in ("compose", "mapped", "permuted", "missing") and e.name == "compose":
            yield Call(e.name, e.args[::-1], e.at), f"{e} with its arguments swapped"
        if isinstance(e, Call) and e.name in OTHER_CALL and (other := OTHER_CALL[e.name]):
            yield Call(other, e.args, e.at), f"{other} for {e.name}"
        if isinstance(e, Call) and e.name in ("inverse", "mapped", "sorted"):
            yield e.args[0], f"{e.args[0]} for {e}"
        if isinstance(e, Op) and len(e.args) == 2 and e.op in "+-*":
            yield Op({"+": "-", "-": "+", "*": "+"}[e.op], e.args, e.at), f"another operator in {e}"
    elif isinstance(e, Part) and e.low is not None:
        for new, what in _numbers(e.base):
            yield replace(e, base=new), what
        for new, what in _numbers(e.low):
            yield replace(e, low=new), what


# ---- the right side
def _sides(p: Pattern, names: list[str]) -> Iterator[tuple[Pattern, str]]:
    """The pattern with one thing changed."""
    if isinstance(p, Ref):
        for n in names:
            if n != p.name and not p.rest:
                yield Ref(n, p.rest, p.at), f"?{n} for ?{p.name}"
    if isinstance(p, Lit) and isinstance(p.value, (int, float)):
        for v in (p.value + 1, p.value * 2 if p.value else 0.5):
            yield Lit(v, p.at), f"the number {v} for {p}"
    if not isinstance(p, Apply):
        return
    if p.op in OTHER_OP:
        yield replace(p, op=OTHER_OP[p.op]), f"{OTHER_OP[p.op]} for {p.op}"
    if len(p.args) == 2 and str(p.args[0]) != str(p.args[1]):
        yield replace(p, args=p.args[::-1]), f"operands of {p.op} swapped"
    if len(p.args) == 1 and isinstance(p.args[0], (Ref, Apply)) and OPS.get(p.op) is not None:
        yield p.args[0], f"without the {p.op}"
    for k, a in enumerate(p.args):
        for new, what in _sides(a, names):
            yield replace(p, args=tuple(new if j == k else b for j, b in enumerate(p.args))), what
    yield from _attributes(p)


def _attributes(p: Apply) -> Iterator[tuple[Pattern, str]]:
    def put(name: str, e: Expr) -> Apply:
        return replace(p, attrs=tuple((n, e if n == name else old) for n, old in p.attrs))

    refs = {n: e for n, e in p.attrs if isinstance(e, Ref)}
    for name, e in p.attrs:
        for new, what in _numbers(e):
            yield put(name, new), f"{name}: {what}"
        if name == "perm":
            yield put(name, Call("inverse", (e,), 0)), "the inverse permutation"
        if isinstance(e, Lit) and isinstance(e.value, bool):
            yield put(name, Lit(not e.value, e.at)), f"{name} the other way"
        for other, value in refs.items():
            if isinstance(e, Ref) and other != name and value.name != e.name and _alike(p.op, name, other):
                yield put(name, value), f"{name}={value} for {e}"


def _alike(op: str, a: str, b: str) -> bool:
    lists: Any = ("strides", "dilations", "lo", "hi", "window", "starts", "limits", "steps", "axes")
    return a in lists and b in lists
