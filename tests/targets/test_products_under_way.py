"""No instruction of a machine reads an accumulator that matrix instructions under way write: in what ptxas makes of kernels with roles.

ptxas takes any wait behind the last product of a block of instructions for the one that its results need, so the printed text keeps
loops of few turns loops, and a turn that stands alone waits for all (`targets/cuda/mainloop.py`).
"""

from __future__ import annotations

import re

import pytest

import autocomp
from tests.helpers.device_graphs import attention, graph
from tests.helpers.sass import instructions, needs_disassembler

PRODUCT = re.compile(r"GMMA\.64x(\d+)x\d+\.(F32|F16|S32)\S* R(\d+)")
WAIT = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x(\d+)")


pytestmark = needs_disassembler


def read_under_way(lines: list[str]) -> tuple[int, list[str]]:
    """How many matrix instructions there are, and the others that name a register of one whose group may not be done."""
    groups: list[list[range]] = []
    now: list[range] = []
    found, products = [], 0
    for line in lines:
        if x := PRODUCT.search(line):
            products += 1
            first, columns = int(x[3]), int(x[1])
            now.append(range(first, first + (columns // 4 if x[2] == "F16" else columns // 2)))
            if "gsb0" in line:
                groups, now = [*groups, now], []
        elif x := WAIT.search(line):
            groups = groups[len(groups) - int(x[1]) :] if int(x[1]) else []
        else:
            busy = {r for mine in (*groups, now) for registers in mine for r in registers}
            found += [line] if busy & {int(r) for r in re.findall(r"\bR(\d+)", line)} else []
    return products, found


def test_the_scan_finds_what_it_looks_for():
    lines = ["HGMMA.64x96x16.F32.BF16 R24, gdesc[UR8], R24, gsb0", "WARPGROUP.DEPBAR.LE gsb0, 0x1", "F2FP.BF16.F32.PACK_AB R7, R27, R26",
             "WARPGROUP.DEPBAR.LE gsb0, 0x0", "F2FP.BF16.F32.PACK_AB R6, R25, R24"]  # fmt: skip
    assert read_under_way(lines) == (1, [lines[2]])


DEPTH = graph({"x": "bf16[512, 160, 256]", "w": "bf16[512, 160, 96]"}, "%0 = transpose(x, perm=[0, 2, 1])\n%1 = matmul(%0, w)")
ROLES = "warp_specialise 1 | tma_store | interleave_epilogue | mma_zero_init | short_last_step"


@pytest.mark.parametrize("schedule", [
    f"tile i0 1, i1 128, i2 96, r0 32 | stages 5 | resident 2 | {ROLES}", f"tile i0 1, i1 128, i2 96, r0 64 | stages 3 | {ROLES}",
], ids=["five turns", "a last turn alone"])  # fmt: skip
def test_results_of_few_turns_are_read_when_they_are_there(schedule, tmp_path):
    p = autocomp.optimize(DEPTH, target="cuda:h200", schedule={"matmul": schedule}, cache=False)
    products, found = read_under_way(instructions(p.source(), tmp_path))
    assert products >= 4 and found == []


def test_results_of_attention_are_read_when_they_are_there(tmp_path):
    p = autocomp.optimize(attention(2, 4, 512, 64), target="cuda:h200", cache=False)
    products, found = read_under_way(instructions(p.source(), tmp_path))
    assert products >= 8 and found == []


def test_a_vector_s_store_is_one_instruction(tmp_path):
    """Where an address was a sum of pointers, NVVM split each of them (28 stores of 2 and 4 bytes) in this kernel."""
    model = graph({"x": "bf16[7, 224, 3344]"}, """
%1 = cast(x, to="f32")
%2 = reshape(%1, shape=[7, 32, 7, 3344])
%3 = reduce_mean(%2, axes=[2, 3], keepdims=True)
%4 = sub(%2, %3)
%5 = cast(%4, to="bf16")
%0 = reshape(%5, shape=[7, 224, 3344])""")
    schedule = "tile i0 1, i1 1 | threads 128 | cluster 8"
    (kernel,) = autocomp.optimize(model, target="cuda:h200").kernels
    (text,) = autocomp.optimize(model, target="cuda:h200", schedule={kernel.name: schedule}).sources.values()
    stores = [x for line in instructions(text, tmp_path) if (x := re.search(r"STG\S*", line))]
    assert [x[0] for x in stores] == ["STG.E.128"] * text.count("ac_store<8>") * 3  # 7 x 3344 elements by 1024 threads


def test_no_branch_stands_between_loads_under_conditions(tmp_path):
    """Of windows with borders, each of the 162 loads of a thread stood behind a chain of branches, and few were under way."""
    model = graph({"x": "f32[38, 82, 34, 34, 34]"}, """
%0 = sumpool(x, dilations=[1, 1, 1], hi=[1, 1, 1], layout="nchw", lo=[1, 1, 1], strides=[3, 3, 3], window=[3, 3, 3])""")
    schedule = "tile i0 5, i1 12, i2 1, i3 8, r0 3, r1 3, r2 3 | threads 128"
    (kernel,) = autocomp.optimize(model, target="cuda:h200").kernels
    (text,) = autocomp.optimize(model, target="cuda:h200", schedule={kernel.name: schedule}).sources.values()
    lines = instructions(text, tmp_path)
    assert sum("LDG" in line for line in lines) == 162
    assert sum("BRA" in line or "BSSY" in line for line in lines) <= 2  # behind the kernel's end stands a branch to itself
