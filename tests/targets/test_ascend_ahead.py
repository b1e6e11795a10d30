"""Attention on Ascend with the product of its weights some rounds late: cube and vector cores work side by side."""

from __future__ import annotations

from collections import Counter

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.cost.estimate import estimate
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import graph, prepared

TARGET = "ascend:910b"
needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")


def attention(batch, rows, keys, head, causal=False, dtype="f16"):
    mask = (f"%r = iota(shape=[{rows}, {keys}], axis=0)\n%c = iota(shape=[{rows}, {keys}], axis=1)\n%m = ge(%r, %c)\n"
            f"%w = where(%m, %2, const(-inf, {dtype}))\n")  # fmt: skip
    return graph({"q": f"{dtype}[{batch}, {rows}, {head}]"} | {n: f"{dtype}[{batch}, {keys}, {head}]" for n in "kv"},
                 f"%0 = transpose(k, perm=[0, 2, 1])\n%1 = matmul(q, %0)\n%2 = mul(%1, const(0.125, {dtype}))\n{mask if causal else ''}"
                 f"%3 = softmax(%{'w' if causal else '2'}, axes=[2])\n%4 = matmul(%3, v)")  # fmt: skip


SINGLE = ["directives/half-scores", "tiling/npu-online-halves"]  # without them scores stay in single precision
CASES = {"six rounds": (2, 75, 333, 32), "two rounds": (1, 33, 100, 40, False, "bf16"), "causal": (2, 150, 150, 64, True)}


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_attention_with_a_late_product(case, tmp_path):
    program = prepared(attention(*CASES[case]), TARGET, without=["tiling/npu-online"])
    assert [k for k in program.kernels if "softmax_overlap 1" in k.schedule]
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize(("was", "by"), [("r1_now - 1", "r1_now - 0"), ("r1_round_now - 1", "r1_round_now - 0"),
                                         ("if (r1 >= 2)", "if (r1 >= 3)")])  # fmt: skip
def test_a_wrong_round_is_seen(was, by, tmp_path):
    program = prepared(attention(1, 40, 200, 32), TARGET, without=["tiling/npu-online", "tiling/npu-online-joined"])
    assert was in next(iter(program.printed.values())).text
    program.executor = AscendExecutor(program, tmp_path, edit=lambda text: text.replace(was, by), blocks=1)
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)


