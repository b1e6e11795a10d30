"""What a reduction's schedule costs beside its bytes and arithmetic: latency, blocks that wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod, sqrt

from autocomp.cost.chip import F32, Chip
from autocomp.cost.copies import WIDEST
from autocomp.cost.demand import Demand
from autocomp.cost.derived import constant
from autocomp.cost.roles import power_of_two
from autocomp.cost.tiles import Tile
from autocomp.ir.schedule import Schedule


def waiting(s: Schedule, chip: Chip, d: Demand, t: Tile) -> float:
    """Seconds that latency takes from a reduction.

    In chunks: a core gets what its threads have under way, once a latency. A thread has a chunk's loads under way (several chunks'
    where they are small: compilers unroll), up to a limit of the chip. In one piece: a block lives for its loads and, where threads
    share a result, as long again for the exchange; a core has so many blocks at a time (max pooling of 100352 blocks of one pixel
    took 105 us on an H200, 13 times its bytes; measured 2026-11-21).
    """
    of = chip.numbers
    if d.roles.form != "reduce":
        return 0.0
    if s.persistent:
        return _slots_waiting(s, chip, d, t)
    room = max(1, int(chip.limits["threads"] * 2 // s.threads))
    if t.chunks == 1:
        kept = d.size("rows", dict(s.tile)) * min((a.element for a in d.operands), default=F32)
        shared = kept < of["row_bytes_kept"] * s.threads and not _own(s, d)
        folds, room = len(d.roles.depths), min(room, _resident(s, chip, d, t))
        meeting = folds * _apart(d, dict(s.tile)) * of["exchange_apart_clocks"] / chip.clock * s.threads / chip.lanes() if shared else 0.0
        starts = t.tiles / chip.cores * of["starts"]
        lives = max(starts, t.tiles / (chip.cores * room) * (chip.latency * (1 + shared * folds) + meeting))
        # Waves of blocks whose threads could each have results of their own: max pooling of 32 x 112 x 112 x 64 took 32 us by blocks of 8
        # pixels and 20 us by blocks of 16, 128 threads, H200, 2026-11-21
        if shared and d.size("rows", dict(s.tile)) >= s.threads and t.tiles > chip.cores * room:
            return lives
        return lives if lives > t.read / chip.memories[0].bandwidth else 0.0  # while some blocks wait the others copy
    most, elements = t.bytes / s.threads, max(1.0, t.elements / s.threads)
    unrolled = min(of["unrolled_copies"], max(1.0, of["unrolled"] / elements), t.chunks)
    blocks = min(-(-t.tiles // chip.cores), room)
    under_way = blocks * s.threads * min(of["under_way"], most * unrolled) * min(chip.cores, t.tiles)
    passes = 1 if d.carries else len(d.roles.depths) + bool(d.roles.cols)
    chain = -(-t.tiles // (chip.cores * room)) * passes * t.chunks / unrolled * chip.latency  # a block's chunks one after another
    return max(chain, d.work.read * chip.latency / under_way, d.work.read / (min(chip.cores, t.tiles) * of["core_draws"]))


def carried(s: Schedule, chip: Chip, d: Demand, t: Tile) -> float:
    """Seconds in which a block of a scan waits for a chunk, whose loads begin when what came before it is known and stored: 69 us by chunks
    of 256, 48 in one piece, 24922 rows of 642 f32; benchmarks/cost_rank.py, H100, 2026-11-25."""
    if not d.carries or t.chunks == 1:
        return 0.0
    room = max(1, int(chip.limits["threads"] * 2 // s.threads))
    return -(-t.tiles // (chip.cores * room)) * t.chunks * chip.latency


def _own(s: Schedule, d: Demand) -> bool:
    """Whether threads fold results of their own, one access each at least, in whose tensors neighbours belong to different results.
    Elements of windows are read one by one, since the next tap's begin anywhere."""
    rows, runs = {a.name for a in d.roles.rows}, [run for a in d.operands for run in a.runs if run]
    apart = (any if d.windows else all)(rows & set(run) for run in runs)  # weights of windows are the same for neighbours
    widest = 1.0 if d.windows else WIDEST / min((a.element for a in d.operands), default=F32)
    tile = dict(s.tile)
    places = prod(power_of_two(min(tile.get(a.name, d.extent[a.name]), d.extent[a.name])) for a in d.roles.rows)
    return apart and not d.roles.cols and places >= constant("employed") * s.threads * widest


