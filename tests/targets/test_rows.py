"""Rows that come to blocks which stay, through slots in shared memory: right on the CPU model, and seen where a wait is missing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import autocomp
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.simt_model import COMPILER, ModelExecutor, ModelFailure
from tests.helpers.device_graphs import graph
from tests.helpers.schedules import by_hand

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")

SUM_AND_NORM = graph({"x": "f16[37, 512]", "r": "f16[37, 512]", "g": "f16[512]"},
                     "%0 = add(x, r)\n%1 = rms_norm(%0, g, axes=[1], eps=1e-06)") + "output sum = %0\n"  # fmt: skip
NORM = graph({"x": "f32[38, 512]", "g": "f32[512]", "b": "f32[512]"}, "%0 = layer_norm(x, g, b, axes=[1], eps=1e-05)")
SOFTMAX = graph({"x": "f16[19, 4096]"}, "%0 = softmax(x, axes=[1])")
# sums of exponentials relative to a maximum that grows
ONLINE = graph({"x": "f16[5, 8192]"}, """%0 = cast(x, to="f32")
                                        %1 = reduce_max(%0, axes=[1], keepdims=True)
                                        %2 = max_sumexp(%0, axes=[1], keepdims=True, part="l")
                                        %3 = sub(%0, %1)
                                        %4 = exp(%3)
                                        %5 = div(%4, %2)
                                        %6 = cast(%5, to="f16")""")
STAY = by_hand({"i0": 1, "i1": 512}, threads=64, stages=9, persistent=True)
CASES = {
    "softmax": (SOFTMAX, STAY),
    "no_slot_more": (SOFTMAX, replace(STAY, stages=8)),
    "cluster": (SOFTMAX, replace(STAY, tile=(("i0", 1), ("i1", 1024)), threads=32, cluster=4, stages=6)),
    "cluster_meets_each_turn": (SOFTMAX, replace(STAY, tile=(("i0", 1), ("i1", 1024)), threads=32, cluster=4, stages=6, directives=())),
    "online": (ONLINE, replace(STAY, tile=(("i0", 1), ("i1", 1024)))),
    "online_cluster": (ONLINE, replace(STAY, tile=(("i0", 1), ("i1", 1024)), cluster=2)),
    "norm": (NORM, replace(STAY, tile=(("i0", 1), ("i1", 128)), threads=32, stages=6)),
    "two_rows": (NORM, replace(STAY, tile=(("i0", 2), ("i1", 128)), threads=64, stages=6)),
    "sum_and_norm": (SUM_AND_NORM, replace(STAY, tile=(("i0", 1), ("i1", 256)), threads=32, stages=3)),
}


def staying(text: str, schedule: Schedule, edit=lambda code: code):
    """The program under this very schedule, its kernel's statements edited; two tiles at a time."""
    program = autocomp.optimize(text, target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    source = program.target.emit(kernel, schedule)
    comment, end, code = source.text.partition("*/")
    launch = replace(source.launch, at_most=2 * schedule.cluster)
    program.printed[kernel.name] = replace(source, text=comment + end + edit(code), launch=launch)
    return program


def check(program, model, folder):
    executor = program.executor = ModelExecutor(program, folder, model)
    for executor.late in (True, False):
        program.verify()


@pytest.mark.parametrize("name", CASES)
def test_rows_come_through_slots(name, model, tmp_path):
    program = staying(*CASES[name])
    assert any("ac_bulk_run(" in s.text for s in program.printed.values())
    check(program, model, tmp_path)


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (r"ac_cluster_sync\(\);", "unordered accesses of shared memory"),
        (r"ac_barrier_wait\([^;]*;", "unordered accesses of shared memory|more threads arrive"),
        (r"if \(lane == 0\) ac_barrier_arrive[^;]*;", "the block hangs"),
    ],
)
def test_a_missing_wait_is_seen(gone, said, model, tmp_path):
    def edit(code: str) -> str:
        out, count = re.subn(gone, "", code)
        assert count, f"nothing in the kernel matches {gone}"
        return out

    with pytest.raises((ModelFailure, autocomp.VerificationError), match=said):
        check(staying(*CASES["online_cluster"], edit), model, tmp_path)


def test_workers_keep_bases_of_their_own_through_a_loop():
    """No lane asks another one before the row is through."""
    code = lambda name: next(iter(staying(*CASES[name]).printed.values())).text
    text = code("online")
    first = text[text.index("for (int it = 0") : text.index("own_base")]
    assert "ac_shuffle" not in first and "ac_sync" not in first
    assert text.count("ac_cluster_sync") == 0
    assert code("online_cluster").count("ac_cluster_sync();") == 2  # once a row, and before the end


@pytest.mark.parametrize(
    ("text", "schedule", "said"),
    [
        (SOFTMAX, replace(STAY, stages=7), r"slots for the pieces of a row: needs 8, has 7"),
        (SOFTMAX, replace(STAY, tile=(("i0", 1), ("i1", 2048)), stages=64), "shared memory of a block"),
        (graph({"x": "f16[19, 4100]"}, "%0 = softmax(x, axes=[1])"), STAY, "no row comes in runs"),
        (SOFTMAX, replace(STAY, tile=(("i0", 1),)), "no loops pass over a row"),
    ],
)
def test_rows_that_have_no_place_are_refused_with_their_reason(text, schedule, said):
    with pytest.raises((DoesNotFit, UnsupportedOp), match=said):
        staying(text, schedule)


def test_older_chips_have_no_such_copies():
    program = autocomp.optimize(SOFTMAX, target="cuda:a100")
    with pytest.raises(UnsupportedOp, match="no bulk copies"):
        program.target.emit(program.calls.calls[0].kernel, STAY)


def test_wide_rows_stay_in_slots_by_price():
    """Rows that one block's registers cannot hold; those that they can do not."""
    chosen = lambda rows, width: autocomp.optimize(graph({"x": f"f16[{rows}, {width}]"}, "%0 = softmax(x, axes=[1])"),
                                                   target="cuda:h200").kernels[0].schedule  # fmt: skip
    assert "stages" in chosen(512, 131072) and "cluster 2" in chosen(512, 131072)
    assert "stages" not in chosen(16384, 4096)
