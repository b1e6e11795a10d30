"""Seconds of kernels that run threads on an NPU's vector cores: chips whose limits have `thread_*`.

A block has a core alone, and blocks are handed out one after another. Its warps go round a loop in step: all wait for what a round
loads, then all compute. Beside that the core moves sectors of memory: a warp that touches 32 of them moves 32. Main memory, which
the cores share, is a further pipe. Atomic sums take turns: in a sector one at a time, and lanes of a warp that share one too.
"""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.cost.chip import F32, Chip
from autocomp.cost.derived import constant
from autocomp.cost.pipes import together

WARP, SECTOR = int(constant("thread_warp")), int(constant("thread_sector"))
WORD = int(constant("thread_word"))  # lanes that ask for one are served together
BANKS = int(constant("thread_banks"))
EVEN = 2  # sectors of which each has a slice of the cache for itself


@dataclass(frozen=True)
class Round:
    """What a warp does in one turn of its loop.

    loads, stores: sectors of memory that it touches. chain: loads that wait for each other. slots: instructions. ways: turns at the
    banks of unified buffer, of all its accesses. barriers: of the block.
    """

    loads: float = 0.0
    stores: float = 0.0
    chain: float = 0.0
    slots: float = 0.0
    ways: float = 0.0
    barriers: float = 0.0


def conflicts(step: float) -> int:
    """Turns in which the banks of unified buffer serve a warp whose lanes lie `step` bytes apart."""
    words = {int(lane * step) // WORD for lane in range(WARP)}
    banks = [w % BANKS for w in words]
    return max(banks.count(b) for b in set(banks))


def computing(r: Round, warps: float, chip: Chip) -> float:
    """Seconds in which a core computes one round of all its warps."""
    lim = chip.limits
    return warps * (r.slots * lim["thread_slot"] + r.ways * lim["thread_way"]) + r.barriers * lim["thread_barrier"]


def block_time(r: Round, rounds: float, threads: float, chip: Chip, shared: float = 0.0) -> float:
    """Seconds of a block's loop; `shared`: seconds that main memory needs for what all cores do meanwhile."""
    lim, warps = chip.limits, -(-threads // WARP)
    first = r.chain * lim["thread_latency"]  # nothing moves before it
    waits = (rounds - 1) * first + rounds * computing(r, warps, chip)
    moved = rounds * warps * (r.loads * lim["thread_load"] + r.stores * lim["thread_store"])
    return first + together((waits, moved, shared), chip.numbers["pipes_power"])


def grid_time(blocks: int, block: float, chip: Chip, calls: int = 1) -> float:
    """Seconds of a kernel of `blocks` blocks of `block` seconds, each of which calls `calls` functions of threads."""
    lim, cores = chip.limits, chip.cores * chip.limits["vector_cores"]
    whole = lim["thread_start"] + calls * lim["thread_call"] + block
    waves, hand = -(-blocks // cores), lim["thread_block"]
    in_turn = waves * whole + (waves - 1) * lim["thread_next"]
    return chip.launch + max(hand * min(blocks, cores) + in_turn, hand * blocks + whole)


@dataclass(frozen=True)
class Sums:
    """Atomic sums, one a thread, shared out evenly among `targets` elements that lie side by side.

    blocks, threads: of the kernel and of a block. element: bytes. returned: what was there before is wanted.
    """

    blocks: int
    threads: int
    targets: int
    element: int
    returned: bool


def sums_in_memory(s: Sums, chip: Chip) -> float:
    """Seconds of a kernel of atomic sums in memory.

    Without a result, and in 32 bits, a warp's sums of distinct elements of a sector are one operation.
    """
    lim, in_sector = chip.limits, SECTOR // s.element
    sectors = -(-s.targets // in_sector)
    each = s.blocks * s.threads / sectors
    if not s.returned and s.element == F32:
        each /= min(in_sector, s.targets, WARP)
        queue, alone = each * lim["atomic_merged"], each / s.blocks * lim["atomic_merged_core"]
    else:
        spread = lim["atomic_spread"] if sectors > EVEN else 1.0  # slices of the cache do not get equal shares
        queue = each * spread * lim["atomic"]
        alone = (min(WARP, in_sector) if sectors > 1 else WARP) * lim["atomic_alone"]
    # The first block's sums begin while further ones are handed out.
    return grid_time(s.blocks, max(queue - s.blocks * lim["thread_block"], alone, 0.0), chip)


def sums_in_buffer(s: Sums, chip: Chip) -> float:
    """Seconds of a kernel whose blocks sum in unified buffer; of several blocks each adds its own to memory, behind a barrier."""
    lim = chip.limits
    block = s.threads * lim["atomic_ub_returned" if s.returned else "atomic_ub"]
    if s.blocks > 1:
        block += s.blocks * lim["atomic_merged"]
    return grid_time(s.blocks, block, chip)
