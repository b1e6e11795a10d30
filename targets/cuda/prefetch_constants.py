"""Prefetch of constants before programmatic dependent launch's wait (directive `prefetch_constants`; PTX: griddepcontrol.wait): copies of
weights into the ring start while the kernel before is still running, since no kernel writes them.

Where launches overlap, a block may stand ready while the kernel before it ends. Its producer then fills the first slots of its ring with
what comes of weights, waits, and sends the rest of these turns; behind them, a turn's copies go together as ever.

    before   producer                      after   producer
               await earlier launches                no turn of q0 is ahead
               grid ..                               grid ..
                 serial r0                             first of all tiles: send w into all slots of q0, await earlier launches
                   send q0: x, w                       serial r0
                                                         send q0: x, w
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autocomp.targets.cuda import queues
from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.pdl import stays
from autocomp.targets.cuda.warp_specialise import Send, tile_of_role
from autocomp.targets.simt.pdl import AwaitLaunches

from autocomp.tile.program import Stmt
from autocomp.tile.steps import Act, Over, Scheme, Step, Steps, by, sayings

if TYPE_CHECKING:
    from autocomp.targets.cuda.queues import Queue
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


@dataclass(frozen=True)
class Ahead(Scheme):
    """No turn of a ring has its constants ahead yet."""

    queue: str

    says = "no turn of {0.queue} is ahead"


@dataclass(frozen=True)
class SendAhead(Scheme):
    """In a block's first tile: constants of as many turns as the ring has slots; then the wait for earlier launches."""

    queue: str
    constants: tuple[Stmt, ...]

    @property
    def said(self) -> str:
        return f"first of all tiles: send {', '.join(s.dst for s in self.constants)} into all slots of {self.queue}, await earlier launches"


@dataclass(frozen=True)
class PrefetchedConstants:
    """The same in a kernel; `turns`: the variable with the number of turns that they are ahead."""

    queue: Queue
    constants: tuple[Stmt, ...]
    turns: str


def prefetch_constants(steps: Steps, facts: Facts) -> Steps:
    """Sends the constants of a tile's first ring that has some in front of the producer's wait; not where all tiles share what others
    write."""
    producer = steps[0]
    if not facts.overlaps or not isinstance(producer, Over) or any(q.resident and not stays(facts, q.copies) for q in facts.queues):
        return steps
    found = next((x for n in tile_of_role(producer)[1] if (x := _constants(facts, n))), None)
    if found is None:
        return steps
    *before, tile = (Act(Ahead(found.queue)) if by(n, AwaitLaunches) else n for n in producer.body)
    assert isinstance(tile, Over)
    return (replace(producer, body=(*before, replace(tile, body=(Act(found), *tile.body)))), *steps[1:])


def _constants(facts: Facts, n: Step) -> SendAhead | None:
    """The constants among what a step of a tile sends, in each of its turns where it is a loop."""
    sends = [x for m in (n.body if isinstance(n, Over) else (n,)) if (x := by(m, Send))]
    mine = ((x, tuple(s for s in x.copies if stays(facts, [s]))) for q in facts.queues for x in sends if x.queue == q.name)
    return next((SendAhead(x.queue, constants) for x, constants in mine if constants), None)


def named(at: WarpSpecialisedPrinter, steps: Steps) -> PrefetchedConstants | None:
    """What is sent ahead, with its variable."""
    x = next((x for x in sayings(steps) if isinstance(x, SendAhead)), None)
    q = next((q for q in at.queues if x and q.name == x.queue), None)
    return PrefetchedConstants(q, x.constants, at.names.fresh("early")) if x and q else None


def preload(at: WarpSpecialisedPrinter, x: PrefetchedConstants) -> None:
    """Prints what a `SendAhead` says."""
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
