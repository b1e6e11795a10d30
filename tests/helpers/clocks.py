"""A clock that a test moves: no test of a deadline waits for one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autocomp import deadline
from autocomp.trace import Trace

FAR = 1e6  # seconds: later than any deadline


class Clock:
    """Stands at 0, and goes FAR ahead at the `jump`-th time that it is asked, or when told to. `asked`: how often it was."""

    def __init__(self, jump: int | None = None) -> None:
        self.now, self.jump, self.asked = 0.0, jump, 0

    def __call__(self) -> float:
        self.asked += 1
        if self.jump is not None and self.asked >= self.jump:
            self.now = FAR
        return self.now


def clock(monkeypatch: pytest.MonkeyPatch, jump: int | None = None) -> Clock:
    """The clock of all deadlines from now on."""
    made = Clock(jump)
    monkeypatch.setattr(deadline, "clock", made)
    return made


def over_in(monkeypatch: pytest.MonkeyPatch, stage: str) -> Trace:
    """A trace of which the clock runs out when this stage begins."""
    made = clock(monkeypatch)

    def listen(kind: str, name: str, seconds: float) -> None:
        if kind == "start" and name == stage:
            made.now = FAR

    return Trace(listener=listen)


def calls(monkeypatch: pytest.MonkeyPatch, where: str) -> Callable[[], int]:
    """How often a function, by its path, has been called since."""
    import importlib

    module, _, name = where.rpartition(".")
    owner = importlib.import_module(module)
    real, count = getattr(owner, name), [0]

    def counted(*a: object, **kw: object) -> object:
        count[0] += 1
        return real(*a, **kw)

    monkeypatch.setattr(owner, name, counted)
    return lambda: count[0]
