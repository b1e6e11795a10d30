"""What a child of `benchmarks/cost_rank.py` does for one program: its kernel, the choice made without measuring, schedules to measure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from autocomp.targets import Target

from autocomp import pipeline
from autocomp.cost.chip import Chip
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import pricer
from autocomp.egraph.choose import COUNTED, Candidate, Counts, choose_schedule, recounted
from autocomp.egraph.parts import merged
from autocomp.errors import AutocompError
from autocomp.ir.kernel import Kernel
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.loops.recurrences import recurrence_of
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.runtime.codec import encode
from autocomp.trace import Trace
from autocomp.tune.space import Point, legal_points

DIRTY = 0.3  # part of a last-level cache whose lines wait to be written once it was overwritten


@dataclass(frozen=True)
class Drawn:
    """A kernel, what is chosen for it, its space, and (number of the point, predicted seconds, bound) of the points that were drawn.
    `pricing`: seconds of the processor from the kernel to its choice."""

    kernel: str
    name: str
    choice: Schedule
    predicted: float
    bound: str
    pricing: float
    points: list[Point]
    sample: list[tuple[int, float, str]]


def draw(text: str, target: Target, threads: int, count: int, seed: str) -> Drawn:
    """In a child: the kernel of a program that takes longest, its choice and `count` schedules of its space with different code."""
    rules, options = load_rules(), Options(cache=False, tuned=False, threads=threads)
    chip = target.chip.with_cores(threads) if threads else target.chip
    trace = Trace()
    calls = merged(pipeline.extract(pipeline.import_model(text, trace), target, rules, options, trace)[0])
    kernels = [k for k in {c.kernel.signature: c.kernel for c in calls.calls}.values() if not k.opaque and recurrence_of(k) is None]
    if not kernels:
        raise AutocompError("no kernel of it has schedules to choose from", where="cost_rank")
    issued, chosen = getattr(target, "issued", None), []
    for k in kernels:
        begun = time.process_time()
        choice, cost = choose_schedule(k, rules, chip, options, Trace(), target.admit, issued=issued)
        chosen.append((cost.seconds, time.process_time() - begun, k, choice, cost))
    _, spent, kernel, choice, cost = max(chosen, key=lambda x: x[0])
    points = legal_points(kernel, rules, chip, options, choice)
    sample = _told_apart(kernel, target, points, choice, count, Random(seed))
    prices = predictions(kernel, chip, [points[i] for i in sample], issued)
    return Drawn(encode(kernel), kernel.name, choice, cost.seconds, cost.bound, spent, points,
                 [(i, *prices[points[i].schedule]) for i in sample])  # fmt: skip


def _told_apart(kernel: Kernel, target: Target, points: Sequence[Point], choice: Schedule, count: int, r: Random) -> list[int]:
    """Numbers of `count` points, evenly drawn, whose texts differ from each other and from the choice's."""

    def text(s: Schedule) -> str:
        return "".join(target.emit(k, s).text.partition("*/")[2] for k, s in pieces(kernel, s))

    seen, taken = {text(choice)}, list[int]()
    for i in r.sample(range(len(points)), len(points)):
        if len(taken) == count:
            break
        try:
            printed = text(points[i].schedule)
        except AutocompError:
            continue
        if printed not in seen:
            seen.add(printed)
            taken.append(i)
    return taken


def predictions(kernel: Kernel, chip: Chip, points: Sequence[Point], issued: Any) -> dict[Schedule, tuple[float, str]]:
    """(seconds, bound) of schedules, those that are counted among them by what is printed, as the choice's, behind a cache that has been
    overwritten as `cost_rank` measures."""
    demand = demand_of(kernel)
    before = written_back(demand.work.read, demand.work.written, chip)
    price = pricer(demand, chip, kernel)
    ranked = sorted(((price(p.schedule), Candidate(p.schedule, p.rule)) for p in points), key=lambda x: x[0].seconds)
    known = recounted(kernel, demand, iter(ranked), chip, issued, Counts(COUNTED)) if issued is not None else ranked
    return {c.schedule: (cost.seconds + before, cost.bound) for cost, c in known}


def written_back(read: float, written: float, chip: Chip) -> float:
    """Seconds in which memory takes the lines that an overwritten last-level cache holds when a kernel begins, as the kernel's own take
    their place. No price has them: among other kernels they are part of what the kernel before wrote. DIRTY of the cache is written
    meanwhile: the best schedules of 60 kernels that move 20 to 240 MB took 2 to 5 us longer than priced on an H200 and an H100, however
    much they read (benchmarks/cost_rank.py, 2026-11-27)."""
    held = next((m.capacity for m in chip.memories if m.name == "l2"), 0.0) if chip.runs_blocks else 0.0
    return float(min(read + written, DIRTY * held)) / chip.memories[0].bandwidth
