"""`optimize(measure=N)`: a short race of each kernel's best schedules by price, before one is chosen."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from autocomp.deadline import current
from autocomp.tune.use import Measured, database_path, measured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autocomp.cost.work import Cost
    from autocomp.ir.kernel import KernelGraph
    from autocomp.ir.schedule import Schedule
    from autocomp.options import Options
    from autocomp.rewrite.rule import RuleSet
    from autocomp.targets import Target
    from autocomp.trace import Trace

SECONDS = 2.0  # for a kernel
BEGUN = 4.0  # until the processes that build and measure have come up


def measured_first(calls: KernelGraph, chosen: Mapping[str, tuple[Schedule, Cost]], target: Target, rules: RuleSet, options: Options,
                   trace: Trace) -> Measured:  # fmt: skip
    """What is known once the `options.measure` best schedules of each kernel were built side by side and raced; the database keeps it.

    chosen: by signature, the schedule that is chosen without measuring, with its price. Takes at most 2 s a kernel, which the compilation's
    deadline does not count. Where the target cannot run here nothing is measured, and the trace says why.
    """
    if why := target.why_not_runnable():
        trace.add("note", "measure", text=f"nothing is measured: target {target.name} cannot run here: {why}")
        return measured(target, rules, options, trace)
    from autocomp.tune.database import Database
    from autocomp.tune.kernel import Limits
    from autocomp.tune.tuner import tune_program

    clock, began = current(), time.monotonic()
    limits = Limits(seconds=BEGUN + SECONDS * len(chosen))
    few = replace(options, search_configurations=options.measure)
    with Database(database_path(options), lambda text: trace.add("note", "tuning database", text=text)) as db:
        results = tune_program(calls, target, rules, few, db, limits, untuned=chosen)
    clock.began += time.monotonic() - began
    if left := [r.name for r in results if r.space and r.note]:  # then the next compilation goes on from there
        clock.ended("measure", f"schedules of {len(left)} kernels that were not raced, the first one {left[0]}: the time is over")
    for r in results:
        trace.add("measured", r.name, tried=r.tried, fresh=r.fresh, untuned_s=r.untuned_seconds, best_s=r.tuned_seconds, text=r.note)
    return measured(target, rules, options, trace)
