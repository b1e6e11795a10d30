"""Launch bounds that name the least blocks of a core (directive `min_blocks`).

    before   __launch_bounds__(128)       the compiler saves registers: loads of a loop's turn are asked for among the sums that want them
    after    __launch_bounds__(128, 1)    it has all registers of a thread: what a turn loads is asked for first, factors are kept ahead

It pays where a turn has much to ask for and little else to hide that behind: windows whose taps are turns of a loop, and sums that a loop
carries (one row by 4096 x 6144 0.75 of the time in the mean of eight schedules, sums of 8865 x 1128 columns 0.76; H200, 2026-11-30). Where
a turn loads little, compilers spend the registers otherwise (a group norm of 35 x 32 x 256 x 256 1.17 times as long); where rows stay in
registers, blocks beside each other hide more than the order saves (divergences of rows of 18186 1.2 times as long; both the same day);
products thread by thread lose the order in which one factor stays where it was (25 drawn f32 products 0.8 % slower; H200, 2026-11-29).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from autocomp.targets.simt.placed import Placement

from autocomp.ir.affine import Aff
from autocomp.ir.types import dim_hint
from autocomp.tile.program import Loop, Tensor, TileProgram, walk

AHEAD = 12  # accesses that a turn begins with where the compiler saves registers; source: listings of drawn windows (NVRTC 13.0, sm_90a)
KEPT = 4  # loads of sums that a loop carries which the compiler keeps under way; source: listings of sums over rows and columns (the same)
WIDEST = 16  # bytes of a load
TOGETHER = 16  # of the others, those that are waited for together: 24 to 29 us of 99 and 198 accesses a turn, H100, 2026-11-28


def pays(p: TileProgram, at: Placement) -> bool:
    """Whether a program has turns that load windows, or parts of a sum, into registers."""
    return any(turning(p, at)) or bool(carried(p, at))


def carried(p: TileProgram, at: Placement) -> frozenset[str]:
    """The fragments that copies in a loop's turns fill, of a program without products some of whose turns load more than compilers keep
    under way; none where what stays outside of loops takes the registers (rows of a softmax)."""
    turns: dict[int, float] = {}  # loop -> loads of 16 bytes
    names = set()
    for name, t, loop in _loads(p, at):
        held = at.layouts[name].registers
        if loop is None:
            if held > KEPT:
                return frozenset()
            continue
        names.add(name)
        turns[id(loop)] = turns.get(id(loop), 0.0) + held * t.dtype.bytes / WIDEST
    return frozenset(names) if not at.products and max(turns.values(), default=0.0) > KEPT else frozenset()


def turning(p: TileProgram, at: Placement) -> Iterator[str]:
    """The fragments that copies in a loop's turns fill with windows that overlap."""
    return (name for name, t, loop in _loads(p, at) if loop is not None and any(_overlap(p, i) for i in t.index))


def _loads(p: TileProgram, at: Placement) -> Iterator[tuple[str, Tensor, Loop | None]]:
    """Fragments that copies fill from memory, the views that they read, and the innermost loop that takes turns around each."""
    for s, loops in walk(p.body):
        t = p.tensor(s.srcs[0]) if s.op == "copy" else None
        if t is not None and s.dst in at.layouts and s.dst not in at.shared:
            yield s.dst, t, next((x for x in reversed(loops) if x.kind in ("serial", "pipelined")), None)


def _overlap(p: TileProgram, i: Aff) -> bool:
    """Whether steps of one axis of a dimension are shorter than another axis goes (a reduction's part begins where the last one ends)."""
    axes = dict(p.axes)  # an index may compute with an open size, too
    steps = sorted((abs(i.coef(n)), n) for n in i.names() if n in axes)
    return any(0 < wide < step * dim_hint(p.extent(n)) for (step, n), (wide, _) in pairwise(steps))


def waits(accesses: float, ahead: float = AHEAD, together: float = TOGETHER) -> float:
    """How often a turn waits for so many loads where the compiler saves registers."""
    return 1.0 + max(0.0, accesses - ahead) / together
