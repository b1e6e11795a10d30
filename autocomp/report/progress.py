"""Progress of a compilation on a terminal: one line a stage, with its time and figures."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.status import Status

from autocomp.trace import Trace

TITLES = {
    "import": "reading the model",
    "rules": "loading rules and chip",
    "cache": "looking into the cache",
    "saturate": "saturating the e-graph",
    "cover": "choosing kernels",
    "schedule": "choosing schedules",
    "siblings": "joining kernels beside each other",
    "build": "printing and building sources",
}
EVERY = 5.0  # seconds between lines of a long stage where there is no terminal


class StageProgress:
    """Listens to a trace; a spinner while a stage runs, then a line with seconds and the stage's figures.

    What a long stage says meanwhile stands beside the spinner, or in a line every few seconds.
    """

    def __init__(self, console: Console, trace: Trace, enabled: bool = True) -> None:
        self.console, self.trace, self.enabled = console, trace, enabled
        self.status: Status | None = None
        self.said = time.monotonic()

    def __enter__(self) -> StageProgress:
        if self.enabled:
            self.trace.listener = self._event
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.trace.listener = None
        if self.status is not None:
            self.status.stop()

    def _event(self, what: str, stage: str, seconds: float) -> None:
        if what == "progress":
            self._meanwhile(stage)
            return
        title = TITLES.get(stage, stage)
        if what == "start":
            self.said = time.monotonic()
            if self.console.is_terminal:
                self.status = self.console.status(title)
                self.status.start()
            return
        if self.status is not None:
            self.status.stop()
            self.status = None
        data = self.trace.of("stage")[-1].data
        self.console.print(f"{title:32s} {seconds:7.2f} s  " + ", ".join(f"{k} {v}" for k, v in data.items()), highlight=False)

    def _meanwhile(self, text: str) -> None:
        if self.status is not None:
            self.status.update(text)
        elif time.monotonic() - self.said > EVERY:
            self.said = time.monotonic()
            self.console.print(text, highlight=False)
