"""Software pipelining (loops of the kind `pipelined`; PTX: cp.async with groups): the copies of a loop's factors go into a ring of slots
and are started several turns ahead, so that they are under way while products of earlier turns run.

    before   pipelined r0 stages=3        after   a ring of 3 slots
               a = copy x                           pipelined r0 stages=3
               b = copy y                             | its turns before 2
               acc += mma a, b                        start a, b
                                                    pipelined r0 stages=3
                                                      await a, b
                                                      start a, b, 2 turns ahead
                                                      acc += mma a, b
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.simt import copies, direct_mainloop, prefetch_factors, thread_partials
from autocomp.targets.simt.facts import Facts

from autocomp.tile.plan import Claim, Landed, Slots, Turn
from autocomp.tile.program import Stmt
from autocomp.tile.steps import Act, Over, Scheme, Step, Steps, bodies, by, stmt_of

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer


@dataclass(frozen=True)
class Ring(Scheme):
    """The turns of a loop whose copies a ring of so many slots holds."""

    slots: int

    says = "a ring of {0.slots} slots"


@dataclass(frozen=True)
class FirstTurns(Scheme):
    """A loop's first turns alone."""

    turns: int

    says = "its turns before {0.turns}"


@dataclass(frozen=True)
class Start(Scheme):
    """Copies are started, of the turn that is so many ahead."""

    copies: tuple[Stmt, ...]
    ahead: int = 0

    @property
    def does(self) -> tuple[Stmt, ...]:
        return self.copies

    @property
    def said(self) -> str:
        return f"start {', '.join(s.dst for s in self.copies)}{f', {self.ahead} turns ahead' if self.ahead else ''}"


@dataclass(frozen=True)
class Await(Scheme):
    """The copies of this turn have landed, for all threads."""

    copies: tuple[Stmt, ...]

    @property
    def said(self) -> str:
        return f"await {', '.join(s.dst for s in self.copies)}"


def software_pipeline(steps: Steps, facts: Facts) -> Steps:
    """Splits each pipelined loop that copies factors into shared memory."""
    stages = facts.place.stages

    def change(n: Step) -> Step:
        loop = n.loop if isinstance(n, Over) else None
        if not isinstance(n, Over) or loop is None or loop.kind != "pipelined" or direct_mainloop.product_of(facts.place, loop):
            return n
        ring = tuple(s for m in n.body if (s := stmt_of(m)) and s.op == "copy" and s.dst in facts.place.shared)
        rest = tuple(m for m in n.body if stmt_of(m) not in ring)
        first = Over((Act(Start(ring)),), loop, (FirstTurns(stages - 1),))
        turns = Over((Act(Await(ring)), Act(Start(ring, stages - 1)), *rest), loop, n.how)
        return Over((first, turns), None, (Ring(stages),)) if ring else n

    return bodies(steps, lambda body: tuple(map(change, body))) if stages > 1 else steps


def write(at: Printer, n: Over, slots: int) -> None:
    """The loop's text."""
    turns = n.body[1]
    assert isinstance(turns, Over) and turns.loop is not None
    loop, ring = turns.loop, [s for m in turns.body if (x := by(m, Await)) for s in x.copies]
    rest = [m for m in turns.body if not (by(m, Await) or by(m, Start))]
    total, it, ahead = at.turns(loop), at.names.fresh("it"), slots - 1
    at.plan(Claim(tuple(s.dst for s in ring)))
    with at.block(f"for (int {it} = 0; {it} < {ahead}; ++{it})", again=it, turns=ahead):
        at.issue(ring, loop, it, total, it, Slots(it, 0, slots))
    at.ring_slots.update({s.dst: Slots(it, 0, slots) for s in ring})
    asked = prefetch_factors.begin(at, turns, loop)
    late = thread_partials.defer(at, turns)
    with at.block(f"for (int {it} = 0; {it} < {total}; ++{it})", again=it):
        at.bases(loop, it)
        at.plan(Turn(tuple(s.dst for s in ring), slots - 2, sum(copies.of_thread(at, s) for s in ring)))
        soon = at.names.fresh("ahead")
        at.put(f"const int {soon} = {it} + {ahead};")
        at.issue(ring, loop, soon, total, f"{soon} % {slots}", Slots(it, ahead, slots))
        slot = at.names.fresh("slot")
        at.put(f"const int {slot} = {it} % {slots};")
        at.slot.update((s.dst, slot) for s in ring)
        at.turning = (loop, it, total)
        at.run(rest)
    for a in loop.axes:
        at.base.pop(a)
    prefetch_factors.end(at, asked)
    at.plan(Landed(0))
    at.ring_slots.clear()
    thread_partials.settle(at, late)
