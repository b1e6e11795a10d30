"""Tolerances accept what rounding does and reject a real defect; the worst element is named."""

from __future__ import annotations

import numpy as np
import pytest

from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph
from autocomp.ir.reference import evaluate
from autocomp.ir.tolerance import deviation, relative_error, tolerance
from autocomp.ir.types import BF16, F16, F32, F64, I32, I64, DType, TensorType


def block(dtype: DType, bias: float = 0.0) -> tuple[Graph, dict[str, np.ndarray]]:
    """softmax(layer_norm(gelu(x @ w + bias) @ w2)) in one dtype."""
    rng = np.random.default_rng(0)
    make = lambda *s: (rng.standard_normal(s) / s[0] ** 0.5).astype(dtype.numpy)
    b = Builder("block")
    x = b.input("x", TensorType(dtype, (16, 96)))
    h = b.op("gelu", b.op("add", b.op("matmul", x, b.param("w", make(96, 128))), b.const(bias, dtype)))
    ones, zeros = b.param("s", np.ones(32, dtype.numpy)), b.param("z", np.zeros(32, dtype.numpy))
    n = b.op("layer_norm", b.op("matmul", h, b.param("w2", make(128, 32))), ones, zeros, axes=(1,))
    b.output("y", b.op("softmax", n, axes=(1,)))
    return b.graph(), {"x": rng.standard_normal((16, 96)).astype(dtype.numpy)}


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16])
def test_rounding_is_accepted(dtype):
    g, x = block(dtype)
    assert deviation(g, evaluate(g, x), evaluate(g, x, float64=False)).ratio < 0.5


@pytest.mark.parametrize(("dtype", "bias"), [(F64, 1e-10), (F32, 1e-3), (F16, 0.5), (BF16, 2.0)])
def test_a_lost_bias_is_rejected(dtype, bias):
    g, x = block(dtype, bias)
    worst = deviation(g, evaluate(g, x), evaluate(block(dtype)[0], x, float64=False))
    assert worst.ratio > 1
    assert worst.output == "y"
    assert len(worst.index) == 2


def test_only_what_overflows_in_the_graphs_own_types_is_left_out():
    g, x = block(F32, 1e-3)
    lost = evaluate(block(F32)[0], x, float64=False)
    assert deviation(g, evaluate(g, x), lost, own=evaluate(g, x, float64=False)).ratio > 1


def test_the_worst_path_to_an_output_counts():
    def of(swap: bool) -> float:
        b = Builder()
        x, y = (b.input(n, TensorType(F32, (4,))) for n in "xy")
        long = x
        for _ in range(100):
            long = b.op("exp", long)
        b.output("z", b.op("sub", *((y, long) if swap else (long, y))))
        return relative_error(b.graph())["z"]

    assert of(True) == of(False) == pytest.approx(F32.eps / 2 * 101**0.5)


def test_longer_reductions_may_err_more():
    def of(n: int) -> float:
        b = Builder()
        b.output("y", b.op("reduce_sum", b.input("x", TensorType(F32, (n,))), axes=(0,)))
        return relative_error(b.graph())["y"]

    assert of(10_000) == pytest.approx(100 * of(1), rel=0.01)


def test_the_limit_is_a_share_of_each_element_and_of_the_largest_one():
    b = Builder()
    b.output("y", b.op("exp", b.input("x", TensorType(F32, (3,)))))
    t = tolerance(b.graph(), "y", np.array([0.5, -4.0, np.inf]))
    assert t.relative == pytest.approx(8 * F32.eps)
    assert t.absolute == pytest.approx(4 * t.relative)


def test_integers_are_exact_and_nan_is_not_a_number():
    b = Builder()
    b.output("y", b.op("neg", b.input("x", TensorType(I32, (2,)))))
    g = b.graph()
    assert deviation(g, {"y": np.array([1, 2])}, {"y": np.array([1, 3])}).ratio == np.inf
    b = Builder()
    b.output("y", b.op("exp", b.input("x", TensorType(F32, (2,)))))
    g = b.graph()
    want, bad = {"y": np.array([1.0, 2.0])}, {"y": np.array([1.0, np.nan], "f4")}
    worst = deviation(g, want, bad)
    assert (worst.ratio, worst.index, worst.want) == (np.inf, (1,), 2.0)
    assert deviation(g, want, bad, own=bad).ratio == 0


def outputs(dtype: DType, *values: float) -> tuple[Graph, dict[str, np.ndarray]]:
    """A graph of one output y, and values for it in float64 (integers as they are)."""
    b = Builder()
    b.output("y", b.op("neg", b.input("x", TensorType(dtype, (len(values),)))))
    return b.graph(), {"y": np.array(values, np.float64 if dtype.is_float else dtype.numpy)}


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(("want", "got", "own", "right"), [
    (INF, INF, None, True), (NAN, NAN, None, True),
    (1.0, NAN, None, False), (NAN, 1.0, None, False), (INF, -INF, None, False), (INF, 1.0, None, False), (1.0, INF, None, False),
    (NAN, INF, None, False), (INF, NAN, None, False),
    (1.0, NAN, 1.0, False), (1.0, INF, 1.0, False), (NAN, 1.0, NAN, False), (INF, -INF, INF, False), (INF, 1.0, INF, False),
    (1.0, INF, INF, True), (1.0, NAN, INF, True), (1.0, 1.0, INF, True),  # overflows on the way
    (1.0, 2.0, INF, False), (1.0, 2.0, NAN, False),  # a wrong number is wrong all the same
    (1e5, INF, INF, True), (1e5, -INF, INF, False), (-1e5, INF, NAN, False), (-1e5, -INF, NAN, True),  # beyond f16
    (NAN, 1.0, 1.0, True), (INF, 3e4, 3e4, True), (INF, 3e4, 1.0, False),  # the root of a rounded 0, the inverse of a rounded number
])  # fmt: skip
def test_what_is_no_number_is_compared_too(want, got, own, right):
    g, w = outputs(F16, want, 3.0)
    _, y = outputs(F16, got, 3.0)
    _, o = outputs(F16, INF if own is None else own, 3.0)
    ratio = deviation(g, w, y, None if own is None else o).ratio
    assert ratio <= 1 if right else ratio > 1


def test_what_an_ulp_in_the_inputs_turns_is_right():
    g, w = outputs(F32, INF)
    near = outputs(F32, -INF)[1]
    assert deviation(g, w, near).ratio == np.inf
    assert deviation(g, w, near, near=[near]).ratio == 0
    g, w = outputs(I32, 3)
    assert deviation(g, w, outputs(I32, 4)[1], near=[outputs(I32, 4)[1]]).ratio == 0
    assert deviation(g, w, outputs(I32, 5)[1], near=[outputs(I32, 4)[1]]).ratio == np.inf


def test_integers_of_64_bits_are_compared_as_such():
    g, w = outputs(I64, 2**62, 1)
    assert deviation(g, w, outputs(I64, 2**62 + 1, 1)[1]).ratio == np.inf
