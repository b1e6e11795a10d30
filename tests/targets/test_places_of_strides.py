"""Convolutions of images whose elements lie apart, one product for all places of a stride: on the CPU model, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from autocomp.targets.cuda.target import CudaTarget
from autocomp.targets.cuda.tma import tensor_map

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import aff
from autocomp.ir.types import F16
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from autocomp.tile.program import Tensor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.schedules import by_hand

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH")


def spread(taps: int, stride: int, lo: int, hi: int, image: tuple[int, int] = (5, 7), channels: int = 64) -> str:
    return graph({"x": f"f16[1, {image[0]}, {image[1]}, {channels}]", "w": f"f16[24, {taps}, {taps}, {channels}]"},
                 f"%0 = conv_spread(x, w, spread=[{stride}, {stride}], lo=[{lo}, {lo}], hi=[{hi}, {hi}], dilations=[1, 1], "
                 'layout="nhwc_ohwi")')  # fmt: skip


def run(program: autocomp.Program, model: Path, folder: Path) -> None:
    program.executor = executor = ModelExecutor(program, folder, model)
    for late in (True, False):
        executor.late = late
        program.verify(seed=fresh.seed())


CASES = {"whole taps": (4, 2, 2, 2), "taps that are not, an odd size": (3, 2, 1, 1)}


@pytest.mark.parametrize("name", CASES)
def test_all_places_of_a_stride_by_bulk_copies(name, model, tmp_path):
    program = autocomp.optimize(spread(*CASES[name], image=(9, 8)), target="cuda:h200")
    (call,) = program.calls.calls
    sizes = {a.name: t for a, t in zip(call.kernel.axes, (8, 1, 8, 1, 24))} | {"r0": 1, "r1": 1, "r2": 64}
    source = CudaTarget(load_chip("h200")).emit(call.kernel, by_hand(sizes, stages=2, roles="warp_specialise", workers=1))
    assert "wgmma" in source.text and len(source.launch.maps) == 2
    (store,) = call.kernel.stores
    assert bool(store.guard) == any(n % 2 for n in call.kernel.outputs[0].type.shape[1:3])
    program.printed[call.kernel.name] = source
    run(program, model, tmp_path)


def test_all_places_of_a_stride_by_threads(model, tmp_path):
    program = autocomp.optimize(spread(5, 2, 3, 0, channels=16), target="maca:c500")
    assert len(program.kernels) == 1
    run(program, model, tmp_path)


def test_a_box_along_an_axis_in_a_floor_is_refused():
    index = aff("i") + (aff("r") * 2 + 1) // 3 * 5
    t = Tensor("x", F16, ("i", "r", "c"), (5, 3, 64), "x", (5, 64), (index, aff("c")))
    copied = lambda tile: tensor_map(t, tile, {"i": 5, "r": 3, "c": 64}, "c", frozenset("c"), "here")
    assert copied({"i": 5, "r": 1, "c": 64})[2] == 5
    with pytest.raises(UnsupportedOp, match="dimension 0 is read at"):
        copied({"i": 5, "r": 2, "c": 64})


def test_an_infinite_element_meets_no_tap_that_is_not(model, tmp_path):
    program = autocomp.optimize(spread(3, 2, 1, 1, channels=16), target="cuda:h200")
    program.executor = ModelExecutor(program, tmp_path, model)
    x, w = (np.ones(s, np.float16) for s in ((1, 5, 7, 16), (24, 3, 3, 16)))
    x[0, 2, 3, 5] = np.inf
    lost = np.argwhere(~np.isfinite(program(x, w)).all(axis=3))
    assert lost.min(axis=0).tolist() == [0, 3, 5] and lost.max(axis=0).tolist() == [0, 5, 7] and len(lost) == 9
