"""Warpgroups with tiles of their own, in turns at the matrix units: right on the CPU model, chosen where a tile's end is long, refused with
a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from autocomp.targets.cuda.target import CudaTarget

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.errors import UnsupportedOp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import gemm, graph, prepared
from tests.helpers.schedules import by_hand

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH")

GELU = graph({"a": "f16[330, 128]", "b": "f16[128, 144]", "c": "f16[144]"}, "%0 = matmul(a, b)\n%1 = add(%0, c)\n%2 = gelu(%1)")


def printed(program, tile: dict[str, int], **how):
    kernel = program.calls.calls[0].kernel
    schedule = by_hand(tile, **{"roles": "warp_specialise", "persistent": True, "ping_pong": True, "stages": 3, **how})
    return kernel, CudaTarget(load_chip("h200")).emit(kernel, schedule)


@pytest.mark.parametrize(("tile", "workers", "stages"), [((64, 64), 2, 3), ((64, 64), 3, 2), ((128, 128), 2, 3), ((192, 64), 2, 3)])
def test_tiles_taken_in_turns_are_right(tile, workers, stages, model, tmp_path):
    program = prepared(GELU, target="cuda:h200")
    kernel, source = printed(program, dict(zip(("i0", "i1", "r0"), (*tile, 64))), workers=workers, stages=stages)
    assert source.launch.block == 128 * (workers + 1)
    program.printed[kernel.name] = replace(source, launch=replace(source.launch, at_most=2))
    executor = ModelExecutor(program, tmp_path, model)
    program.executor = executor
    for late in (True, False):
        executor.late = late
        program.verify(seed=fresh.seed())


def test_few_columns_are_the_rows_of_the_instruction_and_leave_turned(model, tmp_path):
    """64 columns: an instruction of 64 x 128 x 16 reads less shared memory than two of 64 x 64; results go out through stmatrix.trans."""
    program = autocomp.optimize(graph({"a": "f16[330, 128]", "b": "f16[128, 64]"}, "%0 = matmul(a, b)\n%1 = relu(%0)"), target="cuda:h200")
    kernel, source = printed(program, {"i0": 128, "i1": 64, "r0": 64}, workers=2)
    assert "m64n128k16" in source.prelude and "ac_stmatrix4_t" in source.text
    program.printed[kernel.name] = replace(source, launch=replace(source.launch, at_most=2))
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=fresh.seed())


def test_what_cannot_take_turns_is_refused_with_its_reason():
    program = autocomp.optimize(gemm(256, 256, 128), target="cuda:h200")
    tile = {"i0": 64, "i1": 128, "r0": 64}
    with pytest.raises(UnsupportedOp, match="turns at the tiles of blocks that stay"):
        printed(program, tile, workers=2, persistent=False)
    with pytest.raises(UnsupportedOp, match="turns at the tiles of blocks that stay and are in no cluster"):
        printed(program, tile, workers=2, cluster=2)
