"""Rules that no tensor of a model can match are not declared; those that another rule makes matchable are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from autocomp.egraph.engine import Engine
from autocomp.egraph.frozen import Frozen
from autocomp.egraph.kept import Pool
from autocomp.egraph.queries import matchable
from autocomp.egraph.saturate import saturate
from autocomp.frontends.text import parse
from autocomp.ir.ops import OPS
from autocomp.options import Options
from autocomp.rewrite import load_rules, parse_rules
from autocomp.rewrite.pattern import ops_of
from autocomp.rewrite.rule import Rule, RuleSet
from autocomp.rewrite.vocabulary import GRAPH_PHASES
from autocomp.trace import Trace


def test_rules_are_matchable_by_the_ops_of_a_model_and_of_other_rules() -> None:
    rules = load_rules()
    for phase in GRAPH_PHASES:
        every = rules.of(phase)
        assert matchable(every, OPS) == tuple(every)
        assert all(not ops_of(r.lhs) - {"const"} for r in matchable(every, ()))
        assert all(r in matchable(every, ops_of(r.lhs)) for r in every)
        through = [(r, s) for r in every for s in every if ops_of(s.lhs) - ops_of(r.lhs) and ops_of(s.lhs) <= ops_of(r.rhs)]
        assert all(s in matchable(every, ops_of(r.lhs)) for r, s in through)


GRAPH = "graph g\ninput x: f32[4, 6]\n%0 = transpose(x, perm=[1, 0])\n%1 = {op}(%0)\n%2 = transpose(%1, perm=[1, 0])\noutput y = %2\n"


def test_the_left_sides_of_a_phase_are_matched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, run = list[str](), Engine._run

    def record(engine: Engine, text: str, source: str = "graph") -> None:
        ran.append(text)
        run(engine, text, source)

    monkeypatch.setattr(Engine, "_run", record)
    saturate(parse(GRAPH.format(op="exp")), load_rules(), Options(), Trace())
    assert "(run-schedule phase_algebra)" in ran and not [x for x in ran if "_rule)" in x and x.startswith("(run-schedule")]


def test_left_sides_are_declared_once_for_graphs_of_the_same_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    declared, rule = list[str](), Engine.rule

    def count(engine: Engine, relation: str, *rest: Any) -> None:
        declared.append(relation)
        rule(engine, relation, *rest)

    def forms(op: str) -> Frozen:
        return saturate(parse(GRAPH.format(op=op)), rules, Options(), Trace())

    rules = RuleSet(parse_rules("""
- {name: l/turned, phase: layout, lhs: "exp(transpose(?x, perm=?p))", rhs: "transpose(exp(?x), perm=?p)", why: a test}
- {name: l/twice, phase: layout, lhs: "transpose(transpose(?x, perm=?p), perm=?q)", rhs: "transpose(?x, perm=compose(?q, ?p))", why: a test}
- {name: l/none, phase: layout, lhs: "transpose(?x, perm=?p)", rhs: "?x", where: ["?p == [0, 1]"], why: a test}
""", "t.yaml"))  # fmt: skip
    monkeypatch.setattr(Engine, "rule", count)
    first = forms("exp")
    assert len(declared) == 3
    monkeypatch.setattr("autocomp.egraph.saturate.FEW", 0)
    apart = forms("tanh")
    assert apart != first and len(declared) == 5  # no exp in it
    again = forms("exp")  # nothing of the first graph is left in it
    assert len(declared) == 5 and (again.classes, again.roots) == (first.classes, first.roots)
    assert {e.op for e in again.classes[dict(again.roots)["y"]].nodes} == {"exp", "transpose"}


def test_a_small_graph_is_matched_where_more_rules_are_declared_than_match_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An e-graph of another graph's rules serves where they have this one's among them in their order, and not many more."""
    fresh, made = list[Hashable](), Engine._fresh
    monkeypatch.setattr(Engine, "_fresh", lambda engine, name, declare: fresh.append(name) or made(engine, name, declare))  # type: ignore[func-returns-value]
    text = lambda name, op: f'- {{name: l/{name}, phase: layout, lhs: "{op}(neg(?x))", rhs: "{op}(?x)", where: ["?x == 0"], why: a test}}\n'
    parsed = parse_rules("".join(text(op, op) for op in ("neg", "abs", "sign")), "t.yaml")
    graph = lambda op: parse(f"graph g\ninput x: f32[4]\n%0 = neg(x)\n%1 = {op}(%0)\noutput y = %1\n")
    told: list[Trace] = []

    def forms(op: str, rules: Sequence[Rule]) -> Frozen:
        told.append(Trace())
        return saturate(graph(op), RuleSet(tuple(rules)), Options(), told[-1])

    forms("abs", parsed)
    assert [len(n) for n in fresh] == [2]  # type: ignore[arg-type]
    served = forms("neg", parsed)  # one of these two
    assert len(fresh) == 1
    forms("sign", parsed)  # has one that they have not
    assert len(fresh) == 2
    forms("abs", parsed[1::-1])  # in another order
    assert len(fresh) == 3
    none = forms("abs", parsed[:1])  # abs(neg(?x)) would match, were it in force
    assert len(fresh) == 4 and not [e for e in told[-1].of("reject") if e.name == "l/abs"]
    assert {n.op for c in none.classes.values() for n in c.nodes} == {"input", "neg", "abs"}
    monkeypatch.setattr("autocomp.egraph.queries.MORE", 1)
    monkeypatch.setattr("autocomp.egraph.engine._BASES", Pool())
    alone = forms("neg", parsed)
    assert len(fresh) == 5
    assert (alone.classes, alone.roots) == (served.classes, served.roots)
    rejects = [[(e.name, e.data) for e in t.of("reject")] for t in (told[1], told[-1])]
    assert rejects[0] == rejects[1] != []
