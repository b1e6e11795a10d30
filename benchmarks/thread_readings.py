"""A published step of threads on vector cores read as rounds of warps (cost.threads): its shapes, blocks, threads and memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

from autocomp.cost.chip import Chip
from autocomp.cost.pipes import BLOCK, Stream, memory_seconds, stream_time
from autocomp.cost.threads import SECTOR, WARP, Round, Sums, block_time, computing, conflicts, grid_time, sums_in_buffer, sums_in_memory

WIDTHS = {"f16": 2, "f32": 4, "i32": 4, "u32": 4, "int32": 4, "i64": 8, "int64": 8}
# Instructions a warp and element: a remainder of 32 bits and its signs, a quotient, a row and a column from an index, an index and
# its bound, a move, a sum.
SLOTS = {"floormod": 44, "division": 24, "transpose": 14, "gather": 12, "copy": 8, "add": 10}
REMAINDER = 51.4  # clocks of a vector core's instructions for 64 remainders of 32 bits: simd_simt_high_performance, 510 us
PAIRS = ("floormod", "add")  # of two tensors
PAD = 8  # bytes by which a tile's rows are longer where threads fill it; the copy engine pads blocks of 32


def threaded(step: Mapping[str, Any], chip: Chip) -> float | None:
    """Microseconds; None for what has no shapes, or no equation (registers that spill)."""
    op, cfg = str(step["operator"]).lower(), step.get("config") or {}
    if "thread_call" not in chip.limits:
        return None
    if "empty" in op:
        return grid_time(cfg["blocks"], 0.0, chip, cfg.get("vf_calls", 1)) * 1e6
    if "atomic" in op:
        return _sums(step, chip) * 1e6
    name = next((n for n in SLOTS if n in op), None)
    sizes = [prod(s) for s in step["shapes"].values() if isinstance(s, list)]
    if name is None or not sizes or cfg.get("spilled_bytes"):
        return None
    said, by_threads = str(step["step"]), "threads_per_block" in cfg
    tiled = "ub_tile_shape" in cfg or "UB" in said
    if (tiled and not by_threads) or "copy engine" in said or "SIMD" in said:
        return _copied(step, chip, name, sizes) * 1e6
    return _tiled(step, chip, sizes[-1]) * 1e6 if tiled else _direct(step, chip, name, sizes) * 1e6


def _cores(chip: Chip) -> int:
    return int(chip.cores * chip.limits["vector_cores"])


def _width(step: Mapping[str, Any]) -> int:
    """Bytes of an element."""
    return WIDTHS.get(next(iter(step["dtypes"].values()), "f32"), 4)


def _direct(step: Mapping[str, Any], chip: Chip, name: str, sizes: list[int]) -> float:
    """Threads read and write memory."""
    cfg, cores, element, total = step.get("config") or {}, _cores(chip), _width(step), sizes[-1]
    blocks, wide = cfg.get("blocks") or cores, cfg.get("vector_width", 1)
    threads = cfg.get("threads_per_block") or (2048 if name in ("transpose", "copy") else 1024)
    inputs, side = 2 if name in PAIRS else 1, max(1.0, element * wide * WARP / SECTOR)
    loads = side + WARP if name == "gather" else inputs * side
    r = Round(loads, WARP if name == "transpose" else side, 2 if name == "gather" else 1, SLOTS[name])
    rounds = -(-total // (wide * blocks * threads))
    read = inputs * total + (min(sizes[0], total * SECTOR / element) if name == "gather" else 0)
    shared = memory_seconds(read * element, total * element, chip) / -(-blocks // cores) if blocks >= cores else 0.0
    return grid_time(blocks, block_time(r, rounds, threads, chip, shared), chip)


def _tiled(step: Mapping[str, Any], chip: Chip, total: int) -> float:
    """Threads bring tiles to unified buffer, and turn them on the way out."""
    cfg, threads = step["config"], step["config"]["threads_per_block"]
    side = int(cfg.get("ub_tile_shape", (32, 32))[1]) * _width(step)
    ways = 1 + conflicts(side + (PAD if cfg.get("bank_conflict_free") else 0))
    one = cfg.get("buffers", 1) > 1  # the next tile goes elsewhere: nobody waits for its readers
    blocks = cfg.get("blocks") or _cores(chip)
    r = Round(1, 1, 1, SLOTS["transpose"], ways, 1 if one else 2)
    return grid_time(blocks, block_time(r, -(-total // (blocks * threads)), threads, chip), chip)


def _copied(step: Mapping[str, Any], chip: Chip, name: str, sizes: list[int]) -> float:
    """The copy engine brings tiles to unified buffer, threads (or vector instructions) compute there."""
    cfg, said, cores, element, total = step.get("config") or {}, str(step["step"]), _cores(chip), _width(step), sizes[-1]
    turned, inputs = name == "transpose", 2 if name in PAIRS else 1
    shape = cfg.get("ub_tile_shape") or ([32, 32] if turned else [1, cfg.get("threads_per_block") or 8192])
    tiles, tile = 2 if turned else 1, prod(shape)
    few = re.search(r"each block (\d+) tiles", said)
    blocks = int(total // (tile * int(few[1])) if few else cfg.get("blocks") or cores)
    if "SIMD" in said:
        compute = tile * element / chip.vector_bytes * REMAINDER / chip.clock
    else:
        padded = 0 if cfg.get("bank_conflict_free") is False else BLOCK
        apart = shape[1] * element + padded if turned else 8 * element if "non-contiguous" in said else element
        ways = conflicts(apart) + 1 if turned else (inputs + 1) * conflicts(apart)
        compute = chip.limits["thread_call"] + computing(Round(slots=SLOTS[name], ways=ways), tiles * tile / WARP, chip)
    rounds, bytes_ = total / (tiles * tile * blocks), float(tile * element)
    slots = int(cfg.get("buffers") or (1 if turned or rounds == 1 else 2))
    into, out = (bytes_,) * inputs * tiles, (bytes_,) * tiles
    if slots == 1:  # one buffer for both ways: in turn
        into, out = into + out, ()
    s = Stream(rounds, into, out, compute * chip.clock, 0, slots, shape[1] * element)
    shared = memory_seconds(inputs * total * element, total * element, chip, bypass=not turned) if blocks <= cores else 0.0
    return grid_time(blocks, stream_time(s, chip, shared), chip, 0)


def _sums(step: Mapping[str, Any], chip: Chip) -> float:
    """Atomic sums, one a thread."""
    cfg, shapes = step["config"], step["shapes"]
    blocks, threads = (int(n) for n in re.split("[×x]", shapes["blocks_x_threads"]))
    s = Sums(blocks, threads, shapes["addresses"], _width(step), cfg["return_value"] == "Yes")
    return sums_in_buffer(s, chip) if cfg["memory"] == "UB" else sums_in_memory(s, chip)
