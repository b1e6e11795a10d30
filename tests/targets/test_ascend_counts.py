"""Counts of what holds, and what instructions on words and masks cost, on the model of Ascend's cores."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER
from autocomp.simulate.program import simulated
from tests.helpers import fresh
from tests.helpers.device_graphs import graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
RANKS = graph({"x": "i32[6, 90]"}, """%0 = reshape(x, shape=[6, 90, 1])
    %1 = reshape(x, shape=[6, 1, 90])
    %2 = gt(%1, %0)
    %3 = cast(%2, to="i32")
    %4 = reduce_sum(%3, axes=[2])""")
SUMS = graph({"x": "i32[192, 800]"}, "%0 = reduce_sum(x, axes=[1])")


def priced(text: str, without: tuple[str, ...] = ()) -> tuple[float, float]:
    """Seconds of the only kernel by its price and by the model, without the launch."""
    program = autocomp.optimize(text, target="ascend:910b1", without=without)
    with simulated(program) as seen:
        program.verify(seed=fresh.seed())
    (kernel,), (picture,) = program.kernels, seen.pictures()
    return kernel.predicted - dict(kernel.terms)["launch"], picture.seconds


@needs_compiler
def test_counts_are_sums_of_single_precision():
    own, by_words = (autocomp.optimize(RANKS, target="ascend:910b1", without=w) for w in ([], ["quantised/counts-as-floats"]))
    assert "ac_halves_add(" in by_words.source() and "ac_halves_add(" not in own.source()
    _, counted = priced(RANKS)
    _, words = priced(RANKS, ("quantised/counts-as-floats",))
    assert counted < 0.8 * words


@needs_compiler
@pytest.mark.parametrize(("text", "least"), [(SUMS, 0.4), (RANKS, 0.4)])
def test_words_and_masks_are_priced_by_their_instructions(text, least):
    price, model = priced(text)
    assert least * model < price < 1.6 * model