def test_it_is_chosen_and_cheaper_where_there_are_several_rounds():
    program = autocomp.optimize(attention(8, 2048, 2048, 128), target=TARGET)
    assert "softmax_overlap 1" in program.kernels[0].schedule
    kernel, chip = program.calls.calls[0].kernel, program.target.chip
    tile = {"i0": 1, "i1": 64, "r1": 128}
    two, one, turn = (estimate(kernel, Schedule.make(tile, softmax_overlap=x, stages=s), chip).seconds for x, s in ((1, 3), (1, 2), (0, 1)))
    assert two < 0.85 * one < 0.68 * turn
    parts = dict(estimate(kernel, Schedule.make({**tile, "i1": 128}, softmax_overlap=1, stages=3), chip).parts)
    rounds = -(-8 * 16 // chip.cores) * (16 + 2)  # of 128 x 128 scores: on the model 2,240 clocks, 1,020 of copies in
    assert 1600 < parts["vector cores"] * chip.clock / rounds < 2400
    assert 900 < parts["copies to vector cores"] * chip.clock / rounds < 1100


def test_large_tiles_have_one_slot_where_two_do_not_fit():
    """Two sums of 128 x 128 fill L0C; of two slots each only 64 x 128 would fit, and keys would be copied twice as often."""
    program = autocomp.optimize(attention(8, 2048, 2048, 128), target=TARGET, without=SINGLE)
    kernel, chip = program.calls.calls[0].kernel, program.target.chip
    assert "i1 128, i2 128, r1 128" in program.kernels[0].schedule
    large, small = (Schedule.make({"i0": 1, "i1": m, "r1": 128}, softmax_overlap=1) for m in (128, 64))
    assert estimate(kernel, large, chip).seconds < 0.85 * estimate(kernel, small, chip).seconds
    text = program.printed[kernel.name].text
    assert "queue cube.M -> cube.FIX [acc] each r1, 1 slot" in text and "l0c: 131072 of 131072" in text
    assert "queue cube.M -> cube.FIX [acc] each r1, 2 slots" in load_target(TARGET).emit(kernel, small).text


@needs_compiler
@pytest.mark.parametrize("stages", [2, 3])
def test_attention_with_one_slot(stages, tmp_path):
    """Tails of rows and keys, more tiles than one a group; the late product one round behind or two."""
    program = prepared(attention(3, 150, 300, 128), TARGET)
    call, target = program.calls.calls[0], load_target(TARGET)
    schedule = Schedule.make({"i0": 1, "i1": 128, "r1": 128}, softmax_overlap=1, stages=stages)
    program.printed[call.kernel.name] = target.emit(call.kernel, schedule)
    assert f"if (r1 >= {stages - 1})" in program.printed[call.kernel.name].text
    program.executor = executor = AscendExecutor(program, tmp_path, blocks=2)
    program.verify(seed=fresh.seed())
    counts = Counter(e.name for e in executor.events()[0])
    assert counts[b"LoadData"] < 3 * counts[b"Mmad"]  # most sides of a product come in one instruction: twelve where bands take one each
    text = program.printed[call.kernel.name].text
    assert text.index("Cast(p_n_out") < text.index("ac_row_sum(l")  # the cube waits for weights, not for their sums
    assert "ac_scaled_sum(o" in text and "ac_Mul_stat(o" not in text  # the sums so far are scaled as the next ones are added


def test_a_late_factor_has_a_slot_more_than_rounds_it_is_late():
    """Heads of 256: keys in spare slots left values one, and the plan was stuck; fewer spare slots, or both numbers."""
    kernel = autocomp.optimize(attention(2, 128, 1024, 256), target=TARGET).calls.calls[0].kernel
    at = lambda stages: Schedule.make({"i0": 1, "i1": 64, "r1": 128}, softmax_overlap=1, stages=stages)
    assert "if (r1 >= 2)" in load_target(TARGET).emit(kernel, at(3)).text
    with pytest.raises(DoesNotFit, match="4 slots of in2_t in l1 of a core: needs"):
        load_target(TARGET).emit(kernel, at(4))


JOINED = {  # blocks of a tile: three; as many as the diagonal lets it have, from one; no more than the late product is behind
    "tails": ((3, 150, 300, 128), {"i0": 1, "i1": 128, "r1": 128}, 3),
    "causal": ((2, 150, 150, 64, True), {"i0": 1, "i1": 64, "r1": 32}, 2),
    "two": ((5, 40, 100, 32), {"i0": 1, "i1": 32, "r1": 64}, 3),
}


@needs_compiler
@pytest.mark.parametrize("case", JOINED)
def test_tiles_without_a_gap(case, tmp_path):
    """One loop over tiles and blocks: several tiles a group of cores."""
    shape, tile, stages = JOINED[case]
    program = prepared(attention(*shape), TARGET)
    call = program.calls.calls[0]
    schedule = Schedule.make(tile, softmax_overlap=1, stages=stages, persistent=True)
    text = load_target(TARGET).emit(call.kernel, schedule)
    assert "tile_0 += GetBlockNum()" in text.text and "_last" in text.text
    program.printed[call.kernel.name] = text
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    program.verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize(("was", "by"), [("Duplicate(o3, 0.0f, 1024);", "if (0) Duplicate(o3, 0.0f, 1024);"),
                                         ("r1 + 1 == r1_end", "r1 + 2 == r1_end"), ("o3, l_last_kept,", "o3, l2,"),
                                         ("round = round_1,", "round = round_0,")])  # fmt: skip
def test_a_wrong_end_of_a_tile_is_seen(was, by, tmp_path):
    program = prepared(attention(3, 64, 200, 32), TARGET)
    kernel = program.calls.calls[0].kernel
    schedule = Schedule.make({"i0": 1, "i1": 64, "r1": 64}, softmax_overlap=1, stages=2, persistent=True)
    program.printed[kernel.name] = load_target(TARGET).emit(kernel, schedule)
    assert was in program.printed[kernel.name].text
    program.executor = AscendExecutor(program, tmp_path, edit=lambda text: text.replace(was, by), blocks=1)
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)


