"""Products thread by thread: what lanes issue beside multiply-adds, and what shared memory must bring them.

A thread has pieces of a tile's results, and every step in depth reads its rows of both factors from shared memory. Pieces of 4 x 4 (a
schedule's instruction `square`) are read in whole accesses; rows of 4 results (the target's plain product; `narrow`, whose waves have 16
rows of 8) read one factor row by row, where it does not lie along depth.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from autocomp.cost.chip import F32, Chip
from autocomp.cost.demand import Demand, Operand
from autocomp.cost.derived import constant
from autocomp.ir.schedule import Schedule
from autocomp.ir.wide_sums import WIDE_SUMS

ROUNDED = constant("sheet_rounding")
SQUARE, NARROW = "square", "narrow"  # a schedule's instruction
PIECE = int(constant("piece_results"))  # results of a row that a thread has side by side
SWIZZLED, HELD = int(constant("swizzled_chunks")), constant("held_factors")
UNIT = int(constant("warp_rows")), int(constant("unit_columns"))  # of a matrix instruction whose sums are f64
ACROSS, FEW = int(constant("piece_lanes")), int(constant("narrow_lanes"))  # lanes that lie along a row of a wave's results


def by_lanes(chip: Chip, dtype: str) -> bool:
    """Whether lanes multiply factors of a type: its products are no faster than their multiply-adds (data sheets round)."""
    both = chip.vector["f32"] + chip.vector["f32"]  # a multiply-add counts two
    return dtype in ("f32", "f64") and chip.matrix_rate(dtype) <= ROUNDED * both


def of_units(chip: Chip, dtype: str) -> float:
    """Share of a type's rate of products that lanes reach at most: where matrix units multiply f64 its rate is theirs."""
    return float(chip.numbers["wide_lanes"]) if dtype == WIDE_SUMS and "f64_products" in chip.features else 1.0


def even(s: Schedule, chip: Chip) -> tuple[int, int]:
    """Rows and columns of a wave's results that its lanes have once: inner axes of a tile that are multiples of them are not padded."""
    across = FEW if s.instruction == NARROW else ACROSS
    return chip.lanes() // across * _high(s), PIECE * across


def _high(s: Schedule) -> int:
    """Rows of a piece of a thread's results."""
    return PIECE if s.instruction == SQUARE else 1


