"""Warp specialisation (schedule field `roles`; CUTLASS: KernelTmaWarpSpecialized), the pass: one producer warpgroup starts the copies of
factors, the consumers do all the rest.

    before   grid i0, i1                  after   producer
               serial r0                            grid i0, i1
                 a = copy x                           serial r0
                 b = copy y                             send q0: a, b
                 acc += mma a, b                  consumers
               store out = acc                      grid i0, i1
                                                      serial r0
                                                        acc += mma a, b
                                                      store out = acc

What a send waits for, and when a slot is given back, follows from what the steps read: the writer places it (`queues`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.load_c import LoadC

from autocomp.tile.program import Stmt
from autocomp.tile.steps import Act, Over, Scheme, Step, Steps, by, is_grid, stmt_of


@dataclass(frozen=True)
class Role(Scheme):
    """Who does these steps alone."""

    name: str

    @property
    def said(self) -> str:
        return self.name


@dataclass(frozen=True)
class Tile(Scheme):
    """The one tile of a program without a grid."""

    says = "the tile"


@dataclass(frozen=True)
class Send(Scheme):
    """A free slot of a ring is awaited and its copies are started; `resident`: once, for all tiles; `for_all`: what each block of a cluster
    brings a part of."""

    queue: str
    copies: tuple[Stmt, ...]
    resident: bool = False
    for_all: tuple[str, ...] = ()

    @property
    def does(self) -> tuple[Stmt, ...]:
        return self.copies

    @property
    def said(self) -> str:
        often = ", once for all tiles" if self.resident else ""
        alike = f" ({', '.join(self.for_all)} for all blocks of the cluster)" if self.for_all else ""
        return f"send {self.queue}: {', '.join(s.dst for s in self.copies)}{often}{alike}"


@dataclass(frozen=True)
class SendC(Scheme):
    """The same of an epilogue's operand."""

    load: LoadC

    says = "send {0.load.copy.dst} box by box"


def warp_specialise(steps: Steps, facts: Facts) -> Steps:
    """Parts the steps into what the producer does and what the consumers do; what all tiles share comes in front of them."""
    first = tuple(Act(Send(q.name, tuple(q.copies), True)) for q in facts.queues if q.resident)
    tile = steps[0] if is_grid(steps[0]) else Over(steps, None, (Tile(),))
    assert isinstance(tile, Over)
    sent, consumed = (replace(tile, body=part(tile.body, facts)) for part in (_sent, _consumed))
    return (Over((*first, sent), None, (Role("producer"),)), Over((consumed,), None, (Role("consumers"),)))


def _sent(body: Steps, facts: Facts) -> Steps:
    """The copies that the producer starts, in their loops."""
    out: list[Step] = []
    for n in body:
        s, load = stmt_of(n), by(n, LoadC)
        q = facts.queue(s.dst) if s and s.op == "copy" else None
        if isinstance(n, Over):
            inside = _sent(n.body, facts)
            out += inside if n.loop is None else [Over(inside, n.loop)] if inside else []
        elif q and not q.resident and not any(x.queue == q.name for m in out if (x := by(m, Send))):
            out.append(Act(Send(q.name, tuple(q.copies))))
        elif s and s.op == "copy" and load and not load.halves:
            out.append(Act(SendC(load)))
    return tuple(out)


def _consumed(body: Steps, facts: Facts) -> Steps:
    """All but these copies."""
    left = (n for n in body if not ((s := stmt_of(n)) and facts.comes_in_bulk(s)))
    return tuple(replace(n, body=_consumed(n.body, facts)) if isinstance(n, Over) else n for n in left)


def tile_of_role(role: Over) -> tuple[Steps, Steps]:
    """What a role does in front of all tiles, and for each of them."""
    *before, tile = role.body
    assert isinstance(tile, Over)
    return tuple(before), tile.body
