"""Locks for state that calls share, and what a forked child does first.

A child of `os.fork` has one thread, the one that forked. A lock that another thread held then stays shut there for ever, and what it
protected may be half changed: so a child finds these locks open, and their owners forget what is not worth keeping.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from types import TracebackType
from typing import Any
from weakref import WeakMethod, WeakSet

_LOCKS: WeakSet[Lock] = WeakSet()
_FIRST: list[Callable[[], Any]] = []  # functions, or weak references to methods, that a child runs once


class Lock:
    """A re-entrant lock which is open in a forked child, but where the thread that forked holds it itself."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()

    def acquire(self, blocking: bool = True) -> bool:
        """Whether it was taken."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def open(self) -> None:
        """Forget who holds it."""
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            self._lock = RLock()


def in_child(method: Callable[[], Any]) -> None:
    """Have a forked child call a method, unless its object is gone by then."""
    _FIRST.append(WeakMethod(method))


def _child() -> None:
    for lock in list(_LOCKS):
        lock.open()
    for weak in list(_FIRST):
        method = weak()
        if method is None:
            _FIRST.remove(weak)
        else:
            method()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_child)
