"""The next launch starts behind a kernel's loops (directive `late_launch`), with a first kernel that has none as it was."""

from __future__ import annotations

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.egraph.parts import merged
from autocomp.ir.schedule_text import parse
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph

TARGET = load_target("cuda:h200")
WAIT, NEXT = "ac_launch_wait();", "ac_launch_next();"
PRODUCT = graph({"x": "bf16[1, 512]", "w": "bf16[512, 256]"}, "%y = matmul(x, w)")
LONG = graph({"x": "bf16[1, 8192]", "w": "bf16[8192, 2048]"}, "%y = matmul(x, w)")
ATTENTION = graph({"q": "f16[2, 4, 64]", "k": "f16[2, 64, 96]", "v": "f16[2, 96, 64]"},
                  "%0 = matmul(q, k)\n%1 = softmax(%0, axes=[2])\n%y = matmul(%1, v)")  # fmt: skip
CASES = [(PRODUCT, "tile i0 32, r0 64 | thread_partials"), (ATTENTION, "tile i0 1, i1 4, i2 64, r1 32 | stages 2 | threads 32")]


def emitted(text: str, schedule: str) -> str:
    return TARGET.emit(merged(autocomp.optimize(text, target="cuda:h200").calls).calls[0].kernel, parse(schedule)).text


@pytest.mark.parametrize(("text", "schedule"), CASES)
def test_blocks_of_the_next_launch_start_behind_the_last_loop_of_turns(text, schedule):
    soon, late = emitted(text, f"{schedule} | pdl"), emitted(text, f"{schedule} | pdl | late_launch")
    assert soon.count(NEXT) == late.count(NEXT) == 1 and soon.count(WAIT) == late.count(WAIT) == 1
    turns = late.index("for (int it = ")
    assert soon.index(WAIT) < soon.index(NEXT) < soon.index("for (int it = ")
    assert late.index(WAIT) < turns < late.index(NEXT) < late.rindex("ac_store")
    assert late[: late.index(NEXT)].count("{") - late[: late.index(NEXT)].count("}") == 1, "all threads of a block let it start"


def test_it_is_chosen_where_there_are_turns_and_left_out_by_name(among_others):
    program = autocomp.optimize(LONG, target="cuda:h200", cache=False)
    assert any("late_launch" in k.schedule for k in program.kernels)
    without = autocomp.optimize(LONG, target="cuda:h200", cache=False, without=("directives/late-launch",))
    assert not any("late_launch" in k.schedule for k in without.kernels)


def test_elements_that_take_no_turns_let_the_next_one_start_at_once():
    kernel = autocomp.optimize(graph({"x": "f32[4096]"}, "%y = exp(x)"), target="cuda:h200").calls.calls[0].kernel
    source = TARGET.emit(kernel, parse("tile i0 512 | threads 128 | pdl | late_launch")).text
    assert source.index(NEXT) < source.index("for (int r = ")


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_results_do_not_change(tmp_path, model, among_others):
    program = autocomp.optimize(ATTENTION, target="cuda:h200", cache=False)
    assert any(NEXT in s.text for s in program.printed.values())
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=1)
