"""What calls of a program on a GPU queue their work in: a lane for each call that is being queued, taken from a pool and given back.

A lane is a stream, with arenas and launches of its own for the sizes that it has seen. Calls of one thread take the same lane again, and
calls of several threads at a time have one each, so that no arena is written by two of them. A lane may be taken while work that was
queued in it runs: what comes next runs behind it.
"""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from autocomp.errors import AutocompError
from autocomp.forks import Lock, in_child

SIZES = 16  # sets of sizes whose arena and launches a lane keeps at most
KEPT = 1 << 30  # bytes of those arenas besides the latest one


class _Process:
    """`used`: programs for a GPU were made here; `left`: they were made before this process was forked, which no driver survives."""

    used = left = False

    @classmethod
    def forked(cls) -> None:
        cls.left = cls.used
        if cls.used:
            gc.freeze()  # what waits for the collector holds streams and memory of the parent: freeing them here is a signal

    @classmethod
    def check(cls, where: str) -> None:
        if cls.left:
            raise AutocompError("a forked child cannot use the GPU that its parent used", where=where,
                                hint="start it by multiprocessing's 'spawn', or fork before the first program for a GPU")  # fmt: skip
        cls.used = True


in_child(_Process.forked)
usable = _Process.check  # raises AutocompError, which names `where`, in a child of a process that made programs for a GPU


class Lane:
    """`ready`: by sizes, what `CudaExecutor._prepare` made for them, and the bytes of the arena; the latest is the last."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.ready: OrderedDict[tuple[int, ...], tuple[Any, int]] = OrderedDict()
        self.kept = 0

    def prepared(self, key: tuple[int, ...], make: Callable[[], tuple[Any, int]]) -> Any:
        """What is kept for these sizes, else what `make` gives: (it, bytes)."""
        found = self.ready.get(key)
        if found is None:
            found = self.ready[key] = make()
            self.kept += found[1]
            while len(self.ready) > SIZES or (self.kept > KEPT and len(self.ready) > 1):
                _, (_, bytes_) = self.ready.popitem(last=False)
                self.kept -= bytes_
        self.ready.move_to_end(key)
        return found[0]


class Lanes:
    """The pool. `stream()` makes a stream; `where` is named by errors."""

    def __init__(self, stream: Callable[[], Any], where: str) -> None:
        self._stream, self._where = stream, where
        self._lock = Lock()
        self._taken = threading.local()
        self.main = Lane(stream())
        self.free = [self.main]

    @property
    def current(self) -> Lane:
        """The lane that this thread has taken, else the first."""
        taken: list[Lane] = getattr(self._taken, "lanes", [])
        return taken[-1] if taken else self.main

    def take(self, key: tuple[int, ...] | None = None) -> Lane:
        """A lane that nobody else has; one that knows the sizes `key` where these are given and there is one.

        Raises AutocompError in a forked child."""
        usable(self._where)
        with self._lock.held:
            free = [x for x in self.free if key in x.ready] or self.free
            lane = free[-1] if free else None
            if lane is not None:
                self.free.remove(lane)
        if lane is None:
            lane = Lane(self._stream())
        if not hasattr(self._taken, "lanes"):
            self._taken.lanes = []
        self._taken.lanes.append(lane)
        return lane

    def give(self, lane: Lane) -> None:
        """Give back the lane that this thread took last."""
        self._taken.lanes.remove(lane)
        with self._lock.held:
            self.free.append(lane)
