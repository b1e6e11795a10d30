"""What verification allows: an output in which large terms cancel moves with its inputs' last digits."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError, VerificationError
from autocomp.frontends.text import parse
from autocomp.ir.reference import evaluate
from autocomp.ir.tolerance import deviation
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.verify import verify

DOT = parse("graph g\ninput x: f32[1, 2]\ninput y: f32[2, 1]\n%0 = matmul(x, y)\noutput out = %0\n")
X = np.array([[1.7, 1.3]], np.float32)
Y = np.array([[1.3], [-1.7 + 1e-5]], np.float32)


def off_by(error, x=X, y=Y):
    """Verification of a program whose result is `error` away."""
    right = x.astype(np.float64) @ y.astype(np.float64)
    program = SimpleNamespace(graph=DOT, name="g", kernels=(), run=lambda feed: {"out": (right + error).astype(np.float32)})
    return verify(program, {"x": x, "y": y})


def test_a_result_may_move_as_far_as_an_ulp_in_the_inputs_moves_it():
    assert off_by(1e-7).ratio <= 1  # an ulp of the terms that cancel: 0.01 of the result


def test_what_inputs_an_ulp_away_do_not_explain_is_wrong():
    with pytest.raises(VerificationError, match=r"times the allowed error \(.* tolerances: inputs an ulp away"):
        off_by(1e-5)
    with pytest.raises(VerificationError, match=r"times the allowed error\n"):
        off_by(1e-4, y=np.abs(Y))


SOFTMAX = "graph g\ninput x: {0}[256, 8192]\ninput w: {0}[8192, 64]\n" \
          "%0 = matmul(x, w)\n%1 = softmax(%0, axes=[1])\noutput out = %1\n"


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_weights_of_large_scores_move_as_far_as_rounded_scores_move_them(dtype):
    """Scores of 90 in half precision are off by a thirtieth and more, and so are their exponentials: no wrong result. That of other
    rows is one."""
    graph = parse(SOFTMAX.format(dtype))
    feed = random_inputs(graph, 0)
    own = evaluate(graph, feed, float64=False)["out"]
    program = SimpleNamespace(graph=graph, name="g", kernels=(), run=lambda feed: {"out": own})
    assert deviation(graph, evaluate(graph, feed), {"out": own}).ratio > 1
    assert verify(program, feed).ratio <= 1
    program.run = lambda feed: {"out": np.roll(own, 1, axis=0)}
    with pytest.raises(VerificationError, match=r"times the allowed error \(.* tolerances: values rounded to their types\)"):
        verify(program, feed)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_wrong_where_the_reference_has_one(bad):
    """Also where another element of the reference is none."""
    graph = parse("graph g\ninput x: f32[4]\n%0 = log(x)\noutput out = %0\n")
    feed = {"x": np.array([1, 0, -1, 2], np.float32)}
    with np.errstate(all="ignore"):
        right = np.log(feed["x"])
    program = SimpleNamespace(graph=graph, name="g", kernels=(), run=lambda feed: {"out": right})
    assert verify(program, feed).ratio <= 1
    for at in range(4):
        wrong = right.copy()
        wrong[at] = bad if at != 2 else 1.0
        program.run = lambda feed, wrong=wrong: {"out": wrong}
        if not np.array_equal(wrong, right, equal_nan=True):
            with pytest.raises(VerificationError, match="the float64 reference says"):
                verify(program, feed)


def test_an_overflow_that_the_graphs_own_types_have_too_is_none():
    graph = parse("graph g\ninput x: f16[2]\n%0 = mul(x, x)\n%1 = sqrt(%0)\noutput out = %1\n")
    feed = {"x": np.array([300, 2], np.float16)}
    program = SimpleNamespace(graph=graph, name="g", kernels=(), run=lambda feed: {"out": np.array([np.inf, 2], np.float16)})
    assert verify(program, feed).ratio <= 1
    program.run = lambda feed: {"out": np.array([300, np.inf], np.float16)}
    with pytest.raises(VerificationError):
        verify(program, feed)


def test_indices_that_are_computed_stay_inside():
    """A position plus an offset, as rotary embeddings look their tables up."""
    text = "graph g\ninput x: f32[9, 3]\ninput p: i64[1]\n%0 = iota(shape=[4], axis=0)\n%1 = cast(%0, to='i64')\n%2 = add(%1, p)\n"
    program = autocomp.optimize(text + "%3 = gather(x, %2, axis=0)\noutput y = %3\n")
    for seed in range(8):
        assert program.verify(seed=seed).ratio <= 1
    with pytest.raises(ModelError, match="an index lies outside of what it indexes: index 9 is out of bounds"):
        program.verify({"x": np.ones((9, 3), "f4"), "p": np.array([6])})


@pytest.mark.parametrize("node", [
    'sum_at(at, x, axis=0, size=3, dtype="f32")', 'scatter_elements(y, at, x, axis=0, reduction="add")',
    'scatter_nd(y, rows, x, reduction="add")', "gather(y, at, axis=0)",
])  # fmt: skip
def test_drawn_indices_are_places_of_what_they_write_to(node):
    graph = parse(f"graph g\ninput x: f32[6]\ninput y: f32[3]\ninput at: i64[6]\n"
                  f"rows = reshape(at, shape=[6, 1])\n%0 = {node}\noutput out = %0\n")
    program = SimpleNamespace(graph=graph, name="g", kernels=(), run=lambda feed: evaluate(graph, feed, float64=False))
    assert verify(program).ratio <= 1
    assert {0, 1, 2} == {int(k) for seed in range(9) for k in random_inputs(graph, seed)["at"]}
