"""Integers of 64 bits on vector cores, two words each: right for numbers of all sizes, and no kernel of theirs is the scalar units'."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.ir.body import Const, Load, Map
from autocomp.ir.halves import COMPARED, MADE, MOST, carried, digits, halves_of, left, of_float, of_number, real, right
from autocomp.ir.types import F32, I32
from autocomp.simulate.ascend_model import COMPILER
from autocomp.simulate.program import simulated
from tests.helpers import fresh

NUMPY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs, "max": np.maximum, "min": np.minimum,
         "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "bitnot": np.bitwise_not, "lt": np.less,
         "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}  # fmt: skip
OF_WORDS = NUMPY | {"shl": np.left_shift, "shr": np.right_shift, "and": np.logical_and, "or": np.logical_or, "where": np.where,
                    "trunc": np.trunc, "floor": np.floor}  # fmt: skip
TYPES = {"i32": np.int32, "f32": np.float32, "bool": np.bool_}
EDGES = np.array([0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32, -(2**32), 2**63 - 1, -(2**63)], dtype=np.int64)


def numbers(rng, *shape):
    """Of all lengths, and ends of words."""
    every = rng.integers(-(2**63), 2**63 - 1, shape, dtype=np.int64, endpoint=True) >> rng.integers(0, 64, shape)
    return np.where(rng.random(shape) < 0.3, rng.choice(EDGES, shape), every)


def value(e, given):
    """An expression of words by NumPy, each step rounded to its type."""
    if isinstance(e, Const):
        return TYPES[e.dtype.name](e.value)
    if isinstance(e, Load):
        return given[e.tensor]
    assert isinstance(e, Map)
    args = [value(a, given) for a in e.operands]
    out = args[0] if e.fn == "cast" else OF_WORDS[e.fn](*args)
    return np.asarray(out).astype(TYPES[e.dtype.name])


def pair(name):
    return Load(I32, f"{name}_low", ()), Load(I32, f"{name}_high", ())


def words(name, x):
    return {f"{name}_low": x.astype(np.int32), f"{name}_high": (x >> 32).astype(np.int32)}


def together(found, given):
    low, high = (value(h, given).astype(np.int64) for h in found)
    return (low & 0xFFFFFFFF) | (high << 32)


@np.errstate(all="ignore")
def test_functions_by_words_are_those_of_64_bits():
    rng = np.random.default_rng(fresh.seed())
    x, y = numbers(rng, 400), numbers(rng, 400)
    y[:40] = x[:40]
    given = words("x", x) | words("y", y)
    a, b = pair("x"), pair("y")
    for fn, f in NUMPY.items():
        of = (a, b)[: f.nin]
        if fn in COMPARED:
            assert (value(COMPARED[fn](*of), given) == f(x, y)).all(), fn
            continue
        assert (together(MADE[fn](*of), given) == f(*(x, y)[: f.nin])).all(), fn
        if f.nin == 2:
            k = int(numbers(rng, 1)[0])
            assert (together(MADE[fn](a, of_number(k)), given) == f(x, np.int64(k))).all(), (fn, k)
    for k in (0, 1, int(rng.integers(2, 32)), 32, int(rng.integers(33, 63)), 63):
        assert (together(left(a, k), given) == x << k).all() and (together(right(a, k), given) == x >> k).all(), k


@np.errstate(all="ignore")
def test_floats_by_words_are_rounded_once():
    rng = np.random.default_rng(fresh.seed())
    x = numbers(rng, 2000)
    ties = (rng.integers(2**23, 2**24, 500) << 1 | 1) << rng.integers(0, 38, 500)  # halfway between neighbours, and beside
    x[:500] = (ties + rng.integers(-1, 2, 500)) * rng.choice([-1, 1], 500)
    assert (value(real(pair("x")), words("x", x)) == x.astype(np.float32)).all()
    f = (rng.standard_normal(500) * 2.0 ** rng.integers(-3, 61, 500)).astype(np.float32)
    assert (together(of_float(Load(F32, "f", ())), {"f": f}) == f.astype(np.int64)).all()


@np.errstate(all="ignore")
def test_sums_of_digits_carry():
    x = numbers(np.random.default_rng(fresh.seed()), 3, MOST)
    x[0], x[1] = -1, 2**63 - 1
    sums = {str(k): value(d, words("x", x)).sum(1, dtype=np.int32) for k, d in enumerate(digits(pair("x")))}
    assert (together(carried(*(Load(I32, str(k), ()) for k in range(4))), sums) == x.sum(1)).all()
    assert halves_of(-1) == (-1, -1) and halves_of(2**31) == (-(2**31), 0)


LINES = """%0 = add(x, y)
%1 = sub(%0, z)
%2 = mul(%1, x)
%3 = max(%2, y)
%4 = lt(x, z)
%5 = where(%4, %3, %1)
%6 = pad(x, lo=[0, 2], hi=[0, 3], value=-7)
%7 = shr(y, const(37, i64))
%8 = reduce_sum(x, axes=[1])
%9 = reduce_max(x, axes=[0])
%10 = cast(x, to="f32")
%11 = cast(f, to="i64")"""


@pytest.mark.skipif(not COMPILER, reason="no g++")
@pytest.mark.parametrize("chip", ["310p", "910b1"])
def test_pairs_on_the_model(chip):
    rng = np.random.default_rng(fresh.seed())
    m, n = (int(k) for k in rng.integers([9, 20], [30, 60]))
    text = f"graph g\ninput x: i64[{m}, {n}]\ninput y: i64[{m}, {n}]\ninput z: i64[{n}]\ninput f: f32[{m}, {n}]\n{LINES}\n"
    program = autocomp.optimize(text + "".join(f"output o{k} = %{k}\n" for k in range(5, 12)), target=f"ascend:{chip}",
                                without=["tiling/npu-scalar-*"])  # fmt: skip
    x, y, z = numbers(rng, m, n), numbers(rng, m, n), numbers(rng, n)
    f = (rng.standard_normal((m, n)) * 2.0 ** rng.integers(-3, 61, (m, n))).astype(np.float32)
    with simulated(program), np.errstate(all="ignore"):
        found = program.run({"x": x, "y": y, "z": z, "f": f})
        less = x + y - z
        wanted = {"o5": np.where(x < z, np.maximum(less * x, y), less), "o6": np.pad(x, ((0, 0), (2, 3)), constant_values=-7),
                  "o7": y >> 37, "o8": x.sum(1), "o9": x.max(0), "o10": x.astype(np.float32),
                  "o11": f.astype(np.int64)}  # fmt: skip
    for name, want in wanted.items():
        assert found[name].dtype == want.dtype and (found[name] == want).all(), name
