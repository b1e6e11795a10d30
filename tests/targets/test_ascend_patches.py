"""Convolutions of any form where the cube unit takes none of it: products of what the windows read, on the model of Ascend's cores."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.egraph import printable
from autocomp.simulate.ascend_model import COMPILER
from autocomp.simulate.program import simulated
from tests.helpers import fresh
from tests.helpers.device_graphs import conv, graph
from tests.helpers.repeats import by_turns, repeats

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
LINE = graph({"x": "f16[1, 19, 70]", "w": "f16[5, 19, 3]"},
             "%0 = conv(x, w, strides=[1], lo=[1], hi=[1], dilations=[1], groups=1)")  # fmt: skip
BODY = graph({"x": "f32[1, 5, 6, 7, 8]", "w": "f32[4, 5, 3, 3, 3]"},
             "%0 = conv(x, w, strides=[1, 1, 1], lo=[1, 1, 1], hi=[1, 1, 1], dilations=[1, 1, 1], groups=1)")  # fmt: skip
CASES = {
    "odd": conv("f16[1, 17, 11, 13]", "f16[10, 17, 3, 3]", 2, 1),
    "whole fractals": conv("f16[2, 16, 9, 12]", "f16[8, 16, 3, 3]", 1, 1),
    "single precision": conv("f32[1, 12, 9, 14]", "f32[9, 12, 3, 3]", 1, 1),
    "groups": conv("f16[1, 32, 8, 10]", "f16[24, 16, 3, 3]", 1, 1, groups=2),
    "a line": LINE,
    "a body": BODY,
}


@needs_compiler
@pytest.mark.parametrize(("case", "chip"), by_turns(CASES, ["310p", "950pr"]))
def test_convolutions_are_products_of_patches(case, chip):
    program = autocomp.optimize(CASES[case], target=f"ascend:{chip}")
    with simulated(program):
        program.verify(seed=fresh.seed())


@pytest.mark.parametrize(("chip", "times"), [("310p", 4), ("950pr", 10)])
def test_products_of_patches_are_many_times_faster(chip, times):
    """The only other form of a convolution with border there goes element after element."""
    text = conv("f16[1, 40, 14, 15]", "f16[36, 40, 3, 3]", 1, 1)
    with_patches, alone = (autocomp.optimize(text, target=f"ascend:{chip}", without=w) for w in ([], ["convolution/product-of-*"]))
    assert times * with_patches.predicted < alone.predicted
    assert "patches" in with_patches.source() or "pad" in with_patches.source()


@needs_compiler
@pytest.mark.parametrize("chip", ["310p", "950pr"])
def test_products_of_bytes_are_products_of_floats(chip):
    text = graph({"x": "i8[37, 65]", "w": "i8[65, 48]", "s": "f32[48]"},
                 '%0 = cast(x, to="i32")\n%1 = cast(w, to="i32")\n%2 = matmul(%0, %1)\n%3 = cast(%2, to="f32")\n%4 = mul(%3, s)')
    program = autocomp.optimize(text, target=f"ascend:{chip}")
    slow = autocomp.optimize(text, target=f"ascend:{chip}", without=["quantised/*as-floats"])
    assert 3 * program.predicted < slow.predicted
    with simulated(program):
        program.verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize("dtype", ["f16", "f32", "i8", repeats("bool", of="i8"), repeats("i32", of="f32")])
def test_rows_are_put_in_order_before_they_are_turned(dtype):
    """No tile of x[c, b, a] has rows that lie side by side both in memory and in the result."""
    text = graph({"x": f"{dtype}[9, 70, 90]"}, "%0 = transpose(x, perm=[2, 1, 0])")
    program = autocomp.optimize(text, target="ascend:910b1")
    assert len(program.kernels) == 2 and "instruction scalar" not in program.source()
    with simulated(program):
        program.verify(seed=fresh.seed())


def test_all_convolutions_of_a_program_become_products(monkeypatch):
    """More of them than covers are tried, and none a tenth of the program's time."""
    monkeypatch.setattr(printable, "COVERS", 9)
    monkeypatch.setattr(printable, "MORE", 0)
    inputs = {"x": "f32[1, 12, 9, 14]", **{f"w{i}": f"f32[12, 12, {2 + i % 2}, {1 + i // 2}]" for i in range(8)}}
    line = "%{0} = conv({1}, w{0}, strides=[1, 1], lo=[0, 0], hi=[{2}, {3}], dilations=[1, 1], groups=1)"
    body = "\n".join(line.format(i, f"%{i - 1}" if i else "x", 1 + i % 2, i // 2) for i in range(8))
    program = autocomp.optimize(graph(inputs, body), target="ascend:950pr")
    assert "instruction scalar" not in program.source()


@pytest.mark.parametrize("chip", ["310p", "950pr"])
def test_the_first_cover_stores_patches(chip, monkeypatch):
    """A fold that reads windows where they lie copies each tap by itself: so many layers would have to be refuted one by one."""
    monkeypatch.setattr(printable, "COVERS", 1)
    monkeypatch.setattr(printable, "MORE", 0)
    draw = np.random.default_rng(fresh.seed())
    c, h, w = int(draw.integers(24, 50)), int(draw.integers(5, 12)), int(draw.integers(5, 12))
    program = autocomp.optimize(conv(f"f32[1, {c}, {h}, {w}]", f"f32[48, {c}, 3, 3]", 1, 1), target=f"ascend:{chip}")
    assert len(program.kernels) == 2 and program.kernels[0].name == "patches"


def between_points(c: int, side: int) -> str:
    """A depthwise convolution between two of single points."""
    one = "strides=[1, 1], dilations=[1, 1]"
    return graph({"x": f"f16[1, 48, {side}, {side}]", "a": f"f16[{c}, 48, 1, 1]", "w": f"f16[{c}, 1, 3, 3]", "b": f"f16[48, {c}, 1, 1]"},
                 f"%0 = conv(x, a, {one}, lo=[0, 0], hi=[0, 0], groups=1)\n%1 = relu(%0)\n"
                 f"%2 = conv(%1, w, {one}, lo=[1, 1], hi=[1, 1], groups={c})\n%3 = relu(%2)\n"
                 f"%4 = conv(%3, b, {one}, lo=[0, 0], hi=[0, 0], groups=1)")  # fmt: skip


def test_the_first_cover_folds_windows_with_channels_along_lanes(monkeypatch):
    """A small plane of each channel by itself is less than a block of memory."""
    c = 16 * int(np.random.default_rng(fresh.seed()).integers(5, 9))
    best = autocomp.optimize(between_points(c, 6), target="ascend:310p")
    monkeypatch.setattr(printable, "COVERS", 1)
    monkeypatch.setattr(printable, "MORE", 0)
    first = autocomp.optimize(between_points(c, 6), target="ascend:310p", cache=False)
    assert "instruction scalar" not in first.source() and first.predicted < 1.1 * best.predicted
