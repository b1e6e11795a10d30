"""Convolutions that keep a tile's patch in shared memory and read it at the offset of every tap: on the CPU model, and what is refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from autocomp.targets.cuda.target import CudaTarget

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.cost.demand import demand_of
from autocomp.cost.tiles import tile_of
from autocomp.errors import UnsupportedOp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.goldens import patch
from tests.helpers.repeats import repeating
from tests.helpers.schedules import by_hand

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH")


def conv(image: tuple[int, int, int], channels: int, out: int, taps: tuple[int, int], pad: int, dilation: int = 1, stride: int = 1) -> str:
    """A convolution of (images, rows, columns), channels last, with both factors contiguous along them."""
    window = f"lo=[{pad}, {pad}], hi=[{pad}, {pad}], strides=[{stride}, {stride}], dilations=[{dilation}, {dilation}]"
    return graph({"x": f"f16[{', '.join(map(str, image))}, {channels}]", "w": f"f16[{out}, {taps[0]}, {taps[1]}, {channels}]"},
                 f'%0 = conv(x, w, {window}, layout="nhwc_ohwi")\n%1 = relu(%0)')  # fmt: skip


def printed(program, tile: tuple[int, ...], taps: tuple[int, int], channels: int = 64, **how):
    """The program's only kernel with these tiles of images, rows, columns and channels, so many taps of 64 channels in a tile."""
    kernel = program.calls.calls[0].kernel
    depth = {"r0": taps[0], "r1": taps[1], "r2": channels} if min(taps) > 1 else {"r0": max(taps), "r1": channels}
    sizes = {a.name: t for a, t in zip(kernel.axes, tile)} | depth
    rest = {"stages": 2, "roles": "warp_specialise", "workers": 1, **how}
    return kernel, CudaTarget(load_chip("h200")).emit(kernel, by_hand(sizes, **rest))


CASES = {
    "a row of the image an instruction": ((2, 5, 40), 64, 64, (3, 3), 1, 1, (1, 2, 40, 64), {"persistent": True}),
    "several rows an instruction": ((2, 9, 13), 64, 64, (3, 3), 1, 1, (1, 4, 13, 64), {"persistent": True}),
    "images that do not stay": ((3, 9, 13), 64, 72, (3, 3), 1, 1, (1, 8, 13, 64), {"persistent": True, "workers": 2}),
    "channels in two parts": ((2, 6, 14), 128, 64, (3, 3), 1, 1, (1, 4, 14, 64), {}),
    "channels in two parts, blocks that stay": ((2, 6, 14), 128, 64, (3, 3), 1, 1, (1, 4, 14, 64), {"persistent": True}),
    "taps apart": ((2, 11, 25), 64, 64, (3, 2), 2, 2, (1, 2, 25, 64), {"persistent": True}),
    "columns of a row": ((2, 6, 100), 64, 64, (3, 3), 0, 1, (1, 2, 64, 64), {"persistent": True}),
    "halos that share their zeros": ((5, 7, 7), 64, 64, (3, 3), 1, 1, (2, 7, 7, 64), {"persistent": True}),
    "wide halos that share their zeros": ((3, 6, 6), 64, 64, (3, 5), 2, 1, (2, 8, 6, 64), {"persistent": True}),
    "rows that fill no instruction": ((3, 14, 14), 64, 64, (3, 3), 1, 1, (1, 14, 14, 64), {"persistent": True}),
    "rows for two warpgroups": ((2, 14, 14), 64, 64, (3, 3), 1, 1, (1, 14, 14, 64), {"workers": 2}),
    "warpgroups that take turns": ((3, 9, 13), 64, 64, (3, 3), 1, 1, (1, 4, 13, 64), {"persistent": True, "workers": 2, "ping_pong": True}),
    "three that take turns": ((2, 14, 14), 128, 64, (3, 3), 1, 1, (1, 4, 14, 64), {"persistent": True, "workers": 3, "ping_pong": True}),
    "one row of taps": ((2, 7, 30), 64, 64, (1, 3), 1, 1, (1, 4, 30, 64), {}),
}


@pytest.mark.parametrize("name", repeating(CASES, {
    "several rows an instruction": "images that do not stay", "channels in two parts": "the same in blocks that stay",
    "warpgroups that take turns": "three that take turns", "halos that share their zeros": "wide ones",
}))  # fmt: skip
def test_a_patch_read_at_offsets_is_right(name, model, tmp_path):
    image, channels, out, taps, pad, dilation, tile, how = CASES[name]
    program = autocomp.optimize(conv(image, channels, out, taps, pad, dilation), target="cuda:h200")
    kernel, source = printed(program, tile, taps, **how)
    (number, patch), = ((n, m) for n, m in enumerate(source.launch.maps) if m.argument == "in0")
    assert max(patch.box[1:3]) > 1 and source.text.count(f"&map{number},") == 1, "one copy brings the patch of all taps"
    if source.launch.at_most:  # two blocks for all tiles: rings come round, what stays is read again
        source = replace(source, launch=replace(source.launch, at_most=2))
    program.printed[kernel.name] = source
    executor = ModelExecutor(program, tmp_path, model)
    program.executor = executor
    for late in (True, False):
        executor.late = late
        program.verify(seed=fresh.seed())


def lines(image: tuple[int, int, int], run: int, out: int, taps: int, stride: int, pad: int) -> str:
    """A convolution of (images, lines, elements of a line): windows of `taps` lines by `run` elements, 8 elements apart."""
    return graph({"x": f"f16[{', '.join(map(str, image))}, 1]", "w": f"f16[{out}, {taps}, {run}, 1]"},
                 f"%0 = conv(x, w, lo=[{pad}, 0], hi=[{pad}, 0], strides=[{stride}, 8], dilations=[1, 1], layout=\"nhwc_ohwi\")\n"
                 "%1 = relu(%0)")  # fmt: skip


