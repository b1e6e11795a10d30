"""The time of what is printed: the busiest pipe, the life of a block, memory.

    together = (busiest ** n + lives ** n + memory ** n) ** (1 / n)
    time     = launch + together + apart * max(0, min(min(lives, memory) / beside, lives + memory - together))

busiest  clocks that all blocks of a core take of its fullest pipe, or what L2 brings all cores
lives    rounds of blocks that a core holds at once, times the clocks of one block, whose warps wait or keep a pipe busy in each phase
beside   blocks that share a core: one alone waits, computes and stores while nothing else of its core is under way, but for its own loads
         and stores (`apart`, rounds_apart)
memory   bytes, among them those that blocks read once more where the caches cannot hold them meanwhile, and sectors that two blocks, or
         two warps of one, write in part; a little less where maps have no more loads under way than memory needs

All numbers are the chip's (`rates`), in clocks, bytes and ratios; one that its file does not give has a default made of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

from autocomp.cost.chip import F32, Chip
from autocomp.cost.derived import constant
from autocomp.cost.issue import Issued, Phase
from autocomp.cost.roofline import evicted, rewritten
from autocomp.cost.work import Cost

COUNTED = constant("counted")  # of a price in logarithms: the rest is the model of tiles
BY_SCHEDULER = ("fma", "integer", "special", "branch", "issue", "matrix unit")  # pipes of which each scheduler has its own


@dataclass(frozen=True)
class Rates:
    """What one core does in a clock, and clocks that results take. Warp instructions in a clock: `issue` of all kinds, `fma`, `multiply`
    (integers, addresses), `integer` (add, compare, select), `special` (and conversions), `branch`, `memory`; `matrix`: operations in a
    clock; `fill`: bytes that L2 brings. Clocks: `far` and `near` of a load that L2 or the core's own cache answers, `dram` that neither
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
    """A chip's numbers, derived ones (`cost_models/derived.yaml`) for those that its file leaves out."""
    n, core = chip.numbers, lambda rate: rate / (chip.cores * chip.clock)
    return Rates(
        issue=n["issue"],
        fma=n["fma_rate"],
        multiply=n["integer_multiply"],
        integer=n["integer"],
        special=core(chip.special) / chip.lanes(),
        branch=n["branches"],
        memory=max(1.0, round(core(chip.memory("shared").bandwidth) / (F32 * chip.lanes()))),
        fill=n["core_near"] / chip.clock,
        cache=n["core_cache"],
        dram=chip.latency * chip.clock,
        far=n["l2_clocks"],
        near=n["cache_clocks"],
        shared=n["shared_clocks"],
        special_wait=n["special_clocks"],
        arithmetic=n["arithmetic_clocks"],
        exchange=n["exchange_clocks"],
        barrier=n["barrier_clocks"],
        branch_wait=n["branch_clocks"],
    )  # fmt: skip


