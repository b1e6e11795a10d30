"""The producer's text: waits for free slots and starts copies into them, as its role's steps say (`warp_specialise`)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from autocomp.targets.cuda import load_c, queues
from autocomp.targets.cuda.prefetch_constants import Ahead, SendAhead, preload
from autocomp.targets.cuda.warp_specialise import Send, SendC, tile_of_role

from autocomp.tile.steps import Over, Steps, by

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


def produce(at: WarpSpecialisedPrinter, role: Over) -> None:
    """The producing thread."""
    queues.counters(at)
    before, tile = tile_of_role(role)
    _steps(at, before)
    with at.tiles():
        _steps(at, tile)
        queues.turned(at, None)


def _steps(at: WarpSpecialisedPrinter, steps: Steps) -> None:
    for n in steps:
        if isinstance(n, Over) and n.loop:
            it = at.names.fresh("it")
            begin, total = queues.span(at, n.loop)
            with at.block(f"for (int {it} = 0; {it} < {total}; ++{it})", again=it):
                at.bases(n.loop, begin(it))
                _steps(at, n.body)
                queues.turned(at, n.loop)
            for a in n.loop.axes:
                at.base.pop(a)
        elif sent := by(n, Send):
            queues.send(at, next(q for q in at.queues if q.name == sent.queue))
        elif by(n, SendC) and at.load_c:
            with at.block(f"if ({at.stream.begin} == 0)") if at.stream else nullcontext():  # who begins a tile finishes it
                load_c.send(at, at.load_c)
        elif by(n, Ahead) and at.prefetched:
            at.put(f"int {at.prefetched.turns} = 0;")
        elif by(n, SendAhead) and at.prefetched:
            preload(at, at.prefetched)
        else:
            at.meet_launches()
