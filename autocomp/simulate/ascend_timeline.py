"""The pipes of an NPU's first group of cores over time: what the model saw them do, in order, each work as long as the chip's file says.

A work begins when its pipe is free and what the pipe was told to wait for has happened: a flag is set when all that its pipe began before
is done. The cores that a launch uses share main memory, for what is read the first time, and L2 evenly; what other groups do is not in the
picture.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from math import inf

from autocomp.cost.chip import Chip
from autocomp.cost.pipes import memory_seconds, repeat_clocks
from autocomp.cost.roofline import memory_time
from autocomp.simulate.ascend_model import BARRIER, CROSS_SET, CROSS_WAIT, SET, WAIT, WORK, Event
from autocomp.simulate.timeline import Bar, Picture, picture
from autocomp.targets.ascend.api import rows

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")


@dataclass
class _Pipe:
    free: float = 0.0  # when the next work may follow
    done: float = 0.0  # when all its results are there
    last: str = ""  # its last work
    ready: float = 0.0  # before this time it waits
    cause: str = ""


@dataclass
class _Core:
    name: str
    events: list[Event]
    cube: bool
    at: int = 0
    pipes: dict[int, _Pipe] = field(default_factory=lambda: defaultdict(_Pipe))


def timeline(kernel: str, events: list[list[Event]], chip: Chip, cores: int, matrix: str, moved: tuple[float, float],
             bypass: bool = False) -> Picture:  # fmt: skip
    """The picture of a launch on `cores` cores, or groups of one and two; `matrix`: the type of products' factors; `moved`: bytes of all
    inputs and outputs; `bypass`: the inputs pass L2 by."""
    positions = list(rows()["enumerations"]["TPosition"]["members"])
    all_ = [_Core(n, e, any(x.pipe in (2, 6) for x in e)) for n, e in zip(_names(events), events)]
    flags: dict[tuple[str, int], deque[tuple[float, str]]] = defaultdict(deque)
    bars: list[Bar] = []
    groups = max(1.0, cores / chip.limits["vector_cores"] if len(all_) == 1 and not all_[0].cube else cores)
    copied = sum(e.far for c in all_ for e in c.events if e.kind == WORK and PIPES[e.pipe] == "MTE2") * cores
    read, written = moved
    memory, seconds = memory_time(read + written, chip, chip.cores)  # as `cost.engines` does
    seconds = memory_seconds(read, written, chip, bypass) if memory == chip.memories[0].name else seconds * read / max(1.0, read + written)
    first_time = read / seconds * max(1.0, copied / read) if read else inf
    l2 = chip.memory("l2").bandwidth
    prices = _Prices(chip, min(l2, first_time) / groups, l2 / groups, matrix, positions)
    going = True
    while going:
        going = False
        for c in all_:
            while c.at < len(c.events) and _step(c, c.events[c.at], flags, prices, bars):
                c.at += 1
                going = True
    lanes = [f"{c.name} {PIPES[p]}" for c in all_ for p in _shown(c)]
    conflicts = sum(e.conflicts for c in all_ for e in c.events)
    of = "groups of cores" if len(all_) > 1 else "cores"
    return picture(kernel, lanes, bars, f"the first of {cores} {of}, as the model ran it", conflicts)


def _names(events: list[list[Event]]) -> list[str]:
    if len(events) == 1:
        return ["core"]
    return ["cube", *(f"vector {i}" for i in range(len(events) - 1))]


def _shown(c: _Core) -> list[int]:
    """Pipes of a core with works, in the order in which tiles pass them."""
    used = {e.pipe for e in c.events if e.kind == WORK}
    return [p for p in (4, 3, 2, 1, 0, 6, 5) if p in used]


@dataclass(frozen=True)
class _Prices:
    """Seconds of works. read, write: bytes/s that a group of cores has of what all share."""

    chip: Chip
    read: float
    write: float
    matrix: str
    positions: list[str]

    def of(self, e: Event, cube: bool) -> tuple[float, float]:
        """Seconds that a work keeps its pipe, and seconds from there until its results are there."""
        chip, lim = self.chip, self.chip.limits
        clock = chip.clock
        rate = lambda memory: chip.memory(memory).bandwidth / chip.cores
        vectors = chip.cores * lim["vector_cores"]
        pipe = PIPES[e.pipe]
        if pipe == "MTE2" and cube:
            rows = e.runs * lim["l1_row"] + e.split * lim["l1_block"]
            return lim["l1_start"] + rows + e.far / min(rate("l1"), self.read), 0.0
        if pipe in ("MTE2", "MTE3"):
            mine, shared = (lim["ub_in"], self.read) if pipe == "MTE2" else (lim["ub_out"], self.write)
            late = lim["ub_start"] - lim["ub_issue"] if pipe == "MTE2" else 0.0
            return lim["ub_issue"] + e.far / min(mine / vectors, shared / lim["vector_cores"]), late
        if pipe == "MTE1":
            to = self.positions[e.place] if e.place >= 0 else "B2"
            return lim["feed"] / 2 + e.near / rate("l0a" if to == "A2" else "l0b"), 0.0
        if pipe == "M":
            return lim["product"] + 2.0 * e.amount / (chip.matrix_rate(self.matrix) / chip.cores), 0.0
        if pipe == "FIX":
            return lim["drain"] + e.near / rate("l0c"), 0.0
        if pipe == "V":
            repeats = e.amount or -(-e.near // int(chip.vector_bytes))
            return lim["vector_start"] + (repeats * repeat_clocks(e.name.decode(), chip) + e.conflicts) / clock, 0.0
        return chip.numbers["scalar_write"] / clock, 0.0


def _step(c: _Core, e: Event, flags: dict[tuple[str, int], deque[tuple[float, str]]], prices: _Prices, bars: list[Bar]) -> bool:
    """One event; False where it waits for what nobody has done yet."""
    p = c.pipes[e.pipe]
    lane = f"{c.name} {PIPES[e.pipe]}" if e.pipe < len(PIPES) else ""
    lim = prices.chip.limits
    if e.kind == WORK:
        start = max(p.free, p.ready)
        if start > p.free:
            bars.append(Bar(lane, p.free, start, p.cause, stall=True))
        kept, late = prices.of(e, c.cube)
        name = e.name.decode()
        bars.append(Bar(lane, start, start + kept, _said(name, e)))
        p.free, p.done, p.last = start + kept, max(p.done, start + kept + late), f"{PIPES[e.pipe]} ({name})"
    elif e.kind == BARRIER:
        _wait(p, p.done, f"its own results: {p.last}")
    elif e.kind in (SET, CROSS_SET):
        key = ("", e.key) if e.kind == CROSS_SET else (c.name, e.key)
        flags[key].append((max(p.done, p.ready), f"{c.name + ' ' if e.kind == CROSS_SET else ''}{p.last or PIPES[e.pipe]}"))
    elif e.kind in (WAIT, CROSS_WAIT):
        key = ("", e.key) if e.kind == CROSS_WAIT else (c.name, e.key)
        if not flags[key]:
            return False
        time, cause = flags[key].popleft()
        crosses = e.kind == CROSS_WAIT
        for q in (range(len(PIPES)) if crosses else (e.pipe,)):
            _wait(c.pipes[q], time + (lim["handover"] if crosses and time else lim["flag"] if time else 0.0), cause)
    return True


def _wait(p: _Pipe, until: float, cause: str) -> None:
    if until > max(p.ready, p.free):
        p.ready, p.cause = until, cause


def _said(name: str, e: Event) -> str:
    if e.far:
        return f"{name}: {e.far} bytes in {e.runs} runs" + (f" and {e.split} blocks of others" if e.split else "")
    if PIPES[e.pipe] == "M":
        return f"{name}: {e.amount} multiply-adds"
    repeats = e.amount or -(-e.near // 256)
    more = f", {e.conflicts} clocks wait for banks" if e.conflicts else ""
    return f"{name}: {repeats} repeats{more}" if PIPES[e.pipe] == "V" else f"{name}: {e.near} bytes"
