"""How wide a factor's copies are: aligned runs of up to 16 bytes, never across what a guard or the axis cuts off."""

from __future__ import annotations

import pytest

from autocomp.cost.copies import copy_width
from autocomp.ir.affine import aff
from autocomp.ir.types import Sym

X, Y = aff("x"), aff("y")


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
