"""Contiguous copies of weights that lie in another order: as whole cache lines on both sides, by all threads.

NumPy walks a transposed matrix line by line of the result, so that each element of the source costs a cache line, and copies elements of
types that are not its own (bfloat16, float8) by one call each: a gigabyte took 12 s on two busy cores of a Zen 5, 2026-11-25, where
blocks took 5.5 s on one of them.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

BLOCK = 256  # elements a side: two blocks of 8 bytes an element fit into a second-level cache
SMALL = 1 << 20  # bytes below which NumPy's own copy is done before threads have started


def packed(x: np.ndarray) -> np.ndarray:
    """`x` itself where it is contiguous, else a contiguous copy: the same shape, type and bytes."""
    x = np.asarray(x)
    if x.flags.c_contiguous:
        return x
    itemsize = x.dtype.itemsize
    source = x if x.dtype.isbuiltin == 1 or itemsize not in (1, 2, 4, 8) else x.view(f"u{itemsize}")
    near = min(range(x.ndim), key=lambda a: abs(x.strides[a]) if x.shape[a] > 1 and x.strides[a] else 1 << 62)
    last = x.ndim - 1
    if x.nbytes < SMALL or near == last:
        return np.ascontiguousarray(source).view(x.dtype)
    out = np.empty(source.shape, source.dtype)

    def strip(begin: int) -> None:
        for k in range(0, x.shape[last], BLOCK):
            at = [slice(None)] * x.ndim
            at[near], at[last] = slice(begin, begin + BLOCK), slice(k, k + BLOCK)
            out[tuple(at)] = source[tuple(at)]

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(strip, range(0, x.shape[near], BLOCK)))
    return out.view(x.dtype)
