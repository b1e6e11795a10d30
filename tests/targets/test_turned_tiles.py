"""Tiles that memory holds in another order: on the CPU model, and all copies under way before threads meet."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.simt_model import ModelExecutor
from tests.helpers.device_graphs import graph

BODIES = {
    "turned first": "%0 = transpose(x, perm=[1, 0])\n%1 = add(%0, y)",
    "turned last": "%0 = transpose(x, perm=[1, 0])\n%1 = sub(y, %0)",
    "two turned": "%0 = transpose(x, perm=[1, 0])\n%1 = add(%0, y)\n%2 = transpose(z, perm=[1, 0])\n%3 = mul(%1, %2)",
}


def turned(body: str, rows: int, columns: int) -> str:
    inputs = {"x": f"f16[{columns}, {rows}]", "y": f"f16[{rows}, {columns}]"} | ({"z": f"f16[{columns}, {rows}]"} if "z" in body else {})
    return graph(inputs, body)


@pytest.mark.parametrize("target", ["cuda:h200", "maca:c500"])
@pytest.mark.parametrize("body", BODIES)
def test_turned_tiles_compute_their_graph(body, target, model, tmp_path):
    program = autocomp.optimize(turned(BODIES[body], 136, 72), target=target)
    executor = program.executor = ModelExecutor(program, tmp_path, model)
    for late in (True, False):
        executor.late = late
        program.verify()


@pytest.mark.parametrize("body", BODIES)
def test_every_copy_is_under_way_before_threads_meet(body):
    """In whichever order the operands stand; what comes straight to registers may not be moved behind the barrier."""
    (kernel,) = autocomp.optimize(turned(BODIES[body], 4096, 4096), target="cuda:h200").kernels
    before, _, behind = kernel.source.partition("ac_wait<0>();")
    turns = 2 if body == "two turned" else 1
    assert (before.count("ac_load_soon<8>("), before.count("ac_commit();")) == (1, turns)
    assert "ac_load" not in behind and "ac_copy" not in behind and behind.count("ac_sync();") == 1
