"""Holding a stream back until the host has queued what is timed: short launches are then timed by what the device needs for them,
not by what the host needs to queue the next one."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from autocomp.runtime.device_array import check

MOST = 256  # launches and events that may be queued behind a shut gate: a driver holds about a thousand, and waits for room beyond


class Gate:
    """A word of the host's memory that the stream waits for. Where the driver has no such wait, the stream is not held back."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self._address = int(check(driver.cuMemHostAlloc(4, driver.CU_MEMHOSTALLOC_DEVICEMAP), "memory that the device reads"))
        self._word = ctypes.c_uint32.from_address(self._address)

    def close(self) -> None:
        """Give the word back; nothing waits for it any more."""
        from cuda.bindings import driver

        check(driver.cuMemFreeHost(self._address), "memory that the device reads")

    @contextmanager
    def shut(self, stream: Any) -> Iterator[None]:
        """What is queued meanwhile begins at the end. Nothing in it may wait for the device."""
        from cuda.bindings import driver

        self._word.value = 0
        driver.cuStreamWaitValue32(stream.handle, self._address, 1, driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ)
        try:
            yield
        finally:
            self._word.value = 1
