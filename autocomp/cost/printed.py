"""The time of what is printed: the busiest pipe, the life of a block, memory.

    time = launch + (busiest ** 4 + lives ** 4 + memory ** 4) ** (1 / 4)

busiest  clocks that all blocks of a core take of its fullest pipe
lives    rounds of blocks that a core holds at once, times the clocks of one block, whose warps wait or keep a pipe busy in each phase
memory   bytes, those that blocks read once more where the caches cannot hold them meanwhile among them

All numbers are the chip's (`rates`), in clocks, bytes and ratios; one that its file does not give has a default made of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from autocomp.cost.chip import Chip
from autocomp.cost.issue import Issued, Phase
from autocomp.cost.work import Cost

NORM = 4  # the power in which what binds adds up with what does not
# Times a price within which two models agree: 19 tuned kernels of benchmarks/gpu.py are 0.65 to 1.6 times as long as counted on an H200,
# 24 of functions that nobody had tuned for up to 30 times as long as priced without counting; 2026-11-22
AGREE = 1.5
STEP = 8  # registers of a thread are given in such steps (CUDA C++ programming guide; inferred for others)


@dataclass(frozen=True)
class Rates:
    """What one core does in a clock, and clocks that results take. Warp instructions in a clock: `issue` of all kinds, `fma`, `multiply`
    (integers, addresses), `integer` (add, compare, select), `special` (and conversions), `branch`, `memory`; `matrix`: operations in a
    clock; `fill`: bytes that come from L2. Clocks: `far` and `near` of a load that L2 or the core's own cache answers, `dram` that neither
    does, then of the other kinds of `issue.WAITS`."""

    issue: float
    fma: float
    multiply: float
    integer: float
    special: float
    branch: float
    memory: float
    fill: float
    cache: float
    dram: float
    far: float
    near: float
    shared: float
    special_wait: float
    arithmetic: float
    exchange: float
    barrier: float
    branch_wait: float


def rates(chip: Chip) -> Rates:
    """A chip's numbers. Missing ones: a core issues for each 32 lanes of its multiply-adds; integers and addresses have half the rate of
    multiply-adds; a core's cache is its shared memory and answers in 1/16 of main memory's time, L2 in 1/4."""
    get, clocks = chip.limits.get, chip.latency * chip.clock
    core = lambda rate: rate / (chip.cores * chip.clock)
    wave = chip.lanes(4)
    fma = core(chip.vector["f32"]) / wave
    shared = chip.memory("shared")
    bytes_ = core(shared.bandwidth)
    arithmetic = get("arithmetic_clocks", clocks / 256)
    return Rates(
        issue=get("issue", max(1.0, round(fma))),
        fma=fma,
        multiply=get("integer_multiply", fma / 2),
        integer=get("integer", fma / 2),
        special=core(chip.special) / wave,
        branch=get("branches", fma / 2),
        memory=max(1.0, round(bytes_ / (4 * wave))),
        fill=core(chip.memory("l2").bandwidth),
        cache=get("core_cache", shared.capacity),
        dram=clocks,
        far=get("l2_clocks", clocks / 4),
        near=get("cache_clocks", clocks / 32),
        shared=get("shared_clocks", clocks / 32),
        special_wait=get("special_clocks", 4 * arithmetic),
        arithmetic=arithmetic,
        exchange=get("exchange_clocks", clocks / 32),
        barrier=get("barrier_clocks", clocks / 32),
        branch_wait=get("branch_clocks", 2 * arithmetic),
    )  # fmt: skip


def resident(w: Issued, chip: Chip) -> int:
    """Blocks that a core holds at once, by their threads, registers and shared memory."""
    room, reserved = chip.shared_of_core
    registers = -(-int(w.registers) // STEP) * STEP
    by = [chip.limits.get("resident_threads", 2 * chip.limits["threads"]) / w.threads, chip.registers.count / (registers * w.threads),
          chip.limits.get("resident_blocks", 32), room / (w.shared + reserved) if w.shared else 1e9]  # fmt: skip
    return max(1, int(min(by)))


def time(w: Issued, chip: Chip) -> Cost:
    """Seconds of one launch and what binds: a pipe by its name, "latency", or the main memory's name."""
    r = rates(chip)
    at_once = resident(w, chip)
    waves = w.blocks / (chip.cores * at_once)
    each = ceil(w.blocks / chip.cores) if waves <= 1 else w.blocks / chip.cores  # blocks of a core
    rounds = 1.0 if waves <= 1 else float(ceil(waves)) if waves < NORM or at_once == 1 else waves + 0.5
    far = _load(w, chip, r, at_once)
    phases = _pipes(w, chip, r)
    pipes = {name: sum(p.turns * x for p, x in zip(w.phases, xs)) for name, xs in phases.items()}
    pipes["cache fill"] = (min(w.asked, max(w.fetched, w.asked if w.fetched * at_once > r.cache else 0.0)) + w.stored) / r.fill
    lives = sum(p.turns * _clocks(p, {n: xs[i] for n, xs in phases.items()}, far, r) for i, p in enumerate(w.phases))
    # what a block reads once more comes from memory where the blocks that live at once have more than L2 holds
    twice = w.again * w.blocks if w.again and w.fetched * min(w.blocks, chip.cores * at_once) > chip.memory("l2").capacity else 0.0
    main = chip.memories[0]
    terms = {n: x * each / chip.clock for n, x in pipes.items()}
    fullest = max(terms, key=lambda n: terms[n])
    known = {fullest: terms[fullest], "latency": lives * rounds / chip.clock, main.name: (w.read + w.written + twice) / main.bandwidth}
    seconds = sum(x**NORM for x in known.values()) ** (1 / NORM) + chip.launch
    bound = max(known, key=lambda n: known[n])
    return Cost(seconds, bound, (*known.items(), *((n, x) for n, x in terms.items() if n != fullest), ("launch", chip.launch)))


