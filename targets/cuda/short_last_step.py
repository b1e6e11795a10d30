"""A shorter last step (directive `short_last_step`): where the depth is no multiple of the tile, the products of a loop's last turn take
only the steps that there are. What is copied from beyond the end of the depth is zero.

    before   serial r0                 after   serial r0  | steps in depth of its last turn: 1
"""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.softmax_overlap import Overlapped
from autocomp.targets.simt.placed import tile_of

from autocomp.tile.program import Loop
from autocomp.tile.steps import Over, Scheme, Steps, by, loops, stmt_of, told


@dataclass(frozen=True)
class LastTurn(Scheme):
    """A loop's last turn multiplies so many steps in depth, fewer than the others."""

    steps: int

    says = "steps in depth of its last turn: {0.steps}"


def short_last_step(steps: Steps, facts: Facts) -> Steps:
    """Says of each product's loop how short its last turn is."""

    def change(n: Over, loop: Loop) -> Over:
        fewer = _last_steps(facts, loop, n.body) if facts.rings(loop) and not by(n, Overlapped) else 0
        return told(n, LastTurn(fewer)) if fewer else n

    return loops(steps, change)


def _last_steps(at: Facts, loop: Loop, body: Steps) -> int:
    """How many steps in depth the products of a loop's last turn take, where that is fewer than those of the others. 0 where it is as
    many, or the program does not know."""
    if len(loop.axes) != 1 or loop.until is not None or at.stream or at.parts:
        return 0
    (axis,) = loop.axes
    extent, tile = at.p.extent(axis), tile_of(at.p, axis)
    if not isinstance(extent, int) or extent < tile or extent % tile == 0:
        return 0
    of = [at.place.products[s] for n in body if (s := stmt_of(n)) and s.op == "mma"]
    if len({(x.steps, x.instruction.k) for x in of}) != 1 or any(x.k != ((axis, tile),) for x in of):
        return 0
    steps = -(-(extent % tile) // of[0].instruction.k)
    return steps if steps < of[0].steps else 0
