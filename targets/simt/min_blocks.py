"""Launch bounds that name the least blocks of a core (directive `min_blocks`).

    before   __launch_bounds__(128)       the compiler saves registers: loads of a loop's turn are asked for among the sums that want them
    after    __launch_bounds__(128, 1)    it has all registers of a thread: what a turn loads is asked for first, factors are kept ahead
             __launch_bounds__(128, 3)    products thread by thread: all that leave room for the blocks that the price counts on

It pays where a turn has much to ask for and little else to hide that behind: windows whose taps are turns of a loop, and products thread
by thread. Elsewhere blocks beside each other hide more than registers save.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from autocomp.targets.simt.placed import WORD, Placement

from autocomp.cost.blocks import blocks_beside
from autocomp.cost.chip import Chip
from autocomp.cost.lanes import PIECE
from autocomp.ir.affine import Aff
from autocomp.ir.types import dim_hint
from autocomp.tile.program import TileProgram, walk

AHEAD = 12  # accesses that a turn begins with where the compiler saves registers; source: listings of drawn windows (NVRTC 13.0, sm_90a)
TOGETHER = 16  # of the others, those that are waited for together: 24 to 29 us of 99 and 198 accesses a turn, H100, 2026-11-28


def pays(p: TileProgram, at: Placement) -> bool:
    """Whether a program has products thread by thread, or turns that load windows into registers."""
    return any(not x.instruction.call for x in at.products.values()) or any(turning(p, at))


def resident(at: Placement, chip: Chip, blocks: int) -> int:
    """Blocks of a core that bounds name, of so many in the grid: one, and where products are thread by thread as many as find room for
    what a thread holds of results and of both factors: one register more would leave one out, and compilers take what they are given
    (218 of 32 x 256 results by 128 threads where three blocks leave 168: 180 us, 121 by the price; H200, 2026-11-28)."""
    own = [x for x in at.products.values() if not x.instruction.call and x.a in at.shared and x.b in at.shared]
    read = lambda x, n, first: x.part(first).registers * (PIECE if x.deep(at.shared[n]) else 1)
    words = lambda x: max(1, at.shared[x.a].buf.dtype.bytes // WORD)
    held = [words(x) * (x.layout.registers + read(x, x.a, True) + read(x, x.b, False)) for x in own]
    return blocks_beside(chip, at.threads, max(held), at.bytes, blocks) if held else 1


def turning(p: TileProgram, at: Placement) -> Iterator[str]:
    """The fragments that copies in a loop's turns fill with windows that overlap."""
    for s, loops in walk(p.body):
        t = p.tensor(s.srcs[0]) if s.op == "copy" and any(x.kind in ("serial", "pipelined") for x in loops) else None
        if t is not None and s.dst in at.layouts and s.dst not in at.shared and any(_overlap(p, i) for i in t.index):
            yield s.dst


def _overlap(p: TileProgram, i: Aff) -> bool:
    """Whether steps of one axis of a dimension are shorter than another axis goes (a reduction's part begins where the last one ends)."""
    steps = sorted((abs(i.coef(n)), n) for n in i.names())
    return any(0 < wide < step * dim_hint(p.extent(n)) for (step, n), (wide, _) in pairwise(steps))


def waits(accesses: float) -> float:
    """How often a turn waits for so many loads where the compiler saves registers."""
    return 1.0 + max(0.0, accesses - AHEAD) / TOGETHER
