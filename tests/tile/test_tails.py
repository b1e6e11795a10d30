"""Which factors need no mask where a tile sticks out past the end of a reduced axis."""

from __future__ import annotations

import pytest

from autocomp.ir.affine import aff
from autocomp.ir.body import Const, Expr, Load, Map
from autocomp.ir.types import F16, F32, U8
from autocomp.tile.tails import vanishes

R = frozenset({"r0"})
W = Load(F16, "w", (aff("r0"), aff("i0")))
Q = Load(U8, "q", (aff("r0"), aff("i0")))
COLUMN = Load(F16, "z", (aff("i0"),))


def f(fn: str, *args: Expr) -> Expr:
    return Map(args[-1].dtype, fn, args)


def less(x: Expr) -> Expr:
    return f("sub", Map(F16, "cast", (x,)), Const(F16, 8.0))


CASES = {
    "a load": (W, True),
    "a wider one": (Map(F32, "cast", (W,)), True),
    "a number": (Const(F16, 8.0), False),
    "four bits less eight": (less(f("bitand", Q, Const(U8, 15))), False),
    "those times a scale": (f("mul", less(f("bitand", Q, Const(U8, 15))), W), True),
    "a sum": (f("add", W, W), True),
    "a sum with a column": (f("add", W, COLUMN), False),
    "times what memory may hold as infinite": (f("mul", W, COLUMN), False),
    "times a quotient": (f("mul", W, f("div", W, W)), False),
    "times an exponential, which is finite, though not known to be": (f("mul", W, f("exp", W)), False),
    "filled with one outside its guard": (Load(F16, "w", (aff("r0"),), (aff("r0") - 3,), 1.0), False),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_zero_past_the_end(name):
    value, zero = CASES[name]
    assert vanishes(value, R) == zero


def test_every_tail_counts():
    assert not vanishes(W, R | {"r1"})
    assert vanishes(COLUMN, frozenset()), "no tile sticks out"
