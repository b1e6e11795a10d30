"""What rules may say is what the stages answer: no word of the vocabulary that nothing reads."""

from __future__ import annotations

import pytest

from autocomp.cost.chip import load_chip
from autocomp.cost.roles import roles_of
from autocomp.egraph.choose import kernel_functions, tensors_of
from autocomp.egraph.grammar import Record, load_grammar
from autocomp.egraph.kernel_rules import COLUMNS, FIELDS, TILES, WORDS
from autocomp.egraph.rows import Body, body_functions
from autocomp.frontends.text import parse
from autocomp.ir.types import F32, TensorType
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.rewrite.expr import Call, walk
from autocomp.rewrite.functions import tensor_functions
from autocomp.rewrite.pattern import Apply
from autocomp.rewrite.vocabulary import BODY, BODY_WORDS, CONSUMERS, FORMS, KERNEL, LISTS, MOVES, PHASES, ROLE, TENSORS, spoken, vocabulary
from tests.helpers.covers import cover_of

GEMM = "graph g\ninput x: f32[8, 8]\ninput w: f32[8, 8]\n%0 = matmul(x, w)\noutput y = %0\n"


def test_every_function_is_answered():
    assert {*LISTS, *TENSORS} <= set(tensor_functions(Options()))
    kernel = cover_of(parse(GEMM)).calls[0].kernel
    answered = set(kernel_functions(roles_of(kernel), load_chip("cpu"), Options())) | set(tensors_of(kernel))
    assert {*LISTS, *KERNEL} - {"legal"} <= answered  # isl answers `legal`


@pytest.mark.parametrize("name", sorted(BODY))
def test_every_question_about_a_body_has_an_answer(name):
    body = Body(Record("E"), 3, TensorType(F32, (4, 5)), 1, 80)
    assert body_functions(Options())[name](*([body, 0] if BODY[name].least == 2 else [body])) is not None


def test_the_kinds_of_bodies_are_those_of_the_grammar():
    assert set(load_grammar().names.values()) == BODY_WORDS


def test_shipped_rules_use_every_form_and_move():
    rules = [r for phase in ("tiling", "scheduling") for r in load_rules().of(phase)]
    used = {p.op for r in rules for p in (r.match, r.rhs) if isinstance(p, Apply)}
    assert used == {*FORMS, *MOVES, "tile"}
    assert {r.lhs.op for r in load_rules().of("fusion") if isinstance(r.lhs, Apply)} == {*CONSUMERS, "beside"}


def test_shipped_rules_use_every_function_of_kernels():
    rules = [r for phase in ("tiling", "scheduling", "directives") for r in load_rules().of(phase)]
    said = [e for r in rules for e in (*r.where, *(c for _, c in r.choose if not isinstance(c, tuple)))]
    asked = {x.name for e in said for x in walk(e) if isinstance(x, Call)}
    assert {*KERNEL} - asked <= {"bytes", "lanes", "power_of_two"}, "a function that no rule needs"


def test_columns_of_schedules():
    assert {*ROLE.values()} == {*TILES}
    assert (*TILES, *FIELDS, *WORDS) == COLUMNS


@pytest.mark.parametrize("phase", PHASES)
def test_everything_has_its_meaning(phase):
    v = vocabulary(phase)
    rows = {(r["kind"], r["name"]): r for r in spoken(phase)}
    assert all(rows["op", n]["means"] for n in v.arity)
    assert all(rows["function", n]["means"] for n in v.functions)
