"""What a mask that ends a loop leaves of a kernel's time."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.cost.demand import demand_of
from autocomp.ir.masks import shares_left
from tests.helpers.device_graphs import attention


@pytest.mark.parametrize(("depth", "step", "rows", "tile", "past"),
                         [(64, 8, 64, 16, 0), (37, 4, 37, 8, -1), (20, 8, 50, 16, 3), (96, 32, 10, 4, 0)])  # fmt: skip
def test_the_share_of_turns_is_that_of_tiles_with_a_key_to_see(depth, step, rows, tile, past):
    turns = [sum(any(k <= i + past for i in range(b, b + tile) for k in range(t, t + step)) for t in range(0, depth, step))
             for b in range(0, rows, tile)]  # fmt: skip
    whole = -(-depth // step)
    assert shares_left(depth, step, rows, tile, past) == pytest.approx((sum(turns) / len(turns) / whole, max(turns) / whole))


def test_a_causal_mask_halves_the_predicted_time():
    full, causal = (autocomp.optimize(attention(4, 32, 4096, 128, causal=c), target="cuda:h200") for c in (False, True))
    assert demand_of(causal.calls.calls[0].kernel).left({})[0] == pytest.approx(0.5, rel=1e-3)
    assert 0.5 < causal.kernels[0].predicted / full.kernels[0].predicted < 0.6


def test_a_wave_takes_as_long_as_its_longest_tile():
    full, causal = (autocomp.optimize(attention(1, 1, 1024, 128, causal=c), target="cuda:h200") for c in (False, True))
    assert causal.kernels[0].predicted == pytest.approx(full.kernels[0].predicted, rel=0.1)
