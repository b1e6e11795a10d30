"""Seconds of the pipes of NPU cores: copies into buffers, feeds of the cube unit, products, ways out, vector instructions.

A pipe works in order; pipes work side by side where buffers have two slots, else one waits for the other. What the cores share (main
memory, and what of it stays in L2) is a further pipe. The equations count work that a tiling says; coefficients are the chip's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autocomp.cost.chip import F32, Chip
from autocomp.cost.derived import constant

SPECIAL = ("Exp", "Ln", "Sqrt", "Div")  # vector instructions at the rate of special functions
HALVES = " of halves"  # behind the name of an instruction, where it matters
BLOCK = constant("npu_block")  # bytes of a fractal's row, and of the pieces that copy engines move


@dataclass(frozen=True)
class Side:
    """A factor's share of one step of the depth: bytes, the bytes of a contiguous run of its copy to L1, how many steps one copy is for.

    cut: runs do not begin at lines of memory, so each touches one line more, or less than one where they begin at multiples of so many
    bytes (`begin`). odd: share of rows that do not begin at blocks of 32 bytes:
    each block of a fractal is put together from two of theirs. copies: that bring the bytes.
    """

    bytes: float
    run: float
    steps: float = 1.0
    cut: bool = False
    odd: float = 0.0
    begin: int = 0
    copies: float = 1.0


@dataclass(frozen=True)
class Product:
    """A product's work on the slowest core: `tiles` sums of m x n elements, each over `steps` steps of depth k.

    slots: of L1 (1: a copy waits for the feed of the step before). drained: a tile's way out runs beside the next tile's products
    (two slots in L0C, or the unit flag). m, n, k: padded to fractals. out: bytes of an element that leaves. starts: seconds a tile of
    scalar work that nothing hides.
    """

    tiles: float
    steps: float
    m: int
    n: int
    k: int
    a: Side
    b: Side
    dtype: str = "f16"
    slots: int = 2
    drained: bool = True
    out: int = 2
    starts: float = 0.0


@dataclass(frozen=True)
class Stream:
    """What one vector core does: `rounds` times copies in of `reads` bytes each, `repeats` of vector instructions, copies out of `writes`.

    instructions: vector instructions of a round. slots: of unified buffer. run: bytes of a contiguous run. cut: as in Side. copies: in and
    out, of a round, beside one for each of `reads` and `writes`.
    """

    rounds: float
    reads: tuple[float, ...]
    writes: tuple[float, ...] = ()
    repeats: float = 0.0
    instructions: float = 0.0
    slots: int = 2
    run: float = 0.0
    cut: bool = False
    copies: tuple[float, float] = (0.0, 0.0)


def row_ends(rows: float, element: int, run: int, chip: Chip) -> float:
    """Seconds in which the ends of a core's rows of `run` elements leave that are no whole blocks, on chips whose copies are: the scalar
    unit takes each element of a row's last block and puts it beside the others, behind the copy before, and the block leaves by itself.
    Rows of less than a block are put together element by element."""
    if "whole_blocks" not in chip.features or run * element % BLOCK == 0:
        return 0.0
    elements = min(run, BLOCK / element)
    blocks = elements * element / BLOCK
    each = 2 * elements * chip.numbers["scalar_write"] / chip.clock + blocks * (chip.limits["ub_start"] + 2 * chip.limits["flag"])
    return rows * each


def places_time(run: int, chip: Chip) -> float:
    """Seconds in which a core makes the byte offsets of a run's elements that lie in rows (`ac_places_of_rows`), before its first tile."""
    calls = chip.numbers["row_places"]
    return calls * (chip.limits["vector_start"] + run / (chip.vector["f32"] / (chip.cores * chip.limits["vector_cores"])))


def together(times: Iterable[float], power: float) -> float:
    """Seconds of pipes that run side by side and get into each other's way: more than the longest, less than the sum."""
    ts = [t for t in times if t > 0]
    top = max(ts, default=0.0)
    return float(top * sum((t / top) ** power for t in ts) ** (1 / power)) if top else 0.0


def lines(run: float, line: int, cut: bool, begin: int = 0) -> float:
    """Times as many bytes as a run has that its whole lines have, where runs begin anywhere or at multiples of `begin` bytes: a run of r
    bytes touches (r + line - begin) / line lines in the mean."""
    return 1 + (line - min(begin, line)) / run if cut and run else 1.0


