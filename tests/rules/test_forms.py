"""All forms of a left side: none is left out, what leaves one out is no proof, and a rule that unites two types for one of them is refused
without luck."""

from __future__ import annotations

from itertools import combinations

import pytest

from autocomp.rewrite import check_rule, load_rules, parse_rules
from autocomp.rewrite import forms as of_forms
from autocomp.rewrite.draw import Drawer
from autocomp.rewrite.forms import SIZES, all_forms, most_general, wrong_type
from autocomp.rewrite.mutate import mutants
from autocomp.rewrite.rule import Rule

RULES = load_rules()
OUT = "algebra/scales-out-of-product"


def rule(body: str) -> Rule:
    return parse_rules(f"- {{name: a/b, phase: algebra, why: a test, {body}}}\n", "a.yaml")[0]


def shapes(r: Rule) -> set[tuple[str, ...]]:
    return {tuple(str(v).removeprefix("f64") for v in x.bindings.values()) for x in all_forms(r).instances}


def test_every_way_in_which_two_shapes_broadcast_is_there_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(of_forms, "RANKS", ((1, 1), (2, 2)))
    found = shapes(rule("lhs: 'add(?x, ?y)', rhs: 'add(?y, ?x)'"))
    assert {x for x in found if all(len(s) <= len("[2]") for s in x)} == {
        ("[]", "[]"), ("[]", "[1]"), ("[]", "[2]"), ("[1]", "[]"), ("[2]", "[]"), ("[1]", "[1]"), ("[1]", "[2]"), ("[2]", "[1]"),
        ("[2]", "[2]"),
    }  # fmt: skip
    assert ("[2, 3]", "[3]") in found
    assert ("[2, 2]", "[2]") in found
    assert ("[2]", "[3, 2]") in found
    assert ("[2]", "[2, 2]") in found
    assert ("[2, 1]", "[1, 3]") in found
    assert not any("7" in s for x in found for s in x)


def test_a_size_is_no_sum_of_others():
    """A joined axis of 2 + 3 elements is no axis of 5 that happens to be there."""
    assert not {sum(c) for k in (2, 3) for c in combinations(SIZES, k)} & {*SIZES}


@pytest.mark.parametrize("compared", ["?x", "?y"])
@pytest.mark.parametrize("by", ["<=", ">="])
def test_a_condition_that_lets_a_rank_grow_is_refused_without_luck(compared: str, by: str, monkeypatch: pytest.MonkeyPatch):
    """A vector y times a uniform d of a higher rank is a product of another rank. It was called proved where no such instance was drawn,
    since a proof was for the ranks that it was made on."""
    monkeypatch.setattr(Drawer, "draws", lambda self, count, tries: iter(()))
    monkeypatch.setattr("autocomp.rewrite.check.SIZED", 0)
    monkeypatch.setattr(of_forms, "RANKS", ((1, 1), (1, 3), (2, 2)))
    what = f" {by} shape({compared}) for the condition"
    (changed,) = (m.rule for m in mutants(RULES[OUT]) if what in m.what)
    unites, how = wrong_type(all_forms(changed)) or ({}, "")
    assert unites and how.startswith("unites f64[")
    assert check_rule(changed, 1, prove=False).status == "refuted"


@pytest.mark.parametrize(("body", "why"), [
    ("lhs: 'cumsum(?x, axis=?a)', rhs: 'cumsum(?x, axis=?a)', where: ['dim(?x, ?a) > 4']",
     "a condition compares sizes: dim(?x, ?a) > 4"),
    ("lhs: 'mul(?x, 1)', rhs: '?x', where: ['dim(?x, 0) == 3']", "a condition compares sizes: dim(?x, 0) == 3"),
    ("lhs: 'pad(?x, lo=?l, hi=?h, value=?v)', rhs: 'pad(?x, lo=?l, hi=?h, value=?v)'", "?l, ?h, ?v may be any numbers"),
    ("lhs: 'reshape(?x, shape=?s)', rhs: 'reshape(?x, shape=?s)'", "?s may be any numbers"),
    ("lhs: 'mul(?x, ?c)', rhs: 'mul(?c, ?x)', where: ['value(?c) > 1000000']", "no numbers were found for value(?c) > 1000000"),
    ("lhs: 'exp(?x)', rhs: 'exp(?x)', where: ['rank(?x) > 6']", "no form was found"),
])  # fmt: skip
def test_a_rule_whose_forms_are_not_all_there_is_not_proved(body: str, why: str):
    assert all_forms(rule(body)).why == why


def test_a_right_side_without_a_meaning_for_some_forms_is_no_proof():
    narrow = rule("lhs: 'exp(?x)', rhs: 'transpose(transpose(exp(?x), perm=[1, 0]), perm=[1, 0])', examples: [{x: 'f64[2, 3]'}]")
    found = check_rule(narrow, 4)
    assert found.status.startswith("tested-")
    assert found.detail.startswith("no proof: the right side has no meaning for every form")


def test_the_most_general_forms_stand_for_those_whose_sizes_are_equal_or_1():
    product = rule("lhs: 'matmul(?x, ?y)', rhs: 'matmul(?x, ?y)', where: ['rank(?x) == 2', 'rank(?y) == 2']")
    found = all_forms(product)
    assert len(found.instances) > 5
    assert [{**x.bindings} for x in most_general(product, found)] == [{"x": "f64[2, 3]", "y": "f64[3, 7]"}]
