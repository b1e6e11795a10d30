"""Layout: nets of [N, C, H, W] convolutions become channels-last inside where the chip's price says so, and stay right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autocomp.cost.chip import load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.frontends.text import parse
from autocomp.ir import reference
from autocomp.ir.builder import Builder
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.types import F16, F32, TensorType
from autocomp.options import Options
from autocomp.rewrite.load import load_rules, shipped_rules
from autocomp.rewrite.rule import RuleSet
from autocomp.trace import Trace
from tests.helpers.covers import run_cover
from tests.helpers.nets import WINDOW, compiled, copies, made, residual_net, weights


def layouts(k: KernelGraph) -> set[str]:
    """Memory orders of the tensors of rank 4 that kernels hand on."""
    return {str(k.tensors[t].shape) for c in k.calls for t in c.args.values() if t in k.tensors and k.tensors[t].rank == 4}


def test_a_net_is_channels_last_inside_and_only_its_input_is_turned():
    trace = Trace()
    k = compiled(residual_net(64, 56), trace=trace)
    assert made(trace, "layout/conv-channels-last") == 5
    assert "(2, 64, 28, 28)" not in layouts(k) and "(2, 28, 28, 64)" in layouts(k)
    assert copies(k) == ["x"]
    assert len(k.calls) == 8


def test_the_gain_of_the_whole_net_is_found_and_priced():
    net = residual_net(64, 56, blocks=3)
    with_, without = compiled(net), compiled(net, without=("layout/conv-channels-last",))
    assert with_.predicted < 0.5 * without.predicted
    assert len(with_.calls) == len(without.calls) + 1


def test_where_narrow_copies_cost_nothing_no_kernel_turns_a_tensor():
    machine = load_chip("h200")
    free = replace(machine, limits={k: v for k, v in machine.limits.items() if k != "warp_matrix"} | {"copies": 1e30})
    opts, rules = Options(), load_rules()
    k = cover(saturate(decompose(residual_net(64, 56)), rules, opts, Trace(), machine.features), rules, free, opts, Trace())
    assert not copies(k)


def test_a_chip_without_the_feature_keeps_the_order_of_the_model():
    trace = Trace()
    compiled(residual_net(16, 14), chip="cpu", trace=trace)
    assert made(trace, "layout/conv-channels-last") == 0


@pytest.mark.parametrize("attrs", [
    {"strides": (2, 1), "lo": (0, 2), "hi": (1, 0)},
    {"dilations": (2, 3), "lo": (1, 1), "hi": (2, 0)},
    {"groups": 4},
    {"groups": 16, "strides": (2, 2)},
    {"groups": 2, "dilations": (1, 2), "lo": (2, 0), "hi": (0, 1)},
], ids=str)  # fmt: skip
def test_every_kind_of_window_is_right_in_the_other_order(attrs: dict[str, Any]):
    b = Builder("windows")
    x = b.input("x", TensorType(F32, (2, 16, 11, 13)))
    y = b.op("relu", b.op("conv", x, weights(b, "w", 16, 16 // attrs.get("groups", 1), 3, 2, dtype=F32), **{**WINDOW, **attrs}))
    y = b.op("conv", y, weights(b, "v", 24, 16, 1, 1, dtype=F32), **{**WINDOW, "lo": (0, 0), "hi": (0, 0)})
    y = b.op("maxpool", y, window=(2, 3), **{**WINDOW, "hi": (0, 1)})
    b.output("y", b.op("add", y, weights(b, "c", 24, 1, 1, dtype=F32)))
    graph = b.graph()
    k = compiled(graph)
    data = {"x": np.random.default_rng(1).standard_normal((2, 16, 11, 13)).astype("f4")}
    np.testing.assert_allclose(run_cover(k, data)["y"], reference.evaluate(graph, data)["y"], rtol=1e-4, atol=1e-5)


def test_branches_that_are_joined_along_channels_keep_the_order():
    b = Builder("branches")
    x = b.input("x", TensorType(F16, (2, 64, 28, 28)))
    stem = b.op("relu", b.op("conv", x, weights(b, "s", 64, 64, 3, 3), **WINDOW))
    parts = [b.op("relu", b.op("conv", stem, weights(b, f"p{i}", 32 * i, 64, 3, 3), **WINDOW)) for i in (1, 2, 3)]
    joined = b.op("concat", *parts, axis=1)
    b.output("y", b.op("reduce_mean", b.op("conv", joined, weights(b, "last", 64, 192, 3, 3), **WINDOW), axes=(2, 3)))
    graph = b.graph()
    k = compiled(graph)
    assert "(2, 192, 28, 28)" not in layouts(k)
    data = {"x": np.random.default_rng(1).standard_normal((2, 64, 28, 28)).astype("f2")}
    np.testing.assert_allclose(run_cover(k, data)["y"], reference.evaluate(graph, data)["y"].astype("f4"), rtol=2e-2, atol=5e-3)


def test_the_result_of_the_turned_net_is_that_of_the_model():
    graph = residual_net(16, 14, F32)
    data = {"x": np.random.default_rng(2).standard_normal((2, 16, 14, 14)).astype("f4")}
    np.testing.assert_allclose(run_cover(compiled(graph), data)["y"], reference.evaluate(graph, data)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape, kernels", [((777, 1111, 999), {"pad", "pad_2", "slice"}), ((512, 1000, 1000), set()),
                                            ((16, 33, 35), set())])  # fmt: skip
def test_factors_with_odd_rows_are_copied_to_wider_ones_where_that_pays(shape, kernels):
    m, n, k = shape
    b = Builder()
    b.output("o", b.op("matmul", b.input("x", TensorType(F16, (m, k))), b.input("y", TensorType(F16, (k, n)))))
    found = compiled(b.graph())
    assert {c.kernel.name for c in found.calls} - {"matmul"} == kernels
    assert len(compiled(b.graph(), without=("layout/pad-factors",)).calls) == 1


@pytest.mark.parametrize("factors", ["input a: f32[96, 64]\ninput b: f32[64, 128]", "input a: f32[2, 96, 64]\ninput b: f32[2, 64, 128]",
                                     "input a: f32[50, 96]\nparam c: f32[128, 96] = extern"])  # fmt: skip
def test_copies_that_turn_a_factor_are_made_once(factors):
    """A copy of a copy is the copy, or the rules that make one go on from each until the phase's budget ends."""
    turned = "%t = transpose(c, perm=[1, 0])\n" if "param" in factors else ""
    text = f"graph g\n{factors}\n{turned}%0 = matmul(a, {'%t' if turned else 'b'})\noutput y = %0\n"
    trace, params = Trace(), {"c": np.broadcast_to(np.arange(96, dtype="f4"), (128, 96))} if turned else {}
    saturate(parse(text, params=params), RuleSet(shipped_rules()), Options(allow_tf32=True), trace, load_chip("h200").features, "cuda")
    assert made(trace, "layout/turn-right-factor") and not list(trace.of("budget"))


def test_weights_of_bytes_are_turned_once():
    products = '%0 = cast(a, to="i32")\n%1 = cast(b, to="i32")\n%2 = matmul(%0, %1)\noutput y = %2'
    graph, trace = parse(f"graph g\ninput a: i8[96, 64]\ninput b: i8[64, 128]\n{products}\n"), Trace()
    saturate(graph, load_rules(), Options(), trace, load_chip("h200").features, "cuda")
    assert made(trace, "quantised/turned-weights") and not list(trace.of("budget"))