def copy_to_l1(s: Side, chip: Chip) -> float:
    """Seconds a step of copying a factor to L1: a start for each copy and each run, and the bytes."""
    lim, rate = chip.limits, chip.memory("l1").bandwidth / chip.cores
    if s.odd:
        row = (1 - s.odd) * lim["l1_row"] + s.odd * -(-s.run // BLOCK) * lim["l1_block"]
        return s.copies * lim["l1_start"] / s.steps + s.bytes / s.run * row + s.bytes / rate
    wide = lines(s.run, chip.memories[0].line, s.cut, s.begin)
    return lim["l1_start"] / s.steps + wide * (s.bytes / s.run * lim["l1_row"] + s.bytes / rate)


def product_parts(p: Product, chip: Chip) -> dict[str, float]:
    """Pipe -> seconds of a step, and "drain" of a tile."""
    lim = chip.limits
    rate = lambda memory: chip.memory(memory).bandwidth / chip.cores
    waits = lim["product"] if p.slots > 1 else lim["product_alone"]
    return {
        "copies to L1": copy_to_l1(p.a, chip) + copy_to_l1(p.b, chip),
        "copies to L0": lim["feed"] + p.a.bytes / rate("l0a") + p.b.bytes / rate("l0b"),
        "matrix unit": waits + 2.0 * p.m * p.n * p.k / (chip.matrix_rate(p.dtype) / chip.cores),
        "drain": lim["drain"] + p.m * p.n * F32 / rate("l0c"),
    }


def product_time(p: Product, chip: Chip, shared: float = 0.0) -> float:
    """Seconds of the slowest core; `shared`: seconds that main memory needs for all cores."""
    t = product_parts(p, chip)
    drain = t.pop("drain")
    power = chip.numbers["pipes_power"]
    if p.slots > 1:
        step = together(t.values(), power)
    else:
        step = max(t["copies to L1"] + t["copies to L0"] + chip.limits["flag"], t["matrix unit"])
    left = chip.numbers["drain_left"] if p.drained else 1.0
    core = p.tiles * p.steps * step
    return together((core, shared), chip.numbers["memory_power"]) + p.tiles * (drain * left + p.starts)


def repeat_clocks(call: str, chip: Chip) -> float:
    """Clocks that the vector unit takes for a repeat of an instruction, by its name. Of halves a repeat has twice as many elements, which
    special functions take one by one; only blocks of single precision fold at the unit's rate."""
    name = call.removesuffix(HALVES)
    if name == "Gather":
        return chip.numbers["looked_up"]
    if name.startswith("WholeReduce") or (name != call and name.startswith("BlockReduce")):
        return chip.numbers["repeat_fold"]
    return chip.vector["f32"] / chip.special * (1 if name == call else 2) if name in SPECIAL else 1.0


def stream_time(s: Stream, chip: Chip, shared: float = 0.0) -> float:
    """Seconds of a vector core; `shared`: seconds that main memory needs for all cores."""
    n, lim = chip.numbers, chip.limits
    cores = chip.cores * lim["vector_cores"]
    line, alone = chip.memories[0].line, s.slots < 2
    start = lim["ub_start"] if alone else lim["ub_issue"]
    wide = lines(s.run, line, s.cut)
    into, out = (n * lim["ub_issue"] for n in s.copies)
    into += sum(start + wide * b * cores / lim["ub_in"] for b in s.reads)
    out += sum(start + wide * b * cores / lim["ub_out"] for b in s.writes)
    work = s.instructions * lim["vector_start"] + s.repeats / chip.clock
    copies = together((s.rounds * (into if alone else max(into, out)), wide * shared), n["memory_power"])
    if alone:  # the way out runs beside the next round's copies
        return copies + s.rounds * (work + lim["flag"])
    return together((copies, s.rounds * work), n["pipes_power"])


def step_time(s: Stream, chip: Chip) -> float:
    """Seconds from the start of a round's copies in to the flag behind its last instruction."""
    lim, cores = chip.limits, chip.cores * chip.limits["vector_cores"]
    arrives = lim["ub_start"] + s.copies[0] * lim["ub_issue"] + sum(s.reads) * cores / lim["ub_in"]
    return arrives + s.instructions * lim["vector_start"] + s.repeats / chip.clock + 2 * lim["flag"]


def first_and_last(s: Stream, chip: Chip) -> float:
    """Seconds in which the first round has nothing to work on and the last one's results leave: of a round all but its longest part, and
    what a copy's bytes and the flags between pipes take longer."""
    lim, cores = chip.limits, chip.cores * chip.limits["vector_cores"]
    work = s.instructions * lim["vector_start"] + s.repeats / chip.clock
    into, out = (n * lim["ub_issue"] for n in s.copies)
    parts = (into + sum(s.reads) * cores / lim["ub_in"], work, out + sum(s.writes) * cores / lim["ub_out"])
    return sum(parts) - max(parts) + lim["ub_start"] + 2 * lim["flag"]


def spilled(total: float, chip: Chip) -> float:
    """Share of tensors of `total` bytes that L2 no longer holds when they are wanted again: none that fit, all of twice its size."""
    size = next(m.capacity for m in chip.memories if m.cache)
    return min(1.0, max(0.0, total / size - 1.0))


def memory_seconds(read: float, written: float, chip: Chip, bypass: bool = False, again: float = 0.0) -> float:
    """Seconds of main memory: what is read once, what is read `again` as far as L2 lost it, and results that L2 cannot keep.

    bypass: inputs leave L2 to the results, and take no time to find a place there.
    """
    lost = spilled(written if bypass else read + written, chip)
    inputs = read / (chip.numbers["past_l2"] if bypass else 1.0)
    return (inputs + lost * written + again * spilled(read, chip)) / chip.memories[0].bandwidth


def pass_by(read: float, written: float, chip: Chip) -> bool:
    """Whether inputs that are read once should leave L2 to the results: together they do not fit."""
    return spilled(read + written, chip) > 0


def launch_time(chip: Chip, cores: float, both: bool = False) -> float:
    """Seconds from a kernel's start to the first core's work, and back: cores wake one after another; `both`: cube and vector cores."""
    return (chip.limits["launch_both"] if both else chip.launch) * min(1.0, cores / chip.cores)
