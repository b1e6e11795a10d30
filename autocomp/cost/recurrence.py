"""Time of a recurrence under a schedule, and the choice among those that the rules make.

    untiled  every step streams the whole state from the level that holds it
    tiled    a tile is advanced bt steps where it is near; the far level sees one pass over the state for each bt steps
    turned   loops outside of time: what is inside of them is advanced all steps where it is near, and cores meet once
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from autocomp.cost.chip import Chip
from autocomp.cost.work import Cost
from autocomp.ir.body import Map, postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.scalar import SCALAR
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import show
from autocomp.ir.types import dim_hint
from autocomp.loops.recurrences import band_of, require_recurrence
from autocomp.loops.schedules import ring_of
from autocomp.loops.search import outside_of_time, recurrence_schedules
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Env, asks_isl, holds
from autocomp.trace import Trace


def recurrence_time(kernel: Kernel, schedule: Schedule, chip: Chip) -> Cost:
    """Seconds and what binds: a memory level by name, the vector unit, or launch (joining the cores after each step)."""
    rec = require_recurrence(kernel)
    band = band_of(rec)
    steps, shape = dim_hint(rec.time.extent), [dim_hint(a.extent) for a in rec.axes]
    planes = ring_of(kernel, schedule) or steps + 1
    state = prod(shape) * rec.dtype.bytes
    outside = outside_of_time(schedule.skew)
    size = dict(schedule.tile)
    pieces = prod(shape[k - 1] for k in outside) if outside else chip.cores
    cores = min(chip.cores, pieces) if schedule.parallel else 1
    bt = steps if outside else size.get(band[0], 1)
    inside = [(a, n) for k, (a, n) in enumerate(zip(band[1:], shape, strict=True), 1) if k not in outside]
    tile = prod(min(size[a] + bt, n) if a in size else n for a, n in inside) * rec.dtype.bytes
    parts: list[tuple[str, float]] = []
    if bt > 1:
        level, rate = _level(planes * tile * cores, chip, cores)
        parts.append((level, 2.0 * state * steps * rate))
        level, rate = _level(planes * state, chip, cores)
        parts.append((level, 2.0 * state * -(-steps // bt) * rate))
    else:
        level, rate = _level(min(planes, 2) * state, chip, cores)
        parts.append((level, 2.0 * state * steps * rate))
    flops = sum(SCALAR[e.fn].flops for e in postorder(rec.step) if isinstance(e, Map))
    parts.append(("vector unit", flops * prod(shape) * steps / (chip.vector["f32"] * cores / chip.cores)))
    waves = 1 if outside else -(-steps // bt) + (-(-shape[0] // size[band[1]]) if band[1] in size else 0) if bt > 1 else steps
    parts.append(("launch", chip.launch * (waves if cores > 1 else 1)))
    top = max(parts, key=lambda p: p[1])
    return Cost(top[1] + chip.numbers["overlap"] * (sum(s for _, s in parts) - top[1]), top[0], tuple(parts))


def _level(size: float, chip: Chip, cores: int) -> tuple[str, float]:
    """(name, seconds a byte) of the nearest level that holds `size` bytes."""
    for limit, name, every, one in chip.levels:
        if size <= limit:
            return name, every if cores > 1 else one
    _, name, every, one = chip.levels[-1]
    return name, every if cores > 1 else one


def choose_recurrence(kernel: Kernel, rules: Iterable[Rule], chip: Chip, trace: Trace | None = None,
                      functions: Mapping[str, Any] | None = None) -> tuple[Schedule, Cost]:  # fmt: skip
    """The fastest legal schedule that the rules make; a refusal to tile is recorded with its two iterations, a condition that fails
    with its values. `functions`: what conditions may ask; isl is asked about every schedule, so `legal` need not be."""

    def why_not(rule: Rule, values: Mapping[str, Any]) -> str:
        return holds(tuple(c for c in rule.where if not asks_isl(c)), Env(values, functions or {})).reason

    refused: Counter[tuple[str, str]] = Counter()
    options, found = recurrence_schedules(kernel, rules, why_not, refused)
    if trace is not None:
        for (rule, why), n in sorted(refused.items()):
            trace.add("reject", rule, phase="tiling", kernel=kernel.name, reason=why, count=n)
        if found is not None and found.refused is not None:
            trace.add("reject", "tiling/recurrence", kernel=kernel.name, why=str(found.refused))
        if found is not None and found.matrix:
            trace.add("schedule", f"{kernel.name}: {' then '.join(found.moves)}", kernel=kernel.name,
                      matrix=[list(r) for r in found.matrix])
    priced = [(recurrence_time(kernel, s, chip), s) for s in options if chip.cores > 1 or not s.parallel]
    cost, best = min(priced, key=lambda x: (x[0].seconds, str(x[1])))
    if trace is not None:
        best_of: dict[str, tuple[Cost, Schedule]] = {}
        for c, s in sorted(priced, key=lambda x: (x[0].seconds, str(x[1]))):
            best_of.setdefault(options[s], (c, s))
        count = Counter(options.values())
        made = {r: {"schedules": count[r], "best": f"{show(s)}: {c.seconds * 1e6:.1f} us, {c.bound}"} for r, (c, s) in best_of.items() if r}
        trace.add("schedule", kernel.name, signature=kernel.signature, candidates=len(priced), rule=options[best], seconds=cost.seconds,
                  bound=cost.bound, runners_up=[], made=made)
    return best, cost
