"""Every shipped rule is sound, fires on its positive examples and stays away from its negative ones; what bad rules give."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.egraph.examples import check_examples, fires
from autocomp.errors import RuleError
from autocomp.rewrite import check_rule, forms, load_rules, parse_rules
from autocomp.rewrite.check import compare, instances
from autocomp.rewrite.feeds import EXACT_KINDS, LOOSE_KINDS
from autocomp.rewrite.instance import Uniform, type_of
from autocomp.rewrite.vocabulary import GRAPH_PHASES
from tests.helpers.repeats import repeats

RULES = load_rules()
SHIPPED = [r for r in RULES if r.phase in GRAPH_PHASES]
RUN = [r for r in RULES if r.phase in (*GRAPH_PHASES, "fusion")]


FIRST = {str(r.location): r for r in reversed(SHIPPED)}  # of each entry: one for many ops is a rule for each of them
OTHERS = [r for r in SHIPPED if r is not FIRST[str(r.location)]]


@pytest.mark.parametrize("rule", [repeats(r, of=f"{FIRST[str(r.location)].name} with another op") if r in OTHERS else r for r in SHIPPED],
                         ids=lambda r: r.name)  # fmt: skip
@pytest.mark.parametrize("ranks", [forms.RANKS[:3], repeats(forms.RANKS, of="smaller ranks")], ids=["small", "all"])
def test_both_sides_agree(rule, ranks, monkeypatch):
    """`ranks`: of the forms that are all made; those that are drawn have any."""
    monkeypatch.setattr(forms, "RANKS", ranks)
    monkeypatch.setattr("autocomp.rewrite.check._KNOWN", {})
    result = check_rule(rule, 6)
    assert result.status == "proved" or result.status.startswith("tested-"), result
    assert result.tests >= 2
    assert rule.why


@pytest.mark.parametrize("rule", OTHERS, ids=lambda r: r.name)
def test_both_sides_agree_with_each_op_of_an_entry(rule):
    """What an entry says of shapes is checked with its first op; with the others it is their numbers that may differ."""
    tests = 0
    shown = (dict(e.bindings) for e in rule.examples if e.fires and e.bindings)
    for k, bindings in enumerate((*shown, *instances(rule, 8))):
        for kind in EXACT_KINDS if rule.exact else LOOSE_KINDS:
            found = compare(rule, bindings, k, kind)
            assert not isinstance(found, str), found
            tests += found
    assert tests >= 5


@pytest.mark.parametrize("rule", RUN, ids=lambda r: r.name)
def test_it_fires_where_it_says_and_nowhere_else(rule):
    assert any(e.fires for e in rule.examples)
    assert not all(e.fires for e in rule.examples), "no negative example"
    assert not check_examples(rule, RULES)


def rule_of(body: str):
    return parse_rules(f"- {{name: my/rule, phase: algebra, why: a test, {body}}}\n", "my.yaml")[0]


def test_an_example_that_claims_the_opposite_is_found():
    wrong = rule_of("lhs: neg(neg(?x)), rhs: '?x', examples: [{x: 'f64[2]', fires: false}]")
    assert check_examples(wrong, RULES) == "the negative example at my.yaml:1:89 fires"
    wrong = rule_of("lhs: neg(neg(?x)), rhs: '?x', examples: [{graph: 'input x: f32[2]; %0 = neg(x); output y = %0'}]")
    assert check_examples(wrong, RULES) == "the positive example at my.yaml:1:89 does not fire"


def test_an_example_may_carry_constants():
    rule = next(r for r in RULES if r.name == "idioms/gelu")
    numbers = next(e for e in rule.examples if e.fires)
    assert dict(numbers.bindings)["h"] == 0.5
    assert fires(rule, numbers, RULES)


@pytest.mark.parametrize(("body", "detail"), [
    ("lhs: neg(?x), rhs: '?x', examples: [{x: 'f64[2, 3]'}]",
     "for ?x: f64[2, 3] (seed 0) element [0, 0]: left -2.0, right 2.0; ?x = [[2.0, 1.0, 0.0], [-2.0, -1.0, -3.0]]"),
    ("lhs: 'transpose(?x, perm=?p)', rhs: '?x', examples: [{x: 'f64[2, 3]', p: [1, 0]}]",
     "unites f64[3, 2] with f64[2, 3] for ?x: f64[2, 3]"),
    ("lhs: 'sub(?x, ?x)', rhs: 'mul(?x, 0)', examples: [{x: 'f64[2]'}]", "left 0.0, right -0.0"),
    ("lhs: 'sub(?x, ?x)', rhs: 'mul(?x, 0)', exact: false, examples: [{x: 'f64[2]'}]", None),     # equal, inf and NaN too
    ("lhs: 'mul(?x, 0)', rhs: 'sub(?x, ?x)', where: [shape(?root) == shape(?x)], exact: false, examples: [{x: 'f64[2]'}]", None),
    ("lhs: 'max(?x, ?c)', rhs: 'relu(?x)', where: [is_float(?x), value(?c) == 0, rank(?c) == 0], examples: [{x: 'f64[3]', c: 0}]",
     "left -0.0, right 0.0"),
    ("lhs: 'max(?x, 0)', rhs: 'relu(?x)', where: [is_float(?x), shape(?root) == shape(?x)], examples: [{x: 'f64[3]'}]", None),
    ("lhs: 'max(?x, ?y)', rhs: 'max(?y, ?x)', examples: [{x: 'f64[3]', y: 'f64[3]'}]", None),
    ("lhs: 'max(?x, ?x)', rhs: 'abs(?x)', where: [is_int(?x)], examples: [{x: 'i32[3]'}]", ": left -"),
    ("lhs: 'div(mul(?x, ?c), ?c)', rhs: '?x', where: [rank(?c) == 0], examples: [{x: 'f64[3]', c: 3}]", "element ["),
])  # fmt: skip
def test_wrong_rules_are_refuted_with_a_counterexample(body, detail):
    result = check_rule(rule_of(body), 20)
    if detail is None:
        assert result.status != "refuted", result
    else:
        assert result.status == "refuted"
        assert detail in result.detail


def test_instances_have_odd_shapes_and_several_dtypes():
    """Whatever the example: other ranks, extents of 1, primes, equal and unequal ones, every kind of element, permutations of all sorts."""
    rule = rule_of("lhs: 'transpose(?x, perm=?p)', rhs: '?x', examples: [{x: 'f64[4, 6, 1]', p: [1, 0, 2]}]")
    drawn = list(instances(rule, 80))
    types = [t for b in drawn if (t := type_of(b["x"]))]
    assert {"f64", "f32", "f16", "bf16", "i32", "u8"} <= {t.dtype.name for t in types}
    assert {2, 3, 4} <= {t.rank for t in types}
    assert any(1 in t.shape for t in types)
    assert any(7 in t.shape for t in types)
    assert any(t.rank > 2 and len(set(t.shape)) == 1 for t in types)
    assert any(t.rank > 2 and len(set(t.shape)) == t.rank for t in types)
    turned = [b["p"] for b in drawn]
    assert any(tuple(p[k] for k in p) != tuple(range(len(p))) for p in turned), "every permutation is its own inverse"


@pytest.mark.parametrize("number", ["0", "-0.0"])
def test_a_number_of_the_left_side_is_drawn_as_a_tensor_and_with_its_own_sign(number):
    rule = rule_of(f"lhs: 'sub(?x, {number})', rhs: '?x', where: [is_float(?x)], exact: false, examples: [{{x: 'f64[4]'}}]")
    zeros = [v for b in instances(rule, 80) for v in b.values() if isinstance(v, Uniform)]
    assert any(v.type.shape for v in zeros)
    assert {str(v.value) for v in zeros} == {str(float(number))}


def test_an_instance_that_the_conditions_refuse_counts_for_nothing():
    rule = rule_of("lhs: neg(?x), rhs: '?x', where: [rank(?x) == 7], examples: [{x: 'f64[2]'}]")
    assert compare(rule, {"x": "f64[2]"}, 0) == 0
    assert "is refused: rank(?x) == 7 is false: rank(?x) is 1" in check_rule(rule).detail


def test_a_rule_that_unites_different_types_stops_the_run(tmp_path):
    bad = "- {name: bad/t, phase: algebra, lhs: 'transpose(?x, perm=?p)', rhs: '?x', assumed: true, why: wrong}\n"
    (tmp_path / "bad.yaml").write_text(bad)
    text = "graph g\ninput x: f32[2, 3]\n%0 = transpose(x, perm=[1, 0])\n%1 = exp(%0)\noutput y = %1\n"
    with pytest.raises(RuleError, match=r"bad.yaml:1:3 rule 'bad/t': unites tensors of different types: f32\[3, 2\] and f32\[2, 3\]"):
        autocomp.optimize(text, rules=[str(tmp_path / "bad.yaml")])


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
    text = "graph g\ninput x: f32[3]\n%0 = broadcast(const(0.0, f32), shape=[2, 3])\n%1 = max(x, %0)\noutput y = %1\n"
    x = np.array([-1, 0, 2], "f4")
    np.testing.assert_array_equal(autocomp.optimize(text)(x), np.broadcast_to(np.maximum(x, 0), (2, 3)))


@pytest.mark.parametrize("body", [
    "%3 = mul(x, const(0.5, f32))\n%4 = mul(%3, %2)", "%3 = mul(x, %2)\n%4 = mul(%3, const(0.5, f32))",
])  # fmt: skip
def test_written_out_gelu_is_recognised(body):
    head = "graph g\ninput x: f32[3, 4]\n%0 = div(x, const(1.4142135, f32))\n%1 = erf(%0)\n%2 = add(%1, const(1.0, f32))\n"
    program = autocomp.optimize(f"{head}{body}\noutput y = %4\n")
    assert program.kernels[0].ops == ("gelu",)
    assert program.verify().ratio <= 1
