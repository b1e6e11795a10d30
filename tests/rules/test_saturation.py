"""Saturation: facts belong to classes, budgets stop a rule that grows, a rule from Python is the rule from YAML."""

from __future__ import annotations

from dataclasses import replace

import pytest

import autocomp
from autocomp.egraph.saturate import saturate
from autocomp.errors import RuleError
from autocomp.frontends.text import parse
from autocomp.options import Options
from autocomp.rewrite import parse_rules
from autocomp.rewrite.decorator import op
from autocomp.rewrite.location import Location
from autocomp.rewrite.rule import Rule, RuleSet
from autocomp.trace import Trace
from tests.helpers.time_limits import within


def fired(graph: str, *rules: str, **options: object) -> tuple[dict[str, int], Trace]:
    """How often each rule fired on a graph, rules of one phase at a time in the order of phases."""
    trace = Trace()
    text = "\n".join(f"- {{{r}, why: a test}}" for r in rules) + "\n"
    saturate(parse(f"graph g\n{graph}\n"), RuleSet(tuple(parse_rules(text, "t.yaml"))), Options(**options), trace)  # type: ignore[arg-type]
    return {e.name: e.data["count"] for e in trace.of("rule")}, trace


ZERO = "name: a/zero, phase: algebra, lhs: 'sub(?x, ?x)', rhs: 'const(value=0.0)', where: [rank(?x) == 0]"
ADD = "name: a/add, phase: algebra, lhs: 'add(?x, 0)', rhs: '?x', commutes: true"
FOLD = "name: a/fold, phase: algebra, lhs: 'mul(?x, ?c)', rhs: 'mul(?c, ?x)', where: [is_constant(?c), not is_constant(?x)]"


def test_a_number_that_a_rule_found_is_known_of_every_form():
    """x - x is 0 once a rule says so; only then does y + (x - x) match y + 0."""
    graph = "input x: f32[]\ninput y: f32[3]\n%0 = sub(x, x)\n%1 = add(y, %0)\noutput z = %1"
    assert fired(graph, ADD)[0] == {}
    assert fired(graph, ZERO, ADD)[0] == {"a/zero": 1, "a/add": 1}


def test_rules_leave_alone_what_has_no_elements():
    """A checked rule is right of one row and more: the largest of no rows is -inf, and relu of it 0."""
    attrs = "axes=?a, keepdims=?k"
    rule = f"name: a/relu, phase: algebra, lhs: 'relu(reduce_max(?x, {attrs}))', rhs: 'reduce_max(relu(?x), {attrs})'"
    for rows, fires in ((1, {"a/relu": 1}), (0, {})):
        assert fired(f"input x: f32[{rows}, 4]\n%0 = reduce_max(x, axes=[0])\n%1 = relu(%0)\noutput y = %1", rule)[0] == fires


def test_what_is_computed_from_a_class_that_became_constant_is_constant():
    graph = "input x: f32[]\ninput y: f32[3]\n%0 = sub(x, x)\n%1 = exp(%0)\n%2 = mul(y, %1)\noutput z = %2"
    assert fired(graph, FOLD)[0] == {}
    assert fired(graph, FOLD, ZERO)[0]["a/fold"] == 1


def test_a_cast_of_a_number_is_the_number_that_the_type_holds():
    graph = "input y: i32[3]\n%0 = cast(const(0.7, f32), to=\"i32\")\n%1 = add(y, %0)\noutput z = %1"
    assert fired(graph, ADD)[0] == {"a/add": 1}


BACK = "name: a/back, phase: algebra, lhs: 'neg(neg(?x))', rhs: '?x'"
TURN = "name: l/turn, phase: layout, lhs: 'exp(?x)', rhs: 'transpose(tanh(?x), perm=[1, 0])'"
BEHIND = "name: l/behind, phase: layout, lhs: 'neg(transpose(?x, perm=?p))', rhs: 'transpose(neg(?x), perm=?p)'"


@pytest.mark.parametrize(("lhs", "rhs"), [
    ("ge(mul(?x, 2), 0)", "ge(?x, 0)"),
    ("ge(mul(?x, 2), 0)", "where(ge(?x, 0), true, const(value=false))"),
    ("where(ge(mul(?x, 2), 0), -inf, ?x)", "where(gt(0, ?x), ?x, -inf)"),
])  # fmt: skip
def test_a_number_has_the_dtype_of_what_stands_beside_it(lhs, rhs):
    """Not that of the whole side, which a comparison makes bool."""
    graph = "input x: f32[3]\n%0 = mul(x, const(2.0, f32))\n%1 = ge(%0, const(0.0, f32))\n"
    graph += f"%2 = where(%1, const(-inf, f32), x)\noutput z = {'%2' if 'where' in lhs else '%1'}"
    assert fired(graph, f"name: a/number, phase: algebra, lhs: '{lhs}', rhs: '{rhs}'")[0] == {"a/number": 1}


