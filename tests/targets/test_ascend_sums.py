"""Sums of weights in attention on Ascend, lanes' until behind the loop (directive `thread_partials`) or a column of a product
(`mma_row_sums`), and weights handed over in fractals (`handed_fractals`)."""

from __future__ import annotations

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.cost.estimate import estimate
from autocomp.ir.schedule import Schedule
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import prepared
from tests.helpers.repeats import repeating
from tests.targets.test_ascend_ahead import SINGLE, attention

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
# (batch, rows, keys, head, causal, type), tile, stages, persistent: tails of rows and keys, fewer keys than a repeat has elements
CASES = {
    "tails": ((3, 150, 300, 128), {"i0": 1, "i1": 128, "r1": 128}, 3, True),
    "causal": ((2, 150, 150, 64, True), {"i0": 1, "i1": 64, "r1": 32}, 2, True),
    "bf16": ((1, 33, 100, 96, False, "bf16"), {"i0": 1, "i1": 16, "r1": 64}, 2, False),
    "odd": ((2, 75, 333, 80), {"i0": 1, "i1": 64, "r1": 128}, 3, False),
    "heads of 64": ((3, 150, 304, 64), {"i0": 1, "i1": 128, "r1": 128}, 4, True),
    "heads of 80": ((2, 150, 300, 80), {"i0": 1, "i1": 128, "r1": 128}, 4, True),
    "heads of 96": ((2, 140, 272, 96), {"i0": 1, "i1": 128, "r1": 128}, 4, True),
    "in turn": ((1, 17, 77, 64), {"i0": 1, "i1": 16, "r1": 32}, 1, False),
}


def under(case, directives, target="ascend:910b"):
    """(program, kernel's text under the case's schedule), to be run."""
    shape, tile, stages, persistent = CASES[case]
    program = prepared(attention(*shape), target)
    kernel = program.calls.calls[0].kernel
    s = Schedule.make(tile, softmax_overlap=int(stages > 1), stages=stages, persistent=persistent, directives=directives)
    program.printed[kernel.name] = load_target(target).emit(kernel, s)
    return program, program.printed[kernel.name].text


@needs_compiler
@pytest.mark.parametrize("case", repeating(["tails", "causal", "bf16", "odd", "in turn"], {"tails": "odd", "causal": "bf16"}))
def test_sums_in_lanes(case, tmp_path):
    program, text = under(case, ("thread_partials",))
    assert text.count("ac_lane_sums(") == 1 and text.count("ac_lane_sum(") == 1 and "ac_row_sum(" not in text
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    program.verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize(("was", "by"), [("ac_lane_sum(", "Add("), (", true);", ", false);")])
def test_a_lane_that_is_not_folded_or_not_scaled_is_seen(was, by, tmp_path):
    program, text = under("causal", ("thread_partials",))
    assert was in text
    program.executor = AscendExecutor(program, tmp_path, edit=lambda t: t.replace(was, by), blocks=1)
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)


def test_the_rule_gives_them_where_products_overlap():
    """Fires where a loop's product is late; not where the cores work in turn."""
    text, rule = attention(16, 2048, 2048, 128), "directives/lane-partials"
    (on,) = autocomp.optimize(text, target="ascend:910b", without=SINGLE).kernels
    (off,) = autocomp.optimize(text, target="ascend:910b", without=[rule, *SINGLE]).kernels
    assert "thread_partials" in on.schedule and "thread_partials" not in off.schedule
    turn = autocomp.optimize(text, target="ascend:910b", without=["tiling/npu-online-ahead", "tiling/npu-online-joined"])
    assert "thread_partials" not in turn.kernels[0].schedule


