"""The text form round-trips and refuses with file:line."""

from __future__ import annotations

import numpy as np
import pytest

from autocomp.errors import ModelError
from autocomp.frontends import load
from autocomp.frontends.text import parse, show
from autocomp.ir.reference import evaluate

MLP = """graph mlp
input x: f32[3, 4]
param w: f32[4, 5] = random(3)
%0 = matmul(x, w)
%1 = max(%0, const(0.0, f32))
%2 = reduce_sum(%1, axes=[1], keepdims=True)
output y = %2
"""


def test_round_trip_gives_the_same_nodes():
    g = parse(MLP)
    again = parse(show(g), params=dict(g.params))
    assert [n for _, n in again.outputs] == [n for _, n in g.outputs]
    assert show(again) == show(g)


def test_meaning():
    g = parse(MLP)
    x = np.arange(12, dtype="f4").reshape(3, 4)
    want = np.maximum(x.astype("f8") @ g.param("w").astype("f8"), 0).sum(1, keepdims=True)
    np.testing.assert_allclose(evaluate(g, {"x": x})["y"], want)


def test_symbolic_dimensions_round_trip():
    g = parse("graph g\ndim n in 1..64 multiple 4\ninput x: f32[n, 8]\n%0 = exp(x)\noutput y = %0\n")
    assert "dim n in 1..64 multiple 4" in show(g)
    assert parse(show(g)).outputs == g.outputs


@pytest.mark.parametrize(("text", "message"), [
    ("graph g\ninput x: f31[3]\n", "text:2: unknown dtype 'f31'"),
    ("graph g\ninput x: f32[n]\n", "text:2: unknown dimension 'n'"),
    ("graph g\ninput x: f32[-1]\n", "text:2: '-1' is no dimension"),
    ("graph g\ninput x: f32[\u00b2]\n", "text:2: '\u00b2' is no dimension"),
    ("graph g\ninput x: f32[3]\n%0 = expp(x)\n", "text:3: there is no op 'expp'\n  next: did you mean 'exp'?"),
    ("graph g\ninput x: f32[3]\n%0 = add(x, y)\n", "text:3: 'y' is not defined"),
    ("graph g\ninput x: f32[3]\ninput z: f32[4]\n%0 = add(x, z)\n", "text:4: add: shapes [3] and [4] do not broadcast"),
    ("graph g\nparam w: f32[99999, 99999] = zeros\n", "text:2: parameter 'w' of f32[99999, 99999] is too large"),
    ("graph g\nwhat\n", "text:2: cannot read 'what'"),
    ("graph g\ninput x: f32[3]\n", "text: the graph has no output"),
])  # fmt: skip
def test_refusals_name_the_line(text, message):
    with pytest.raises(ModelError) as e:
        parse(text)
    assert message in str(e.value)


def test_a_named_dimension_can_be_fixed():
    text = "graph g\ndim N in 2..64 multiple 2\ninput x: f32[N, 3]\n%0 = reshape(x, shape=[3, N])\noutput y = %0\n"
    assert [str(n.type) for _, n in parse(text, dims={"N": 4}).outputs] == ["f32[3, 4]"]
    with pytest.raises(ModelError, match=r"^text:2: dimension N cannot be 5\n  next: it is in 2..64, a multiple of 2$"):
        parse(text, dims={"N": 5})
    with pytest.raises(ModelError, match=r"^text: has no named dimension 'M'\n  next: named dimensions: N$"):
        parse(text, dims={"M": 4})
    with pytest.raises(ModelError, match=r"^graph g: has no named dimension 'N'\n  next: all of its dimensions are numbers$"):
        load(parse(text), dims={"N": 4})


@pytest.mark.parametrize("text", ["input n: f32[3]\nparam n: f32[3] = extern\n%0 = mul(n, n)\noutput y = %0",
                                  "param n: f32[3] = extern\ninput n: f32[3]\n%0 = mul(n, n)\noutput y = %0"])  # fmt: skip
def test_an_input_and_a_parameter_have_two_names(text):
    with pytest.raises(ModelError, match="'n'"):
        parse("graph g\n" + text, {"n": np.ones(3, np.float32)})
