"""Where a factor ends sooner: which guards say so, and what is left."""

from __future__ import annotations

from itertools import product

import pytest

from autocomp.ir.affine import aff
from autocomp.ir.dead_steps import ends_of, share_left

SIZES = {"i": 2, "j": 3, "r": 3, "c": 64}


@pytest.mark.parametrize("guard, found", [
    (aff("i") * -1 - aff("r") * 2 + 4, True),  # 3 taps, or 2
    (aff("r") * -2 + 3, False),  # the same everywhere
    (aff("i") * -4 - aff("r") * 2 + 3, False),  # none at all at some places
    (aff("i") * -1 - aff("r") * 2 + 5, False),  # all of them everywhere
    (aff("i") + aff("r") * 2 - 1, False),  # begins later
    (aff("i") * -1 - aff("r") * 2 - aff("k") + 4, False),  # of an axis that the tile does not decide
    (aff("i") * -1 - aff("r") * 2 - aff("c") + 70, False),  # two axes of the depth
])  # fmt: skip
def test_ends_that_the_grid_decides(guard, found):
    assert ends_of((guard,), {"r", "c"}, SIZES) == ({"r": guard} if found else {})


def test_the_share_is_that_of_points():
    guard = aff("i") * -1 - aff("j") - aff("r") * 2 + 4
    there = sum(-i - j - 2 * r + 4 >= 0 for i, j, r in product(range(2), range(3), range(3)))
    assert share_left("r", guard, SIZES) == there / 18
