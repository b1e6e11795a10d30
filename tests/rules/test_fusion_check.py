"""Fusion rules are checked by what the kernels mean of which they admit bodies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autocomp.check import bodies
from autocomp.check.bodies import check_fusion_rule, graphs, meaning
from autocomp.cost.chip import load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import freeze_graph
from autocomp.frontends.text import parse
from autocomp.ir.body import Map, rewrite
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import KernelGraph
from autocomp.options import Options
from autocomp.report.rulecheck import check_one
from autocomp.rewrite import load_rules, parse_rules
from autocomp.trace import Trace

RULES = load_rules()
FUSION = [r.name for r in RULES.of("fusion")]


@pytest.mark.parametrize("name", FUSION)
def test_each_shipped_rule_of_bodies_makes_kernels_that_mean_what_their_graphs_say(name: str):
    found = check_fusion_rule(RULES[name], RULES, 2)
    assert found.status.startswith("checked-"), found.detail


def changed(program: KernelGraph) -> KernelGraph:
    """Its kernels with a sum where they take a difference."""
    other = lambda e: replace(e, fn="add") if isinstance(e, Map) and e.fn == "sub" else e
    kernel = lambda k: replace(k, stores=tuple(replace(s, value=rewrite(s.value, other)) for s in k.stores))
    return replace(program, calls=tuple(replace(c, kernel=kernel(c.kernel)) for c in program.calls))


def test_a_rule_whose_kernels_mean_something_else_is_refuted_with_its_graph(monkeypatch: pytest.MonkeyPatch):
    right = bodies.program_of
    monkeypatch.setattr(bodies, "program_of", lambda *of: changed(right(*of)))
    found = check_one(RULES["fusion/row-statistic"], RULES, 4)
    assert found.status == "refuted"
    assert "kernels make y" in found.detail and " sub(" in found.detail


def test_a_rule_that_admits_nothing_is_only_assumed():
    text = "- name: mine/never\n  phase: fusion\n  lhs: map(?f, load(store(?k)), ?rest...)\n  rhs: map(?f, ?k, ?rest...)\n"
    (rule,) = parse_rules(f"{text}  where: [elements(?k) < 0]\n  why: a test\n", "mine.yaml")
    found = check_fusion_rule(rule, RULES, 1)
    assert found.status == "assumed" and found.detail == "it fires in none of 16 drawn graphs"


def test_graphs_are_drawn_alike():
    assert [bodies._line(g) for g in graphs(3, 5)] == [bodies._line(g) for g in graphs(3, 5)]


def test_a_kernel_of_one_number_has_a_meaning():
    graph = parse("graph g\ninput x: f32[3, 4]\n%0 = reduce_sum(x, axes=[0, 1])\noutput y = %0\n")
    program = cover(freeze_graph(decompose(graph)), RULES, load_chip("h200"), Options(), Trace())
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert meaning(program, {"x": x})["y"] == 66
