"""Slots of rings that are constants (directive `unroll_ring`): a loop's text is repeated as often as its rings have slots.

    before   serial r1  | o += mma p, v runs a turn late, ..      after   serial r1  | ..  | unrolled 2 times, so that slots are constants
"""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.softmax_overlap import Overlapped

from autocomp.tile.program import Loop
from autocomp.tile.steps import Over, Scheme, Steps, by, loops, told


@dataclass(frozen=True)
class Unrolled(Scheme):
    """A loop's text is repeated so often."""

    times: int

    says = "unrolled {0.times} times, so that slots are constants"


def unroll_ring(steps: Steps, facts: Facts) -> Steps:
    """Repeats a loop's text as often as its rings have slots, where every tile's turns begin at the first slot and an even round; not
    where a mask ends the loop (0.44 to 0.45 ms of causal attention)."""

    def change(n: Over, loop: Loop) -> Over:
        x, mine = by(n, Overlapped), facts.rings(loop)
        if x is None or loop.opt("overlap") != "2" or loop.until is not None:
            return n
        depth, turns = mine[0].depth, facts.turns(loop)
        begins = not facts.persistent or (turns > 0 and turns % (2 * depth) == 0)
        return told(n, Unrolled(depth)) if begins and depth > 1 and all(q.depth == depth for q in mine) else n

    return loops(steps, change)
