"""Factors that are unpacked in pairs of bf16, by the device's own instructions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import autocomp
from tests.targets.test_pairs_of_bf16 import COLUMNS, DEPTH, layer


@pytest.mark.parametrize(("shift", "mask", "zero"), [(4, 15, 8.0), (1, 127, 64.0), (3, 15, -5.0), (4, 15, 200.0)])
def test_each_weight_is_the_one_that_the_graph_says(shift, mask, zero):
    program = autocomp.optimize(layer(shift, mask, zero), target="cuda", cache=False)
    draw = np.random.default_rng(5)
    q, s = draw.integers(0, 256, (COLUMNS, DEPTH // 2), np.uint8), draw.normal(size=(COLUMNS, 1)).astype(ml_dtypes.bfloat16)
    for at in (0, 1, 777, DEPTH - 1):
        x = np.zeros((1, DEPTH), ml_dtypes.bfloat16)
        x[0, at] = 1
        n = (q[:, at // 2] >> shift & mask if at % 2 else q[:, at // 2] & 15).astype(np.float32) - np.float32(zero)
        want = (n * s[:, 0].astype(np.float32)).astype(ml_dtypes.bfloat16)
        (got,) = program.run({"x": x, "q": q, "s": s}).values()
        assert np.array_equal(got[0].astype(np.float32), want.astype(np.float32))
