"""The checker against rules as people write them: wrong ones whose examples hold (`sets/wrong.yaml`), right ones that look odd
(`sets/right.yaml`). Both sets were written before the checker drew instances of its own, which then accepted 85 of the wrong ones.
A second pair of sets (`*_of_many_ops.yaml`) was written later, by someone who had not seen the first: 6 of its wrong ones were accepted
then, 2 as proved. Of a third one (`*_at_edges.yaml`) 5 were: thresholds behind which a function of doubles is said to be done, and numbers
that are close to what the rule takes them for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from autocomp.frontends.text import parse
from autocomp.rewrite import check_rule, forms, parse_rules
from autocomp.rewrite.check import CheckResult, idle
from autocomp.rewrite.compare import defined
from autocomp.rewrite.draw import Drawer
from autocomp.rewrite.forms import Forms
from autocomp.rewrite.rule import Rule
from tests.helpers.repeats import repeats

SETS = Path(__file__).parent / "sets"


@cache
def rules(name: str) -> tuple[Rule, ...]:
    return tuple(parse_rules((SETS / f"{name}.yaml").read_text(), f"{name}.yaml"))


@cache
def results(name: str, ranks: tuple[tuple[int, int], ...] = forms.RANKS) -> dict[str, CheckResult]:
    if name.startswith("wrong"):
        return {r.name: check_rule(r, 10) for r in rules(name)}
    return {r.name: check_rule(r, 2, prove=False) for r in rules(name)}  # right ones are drawn by all who use rules


@pytest.mark.parametrize(("name", "many"), [("wrong", 100), ("wrong_of_many_ops", 60), ("wrong_at_edges", 60)])
def test_wrong_rules_are_refused(name: str, many: int):
    accepted = {n: c.status for n, c in results(name).items() if c.status != "refuted"}
    assert len(rules(name)) >= many
    assert not [n for n, s in accepted.items() if s == "proved"]
    assert len(accepted) <= 0.02 * len(rules(name)), accepted


@pytest.mark.parametrize("ranks", [forms.RANKS[:2], repeats(forms.RANKS, of="smaller ranks")], ids=["small", "all"])
@pytest.mark.parametrize(("name", "many"), [("right", 30), ("right_of_many_ops", 15), ("right_at_edges", 30)])
def test_right_rules_are_not_refused(name: str, many: int, ranks: tuple[tuple[int, int], ...], monkeypatch: pytest.MonkeyPatch):
    """`ranks`: of the forms whose types are compared; values are compared on drawn instances of all ranks."""
    monkeypatch.setattr(forms, "RANKS", ranks)
    monkeypatch.setattr("autocomp.rewrite.check._KNOWN", {})
    assert len(rules(name)) >= many
    assert {n: c.detail for n, c in results(name, ranks).items() if c.status in ("refuted", "assumed")} == {}


def test_most_wrong_rules_hold_on_their_authors_examples(monkeypatch: pytest.MonkeyPatch):
    """What the set is for: without drawn instances, and forms that are made, a good part of it would pass."""
    monkeypatch.setattr(Drawer, "draws", lambda self, count, tries: iter(()))
    monkeypatch.setattr("autocomp.rewrite.check.all_forms", lambda rule: Forms())
    monkeypatch.setattr("autocomp.rewrite.check._KNOWN", {})
    accepted = [r.name for r in rules("wrong") if check_rule(r, 1, prove=False).status != "refuted"]
    assert len(accepted) >= 30, accepted


def named(name: str) -> Rule:
    return next(r for r in (*rules("wrong"), *rules("right")) if r.name == name)


@pytest.mark.parametrize(("name", "says"), [
    ("wrong/zero-loses-sign", "left 0.0, right -0.0"),
    ("wrong/one-without-shape", "the number 1.0 as "),
    ("wrong/absorption", "nan"),
    ("wrong/softmax-without-maximum", "right nan"),
    ("wrong/product-in-half", "f16"),
    ("wrong/narrow-product", "i8["),
    ("wrong/pad-after-crop", "?a = ["),
    ("wrong/any-quotient-is-an-eighth", "?c = "),
    ("wrong/quotients-of-integers", "?a: i"),
    ("wrong/quotient-by-reciprocal", "inf"),
    ("wrong/f32-quotient-by-reciprocal", "inf"),
])  # fmt: skip
def test_the_counterexample_says_for_what(name: str, says: str):
    assert says in check_rule(named(name), 20).detail


def test_a_proof_says_for_what_it_is():
    found = check_rule(named("right/permutations"), 10)
    assert (found.status, found.detail) == ("proved", "over the reals, any sizes, every form of floats of rank up to 3")


def test_a_rule_that_asks_for_finite_values_may_spread_nan_and_nothing_else():
    """Winograd's transforms and columns in front of a line do so; an overflow or a wrong number is still refused."""
    text = "- name: a/b\n  phase: algebra\n  exact: false\n  finite: true\n  lhs: mul(?x, 0)\n"
    text += "  rhs: broadcast(const(value=%s), shape=shape(?root))\n"
    assert check_rule(parse_rules(text % "0", "a.yaml")[0], 10).status != "refuted"
    assert check_rule(parse_rules(text % "1", "a.yaml")[0], 10).status == "refuted"
    assert check_rule(replace(named("wrong/softmax-without-maximum"), finite=True), 10).status == "refuted"


