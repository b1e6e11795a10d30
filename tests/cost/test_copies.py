"""How wide a factor's copies are: aligned runs of up to 16 bytes, never across what a guard or the axis cuts off."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.cost.copies import copy_width
from autocomp.cost.demand import demand_of
from autocomp.cost.tiles import whole_lines
from autocomp.ir.affine import aff
from autocomp.ir.types import Sym

X, Y, W = aff("x"), aff("y"), aff("w")


@pytest.mark.parametrize(("index", "guard", "shape", "extents", "width"), [
    ((X,), (), (64,), {"x": 64}, 8),
    ((Y, X), (), (3, 64), {"y": 3, "x": 64}, 8),
    ((Y, X), (), (3, 20), {"y": 3, "x": 20}, 4),  # every other row begins in the middle of a run of 8
    ((X,), (), (12,), {"x": 12}, 4),  # the axis ends in the middle of a run of 8
    ((X + 2,), (), (66,), {"x": 64}, 2),  # all runs are shifted
    ((X * 2,), (), (128,), {"x": 64}, 1),  # every other element
    ((X, Y), (), (64, 3), {"y": 3, "x": 64}, 1),  # x is no inner axis, and 3 elements of y are no run
    ((X,), (7 - X,), (64,), {"x": 64}, 8),  # below 8: between two runs
    ((X,), (5 - X,), (64,), {"x": 64}, 2),  # below 6
    ((X,), (X - 4,), (64,), {"x": 64}, 4),  # from 4 on
    ((X,), (X * 2 - 8,), (64,), {"x": 64}, 1),  # no plain edge
    ((Y, X), (Y - 1,), (3, 64), {"y": 3, "x": 64}, 8),  # whole rows are cut off
    ((X,), (), (Sym("N", 4, 64, 4),), {"x": Sym("N", 4, 64, 4)}, 4),  # as far as the symbol promises
])  # fmt: skip
def test_width_of_copies_of_two_byte_elements(index, guard, shape, extents, width):
    assert copy_width(index, guard, shape, extents, 2) == width


@pytest.mark.parametrize(("index", "shape", "beside", "width"), [
    ((Y, X + W), (3, 20), (), 4),  # a window of one element is nowhere
    ((Y, X), (6, 20), {("y", "x")}, 8),  # lines that become one run of 120
    ((Y, X), (6, 20), (), 4),  # two axes that stay two
    ((Y, X), (7, 20), {("y", "x")}, 4),  # a line that nobody reads lies between
    ((Y, X * 2), (6, 40), {("y", "x")}, 1),
])  # fmt: skip
def test_lines_that_become_one_run(index, shape, beside, width):
    assert copy_width(index, (), shape, {"y": 6, "x": 20, "w": 1}, 2, beside) == width


def test_a_convolution_of_one_element_reads_its_image_where_it_lies():
    """Its images are not turned first: 19 x 1384 x 56^2 was, at 2.3 times the time."""
    line = "%y = conv(x, w, strides=[1, 1], lo=[0, 0], hi=[0, 0], dilations=[1, 1], groups=1)"
    text = f"graph g\ninput x: bf16[19, 1384, 56, 56]\nparam w: bf16[240, 1384, 1, 1] = random(1)\n{line}\noutput y = %y\n"
    program = autocomp.optimize(text, target="cuda:h100")
    assert [k.name for k in program.kernels] == ["conv"]


@pytest.mark.parametrize(("tile", "times"), [
    ({"i0": 8}, 1.0),  # 13 of 14 elements of each line, all lines of 8 images: one run
    ({"i0": 8, "i1": 2}, 1.0),  # 5 lines that follow each other
    ({"i0": 8, "i2": 2}, 64 / 12),  # 3 elements of each line (windows of 3)
])  # fmt: skip
def test_lines_whose_windows_a_tile_holds_are_read_whole(tile, times):
    line = "%y = sumpool(x, window=[3, 3], strides=[2, 2], lo=[0, 0], hi=[0, 0], dilations=[1, 1])"
    text = f"graph g\ninput x: f32[64, 8, 14, 14]\n{line}\noutput y = %y\n"
    (call,) = autocomp.optimize(text, target="cuda:h100").calls.calls
    d = demand_of(call.kernel)
    whole = {a: tile.get(a, n) for a, n in d.extent.items()}
    assert whole_lines(d.operands[0], whole, 64, d.extent) == pytest.approx(times)
