"""Random graphs: the text form gives the same nodes back, and decomposing does not change what they compute."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autocomp.frontends.text import parse, show
from autocomp.ir.builder import Builder
from autocomp.ir.checks import check_graph
from autocomp.ir.decompose import decompose
from autocomp.ir.node import Graph, Node
from autocomp.ir.ops import OPS
from autocomp.ir.reference import evaluate
from autocomp.ir.types import DTYPES, F32, F64, TensorType

UNARY = ["exp", "tanh", "neg", "relu", "gelu", "sigmoid", "abs"]
BINARY = ["add", "mul", "sub", "max"]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to a dozen ops over one or two inputs of rank 2 or 3."""
    dtype = draw(st.sampled_from([F32, F64]))
    b = Builder(draw(st.sampled_from(["g", "a b", "it's", "x/y.1", "#1"])))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=3)))
    pool: list[Node] = [b.input("x", TensorType(dtype, shape)), b.param("w 1", np.full(shape[-1:], 0.5, dtype.numpy))]
    for _ in range(draw(st.integers(1, 12))):
        n = draw(st.sampled_from(pool))
        rank = n.type.rank
        kind = draw(st.sampled_from(["unary", "binary", "const", "reduce", "transpose", "reshape", "softmax", "slice", "concat"]))
        if kind == "unary":
            pool.append(b.op(draw(st.sampled_from(UNARY)), n))
        elif kind == "binary":
            same = [m for m in pool if m.type.shape == n.type.shape]
            pool.append(b.op(draw(st.sampled_from(BINARY)), n, draw(st.sampled_from(same))))
        elif kind == "const":
            value = draw(st.sampled_from([0.0, -1.5, 1e-9, float("inf")]))
            pool.append(b.op(draw(st.sampled_from(BINARY)), n, b.const(value, dtype)))
        elif kind == "reduce" and rank > 1:
            axes = (draw(st.integers(0, rank - 1)),)
            pool.append(
                b.op(
                    draw(st.sampled_from(["reduce_sum", "reduce_max", "reduce_mean"])), n, axes=axes, keepdims=draw(st.booleans())
                )
            )
        elif kind == "transpose":
            pool.append(b.op("transpose", n, perm=tuple(draw(st.permutations(range(rank))))))
        elif kind == "reshape":
            pool.append(b.op("reshape", n, shape=(n.type.elements,)))
        elif kind == "softmax":
            pool.append(b.op("softmax", n, axes=(rank - 1,)))
        elif kind == "slice":
            d = n.type.shape
            pool.append(
                b.op("slice", n, starts=(d[0] - 1, *(0,) * (rank - 1)), limits=(-1, *d[1:]), steps=(-1, *(1,) * (rank - 1)))
            )
        elif kind == "concat":
            pool.append(b.op("concat", n, n, axis=rank - 1))
    b.output("out", pool[-1])
    b.output("it's #2", draw(st.sampled_from(pool)))
    return b.graph()


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_round_trip(g: Graph) -> None:
    check_graph(g)
    again = parse(show(g), params=dict(g.params))
    assert again.name == g.name
    assert [name for name, _ in again.outputs] == [name for name, _ in g.outputs]
    assert all(a is b for (_, a), (_, b) in zip(again.outputs, g.outputs))
    assert show(again) == show(g)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), st.integers(0, 99))
def test_decomposing_keeps_the_meaning(g: Graph, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(g.inputs[0].type.shape).astype(g.inputs[0].type.dtype.numpy)
    small = decompose(g)
    check_graph(small)
    assert all(n.op not in OPS or OPS[n.op].decompose is None for n in small.nodes())
    want, got = evaluate(g, {"x": x}), evaluate(small, {"x": x})
    for name, y in want.items():
        eps = max(n.type.dtype.eps for n in g.nodes())  # constants such as 1/n are rounded to their dtype in both evaluations
        np.testing.assert_allclose(got[name], y, rtol=max(1e-9, 4 * eps), atol=max(1e-12, eps))


def test_every_dtype_prints_and_parses() -> None:
    for d in DTYPES:
        g = parse(f"graph g\ninput x: {d}[2]\noutput y = x\n")
        assert parse(show(g)).inputs == g.inputs


def test_attributes_of_every_kind_round_trip() -> None:
    b = Builder("attributes")
    x, y = b.input("x,y = z", TensorType(F32, (2, 3))), b.input('"', TensorType(F32, (3, 2)))
    e = b.op("einsum", x, y, spec="ab,bc->ac")
    p = b.op("pad", b.op("cast", e, to="f64"), lo=(1, 0), hi=(0, 2), value=float("-inf"))
    b.output("out", b.op("stencil", p, offsets=((0, 1), (-1, 0)), weights=(0.5, 0.25), steps=2))
    g = b.graph()
    assert parse(show(g)).outputs == g.outputs
