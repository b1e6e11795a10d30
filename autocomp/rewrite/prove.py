"""Proofs of rules over the reals: both sides as formulas, their difference shown to be zero by z3 (extra `proof`).

A proof is for every form of the left side up to a rank (`forms.py`), which it names, for every value of the tensors and for every size,
where both sides are defined. A rule of which not every form can be tried (any strides, sizes that are compared) is not proved, however many
forms of it are. Roundings are not in it (that is what `exact: false` says), nor are integers, infinities and NaN (the comparison of drawn
instances tries those).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import prod
from typing import Any

from autocomp.deadline import current
from autocomp.errors import ModelError
from autocomp.ir.decompose import decompose
from autocomp.ir.monoids import MONOIDS
from autocomp.ir.node import Graph
from autocomp.rewrite.expr import Call, Expr, Lit, Op, Ref
from autocomp.rewrite.forms import Cut, Forms, all_forms, most_general
from autocomp.rewrite.formula import Formula, Reals, Unprovable, functions, number
from autocomp.rewrite.instance import Instance
from autocomp.rewrite.meaning import Meaning, states_of, term
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Unanswerable, equated
from autocomp.rewrite.where import evaluate as value_of

SECONDS = 5  # what z3 gets for one difference
SHORT = 0.1  # and at least, however late it is


@dataclass(frozen=True)
class Proof:
    """ok, with what was proved; or why there is no proof. True in a boolean context when ok."""

    ok: bool
    reason: str

    def __bool__(self) -> bool:
        return self.ok


def prove_rule(rule: Rule, forms: Forms | None = None) -> Proof:
    """Both sides are equal over the reals on all forms of the left side."""
    if find_spec("z3") is None:
        return Proof(False, "z3 is not installed (pip install 'autocomp[proof]')")
    forms = forms or all_forms(rule)
    if forms.why:
        return Proof(False, forms.why)
    monoids: set[str] = set()
    try:
        for x in most_general(rule, forms):
            if current().over:
                return Proof(False, "the deadline came first")
            monoids |= _prove_form(rule, x)
    except (Unprovable, Unanswerable, ModelError, Cut) as e:
        return Proof(False, str(e))
    used = "".join(f"; combining parts of {m} in any order" for m in sorted(monoids))
    return Proof(True, f"over the reals, any sizes, {forms}{used}")


def _prove_form(rule: Rule, x: Instance) -> set[str]:
    """Monoids that the proof of one form rests on. Raises Unprovable."""
    left, right = x.left, x.right()
    both = Graph("rule", tuple(x.b.inputs), (("left", left), ("right", right)))
    meaning = Meaning()
    meaning.given = _facts(rule, x, meaning.r)
    meaning.given = {**meaning.given, **{n: _value(e, x, meaning.r, meaning.given) for n, e in x.made.items()}}
    sides = {name: meaning.of(node) for name, node in decompose(both).outputs}
    _require_zero(meaning.r, meaning.r.sub(sides["left"], sides["right"]), "the sides differ, or z3 cannot tell")
    for m in meaning.monoids:
        prove_monoid(m)
    return meaning.monoids


def _facts(rule: Rule, x: Instance, r: Reals) -> dict[str, Formula]:
    """Values of constants that a condition fixes: value(?c) == 2, close(value(?n) * dim(?x, 1), 1). What a condition calls close is
    taken as equal: the constant is the rounded number."""
    out: dict[str, Formula] = {}
    for c in rule.where:
        equal = equated(c)
        if len(equal) != 2 or not any("value(" in str(a) for a in equal):
            continue
        difference = r.sub(*(_value(a, x, r, out) for a in equal))
        for name in x.nodes:
            atom = f"{name}[]"
            terms = [(m, k) for m, k in difference.terms if atom in dict(m)]
            if len(terms) == 1 and dict(terms[0][0])[atom] == 1:
                factor = Formula(((tuple(p for p in terms[0][0] if p[0] != atom), terms[0][1]),))
                rest = Formula(tuple(t for t in difference.terms if t not in terms))
                out[name] = r.mul(r.scaled(rest, -1), r.inverse(factor))
                break
    return out


def _value(e: Expr, x: Instance, r: Reals, given: Mapping[str, Formula]) -> Formula:
    """An expression of constants' values and sizes, sizes being unknowns."""
    if isinstance(e, Lit) and not isinstance(e.value, (str, bool)):
        return number(e.value)
    if isinstance(e, Op) and e.op in "+-*/" and e.op:
        args = [_value(a, x, r, given) for a in e.args]
        if len(args) == 1:
            return r.scaled(args[0], -1)
        return functions(r)[{"+": "add", "-": "sub", "*": "mul", "/": "div"}[e.op]](*args)
    if isinstance(e, Call) and e.name == "value" and isinstance(e.args[0], Ref):
        name = e.args[0].name
        return given[name] if name in given else r.atom(f"{name}[]", "leaf")
    if isinstance(e, Call) and e.name == "sqrt":
        return functions(r)["sqrt"](_value(e.args[0], x, r, given))
    if isinstance(e, Call) and e.name in ("dim", "product", "elements"):
        sizes = value_of(e.args[0], x.env) if e.name == "product" else (value_of(e, x.env),)
        return r.mul(number(1), *(r.count(d) for d in sizes))
    raise Unprovable(f"{e} is not encoded")


