"""Rules drawn by seed of which it is known whether they are right: the checker refuses those that are not."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from autocomp.ir.types import DTYPES, contains
from autocomp.rewrite import check, check_rule, parse_rules
from autocomp.rewrite.attributes import limits
from autocomp.rewrite.prove import prove_rule
from autocomp.rewrite.rule import Rule

FLOATS = tuple(n for n, d in DTYPES.items() if d.is_float)
INTEGERS = tuple(n for n, d in DTYPES.items() if d.is_int)


def rule(lhs: str, rhs: str, where: str, more: str = "") -> Rule:
    return parse_rules(f"- name: a/b\n  phase: algebra\n  lhs: {lhs}\n  rhs: {rhs}\n  where: [{where}]\n{more}", "a.yaml")[0]


def refused(r: Rule) -> bool:
    return check_rule(r, 8, prove=False).status == "refuted"  # as a rule of a user is tested


def casts(first: str, then: str, of: str) -> Rule:
    return rule(f"cast(cast(?x, to={first}), to={then})", f"cast(?x, to={then})", f"dtype(?x) == {of}")


@pytest.mark.parametrize("seed", range(5))
def test_a_cast_on_the_way_may_be_left_out_where_it_rounds_nothing(seed: int):
    """Of floats: it holds every number, or it is the last cast itself. Else two roundings are not one."""
    first, then, of = random.Random(seed).choice([t for t in product(FLOATS, repeat=3) if t[0] != t[2]])
    right = first == then or contains(DTYPES[first], DTYPES[of])
    assert refused(casts(first, then, of)) != right, (first, then, of)


@pytest.mark.parametrize(("first", "then"), [
    ("u8", "i8"), ("u16", "i16"), ("u32", "i32"), *(random.Random(seed).sample(INTEGERS, 2) for seed in range(3)),
])  # fmt: skip
def test_an_integer_type_on_the_way_of_a_float_may_be_left_out_where_the_last_holds_its_numbers(first: str, then: str):
    (low, high), (least, most) = limits(DTYPES[first]), limits(DTYPES[then])
    assert refused(casts(first, then, "f64")) != (least <= low and high <= most), (first, then)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_between_those_of_a_condition_are_tried(seed: int):
    rng = np.random.default_rng(seed)
    low = int(rng.integers(101, 900))  # beyond the numbers that are always drawn
    number, high = low * 6 // 5, low * 3 // 2
    where = f"dtype(?x) == f64, is_uniform(?c), value(?c) > {low}, value(?c) < {high}, shape(?root) == shape(?x)"
    example = f"  examples:\n    - {{x: 'f64[4]', c: {number}}}\n"
    assert refused(rule("mul(?x, ?c)", f"mul(?x, {number})", where, "  exact: false\n" + example))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rest", ["min(dim(?x, 0), {n})", "dim(?x, 0) - dim(?x, 0) // {n}", "dim(?x, 0) - max(dim(?x, 0) - {n}, 0)"])
def test_sizes_beyond_the_numbers_of_a_rule_are_tried_and_a_few_sizes_prove_nothing(rest: str, seed: int):
    n = random.Random(seed).randint(10, 1500)
    first = f"slice(?x, starts=[0], limits=[{rest.format(n=n)}], steps=[1])"
    r = rule("reduce_sum(?x, axes=[0], keepdims=true)", f"'reduce_sum({first}, axes=[0], keepdims=true)'", "rank(?x) == 1, is_int(?x)")
    assert refused(r), n
    floats = rule(str(r.lhs), f"'{r.rhs}'", "rank(?x) == 1, is_float(?x)", "  exact: false\n")
    assert not prove_rule(floats)


@pytest.mark.parametrize("seed", range(4))
def test_what_overflows_or_vanishes_on_the_right_side_alone_is_refused(seed: int):
    """Powers of a value whose root is taken again: their type holds the square of few values."""
    rng = random.Random(seed)
    dtype, k = rng.choice(("f32", "f64", "bf16", "f16")), rng.choice((2, 4))
    power = {2: "mul(?x, ?x)", 4: "mul(mul(?x, ?x), mul(?x, ?x))"}[k]
    root = {2: "sqrt({})", 4: "sqrt(sqrt({}))"}[k].format(power)
    assert refused(rule("abs(?x)", root, f"dtype(?x) == {dtype}", "  exact: false\n"))
    assert not refused(rule(root, "abs(?x)", f"dtype(?x) == {dtype}", "  exact: false\n"))


@pytest.mark.parametrize("seed", range(6))
def test_values_are_drawn_at_the_numbers_that_a_rule_compares_with(seed: int):
    """Off by one there and right for all other values: of 32 bits none of those is drawn by chance."""
    rng = random.Random(seed)
    dtype, n = rng.choice(("i32", "i64", "u32", "i16")), rng.choice((rng.randint(4, 99), rng.randint(300, 30_000)))
    where = f"dtype(?x) == {dtype}, shape(?root) == shape(?x)"
    assert refused(rule(f"ge(?x, {n})", f"gt(?x, {n})", where)), (dtype, n)
    assert refused(rule(f"min(?x, {n})", f"where(gt(?x, {n + 1}), {n}, ?x)", where)), (dtype, n)
    assert not refused(rule(f"gt(?x, {n})", f"ge(?x, {n + 1})", where)), (dtype, n)
    dtype, n = rng.choice(("f32", "f64", "f16")), rng.randint(4, 99)
    floats = f"dtype(?x) == {dtype}, shape(?root) == shape(?x)"
    assert refused(rule(f"gt(?x, {n})", f"ge(?x, {n + 1})", floats)), (dtype, n)
    assert refused(rule(f"lt(abs(?x), {n})", f"le(abs(?x), {n})", floats)), (dtype, n)
    assert not refused(rule(f"ge(?x, {n})", f"le({n}, ?x)", floats)), (dtype, n)


@pytest.mark.parametrize("seed", range(3))
def test_windows_and_strides_beyond_the_number_that_a_rule_names_are_tried(seed: int):
    n = random.Random(seed).randint(4, 40)
    rest = "dilations=[1], lo=[0], hi=[0], layout=nchw"
    left = f"maxpool(?x, window=?w, strides=?t, {rest})"
    assert refused(rule(left, f"'maxpool(?x, window=[min(?w[0], {n})], strides=?t, {rest})'", "rank(?x) == 3")), n
    assert refused(rule(left, f"'maxpool(?x, window=?w, strides=[min(?t[0], {n})], {rest})'", "rank(?x) == 3")), n
    assert not refused(rule(left, f"'maxpool(?x, window=[max(?w[0], 1)], strides=?t, {rest})'", "rank(?x) == 3")), n


def test_a_sum_of_many_channels_is_tried_and_not_of_many_places(monkeypatch: pytest.MonkeyPatch):
    """What is summed decides what a type holds; a convolution of as many places is as many sums of a few, and takes 20 times as long."""
    conv = "conv(cast(?x, to={t}), cast(?w, to={t}), strides=[1], dilations=[1], groups=1, lo=[0], hi=[0], layout=nchw)"
    example = "  examples:\n    - {x: 'u8[1, 3, 4]', w: 'u8[2, 3, 1]'}\n"
    wide = rule(conv.format(t="i64"), f"cast({conv.format(t='f32')}, to=i64)", "dtype(?x) == u8, dtype(?w) == u8, rank(?x) == 3", example)
    lengths = {int(check.Instance(wide, b, open=True).left.type.shape[-1]) for b, _ in check._far(wide, list(wide.examples))}
    assert max(lengths) < 10
    assert refused(wide)
    monkeypatch.setattr(check, "_far", lambda rule, forms: iter(()))
    monkeypatch.setattr(check, "_KNOWN", {})
    assert not refused(wide)


@pytest.mark.parametrize("seed", range(3))
def test_products_of_f8e4m3_that_overflow_on_the_right_side_alone_are_refused(seed: int):
    """30 times 20 is more than 448: what a product is regrouped into has none of its own. A product that a sum takes is not rounded."""
    lhs, rhs, where = random.Random(seed).choice((
        ("mul(mul(?x, ?y), ?z)", "mul(?x, mul(?y, ?z))", ""),
        ("mul(matmul(?x, ?y), ?z)", "matmul(?x, mul(?y, ?z))", "rank(?x) == 2, rank(?y) == 2, rank(?z) == 1, "),
        ("matmul(matmul(?x, ?y), ?z)", "matmul(?x, matmul(?y, ?z))", "rank(?x) == 2, rank(?y) == 2, rank(?z) == 2, "),
    ))  # fmt: skip
    wrong = rule(lhs, rhs, f"{where}is_float(?x)", "  exact: false\n")
    assert refused(wrong)
    assert "`dtype(?x) != f8e4m3` in `where`" in check.next_step(wrong, 8, check_rule(wrong, 8, prove=False).detail)
    assert not refused(rule(lhs, rhs, f"{where}dtype(?x) == f32", "  exact: false\n"))
    summed = rule("matmul(?x, ?y)", "reduce_sum(mul(?x, ?y), axes=[0])", "rank(?x) == 1, rank(?y) == 1, is_float(?x)", "  exact: false\n")
    assert not refused(summed)
