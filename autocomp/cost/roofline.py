"""The roofline: a kernel's time is the time of the resource that binds it.

time = max(units) + 0.1 * (sum of the others) + launch. The tenth is what overlapping leaves over: with a pure maximum
recomputation hides behind memory traffic and looks free. Source of the bound: Williams, Waterman, Patterson, Roofline, 2009.
"""

from __future__ import annotations

from collections.abc import Callable

from autocomp.cost.chip import Chip
from autocomp.cost.derived import constant
from autocomp.cost.lanes import by_lanes
from autocomp.cost.work import Cost, Work

WAVE_ROWS = constant("warp_rows")
PARTIAL, EVICTED = constant("partial_sectors"), constant("evicted_sectors")


def time_of(work: Work, chip: Chip) -> Cost:
    """Seconds and the binding resource of `work` on the whole chip."""
    return timer(work, chip)(work.matrix, work.matrix_eff)


def timer(work: Work, chip: Chip) -> Callable[[float, float], Cost]:
    """As `time_of`, for many amounts of matrix operations and shares of their unit's rate.

    Too few tiles leave cores idle (wave quantisation): with t tiles on c cores the arithmetic takes ceil(t/c) rounds.
    """
    idle = 1.0
    if work.tiles:
        rounds = -(-work.tiles // chip.cores)
        idle = rounds * chip.cores / work.tiles
    moved = work.read / work.read_eff + work.written
    memory = [memory_time(moved, chip, 1 if work.tiles == 1 else chip.cores, work.stays)] if moved else []
    rate, fill = (chip.matrix_rate(work.matrix_dtype), _fill(work, chip)) if work.matrix else (1.0, 1.0)
    others: list[tuple[str, float]] = []
    if work.vector:
        others.append(("vector unit", work.vector / chip.vector["f32"] * idle))
    if work.special:
        others.append(("special functions", work.special / chip.special * idle))
    if work.copies:
        others.append(("narrow copies", work.copies / chip.numbers["copies"] * idle))

    def at(matrix: float, share: float) -> Cost:
        parts = [*memory, ("matrix unit", matrix / (rate * share * fill) * idle), *others] if matrix else memory + others
        return _bound(_shared(parts) if "shared_units" in chip.features else parts, chip)

    return at


def rewritten(parts: float, written: float, chip: Chip) -> float:
    """Bytes that memory moves for `parts` bytes of sectors which blocks write in part, others the rest, among `written` bytes: those are
    read before; of what the last cache does not hold until both are there memory makes one again for each."""
    return parts * (PARTIAL + EVICTED * evicted(written, chip))


def evicted(written: float, chip: Chip) -> float:
    """Share of `written` bytes that the last cache does not hold."""
    return max(0.0, 1 - chip.memory("l2").capacity / written) if written else 0.0


def _bound(parts: list[tuple[str, float]], chip: Chip) -> Cost:
    """The cost of units that work side by side."""
    if not parts:
        return Cost(chip.launch, "launch", (("launch", chip.launch),))
    top = max(parts, key=lambda p: p[1])
    seconds = top[1] + chip.numbers["overlap"] * (sum(p[1] for p in parts) - top[1]) + chip.launch
    bound = top[0] if top[1] >= chip.launch else "launch"
    return Cost(seconds, bound, (*parts, ("launch", chip.launch)))


def _shared(parts: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """On a CPU products, maps and polynomials run on the same ports: their times add up, named after the largest."""
    units = [p for p in parts if p[0] in ("matrix unit", "vector unit", "special functions")]
    if len(units) < 2:
        return parts
    name = max(units, key=lambda p: p[1])[0]
    return [*(p for p in parts if p not in units), (name, sum(p[1] for p in units))]


def memory_time(moved: float, chip: Chip, cores: int, stays: float = 0.0) -> tuple[str, float]:
    """(level, seconds) of moving bytes: from the nearest cache that still holds tensors of that size (`stays` where that is less than
    what moves), else main memory."""
    for limit, name, all_cores, one_core in chip.levels:
        if (stays or moved) <= limit:
            return name, moved * (one_core if cores == 1 else all_cores)
    limit, name, all_cores, one_core = chip.levels[-1]
    return name, moved * all_cores


def _fill(work: Work, chip: Chip) -> float:
    """Share of the unit's granules that the contraction's rows, columns and depth fill; lanes that multiply have none, but fewer rows
    than a wave has fill no tile of theirs (1 x 143744 x 1024 of f32: 1174 us as a product, 155 as a sum; H200, 2026-11-28)."""
    if chip.runs_blocks and by_lanes(chip, work.matrix_dtype) and (not work.m or work.m >= WAVE_ROWS):
        return 1.0
    fill = 1.0
    for extent, grain in zip((work.m, work.n, work.k), chip.granule):
        if extent:
            fill *= extent / (-(-extent // grain) * grain)
    return fill
