"""Attention from its plain graph is one kernel, and nothing of the size of the scores is stored."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.types import F32, TensorType

HEADS, SEQ, DIM = 3, 37, 16


def attention(merged: bool):
    b = Builder("attention")
    q, k, v = (b.input(n, TensorType(F32, (HEADS, SEQ, DIM))) for n in "qkv")
    s = b.op("div", b.op("matmul", q, b.op("transpose", k, perm=(0, 2, 1))), b.const(4.0, F32))
    s = b.op("add", s, b.input("mask", TensorType(F32, (SEQ, SEQ))))
    e = b.op("exp", b.op("sub", s, b.op("reduce_max", s, axes=(2,), keepdims=True)))
    y = b.op("matmul", b.op("div", e, b.op("reduce_sum", e, axes=(2,), keepdims=True)), v)
    if merged:
        y = b.op("reshape", b.op("transpose", y, perm=(1, 0, 2)), shape=(SEQ, HEADS * DIM))
    b.output("y", y)
    return b.graph()


@pytest.mark.parametrize("merged", [False, True])
def test_one_kernel_and_no_scores_in_memory(merged):
    program = autocomp.optimize(attention(merged))
    assert len(program.calls.calls) == 1
    assert not any(t.elements >= HEADS * SEQ * SEQ for t in program.calls.tensors.values())
    assert "monoids/online-softmax" in " ".join(program.kernels[0].rules)
    assert program.verify().ratio <= 1


def test_without_the_monoid_rule_the_scores_are_stored():
    program = autocomp.optimize(attention(False), without=["monoids/*"])
    assert len(program.calls.calls) > 1
    assert any(t.elements == HEADS * SEQ * SEQ for t in program.calls.tensors.values())


def test_heads_stay_an_axis_when_they_are_stored_merged():
    kernel = autocomp.optimize(attention(True)).calls.calls[0].kernel
    assert [a.extent for a in kernel.axes] == [SEQ, HEADS, DIM]
    assert np.prod([a.extent for a in kernel.axes]) == SEQ * HEADS * DIM
