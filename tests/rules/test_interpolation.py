"""Winograd's tables for any number of results and taps, and the rules that use them."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.rewrite.interpolation import winograd_inputs, winograd_results, winograd_taps

POINTS = [0, 1, -1, 2, -0.5, -2, 0.5, 4]


@pytest.mark.parametrize(("results", "taps"), [(1, 2), (2, 3), (4, 3), (2, 5), (4, 5), (6, 3)])
def test_products_at_points_are_a_filter(results, taps):
    n = results + taps - 1
    points = POINTS[: n - 1]
    tables = (f(results, taps, points) for f in (winograd_results, winograd_taps, winograd_inputs))
    a, g, b = (np.reshape(x, shape) for x, shape in zip(tables, [(results, n), (taps, n), (n, n)], strict=True))
    d, w = np.random.default_rng(1).standard_normal((2, 100, n))
    found = ((w[:, :taps] @ g) * (d @ b.T)) @ a.T
    assert np.allclose(found, [[d[k, i : i + taps] @ w[k, :taps] for i in range(results)] for k in range(100)])


@pytest.mark.parametrize("points", [[0, 1], [0, 1, -1, 2, 1]])
def test_points_are_as_many_as_products_but_one_and_differ(points):
    with pytest.raises(ValueError, match="5 different points"):
        winograd_inputs(4, 3, points)


@pytest.mark.parametrize(("taps", "rule"), [(3, "winograd-four-of-three"), (5, "winograd-four-of-five")])
def test_convolutions_of_many_channels_take_fewer_products(taps, rule):
    text = (f"graph g\ninput x: f32[32, 28, 28, 128]\nparam w: f32[128, {taps}, {taps}, 128] = random(1)\n"
            f"%0 = conv(x, w, strides=[1, 1], lo=[{taps // 2}, {taps // 2}], hi=[{taps // 2}, {taps // 2}], dilations=[1, 1], groups=1, "
            'layout="nhwc_ohwi")\noutput y = %0\n')  # fmt: skip
    program = autocomp.optimize(text, target="cuda:h200")
    assert rule in program.explain()
    assert program.predicted < 0.85 * autocomp.optimize(text, target="cuda:h200", without=["convolution/winograd-four-*"]).predicted
