"""One recorded trace of a run: every view (explain, graph views, reports, compare) reads this and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

FORMAT = "autocomp trace 1"  # another number where a field is renamed or means something else; new ones come without
# kind -> fields that its data has always, with their JSON types; events may have more
KINDS: dict[str, dict[str, str]] = {
    "stage": {},  # name: the stage; seconds: what it took; data: its figures
    "phase": {"terms": "integer", "fired": "integer"},  # name: a phase of rules
    "rule": {"phase": "string", "count": "integer"},  # name: a rule that fired
    "reject": {},  # name: a rule that was refused; reason or why, count, the phase, the kernel or the place
    "budget": {},  # name: what reached a limit, which data has; or what a deadline left undone
    "cut": {"area_flow": "number", "exact_area": "number", "by_products": "integer", "cuts": "integer"},  # the cover
    "alternatives": {"flow": "number", "forms": "array", "others": "array"},  # name: a stored tensor
    "chain": {"reasons": "array", "steps": "array", "steps_in_all": "integer"},  # name: a stored tensor; how its kernel came about
    "schedule": {},  # name: a kernel; candidates, the rule, runners_up, bound; or the moves of a recurrence
    "directive": {"kernel": "string", "directive": "string", "used": "boolean"},  # name: the rule that gave it
    "measured": {"tried": "integer", "fresh": "integer", "untuned_s": "number", "best_s": "number"},  # name: a kernel, raced
    "tuned": {"used": "boolean", "text": "string"},  # name: a kernel, or `program`
    "note": {"text": "string"},  # name: who says it
}


@dataclass(frozen=True)
class Event:
    """`kind`: one of KINDS; `data` is JSON-able."""

    kind: str
    name: str
    data: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass
class Trace:
    """Events in order. `listener`, if set, is called at the start and the end of each stage, and with what long stages say meanwhile."""

    events: list[Event] = field(default_factory=list)
    listener: Callable[[str, str, float], None] | None = None
    spent: float = field(default=0.0, compare=False)  # seconds of recording
    _inside: bool = field(default=False, repr=False, compare=False)

    def add(self, kind: str, name: str, seconds: float = 0.0, **data: Any) -> None:
        with self.recording():
            self.events.append(Event(kind, name, data, seconds))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Around what is only there for the record: its seconds are counted."""
        if self._inside:
            yield
            return
        t, self._inside = time.perf_counter(), True
        try:
            yield
        finally:
            self.spent, self._inside = self.spent + time.perf_counter() - t, False

    @property
    def share(self) -> float:
        """Recording's part of the compilation's seconds, without those of the target's own compiler."""
        whole = sum(e.seconds for e in self.of("stage") if e.name != "build")
        return self.spent / whole if whole else 0.0

    def of(self, kind: str) -> list[Event]:
        return [e for e in self.events if e.kind == kind]

    def progress(self, text: str) -> None:
        """Where a long stage is; nothing is recorded."""
        if self.listener:
            self.listener("progress", text, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a stage; the yielded dict becomes the event's data."""
        data: dict[str, Any] = {}
        if self.listener:
            self.listener("start", name, 0.0)
        t = time.perf_counter()
        yield data
        s = time.perf_counter() - t
        self.add("stage", name, s, **data)
        if self.listener:
            self.listener("end", name, s)