@pytest.mark.parametrize("lhs", [
    "softmax(?x, axes=?a)", "mul(reduce_mean(?x, axes=?a, keepdims=true), 2)",
    "avgpool(?x, window=?w, strides=?t, lo=?l, hi=?h, dilations=?d)",
])  # fmt: skip
def test_a_rule_that_can_never_fire_is_told_so(lhs: str):
    rule = parse_rules(f"- name: a/b\n  phase: algebra\n  lhs: {lhs}\n  rhs: {lhs}\n", "a.yaml")[0]
    op = "reduce_mean" if "mean" in lhs else lhs.partition("(")[0]
    assert idle(rule).startswith(f"never fires: {op} is written out in other ops")
    assert check_rule(rule, 4).note == idle(rule)


def test_siblings_are_drawn_two_at_a_time():
    """A part's offset among its siblings matters only where there are several."""
    text = """
- name: wrong/sibling
  phase: algebra
  siblings: [x]
  lhs: matmul(?x, ?w)
  rhs: slice(matmul(?x, concat(?w..., axis=1)), starts=repeat(0, rank(?x)), limits=shape(?root), steps=repeat(1, rank(?x)))
  where: [is_constant(?w), not is_constant(?x), rank(?w) == 2, rank(?x) >= 2]
  exact: false
"""
    assert "element [" in check_rule(parse_rules(text, "a.yaml")[0], 10).detail


INDEXED = ('sum_at(i, x, axis=0, size=60, dtype="i64")', 'scatter_elements(x, i, x, axis=0, reduction="add")', "gather(x, i, axis=0)")


@pytest.mark.parametrize("node", INDEXED)
def test_indices_are_mostly_of_elements_whatever_the_other_values_are(node: str):
    """Those of whole ranges are outside: a scatter has no meaning then, a sum at indices is zeros, and no large value is ever compared."""
    root = parse(f"graph g\ninput x: i8[60]\ninput i: i64[60]\n%0 = {node}\noutput y = %0\n").outputs[0][1]
    fed = {"x": np.zeros(60, np.int8), "i": np.full(60, 2**40)}
    i = defined(np.random.default_rng(0), root, fed)["i"]
    inside = ((i >= -60) & (i < 60)).mean()
    assert inside == 1 if "scatter" in node else 0.5 < inside < 1


def test_sums_at_indices_are_drawn_wider_than_their_terms():
    rule = next(r for r in rules("wrong_of_many_ops") if r.name == "wrong/negative-of-a-wider-sum-at")
    assert "?d = i" in check_rule(rule, 4, prove=False).detail
