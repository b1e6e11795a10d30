"""The clock of a compilation: wherever it stands when the time is over, each stage goes on in its cheapest form, and says what it left.

Counts (`budget.py`) end what grows, so that two runs choose alike; the clock is the last resort. There is one for all that a command does,
and whoever loops asks the one that runs. What it cut is named in the trace, and what comes of that is kept in no cache.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from autocomp.options import Options
from autocomp.trace import Trace

SECONDS = 60.0  # where nobody says how long
OPS = 1_000  # of a graph that is given twice as long, where nobody says
COMPILER = 10.0  # seconds that a compiler's command may take at least, however late it is, where its result is wanted now
GRACE = 1.0  # seconds after the deadline for commands whose work can be done later
clock = time.monotonic


@dataclass(eq=False)
class Deadline:
    """`seconds`: from `began` on; 0 for no end. `cut`: stages that it ended, each with what it left undone."""

    seconds: float = 0.0
    trace: Trace | None = None
    cut: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=lambda: clock())
    until: float = 0.0  # when commands end whose work can be done later; 0 outside of `postponing`

    @property
    def left(self) -> float:
        """Seconds, below 0 once it is over."""
        return self.began + self.seconds - clock() if self.seconds else float("inf")

    @property
    def over(self) -> bool:
        """Whether it is."""
        return self.left <= 0

    def passed(self, stage: str, undone: str) -> bool:
        """Whether it is over; the trace then says, once for a stage, what that stage leaves undone."""
        if not self.over:
            return False
        self.ended(stage, undone)
        return True

    def ended(self, stage: str, undone: str) -> None:
        """Say that a stage leaves something undone, the first time."""
        if stage not in self.cut:
            self.cut[stage] = undone
            if self.trace is not None:
                self.trace.add("budget", stage, deadline_s=self.seconds, undone=undone)

    def within(self, limit: float, least: float = COMPILER) -> float:
        """Seconds for what cannot be asked meanwhile, a command or another process: what is left, and at least `least`; while it is
        `postponing`, what is left until then."""
        if self.until:
            return min(limit, max(0.0, self.until - clock()))
        return min(limit, max(least, self.left))

    @contextmanager
    def postponing(self) -> Iterator[None]:
        """Commands in the block do what can be done later: they end, all together, GRACE seconds after the deadline, or after now if
        that is later."""
        self.until = max(self.began + self.seconds, clock()) + GRACE if self.seconds else 0.0
        try:
            yield
        finally:
            self.until = 0.0


_NEVER = Deadline()
_now: ContextVar[Deadline] = ContextVar("autocomp.deadline", default=_NEVER)


def current() -> Deadline:
    """The clock that runs; one without an end where none does."""
    return _now.get()


@contextmanager
def running(deadline: Deadline) -> Iterator[Deadline]:
    """This clock for the block."""
    token = _now.set(deadline)
    try:
        yield deadline
    finally:
        _now.reset(token)


@contextmanager
def by_counts() -> Iterator[None]:
    """No clock for the block: what it says must be the same at any load."""
    with running(Deadline()):
        yield


@contextmanager
def started(options: Options, trace: Trace | None = None) -> Iterator[Deadline]:
    """The clock that runs already (it writes to `trace` from now on, if it wrote to none), else a new one of the option's seconds."""
    mine = current()
    if mine.seconds:
        mine.trace = mine.trace or trace
        yield mine
        return
    with running(_of(options, trace)) as mine:
        yield mine


def start(options: Options) -> None:
    """A new clock of the option's seconds, until the context ends (`contextvars.Context.run`)."""
    _now.set(_of(options, None))


def _of(options: Options, trace: Trace | None) -> Deadline:
    return Deadline(SECONDS if options.deadline is None else options.deadline, trace)


def sized(deadline: Deadline, options: Options, ops: int) -> None:
    """A graph of so many operations is read, and its compilation begins: where nobody says how long, time counts from now on (an exporter
    may have taken minutes), and large ones are given more."""
    if options.deadline is None and deadline.seconds:
        deadline.seconds, deadline.began = SECONDS * (1 + ops / OPS), clock()
