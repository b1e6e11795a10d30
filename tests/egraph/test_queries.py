"""Rules that no tensor of a model can match are not declared; those that another rule makes matchable are."""

from __future__ import annotations

from autocomp.egraph.queries import matchable, ops_of
from autocomp.ir.ops import OPS
from autocomp.rewrite import load_rules
from autocomp.rewrite.vocabulary import GRAPH_PHASES


def test_rules_are_matchable_by_the_ops_of_a_model_and_of_other_rules() -> None:
    rules = load_rules()
    for phase in GRAPH_PHASES:
        every = rules.of(phase)
        assert matchable(every, OPS) == tuple(every)
        assert all(not ops_of(r.lhs) - {"const"} for r in matchable(every, ()))
        assert all(r in matchable(every, ops_of(r.lhs)) for r in every)
        through = [(r, s) for r in every for s in every if ops_of(s.lhs) - ops_of(r.lhs) and ops_of(s.lhs) <= ops_of(r.rhs)]
        assert all(s in matchable(every, ops_of(r.lhs)) for r, s in through)
