"""Operands of a row's results that are asked for between its reductions: on the CPU model, and where they stand."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.cost.work import Cost
from autocomp.runtime.program import build_program
from autocomp.simulate.simt_model import ModelExecutor
from tests.helpers.device_graphs import graph
from tests.helpers.schedules import by_hand

NORM = {"x": "f16[3, 2048]", "g": "f16[2048]", "b": "f16[2048]"}


def layer_norm(target: str, threads: int, inputs: dict[str, str] = NORM):
    """The program of a layer norm with a row a block."""
    p = autocomp.optimize(graph(inputs, "%0 = layer_norm(x, g, b, axes=[1])"), target=target)
    (call,) = p.calls.calls
    schedules = {call.kernel.signature: (by_hand({"i0": 1}, threads=threads), Cost(0.0, "nothing", ()))}
    return build_program(p.calls, schedules, p.target, p.options, p.trace)


@pytest.mark.parametrize("target", ["cuda:h200", "maca:c500"])
def test_the_norm_is_computed(target, model, tmp_path):
    program = layer_norm(target, 64)
    assert program.kernels[0].source.count("ac_ask<8>(") == 2
    executor = program.executor = ModelExecutor(program, tmp_path, model)
    for late in (True, False):
        executor.late = late
        program.verify()


def test_loads_stand_between_the_reductions():
    """Behind the first one's exchange and in front of the second's; nothing else is loaded behind that."""
    first, second, behind = layer_norm("cuda:h200", 64).kernels[0].source.split("ac_sync();")
    assert "ac_ask" not in first and second.count("ac_ask<8>(") == 2
    assert behind.count("ac_unpack<f16, 8>(") == 2 and "ac_load" not in behind and "ac_ask" not in behind


@pytest.mark.parametrize(("threads", "inputs"), [
    (32, NORM), (128, NORM),  # 64 and 16 registers of a row
    (64, NORM | {"g": "f32[2048]", "b": "f32[2048]", "x": "f32[3, 2048]"}),  # not two a register
])  # fmt: skip
def test_others_are_loaded_where_they_are_used(threads, inputs):
    assert "ac_ask" not in layer_norm("cuda:h200", threads, inputs).kernels[0].source
