"""Maps of every type that has vectors run in them on CPUs, and functions by polynomials: the printed text, and its results."""

from __future__ import annotations

import shutil
from itertools import product

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph
from autocomp.ir.reference import evaluate
from autocomp.ir.types import BF16, F16, F32, I8, I16, I32, U8, U16, DType, TensorType
from tests.helpers import fresh
from tests.helpers.repeats import repeating

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")


def kernel(program: autocomp.Program) -> str:
    """The functions of a program without their comments."""
    return program.source().split("*/\n", 1)[1]


NAMES = ["gelu_tanh", "sin", "cos", "tan", "expm1", "log2", "atan", "asin", "acosh", "sinh", "erf", "log"]


@pytest.mark.parametrize(("name", "dtype"), repeating(product(NAMES, [F32, F16, BF16]), {
    (n, (F16, BF16)[k % 2]): "the other short float" for k, n in enumerate(NAMES)}), ids=str)  # fmt: skip
def test_functions_are_vectors(name: str, dtype: DType) -> None:
    b = Builder("f")
    b.output("y", b.op(name, b.input("x", TensorType(dtype, (5, 64)))))
    text = autocomp.optimize(b.graph()).source()
    assert f"vf_{name}(" in text and f" {name}f(" not in text


@pytest.mark.parametrize(("power", "said"), [(3.0, "vf_power3("), (2.5, "vf_pow("), (-1.5, "vf_pow("), (4.0, "vf_power4(")])
def test_powers_by_numbers_are_vectors(power: float, said: str) -> None:
    b = Builder("f")
    b.output("y", b.op("pow", b.input("x", TensorType(F32, (300,))), b.const(power, F32)))
    program = autocomp.optimize(b.graph())
    assert said in program.source() and "powf" not in program.source()
    x = np.linspace(0.1, 9, 300, dtype=np.float32)
    np.testing.assert_allclose(program.run({"x": x})["y"], x.astype(np.float64) ** power, rtol=4e-7)


ONE_NUMBER = ["exp2", "log2", "log1p", "tanh", "erf", "gelu", "sigmoid", "sin", "atan", "cosh", "expm1", "softplus", "div", "pow", "power3"]


def test_an_element_is_one_number_wherever_it_is_computed() -> None:
    """x and its transpose are computed apart, one by vectors and one by numbers; where both are one element, neither is less."""
    b = Builder("f")
    x = b.input("x", TensorType(F32, (1, 5, 3)))
    for name in ONE_NUMBER:
        by = {"div": 3.0, "pow": 2.5, "power3": 3.0}.get(name)
        y = b.op(name, x) if by is None else b.op("pow" if name == "power3" else name, x, b.const(by, F32))
        b.output(name, b.op("lt", b.op("transpose", y, perm=(2, 1, 0)), y))
    program = autocomp.optimize(b.graph())
    text, values = program.source(), fresh.rng().uniform(0.05, 6, (1, 5, 3)).astype(np.float32)
    for name, less in program.run({"x": values}).items():
        assert name == "div" or (f"s_{name}(" in text and f"vf_{name}(" in text), "both ways were meant"  # quotients may be vectors
        assert not np.einsum("iji->ij", less).any(), name


def quantised(dtype: DType) -> Graph:
    """clip(round(x / s) + z) as a short integer, and back."""
    b, i = Builder("q"), np.iinfo(dtype.numpy)
    x = b.input("x", TensorType(F32, (7, 75)))
    whole = b.op("round", b.op("div", x, b.const(0.03, F32)))
    near = b.op("min", b.op("max", b.op("add", whole, b.const(3.0, F32)), b.const(float(i.min), F32)), b.const(float(i.max), F32))
    q = b.op("cast", near, to=dtype.name)
    b.output("q", q)
    b.output("back", b.op("mul", b.op("cast", b.op("sub", b.op("cast", q, to="i32"), b.const(3, I32)), to="f32"), b.const(0.03, F32)))
    return b.graph()


@pytest.mark.parametrize("dtype", [I8, U8, I16, U16], ids=str)
def test_quantised_numbers_are_made_in_vectors(dtype: DType) -> None:
    graph = quantised(dtype)
    program = autocomp.optimize(graph)
    assert f"vi_store_{dtype.name}" in program.source()
    feed = {"x": (fresh.rng().standard_normal((7, 75)) * 6).astype(np.float32)}
    got, want = program.run(feed), evaluate(graph, feed, float64=False)
    np.testing.assert_array_equal(got["q"], want["q"])
    np.testing.assert_allclose(got["back"], want["back"], rtol=1e-6)


@pytest.mark.parametrize("to", [I8, U8, I16, I32], ids=str)
def test_floats_beyond_the_range_and_nan_are_cut_as_numpy_does_on_x86(to: DType) -> None:
    x = np.array([0.5, -0.5, 127.9, 128.0, -129.0, 255.9, 256.0, 65536.0, 2.0**31, -(2.0**31), 3e9, -3e38, np.inf, -np.inf, np.nan] * 2)
    x = x.astype(np.float32)
    b = Builder("cut")
    b.output("y", b.op("cast", b.input("x", TensorType(F32, x.shape)), to=to.name))
    inside = np.abs(x.astype(np.float64)) < 2.0**31
    whole = np.where(inside, np.trunc(np.where(inside, x, 0)), -(2.0**31)).astype(np.int64)
    np.testing.assert_array_equal(autocomp.optimize(b.graph()).run({"x": x})["y"], whole.astype(to.numpy))


def test_a_causal_mask_is_compared_in_lanes() -> None:
    n, t = 33, TensorType(I32, (33,))
    b = Builder("mask")
    x = b.input("x", TensorType(F32, (n, n)))
    at = b.op("iota", dtype="i64", shape=[n, n], axis=1), b.op("iota", dtype="i64", shape=[n, n], axis=0)
    b.output("y", b.op("where", b.op("le", *at), x, b.const(-1.0, F32)))
    b.output("z", b.op("add", b.input("k", t), b.const(1, I32)))
    program = autocomp.optimize(b.graph())
    assert "vi_iota()" in program.source()
    x = fresh.rng().standard_normal((n, n)).astype(np.float32)
    np.testing.assert_array_equal(program.run({"x": x, "k": np.arange(n, dtype=np.int32)})["y"], np.where(np.tri(n, dtype=bool), x, -1))
