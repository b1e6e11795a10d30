"""Strided convolutions through the bulk engine: boxes whose elements lie apart, on the CPU model and in the launcher's text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from autocomp.targets.cuda.target import CudaTarget

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.errors import UnsupportedOp
from autocomp.runtime.deploy import _map
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.schedules import by_hand

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH")


def conv(stride: int, taps: int, pad: int, size: int) -> str:
    """A convolution of 64 channels, channels last, with both factors contiguous along them."""
    window = f"lo=[{pad}, {pad}], hi=[{pad}, {pad}], strides=[{stride}, {stride}], dilations=[1, 1]"
    return graph({"x": f"f16[2, {size}, {size}, 64]", "w": f"f16[72, {taps}, {taps}, 64]"},
                 f'%0 = conv(x, w, {window}, layout="nhwc_ohwi")\n%1 = relu(%0)')  # fmt: skip


def kernel_of(text: str):
    return autocomp.optimize(text, target="cuda:h200").calls.calls[0].kernel


@pytest.mark.parametrize(("stride", "taps", "pad", "size"), [(2, 3, 1, 15), (2, 1, 0, 15), (3, 3, 0, 25)])
def test_a_strided_window_is_right(stride, taps, pad, size, model, tmp_path):
    program = autocomp.optimize(conv(stride, taps, pad, size), target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    depth = {"r0": 1, "r1": 1, "r2": 64} if taps > 1 else {"r0": 64}
    tile = {a.name: t for a, t in zip(kernel.axes, (1, 8, 8, 64))} | depth
    schedule = by_hand(tile, stages=3, roles="warp_specialise", workers=1)
    printed = CudaTarget(load_chip("h200")).emit(kernel, schedule)
    assert any(max(m.steps, default=1) == stride for m in printed.launch.maps)
    program.printed[kernel.name] = printed
    executor = ModelExecutor(program, tmp_path, model)
    program.executor = executor
    for late in (True, False):
        executor.late = late
        program.verify(seed=fresh.seed())


def test_the_launcher_gives_the_span_and_the_steps():
    from autocomp.targets.source import TensorMap

    m = TensorMap("in0", "f16", (64, 15, 15, 2), (128, 1920, 28800), (64, 8, 8, 1), steps=(1, 2, 2, 1))
    assert "{64, 16, 16, 1}" in _map(m, "p", {}) and "{1, 2, 2, 1}" in _map(m, "p", {})
    assert "CU_TENSOR_MAP_L2_PROMOTION_NONE" in _map(m, "p", {})
    assert "CU_TENSOR_MAP_L2_PROMOTION_L2_256B" in _map(replace(m, widened=256), "p", {})


def test_steps_beyond_the_engines_are_refused():
    kernel = kernel_of(conv(9, 3, 0, 76))
    tile = {a.name: t for a, t in zip(kernel.axes, (1, 8, 8, 64))} | {"r0": 1, "r1": 1, "r2": 64}
    with pytest.raises(UnsupportedOp, match=r"dimension \d is read at 9\*"):
        CudaTarget(load_chip("h200")).emit(kernel, by_hand(tile, stages=3, roles="warp_specialise", workers=1))
