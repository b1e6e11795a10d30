"""The timeline of a simulated program: pipes in order, stalls with their causes, bank conflicts counted as published."""

from __future__ import annotations

import re

import numpy as np
import pytest
from autocomp.targets import load_target
from autocomp.targets.source import KernelSource, Launch

import autocomp
from autocomp.runtime.inputs import random_inputs
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, Event
from autocomp.simulate.ascend_timeline import timeline
from autocomp.simulate.program import simulated
from autocomp.simulate.timeline import Bar, picture
from tests.helpers.command_line import call
from tests.helpers.device_graphs import graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
CHIP = load_target("ascend:910b").chip
NORM = graph({"x": "f16[64, 128]", "w": "f16[128, 64]"}, "%0 = matmul(x, w)\n%1 = softmax(%0, axes=[1])")


def event(kind, pipe, key=0, name=b"Add", **more):
    zero = dict.fromkeys(("amount", "near", "far", "runs", "split", "conflicts"), 0)
    return Event(kind, pipe, key, name, *({**zero, **more}.values()), -1)


def test_a_work_waits_for_the_flag_and_says_for_whom():
    """A copy of 64 KiB, then an addition that a flag orders behind it, then one that nothing does."""
    copied = [event(0, 4, name=b"DataCopyPad", far=65536, runs=1), event(1, 4, 32), event(2, 1, 32)]
    events = [*copied, event(0, 1, amount=64), event(0, 1, amount=64)]
    p = timeline("k", [events], CHIP, 2, "f16", (131072.0, 0.0))
    copy, wait, first, second = sorted(p.bars, key=lambda b: (b.start, b.lane))[0:1] + [
        next(b for b in p.bars if b.stall), *(b for b in p.bars if b.lane == "core V" and not b.stall)]  # fmt: skip
    assert wait == Bar("core V", 0.0, first.start, "MTE2 (DataCopyPad)", stall=True)
    assert first.start > copy.end and first.end == second.start  # the copy's data come later than its pipe is free
    own = CHIP.limits["vector_start"] + 64 / CHIP.clock
    assert first.end - first.start == pytest.approx(own)


def test_no_flag_no_stall_and_a_barrier_waits_for_its_own_pipe():
    free = timeline("k", [[event(0, 4, far=65536, runs=1), event(0, 1, amount=9)]], CHIP, 1, "f16", (65536.0, 0.0))
    assert not free.stalls
    slow, fast = (timeline("k", [[event(0, 1, amount=8, conflicts=n)]], CHIP, 1, "f16", (0.0, 0.0)) for n in (8, 0))
    assert slow.seconds - fast.seconds == pytest.approx(8 / CHIP.clock) and slow.conflicts == 8
    rows = ({"runs": 32, "split": 96}, {"runs": 64})  # of 80 bytes in a factor: half of them begin within a block, if not padded
    odd, even = (timeline("k", [[event(0, 4, far=5120, **how), event(0, 2)], [], []], CHIP, 1, "f16", (5120.0, 0.0)) for how in rows)
    assert odd.seconds - even.seconds == pytest.approx(96 * CHIP.limits["l1_block"] - 32 * CHIP.limits["l1_row"])


def test_sums_count_what_is_not_drawn():
    bars = [Bar("a", float(i), i + 0.5, "w") for i in range(900)]
    p = picture("k", ["a"], bars, "")
    assert (len(p.bars), p.cut, dict(p.busy)["a"]) == (500, 400, 450.0)


SCENARIOS = [  # of the public example bank_conflict_ub: two sources and the result, strides of the first source, clocks
    ((0x0, 0x10100, 0x20000), (1, 8), 0),
    ((0x0, 0x4000, 0x10000), (1, 8), 64),
    ((0x0, 0x10000, 0x14100), (1, 8), 64),
    ((0x0, 0x10100, 0x4000), (1, 8), 0),
    ((0x0, 0x10100, 0x4020), (1, 8), 63),
    ((0x0, 0x10100, 0x10100), (1, 8), 0),
    ((0x0, 0x10100, 0x10100), (0, 1), 32),
    ((0x0, 0x10100, 0x10100), (0, 8), 0),
]


