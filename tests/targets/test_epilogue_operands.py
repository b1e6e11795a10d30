"""What an epilogue reads besides its product waits packed from before it, and columns over several axes share a tile: on the CPU model."""

from __future__ import annotations

import numpy as np
import pytest
from autocomp.targets.cuda.target import CudaTarget

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.ir.schedule import Schedule
from tests.helpers.device_graphs import graph
from tests.helpers.simt_model import COMPILER, ModelExecutor, compile_model

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH")

RESIDUAL = graph({"x": "f16[200, 96]", "w": "f16[96, 136]", "b": "f16[136]", "r": "f16[200, 136]"},
                 "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = add(%1, r)")  # fmt: skip
HEADS = graph({"x": "f16[256, 64]", "w": "f16[64, 640]", "b": "f16[640]"},
              "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = reshape(%1, shape=[2, 128, 2, 5, 64])\n"
              "%3 = transpose(%2, perm=[2, 0, 3, 1, 4])")  # fmt: skip
CASES = {
    "a residual, tails in rows and columns": (RESIDUAL, (128, 128), {"workers": 2}),
    "a residual, blocks that stay": (RESIDUAL, (64, 128), {"workers": 1, "persistent": True}),
    "heads in pairs, one left over": (HEADS, (1, 1, 2, 128, 64), {"workers": 2}),
    "three heads a tile, blocks that stay": (HEADS, (1, 1, 3, 64, 64), {"workers": 1, "persistent": True}),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return compile_model(tmp_path_factory.mktemp("simt"))


@pytest.mark.parametrize("name", CASES)
def test_epilogues_with_operands_and_columns_over_axes_are_right(name, model, tmp_path):
    text, tile, how = CASES[name]
    program = autocomp.optimize(text, target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    sizes = {a.name: t for a, t in zip(kernel.axes, tile)} | {"r0": 64}
    source = CudaTarget(load_chip("h200")).emit(kernel, Schedule.make(sizes, stages=3, roles="cooperative", **how))
    if text is HEADS:
        assert "ac_bulk_store" in source.text, "heads of one tile leave in boxes"
    else:
        asked, product, used = (source.text.rindex(x) for x in ("ac_load_packed<", "ac_team_commit", "ac_unpack<"))
        assert asked < product < used, "asked for before the product, used behind it"
    program.printed[kernel.name] = source
    program.executor = executor = ModelExecutor(program, tmp_path, model)
    for late in (True, False):
        executor.late = late
        program.verify(seed=int(np.random.default_rng().integers(1 << 30)))
