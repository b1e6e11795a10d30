"""Contiguous copies of weights: the same bytes whatever the order, the type and the size."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from autocomp.runtime.pack import BLOCK, SMALL, packed

ORDERS = [(1, 0), (0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1), (1, 2, 0)]


@pytest.mark.parametrize("dtype", ["f4", "u1", "f8", "c16", "?", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("order", ORDERS)
def test_copies_have_the_same_bytes(order, dtype):
    shape = (2 * BLOCK + 3, SMALL // BLOCK + 5)[: len(order)] + (3,) * (len(order) - 2)  # for threads, with tails
    bits = np.random.default_rng(0).integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
    bits = bits & 1 if dtype == "?" else bits
    x = bits.view(dtype)[..., 0].transpose(order)
    got = packed(x)
    assert got.flags.c_contiguous and got.dtype == x.dtype and got.shape == x.shape
    assert got.tobytes() == x.tobytes()


def test_what_is_contiguous_is_not_copied():
    x = np.zeros((3, 5), ml_dtypes.bfloat16)
    assert packed(x) is x


@pytest.mark.parametrize("make", [lambda x: x[::-1, ::-1], lambda x: x[:, ::2], lambda x: np.broadcast_to(x[:1], x.shape),
                                  lambda x: np.broadcast_to(x[:, :1], x.shape)])  # fmt: skip
def test_reversed_strided_and_repeated(make):
    x = make(np.random.default_rng(0).standard_normal((700, 900)).astype("f4"))
    assert np.array_equal(packed(x), x) and packed(x).flags.c_contiguous
