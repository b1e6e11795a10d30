"""The judge of changed rules is apart from the checker: another way to instances, other values; and it knows right from wrong."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace

import numpy as np
import pytest

from autocomp.rewrite import brute, judge, load_rules, parse_rules
from autocomp.rewrite.expr import Lit
from autocomp.rewrite.instance import type_of
from autocomp.rewrite.rule import Rule
from tests.helpers.repeats import repeating

RULES = load_rules()


def rule(lhs: str, rhs: str, where: str = "", more: str = "") -> Rule:
    return parse_rules(f"- name: a/b\n  phase: algebra\n  lhs: {lhs}\n  rhs: {rhs}\n  where: [{where}]\n{more}", "a.yaml")[0]


def never(r: Rule) -> Rule:
    """The rule before the change, where it held nowhere."""
    return replace(r, where=(Lit(False),))


@pytest.mark.parametrize("module", [judge, brute])
def test_nothing_of_the_checker_is_in_it(module):
    names = {n.module for n in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(n, ast.ImportFrom) and n.module}
    assert not names & {f"autocomp.rewrite.{m}" for m in ("check", "draw", "attributes", "feeds", "compare", "prove", "formula")}


@pytest.mark.parametrize(("lhs", "rhs", "where", "more"), [
    ("matmul(?a, matmul(?b, ?c))", "matmul(matmul(?a, ?b), ?c)", "is_float(?a)", "  exact: false\n"),  # wrong for a vector in the middle
    ("matmul(broadcast(?x, shape=?s), ?w)", "broadcast(matmul(?x, ?w), shape=shape(?root))", "is_float(?x)", "  exact: false\n"),
    ("reduce_sum(matmul(?a, ?b), axes=[1], keepdims=false)", "matmul(?a, reduce_sum(?b, axes=[1], keepdims=false))", "rank(?a) == 2",
     "  exact: false\n"),
    ("cast(cast(?x, to=i64), to=i32)", "cast(?x, to=i32)", "dtype(?x) == f64", ""),
    ("abs(mul(?x, ?y))", "mul(abs(?x), abs(?y))", "", ""),
    ("eq(?x, ?x)", "broadcast(const(value=1, dtype=bool), shape=shape(?x))", "", ""),
    ("max(?x, 0)", "mul(?x, cast(gt(?x, 0), to=f32))", "dtype(?x) == f32, shape(?root) == shape(?x)", ""),  # infinity times 0
])  # fmt: skip
def test_what_is_wrong_is_found(lhs: str, rhs: str, where: str, more: str):
    r = rule(lhs, rhs, where, more)
    assert judge.really_wrong(r, never(r))


@pytest.mark.parametrize("name", repeating([
    "algebra/square", "layout/transposes", "algebra/div-power-of-two", "quantised/zero-of-left", "algebra/sibling-matmuls",
    "quantised/scale-of-right", "monoids/online-softmax-reshaped",
], {"algebra/square": "algebra/div-power-of-two", "quantised/scale-of-right": "quantised/zero-of-left"}))  # fmt: skip
def test_shipped_rules_are_right(name: str):
    assert not judge.really_wrong(RULES[name], never(RULES[name]))


def test_brute_force_comes_to_every_small_shape():
    r = rule("matmul(?a, ?b)", "matmul(?a, ?b)")
    found = {tuple(type_of(b[k].removesuffix(" constant")).shape for k in "ab") for b in brute.brute(r, np.random.default_rng(0), 3000)}
    small = {((2,), (2,)), ((2,), (2, 2)), ((2, 2), (2,)), ((2, 2), (2, 2, 2)), ((2, 2, 2), (2, 2)), ((1, 2), (2, 1))}
    assert small <= found


@pytest.mark.parametrize("text", ["f32[2 5, 4]", "f32[1,,2]", "f32[,]", "f32[" + "1" * 5000 + "]", "f32[" + "1," * 9999 + "x]"])
def test_what_looks_like_a_type_is_none(text):
    assert type_of(text) is None


def test_types_are_read_with_spaces_and_a_comma_at_the_end():
    assert type_of("f32[ 2,3 , ]").shape == (2, 3) and type_of("f32[]").shape == ()


def test_offset_of_what_is_no_variable_has_no_answer(tmp_path):
    from autocomp.rewrite.check import check_rule
    from autocomp.rewrite.load import load_rules

    path = tmp_path / "mine.yaml"
    path.write_text("- name: a/b\n  phase: monoids\n  lhs: idiv(?y, sign(?x))\n  rhs: ?y\n  where: [elements(offset(shape(?x), 1)) == 1]\n"
                    "  why: a test\n  assumed: true\n")
    rule = next(r for r in load_rules([path]) if r.name == "a/b")
    assert check_rule(rule, 5).status in ("assumed", "unchecked", "tested")
