"""An axis that is read in two digits becomes two axes only where the digit divides it."""

from __future__ import annotations

import pytest

import autocomp


@pytest.mark.parametrize("end", [8, 10, 12])
@pytest.mark.parametrize("last", ["exp(%1)", "reduce_sum(%1, axes=[0])"])
def test_a_part_of_a_merged_axis(end, last):
    program = autocomp.optimize(
        f"graph g\ninput x: f32[3, 4]\n%t = transpose(x, perm=[1, 0])\n%0 = reshape(%t, shape=[12])\n"
        f"%1 = slice(%0, starts=[0], limits=[{end}], steps=[1])\n%2 = {last}\noutput y = %2\n",
        target="cpu",
    )
    assert program.verify().ratio <= 1
