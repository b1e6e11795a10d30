"""Long sums, maxima and products of the CPU target: folded part by part, so that errors grow with the parts and not with every term."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.types import F32, F64, TensorType

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip


def reduction(op, shape, axes, dtype=F32):
    b = Builder("sum")
    b.output("y", b.op(op, b.input("x", TensorType(dtype, shape)), axes=axes, keepdims=False))
    return b.graph()


def product(m, k, n, constant):
    b, w = Builder("mm"), np.full((k, n), 0.7, "f4")
    x = b.input("x", TensorType(F32, (m, k)))
    b.output("y", b.op("matmul", x, b.param("w", w) if constant else b.input("w", TensorType(F32, (k, n)))))
    return b.graph(), {"x": np.full((m, k), 0.1, "f4"), **({} if constant else {"w": w})}


@pytest.mark.parametrize(("shape", "axes"), [
    ((40000, 7), (0,)), ((40000, 40), (0,)), ((3, 40000, 8), (1,)), ((200, 8, 200), (0, 2)), ((2, 40000), (1,)), ((700000,), (0,)),
], ids=str)  # fmt: skip
def test_equal_values_add_up_to_much_less_than_the_tolerance(shape, axes):
    program = autocomp.optimize(reduction("reduce_sum", shape, axes))
    assert program.verify({"x": np.full(shape, 0.1, "f4")}).ratio < 0.15


@pytest.mark.parametrize(("m", "k", "n", "constant"), [
    (3, 20000, 8, True), (3, 20000, 8, False), (70, 9001, 24, True), (40, 8200, 70, False), (1, 20000, 33, True),
], ids=str)  # fmt: skip
def test_long_products_fold_their_sums_alike_on_any_tile(m, k, n, constant):
    graph, feed = product(m, k, n, constant)
    one, two = (autocomp.optimize(graph, threads=t) for t in (1, 2))
    assert one.verify(feed).ratio < 0.15
    np.testing.assert_array_equal(one.run(feed)["y"], two.run(feed)["y"])
    rng = np.random.default_rng(k)
    feed = {name: rng.standard_normal(x.shape).astype("f4") for name, x in feed.items()}
    assert one.verify(feed).ratio < 1
    np.testing.assert_array_equal(one.run(feed)["y"], two.run(feed)["y"])


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max", "reduce_min", "reduce_prod"])
@pytest.mark.parametrize(("shape", "axes"), [
    ((257, 5), (0,)), ((511, 33), (0,)), ((2, 1025, 3), (1,)), ((300, 3, 301), (0, 2)), ((16450,), (0,)),
], ids=str)  # fmt: skip
def test_every_term_is_folded_once(op, shape, axes):
    x = np.random.default_rng(len(op)).uniform(0.98, 1.02, shape).astype("f4")
    graph = reduction(op, shape, axes)
    program = autocomp.optimize(graph)
    program.executor.poison = True
    np.testing.assert_allclose(program.run({"x": x})["y"], evaluate(graph, {"x": x})["y"], rtol=2e-5)
    for at in ((0,) * len(shape), tuple(n - 1 for n in shape), tuple(n // 2 for n in shape)):
        worse = x.copy()
        worse[at] = np.nan
        got, want = program.run({"x": worse})["y"], evaluate(graph, {"x": worse})["y"]
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


def test_sums_of_doubles_in_parts():
    graph = reduction("reduce_sum", (40001, 3), (0,), F64)
    x = np.random.default_rng(0).standard_normal((40001, 3))
    np.testing.assert_allclose(autocomp.optimize(graph).run({"x": x})["y"], x.sum(0), rtol=1e-12, atol=1e-10)
