"""Products through two levels of depth: long rows into L1, parts of a step into L0A and L0B."""

from __future__ import annotations

import re

import pytest

import autocomp
from autocomp.cost.chip import shipped
from autocomp.cost.engines import fed_at_once
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers.device_graphs import graph

DEEP = ["tiling/npu-products"]  # left out, so that steps are deep
CASES = {
    "plain": graph({"a": "f16[100, 700]", "b": "f16[700, 150]"}, "%0 = matmul(a, b)"),
    "turned": graph({"a": "f16[700, 100]", "b": "f16[150, 700]"},
                    "%0 = transpose(a, perm=[1, 0])\n%1 = transpose(b, perm=[1, 0])\n%2 = matmul(%0, %1)\n%3 = gelu(%2)"),
    "single": graph({"a": "f32[70, 533]", "b": "f32[533, 90]", "c": "f32[90]"}, "%0 = matmul(a, b)\n%1 = add(%0, c)"),
    "single_turned": graph({"a": "f32[2, 533, 70]", "b": "f32[2, 90, 533]"},
                           "%0 = transpose(a, perm=[0, 2, 1])\n%1 = transpose(b, perm=[0, 2, 1])\n%2 = matmul(%0, %1)"),
    "two_products": graph({"x": "bf16[65, 530]", "a": "bf16[530, 130]", "b": "bf16[530, 130]"},
                          "%0 = matmul(x, a)\n%1 = silu(%0)\n%2 = matmul(x, b)\n%3 = mul(%1, %2)"),
}  # fmt: skip


@pytest.mark.skipif(not COMPILER, reason="no g++")
def test_steps_in_parts_compute_their_graph(tmp_path):
    inputs, lines = [], []
    for k, text in CASES.items():  # one graph, built at once
        for line in text.splitlines()[1:]:
            line = re.sub(r"%(\w+)", rf"%{k}_\1", line)
            if line.startswith("input "):
                inputs.append(line.replace("input ", f"input {k}_"))
            elif line.startswith("output "):
                lines.append(f"output {k} = {line.split(' = ')[1]}")
            else:
                lines.append(re.sub(r"(?<=[(\s])([a-z])(?=[,)])", rf"{k}_\1", line))
    program = autocomp.optimize("\n".join(["graph g", *inputs, *lines, ""]), target="ascend:910b1", without=DEEP)
    assert all("_part" in s.text for s in program.printed.values())
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=15)


def test_parts_leave_room_for_two_slots():
    chip = shipped("ascend910b1")
    assert fed_at_once(128, 256, 256, 2, chip) == 64
    assert fed_at_once(128, 256, 64, 2, chip) == 64
    assert fed_at_once(64, 64, 400, 2, chip) == 208  # two even parts of whole fractals, not 256 and 144
    assert fed_at_once(128, 128, 256, 2, chip, rights=2) == 64
    assert fed_at_once(256, 256, 16, 4, chip) == 16


def test_a_large_product_is_at_least_as_fast_as_the_best_published_step():
    """asc-devkit, matmul_high_performance, 910B1: 4012 us."""
    large = graph({"a": "f16[8192, 8192]", "b": "f16[8192, 8192]"}, "%0 = matmul(a, b)")
    program = autocomp.optimize(large, target="ascend:910b1")
    assert sum(k.predicted for k in program.kernels) < 4012e-6
    text = program.source()
    assert "r0 256" in text and "each r0_part, 2 slots" in text and "each r0, 2 slots" in text
    shallow = autocomp.optimize(large, target="ascend:910b1", without=["tiling/npu-products-deep"])
    assert "r0 128" in shallow.source()