def test_what_a_permutation_takes_to_one_tensor_is_one_tensor():
    """y = -(-y) is y turned twice as well: the tensor behind the second turn is the one behind the first, or the two go on for ever."""
    graph = "input x: f32[2, 2]\n%0 = exp(x)\n%1 = neg(%0)\n%2 = neg(%1)\noutput z = %2"
    counts, trace = fired(graph, BACK, TURN, BEHIND)
    assert 2 <= counts["l/behind"] <= 3
    assert not trace.of("budget")


GROW = "name: grow/exp, phase: algebra, lhs: exp(?x), rhs: 'mul(exp(?x), exp(sub(?x, ?x)))', exact: false, finite: true"


def test_a_rule_that_grows_is_stopped_and_reported():
    counts, trace = fired("input x: f32[2]\n%0 = exp(x)\noutput y = %0", GROW, phase_nodes=50)
    (budget,) = trace.of("budget")
    assert budget.name == "algebra"
    assert 50 < budget.data["nodes"] < 60
    assert budget.data["limit"] == 50
    assert budget.data["most_matches"] == f"grow/exp x{counts['grow/exp']}"


def test_the_budget_is_checked_between_the_matches_of_one_round():
    """Forty matches at once, each making three terms: the round ends in the middle."""
    graph = "\n".join(["input x: f32[2]", *(f"%{k} = exp({f'%{k - 1}' if k else 'x'})" for k in range(40)), "output y = %39"])
    counts, trace = fired(graph, GROW, phase_nodes=80)
    assert 80 < trace.of("budget")[0].data["nodes"] <= 84
    assert counts["grow/exp"] < 40


def test_rounds_are_counted():
    _, trace = fired("input x: f32[2]\n%0 = exp(x)\noutput y = %0", GROW, phase_iterations=2)
    assert trace.of("budget")[0].data | {"most_matches": ""} == {"iterations": 2, "limit": 2, "most_matches": ""}


AC = ("name: a/turn, phase: algebra, lhs: 'add(?x, ?y)', rhs: 'add(?y, ?x)'",
      "name: a/move, phase: algebra, lhs: 'add(add(?x, ?y), ?z)', rhs: 'add(?x, add(?y, ?z))', exact: false")  # fmt: skip
INPUTS = "\n".join(f"input x{k}: f32[3]" for k in range(30))
SUM = "\n".join([INPUTS, "%0 = add(x0, x1)", *(f"%{k - 1} = add(%{k - 2}, x{k})" for k in range(2, 30))])


def test_a_rule_that_grows_leaves_room_for_others():
    """Sums in every order would fill any e-graph; another rule of the phase still comes to each of its matches."""
    back = "name: a/back, phase: algebra, lhs: 'neg(neg(?x))', rhs: '?x'"
    signs = "\n".join(f"%n{k} = neg(x{k})\n%m{k} = neg(%n{k})" for k in range(30))
    with within(60):
        counts, trace = fired(f"{SUM}\n{signs}\n%z = add(%28, %m7)\noutput y = %z", *AC, back)
    assert counts["a/back"] >= 1
    assert trace.of("budget")
    assert all("nodes" in e.data or "matches" in e.data or "rule" in e.data for e in trace.of("budget"))
    assert trace.of("phase")[0].data["terms"] < 4000


def test_budgets_are_counts_and_two_runs_choose_alike():
    runs = [fired(f"{SUM}\noutput y = %28", *AC) for _ in range(2)]
    said = [[e.data for e in t.of("budget")] for _, t in runs]
    assert runs[0][0] == runs[1][0]
    assert said[0] == said[1] != []


def test_a_left_side_that_would_match_too_often_is_not_asked():
    """Five sums in one another over classes of many sums: counted before egglog is asked, which cannot be stopped."""
    lhs = "add(add(add(add(add(?a, ?b), ?c), ?d), ?e), ?f)"
    deep = f"name: a/deep, phase: algebra, lhs: '{lhs}', rhs: 'add(?a, ?b)', where: [rank(?a) == 9]"
    with within(60):
        _, trace = fired(f"{SUM}\noutput y = %28", *AC, deep)
    (rest,) = (e.data["limit"] for e in trace.of("budget") if e.data.get("rule") == "a/deep")
    assert rest.endswith(" matches, at most 21180")


def test_a_reached_budget_is_in_the_explanation():
    rule = parse_rules(f"- {{{GROW}, why: grows}}\n", "grow.yaml")[0]
    program = autocomp.optimize("graph g\ninput x: f32[2, 3]\n%1 = exp(x)\noutput y = %1\n", rules=[rule], phase_nodes=30, cache=False)
    assert "budget reached in phase algebra: nodes 3" in program.explain()


