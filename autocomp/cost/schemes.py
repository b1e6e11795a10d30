"""What a tile of blocks with roles takes longer without each directive of its schedule (`ir.directives`): equations over the chip's clocks.

    mma_zero_init         zeros into a thread's accumulators, an instruction each
    tma_store             threads store runs of eight results, each a line of its own in a core's clock, beside nothing (products of
                          bytes into i32 were 1.33 times too dear by their bytes, H200, 2026-12-01); where rows begin anywhere parts of
                          sectors, much slower. The cache passes them on beside the next tile's products (`passed_on`)
    interleave_epilogue   maps wait while the tile's bytes leave; third_epilogue_stage: half of them, where blocks stay
    load_c                an operand as large as the tile comes behind the products; prefetch_epilogue: its latency
    unroll_ring           a slot's address and its parity in each turn
"""

from __future__ import annotations

from math import prod

from autocomp.cost.chip import Chip
from autocomp.cost.demand import Demand
from autocomp.cost.tiles import Tile
from autocomp.ir.schedule import Schedule


def steps_left(s: Schedule, d: Demand) -> float:
    """Of the steps in depth, the part that is made where some tiles end sooner and no other block or warpgroup counts their turns."""
    if not d.ending or "skip_dead_steps" not in s.directives or s.roles != "warp_specialise" or s.stream_k or s.ping_pong or s.cluster > 1:
        return 1.0
    tile = dict(s.tile)
    return prod(left for names, left in d.ending if all(tile.get(a) == 1 for a in names))


def depth_left(s: Schedule, chip: Chip, d: Demand) -> float:
    """Of the products that whole steps make, the part that is made: a short last step ends with the depth."""
    (axis,) = d.roles.depth if len(d.roles.depth) == 1 else (None,)
    if "short_last_step" not in s.directives or axis is None or d.roles.form != "contract":
        return steps_left(s, d)
    extent, step = d.extent[axis.name], dict(s.tile).get(axis.name, d.extent[axis.name])
    return -(-extent // chip.granule[2]) * chip.granule[2] / (-(-extent // step) * step) if extent % step else 1.0


def lost(s: Schedule, chip: Chip, d: Demand, t: Tile, waves: float) -> float:
    """Seconds that the tiles of a core, `waves` one behind the other, take longer for directives that their schedule does not have; where
    warpgroups take turns, the last one alone but for what threads store."""
    of, has, results = chip.numbers, s.directives, t.rows * t.columns
    product, out = d.roles.form == "contract", d.result
    leave = results * out * chip.cores / chip.memory("l2").bandwidth
    always, seconds = 0.0, 0.0 if "mma_zero_init" in has else results / (chip.lanes() * of["issue"] * chip.clock)
    if product and _rows_anywhere(d, chip):  # parts of sectors leave, no box
        always = results * _stored(d, chip) / chip.clock
    elif _stores_itself(s, chip, d, t):  # no boxes: threads store, whatever is asked
        always = results / of["fragment_run"] / chip.clock
    elif product and "interleave_epilogue" not in has:
        seconds += leave
    elif product and s.persistent and "third_epilogue_stage" not in has:
        seconds += leave / 2
    if product and _operand_beside(d):
        seconds += 0.0 if {"load_c", "load_c_halves"} & {*has} else leave
        seconds += 0.0 if {"load_c", "load_c_halves", "prefetch_epilogue"} & {*has} else chip.latency
    return waves * always + seconds * (1.0 if s.ping_pong else waves)


def passed_on(s: Schedule, chip: Chip, d: Demand, t: Tile) -> float:
    """Seconds in which the cores' caches pass on a product's results that threads store at a row's own places, beside the next tiles."""
    if _rows_anywhere(d, chip) or not _stores_itself(s, chip, d, t):
        return 0.0
    return d.work.written / d.result * _stored(d, chip) / (chip.cores * chip.clock)


def two_sums(s: Schedule, chip: Chip, t: Tile) -> bool:
    """Whether a block that stays has the sums of two tiles in tensor memory."""
    return s.persistent and s.roles == "warp_specialise" and bool(t.shape) and (
        2 * t.columns * s.workers <= chip.limits.get("tensor_columns", 0.0))  # fmt: skip


def of_a_turn(s: Schedule, chip: Chip) -> float:
    """Seconds of each turn over a ring whose slots are no constants: an address and a parity, of both factors."""
    return 0.0 if "unroll_ring" in s.directives else chip.numbers["turn_gap_clocks"] / chip.clock


def _rows_anywhere(d: Demand, chip: Chip) -> bool:
    """Whether a product's rows begin where no bulk copy may: at other than multiples of its accesses."""
    return bool(d.roles.cols) and d.extent[d.roles.cols[-1].name] * d.result % chip.numbers["copy_bytes"] != 0


def _stores_itself(s: Schedule, chip: Chip, d: Demand, t: Tile) -> bool:
    """Whether threads store a tile's results, for want of boxes that the copy engine would take: they are of halves, whole ones of a
    product."""
    of = chip.numbers
    cut = d.roles.form == "contract" and t.columns % of["box_columns"] != 0
    return "tma_store" not in s.directives or d.result != of["box_element"] or cut


def _stored(d: Demand, chip: Chip) -> float:
    """Clocks of a core for each of a product's results that threads store: of a row four lanes have two elements each, eight next to each
    other in a line of the cache, stored at once where rows begin at multiples of both."""
    anywhere = _rows_anywhere(d, chip)
    at_once = 1 if not anywhere or d.extent[d.roles.cols[-1].name] % 2 == 0 else 2
    of = chip.numbers
    run = of["fragment_run"]
    clocks = of["stored_across"] if anywhere else of["stored_part"] if run * d.result < of["sector"] else of["stored_line"]
    return at_once / run * clocks


def _operand_beside(d: Demand) -> bool:
    """Whether an epilogue reads a tensor that varies with rows and columns."""
    sides = [{a.name for a in axes} for axes in (d.roles.rows, d.roles.cols)]
    return any(not o.factor and all(side & o.axes for side in sides) for o in d.operands)
