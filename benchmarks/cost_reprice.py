"""Prices of today beside times that `benchmarks/cost_rank.py` measured before: `python -m benchmarks.cost_rank --reprice FILE`.

Each kernel is made again from its program. Its choice is the one that is made among the schedules that were measured, as no other has a
time; the fastest of them is the best one. Where the printed code has changed since, times are those of the code before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autocomp.targets import Target, load_target

from autocomp import pipeline
from autocomp.cost.chip import Chip, chip_names, shipped
from autocomp.cost.demand import demand_of
from autocomp.egraph.choose import choose_schedule
from autocomp.egraph.parts import merged
from autocomp.errors import AutocompError
from autocomp.ir.kernel import Kernel
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse
from autocomp.loops.recurrences import recurrence_of
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from autocomp.tune.space import Point
from benchmarks.cost_draw import predictions
from benchmarks.cost_kernels import drawn

CHOICE = {"choice": "schedule", "predicted": "predicted", "bound": "bound"}  # of a kernel's record, by fields of a schedule's
COUNT = 5  # kernels of a family that are drawn at most


def target_of(title: str) -> Target:
    """The target whose chip has a title, as files of measurements name it."""
    chip = next(c for c in map(shipped, chip_names()) if c.title == title)
    return load_target(f"{chip.target}:{chip.name}")


def repriced(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The records of a file with the prices of this tree."""
    target, rules, options = target_of(found["chip"]), load_rules(), Options(cache=False, tuned=False)
    texts = {(c.family, c.name): c.text for c in drawn(found["seed"], COUNT)}
    for r in found["kernels"]:
        if "error" in r or not r["schedules"]:
            yield dict(r)
            continue
        trace = Trace()
        calls = merged(pipeline.extract(pipeline.import_model(texts[r["family"], r["name"]], trace), target, rules, options, trace)[0])
        schedules = [parse(s["schedule"]) for s in r["schedules"]]
        kernels = [k for k in {c.kernel.signature: c.kernel for c in calls.calls}.values() if not k.opaque and recurrence_of(k) is None]
        kernel = max(kernels, key=lambda k: fitting(k, schedules, target))
        yield one(r, kernel, schedules, target, target.chip)


def fitting(kernel: Kernel, schedules: Sequence[Schedule], target: Target) -> tuple[int, float]:
    """How many of the schedules are of a kernel's axes and printed by a target, and the kernel's work: programs may have several."""
    demand, printed = demand_of(kernel), 0
    work = demand.work
    for s in schedules:
        if not demand.extent.keys() >= {axis for axis, _ in s.tile}:
            continue
        try:
            for k, own in pieces(kernel, s):
                target.admit(k, own)
        except AutocompError:
            continue
        printed += 1
    return printed, work.matrix + work.vector


def one(r: Mapping[str, Any], kernel: Kernel, schedules: Sequence[Schedule], target: Target, chip: Chip) -> dict[str, Any]:
    """A kernel's record with today's prices, choice and seconds of pricing."""
    issued, rules, options = getattr(target, "issued", None), load_rules(), Options(cache=False, tuned=False)
    begun = time.process_time()
    choose_schedule(kernel, rules, chip, options, Trace(), target.admit, issued=issued)
    spent = time.process_time() - begun
    prices = predictions(kernel, chip, [Point(s, 0.0, "") for s in dict.fromkeys(schedules)], issued)
    rows = [row | dict(zip(("predicted", "bound"), prices[s])) for row, s in zip(r["schedules"], schedules, strict=True)]
    choice = rows[schedules.index(next(iter(prices)))]  # the first that is chosen
    best = min(rows, key=lambda x: x["measured"])
    return {**r, "schedules": rows, "pricing": spent, "best": best["schedule"], "best_seconds": best["measured"],
            "choice_seconds": choice["measured"], **{new: choice[old] for new, old in CHOICE.items()}}  # fmt: skip
