"""What traced arrays answer to, by name: ufuncs, functions, and the protocols of Python that are written in terms of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

UFUNCS: dict[str, Callable[..., Any]] = {}
"""NumPy's name of a ufunc -> the function of values (tracers, arrays, numbers) that records it."""

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""NumPy's or the array API's name of a function -> the same with its arguments."""

PROTOCOLS: dict[str, Callable[..., Any]] = {}
"""Python's or the array API's name of a protocol (`__getitem__`) -> what it does to a tracer."""


def function(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is what these names of numpy do to tracers."""
    return _adds(FUNCTIONS, names)


def protocol(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is what this protocol does to tracers."""
    return _adds(PROTOCOLS, (name,))


def _adds(table: dict[str, Callable[..., Any]], names: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        table.update(dict.fromkeys(names, fn))
        return fn

    return add
