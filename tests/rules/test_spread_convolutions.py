"""Transposed convolutions by the places of their results: right at every size, and no tap that meets a zero is multiplied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autocomp.cost.chip import load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.ir.body_meaning import evaluate as evaluate_kernel
from autocomp.ir.builder import Builder
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.node import Graph
from autocomp.ir.reference import evaluate
from autocomp.ir.types import F16, F32, DType, TensorType
from autocomp.loops.bounds import check_kernel_graph_accesses
from autocomp.options import Options
from autocomp.rewrite.load import load_rules
from autocomp.trace import Trace
from autocomp.tune.check import deviation, expected, inputs_of
from tests.helpers.covers import run_cover
from tests.helpers.nets import made

HALVES, ZEROS = "convolution/halves-of-spread", "convolution/zeros-between"


def transposed(size, kernel, strides, lo, hi, dilations=None, groups=1, dtype: DType = F32, channels=2) -> Graph:
    b = Builder("transposed")
    x = b.input("x", TensorType(dtype, (2, channels * groups, *size)))
    w = b.input("w", TensorType(dtype, (channels * groups, 3 if channels == 2 else channels, *kernel)))
    b.output("y", b.op("conv_transpose", x, w, strides=strides, lo=lo, hi=hi, dilations=dilations or (1,) * len(size), groups=groups))
    return b.graph()


def covered(graph: Graph, without: tuple[str, ...] = (), chip: str = "h200") -> tuple[KernelGraph, Trace]:
    """The kernels for a chip on which nothing but products costs anything."""
    chip, trace, options = load_chip(chip), Trace(), Options()
    slow = replace(chip, launch=0.0, vector=dict.fromkeys(chip.vector, 1e4), matrix=dict.fromkeys(chip.matrix, 2e4))
    rules = load_rules(without=without, options=options)
    found = cover(saturate(decompose(graph), rules, options, trace, chip.features, chip.target), rules, slow, options, trace)
    return found, trace


def drawn(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {x.attrs["name"]: rng.standard_normal(x.type.shape).astype("f4") for x in graph.inputs}


def computes_its_graph(kernels: KernelGraph) -> bool:
    check_kernel_graph_accesses(kernels)
    feed = drawn(kernels.source)
    got, want = run_cover(kernels, feed)["y"], evaluate(kernels.source, feed)["y"]
    return bool(np.abs(got - want).max() <= 2e-6 * np.abs(want).max())


CASES = {
    "3, stride 2": (((5, 4), (3, 3), (2, 2), (1, 1), (1, 1)), 3),
    "4, stride 2": (((3, 5), (4, 4), (2, 2), (1, 1), (1, 1)), 3),
    "5, uneven borders": (((4, 3), (5, 5), (2, 2), (2, 0), (1, 2)), 3),
    "more zeros outside": (((2, 3), (2, 3), (2, 2), (-1, 0), (0, -2)), 3),
    "one line": (((1, 4), (3, 2), (2, 2), (0, 0), (0, 0)), 3),
    "stride 4": (((3,), (5,), (4,), (1,), (0,)), 3),
    "one axis of two": (((4, 5), (3, 3), (1, 2), (1, 1), (1, 1)), 1),
    "the other axis": (((4, 5), (3, 3), (2, 1), (1, 1), (1, 0)), 1),
    "dilated along the other": (((4, 5), (3, 3), (2, 1), (1, 1), (1, 0), (1, 2)), 1),
    "groups": (((4, 3), (3, 3), (2, 2), (1, 1), (1, 0), (1, 1), 2), 3),
    "three axes": (((2, 3, 2), (3, 2, 3), (2, 2, 2), (1, 0, 1), (1, 0, 0)), 7),
}  # fmt: skip


@pytest.mark.parametrize(("case", "fired"), CASES.values(), ids=CASES)
def test_results_at_even_and_odd_places_are_convolutions_of_the_image(case, fired):
    kernels, trace = covered(transposed(*case), without=(ZEROS,))
    assert made(trace, HALVES) == fired
    assert computes_its_graph(kernels)


@pytest.mark.parametrize("case", [
    ((4, 5), (3, 3), (1, 1), (1, 1), (1, 1)), ((4,), (3,), (3,), (1,), (1,)), ((4,), (3,), (2,), (1,), (1,), (2,)),
    ((4,), (3,), (2,), (1,), (1,), (3,)), ((4,), (1,), (2,), (0,), (0,)),
], ids=["no stride", "a stride of 3", "dilated alike", "dilated", "one tap"])  # fmt: skip
def test_what_is_not_spread_by_an_even_stride_stays(case):
    assert not made(covered(transposed(*case))[1], HALVES)


APART = {
    "stride 3": ((4, 3), (3, 5), (3, 3), (1, 2), (1, 0)),
    "taps that are not": ((3,), (2,), (3,), (0,), (-1,)),
    "stride 4, dilated": ((3,), (3,), (4,), (1,), (0,), (3,)),
    "one line, one place": ((1, 4), (1, 3), (2, 2), (0, 1), (0, 1)),
}


@pytest.mark.parametrize("case", [*(c for c, _ in CASES.values()), *APART.values()], ids=[*CASES, *APART])
@pytest.mark.parametrize("chip", ["h200", "cpu"])
def test_one_kernel_stores_the_results_of_all_places(case, chip):
    """Without the ways by halves and by zeros: each place is stored where it lies, what is behind the last one nowhere."""
    kernels = covered(transposed(*case), without=(ZEROS, HALVES), chip=chip)[0]
    (call,) = [c for c in kernels.calls if "conv_spread" in c.ops]
    assert computes_its_graph(kernels)
    uneven = any(n % s for n, s in zip(kernels.tensors[kernels.outputs[0][1]].shape[2:], case[2]))
    assert not call.kernel.stores[0].guard or (uneven and chip == "h200")


def test_what_lies_behind_the_last_place_is_stored_nowhere():
    (call,) = covered(transposed((4, 5), (3, 3), (2, 2), (1, 1), (1, 1)), without=(ZEROS, HALVES))[0].calls
    (store,) = call.kernel.stores
    assert call.kernel.outputs[0].type.shape[2:] == (7, 9)
    assert sorted(a.extent for a in call.kernel.axes) == [2, 2, 2, 3, 4, 5] and len(store.guard) == 2
    arrays = inputs_of(call.kernel, {}, 0)
    parts = expected(call.kernel, arrays, {})
    right = evaluate_kernel(call.kernel, arrays)
    assert not deviation(parts, right)
    for at in ((0, 0, 6, 8), (1, 2, 3, 8)):
        wrong = {"out0": right["out0"].copy()}
        wrong["out0"][at] += 1
        assert deviation(parts, wrong)


@pytest.mark.parametrize("spoilt", [np.nan, np.inf])
def test_an_element_that_is_no_number_spoils_the_results_that_it_meets(spoilt):
    graph = transposed((4, 4), (3, 3), (2, 2), (1, 1), (0, 1))
    feed = drawn(graph)
    feed["x"][0, 1, 2, 2] = spoilt
    got, want = run_cover(covered(graph, without=(ZEROS, HALVES))[0], feed)["y"], evaluate(graph, feed)["y"]
    assert np.isfinite(want).any() and np.array_equal(np.isfinite(got), np.isfinite(want))


def test_short_types_are_multiplied_in_one_kernel_on_gpus_and_by_halves_on_cpus():
    """By the price: the four places of 3 x 3 taps have 16 in one kernel, 9 by halves."""
    names = {}
    rules, options, trace = load_rules(options=Options()), Options(), Trace()
    graph = transposed((28, 28), (3, 3), (2, 2), (1, 1), (1, 1), channels=64, dtype=F16)
    for name in ("h200", "c500", "cpu"):
        chip = load_chip(name)
        found = cover(saturate(decompose(graph), rules, options, trace, chip.features, chip.target), rules, chip, options, trace)
        names[name] = [c.kernel.name for c in found.calls if "conv" in c.kernel.name]
    assert names == {"h200": ["conv_spread"], "c500": ["conv_spread"], "cpu": ["conv", "conv_2", "conv_3", "conv_4"]}


def test_without_the_rule_zeros_are_multiplied():
    case = CASES["3, stride 2"][0]
    kernels = covered(transposed(*case), without=(HALVES,), chip="cpu")[0]
    assert [c.ops for c in kernels.calls if "pad" in c.ops and "conv" in c.ops]
    assert computes_its_graph(kernels)
