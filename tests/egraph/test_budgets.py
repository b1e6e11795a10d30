"""Compilation ends: fixpoints end for every number, and what grows is stopped by counts, with a usable program and a note."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.egraph.engine import Term
from autocomp.egraph.matches import Forms
from autocomp.ir.node import Attrs
from autocomp.rewrite import parse_rules
from tests.helpers.time_limits import within

NAN = {
    "a product with it": "%0 = mul(x, const(nan, f32))\n%1 = add(%0, const(0.0, f32))",
    "a choice of it": "%0 = div(x, const(1.0, f32))\n%c = gt(x, const(0.5, f32))\n%1 = where(%c, const(nan, f32), %0)",
    "spread": "%n = broadcast(const(nan, f32), shape=[3])\n%0 = mul(x, const(1.0, f32))\n%1 = add(%n, %0)",
    "cast": "%n = cast(const(nan, f64), to=\"f32\")\n%0 = mul(x, const(1.0, f32))\n%1 = add(%n, %0)",
}


@pytest.mark.parametrize("body", NAN.values(), ids=NAN)
def test_facts_about_a_constant_that_is_no_number_are_settled(body):
    """NaN differs from itself, and yet facts of classes come to an end once a rule has united two of them."""
    with within(30):
        program = autocomp.optimize(f"graph g\ninput x: f32[3]\n{body}\noutput y = %1\n", cache=False)
    x = np.array([0.25, 0.5, 0.75], np.float32)
    want = {"a choice of it": np.where(x > 0.5, np.nan, x)}
    np.testing.assert_array_equal(program(x), want.get(next(k for k, v in NAN.items() if v == body), np.full(3, np.nan)))


def test_constants_are_folded_however_long_their_chain_is():
    steps = "\n".join(f"%{k} = {('neg', 'abs')[k % 2]}({f'%{k - 1}' if k else 'w'})" for k in range(3000))
    with within(60):
        text = f"graph g\ninput x: f32[3]\nparam w: f32[3] = ones\n{steps}\n%z = add(x, %2999)\noutput y = %z\n"
        program = autocomp.optimize(text, cache=False)
    np.testing.assert_array_equal(program(np.zeros(3, np.float32)), np.ones(3))


def test_forms_are_looked_at_where_numbers_of_terms_say_too_many():
    """a + b is b + a; what is added to either is one form twice, and matches by two ways."""
    args = ((), (), (0, 1), (1, 0), (2, 0), (3, 0))
    terms = [Term("add" if a else "input", Attrs({} if a else {"name": f"x{n}"}), a, "source") for n, a in enumerate(args)]
    (rule,) = parse_rules('- {name: t/sums, phase: algebra, lhs: "add(add(?x, ?y), ?z)", rhs: "?z", why: a test}', "t.yaml")
    forms = Forms(terms, [0, 1, 2, 2, 4, 4])
    assert forms.at_most(rule.lhs, 8) == 4 * 2
    assert forms.at_most(rule.lhs, 7) == 2
