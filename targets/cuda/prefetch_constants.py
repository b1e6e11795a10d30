"""Prefetch of constants before programmatic dependent launch's wait (directive `prefetch_constants`; PTX: griddepcontrol.wait): copies of
weights into the ring start while the kernel before is still running, since no kernel writes them.

Where launches overlap, a block may stand ready while the kernel before it ends. Its producer then fills the first slots of its ring with
what comes of weights, waits, and sends the rest of these turns; behind them, a turn's copies go together as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.cuda import queues

from autocomp.tile.program import Loop, Stmt

if TYPE_CHECKING:
    from autocomp.targets.cuda.queues import Queue
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


@dataclass(frozen=True)
class PrefetchedConstants:
    """`constants`: the copies of `queue` that need not wait; `turns`: the variable with the number of turns that they are ahead."""

    queue: Queue
    constants: tuple[Stmt, ...]
    turns: str


def stays(at: WarpSpecialisedPrinter, copies: Sequence[Stmt]) -> bool:
    """Whether no kernel writes what these copies read."""
    return all(at.placer.bulk[s.dst].view.constant for s in copies)


def find_prefetched_constants(at: WarpSpecialisedPrinter, body: Sequence[Loop | Stmt]) -> PrefetchedConstants | None:
    """The first ring of a tile that brings constants; None where launches do not overlap, and where all tiles share what others write."""
    if not at.overlaps or any(q.resident and not stays(at, q.copies) for q in at.queues):
        return None
    for n in body:
        for q in at.queues:
            constants = tuple(s for s in q.copies if stays(at, [s]))
            if constants and not q.resident and (q.loop is n or (q.loop is None and n in q.copies)) and at.wants("prefetch_constants"):
                return PrefetchedConstants(q, constants, at.names.fresh("early"))
    return None


def preload(at: WarpSpecialisedPrinter, x: PrefetchedConstants) -> None:
    """At the beginning of a block's first tile: constants of as many turns as the ring has slots; then the wait."""
    q = x.queue
    with at.block(f"if ({q.name} == 0)") if at.persistent else nullcontext():
        if q.loop is None:
            at.put(f"{x.turns} = 1;")
            queues.expect(at, q, "0")
            queues.start(at, q, x.constants, "0", "0")
        else:
            it = at.names.fresh("it")
            begin, total = queues.span(at, q.loop)
            at.put(f"{x.turns} = ac_min({q.depth}, {total});")
            with at.block(f"for (int {it} = 0; {it} < {x.turns}; ++{it})"):
                at.bases(q.loop, begin(it))
                queues.expect(at, q, it if q.depth > 1 else "0")
                queues.start(at, q, x.constants, it, it if q.depth > 1 else "0")
            for a in q.loop.axes:
                at.base.pop(a)
        at.meet_launches()
