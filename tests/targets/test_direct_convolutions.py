"""GPU convolutions of few channels, folded by threads, and those by fewer products (rules convolution/direct, winograd-channels-last)."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.egraph import printable
from autocomp.simulate.simt_model import COMPILER
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import GPUS
from tests.targets.test_on_cpu_model import check

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


def conv(x: str, w: str, strides: str = "[1, 1]", lo: str = "[1, 1]", hi: str = "[1, 1]", groups: int = 1, layout: str = "nchw") -> str:
    dilations = strides.replace("2", "1")
    window = f"strides={strides}, lo={lo}, hi={hi}, dilations={dilations}"
    return graph({"x": x, "w": w}, f'%0 = conv(x, w, {window}, groups={groups}, layout="{layout}")\n%1 = relu(%0)')


DIRECT = {
    "four channels a group": conv("f16[2, 24, 9, 11]", "f16[24, 4, 3, 3]", groups=6),
    "channels last, more results": conv("bf16[2, 9, 7, 6]", "bf16[9, 5, 3, 2]", lo="[2, 1]", hi="[2, 1]", groups=3, layout="nhwc_ohwi"),
    "strides": conv("f32[3, 10, 13, 8]", "f32[10, 2, 3, 3]", strides="[2, 2]", groups=5),
    "one image of three channels": conv("f32[1, 3, 17, 19]", "f32[3, 3, 5, 5]", lo="[2, 2]", hi="[2, 2]"),
    "whole numbers": conv("i8[2, 8, 6, 7]", "i8[8, 2, 3, 3]", groups=4),
}


@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize("name", DIRECT)
def test_threads_fold_the_windows_of_few_channels(name, target, model, tmp_path):
    program = autocomp.optimize(DIRECT[name], target=target, without=["convolution/winograd-channels-last"])
    assert any("conv_direct" in k.ops for k in program.kernels), [k.ops for k in program.kernels]
    check(program, model, tmp_path)


@pytest.mark.parametrize(("dtype", "folded"), [("f16", False), ("bf16", False), ("f32", True)])
def test_eight_channels_of_halves_a_group_are_products(dtype, folded):
    """24 us by threads' sums, 19 by products, of floats 28 and 45 (H200, 2026-11-30)."""
    program = autocomp.optimize(conv(f"{dtype}[32, 256, 14, 14]", f"{dtype}[256, 8, 3, 3]", groups=32), target="cuda:h200")
    assert any("conv_direct" in k.ops for k in program.kernels) == folded


def test_groups_of_many_channels_stay_products():
    program = autocomp.optimize(conv("f16[8, 64, 28, 28]", "f16[64, 32, 3, 3]", groups=2), target="cuda:h200")
    assert not any("conv_direct" in k.ops for k in program.kernels)
    few = conv("f16[8, 64, 28, 28]", "f16[64, 4, 3, 3]", groups=16)
    names = [f"convolution/direct{x}" for x in ("", "-channels-last/nhwc", "-channels-last/nhwc_ohwi")]
    assert autocomp.optimize(few, target="cuda:h200", without=names).predicted > 1.7 * autocomp.optimize(few, target="cuda:h200").predicted


def test_f32_convolutions_take_fewer_products():
    """By points: the image's transform stores them apart, for neighbours of a point are in one tile of its product; the results' writes
    channels last, and a transpose follows, for a store along lines would ask for four channels of a line at once."""
    text = conv("f32[64, 192, 14, 14]", "f32[192, 192, 3, 3]")
    program = autocomp.optimize(text, target="cuda:h200")
    plain = autocomp.optimize(text, target="cuda:h200", without=["convolution/winograd-*"])
    assert program.predicted < 0.75 * plain.predicted
    assert [(36, 1024, 192), (36, 192, 192)] in [[a.type.shape for a in c.kernel.inputs] for c in program.calls.calls]


def test_bodies_that_schedules_refute_are_left_out(monkeypatch):
    text = conv("f32[32, 128, 28, 28]", "f32[128, 128, 3, 3]")  # by lanes, on a chip without products of f64
    program = autocomp.optimize(text, target="cuda:b200", cache=False)
    monkeypatch.setattr(printable, "DEAR", 1e9)
    assert autocomp.optimize(text, target="cuda:b200", cache=False).predicted > 1.03 * program.predicted