# ---- rules from Python
def nowhere(r: Rule) -> Rule:
    """The rule without where it was written: places in files and in texts."""
    at = Location("here")
    return replace(r, location=at, examples=tuple(replace(e, location=at) for e in r.examples))


@autocomp.rule(phase="algebra", name="my/double", exact=False, where=["is_float(?x)"], commutes=True,
               examples=[{"x": "f64[3]"}, {"x": "i32[3]", "fires": False}], requires=["fuse_bn_add"])  # fmt: skip
def double(x):
    "one product instead of a sum"
    return op.add(x, x), op.mul(x, 2)


@autocomp.rule(phase="fusion", name="my/row", lhs="map(?f, load(store(?k)), ?rest...)", rhs="map(?f, ?k, ?rest...)",
               where=["kind(?k) == elementwise", "ops(?k) <= option(max_body_ops)"])  # fmt: skip
def row():
    "made and read at the same point"


@autocomp.rule(phase="tiling", name="my/tile", match="contract(m: ?M, n: ?N, k: ?K)", rhs="tile(m: ?bm, n: ?bn)",
               choose={"bm": [64, 128], "bn": [32]}, where=["legal(tile)"], targets=["cpu"])  # fmt: skip
def tile():
    "two sizes"


SAME = {
    "my/double": (double, """
- name: my/double
  phase: algebra
  lhs: add(?x, ?x)
  rhs: mul(?x, 2)
  where: [is_float(?x)]
  exact: false
  commutes: true
  requires: [fuse_bn_add]
  why: one product instead of a sum
  examples:
    - {x: "f64[3]"}
    - {x: "i32[3]", fires: false}
"""),
    "my/row": (row, """
- name: my/row
  phase: fusion
  lhs: map(?f, load(store(?k)), ?rest...)
  rhs: map(?f, ?k, ?rest...)
  where: [kind(?k) == elementwise, ops(?k) <= option(max_body_ops)]
  why: made and read at the same point
"""),
    "my/tile": (tile, """
- name: my/tile
  phase: tiling
  match: "contract(m: ?M, n: ?N, k: ?K)"
  choose: {bm: [64, 128], bn: [32]}
  where: [legal(tile)]
  rhs: "tile(m: ?bm, n: ?bn)"
  targets: [cpu]
  why: two sizes
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_a_rule_from_python_is_the_rule_from_yaml(name):
    python, text = SAME[name]
    (yaml,) = parse_rules(text, "same.yaml")
    assert nowhere(python) == nowhere(yaml)
    assert python.text == yaml.text


def test_a_rule_from_python_is_used_and_refused_like_one_from_a_file():
    graph = "graph g\ninput x: f32[8]\n%0 = tanh(x)\n%1 = add(%0, %0)\noutput y = %1\n"
    trace = Trace()
    assert autocomp.optimize(graph, rules=[double], trace=trace, cache=False).verify().ratio <= 1
    assert any(e.name == "my/double" for e in trace.of("rule"))

    @autocomp.rule(phase="algebra", name="my/wrong", examples=[{"x": "f64[2]"}])
    def wrong(x):
        return op.neg(x), x

    with pytest.raises(RuleError, match=r"test_saturation.py:\d+:1 rule 'my/wrong': is refuted: for \?x: f64\[2\]"):
        autocomp.optimize(graph, rules=[wrong])
    with pytest.raises(RuleError, match=r"test_saturation.py:\d+:1 rule 'algebra/lost': \?z is not bound by the pattern"):
        autocomp.rule(phase="algebra", lhs="neg(?x)", rhs="?z")(lost)


def lost():
    """A rule whose right side speaks of what the left side does not bind."""


def test_a_scale_that_goes_into_filters_and_out_again_is_the_same_one():
    """Each round gave it one more reshape, so that a quantised convolution used up all rounds (40) of the phase."""
    text = """graph g
input x: u8[1, 8, 7, 7]
param w: i8[16, 8, 3, 3] = random(1)
param s: f32[16] = random(2)
%0 = cast(x, to="f32")
%1 = mul(%0, const(0.02, f32))
%2 = cast(w, to="f32")
%3 = reshape(s, shape=[16, 1, 1, 1])
%4 = mul(%2, %3)
%5 = conv(%1, %4, dilations=[1, 1], groups=1, hi=[1, 1], layout="nchw", lo=[1, 1], strides=[1, 1])
output y = %5
"""
    trace = autocomp.Trace()
    autocomp.optimize(text, trace=trace, cache=False)
    assert not list(trace.of("budget"))
    counts = {e.name: e.data["count"] for e in trace.of("rule")}
    assert counts["quantised/windows-of-integers"] == 1 and counts["quantised/scale-of-filters"] < 20