LINES = {
    "two instructions a line": ((2, 9, 584), 32, 64, 7, 2, 3, (1, 2, 70, 64), {"persistent": True, "workers": 2}),
    "lines that end in an instruction": ((2, 9, 584), 48, 72, 3, 1, 1, (1, 2, 68, 64), {"persistent": True}),
    "parts of a line": ((2, 8, 1040), 16, 64, 5, 1, 0, (1, 1, 64, 64), {}),
    "warpgroups that take turns": ((3, 7, 536), 32, 64, 3, 2, 1, (1, 1, 64, 64), {"persistent": True, "workers": 2, "ping_pong": True}),
}


@pytest.mark.parametrize("name", repeating(LINES, {"two instructions a line": "lines that end in an instruction"}))
def test_windows_that_slide_along_a_line_are_read_where_they_lie(name, model, tmp_path):
    image, run, out, taps, stride, pad, tile, how = LINES[name]
    program = autocomp.optimize(lines(image, run, out, taps, stride, pad), target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    sizes = {a.name: t for a, t in zip(kernel.axes, tile)} | {"r0": taps, "r1": run}
    source = CudaTarget(load_chip("h200")).emit(kernel, by_hand(sizes, **{"stages": 2, "roles": "warp_specialise", "workers": 1, **how}))
    (patch,) = (m for m in source.launch.maps if m.argument == "in0")
    assert (patch.box[0], patch.swizzle) == (8, 0) and patch.box[1] in (tile[2] - 1 + run // 8, 128), "a line once, not once a window"
    if source.launch.at_most:
        source = replace(source, launch=replace(source.launch, at_most=2))
    program.printed[kernel.name] = source
    program.executor = executor = ModelExecutor(program, tmp_path, model)
    for late in (True, False):
        executor.late = late
        program.verify(seed=fresh.seed())


def test_a_stem_over_three_channels_becomes_windows_along_lines():
    text = """graph stem
input x: f16[32, 3, 224, 224]
param w: f16[64, 3, 7, 7] = random(1)
%0 = conv(x, w, strides=[2, 2], lo=[3, 3], hi=[3, 3], dilations=[1, 1], groups=1)
%1 = relu(%0)
%2 = transpose(%1, perm=[0, 2, 3, 1])
output y = %2
"""
    program = autocomp.optimize(text, target="cuda:h200")
    pad, stem = program.kernels
    assert "r0 7, r1 32" in stem.schedule and "warp_specialise" in stem.schedule
    assert any(r.startswith("convolution/columns-with-channels") for r in stem.rules) and "ac_copy<8>" in pad.source


def test_a_large_convolution_takes_the_patch_and_its_text_is_as_it_was():
    """AUTOCOMP_GOLDEN=write pytest tests/targets/test_conv_windows.py  writes the file anew."""
    text = patch().source()
    assert "i3 64, r0 3, r1 3, r2 64" in text.partition("predicted")[0], "all taps in a tile"
    path = Path(__file__).parents[1] / "golden" / "cuda" / "conv_window.h200.cu"
    if os.environ.get("AUTOCOMP_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_the_cost_counts_a_patch_once_and_what_stays_once_a_block():
    kernel = autocomp.optimize(conv((64, 56, 56), 64, 64, (3, 3), 1), target="cuda:h200").calls.calls[0].kernel
    chip = load_chip("h200")

    def near(rows: int, taps: int, persistent: bool = True) -> float:
        tile = dict(zip([a.name for a in kernel.axes], (1, rows, 56, 64))) | {"r0": taps, "r1": taps, "r2": 64}
        return tile_of(demand_of(kernel), tile, chip, True, persistent).near * chip.memory("l2").bandwidth

    images, weights = 64 * 56 * 56 * 64 * 2, 64 * 64 * 9 * 2
    tiles = 64 * 56 // 4
    assert near(4, 1) == pytest.approx(9 * images + tiles * weights)
    assert near(4, 3) == pytest.approx(6 / 4 * 58 / 56 * images + 132 * weights)
    assert near(4, 3, persistent=False) == pytest.approx(6 / 4 * 58 / 56 * images + tiles * weights)


REFUSED = {
    "steps between windows": (dict(image=(2, 16, 16), channels=64, out=64, taps=(3, 3), pad=1, stride=2), (1, 8, 8, 64),
                              r"no window that slides over one patch: i2 steps 1 rows in the tile and 2 in the patch"),
    "channels that fill no row": (dict(image=(2, 8, 14), channels=32, out=64, taps=(3, 3), pad=1), (1, 4, 14, 64),
                                  r"32 elements, not in whole rows of 64"),
    "a halo that does not fit": (dict(image=(2, 8, 16), channels=64, out=64, taps=(3, 3), pad=1), (1, 4, 16, 64),
                                 r"16 places of dimension 2 in the tile, 18 in the patch"),
    "one part of the taps": (dict(image=(2, 6, 30), channels=64, out=64, taps=(3, 3), pad=1), (1, 4, 30, 64), r"3 taps .* parts of 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_window_is_refused_with_its_reason(name):
    window, tile, why = REFUSED[name]
    program = autocomp.optimize(conv(**window), target="cuda:h200")
    taps = (2, 3) if name.startswith("one part") else window["taps"]
    with pytest.raises(UnsupportedOp, match=why):
        printed(program, tile, taps, channels=window["channels"])
