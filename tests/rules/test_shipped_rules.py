"""Every shipped rule of the graph phases is sound on its examples and fires where it says."""

from __future__ import annotations

import pytest

from autocomp.errors import RuleError
from autocomp.rewrite import check_rule, load_rules, parse_rules
from autocomp.rewrite.vocabulary import GRAPH_PHASES

SHIPPED = [r for r in load_rules() if r.phase in GRAPH_PHASES]


@pytest.mark.parametrize("rule", SHIPPED, ids=lambda r: r.name)
def test_both_sides_agree(rule):
    assert check_rule(rule, 10).status != "refuted", check_rule(rule, 10).detail
    assert rule.why


def test_a_wrong_rule_is_refuted_with_a_counterexample():
    text = "- {name: bad/neg, phase: algebra, lhs: neg(?x), rhs: '?x', examples: [{x: 'f64[2, 3]'}], why: wrong}\n"
    result = check_rule(parse_rules(text, "bad.yaml")[0], 5)
    assert result.status == "refuted"
    assert result.detail.startswith("for ?x: f64[2, 3] (seed 0) element [0, 0]: left ")


def test_a_rule_that_changes_the_shape_is_refuted():
    text = "- {name: bad/t, phase: algebra, lhs: 'transpose(?x, perm=?p)', rhs: '?x', why: wrong,\n"
    text += "   examples: [{x: 'f64[2, 3]', p: [1, 0]}]}\n"
    assert check_rule(parse_rules(text, "bad.yaml")[0], 5).detail == "unites f64[3, 2] with f64[2, 3] for ?x: f64[2, 3]"


def test_a_rule_that_unites_different_types_stops_the_run(tmp_path):
    import autocomp
    (tmp_path / "bad.yaml").write_text("- {name: bad/t, phase: algebra, lhs: 'transpose(?x, perm=?p)', rhs: '?x', why: wrong}\n")
    text = "graph g\ninput x: f32[2, 3]\n%0 = transpose(x, perm=[1, 0])\n%1 = exp(%0)\noutput y = %1\n"
    with pytest.raises(RuleError, match=r"bad.yaml:1:3 rule 'bad/t': unites tensors of different types: f32\[3, 2\] and f32\[2, 3\]"):
        autocomp.optimize(text, rules=[str(tmp_path / "bad.yaml")])


def test_a_blow_up_is_stopped_and_reported(tmp_path):
    import autocomp
    rule = "- {name: grow/exp, phase: algebra, lhs: exp(?x), rhs: 'mul(exp(?x), exp(sub(?x, ?x)))', why: grows}\n"
    (tmp_path / "grow.yaml").write_text(rule)
    text = "graph g\ninput x: f32[2, 3]\n%1 = exp(x)\noutput y = %1\n"
    trace = autocomp.Trace()
    autocomp.optimize(text, rules=[str(tmp_path / "grow.yaml")], trace=trace, phase_nodes=50)
    budget = trace.of("budget")
    assert [b.name for b in budget] == ["algebra"]
    assert "grow/exp" in budget[0].data["most_matches"]


@pytest.mark.parametrize(("text", "message"), [
    ("- {name: a/b, phase: algebra, lhs: exq(?x), rhs: '?x'}", "unknown op 'exq'"),
    ("- {name: a/b, phase: algebra, lhs: exp(?x), rhs: '?y'}", "?y is not bound by the pattern"),
    ("- {name: a/b, phase: algebra, lhs: exp(?x), rhs: '?x', wher: [1 == 1]}", "unknown field 'wher'\n  next: did you mean 'where'?"),
    ("- {name: a/b, phase: algebra, lhs: add(?x), rhs: '?x'}", "add takes 2 operands, got 1"),
    ("- {name: a/b, name: a/c}", "name"),
    ("- !!python/object/apply:os.system ['true']", "tag"),
    ("a: &x [1]\nb: *x", "anchor"),
    ("- {name: a/b, phase: cooking, lhs: exp(?x), rhs: '?x'}", "unknown phase 'cooking'"),
])  # fmt: skip
def test_bad_rule_files_say_where(text, message):
    with pytest.raises(RuleError) as e:
        parse_rules(text, "bad.yaml")
    assert message in str(e.value)
    assert str(e.value).startswith("bad.yaml:")


def test_an_idiom_does_not_drop_a_broadcast():
    import numpy as np

    import autocomp
    text = "graph g\ninput x: f32[3]\n%0 = broadcast(const(0.0, f32), shape=[2, 3])\n%1 = max(x, %0)\noutput y = %1\n"
    x = np.array([-1, 0, 2], "f4")
    np.testing.assert_array_equal(autocomp.optimize(text)(x), np.broadcast_to(np.maximum(x, 0), (2, 3)))


@pytest.mark.parametrize("body", [
    "%3 = mul(x, const(0.5, f32))\n%4 = mul(%3, %2)", "%3 = mul(x, %2)\n%4 = mul(%3, const(0.5, f32))",
])  # fmt: skip
def test_written_out_gelu_is_recognised(body):
    import autocomp
    head = "graph g\ninput x: f32[3, 4]\n%0 = div(x, const(1.4142135, f32))\n%1 = erf(%0)\n%2 = add(%1, const(1.0, f32))\n"
    program = autocomp.optimize(f"{head}{body}\noutput y = %4\n")
    assert program.kernels[0].ops == ("gelu",)
    assert program.verify().ratio <= 1
