"""Steps in depth at which a factor is zero in all of a block's tile are not made (directive `skip_dead_steps`): a transposed convolution of
5 x 5 by 2 has 3 taps in one direction for even places and 2 for odd ones.

    before   serial r0, r1, r2                 after   serial r0, r1, r2  | r0 while -1*i2 - 2*r0 + 4 >= 0
               a = copy x; b = copy w                    ...
               acc += mma a, b

Producer and consumers count a tile's turns by the same numbers; a tile has at least one.
"""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.load_c_halves import AtTurn
from autocomp.targets.cuda.short_last_step import LastTurn
from autocomp.targets.cuda.third_epilogue_stage import ThirdStage
from autocomp.targets.simt.placed import tile_of

from autocomp.ir.affine import Aff
from autocomp.ir.dead_steps import ends_of
from autocomp.tile.program import Loop, Stmt
from autocomp.tile.steps import Over, Scheme, Steps, loops, sayings, told


@dataclass(frozen=True)
class Ends(Scheme):
    """A loop's axes end where these guards do."""

    loop: Loop
    guards: tuple[tuple[str, Aff], ...]

    @property
    def said(self) -> str:
        return ", ".join(f"{a} while {g} >= 0" for a, g in self.guards)


def skip_dead_steps(steps: Steps, facts: Facts) -> Steps:
    """Says it of products' loops whose turns nobody else counts: other blocks, other warpgroups, parts of the loop."""
    counted = any(isinstance(x, (AtTurn, LastTurn, ThirdStage)) for x in sayings(steps))
    if counted or facts.order or facts.stream or facts.parts or facts.together > 1:
        return steps

    def change(n: Over, loop: Loop) -> Over:
        guards = _guards(facts, loop) if facts.rings(loop) and loop.until is None and not loop.back else ()
        return told(n, Ends(loop, guards)) if guards else n

    return loops(steps, change)


def ends(steps: Steps) -> dict[Loop, tuple[tuple[str, Aff], ...]]:
    """The guards of the loops that the pass said so of."""
    return {x.loop: x.guards for x in sayings(steps) if isinstance(x, Ends)}


def _guards(at: Facts, loop: Loop) -> tuple[tuple[str, Aff], ...]:
    """Each axis with a step a turn whose end the tile's place alone decides."""
    single = {a: e for a, e in at.p.axes if isinstance(e, int) and tile_of(at.p, a) == 1 and (a in at.gridded or a in loop.axes)}
    copied = {s.srcs[0] for s in loop.body if isinstance(s, Stmt) and s.op == "copy"}
    found: dict[str, Aff] = {}
    for v in at.p.inputs:
        if v.name in copied and v.fill == 0.0:
            found = ends_of(v.guard, loop.axes, single) | found
    return tuple(found.items())
