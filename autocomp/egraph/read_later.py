"""Tensors that a later kernel of the program reads stay in the last cache: the one before reads them as usual (directive `evict_first`).

A schedule is chosen for a kernel, whose price knows no other; which kernels read a tensor only the whole program says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autocomp.cost.chip import Chip
from autocomp.cost.work import Cost
from autocomp.ir.kernel import Call, KernelGraph
from autocomp.ir.schedule import Schedule
from autocomp.trace import Trace

DIRECTIVE = "evict_first"


def kept(calls: KernelGraph, schedules: Mapping[str, tuple[Schedule, Cost]], chip: Chip, trace: Trace) -> dict[str, tuple[Schedule, Cost]]:
    """`schedules` by signature without the directive where a call has an operand, large enough to bear it (bytes: the chip's
    `streams_from`), that is read by a later call, or by the next step of its loop. The trace says of the directive that it is not used."""
    out, last = dict(schedules), {t: i for i, c in enumerate(calls.calls) for t in _read(c)}
    for i, c in enumerate(calls.calls):
        schedule, cost = out.get(c.kernel.signature, (None, None))
        if schedule is None or cost is None or DIRECTIVE not in schedule.directives:
            continue
        large = [t for t in _read(c) if calls.tensors[t].bytes >= chip.limits.get("streams_from", 1)]
        if any(last[t] > i or (c.loop and t not in calls.places(c)) for t in large):
            out[c.kernel.signature] = replace(schedule, directives=tuple(d for d in schedule.directives if d != DIRECTIVE)), cost
            for e in trace.of("directive"):
                if e.data["signature"] == c.kernel.signature and e.data["directive"] == DIRECTIVE:
                    e.data["used"] = False
    return out


def _read(c: Call) -> list[str]:
    """Tensors of the program that a call reads."""
    return [c.args[a.name] for a in c.kernel.inputs if a.name in c.args]
