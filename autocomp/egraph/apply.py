"""One match of a rule: its conditions are asked, and the terms of its right side are added and united with its root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autocomp.egraph.queries import Query
from autocomp.egraph.terms import Match, Terms, typed
from autocomp.errors import ModelError, RuleError
from autocomp.ir.builder import checked_attrs, constant, inferred
from autocomp.ir.node import Attrs
from autocomp.ir.types import DTYPES, DType, TensorType, dim_hint, same_number
from autocomp.rewrite.expr import Lit, Ref, Word
from autocomp.rewrite.functions import Operand
from autocomp.rewrite.pattern import Pattern, is_number, typed_by
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Answer, Env, Unanswerable, evaluate, holds


def apply(terms: Terms, q: Query, row: tuple[object, ...], functions: Mapping[str, Any]) -> str | Answer | None:
    """None if the rule fired; else why not ("" where it would only have added what is there)."""
    m = _match(terms, q, row, functions)
    return _fire(terms, q.rule, m, (m,)) if isinstance(m, Match) else m


def apply_together(terms: Terms, q: Query, rows: Sequence[tuple[object, ...]], functions: Mapping[str, Any],
                    taken: set[int]) -> list[tuple[tuple[object, ...], str | Answer | None]]:  # fmt: skip
    """As `apply` for a rule of siblings: matches that share the variables it names fire together, in order of their roots. What
    lies inside of siblings that an earlier rule merged is left to it."""
    groups: dict[tuple[int, ...], dict[int, tuple[tuple[object, ...], Match]]] = {}
    out: list[tuple[tuple[object, ...], str | Answer | None]] = []
    for row in rows:
        m = _match(terms, q, row, functions)
        if not isinstance(m, Match) or m.root in taken:
            out.append((row, "it is part of siblings that another rule merged" if isinstance(m, Match) else m))
        else:
            groups.setdefault(tuple(m.names[v] for v in q.rule.siblings), {}).setdefault(m.root, (row, m))
    for _, members in sorted(groups.items()):
        together = [members[root] for root in sorted(members)]
        for row, m in together:
            single = f"it is the only one of its {', '.join(q.rule.siblings)}"
            out.append((row, _fire(terms, q.rule, m, tuple(x for _, x in together)) if len(together) > 1 else single))
            taken.update(m.inner if len(together) > 1 else ())
    return out


def _match(terms: Terms, q: Query, row: tuple[object, ...], functions: Mapping[str, Any]) -> Match | Answer | str:
    """The match, or why the rule does not hold there."""
    values = dict(zip((v for v, _ in q.variables), row))
    root = int(values["root"])  # type: ignore[call-overload]
    variables: dict[str, Any] = {"root": terms.operand(root)}
    names: dict[str, int] = {}
    for v, sort in q.variables:
        if sort == "T" and v.startswith("v_"):
            names[v[2:]] = int(values[v])  # type: ignore[call-overload]
            variables[v[2:]] = terms.operand(names[v[2:]])
    if none := next((v for v, n in names.items() if 0 in terms.types[n].shape), None):
        return f"?{none} has no elements, of which rules say nothing"
    env = Env(variables, functions)
    for v, lit in q.literals:
        if not same_number(terms.uniform[int(values[v])], float(lit.value)):  # type: ignore[call-overload]
            return ""
    reason = _bind(q, values, variables, env, terms)
    if reason is not None:
        return reason
    answer = holds(q.rule.where, env)
    inner = tuple(int(values[v]) for v, _ in q.variables if v.startswith("n_"))  # type: ignore[call-overload]
    return Match(env, names, root, inner) if answer else answer


def _fire(terms: Terms, rule: Rule, m: Match, together: tuple[Match, ...]) -> str | None:
    """Unite the root with the right side. `together`: the matches that `?v...` lists."""
    assert rule.rhs is not None
    before = together[: next(i for i, x in enumerate(together) if x is m)]

    def offset(operand: Operand, axis: int) -> int:
        """Elements along an axis of the siblings that stand before this one."""
        name = next(n for n, x in m.env.variables.items() if x is operand)
        return sum(dim_hint(terms.types[x.names[name]].shape[axis]) for x in before)

    env, first = Env(m.env.variables, {**m.env.functions, "offset": offset}) if rule.siblings else m.env, len(terms.types)
    listed = {v: tuple(x.names[v] for x in together) for v in m.names} if rule.siblings else {}
    try:
        made = _build(terms, rule, rule.rhs, m.names, env, terms.types[m.root].dtype, listed)
    except Unanswerable as e:
        return str(e)
    except ModelError as e:
        return f"the right side has no type: {e.what}"
    if terms.types[made] != terms.types[m.root]:
        raise RuleError(f"unites tensors of different types: {terms.types[m.root]} and {terms.types[made]}", where=rule.where_text,
                        hint="add a condition to `where` under which both sides have one type")  # fmt: skip
    if terms.engine.equal(made, m.root):
        return ""
    terms.engine.union(m.root, made)
    terms.united = True
    terms.fired.append((rule, m, first, len(terms.types)))
    return None


def _bind(q: Query, values: Mapping[str, object], variables: dict[str, Any], env: Env, terms: Terms) -> str | None:
    """Bind and compare attributes; the reason if they differ."""
    later = []
    for p, slot in q.slots:
        attrs = terms.engine.attrs_of(str(values[slot]))
        for name, e in p.attrs:
            if name not in attrs:  # a constant's dtype is its type's
                return f"this {p.op} has no attribute {name}"
            have = attrs[name]
            if isinstance(e, Ref):
                if e.name in variables and not _same(variables[e.name], have):
                    return ""
                variables[e.name] = have
            else:
                later.append((e, have))
    for e, have in later:
        try:
            want = e.name if isinstance(e, Word) else evaluate(e, env)
        except Unanswerable as x:
            return str(x)
        if not _same(want, have):
            return ""
    return None


def _same(a: Any, b: Any) -> bool:
    """Whether two attributes are one: of numbers the sign of zero counts."""
    return bool(a == b) and (not isinstance(b, float) or same_number(a, b))


def _build(terms: Terms, rule: Rule, p: Pattern, names: Mapping[str, int], env: Env, like: DType,
           listed: Mapping[str, tuple[int, ...]]) -> int:  # fmt: skip
    """The name of the term that a right side stands for. A bare number becomes a constant of the dtype beside it
    (`typed_by`), else of `like`; `?v...` stands for the tensors of `listed`."""
    if isinstance(p, Ref):
        return names[p.name]
    if isinstance(p, (Lit, Word)):
        value = p.value if isinstance(p, Lit) else p.name
        return _const(terms, value, TensorType(like, ()), rule.name)
    if p.op == "const":
        value, dtype = evaluate(dict(p.attrs)["value"], env), dict(p.attrs).get("dtype")
        name = evaluate(dtype, env) if dtype is not None else like.name
        if name not in DTYPES:
            raise ModelError(f"there is no dtype '{name}'", where="const")
        return _const(terms, value, TensorType(DTYPES[name], ()), rule.name)
    first, args = typed_by(p), tuple[int, ...]()
    head = None if first is None else _build(terms, rule, p.args[first], names, env, like, listed)
    beside = like if head is None else terms.types[head].dtype
    for i, a in enumerate(p.args):
        if isinstance(a, Ref) and a.rest:
            args += listed[a.name]
        elif head is not None and i == first:
            args += (head,)
        else:
            args += (_build(terms, rule, a, names, env, beside if is_number(a) else like, listed),)
    given = {k: (e.name if isinstance(e, Word) else evaluate(e, env)) for k, e in p.attrs}
    types = tuple(terms.types[a] for a in args)
    attrs = checked_attrs(p.op, given)
    return terms.add(p.op, attrs, args, inferred(p.op, types, attrs), rule.name)


def _const(terms: Terms, value: Any, t: TensorType, why: str) -> int:
    v = constant(value, t.dtype)
    return terms.add("const", typed("const", Attrs({"value": v}), t), (), t, why)
