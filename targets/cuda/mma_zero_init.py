"""Accumulators that the first matrix instruction overwrites (directive `mma_zero_init`; PTX: wgmma's scale-d = 0): no zeros are written
before.

    before   acc = fill 0                after   serial r0
             serial r0                             acc += mma a, b  | its first turn overwrites
               acc += mma a, b

128 registers of a thread took 200 clocks a tile; 4096 cubed, H200, 2026-11-21.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autocomp.targets.cuda.facts import Facts

from autocomp.tile.program import Stmt
from autocomp.tile.steps import Do, Over, Scheme, Step, Steps, bodies, inside, of_program, stmt_of, told


@dataclass(frozen=True)
class Overwrite(Scheme):
    """A product's first instruction overwrites its accumulator, as a fill with `zero` would; `turn`: in its loop's first turn alone."""

    zero: Stmt
    turn: bool = False

    @property
    def does(self) -> tuple[Stmt, ...]:
        return (self.zero,)

    @property
    def said(self) -> str:
        return f"its first {'turn' if self.turn else 'instruction'} overwrites"


def mma_zero_init(steps: Steps, facts: Facts) -> Steps:
    """Drops each zero that a product would start from: of the next step that touches it, or of the first turn of a loop of copies and
    products that has one for certain."""

    def change(body: Steps) -> Steps:
        k = 0
        while k < len(body):
            s = stmt_of(body[k])
            zero = s is not None and s.op == "fill" and s.expr == 0
            at = next((i for i in range(k + 1, len(body)) if zero and s and _touches(body[i], s.dst)), 0)
            started = _started(body[at], s, facts) if at and s else None
            if started is None:
                k += 1
            else:
                body = (*body[:k], *body[k + 1 : at], started, *body[at + 1 :])
        return body

    return bodies(steps, change)


def _touches(n: Step, name: str) -> bool:
    return any(name in (s.dst, *s.srcs) for s in of_program(n))


def _started(n: Step, zero: Stmt, facts: Facts) -> Step | None:
    """A step whose product starts what is filled; None where it is no such step."""
    name = zero.dst
    if isinstance(n, Do):
        return told(n, Overwrite(zero)) if n.stmt.op == "mma" and n.stmt.dst == name else None
    if not isinstance(n, Over) or n.loop is None or n.loop.until is not None or facts.stream or facts.parts or not facts.rings(n.loop):
        return None
    known = all(isinstance(x := facts.p.extent(a), int) and x > 0 for a in n.loop.axes)
    if not known or not all(isinstance(x, Do) and x.stmt.op in ("copy", "mma") for x in n.body):
        return None
    first = next((i for i, x in enumerate(n.body) if name in {s.dst for s in inside((x,)) if s.op == "mma"}), None)
    if first is None:
        return None
    return replace(n, body=(*n.body[:first], told(n.body[first], Overwrite(zero, True)), *n.body[first + 1 :]))