def test_their_price_is_fewer_instructions():
    program = autocomp.optimize(attention(16, 2048, 2048, 128), target="ascend:910b1")
    kernel, chip = program.calls.calls[0].kernel, program.target.chip
    at = lambda *d: Schedule.make({"i0": 1, "i1": 128, "r1": 128}, softmax_overlap=1, stages=3, persistent=True, directives=d)
    part = lambda *d: dict(estimate(kernel, at(*d), chip).parts)["vector cores"] * chip.clock / (11 * 16)
    assert 60 < part("fused_scale") - part("fused_scale", "thread_partials") < 90  # of a block: 73 on the model


CHIPS = {"heads of 64": "910b1", "heads of 80": "910b2", "heads of 96": "910b4", "causal": "910c", "bf16": "910b"}


@needs_compiler
@pytest.mark.parametrize(("case", "chip"), repeating(CHIPS.items(), {("heads of 80", "910b2"): "heads of 96"}))
def test_sums_by_the_product(case, chip, tmp_path):
    """One, two and three rounds late, with tails of rows and keys; fractals where the keys fill them."""
    program, text = under(case, ("mma_row_sums", "handed_fractals", "thread_partials"), f"ascend:{chip}")
    assert text.count("ac_ones(") == 1 and "ac_row_sum(" not in text and "ac_lane_sums(" not in text
    assert ("ac_to_fractals(" in text) == (CASES[case][0][2] % 16 == 0)
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    program.verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize(("was", "by"), [
    ("ac_ones(l_ones, 128);", "ac_zeros(l_ones, 1, 128, 0);"), ("ac_scaled_add(l", "if (0) ac_scaled_add(l"), ("+ 16 * w_row]", "]"),
    ("PIPE_MTE3>(", "PIPE_MTE2>("),
])  # fmt: skip
def test_a_wrong_column_or_fractal_is_seen(was, by, tmp_path):
    program, text = under("heads of 64", ("mma_row_sums", "handed_fractals"))
    assert was in text
    program.executor = AscendExecutor(program, tmp_path, edit=lambda t: t.replace(was, by), blocks=1)
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)


def test_rules_give_them_where_there_is_room():
    """Sums by the product where L0C has room for its column: not beside two tiles of 128 x 128, nor for an exact program, nor
    in single precision."""
    small, large = (autocomp.optimize(attention(16, 2048, 2048, head), target="ascend:910b1", without=SINGLE) for head in (64, 128))
    (a,), (b,) = small.kernels, large.kernels
    assert {"mma_row_sums", "handed_fractals"} < set(a.schedule.split(" | ")) and "thread_partials" not in a.schedule
    assert {"thread_partials", "handed_fractals"} < set(b.schedule.split(" | ")) and "mma_row_sums" not in b.schedule
    for name in ("npu-row-sums", "handed-fractals"):
        less = autocomp.optimize(attention(16, 2048, 2048, 64), target="ascend:910b1", without=[f"directives/{name}", *SINGLE])
        assert less.predicted > small.predicted
    exact = autocomp.optimize(attention(16, 2048, 2048, 64), target="ascend:910b1", exact=True)
    single = autocomp.optimize(attention(16, 2048, 2048, 64, False, "f32"), target="ascend:910b1")
    assert not any("mma_row_sums" in k.schedule for p in (exact, single) for k in p.kernels)


def test_prices_are_near_the_model():
    """Five tiles of 16 blocks of 128 x 128 a core, without the launch: on the model 89.5 and 72.8 us."""
    program = autocomp.optimize(attention(12, 1280, 2048, 64), target="ascend:910b1")
    kernel, chip = program.calls.calls[0].kernel, program.target.chip
    for stages, directives, us in ((3, ("fused_scale",), 89.5), (4, ("mma_row_sums", "fused_scale", "handed_fractals"), 72.8)):
        s = Schedule.make({"i0": 1, "i1": 128, "r1": 128}, softmax_overlap=1, stages=stages, persistent=True, directives=directives)
        assert abs((estimate(kernel, s, chip).seconds - chip.launch) * 1e6 / us - 1) < 0.06
