"""Queues of a plan -> flags: events between the pipes of a core, cross-core flags between cube and vector cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from autocomp.targets.ascend.tables import table

from autocomp.cost.chip import Chip
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.tile.agents import (
    Again,
    Body,
    Once,
    Parts,
    Queue,
    Signal,
    Skewed,
    Span,
    accesses,
    find_queues,
    merged,
    with_signals,
)
from autocomp.tile.check_pipes import problems, waits_before_sets
from autocomp.tile.plan import Barrier
from autocomp.tile.synchronise import synchronise


@dataclass(frozen=True)
class Line:
    """A signal's text, with the agent it concerns."""

    agent: str
    text: str


def counter(loop: str) -> str:
    """The variable that counts a loop's rounds, over all its runs."""
    return "round" if loop == "tile" else f"{loop}_round"


def plan(parts: Parts, depth: dict[str, int], chip: Chip, lies: Mapping[str, Span]) -> tuple[dict[str, tuple[object, ...]], list[str]]:
    """The parts with flags and barriers, and a line of comment for each queue. `lies`: where buffers lie. Raises as `ordered` does."""
    full, queues = ordered(parts, depth, lies)
    ids, notes = number(queues, chip)
    return {name: text(body, ids) for name, body in full.items()}, notes


def ordered(parts: Parts, depth: dict[str, int], lies: Mapping[str, Span]) -> tuple[dict[str, Body], list[Queue]]:
    """The parts with signals and barriers, and their queues, of which those of the same two agents become one where the checker agrees.

    Raises UnsupportedOp if the checker finds fault with the result: another schedule is taken then, as for blocks that hold more than
    their rings have slots.
    """
    uses = accesses(parts)
    full = lambda queues: with_barriers_in(with_signals(parts, queues, uses))
    right: dict[tuple[Queue, ...], dict[str, Body]] = {}

    def fine(tried: list[Queue]) -> bool:
        if found := not faults(made := full(tried), depth, lies):
            right[tuple(tried)] = made
        return found

    @cache
    def alone(one: Queue) -> bool:
        return not waits_before_sets(with_signals(parts, [one], uses))

    # most are refused for the order of issue of the one queue, which takes no run of all of them; what is left is nearly always right
    queues = merged(found := find_queues(parts, depth), lambda tried: True, alone)
    if not fine(queues):
        queues = merged(found, fine, alone)
    made = right.get(tuple(queues)) or full(queues)
    if tuple(queues) not in right and (wrong := faults(made, depth, lies)):
        raise UnsupportedOp(f"the plan of signals is wrong: {wrong[0]}", where="target ascend")
    return made, queues


def faults(full: Parts, depth: dict[str, int], lies: Mapping[str, Span]) -> list[str]:
    """What is wrong with parts that have their signals."""
    return problems(full, depth, lies=lies) or waits_before_sets(full)


def with_barriers_in(parts: Parts) -> dict[str, Body]:
    """The programs in which each pipe ends its earlier works where a later one needs it."""
    out = dict(parts)
    for pipe in sorted(table()["barriers"]):
        out = {name: synchronise(body, pipe) for name, body in out.items()}
    return out


def number(queues: list[Queue], chip: Chip) -> tuple[dict[tuple[Queue, str], int], list[str]]:
    """First flag of each queue and direction. Raises DoesNotFit where the ids of an ordered pair run out."""
    used: dict[tuple[str, str], int] = {}
    ids, notes = {}, []
    for q in queues:
        for what, a, b in (("full", q.writer, q.reader), ("empty", q.reader, q.writer)):
            if what == "empty" and not q.loop:
                continue
            crosses = core(a) != core(b)
            pair, limit = (("cross", ""), "cross_flags") if crosses else ((a, b), "events")
            ids[q, what] = used.get(pair, 0)
            used[pair] = ids[q, what] + q.depth
            if used[pair] > chip.limits[limit]:
                raise DoesNotFit(f"{limit} of {a} -> {b}", needed=used[pair], available=chip.limits[limit], hint="use fewer stages")
        notes.append(f"queue {q.writer} -> {q.reader} [{', '.join(q.buffers)}] each {q.loop or 'kernel'}, {q.depth} slots")
    return ids, notes


def core(agent: str) -> str:
    return agent.split(".", maxsplit=1)[0]


def pipe(agent: str) -> str:
    return agent.split(".")[1]


def text(body: Body, ids: dict[tuple[Queue, str], int]) -> tuple[object, ...]:
    """Signals and barriers as lines."""
    out: list[object] = []
    for n in body:
        if isinstance(n, (Again, Skewed, Once)):
            out.append(replace(n, body=text(n.body, ids)))  # type: ignore[arg-type]
        elif isinstance(n, Barrier):
            out.append(Line(n.agents, f"PipeBarrier<PIPE_{pipe(n.agents)}>();"))
        elif isinstance(n, Signal):
            out.append(Line(n.agent, spelled(n, ids[n.queue, n.what])))
        else:
            out.append(n)
    return tuple(out)


def spelled(s: Signal, first: int) -> str:
    """One set or wait."""
    q = s.queue
    a, b = (q.writer, q.reader) if s.what == "full" else (q.reader, q.writer)
    if s.slot is not None or q.depth == 1:
        at = str(first + (s.slot or 0))
    else:
        at = f"{first} + {counter(q.loop)} % {q.depth}" if first else f"{counter(q.loop)} % {q.depth}"
    if core(a) != core(b):
        return f"CrossCoreSetFlag<2, PIPE_{pipe(a)}>({at});" if s.do == "set" else f"CrossCoreWaitFlag({at});"
    return f"{'SetFlag' if s.do == 'set' else 'WaitFlag'}<HardEvent::{pipe(a)}_{pipe(b)}>({at});"


def printed(body: tuple[object, ...]) -> list[str]:
    """Lines of a part."""
    lines: list[str] = []
    for n in body:
        if isinstance(n, Once):
            lines += [f"if ({'first' if n.first else 'last'}) {{", *("  " + x for x in printed(n.body)), "}"]  # type: ignore[arg-type]
        elif isinstance(n, (Again, Skewed)):
            lines += [*n.head, *("  " + x for x in printed(n.body)), *n.foot]
        elif isinstance(n, Line):
            lines.append(n.text)
        else:
            lines += n.lines  # type: ignore[attr-defined]
    return lines