def test_tiles_without_a_gap_are_cheaper_and_chosen():
    """On the model 5 tiles of 8 blocks of 128 x 128 take 54.2 us where they took 65.5."""
    program = autocomp.optimize(attention(16, 2048, 2048, 128), target=TARGET, without=SINGLE)
    assert "persistent" in program.kernels[0].schedule and "tiling/npu-online-joined: the schedule" in program.source()
    kernel, chip = program.calls.calls[0].kernel, program.target.chip
    tile = {"i0": 1, "i1": 128, "r1": 128}
    on, apart = (estimate(kernel, Schedule.make(tile, softmax_overlap=1, stages=3, persistent=x), chip).seconds for x in (True, False))
    assert 0.85 < on / apart < 0.92
    left = autocomp.optimize(attention(16, 2048, 2048, 128), target=TARGET, without=["tiling/npu-online-joined", *SINGLE])
    assert "persistent" not in left.kernels[0].schedule


@needs_compiler
@pytest.mark.parametrize("case", ["tails", "two"])
def test_scores_scaled_as_their_maximum_is_taken_off(case, tmp_path):
    """Directive fused_scale, and arrivals half a row of banks apart: fewer clocks of vector instructions."""
    shape, tile, stages = JOINED[case]
    program = prepared(attention(*shape), TARGET)
    call, waits = program.calls.calls[0], {}
    for directives in ((), ("fused_scale",)):
        schedule = Schedule.make(tile, softmax_overlap=1, stages=stages, persistent=True, directives=directives)
        text = program.printed[call.kernel.name] = load_target(TARGET).emit(call.kernel, schedule)
        assert ("ac_scaled_less(" in text.text) == bool(directives)
        (folder := tmp_path / str(len(directives))).mkdir()
        program.executor = executor = AscendExecutor(program, folder, blocks=1)
        program.verify(seed=fresh.seed())
        waits[directives] = sum(e.conflicts for e in executor.events()[1])
    assert waits["fused_scale",] < 0.95 * waits[()]


def test_the_rule_gives_it_where_scores_are_scaled():
    text, rule = attention(16, 2048, 2048, 128), "directives/fused-scale"
    on, off = (autocomp.optimize(text, target=TARGET, without=[*SINGLE, *less]).kernels[0].schedule for less in ([], [rule]))
    assert "fused_scale" in on and "fused_scale" not in off
    unscaled = graph({n: "f16[16, 2048, 128]" for n in "qkv"}, "%0 = transpose(k, perm=[0, 2, 1])\n%1 = matmul(q, %0)\n"
                     "%3 = softmax(%1, axes=[2])\n%4 = matmul(%3, v)")  # fmt: skip
    assert "fused_scale" not in autocomp.optimize(unscaled, target=TARGET, without=SINGLE).kernels[0].schedule


def test_a_loop_without_such_a_product_is_refused():
    kernel = autocomp.optimize(graph({"x": "f16[64, 256]", "w": "f16[256, 64]"}, "%0 = matmul(x, w)"), target=TARGET).calls.calls[0].kernel
    with pytest.raises(UnsupportedOp, match="no product of a loop reads what vector cores make"):
        load_target(TARGET).emit(kernel, Schedule.make({"i0": 64, "i1": 64, "r0": 64}, softmax_overlap=1))