@needs_compiler
def test_bank_conflicts_are_those_of_the_public_example(tmp_path):
    """An Add of 64 repeats on eight layouts; published clocks say 0, 64, 64, 0, 50, 0, 44, 0 more (README of bank_conflict_ub)."""
    lines = ["TPipe pipe;", "TBuf<TPosition::VECCALC> ub;", "pipe.InitBuffer(ub, 188416);", "pipe.Destroy();"]
    for i, ((a, b, d), (blk, rep), _) in enumerate(SCENARIOS):
        lines += [f"LocalTensor<float> {n}{i} = ub.GetWithOffset<float>(4096, {at});" for n, at in zip("abd", (a, b, d))]
        lines += [f"Add(d{i}, a{i}, b{i}, 64, 64, BinaryRepeatParams(1, {blk}, 1, 8, {rep}, 8));", "PipeBarrier<PIPE_V>();"]
    text = ('/* */\nextern "C" __global__ __aicore__ void k(GM_ADDR x) {\n  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);\n'
            "  using namespace AscendC;\n  " + "\n  ".join(lines) + "\n}\n")  # fmt: skip
    source = KernelSource("k", text, "k", ("x",), (), (), ("autocomp_ascend.h",), "cpp", launch=Launch((((1, 1),),), 1))
    program = type("P", (), {"printed": {"k": source}, "target": load_target("ascend:910b")})()
    executor = AscendExecutor(program, tmp_path)
    executor.start(source, [np.zeros(8, np.float32)], {})
    found = [e.conflicts for e in executor.events()[0] if e.name == b"Add" and e.kind == 0]
    assert found == [clocks for *_, clocks in SCENARIOS]


@needs_compiler
def test_a_program_has_a_picture_of_every_kernel():
    program = autocomp.optimize(NORM, target="ascend:910b")
    with simulated(program) as seen:
        program.run(random_inputs(program.graph, 0))
        pictures = {p.kernel: p for p in seen.pictures()}
    assert pictures.keys() == {k.name for k in program.kernels}
    product = pictures["matmul"]
    assert product.lanes == ("core MTE2", "core MTE1", "core M", "core FIX")
    assert {(lane, cause) for lane, cause, _ in product.stalls} >= {("core MTE1", "MTE2 (DataCopy)"), ("core FIX", "M (Mmad)")}
    (rows,) = (p for name, p in pictures.items() if name != "matmul")
    assert rows.lanes == ("core MTE2", "core V", "core MTE3")  # short rows are folded without the scalar unit
    for p in pictures.values():
        for lane in p.lanes:  # a pipe does one thing after another
            mine = sorted((b.start, b.end) for b in p.bars if b.lane == lane)
            assert all(a[1] <= b[0] + 1e-15 for a, b in zip(mine, mine[1:])), lane


@pytest.mark.parametrize("target", ["maca:c500", "cuda:h200"])
def test_gpu_kernels_by_the_phases_of_their_plans(target):
    from autocomp.simulate.program import Seen

    program = autocomp.optimize(NORM, target=target)
    pictures = Seen(program).pictures()
    assert [p.kernel for p in pictures] == [c.kernel.name for c in program.calls.calls]
    product = pictures[0]
    assert "phases between barriers" in product.note and "matrix unit" in product.lanes
    assert {cause for *_, cause in product.stalls} and any("the barrier" in cause for _, cause, _ in product.stalls)


@needs_compiler
def test_the_command_draws_one_page(tmp_path):
    (tmp_path / "m.txt").write_text(NORM)
    words = ("run", str(tmp_path / "m.txt"), "--target", "ascend:910b", "--timeline", str(tmp_path / "t.html"))
    code, _, err = call(*words)
    assert code == 2 and "--timeline draws what" in err
    code, out, _ = call(*words, "--simulate")
    page = (tmp_path / "t.html").read_text()
    assert code == 0 and "wrote" in out and page.count("<svg") == 1 + page.count("<h2>")
    assert "http" not in page.replace("http://www.w3.org", "")
    assert re.search(r"waits for MTE2 \(DataCopy\)", page) and "no chip was used" in page.lower()
