"""Overlap of attention's products with its softmax (schedule field `softmax_overlap`; FlashAttention 3: intra-warpgroup overlap): the
product of weights and values runs one iteration late, beside the softmax of the next scores.

    first iteration   products of the scores; maps; pack the factor
    then, each        start the products of the scores; start the late product of the iteration before; wait for the scores; maps;
                      wait for the late product; rescale its accumulator; pack the factor
    behind the loop   the late product of the last iteration

    before   serial r1                          after   serial r1  | o += mma p, v runs a turn late, beside the maps of the next
               s += mma q, k                             s += mma q, k
               p = map s                                 p = map s
               o += mma p, v                             o += mma p, v

overlap=2 waits for the late product together with the scores: weights are packed as they are made, in fewer registers, which leaves room
for another warpgroup to have the matrix units meanwhile.

Where the program says when a rescaling is due (`when`), the rest of an iteration is printed under that condition, and the first one
goes there at once: it starts from the identity.
"""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.targets.cuda.facts import Facts

from autocomp.tile.program import Loop, Stmt
from autocomp.tile.steps import Scheme, Steps, loops, told


@dataclass(frozen=True)
class Overlapped(Scheme):
    """Statements of the loop: `first` up to the scores' product, `maps` behind it, `rescale` of the late product's accumulator,
    `updates` of what the rescaling reads. `rare`: what is done between `maps` and `then` only where `when` says so; `rescale` and
    `updates` too, then."""

    first: tuple[Stmt, ...]
    maps: tuple[Stmt, ...]
    rescale: tuple[Stmt, ...]
    updates: tuple[Stmt, ...]
    late: Stmt
    when: Loop | None = None
    rare: tuple[Stmt, ...] = ()
    then: tuple[Stmt, ...] = ()

    @property
    def said(self) -> str:
        return f"{self.late.dst} += mma {', '.join(self.late.srcs)} runs a turn late, beside the maps of the next"


def softmax_overlap(steps: Steps, facts: Facts) -> Steps:
    """Says of each loop that asks for it and has the form which of its products runs a turn late."""
    return loops(steps, lambda n, loop: told(n, x) if facts.rings(loop) and (x := overlap_of(facts, loop)) else n)


def overlap_of(facts: Facts, loop: Loop) -> Overlapped | None:
    """The split of a loop that asks for it (overlap=1, 2) and has the form; None otherwise."""
    body = [n for n in loop.body if not (isinstance(n, Stmt) and facts.comes_in_bulk(n))]
    rare = [n for n in body if isinstance(n, Loop)]
    if loop.opt("overlap") not in ("1", "2") or len(rare) > 1 or any(n.kind != "when" for n in rare):
        return None
    stmts = [n for n in body if isinstance(n, Stmt)]
    products = [s for s in stmts if s.op == "mma"]
    if len(products) != 2 or (loop.until is not None and loop.until[1] < 0):
        return None
    early, late = products
    if late.srcs[0] in facts.placer.bulk or late.srcs[0] in facts.placer.laid or late.dst in early.srcs:
        return None
    if facts.queue(late.srcs[1]) is facts.queue(early.srcs[1]):
        return None
    at = stmts.index(early) + 1
    if rare:
        return _rare(body, rare[0], tuple(stmts[:at]), late)
    touch = [s for s in stmts if s is not late and late.dst in (s.dst, *s.srcs)]
    if any(s.op != "map" or s.dst != late.dst or stmts.index(s) > stmts.index(late) for s in touch):
        return None
    if any(s in touch for s in stmts[:at]):
        return None
    rest = [s for s in stmts[at:] if s is not late and s not in touch]
    maps, updates = _parted(rest, touch, stmts)
    return Overlapped(tuple(stmts[:at]), maps, tuple(touch), updates, late)


def _rare(body: list[Loop | Stmt], when: Loop, first: tuple[Stmt, ...], late: Stmt) -> Overlapped | None:
    """The split where the late product's accumulator is rescaled under a condition alone."""
    at = body.index(when)
    maps = [s for s in body[len(first) : at] if isinstance(s, Stmt)]
    then = [s for s in body[at + 1 :] if isinstance(s, Stmt) and s is not late]
    inside = [s for s in when.body if isinstance(s, Stmt)]
    touch = [s for s in inside if late.dst in (s.dst, *s.srcs)]
    if any(n in body[at:] for n in first) or any(s.op != "map" or s.dst != late.dst for s in touch):
        return None
    if len(inside) < len(when.body) or late in maps or any(late.dst in (s.dst, *s.srcs) for s in (*first, *maps, *then)):
        return None
    rare, updates = _parted([s for s in inside if s not in touch], touch, inside)
    return Overlapped(first, tuple(maps), tuple(touch), updates, late, when, rare, tuple(then))


def _parted(rest: list[Stmt], touch: list[Stmt], order: list[Stmt]) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
    """What may run before the rescaling, and what must follow it: it changes what the rescaling reads."""
    read = {x for s in touch for x in s.srcs}
    before = {s.dst for s in order[: order.index(touch[0])]} if touch else set()
    end = next((i for i, s in enumerate(rest) if s.dst in read and s.dst not in before), len(rest))
    return tuple(rest[:end]), tuple(rest[end:])
