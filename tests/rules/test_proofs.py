"""Proofs: shipped rules of arithmetic and of monoids are proved; a rule that is a little wrong, or a monoid that lies, is not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from autocomp.ir.monoids import MONOIDS
from autocomp.ir.parts import COUNTED
from autocomp.rewrite import check_rule, load_rules, parse_rules
from autocomp.rewrite.formula import Reals, Unprovable, number
from autocomp.rewrite.prove import prove_monoid, prove_rule
from autocomp.rewrite.rule import Rule

pytest.importorskip("z3")
RULES = load_rules()
PROVED = ("algebra/mul-one", "algebra/div-constant", "algebra/scale-into-weight", "algebra/row-times-matrix", "idioms/gelu",
          "idioms/silu", "idioms/relu", "layout/transposes", "monoids/online-softmax", "monoids/max-sumexp", "monoids/welford")  # fmt: skip


@pytest.mark.parametrize("name", PROVED)
def test_it_is_proved(name: str) -> None:
    assert check_rule(RULES[name], 6).status == "proved"


def changed(name: str, old: str, new: str) -> Rule:
    """A shipped rule with a piece of its right side (or conditions) replaced."""
    r = RULES[name]
    text = "\n".join([
        f"- name: {name}", f"  phase: {r.phase}", f"  lhs: {r.lhs}", f"  rhs: {r.rhs}",
        f"  where: [{', '.join(map(str, r.where))}]", f"  exact: {str(r.exact).lower()}",
    ]) + "\n"  # fmt: skip
    assert old in text
    return replace(parse_rules(text.replace(old, new), "changed.yaml")[0], examples=r.examples)


@pytest.mark.parametrize(("name", "old", "new"), [
    ("algebra/scale-into-weight", "matmul(?x, mul(?w, ?s))", "matmul(?x, add(?w, ?s))"),
    ("algebra/div-constant", "1 / value(?c)", "2 / value(?c)"),
    ("algebra/scale-over-shift", "mul(?b, ?s)", "?b"),
    ("idioms/gelu", "sqrt(2)", "1.5"),
    ("idioms/silu", "silu(?x)", "mul(?x, silu(?x))"),
    ("idioms/relu", "relu(?x)", "abs(?x)"),
    ("layout/transposes", "compose(?q, ?p)", "compose(?p, ?q)"),
    ("monoids/max-sumexp", "part='l'", "part='m'"),
    ("monoids/max-sumexp", "sub(?s, reduce_max(?s, axes=?a, keepdims=true))", "?s"),
    ("monoids/welford", "close(value(?n) * product(permuted(shape(?x), ?a)), 1, dtype(?x))", "1 == 1"),
    ("monoids/online-softmax", "softmax_weighted_sum(?s, ?v)", "matmul(?s, ?v)"),
])  # fmt: skip
def test_a_rule_that_is_a_little_wrong_is_not_proved(name: str, old: str, new: str) -> None:
    assert not prove_rule(changed(name, old, new))


def test_only_counts_and_their_sums_are_known_to_be_at_least_one():
    """max(n, 1) is n for a number of elements; 1/n, n - 1, n/2 and any other value may be less."""
    r = Reals()
    n, m, x, one = r.count("n"), r.count("m"), r.atom("x", "element"), number(1)
    for p in (n, r.mul(n, m), r.add(n, m)):
        assert r.extreme("max", p, one) == p
    for p in (r.inverse(n), r.mul(n, r.inverse(m)), r.sub(n, m), r.scaled(n, Fraction(1, 2)), x, r.mul(n, x)):
        assert r.extreme("max", p, one) != p
    assert r.extreme("min", n, one) != n
    assert r.extreme("max", n, number(2)) != n


@pytest.mark.parametrize("name", [m.name for m in MONOIDS.values() if m.modules and m.name not in COUNTED.values()])
def test_parts_of_a_monoid_combine_to_the_whole(name: str) -> None:
    """Not of those that are told which elements there are: by 0 and 1, which no real number need be (`tests/ir/test_monoids.py`)."""
    prove_monoid(name)


@pytest.mark.parametrize(("name", "module", "field", "lie"), [
    ("max_sumexp", 0, 2, "x * exp(m1 - m)"),           # rescaled the wrong way round
    ("max_sumexp", 0, 2, "x"),                         # not rescaled at all
    ("max_sumexp", 0, 1, "2"),
    ("welford", 0, 2, "x + n * (s / max(n, 1) - s1 / max(n1, 1))"),
    ("welford", 0, 2, "x"),                            # Chan's term left out
    ("softmax_weighted", 1, 2, "x * exp(m - m1) + exp(m1)"),
])  # fmt: skip
def test_a_monoid_that_lies_is_found(name: str, module: int, field: int, lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts do not combine to the whole, or the whole is not what the rule's other side computes."""
    m = MONOIDS[name]
    modules = [list(x) for x in m.modules]
    modules[module][field] = lie
    monkeypatch.setitem(MONOIDS, name, replace(m, modules=tuple(map(tuple, modules))))
    rule = {"max_sumexp": "monoids/max-sumexp", "welford": "monoids/welford", "softmax_weighted": "monoids/online-softmax"}[name]
    prove_monoid.cache_clear()
    try:
        assert not prove_rule(RULES[rule])
    finally:
        prove_monoid.cache_clear()


def test_a_monoid_whose_parts_do_not_combine_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed form is right, but moving a part to another base is not the sum of moving its elements."""
    m = MONOIDS["max_sumexp"]
    monkeypatch.setitem(MONOIDS, "max_sumexp", replace(m, modules=(("l", "1", "x * x * exp(m - m1)"),)))
    prove_monoid.cache_clear()
    try:
        with pytest.raises(Unprovable, match="combining parts of max_sumexp is not proved for l"):
            prove_monoid("max_sumexp")
        assert not prove_rule(RULES["monoids/max-sumexp"])
    finally:
        prove_monoid.cache_clear()


def test_what_cannot_be_written_as_a_formula_is_tested() -> None:
    result = check_rule(RULES["ordering/place-of-the-max"], 4)
    assert result.status.startswith("tested-")
    assert result.detail == "no proof: arithmetic of integers"


def test_without_z3_rules_are_tested_and_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autocomp.rewrite.prove.find_spec", lambda name: None)
    result = check_rule(RULES["algebra/mul-one"], 4)
    assert result.status.startswith("tested-")
    assert result.detail == "no proof: z3 is not installed (pip install 'autocomp[proof]')"
