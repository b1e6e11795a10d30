"""Index expressions with floors and mods: what is dropped by the axes' ranges changes no value."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from autocomp.ir.affine import Aff, aff

EXTENTS = {"a": 6, "b": 2, "c": 8}


@st.composite
def expressions(draw, depth=2):
    e = Aff.of(draw(st.integers(-5, 20)))
    for n in EXTENTS:
        e = e + aff(n) * draw(st.sampled_from([0, 1, 1, 2, 3, 4, 8, 16]))
    if depth and draw(st.booleans()):
        inner, den = draw(expressions(depth - 1)), draw(st.sampled_from([2, 3, 4, 8, 12, 64]))
        e = e + (inner // den if draw(st.booleans()) else inner % den) * draw(st.integers(1, 4))
    return e


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_simplified_expressions_have_the_same_values(e):
    s = e.simplify(EXTENTS)
    for point in itertools.product(*map(range, EXTENTS.values())):
        env = dict(zip(EXTENTS, point))
        assert s.eval(env) == e.eval(env)


def test_a_digit_below_a_common_factor_is_dropped():
    e = (aff("a") * 2 + "b") // 4
    assert str(e.simplify(EXTENTS)) == "floor((a)/2)"
    m = (aff("a") * 2 + "b") % 4
    assert m.simplify(EXTENTS) == (aff("a") % 2) * 2 + "b"
