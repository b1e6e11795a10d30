"""Memory for results and weights: aligned, in huge pages where the system has them, and used again.

A fresh page costs the system a fault and a clearing, which for a 16 MB result takes longer than computing it. So results lie in
blocks that come back to a pool when nobody can see them any more.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

HUGE = 2 << 20  # bytes of a huge page on x86-64 and AArch64 (4 KB granules)
SMALL = 64 << 10  # results up to here come from the allocator, which keeps such sizes mapped
KEPT = 2  # free blocks of one size that the pool keeps: a loop `y = f(x)` holds the last result while the next is written


def memory(size: int, align: int = 64) -> np.ndarray:
    """Uninitialised bytes at a multiple of `align`; from HUGE on, anonymous pages of their own for which huge ones are asked."""
    if size < HUGE:
        raw = np.empty(size + align, np.uint8)
        start = -raw.ctypes.data % align
        return raw[start : start + size]
    total = -(-size // HUGE) * HUGE
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    pages = mmap.mmap(-1, total + HUGE, **private)
    raw = np.frombuffer(pages, np.uint8)
    start = -raw.ctypes.data % HUGE
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them: plain pages work too
            pages.madvise(mmap.MADV_HUGEPAGE, start, total)
    return raw[start : start + size]


class _Lease:
    """What every view of a result keeps alive (NumPy's base chain ends here); its end gives the block back."""

    __slots__ = ("__array_interface__", "_block", "_pool")

    def __init__(self, pool: Pool, block: tuple[np.ndarray, int]) -> None:
        self._pool, self._block = pool, block
        self.__array_interface__ = {"version": 3, "shape": block[0].shape, "typestr": "|u1", "data": (block[1], False)}

    def __del__(self) -> None:
        self._pool.give(self._block)


class Pool:
    """Blocks by size. A block is handed out again only after the array made on it, and every view of it, is gone."""

    def __init__(self) -> None:
        self._free: dict[int, list[tuple[np.ndarray, int]]] = {}

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An uninitialised array."""
        kind = np.dtype(dtype)
        size = prod(shape) * kind.itemsize
        if size <= SMALL:
            return np.empty(shape, kind)
        free = self._free.get(size)
        if free:
            block = free.pop()
        else:
            fresh = memory(size)
            block = fresh, fresh.ctypes.data
        return np.asarray(_Lease(self, block)).view(kind).reshape(shape)

    def give(self, block: tuple[np.ndarray, int]) -> None:
        """Take a block back (called when the last view of it ends, on whatever thread that is)."""
        free = self._free.setdefault(block[0].size, [])
        if len(free) < KEPT:
            free.append(block)
