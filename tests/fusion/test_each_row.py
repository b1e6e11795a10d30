"""Each fusion rule carries load: without it, a graph that needs it takes more kernels."""

from __future__ import annotations

import pytest

from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph
from autocomp.ir.types import F32, TensorType
from tests.fusion.test_one_kernel import gemm_bias_gelu, layer_norm, softmax
from tests.helpers.covers import cover_of


def chain() -> Graph:
    b = Builder("chain")
    b.output("y", b.op("relu", b.op("tanh", b.input("x", TensorType(F32, (512, 512))))))
    return b.graph()


def summed() -> Graph:
    b = Builder("summed")
    b.output("y", b.op("reduce_sum", b.op("tanh", b.input("x", TensorType(F32, (512, 512)))), axes=(1,)))
    return b.graph()


def turned() -> Graph:
    b = Builder("turned")
    b.output("y", b.op("transpose", b.op("tanh", b.input("x", TensorType(F32, (512, 256)))), perm=(1, 0)))
    return b.graph()


def mapped_factor(first: bool) -> Graph:
    b = Builder("mapped_factor")
    x, w = b.input("x", TensorType(F32, (512, 256))), b.input("w", TensorType(F32, (256, 64)))
    b.output("y", b.op("matmul", b.op("relu", x) if first else x, w if first else b.op("relu", w)))
    return b.graph()


CASES = {
    "fusion/map-into-map": chain(), "fusion/epilogue": gemm_bias_gelu(), "fusion/row-statistic": softmax(),
    "fusion/view": turned(), "fusion/reduce-prologue": summed(), "fusion/reduce-row": layer_norm(),
    "fusion/contract-prologue-a": mapped_factor(True), "fusion/contract-prologue-b": mapped_factor(False),
}


@pytest.mark.parametrize("rule", sorted(CASES))
def test_without_the_rule_there_are_more_kernels(rule: str) -> None:
    assert len(cover_of(CASES[rule], without=(rule,)).calls) > len(cover_of(CASES[rule]).calls)
