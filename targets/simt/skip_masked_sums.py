"""Sums are not made in tiles where a mask of indices takes none of them (directive `skip_masked_sums`): the upper triangle of a product.

    before   serial r0                              after   serial r0
               a = copy x; b = copy y                         | run in tiles where i1 - i0 >= 0 somewhere
               acc += mma a, b                                ...
             y = map where(i1 - i0 >= 0, acc, 0)            y = map where(i1 - i0 >= 0, acc, 0)

The mask is the tile's own, so all threads of a block go on alike; the sums of a tile that is passed over are zeros, which nobody reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.targets.simt import direct_mainloop
from autocomp.targets.simt.facts import Facts

from autocomp.ir.affine import Aff
from autocomp.ir.body import Expr
from autocomp.ir.masks import masked_by
from autocomp.tile.program import Loop, Stmt, Value, walk
from autocomp.tile.steps import Over, Scheme, Steps, inside, loops, sayings, told


@dataclass(frozen=True)
class Wanted(Scheme):
    """A loop is run in tiles where all guards may be at least 0."""

    loop: Loop
    guards: tuple[Aff, ...]

    @property
    def said(self) -> str:
        return f"run in tiles where {' and '.join(f'{g} >= 0' for g in self.guards)} somewhere"


def skip_masked_sums(steps: Steps, facts: Facts) -> Steps:
    """Says so of loops of sums whose readers all ask the same of their indices first."""

    def change(n: Over, loop: Loop) -> Over:
        guards = _guards(n, loop, facts)
        return told(n, Wanted(loop, guards)) if guards else n

    return loops(steps, change) if facts.place.cluster == 1 else steps  # blocks of a cluster meet in a loop


def wanted(steps: Steps) -> dict[Loop, tuple[Aff, ...]]:
    """The guards of the loops that the pass said so of."""
    return {x.loop: x.guards for x in sayings(steps) if isinstance(x, Wanted)}


def _guards(n: Over, loop: Loop, facts: Facts) -> tuple[Aff, ...]:
    p = facts.p
    mine = list(inside(n.body))
    if loop.kind not in ("serial", "pipelined") or loop.until is not None or any(s.op == "store" for s in mine):
        return ()
    if loop.kind == "pipelined" and direct_mainloop.product_of(facts.place, loop):
        return ()
    sums = {s.dst for s in mine if s.acc}
    made = {s.dst for s in mine}
    readers = [s for s, around in walk(p.body) if loop not in around and made & {*s.srcs}]
    if any((made - sums) & {*s.srcs} for s in readers):
        return ()
    asked = {_asked(s, sums) for s in readers}
    guards = asked.pop() if len(asked) == 1 else ()
    turning = {a for _, around in walk(p.body) for x in around if x.kind != "grid" for a in x.axes}
    of_tile = {a for a, e in p.axes if isinstance(e, int)} - turning
    return guards if all(g.names() <= of_tile and all(isinstance(a, str) for a, _ in g.terms) for g in guards) else ()


def _asked(s: Stmt, sums: set[str]) -> tuple[Aff, ...]:
    reads = lambda e: isinstance(e, Value) and e.name in sums
    found = masked_by(s.expr, reads) if s.op == "map" and isinstance(s.expr, Expr) else None
    return found or ()
