"""The mainloop of products whose operands never pass through shared tiles (instruction `direct`): each thread copies its own pieces of 16
bytes some iterations ahead (cp.async into a ring that no other thread reads).

What a thread reads once, in pieces of 16 bytes, passes through a ring in shared memory that is its own: no other thread reads it, so
nobody waits for anybody, and as many turns are under way as the schedule has stages. Other loads of that factor (scales) fill the
registers of the next turn; the other factor is near already, since every block reads it. The ring is of the factor that is computed
from what is stored; where both are copied, of the one with more elements in memory (the weights beside a few rows).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.simt.coordinates import most
from autocomp.targets.simt.expressions import STORED, every
from autocomp.targets.simt.placed import Placement, Product

from autocomp.tile.plan import Commit, Landed, Turn
from autocomp.tile.program import Loop, Stmt, Tensor

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

PIECE = 16  # bytes of an asynchronous copy


def product_of(place: Placement, loop: Loop) -> Product | None:
    """The product from registers that a loop is around, if it is one."""
    found = [place.products[s] for s in loop.body if isinstance(s, Stmt) and s.op == "mma"]
    return found[0] if len(found) == 1 and found[0].instruction.load == "direct" else None


def turns_ahead(at: Printer, loop: Loop, pr: Product) -> None:
    """The loop's text."""
    copies = [s for s in loop.body if isinstance(s, Stmt) and s.op == "copy"]
    streamed = _streamed(at, pr)
    mine = [s for s in copies if _feeds(at, s.dst, streamed)]
    ring = [s for s in mine if _pieces(at, s)]
    soon = [s for s in mine if s not in ring]
    rest = [s for s in loop.body if s not in mine]
    total, it, stages = at.turns(loop), at.names.fresh("it"), at.place.stages
    where = {s.dst: at.place.reserve(stages * _pieces(at, s) * PIECE * at.place.threads) for s in ring}
    later = {s.dst: at.names.fresh(f"{s.dst}_next") for s in soon}
    for s in soon:
        at.put(at.storage(s.dst, later[s.dst]))

    def begin(turn: str, slot: str) -> None:
        with at.block(f"if ({turn} < {total})"):
            at.bases(loop, turn)
            for s in ring:
                _start(at, s, f"{where[s.dst]} + {slot} * {_pieces(at, s) * PIECE * at.place.threads}")
        at.plan(Commit())

    def next_registers(turn: str) -> None:
        if not soon:
            return
        now = {x: at.names.call(x, name) for x, name in later.items()}
        with at.block(f"if ({turn} < {total})"):
            at.bases(loop, turn)
            at.run(soon)
        for x, name in now.items():
            at.names.call(x, name)

    outer = dict(at.base)
    with at.block(f"for (int {it} = 0; {it} < {stages - 1}; ++{it})"):
        begin(it, it)
    next_registers("0")
    with at.block(f"for (int {it} = 0; {it} < {total}; ++{it})", again=it):
        for s in soon:
            at.put(f"memcpy({at.names.of(s.dst)}, {later[s.dst]}, sizeof {later[s.dst]});")
        next_registers(f"({it} + 1)")
        at.plan(Turn(tuple(s.dst for s in ring), stages - 2, alone=True))
        for s in ring:
            _finish(at, s, f"{where[s.dst]} + {it} % {stages} * {_pieces(at, s) * PIECE * at.place.threads}")
        begin(f"({it} + {stages - 1})", f"({it} + {stages - 1}) % {stages}")
        at.base = dict(outer)
        at.bases(loop, it)
        at.run(rest)
    at.base = outer
    at.plan(Landed(0))


def _streamed(at: Printer, pr: Product) -> str:
    """The factor of which a block reads what no other block does."""
    if pr.a in at.place.late:
        return pr.a
    elements = lambda name: prod(most(at.p.extent(x)) for x in at.bufs[name].axes)
    return max((pr.a, pr.b), key=elements)


def _feeds(at: Printer, name: str, factor: str) -> bool:
    """Whether a factor is a value, or made from it."""
    return name == factor or (factor in at.place.late and any(_feeds(at, name, x) for x in at.maker(factor).srcs if x != factor))


def _view(at: Printer, s: Stmt) -> Tensor:
    t = at.p.tensor(s.srcs[0])
    assert t is not None
    return t


def _pieces(at: Printer, s: Stmt) -> int:
    """Copies of 16 bytes that bring a thread's part of a tile; 0 where they are shorter."""
    t, layout = _view(at, s), at.place.layouts[s.dst]
    v = at.vector(layout, t)
    return layout.registers // v if v * t.dtype.bytes == PIECE and not t.fill else 0


def _start(at: Printer, s: Stmt, ring: str) -> None:
    t, layout = _view(at, s), at.place.layouts[s.dst]
    v = PIECE // t.dtype.bytes
    with at.over(_pieces(at, s), "q"):
        r = f"(q * {v})"
        place = lambda a: at.coordinate(layout, a, r)
        ok = every(at.inside(layout, t.axes, r) + at.guards(t.guard, place))
        to = f"smem + {ring} + (q * {at.place.threads} + threadIdx.x) * {PIECE}"
        # no "_once": asynchronous copies with a policy of createpolicy.fractional become illegal instructions on Hopper (ptxas before 13.4;
        # github.com/triton-lang/triton/pull/11660)
        at.put(f"ac_copy<{PIECE}>({to}, {at.address(t, place, at_once=True)}, {ok});")


def _finish(at: Printer, s: Stmt, ring: str) -> None:
    t, name = _view(at, s), at.names.of(s.dst)
    v = PIECE // t.dtype.bytes
    words = s.dst in at.place.words
    with at.over(_pieces(at, s), "q"):
        piece = f"(const {STORED[t.dtype.name]} *)(smem + {ring} + (q * {at.place.threads} + threadIdx.x) * {PIECE})"
        at.put(f"{'ac_load_words' if words else 'ac_load'}<{v}>(&{name}[q * {PIECE // 4 if words else v}], {piece});")
