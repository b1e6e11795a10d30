"""What the pipes of a core do over time: works and the stalls between them, each with its cause. Times are the cost model's figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST_BARS = 500  # of a kernel's picture; sums count all


@dataclass(frozen=True)
class Bar:
    """A lane is busy with `what` from `start` to `end` (seconds), or waits so long (`stall`) and `what` says for what."""

    lane: str
    start: float
    end: float
    what: str
    stall: bool = False


@dataclass(frozen=True)
class Picture:
    """One launch of a kernel.

    bars, cut   the first bars, in the order of their beginning, and how many are not among them
    busy        seconds of each lane; stalls: seconds of each lane and cause
    note        what the picture is of
    conflicts   clocks that vector instructions waited for banks
    """

    kernel: str
    seconds: float
    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    cut: int
    busy: tuple[tuple[str, float], ...]
    stalls: tuple[tuple[str, str, float], ...]
    note: str
    conflicts: int = 0


def picture(kernel: str, lanes: Iterable[str], bars: list[Bar], note: str, conflicts: int = 0) -> Picture:
    """The picture of all bars of a launch."""
    order = tuple(lanes)
    busy = dict.fromkeys(order, 0.0)
    stalls: dict[tuple[str, str], float] = {}
    for b in bars:
        if b.stall:
            stalls[b.lane, b.what] = stalls.get((b.lane, b.what), 0.0) + b.end - b.start
        else:
            busy[b.lane] += b.end - b.start
    first = sorted(bars, key=lambda b: (b.start, b.end))[:MOST_BARS]
    waits = sorted(((lane, cause, s) for (lane, cause), s in stalls.items()), key=lambda x: (order.index(x[0]), -x[2], x[1]))
    return Picture(kernel, max((b.end for b in bars), default=0.0), order, tuple(first), len(bars) - len(first), tuple(busy.items()),
                   tuple(waits), note, conflicts)  # fmt: skip
