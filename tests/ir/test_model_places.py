"""Places: what the model calls its nodes, in one line."""

from __future__ import annotations

import pytest

from autocomp.ir.builder import Builder
from autocomp.ir.places import places_of, short, spread_places, summary
from autocomp.ir.types import F32, TensorType


@pytest.mark.parametrize(("place", "name"), [
    ("node 3 'encoder/q' (MatMul)", "encoder/q"),
    ("node 3 (MatMul)", "node 3 (MatMul)"),
    ("layers.0.attention (linear_1)", "layers.0.attention (linear_1)"),
    ("model.py:12 in block `y = x @ w`", "model.py:12"),
    ("<stdin>:1 in f", "<stdin>:1"),
    ("m.py:3 in norm `return x / s(x)` (called at m.py:12)", "m.py:3 <- 12"),
    ("u.py:3 in norm `return (x)` (called at m.py:12, m.py:40, n.py:7 and 2 more)", "u.py:3 <- m.py:12 <- 40 <- n.py:7"),
])  # fmt: skip
def test_the_name_alone(place, name):
    assert short(place) == name


@pytest.mark.parametrize(("places", "text"), [
    ([], ""),
    (["layer1.0.conv1 (conv)", "layer1.0.bn1 (norm)", "layer1.0 (add)"], "layer1.0: conv1, bn1, add"),
    (["l.1.attn (mul)", "l.1.attn (neg)", "l.1.attn (add)"], "l.1.attn: mul, neg, add"),
    (["l.1.a (mul)", "l.1.b (mul)", "l.1.c (mul)", "l.1.d (mul)", "l.1.e (mul)"], "l.1: a, b, c, 2 more"),
    (["l.1.a (mul)", "l.11.b (mul)"], "l: 1.a, 11.b"),
    (["embed (gather)", "norm (mul)"], "embed, norm"),
    (["m.py:12 in f `x`", "m.py:13 in f `y`"], "m.py: 12, 13"),
    (["m.py:12 in f `x`"], "m.py:12"),
    (["m.py:3 in n `x` (called at m.py:12)", "m.py:4 in n `y` (called at m.py:12)"], "m.py: 3 <- 12, 4 <- 12"),
    (["u.py:3 in n `x` (called at m.py:12)", "u.py:3 in n `x` (called at m.py:14)"], "u.py:3 <- m.py: 12, 14"),
    (["node 0 '/b.4/residual' (Add)", "node 1 '/pool' (ReduceMean)"], "/b.4/residual, /pool"),
    (["node 0 '/enc/q/MatMul' (MatMul)", "node 1 '/enc/q/Add' (Add)"], "/enc/q: MatMul, Add"),
])  # fmt: skip
def test_a_summary_says_what_is_common_once(places, text):
    assert summary(places) == text


def test_nodes_made_on_the_way_belong_to_who_reads_them():
    b = Builder("g")
    x = b.input("x", TensorType(F32, (4,)))
    inner = b.op("exp", x)
    outer = b.op("neg", inner)
    again = b.op("abs", inner)
    b.locations |= {outer: "node 0 'a' (A)", again: "node 1 'b' (B)"}
    b.output("y", outer)
    b.output("z", again)
    g = spread_places(b.graph())
    assert g.locations[inner] in (g.locations[outer], g.locations[again])
    assert x not in g.locations
    numbers = [i for i, n in enumerate(g.nodes()) if n.inputs]
    assert set(places_of(g, numbers)) == {"node 0 'a' (A)", "node 1 'b' (B)"}