def the_higher(cost: Cost, w: Issued, chip: Chip, behind: float = 0.0, agree: float = AGREE) -> Cost:
    """The price of a kernel whose schedule was priced at `cost`, `behind` seconds of it for what follows, once it is counted. Where both
    agree within a factor, `cost` stands: it was compared with more measured schedules of one kernel. Else the higher one: what is
    missed is missed because it was not seen."""
    by_count = time(w, chip)
    if by_count.seconds + behind <= agree * cost.seconds:
        return cost
    return Cost(by_count.seconds + behind, by_count.bound, (*by_count.parts, *((("combination", behind),) if behind else ())))


def _pipes(w: Issued, chip: Chip, r: Rates) -> dict[str, list[float]]:
    """Clocks that a block takes of each pipe of its core, by phase. Integer multiplications go through the multiply-adds' pipe too."""
    rate = {"fma": r.fma, "integer multiply": r.multiply, "integer": r.integer, "special": r.special, "branch": r.branch}
    out = {n: [p.issued.get(n, 0.0) / x for p in w.phases] for n, x in rate.items()}
    out["fma"] = [(p.issued.get("fma", 0.0) + p.issued.get("integer multiply", 0.0)) / r.fma for p in w.phases]
    out["issue"] = [sum(p.issued.values()) / r.issue for p in w.phases]
    out["load and store"] = [p.slots / r.memory for p in w.phases]
    if w.matrix_dtype:
        matrix = chip.matrix_rate(w.matrix_dtype) * chip.limits.get("warp_matrix", 1.0) / (chip.cores * chip.clock)
        out["matrix unit"] = [p.matrix / matrix for p in w.phases]
    return out


def _load(w: Issued, chip: Chip, r: Rates, at_once: int) -> float:
    """Clocks that a load takes in the mean: what is distinct comes from L2, of it the part that nobody read before from main memory."""
    brought = w.fetched * w.blocks
    new = min(1.0, w.read / brought) if brought else 1.0
    far = new * r.dram + (1 - new) * r.far
    fresh = min(1.0, w.fetched / w.asked) if w.asked and w.fetched * at_once <= r.cache else 1.0
    return fresh * far + (1 - fresh) * r.near


def _clocks(p: Phase, pipes: dict[str, float], load: float, r: Rates) -> float:
    """Clocks of one turn of a phase: what a warp waits for, and what all warps of the block, which run in step, take of a pipe."""
    each = {"load": load, "shared": r.shared, "special": r.special_wait, "arithmetic": r.arithmetic, "exchange": r.exchange,
            "barrier": r.barrier, "branch": r.branch_wait}  # fmt: skip
    return sum(n * each[kind] for kind, n in p.waits.items()) + max(pipes.values(), default=0.0)
