"""What a reduction's schedule costs beside its bytes and arithmetic: latency, blocks that wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from autocomp.cost.chip import Chip
from autocomp.cost.copies import WIDEST
from autocomp.cost.demand import Demand
from autocomp.cost.tiles import Tile
from autocomp.ir.schedule import Schedule

UNROLLED = 16  # elements of a loop's body up to which compilers are seen to overlap several iterations
ALONE = 8  # waves of a core whose arithmetic on rows in slots takes its units alone: 91 us with 8, 86 us with 16, the same run
# Clocks from a bulk copy's start to its end while slots are full and every core copies: 64 blocks with 180 KB under way drew 51 to 62 GB/s
# each, an H200, 2026-11-21
FAR = 5265.0
TURN = 52.65  # clocks of a turn over a piece: 8 pieces a row took 85.3 us, 4 of twice the size 83.4, the same run
# Rows in one piece, 300 schedules of softmax and layer norm along middle and last axes, benchmarks/cost_rank.py, H200, 2026-11-21:
OTHERS, KEPT = 16, 1.0  # registers of a thread, and for each element that it keeps
APART = 35.1  # clocks for each wave and each result of a thread that its block exchanges: blocks of 16 waves with 8 live 6 us, with one 2
OWN = 52.65  # clocks for each element of a thread: one row of 8192 by 512, 256 and 128 threads takes 6.1, 6.4 and 7.7 us
VECTOR = 8  # elements below which more threads find no work of their own: one access brings them
LONELY = 0.25  # one block a core: 30.9 us for 22.9 with three, 25.0 for 22.4 with 24
BESIDE = 32  # registers of a thread beside a row's elements


def waiting(s: Schedule, chip: Chip, d: Demand, t: Tile) -> float:
    """Seconds that latency takes from a reduction.

    In chunks: a core gets what its threads have under way, once a latency. A thread has a chunk's loads under way (several chunks'
    where they are small: compilers unroll), up to a limit of the chip. In one piece: a block lives for its loads and, where threads
    share a result, as long again for the exchange; a core has so many blocks at a time (max pooling of 100352 blocks of one pixel
    took 105 us on an H200, 13 times its bytes; measured 2026-11-21).
    """
    if d.roles.form != "reduce":
        return 0.0
    if s.persistent:
        return _slots_waiting(s, chip, d, t)
    room = max(1, int(chip.limits["threads"] * 2 // s.threads))
    if t.chunks == 1:
        kept = d.size("rows", dict(s.tile)) * min((a.element for a in d.operands), default=4)
        shared = kept < 16 * s.threads
        folds, room = len(d.roles.depths), min(room, _resident(s, chip, d, t))
        meeting = folds * _apart(d, dict(s.tile)) * APART / chip.clock * s.threads / chip.lanes(4) if shared else 0.0
        starts = t.tiles / chip.cores * chip.limits.get("starts", 0.0)
        lives = max(starts, t.tiles / (chip.cores * room) * (chip.latency * (1 + shared * folds) + meeting))
        # Waves of blocks whose threads could each have results of their own: max pooling of 32 x 112 x 112 x 64 took 32 us by blocks of 8
        # pixels and 20 us by blocks of 16, 128 threads, H200, 2026-11-21
        if shared and d.size("rows", dict(s.tile)) >= s.threads and t.tiles > chip.cores * room:
            return lives
        return lives if lives > t.read / chip.memories[0].bandwidth else 0.0  # while some blocks wait the others copy
    most, elements = t.bytes / s.threads, max(1.0, t.elements / s.threads)
    unrolled = min(4.0, max(1.0, UNROLLED / elements), t.chunks)
    blocks = min(-(-t.tiles // chip.cores), room)
    under_way = blocks * s.threads * min(chip.limits.get("under_way", 64.0), most * unrolled) * min(chip.cores, t.tiles)
    passes = len(d.roles.depths) + bool(d.roles.cols)
    chain = -(-t.tiles // (chip.cores * room)) * passes * t.chunks / unrolled * chip.latency  # a block's chunks one after another
    return max(chain, d.work.read * chip.latency / under_way)


def _resident(s: Schedule, chip: Chip, d: Demand, t: Tile) -> int:
    """Blocks of a core that keep rows in registers: 40 of a thread with 16 elements, 63 with 32, 80 to 127 with 64; by ptxas."""
    return max(1, int(chip.registers.count // (s.threads * min(chip.limits["registers"], OTHERS + KEPT * _elements(s, d, t)))))


def _elements(s: Schedule, d: Demand, t: Tile) -> float:
    """Elements of rows in one piece that a thread keeps."""
    return t.elements / (s.threads * s.cluster)


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
    if d.roles.form != "reduce" or t.chunks > 1 or s.persistent:
        return 0.0
    used = [x for n, x in parts.items() if n != "launch"]
    return OWN / chip.clock * max(VECTOR, _elements(s, d, t)) + LONELY * (sum(used) - max(used, default=0.0)) / _resident(s, chip, d, t)


def _slots_waiting(s: Schedule, chip: Chip, d: Demand, t: Tile) -> float:
    """Seconds that a block waits which keeps rows in slots: for copies, of which those are under way that go into slots that the row leaves
    over, and in the mean half of the row's; and for its own arithmetic, of which a core has its waves alone."""
    blocks = min(t.tiles, chip.limits.get(f"clusters_of_{s.cluster}", chip.cores // s.cluster) * s.resident) * s.cluster
    under_way = max(0.5, s.stages - t.chunks / 2) * t.bytes / s.cluster
    arithmetic = d.work.special / chip.special * chip.cores / min(blocks, chip.cores)
    waves = s.threads * s.resident / chip.lanes(4)
    return d.work.read * FAR / chip.clock / (blocks * under_way) + arithmetic * ALONE / waves


def meetings(s: Schedule, chip: Chip, d: Demand, t: Tile) -> float:
    """Seconds that blocks wait for each other in clusters, once a row for each of its folds, and begin turns over pieces of kept rows. Rows
    in registers leave a core room for few blocks."""
    if s.cluster == 1 and not s.persistent:
        return 0.0
    resident = s.resident if s.persistent else chip.registers.count // (s.threads * (t.elements / (s.cluster * s.threads) + BESIDE))
    at_once = chip.limits.get(f"clusters_of_{s.cluster}", chip.cores // s.cluster) * max(1.0, resident)
    meet = len(d.roles.depths) * chip.limits.get("meet", 0.0) if s.cluster > 1 else 0.0
    return -(-t.tiles // at_once) * (meet + (2 * t.chunks * TURN / chip.clock if s.persistent else 0.0))
