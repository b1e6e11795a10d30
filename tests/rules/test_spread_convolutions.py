"""Transposed convolutions by the places of their results: right at every size, and no tap that meets a zero is multiplied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autocomp.cost.chip import load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.ir.builder import Builder
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.node import Graph
from autocomp.ir.reference import evaluate
from autocomp.ir.types import F16, F32, DType, TensorType
from autocomp.options import Options
from autocomp.rewrite.load import load_rules
from autocomp.trace import Trace
from tests.helpers.covers import run_cover
from tests.helpers.nets import made

HALVES = "convolution/halves-of-spread"


def transposed(size, kernel, strides, lo, hi, dilations=None, groups=1, dtype: DType = F32) -> Graph:
    b = Builder("transposed")
    x = b.input("x", TensorType(dtype, (2, 2 * groups, *size)))
    w = b.input("w", TensorType(dtype, (2 * groups, 3, *kernel)))
    b.output("y", b.op("conv_transpose", x, w, strides=strides, lo=lo, hi=hi, dilations=dilations or (1,) * len(size), groups=groups))
    return b.graph()


def covered(graph: Graph, without: tuple[str, ...] = ()) -> tuple[KernelGraph, Trace]:
    """The kernels for a chip on which nothing but products costs anything."""
    chip, trace, options = load_chip("h200"), Trace(), Options()
    slow = replace(chip, launch=0.0, vector=dict.fromkeys(chip.vector, 1e4), matrix=dict.fromkeys(chip.matrix, 2e4))
    rules = load_rules(without=without, options=options)
    found = cover(saturate(decompose(graph), rules, options, trace, chip.features, chip.target), rules, slow, options, trace)
    return found, trace


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
    graph = transposed(*case)
    kernels, trace = covered(graph)
    assert made(trace, HALVES) == fired
    rng = np.random.default_rng(0)
    feed = {x.attrs["name"]: rng.standard_normal(x.type.shape).astype("f4") for x in graph.inputs}
    got, want = run_cover(kernels, feed)["y"], evaluate(graph, feed)["y"]
    assert np.abs(got - want).max() <= 2e-6 * np.abs(want).max()


@pytest.mark.parametrize("case", [
    ((4, 5), (3, 3), (1, 1), (1, 1), (1, 1)), ((4,), (3,), (3,), (1,), (1,)), ((4,), (3,), (2,), (1,), (1,), (2,)),
    ((4,), (1,), (2,), (0,), (0,)),
    ((4, 5), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1, F16),
], ids=["no stride", "a stride of 3", "dilated", "one tap", "f16"])  # fmt: skip
def test_what_is_not_spread_by_an_even_stride_stays(case):
    assert not made(covered(transposed(*case))[1], HALVES)


def test_without_the_rule_zeros_are_multiplied():
    case = CASES["3, stride 2"][0]
    some, one = covered(transposed(*case))[0], covered(transposed(*case), without=(HALVES,))[0]
    assert [sum("conv" in c.ops for c in k.calls) for k in (some, one)] == [4, 1]
