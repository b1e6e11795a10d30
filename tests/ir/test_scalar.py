"""Scalar functions: accuracy against the math module, integer division and rounding conventions, NaN, narrow floats."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from autocomp.ir.scalar import SCALAR, accumulator, apply, result_dtype
from autocomp.ir.types import BF16, BOOL, DTYPES, F16, F32, F64, I8, I32, I64, U8

X = np.concatenate([np.linspace(-7, 7, 4001), [1e-300, -1e-12, 0.0, 40.0, -40.0]])


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("erf", math.erf),
        ("gelu", lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2))),
        ("softplus", lambda x: max(x, 0) + math.log1p(math.exp(-abs(x)))),
        ("sigmoid", lambda x: 1 / (1 + math.exp(-x))),
        ("silu", lambda x: x / (1 + math.exp(-x))),
        ("mish", lambda x: x * math.tanh(max(x, 0) + math.log1p(math.exp(-abs(x))))),
        ("expm1", math.expm1),
        ("gelu_tanh", lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    ],
)
def test_float64_is_accurate(name, exact):
    want = np.array([exact(float(v)) for v in X])
    assert np.abs(apply(name, (X,), F64) - want).max() <= 4e-16 * np.abs(want).max()


def test_erf_keeps_sign_infinities_and_nan():
    got = apply("erf", (np.array([-np.inf, np.inf, np.nan, -0.0]),), F64)
    np.testing.assert_array_equal(got, [-1, 1, np.nan, 0.0])
    assert np.signbit(got[3])


def test_integer_division_truncates_and_mod_follows_the_divisor():
    a, b = np.array([7, -7, 7, -7], "i4"), np.array([2, 2, -2, -2], "i4")
    np.testing.assert_array_equal(apply("idiv", (a, b), I32), [3, -3, -3, 3])
    np.testing.assert_array_equal(apply("floordiv", (a, b), I32), [3, -4, -4, 3])
    np.testing.assert_array_equal(apply("mod", (a, b), I32), [1, 1, -1, -1])
    np.testing.assert_array_equal(apply("fmod", (a, b), I32), [1, -1, 1, -1])


def test_integer_powers_with_negative_exponents_truncate():
    a, e = np.array([2, 1, -1, -1, 3], "i8"), np.array([-1, -5, -3, -2, 4], "i8")
    np.testing.assert_array_equal(apply("pow", (a, e), I64), [0, 1, -1, 1, 81])


def test_round_is_half_to_even_and_casts_truncate():
    np.testing.assert_array_equal(apply("round", (np.array([0.5, 1.5, -2.5, 2.6]),), F64), [0, 2, -2, 3])
    np.testing.assert_array_equal(apply("cast", (np.array([1.9, -1.9]),), I32), [1, -1])
    np.testing.assert_array_equal(apply("cast", (np.array([0.0, 0.3, np.nan]),), BOOL), [False, True, True])


@pytest.mark.parametrize("name", ["max", "min", "relu"])
def test_nan_propagates(name):
    args = (np.array([np.nan, 1.0]), np.array([2.0, np.nan]))[: SCALAR[name].arity]
    assert np.isnan(apply(name, args, F64)[0])


@pytest.mark.parametrize(("dtype", "numpy"), [(F16, np.float16), (BF16, ml_dtypes.bfloat16)])
def test_narrow_floats_are_computed_in_f32_and_rounded_once(dtype, numpy):
    x = np.linspace(-3, 3, 101).astype(numpy)
    want = apply("gelu", (x.astype("f4"),), F32).astype(numpy)
    got = apply("gelu", (x,), dtype)
    assert got.dtype == numpy
    np.testing.assert_array_equal(got.view("u2"), want.view("u2"))


@pytest.mark.parametrize(
    ("name", "dtypes", "text"),
    [
        ("add", (F32, F64), "add takes operands of one dtype, got f32, f64"),
        ("div", (I32, I32), "div takes float operands, got i32, i32"),
        ("where", (F32, F32, F32), "where takes a bool condition, got f32"),
        ("and", (I32, I32), "and takes bool operands, got i32, i32"),
        ("exp", (F32, F32), "exp takes 1 operands, got 2 (f32, f32)"),
    ],
)
def test_dtypes_are_checked(name, dtypes, text):
    with pytest.raises(TypeError) as e:
        result_dtype(name, dtypes)
    assert text in str(e.value)


def test_sums_are_accumulated_wide():
    assert [accumulator(d) for d in (F16, BF16, F32, F64, I8, U8, I64)] == [F32, F32, F32, F64, I32, I32, I64]


@pytest.mark.parametrize("name", sorted(SCALAR))
def test_results_have_the_stated_dtype(name):
    fn = SCALAR[name]
    for d in DTYPES.values():
        if d.kind in fn.kinds and d.bits <= fn.bits and name != "cast":
            operands = [BOOL if name == "where" and k == 0 else d for k in range(fn.arity)]
            out = result_dtype(name, operands)
            assert apply(name, [np.ones(3, o.numpy) for o in operands], out).dtype == out.numpy
