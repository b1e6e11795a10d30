"""What calls of a CPU program work in: a frame for each call that is under way, taken from a pool and given back.

A frame has an arena, the intermediates that lie in it, and the table of pointers that the plan reads. Two calls never have the same one.
Free frames are kept by the sizes that they are for, the oldest leave first; a frame for other sizes takes the arena of the oldest one,
where that is large enough, before more than KEPT bytes are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from autocomp.forks import Lock, in_child

KEPT = 64 << 20  # bytes of free frames that a program keeps, besides as many frames as it had calls under way at once
LAYOUTS = 64  # sets of sizes whose places in the arena are remembered

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """`tensors`: intermediates as views of `room`; `table`: pointers, those of the inputs and outputs are the call's; `z`: values of size
    parameters; `scratch`: of recurrences, `at` its address; `said`: what the library says of a call's threads;
    `entry`: what `ac_frame` is given to run all calls."""

    key: Sizes
    room: np.ndarray
    tensors: dict[str, np.ndarray]
    table: Any
    z: Any
    scratch: np.ndarray
    at: int
    said: Any
    entry: Any

    @property
    def bytes(self) -> int:
        return self.room.nbytes + self.scratch.nbytes


class Frames:
    """The pool."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._out = self._most = 0  # how many calls are, and were, under way at once
        in_child(self._forget)
        self._forget()

    def take(self, key: Sizes, need: Callable[[Sizes], int], make: Callable[[Sizes, np.ndarray | None], Frame]) -> Frame:
        """A frame for these sizes that nobody else has. `need(key)`: bytes of an arena; `make(key, room)`: a frame on `room`, or on memory
        of its own where that is None. Raises MemoryError."""
        with self._lock.held:
            self._out += 1
            self._most = max(self._most, self._out)
            if self._free.get(key):
                return self._leave(key, -1)
        try:
            size = need(key)
            with self._lock.held:
                old = self._oldest() if self.kept + size > KEPT else None
            room = old.room if old is not None and old.room.nbytes >= size else None
            del old  # before the new one is made: its memory may be what there is
            return make(key, room)
        except BaseException:
            with self._lock.held:
                self._out -= 1
            raise

    def give(self, frame: Frame) -> None:
        """Take a frame back."""
        with self._lock.held:
            self._out -= 1
            self._free.setdefault(frame.key, []).append(frame)
            self._free.move_to_end(frame.key)
            self.kept += frame.bytes
            self._count += 1
            while self.kept > KEPT and self._count > self._most:
                self._oldest()

    def free(self) -> Iterator[Frame]:
        """Frames that no call has."""
        return (f for group in list(self._free.values()) for f in group)

    def _oldest(self) -> Frame | None:
        """The free frame that has waited longest, which is free no more."""
        return self._leave(next(iter(self._free)), 0) if self._free else None

    def _leave(self, key: Sizes, which: int) -> Frame:
        group = self._free[key]
        frame = group.pop(which)
        if not group:
            del self._free[key]
        self.kept -= frame.bytes
        self._count -= 1
        return frame

    def _forget(self) -> None:
        """Start anew (in a forked child: another thread may have been at work here)."""
        self._free: OrderedDict[Sizes, list[Frame]] = OrderedDict()
        self.kept = 0  # bytes of free frames,
        self._count = 0  # and how many there are
        self._out = 0
