"""`let` names pieces of a rule's text; the shape vocabulary keeps right sides short enough to be read aloud."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autocomp.errors import RuleError
from autocomp.ir.types import DTYPES, TensorType
from autocomp.options import Options
from autocomp.rewrite.functions import Operand, tensor_functions
from autocomp.rewrite.load import parse_rules

RULES = sorted((Path(__file__).resolve().parents[2] / "rules").glob("*.yaml"))
RULE = """- name: mine/a
  phase: algebra
  let:
{let}
  lhs: reduce_sum(?x, axes=?a, keepdims=?k)
  rhs: {rhs}
  why: a test
"""


def read(rhs: str, *let: str):
    return parse_rules(RULE.format(rhs=rhs, let="\n".join(f"    {x}" for x in let)), "mine.yaml")


def test_pieces_stand_where_they_are_named():
    (rule,) = read("$all", "n: rank(?x)", "shape: replaced(shape(?x), $n - 1, 1)", "all: reshape(neg(?x), shape=$shape)")
    assert str(rule.rhs) == "reshape(neg(?x), shape=replaced(shape(?x), rank(?x) - 1, 1))"


def test_names_that_begin_alike_are_told_apart():
    (rule,) = read("neg(reshape(?x, shape=[$ab, $a]))", "a: 1", "ab: 2")
    assert str(rule.rhs) == "neg(reshape(?x, shape=[2, 1]))"


def test_a_piece_is_one_whole_wherever_it_stands():
    (rule,) = read("reshape(?x, shape=[2 * $rows, $rows, 3 - $one])", "rows: (dim(?x, 0) + 1) // 2", "one: -1")
    assert str(rule.rhs) == "reshape(?x, shape=[2 * ((dim(?x, 0) + 1) // 2), (dim(?x, 0) + 1) // 2, 3 - -1])"


@pytest.mark.parametrize("op", ["or", "and"])
def test_a_piece_may_be_an_op_whose_name_is_an_operator_of_conditions(op):
    (rule,) = read("not($both)", f"both: {op}(?x, not(?x))")
    assert str(rule.rhs) == f"not({op}(?x, not(?x)))"


@pytest.mark.parametrize(("rhs", "let", "told"), [
    ("neg(?x)", ["n: rank(?x)"], r"mine\.yaml:4:8: '\$n' is nowhere in the rule"),
    ("neg($n)", ["n: [1, 2]"], r"mine\.yaml:4:8: '\$n' is no text"),
    ("$n", ["n: neg(?y)"], r"mine\.yaml:6:8 rule 'mine/a': .*\?y.* in `neg\(\?y\)`"),
    ("neg($n, $m)", ["n: 1"], r"mine\.yaml:6:8 rule 'mine/a': unexpected character '\$'"),
])  # fmt: skip
def test_what_is_wrong_with_a_piece_is_said_at_its_place(rhs, let, told):
    with pytest.raises(RuleError) as e:
        read(rhs, *let)
    assert re.search(told, str(e.value)), e.value


def test_pieces_that_double_each_other_end():
    with pytest.raises(RuleError, match="characters where names stand for their texts, at most 20000 are read"):
        read("$p39", "p0: neg(?x)", *(f"p{k + 1}: add($p{k}, $p{k})" for k in range(39)))


def test_an_error_in_a_long_text_shows_what_stands_around_it():
    with pytest.raises(RuleError) as e:
        read("$all", "low: " + "neg(" * 30 + "?x" + ")" * 30, "all: add($low, add($low, nag(?x)))")
    assert "nag(?x)" in str(e.value) and len(str(e.value).splitlines()[0]) < 320, e.value


def test_the_shape_vocabulary():
    f, x = tensor_functions(Options()), Operand(TensorType(DTYPES["f32"], (2, 3, 5)))
    assert f["zeros"](x) == (0, 0, 0) and f["ones"](x) == (1, 1, 1)
    assert f["along"](x, 1, 3) == (1, 3, 1) and f["on_axis"](x, -1, 7) == (0, 0, 7) and f["with_axis"](x, 1, 7) == (2, 7, 5)


@pytest.mark.parametrize("path", RULES, ids=lambda p: p.name)
def test_right_sides_can_be_read_aloud(path):
    text = path.read_text()
    for long in ("replaced(repeat(", "replaced(ones(", "replaced(zeros(", "replaced(shape("):
        assert long not in text, f"along, on_axis and with_axis say {long}..) in a word"
    assert not re.search(r"dim\((\?\w+), rank\(\1\) - \d", text), "dim(?x, -1) is the last one"
    for n, line in enumerate(text.splitlines(), 1):
        m = re.match(r"  (?:rhs|  \w+): (.*)", line)
        assert m is None or len(m[1]) <= 160, f"{path.name}:{n}: {len(m[1])} characters"