@cache
def prove_monoid(name: str) -> None:
    """Combining the states of two parts gives the state of their union, and one element's state is its lift: so any tree over
    the elements folds to the closed form. Raises Unprovable."""
    m, r = MONOIDS[name], Reals()
    parts = []
    for k, axis in enumerate(("A", "B")):
        axes = {f"r{k}.0": axis}
        operands = {o: r.atom(f"{o}[r{k}.0]", "leaf", axes) for o in m.operands}
        parts.append((axes, operands, states_of(r, m, operands, axes)))
    whole = {f"{s}1": r.add(*(p[2][s] for p in parts)) if op == "add" else r.atom(f"{s}1", "leaf") for s, op, _ in m.base}
    for s, lift, rebase in m.modules:
        combined = r.add(*(term(r, rebase, {**st, **whole, "x": st[s]}) for _, _, st in parts))
        closed = []
        for axes, operands, _ in parts:
            lifts = {b: term(r, t, operands) for b, _, t in m.base}
            closed.append(r.total(term(r, rebase, {**lifts, **whole, "x": term(r, lift, operands)}), axes))
        _require_zero(r, r.sub(combined, r.add(*closed)), f"combining parts of {name} is not proved for {s}")
        operands = parts[0][1]
        one = {b: term(r, t, operands) for b, _, t in m.base}
        alone = term(r, rebase, {**one, **{f"{b}1": v for b, v in one.items()}, "x": term(r, lift, operands)})
        _require_zero(r, r.sub(alone, term(r, lift, operands)), f"one element of {name} is not its lift for {s}")


# ---- z3
def _require_zero(r: Reals, difference: Formula, otherwise: str) -> None:
    """Raises Unprovable unless z3 shows that no values of the atoms make the difference anything but 0."""
    if not difference.terms:
        return
    import z3

    solver = z3.Solver()
    solver.set("timeout", round(1000 * current().within(SECONDS, SHORT)))
    known: dict[str, Any] = {}
    lowest: dict[str, int] = {}
    for m, _ in difference.terms:
        for a, p in m:
            lowest[a] = min(lowest.get(a, 0), p)
    cleared = r.mul(difference, Formula(((tuple(sorted((a, -p) for a, p in lowest.items() if p)), 1),)))  # type: ignore[arg-type]
    solver.add(_real(r, cleared, known, solver) != 0)
    for a in lowest:
        if lowest[a]:
            solver.add(_atom(r, a, known, solver) != 0)
    if solver.check() != z3.unsat:
        raise Unprovable(otherwise)


def _real(r: Reals, p: Formula, known: dict[str, Any], solver: Any) -> Any:
    import z3

    parts = []
    for m, c in p.terms:
        factors = [z3.RealVal(str(c))]
        for a, k in m:
            x = _atom(r, a, known, solver)
            factors += [x] * k if k > 0 else [1 / x] * -k
        parts.append(prod(factors[1:], start=factors[0]))
    return sum(parts[1:], start=parts[0]) if parts else z3.RealVal(0)


def _atom(r: Reals, text: str, known: dict[str, Any], solver: Any) -> Any:
    """The unknown of an atom, with what is known about it told to the solver once."""
    import z3

    if text in known:
        return known[text]
    known[text] = x = z3.Real(f"a{len(known)}")
    atom = r.atoms[text]
    args = [_real(r, a, known, solver) for a in atom.args] if atom.kind in DEFINED else []
    for fact in {
        "exp": lambda: [x > 0], "count": lambda: [x >= 1], "truth": lambda: [z3.Or(x == 0, x == 1)],
        "root": lambda: [x * x == args[0], x >= 0], "quotient": lambda: [x == args[0]],
        "max": lambda: [x == z3.If(args[0] >= args[1], args[0], args[1])], "min": lambda: [x == z3.If(args[0] <= args[1], *args)],
        "abs": lambda: [x == z3.If(args[0] >= 0, args[0], -args[0])], "compare": lambda: [x == z3.If(_test(text, args), 1.0, 0.0)],
    }.get(atom.kind, list)():  # fmt: skip
        solver.add(fact)
    return x


DEFINED = ("root", "quotient", "max", "min", "abs", "compare")


def _test(text: str, args: list[Any]) -> Any:
    a, b = args
    return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[text.partition("(")[0]]