def resident(w: Issued, chip: Chip) -> int:
    """Blocks that a core holds at once, by their threads, registers and shared memory."""
    room, reserved = chip.shared_of_core
    n = chip.numbers
    step = int(n["register_step"])
    registers = -(-int(w.registers) // step) * step
    by = [n["resident_threads"] / w.threads, chip.registers.count / (registers * w.threads),
          n["resident_blocks"], room / (w.shared + reserved) if w.shared else inf]  # fmt: skip
    return max(1, int(min(by)))


def time(w: Issued, chip: Chip) -> Cost:
    """Seconds of one launch and what binds: a pipe by its name, "latency", or the main memory's name."""
    of = chip.numbers
    r, norm = rates(chip), of["norm"]
    at_once = resident(w, chip)
    waves = w.blocks / (chip.cores * at_once)
    each = ceil(w.blocks / chip.cores) if waves <= 1 else w.blocks / chip.cores  # blocks of a core
    rounds = 1.0 if waves <= 1 else float(ceil(waves)) if waves < norm or at_once == 1 else waves + of["partial_round"]
    far = _load(w, chip, r, at_once)
    phases = _pipes(w, chip, r)
    pipes = {name: sum(p.turns * x for p, x in zip(w.phases, xs)) for name, xs in phases.items()}
    through = _brought(w, chip, r, at_once) + w.stored
    pipes["cache fill"] = through / r.fill
    pipes["stores"] = w.lines * of["stored_line"] + w.parts * (of["stored_part"] - of["stored_line"])
    pipes["block starts"] = max(of["starts"], of["warp_starts"] * w.threads / chip.lanes()) * chip.clock
    own = min(1.0, w.threads / chip.lanes() / of["schedulers"])  # warps stay with their scheduler
    side = min(1.0, min(at_once, ceil(w.blocks / chip.cores)) * w.threads / chip.lanes() / of["schedulers"])
    lives = sum(p.turns * _clocks(p, {n: xs[i] / (own if n in BY_SCHEDULER else 1.0) for n, xs in phases.items()}, far, r)
                for i, p in enumerate(w.phases))  # fmt: skip
    pipes |= {n: pipes[n] / side for n in BY_SCHEDULER if n in pipes}
    # what a block reads once more comes from memory where the blocks that live at once have more than L2 holds
    twice = w.again * w.blocks if w.again and w.fetched * min(w.blocks, chip.cores * at_once) > chip.memory("l2").capacity else 0.0
    main = chip.memories[0]
    moved = w.read + w.written + twice + rewritten(w.partial * w.blocks, w.written, chip) + _torn_by_warps(w, chip)
    moved *= 1 - of["near_streams"] * _near(w, chip, at_once)
    terms = {n: x * each / chip.clock for n, x in pipes.items()} | {"l2": through * w.blocks / of["l2_reads"]}
    fullest = max(terms, key=lambda n: terms[n])
    known = {fullest: terms[fullest], "latency": lives * rounds / chip.clock, main.name: moved / main.bandwidth}
    waits, moves = known["latency"], known[main.name]
    together = sum(x**norm for x in known.values()) ** (1 / norm)
    alone = max(0.0, min(min(waits, moves) / min(at_once, max(1.0, w.blocks / chip.cores)), waits + moves - together)) * of["rounds_apart"]
    seconds = together + alone + chip.launch
    bound = max(known, key=lambda n: known[n])
    others = ((n, x) for n, x in terms.items() if n != fullest)
    return Cost(seconds, bound, (*known.items(), *others, ("not overlapped", alone), ("launch", chip.launch)))


def corrected(cost: Cost, w: Issued, chip: Chip, behind: float = 0.0) -> Cost:
    """The price of a kernel whose schedule was priced at `cost`, `behind` seconds of it for what follows, once it is counted: where the
    count is higher a mean of both that is mostly the count, for what is missed is missed because it was not seen; else `cost`, but no
    more than so many times the count (`over_count`): tiles know of no waits that others hide."""
    by_count = time(w, chip)
    whole = by_count.seconds + behind
    parts = (*by_count.parts, *((("combination", behind),) if behind else ()))
    if whole > cost.seconds:
        return Cost(whole**COUNTED * cost.seconds ** (1 - COUNTED), by_count.bound, parts)
    most = chip.numbers["over_count"] * whole
    return cost if cost.seconds <= most else Cost(most, by_count.bound, parts)


def life(w: Issued, chip: Chip) -> list[tuple[float, dict[str, float], dict[str, float]]]:
    """A block's phases in order: turns, clocks of each pipe in a turn, clocks that a warp waits for each kind of result in one."""
    r = rates(chip)
    pipes, each = _pipes(w, chip, r), _waits(_load(w, chip, r, resident(w, chip)), r)
    return [(p.turns, {n: xs[i] for n, xs in pipes.items() if xs[i]}, {kind: n * each[kind] for kind, n in p.waits.items() if n})
            for i, p in enumerate(w.phases)]  # fmt: skip


def _pipes(w: Issued, chip: Chip, r: Rates) -> dict[str, list[float]]:
    """Clocks that a block takes of each pipe of its core, by phase. Integer multiplications go through the multiply-adds' pipe too."""
    rate = {"fma": r.fma, "integer multiply": r.multiply, "integer": r.integer, "special": r.special, "branch": r.branch}
    out = {n: [p.issued.get(n, 0.0) / x for p in w.phases] for n, x in rate.items()}
    out["fma"] = [(p.issued.get("fma", 0.0) + p.issued.get("integer multiply", 0.0)) / r.fma for p in w.phases]
    out["issue"] = [sum(p.issued.values()) / r.issue for p in w.phases]
    out["load and store"] = [p.slots / r.memory for p in w.phases]
    if w.matrix_dtype:
        share = chip.numbers["warp_matrix"] * chip.limits.get(f"warp_{w.matrix_dtype}", 1.0)
        matrix = chip.matrix_rate(w.matrix_dtype) * share / (chip.cores * chip.clock)
        out["matrix unit"] = [p.matrix / matrix for p in w.phases]
    return out


def _near(w: Issued, chip: Chip, at_once: int) -> float:
    """How near one another blocks that run at once read and store: the loads under way that memory's latency needs, as a share of all of
    them, by how evenly what moves is read and stored. Of kernels that read everything once and whose threads meet nowhere: no other was
    found to mind."""
    if not w.written or not w.fetched or len(w.phases) > 1 or w.asked > w.fetched:
        return 0.0
    held = min(at_once, w.blocks / chip.cores) * w.fetched
    needed = chip.latency * chip.memories[0].bandwidth / chip.cores
    return min(1.0, needed / held) * 2 * min(w.read, w.written) / (w.read + w.written)


def _torn_by_warps(w: Issued, chip: Chip) -> float:
    """Bytes that memory moves for sectors of which two warps of a block write a part each, one request after another: the later, the more
    a thread stores; of what the last cache has let go until then, all of it from a line a thread on."""
    own = min(w.written, max(0.0, w.stored * w.blocks - w.written))
    if not own:
        return 0.0
    late = min(1.0, w.written / (w.blocks * w.threads * chip.memory("shared").line))
    return chip.numbers["torn_by_warps"] * own * evicted(w.written, chip) * late


def _brought(w: Issued, chip: Chip, r: Rates, at_once: int) -> float:
    """Bytes that L2 brings to a block: what is distinct once, and again the part of it that the core's cache does not hold until it is
    asked for again. That cache is the core's memory less what its blocks have of it as shared memory."""
    room = r.cache - at_once * (w.shared + chip.shared_of_core[1] if w.shared else 0.0)
    held = min(1.0, max(0.0, room) / (w.fetched * at_once)) if w.fetched else 1.0
    return w.fetched + (w.asked - w.fetched) * (1 - held) if w.asked > w.fetched else w.asked


def _load(w: Issued, chip: Chip, r: Rates, at_once: int) -> float:
    """Clocks that a load takes in the mean: what is distinct comes from L2, of it the part that nobody read before from main memory."""
    brought = w.fetched * w.blocks
    new = min(1.0, w.read / brought) if brought else 1.0
    far = new * r.dram + (1 - new) * r.far
    fresh = _brought(w, chip, r, at_once) / w.asked if w.asked else 1.0
    return fresh * far + (1 - fresh) * r.near


def _clocks(p: Phase, pipes: dict[str, float], load: float, r: Rates) -> float:
    """Clocks of one turn of a phase: what a warp waits for, and what all warps of the block, which run in step, take of a pipe."""
    each = _waits(load, r)
    return sum(n * each[kind] for kind, n in p.waits.items()) + max(pipes.values(), default=0.0)


def _waits(load: float, r: Rates) -> dict[str, float]:
    return {"load": load, "shared": r.shared, "special": r.special_wait, "arithmetic": r.arithmetic, "exchange": r.exchange,
            "barrier": r.barrier, "branch": r.branch_wait}  # fmt: skip
