"""Chains that must come out as one kernel, with the meaning of the graph they came from."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.ir import reference
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph
from autocomp.ir.types import F16, F32, TensorType
from tests.helpers.covers import cover_of, run_cover


def rows(*shape: int) -> TensorType:
    return TensorType(F32, shape)


def gemm_bias_gelu() -> Graph:
    b = Builder("gemm_bias_gelu")
    x, w, v = b.input("x", rows(64, 96)), b.input("w", rows(96, 32)), b.input("v", rows(32))
    b.output("y", b.op("gelu", b.op("add", b.op("matmul", x, w), v)))
    return b.graph()


def gemm_residual() -> Graph:
    b = Builder("gemm_residual")
    x, w, v = b.input("x", rows(64, 96)), b.input("w", rows(96, 32)), b.input("v", rows(32))
    b.output("y", b.op("add", b.op("add", b.op("matmul", x, w), v), b.input("r", rows(64, 32))))
    return b.graph()


def softmax() -> Graph:
    b = Builder("softmax")
    b.output("y", b.op("softmax", b.input("x", rows(32, 128)), axes=(1,)))
    return b.graph()


def layer_norm() -> Graph:
    b = Builder("layer_norm")
    x, n = b.input("x", rows(32, 64)), b.const(1 / 64, F32)
    mean = b.op("mul", b.op("reduce_sum", x, axes=(1,), keepdims=True), n)
    d = b.op("sub", x, mean)
    var = b.op("mul", b.op("reduce_sum", b.op("mul", d, d), axes=(1,), keepdims=True), n)
    y = b.op("mul", d, b.op("rsqrt", b.op("add", var, b.const(1e-5, F32))))
    b.output("y", b.op("add", b.op("mul", y, b.input("g", rows(64))), b.input("b", rows(64))))
    return b.graph()


def swiglu() -> Graph:
    b = Builder("swiglu")
    x, w, v = b.input("x", rows(64, 96)), b.input("w", rows(96, 32)), b.input("v", rows(96, 32))
    b.output("y", b.op("mul", b.op("silu", b.op("matmul", x, w)), b.op("matmul", x, v)))
    return b.graph()


CASES = {f.__name__: f for f in (gemm_bias_gelu, gemm_residual, layer_norm, softmax, swiglu)}


@pytest.mark.parametrize("name", sorted(CASES))
def test_is_one_kernel_with_the_graphs_meaning(name: str) -> None:
    graph = CASES[name]()
    k = cover_of(graph)
    assert len(k.calls) == 1, [c.kernel.name for c in k.calls]
    rng = np.random.default_rng(0)
    x = {n.attrs["name"]: rng.standard_normal(n.type.shape).astype(np.float32) for n in graph.inputs}
    want, got = reference.evaluate(graph, x)["y"], run_cover(k, x)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", sorted(CASES))
def test_without_fusion_rules_there_are_more_kernels(name: str) -> None:
    graph = CASES[name]()
    fused, apart = cover_of(graph), cover_of(graph, without=("fusion/*",))
    assert len(apart.calls) > len(fused.calls)
    assert apart.predicted > fused.predicted


def test_softmax_reads_its_input_once() -> None:
    (call,) = cover_of(softmax()).calls
    assert [a.type.shape for a in call.kernel.inputs] == [(32, 128)]
    assert call.kernel.kind == "N"


def test_a_wide_cast_is_redone_where_it_is_read():
    """A half precision row is widened once a reader: the f32 copy of 268 MB would cost more than two casts."""
    b = Builder("half_norm")
    x = b.input("x", TensorType(F16, (16384, 4096)))
    g, v = (b.input(n, TensorType(F16, (4096,))) for n in "gv")
    b.output("y", b.op("layer_norm", x, g, v, axes=(1,)))
    assert len(cover_of(b.graph()).calls) == 1


@pytest.mark.parametrize("dtype", [F16, F32])
def test_a_sum_and_its_norm_are_one_kernel_with_both_outputs(dtype):
    """The sum is stored on the way: a by-product of the kernel that normalises it."""
    b = Builder("add_rms")
    t = TensorType(dtype, (16384, 4096))
    h = b.op("add", b.input("x", t), b.input("r", t))
    b.output("y", b.op("rms_norm", h, b.input("g", TensorType(dtype, (4096,))), axes=(1,)))
    b.output("h", h)
    calls = cover_of(b.graph()).calls
    assert [len(c.kernel.outputs) for c in calls] == [2]


def optimiser_step(*shape: int) -> Graph:
    """Adam without its corrections: the new weights are made of both new moments, which are outputs too."""
    b = Builder("adam")
    weights, gradient, first, second = (b.input(n, rows(*shape)) for n in "wgmv")
    by = lambda x, number: b.op("mul", x, b.const(number, F32))
    first = b.op("add", by(first, 0.9), by(gradient, 0.1))
    second = b.op("add", by(second, 0.99), b.op("mul", by(gradient, 0.01), gradient))
    step = b.op("div", by(first, 0.001), b.op("add", b.op("sqrt", second), b.const(1e-8, F32)))
    for name, x in (("w2", b.op("sub", weights, step)), ("m2", first), ("v2", second)):
        b.output(name, x)
    return b.graph()


@pytest.mark.parametrize("chip", ["h200", "h100"])
def test_an_optimiser_s_step_is_one_kernel_with_three_outputs(chip):
    """Both moments are stored on the way: 30 million weights 258 us in two kernels, 201 in one (torch.compile 201; H200, 2026-12-01)."""
    calls = cover_of(optimiser_step(30_000_000), chip).calls
    assert [len(c.kernel.outputs) for c in calls] == [3]


def test_an_optimiser_s_step_means_what_its_graph_does():
    graph, rng = optimiser_step(6, 5000), np.random.default_rng(2)
    feed = {n: np.abs(rng.standard_normal((6, 5000))).astype(np.float32) for n in "wgmv"}
    got, want = run_cover(cover_of(graph), feed), reference.evaluate(graph, feed)
    for n in want:
        np.testing.assert_allclose(got[n], want[n], rtol=1e-5, atol=1e-6)


def test_sums_of_a_softmax_by_their_places_are_one_kernel():
    """Means of rows and columns: both weights walk the axis of the softmax, one of them by its index in a float's quotient, which is a
    table of 4800 numbers and no function of each element. 92.7 us, 20.1 now (torch.compile 41.5; 2048 rows, H200, 2026-12-01)."""
    b = Builder("spatial")
    p = b.op("softmax", b.op("reshape", b.input("x", rows(2048, 60, 80)), shape=(2048, 4800)), axes=(1,))
    place = b.op("cast", b.op("iota", axis=0, shape=(4800,), dtype="i64"), to="f32")
    wide = lambda w: b.op("broadcast", b.op("reshape", w, shape=(1, 4800)), shape=(2048, 4800))
    for name, weight in (("y", b.op("floordiv", place, b.const(80.0, F32))), ("x0", place)):
        b.output(name, b.op("reduce_sum", b.op("mul", p, wide(weight)), axes=(1,)))
    (call,) = autocomp.optimize(b.graph(), target="cuda:h200", tuned=False).calls.calls
    assert [a.extent for a in call.kernel.axes] == [2048]
    assert sorted(a.type.elements for a in call.kernel.inputs) == [4800, 2048 * 4800]


@pytest.mark.parametrize("numbers", ["param w: f32[480] = random(1)", '%i = iota(axis=0, shape=[480], dtype="f32")\n%w = exp(%i)'])
def test_a_constant_that_is_repeated_is_read_where_it_lies(numbers):
    """A model may say how a parameter, or a table of what is dear, is broadcast; no 39 MB are made of 19 KB for it."""
    w = "w" if "param" in numbers else "%w"
    text = f"graph g\ninput x: f32[2048, 480]\n{numbers}\n%r = reshape({w}, shape=[1, 480])\n%b = broadcast(%r, shape=[2048, 480])\n"
    (call,) = autocomp.optimize(text + "%y = mul(x, %b)\noutput y = %y\n", target="cuda:h200", tuned=False).calls.calls
    assert sorted(a.type.elements for a in call.kernel.inputs) == [480, 2048 * 480]


def test_a_statistic_that_is_repeated_along_its_row_is_read_in_order():
    """Blocks read a row once and keep it: its statistic, repeated along it, does not make of that another order of reading. 27.0 us in two
    kernels and 18.7 in one, by their prices."""
    b = Builder("normalise")
    x = b.input("x", TensorType(F16, (47393, 211)))
    wide = b.op("cast", x, to="f32")
    length = b.op("cast", b.op("sqrt", b.op("reduce_sum", b.op("mul", wide, wide), axes=(1,))), to="f16")
    b.output("y", b.op("div", x, b.op("broadcast", b.op("reshape", length, shape=(47393, 1)), shape=(47393, 211))))
    assert len(cover_of(b.graph(), "h100").calls) == 1
