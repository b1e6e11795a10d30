"""A kernel at sizes of its own: what it costs there is what the kernel of these sizes costs."""

from __future__ import annotations

import pytest

from autocomp.cost.open_sizes import at, places, sizes
from tests.cost.test_cores import kernel, seconds

OPEN = {
    "product": "graph g\ndim n in 4..1024\ninput x: f32[n, 64]\ninput w: f32[64, n]\n%0 = matmul(x, w)\noutput y = %0\n",
    "computed": "graph g\ndim n in 4..1024\ninput x: f32[n, 64]\n%0 = concat(x, x, axis=0)\n%1 = softmax(%0, axes=[1])\noutput y = %1\n",
    "statistic": "graph g\ndim n in 4..1024\ninput x: f32[8, n]\n%0 = softmax(x, axes=[1])\noutput y = %0\n",
}


@pytest.mark.parametrize("name", OPEN)
def test_the_price_in_the_middle_is_the_kernels_own(name):
    k = kernel(OPEN[name])
    assert places(k, 0.3) == (0.0, -0.3, 0.3) and places(k, 0.0) == (0.0,)
    assert sizes(k, -0.3) == {"n": 12} and sizes(k, 0.3) == {"n": 337}
    for tile in ({}, {"i0": 8}):
        assert seconds(at(k, 0.0), **tile) == seconds(k, **tile)
        assert seconds(at(k, -0.3), **tile) < seconds(k, **tile) < seconds(at(k, 0.3), **tile)


def test_the_price_of_a_product_elsewhere_is_that_of_the_kernel_with_these_sizes():
    fixed = kernel(OPEN["product"].replace("dim n in 4..1024\n", "").replace("n]", "337]").replace("[n", "[337"))
    assert places(fixed, 0.3) == (0.0,)
    for tile in ({}, {"i0": 8}, {"i0": 64, "i1": 128}):
        assert seconds(at(kernel(OPEN["product"]), 0.3), **tile) == seconds(fixed, **tile)
