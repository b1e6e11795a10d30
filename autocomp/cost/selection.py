"""The first k of rows by a selection over the bits of their keys (`radix_topk`): which threads have a row, and what they take."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

from autocomp.cost.derived import constant
from autocomp.ir.coded import SELECTED
from autocomp.ir.types import F32, U8, dim_hint

if TYPE_CHECKING:
    from autocomp.cost.chip import Chip
    from autocomp.ir.node import Attrs
    from autocomp.ir.types import DType, TensorType

WARP = int(constant("radix_warp"))
MOST = int(constant("radix_threads"))  # of a block that has one row
HELD = int(constant("radix_holds")) // (F32.bytes * MOST)  # words of keys that a thread holds
DIGIT = int(constant("radix_digit"))  # bits of a key that one pass of a sort tells apart
UNDER_WAY = int(constant("radix_under_way"))  # rows that are sorted at a time at most, each with two buffers
PAIR = 2 * F32.bytes  # bytes of a key of one word with its place; twice that for two words


def team_of(n: int, words: int) -> tuple[int, int, int]:
    """Threads of a row of n keys of so many words, rows of a block, and keys that a thread holds, 0 where a row is too long for that."""
    if n <= constant("radix_short"):
        return WARP, int(constant("radix_beside")), -(-n // WARP)
    team = int(constant("radix_least"))
    while team < MOST and n * words > team * HELD:
        team *= 2
    return team, 1, -(-n // team) if n * words <= team * HELD else 0


def selection_seconds(attrs: Attrs, x: TensorType, chip: Chip) -> float:
    """What a selection takes beside the bytes of its operand and its result; symbols at their hints.

    A row is a chain: each bit is a pass over its keys and a sum that its threads agree on, then a network's steps follow each other. A core
    has as many rows at once as its registers hold; it is busy with all of its rows, or waits for one chain after the other. Keys that are
    not held are read again in each pass: three where the threads' first ones tell which are wanted. Where an element's neighbours are of
    other rows, each one that is read is a sector."""
    of, k, n = chip.numbers, attrs["k"], dim_hint(x.shape[attrs["axis"]])
    if k > SELECTED:
        return _sort_seconds(n, x, chip)
    words = max(1, x.dtype.bits // F32.bits)
    team, _, held = team_of(n, words)
    told = _told(k, n, x.dtype, int(of["radix_apart"])) if k < n else 0
    passes = 1 if held else of["radix_first"] if k <= team else told + 2
    places = 1 << (k - 1).bit_length()
    steps = places.bit_length() * (places.bit_length() - 1) // 2

    each = told * of["radix_count"] + of["radix_made"] if held else passes * of["radix_again"]
    agree = told * of["radix_agree"] * team / WARP if team > WARP else told * of["radix_agree_warp"]
    shared = chip.memory("shared").bandwidth / (chip.cores * chip.clock)
    moved = 2 * places * steps * words * PAIR * of["radix_conflicts"] / shared
    busy = n * words * each / (of["integer"] * WARP) + agree / of["issue"] + moved
    chain = busy + told * of["radix_agree_clocks"] + steps * of["radix_step_clocks"] + of["block"] * chip.clock
    rows = -(-x.elements // n // chip.cores)
    at_once = max(1, int(chip.registers.count // (of["radix_registers"] * team)))
    apart = any(d != 1 for d in x.shape[attrs["axis"] + 1 :])
    near = x.elements * (passes * of["sector"] if apart else (passes - 1) * x.dtype.bytes)
    return max(rows * busy, -(-rows // at_once) * chain) / chip.clock + near / of["l2_rate"]


def _sort_seconds(n: int, x: TensorType, chip: Chip) -> float:
    """What a sort takes beside the bytes of its operand and its result: a core goes through its rows one after the other, through each once
    for each digit, in which its keys are read twice and written once."""
    rows = -(-x.elements // n // min(chip.cores, UNDER_WAY))
    passes, words = U8.bits * x.dtype.bytes // DIGIT, max(1, x.dtype.bits // F32.bits)
    each = n * words * chip.numbers["radix_sort_key"] + chip.numbers["radix_sort_pass"]
    return rows * passes * each / chip.clock


def _told(k: int, n: int, dtype: DType, apart: int) -> int:
    """Passes until the k-th key is known. Of floats sign and exponent come first, then as many bits of the mantissa as tell k neighbours
    apart; integers lie evenly. Where a type has fewer bits many numbers are equal, and a place among all is found, too."""
    bits = max(U8.bits, dtype.bits)
    whole = bits + round(log2(dtype.eps)) if dtype.is_float else 0
    wanted = whole + (k if dtype.is_float else n).bit_length() + apart
    return wanted if wanted <= bits else bits + n.bit_length()