def piece(s: Schedule, chip: Chip, m: int, n: int) -> tuple[int, int]:
    """Rows and columns of a thread's results of a tile of m x n."""
    down, along = even(s, chip)
    rows, cols = _waves(s, chip, m, n)
    return -(-m // (rows * down)) * _high(s), -(-n // (cols * along)) * PIECE


def _along_depth(o: Operand, d: Demand) -> bool:
    """Whether neighbours of a factor lie along the depth, so that a thread reads several steps of a row at once."""
    return not o.contiguous and bool({a.name for a in d.roles.depth} & o.axes)


def share(s: Schedule, chip: Chip, d: Demand, m: int, n: int, piece: tuple[int, int]) -> float:
    """Share of the rate of multiply-adds that a tile of m x n reaches: of what is issued for a step in depth, multiply-adds; or of the time
    in which shared memory brings their factors; less what pads the waves' results."""
    of, lanes, (high, wide) = chip.numbers, chip.lanes(), piece
    rows = {a.name for a in d.roles.rows}
    along = [all(_along_depth(o, d) for o in d.operands if o.factor and bool(rows & o.axes) is left) for left in (True, False)]
    steps = _steps(high, wide)
    reads = (high / steps if along[0] else high / PIECE if s.instruction == SQUARE else high) + wide / (steps if along[1] else PIECE)
    sides = zip(along, (m, n), piece, (_high(s), PIECE), even(s, chip), _waves(s, chip, m, n), strict=True)
    reads += sum(of["place_issues"] * own / steps for deep, x, own, beside, once, by in sides if deep and not _apart(x, by, beside, once))
    passes = of["wide_passes"] * (high + wide) / PIECE
    copied = d.narrow[0] * m + d.narrow[1] * n + ((not d.narrow[0]) * m + (not d.narrow[1]) * n) / PIECE
    sums = high * wide
    reads_a_clock = max(1, round(chip.memory("shared").bandwidth / (F32 * lanes * chip.cores * chip.clock)))
    issued = sums + reads + of["copy_issues"] * copied / s.threads + of["step_issues"]
    clocks = max(sums / of["fma_rate"], issued / (of["issue"] * of["issued_sums"]), passes / reads_a_clock)
    filled = min(1.0, m * n / (sums * s.threads))
    return float(filled * sums / of["fma_rate"] / clocks)


def _waves(s: Schedule, chip: Chip, m: int, n: int) -> tuple[int, int]:
    """Waves along rows and along columns of a tile."""
    return _shared_out(m, n, max(1, s.threads // chip.lanes()), *even(s, chip))


def _steps(high: int, wide: int) -> int:
    """Steps in depth that a thread reads at once of factors that lie along it: a whole access, fewer where the registers for them and for
    its results would be more than `held_factors`."""
    return next((n for n in (PIECE, PIECE // 2) if high * wide + n * (min(high, PIECE) + wide) <= HELD), 1)


def _apart(rows: int, waves: int, beside: int, once: int) -> bool:
    """Whether the rows of a factor along depth have numbers whose bits that a swizzle reads are a thread's or a register's, so that each
    has its part of an address and compilers keep it; else they compute each anew. A thread has `beside` rows next to each other, which are
    laid apart; a wave's lanes have `once` rows once."""
    apart, lanes = rows // beside, once // beside
    own = apart // waves
    threads = (lanes - 1) | reduce(or_, (w * own for w in range(waves)))
    held = reduce(or_, (r * apart for r in range(beside))) | reduce(or_, range(0, max(1, own), lanes))
    return not threads & held & (SWIZZLED - 1)


def registers(d: Demand, piece: tuple[int, int]) -> int:
    """Registers of a thread's results and of what it has read of both factors: a step in depth of those that lie along results, a whole
    access of those that lie along depth. With `beside_sums` ptxas 13.0 (sm_90a) took 166 for 8 x 8 of two along depth (168 by this), 253
    for 8 x 16 (255, all there are), 122 and 196 for two along results (120 and 192)."""
    rows = {a.name for a in d.roles.rows}
    held = (piece[0 if rows & o.axes else 1] * (PIECE if _along_depth(o, d) else 1) for o in d.operands if o.factor)
    return piece[0] * piece[1] + sum(held)


def hidden(s: Schedule, chip: Chip, d: Demand, piece: tuple[int, int], held: int, blocks: int, beside: int) -> float:
    """Share of its rate that a core reaches with so many blocks, `beside` at once; `held`: the piece's `registers`.

    Warps stay with their scheduler: three blocks of two take as long as four. Too few of them hide no reads of factors, the fewer the more
    results each has and registers for what it reads next. What is left over lands together on the cores that are done first: a part of a
    whole round, however few they are (609 blocks, four a core, took 185 us where five tiles' time was 136; H200, 2026-11-27). Where a core
    has room for one block of several, nothing computes while that waits for a step.
    """
    of, warps = chip.numbers, s.threads / chip.lanes()
    step = piece[0] * piece[1] * warps * d.size("depth", dict(s.tile)) / of["fma_rate"]  # clocks of a turn, at whose end all warps wait
    together = step / (step + of["lone_step_clocks"]) if beside == 1 < blocks else 1.0
    full = held + of["beside_sums"] > chip.limits["registers"]  # none are left for what is read next
    need = max(of["schedulers"], of["lane_warps"] * (1.0 if full else min(1.0, of["lane_results"] / (piece[0] * piece[1]))))
    shared = lambda b: -(-b * warps // of["schedulers"]) * of["schedulers"]
    turn = max(shared(beside), need)
    whole, rest = divmod(blocks, beside)
    return together * blocks * warps / (whole * turn + (max(shared(rest), of["last_round"] * turn) if rest else 0.0))


def hidden_at_most(s: Schedule, chip: Chip, piece: tuple[int, int], blocks: int) -> float:
    """As `hidden`, of however many beside each other: all at once, with registers for what is read next."""
    of, warps = chip.numbers, s.threads / chip.lanes()
    need = max(of["schedulers"], of["lane_warps"] * min(1.0, of["lane_results"] / (piece[0] * piece[1])))
    return blocks * warps / max(-(-blocks * warps // of["schedulers"]) * of["schedulers"], need)


def _shared_out(m: int, n: int, waves: int, down: int, across: int) -> tuple[int, int]:
    """Waves along rows and along columns: with the least padding, then the fewest reads."""
    ways = [(2**k, waves // 2**k) for k in range(waves.bit_length()) if waves % 2**k == 0]
    padded = lambda r, c: -(-m // (down * r)) * down * r * (-(-n // (across * c)) * across * c)
    return min(ways, key=lambda w: (padded(*w), m / w[0] + n / w[1]))
