"""Attention from its plain graph is one kernel, and nothing of the size of the scores is stored."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.types import F32, TensorType
from tests.helpers.device_graphs import graph

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


def projected(s=SEQ, heads=HEADS, d=DIM):
    """Queries, keys and values by a product each, and both factors of the scores scaled, as torch exports attention."""
    width, b, rng = heads * d, Builder("projected"), np.random.default_rng(0)
    x = b.input("x", TensorType(F32, (s, width)))

    def part(name):
        w = b.param(f"w{name}", (rng.standard_normal((width, width)) / width**0.5).astype("f4"))
        y = b.op("add", b.op("matmul", x, w), b.param(f"b{name}", rng.standard_normal(width).astype("f4")))
        return b.op("transpose", b.op("reshape", y, shape=(s, heads, d)), perm=(1, 0, 2))

    q, k, v = map(part, "qkv")
    root = b.const(d**-0.25, F32)
    scores = b.op("matmul", b.op("mul", q, root), b.op("mul", b.op("transpose", k, perm=(0, 2, 1)), root))
    y = b.op("matmul", b.op("softmax", scores, axes=(2,)), v)
    b.output("y", b.op("reshape", b.op("transpose", y, perm=(1, 0, 2)), shape=(s, width)))
    return b.graph()


def test_a_scale_behind_or_in_front_of_the_scores_is_one_reader_of_queries_and_keys():
    """Forms of which one is chosen do not make what they read look shared: nothing is copied for the readers that are not there."""
    program = autocomp.optimize(projected())
    assert len(program.calls.calls) == 2
    assert program.verify().ratio <= 1


def test_a_place_that_a_mask_and_a_table_read_leaves_a_rotated_query_in_front_of_attention():
    """One number brings no layouts together: four rows that were turned lay as the scores of sixteen do, in 326 registers of a thread."""
    tensors = {"at": "i64[1]", "cos": "f16[256, 128]", "sin": "f16[256, 128]", "q": "f16[2, 4, 128]"}
    tensors |= {"k": "f16[2, 256, 128]", "v": "f16[2, 256, 128]"}
    program = autocomp.optimize(graph(tensors, """%c = gather(cos, at, axis=0)
        %s = gather(sin, at, axis=0)
        %a = slice(q, starts=[0, 0, 64], limits=[2, 4, 128], steps=[1, 1, 1])
        %b = slice(q, starts=[0, 0, 0], limits=[2, 4, 64], steps=[1, 1, 1])
        %n = neg(%a)
        %t = concat(%n, %b, axis=2)
        %q0 = mul(q, %c)
        %q1 = mul(%t, %s)
        %r = add(%q0, %q1)
        %kt = transpose(k, perm=[0, 2, 1])
        %m = matmul(%r, %kt)
        %i = iota(shape=[256], axis=0, dtype='i64')
        %le = le(%i, at)
        %w = where(%le, %m, const(-inf, f16))
        %p = softmax(%w, axes=[2])
        %y = matmul(%p, v)"""), target="cuda:h200", cache=False)  # fmt: skip
    assert all("softmax_weighted_sum" in k.ops for k in program.kernels)
