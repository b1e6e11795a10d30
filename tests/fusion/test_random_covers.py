"""Every cover means what its graph means, on random graphs of maps, rows, contractions and views."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autocomp.ir import reference
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph
from autocomp.ir.types import F32, TensorType
from tests.helpers.covers import cover_of, run_cover

N = 8
STEPS = ("add", "sub", "mul", "tanh", "relu", "matmul", "softmax", "transpose", "center")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to nine steps over N x N values; one or two outputs."""
    b = Builder("random")
    values = [b.input(n, TensorType(F32, (N, N))) for n in "xy"]
    for _ in range(draw(st.integers(1, 9))):
        op = draw(st.sampled_from(STEPS))
        p, q = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        if op == "transpose":
            v = b.op(op, p, perm=(1, 0))
        elif op == "softmax":
            v = b.op(op, p, axes=(1,))
        elif op == "center":
            v = b.op("sub", p, b.op("reduce_mean", p, axes=(1,), keepdims=True))
        else:
            v = b.op(op, p) if op in ("tanh", "relu") else b.op("tanh", b.op(op, p, q))
        values.append(v)
    b.output("u", values[-1])
    if draw(st.booleans()):
        b.output("v", draw(st.sampled_from(values)))
    return b.graph()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs())
def test_cover_means_the_graph(graph: Graph) -> None:
    rng = np.random.default_rng(1)
    x = {n.attrs["name"]: rng.standard_normal((N, N)).astype(np.float32) for n in graph.inputs}
    want, got = reference.evaluate(graph, x), run_cover(cover_of(graph), x)
    assert set(want) == set(got)
    for name, w in want.items():
        np.testing.assert_allclose(got[name], w, rtol=1e-3, atol=1e-3)
