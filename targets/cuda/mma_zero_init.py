"""Accumulators that the first matrix instruction overwrites (directive `mma_zero_init`; PTX: wgmma's scale-d = 0): no zeros are written
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autocomp.tile.program import Loop, Stmt, walk

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


def starts(at: WarpSpecialisedPrinter, fill: Stmt, behind: Sequence[Loop | Stmt]) -> bool:
    """Whether a product starts what is filled: the next statement that touches it, or the first turn of a loop of copies and products
    that has one for certain (128 registers of a thread took 200 clocks a tile; 4096 cubed, H200, 2026-11-21)."""
    n = next((n for n in behind if any(fill.dst in (s.dst, *s.srcs) for s, _ in walk((n,)))), None)
    if n is None or fill.expr != 0 or "mma_zero_init" not in at.directives:
        return False
    if isinstance(n, Stmt):
        if n.op != "mma" or n.dst != fill.dst:
            return False
        at.empty.add(fill.dst)
        return at.wants("mma_zero_init")
    known = all(isinstance(at.p.extent(a), int) and at.p.extent(a) > 0 for a in n.axes)
    if not known or n.until is not None or at.stream or at.parts or not any(q.loop is n for q in at.queues):
        return False
    if not all(isinstance(s, Stmt) and s.op in ("copy", "mma") for s in n.body):
        return False
    at.afresh.add(fill.dst)
    return at.wants("mma_zero_init")