def _resident(s: Schedule, chip: Chip, d: Demand, t: Tile) -> int:
    """Blocks of a core that keep rows in registers: 40 of a thread with 16 elements, 63 with 32, 80 to 127 with 64; by ptxas."""
    registers = min(chip.limits["registers"], chip.numbers["beside_kept"] + _elements(s, d, t))
    return max(1, int(chip.registers.count // (s.threads * registers)))


def _elements(s: Schedule, d: Demand, t: Tile) -> float:
    """Elements of rows in one piece that a thread keeps; of windows each element of a strip of them once (`window_strips`)."""
    again = min(sqrt(d.windows.again), max(1.0, d.size("rows", dict(s.tile)) / s.threads)) if d.windows else 1.0
    return t.elements / (s.threads * s.cluster * again)


def _apart(d: Demand, tile: Mapping[str, int]) -> int:
    """Results that each thread folds side by side, as neighbours in memory belong to different rows; each is exchanged."""
    rows, most = {a.name for a in d.roles.rows}, 1
    for p in d.pieces:
        if p.side_by_side and set(p.side_by_side) <= rows:
            most = max(most, min(WIDEST // p.element, prod(tile.get(n, d.extent[n]) for n in p.side_by_side)))
    return most


def alone(s: Schedule, chip: Chip, d: Demand, t: Tile, parts: Mapping[str, float]) -> float:
    """Seconds that blocks with rows in one piece do not hide from each other: a block's own arithmetic, and, of all cores, `parts` beside
    the one that binds them, where few blocks share a core: these load, compute and store one after another."""
    of = chip.numbers
    if d.roles.form != "reduce" or t.chunks > 1 or s.persistent:
        return 0.0
    used = [x for n, x in parts.items() if n != "launch"]
    apart = (sum(used) - max(used, default=0.0)) / _resident(s, chip, d, t)
    return of["element_clocks"] / chip.clock * max(of["least_elements"], _elements(s, d, t)) + of["lonely_block"] * apart


def _slots_waiting(s: Schedule, chip: Chip, d: Demand, t: Tile) -> float:
    """Seconds that a block waits which keeps rows in slots: for copies, of which those are under way that go into slots that the row leaves
    over, and in the mean half of the row's; and for its own arithmetic, of which a core has its waves alone."""
    of = chip.numbers
    blocks = min(t.tiles, chip.clusters(s.cluster) * s.resident) * s.cluster
    under_way = max(of["slots_left"], s.stages - t.chunks / 2) * t.bytes / s.cluster
    arithmetic = d.work.special / chip.special * chip.cores / min(blocks, chip.cores)
    waves = s.threads * s.resident / chip.lanes()
    return d.work.read * of["bulk_clocks"] / chip.clock / (blocks * under_way) + arithmetic * of["slot_warps"] / waves


def meetings(s: Schedule, chip: Chip, d: Demand, t: Tile) -> float:
    """Seconds that blocks wait for each other in clusters, once a row for each of its folds, and begin turns over pieces of kept rows. Rows
    in registers leave a core room for few blocks. Blocks of a larger cluster begin and end further apart, where they do not stay."""
    of = chip.numbers
    if s.cluster == 1 and not s.persistent:
        return 0.0
    registers = t.elements / (s.cluster * s.threads) + of["beside_rows"]
    resident = s.resident if s.persistent else chip.registers.count // (s.threads * registers)
    at_once = chip.clusters(s.cluster) * max(1.0, resident)
    meet = len(d.roles.depths) * of["meet"] if s.cluster > 1 else 0.0
    apart = 0.0 if s.persistent else (s.cluster.bit_length() - 1) * of["further_apart"]
    return apart + -(-t.tiles // at_once) * (meet + (2 * t.chunks * of["piece_clocks"] / chip.clock if s.persistent else 0.0))
