"""Memory for results and weights: aligned, in huge pages where the system has them, and used again.

A fresh page costs the system a fault and a clearing, which for a 16 MB result takes longer than computing it. So results lie in
blocks that come back to a pool when nobody can see them any more.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections import OrderedDict
from contextlib import suppress
from math import prod
from typing import Any, NamedTuple

import numpy as np

from autocomp.forks import in_child

HUGE = 2 << 20  # bytes of a huge page on x86-64 and AArch64 (4 KB granules)
SMALL = 64 << 10  # results up to here come from the allocator, which keeps such sizes mapped
KEPT_BYTES = 64 << 20  # bytes of free blocks that a program keeps besides the latest one
KEPT = 2  # free blocks of one size that the pool keeps: a loop `y = f(x)` holds the last result while the next is written


def memory(size: int, align: int = 64) -> np.ndarray:
    """Uninitialised bytes at a multiple of `align`; from HUGE on, anonymous pages of their own for which huge ones are asked.

    Raises MemoryError."""
    if size < HUGE:
        raw = np.empty(size + align, np.uint8)
        start = -raw.ctypes.data % align
        return raw[start : start + size]
    total = -(-size // HUGE) * HUGE
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    try:
        pages = mmap.mmap(-1, total + HUGE, **private)
    except (OSError, OverflowError):
        raise MemoryError(f"the system gives no {size:,} bytes") from None
    raw = np.frombuffer(pages, np.uint8)
    start = -raw.ctypes.data % HUGE
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them: plain pages work too
            pages.madvise(mmap.MADV_HUGEPAGE, start, total)
    return raw[start : start + size]


class Block(NamedTuple):
    """`lease`: the type, of this many bytes, of what every view of a result keeps alive (NumPy's base chain ends there): its end gives the
    block back. A type a block, as ctypes has sizes in types, and an array on one takes a quarter of the time of other ways."""

    memory: np.ndarray
    address: int
    lease: Any


def _block(size: int) -> Block:
    """Raises MemoryError."""
    fresh = memory(size)
    lease = type("_Lease", (ctypes.c_char * size,), {"__del__": lambda x: x.pool.give(x.block)})
    return Block(fresh, fresh.ctypes.data, lease)


class Pool:
    """Blocks by size. A block is handed out again only after the array made on it, and every view of it, is gone.

    For any thread. A block comes back wherever its last view ends, also in the middle of what this or another thread does here: so
    nobody waits for the lock, and who does not get it does without the pool.
    """

    def __init__(self) -> None:
        self._forget()
        in_child(self._forget)

    def _forget(self) -> None:
        """Start anew (in a forked child: another thread may have been at work here)."""
        self._lock = threading.Lock()
        self._free: OrderedDict[int, list[Block]] = OrderedDict()
        self.kept = 0  # bytes of free blocks

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An uninitialised array. Raises MemoryError."""
        kind = np.dtype(dtype)
        size = prod(shape) * kind.itemsize
        if size <= SMALL:
            return np.empty(shape, kind)
        block = self._take(size) or _block(size)
        lease = block.lease.from_address(block.address)
        lease.pool, lease.block = self, block
        return np.ndarray(shape, kind, lease)

    def _take(self, size: int) -> Block | None:
        lock = self._lock
        if not lock.acquire(blocking=False):
            return None
        try:
            free = self._free.get(size)
            if not free:
                return None
            block = free.pop()
            if not free:
                del self._free[size]
            self.kept -= size
            return block
        finally:
            lock.release()

    def give(self, block: Block) -> None:
        """Take a block back (called when the last view of it ends, on whatever thread that is)."""
        lock, size = self._lock, block.memory.size
        if not lock.acquire(blocking=False):
            return
        try:
            free = self._free.setdefault(size, [])
            self._free.move_to_end(size)
            if len(free) < KEPT:
                free.append(block)
                self.kept += size
            while self.kept > KEPT_BYTES and self.kept > size:
                oldest, group = next(iter(self._free.items()))
                group.pop()
                self.kept -= oldest
                if not group:
                    del self._free[oldest]
        finally:
            lock.release()
