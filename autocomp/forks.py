"""Locks for state that calls share, and what a forked child does first.

A child of `os.fork` has one thread, the one that forked. A lock that another thread held then stays shut there for ever, and what it
protected may be half changed: so a child finds these locks open, and their owners forget what is not worth keeping. Python's own locks
of modules cannot be opened so, and half a module is none: a fork waits until what other threads import here is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import count
from threading import RLock
from typing import Any, Generic, TypeVar, overload
from weakref import WeakSet, ref

_LOCKS: WeakSet[Lock] = WeakSet()
_FIRST: dict[int, Callable[[], Callable[[], Any] | None]] = {}  # what gives the functions and methods that a child calls
_NUMBERS = count()
_MODULES: set[str] = set()  # in a forked child, those that its parent had imported
# Packages that are imported where they are first needed
_OURS = ("autocomp", "egglog", "islpy", "networkx", "numpy", "onnx", "torch", "yaml")


class Lock:
    """A re-entrant lock, taken by `with lock.held`, which is open in a forked child, but where the thread that forked holds it itself."""

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held = RLock()
        _LOCKS.add(self)

    def open(self) -> None:
        """Forget who holds it."""
        if not self.held._is_owned():  # type: ignore[attr-defined]
            self.held = RLock()


T = TypeVar("T")


class kept_property(Generic[T]):  # noqa: N801
    """A property that is computed when it is first read, and kept beside the fields. Up to Python 3.11 `functools.cached_property` computes
    under a lock that all objects share, which a forked child may find shut; here two threads may compute the same value."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, obj: None, owner: type) -> kept_property[T]: ...
    @overload
    def __get__(self, obj: object, owner: type) -> T: ...
    def __get__(self, obj: Any, owner: type) -> Any:
        if obj is None:
            return self
        value = obj.__dict__[self.name] = self.function(obj)
        return value


def in_child(function: Callable[[], Any]) -> None:
    """Have a forked child call a function, or a method unless its object is gone by then."""
    n = next(_NUMBERS)
    if not hasattr(function, "__func__"):
        _FIRST[n] = lambda: function
        return
    method = function.__func__
    gone = lambda _, n=n, first=_FIRST: first.pop(n, None)  # bound here: at the end of the process the module's names may be gone
    owner = ref(function.__self__, gone)  # type: ignore[attr-defined]
    _FIRST[n] = lambda: None if (x := owner()) is None else partial(method, x)


def inherited(module: str) -> bool:
    """Whether this process is a forked child, and its parent had imported the module."""
    return module in _MODULES


def _half_imported() -> list[str]:
    """Modules of these packages that some thread is importing."""
    ours = [(name, module) for name, module in list(sys.modules.items()) if name.partition(".")[0] in _OURS]
    return [name for name, module in ours if getattr(getattr(module, "__spec__", None), "_initializing", False)]


def _parent() -> None:
    waited: set[str] = set()
    while left := [name for name in _half_imported() if name not in waited]:
        for name in left:
            waited.add(name)  # once: a module may fork while it is imported
            with suppress(Exception):  # the thread that imports it hears why it fails
                import_module(name)


def _child() -> None:
    _MODULES.update(sys.modules)
    for lock in list(_LOCKS):
        lock.open()
    for one in list(_FIRST.values()):
        function = one()
        if function is not None:
            function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_parent, after_in_child=_child)
