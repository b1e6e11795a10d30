"""Attention whose masks leave a query without any key: torch's 0, in one kernel that does not look at the masks first."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.frontends.text import parse
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph
from tests.helpers.nets import compiled
from tests.helpers.repeats import repeats

RULE = "monoids/masked-softmax"


def masked(dtype: str, queries: int, keys: int, depth: int) -> str:
    lines = ["%0 = matmul(q, k)", "%1 = add(%0, b)", f"%2 = broadcast(const(-inf, {dtype}), shape=[])", "%3 = ne(%1, %2)",
             "%4 = reduce_any(%3, axes=[2], keepdims=True)", "%5 = softmax(%1, axes=[2])", "%6 = matmul(%5, v)",
             f"%7 = broadcast(const(0.0, {dtype}), shape=[])", "%8 = where(%4, %6, %7)"]  # fmt: skip
    shapes = {"q": (2, queries, depth), "k": (2, depth, keys), "v": (2, keys, depth), "b": (2, queries, keys)}
    return graph({x: f"{dtype}{list(s)}" for x, s in shapes.items()}, "\n".join(lines))


@pytest.mark.parametrize("target", ["cuda:h200", "cuda:a100", "cpu", "ascend:910b"])
def test_no_pass_looks_for_rows_without_keys(target, priced_for_a_xeon):
    text = masked("f16", 512, 512, 64)
    if target == "cpu":  # what is printed for that make would be compiled for this one
        kernels, fewer = (compiled(parse(text), "cpu", w) for w in ((RULE,), ()))
        assert len(fewer.calls) < len(kernels.calls) and fewer.predicted < kernels.predicted
        return
    ours, before = (autocomp.optimize(text, target=target, without=w) for w in ([], [RULE]))
    assert len(ours.kernels) < len(before.kernels) and ours.predicted < before.predicted


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", ["cuda:h200", repeats("cuda:a100", of="cuda:h200"), "cpu"])
@pytest.mark.parametrize("keys", [1, 40, 201])
def test_rows_without_keys_are_zero(target, keys, model, tmp_path):
    """A tile that holds all keys, tiles that hold some, a single key."""
    program = autocomp.optimize(masked("f16", 37, keys, 64), target=target)
    if target != "cpu":
        program.executor = ModelExecutor(program, tmp_path, model)
    r = np.random.default_rng(3)
    shapes = {"q": (2, 37, 64), "k": (2, 64, keys), "v": (2, keys, 64), "b": (2, 37, keys)}
    x = {n: r.standard_normal(s).astype("f2") for n, s in shapes.items()}
    x["q"] *= np.float16(0.2)
    x["b"][0, 3], x["b"][1, 36], x["b"][0, 5, : keys - 1] = -np.inf, -np.inf, -np.inf
    s = x["q"].astype("f8") @ x["k"].astype("f8") + x["b"]
    e = np.exp(s - np.maximum(s.max(2, keepdims=True), -1e30))
    want = e / np.maximum(e.sum(2, keepdims=True), 0.5) @ x["v"].astype("f8")
    (got,) = program.run(x).values()
    assert not got[0, 3].any() and not got[1, 36].any()
    np.testing.assert_allclose(got.astype("f8"), want, atol=5e-3)
