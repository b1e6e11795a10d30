"""The same in two halves (directive `load_c_halves`), where shared memory has no room for a whole operand tile beside the mainloop's ring.

    a quarter of a product's turns    the stores of the tile before have been read from there: the first half is asked for
    half of them                      it has come and goes to registers, packed; the second half is asked for
    behind the product                results of the second half take its place and leave, then those of the first half

All of it is a warpgroup's own: its first thread starts the copies, one barrier says that a half has come, and as two come a tile, the
parity of a wait follows from the half.

    before   serial r0                 after   serial r0  | asks for the first half before turn 8  | takes it and asks for the second ..
               ..                                ..
             c = copy r                        c = copy r  | of c, by TMA through half a slot
             y = map acc, c                    y = map acc, c
             store out = y                     store out = y  | of c, by TMA through half a slot
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.load_c import Beside, LoadC, brought, operands
from autocomp.targets.cuda.tma_store import (
    BOX_BYTES,
    descriptor_of,
    make_box,
    placed,
    read_by_engine,
    send_box,
    store_box,
    team_meets,
)
from autocomp.targets.simt.expressions import STORED

from autocomp.tile.plan import Box, Count, Done, Fence, Reads, Signal
from autocomp.tile.program import Loop, Stmt
from autocomp.tile.steps import Scheme, Steps, loops, sayings, told

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

TURNS = 8  # of a tile, at least: a half is under way for a quarter of them, and a copy takes about a microsecond


@dataclass(frozen=True)
class AtTurn(Scheme):
    """What is done in front of a turn of a product's loop: a half is asked for; the other has been taken before, where it is the second."""

    turn: int
    second: bool

    @property
    def said(self) -> str:
        return f"{'takes its first half and asks for the second' if self.second else 'asks for the first half'} before turn {self.turn}"


def load_c_halves(steps: Steps, facts: Facts) -> Steps:
    """Where no operand comes whole: has the first one for which there is room come in halves, if the tile ends box by box behind it."""
    rings = [q.loop for q in facts.queues if q.loop is not None]
    if any(isinstance(x, LoadC) for x in sayings(steps)) or not facts.persistent or facts.order or facts.stream or len(rings) != 1:
        return steps
    (loop,), turns = rings, facts.turns(rings[0])
    cuts = AtTurn(turns // 4, False), AtTurn(turns // 2, True)
    for x in operands(facts):
        room = facts.workers * (x.bytes // facts.workers // 2 + 8)
        if x.boxes.count % 2 == 0 and turns >= TURNS and room <= facts.free and _ends_with(facts, x):
            return loops(brought(steps, replace(x, halves=True)), lambda n, of: told(n, *cuts) if of is loop else n)
    return steps


def _ends_with(at: Facts, x: LoadC) -> bool:
    """Whether nothing but maps of the tile, as the operand lies, stands between it and the tile's last store."""
    first, layout = at.p.body[0], at.place.layouts[x.copy.dst]
    assert isinstance(first, Loop)
    *maps, store = first.body[first.body.index(x.copy) + 1 :]
    alike = lambda s: s.op == "map" and at.place.layouts[s.dst] == layout and s.dst not in at.place.shared
    return store is x.store and bool(maps) and all(isinstance(s, Stmt) and alike(s) for s in maps)


def barriers(at: WarpSpecialisedPrinter, b: Beside) -> None:
    """One a warpgroup: a half has come."""
    with at.block(f"for (int i = 0; i < {at.workers}; ++i)"):
        at.put(f"ac_barrier_init({at.memory} + {b.barrier} + 8 * i, 1);")


def at_cut(at: WarpSpecialisedPrinter, second: bool) -> None:
    """What is done between two turns: the first half is asked for; or it is taken, and the second asked for."""
    b = at.load_c
    assert b is not None
    if second:
        half = b.boxes.count // 2
        at.plan(Reads((b.turn,)))
        at.put(f"unsigned {b.turn}[{16 * half}];")
        with _boxes(at, b, False), at.over(4, "q"):
            at.plan(_box(b, "read"))
            at.put(f"ac_ldmatrix4{b.boxes.suffix}(*(unsigned (*)[4])&{b.turn}[(b * 4 + q) * 4], {_slot(at, b, False)} + {_swizzled(b)});")
        # A barrier of threads does not wait for matrix loads under way (products of other warps hold them up); the fence does. Without it
        # the second half overtook the last of them in 7 to 14 of 100 runs (H200, clusters of 2, 2026-11-21).
        at.put(f"ac_keep({b.turn});")
        at.plan(Fence("ac_async_fence();"), team_meets(at), Count(b.turn, "", number="1"))
    with at.block("if (threadIdx.x % 128 == 0)"):
        if not second:
            at.plan(Done(0, "ac_bulk_wait<0>();", "stores"))
        _ask(at, b, second)


def _ask(at: WarpSpecialisedPrinter, b: Beside, second: bool) -> None:
    x, full = b.boxes, _barrier(at, b)
    at.put(f"ac_barrier_expect({full}, {x.count // 2 * BOX_BYTES});")
    row = f"(wave / 4 * {x.repeats} + m) * 64"
    with _boxes(at, b, second), at.over(x.parts, "part"):
        at.plan(_box(b, "load"))
        at.put(f"ac_bulk_load({_slot(at, b, second)} + part * {x.run * 128}, &map{b.map}, {full}, {placed(at, x, row)});")
    at.plan(Signal("fill", "full", b.turn, 1))


def leave(at: WarpSpecialisedPrinter, maps: Sequence[Stmt]) -> None:
    """Results of the second half in place, then of the first."""
    b = at.load_c
    assert b is not None
    number, value, half = descriptor_of(at, b.out), b.store.srcs[0], b.out.count // 2
    name, kind = at.names.of(b.copy.dst), STORED[at.bufs[b.copy.dst].dtype.name]
    at.plan(Reads((b.turn,)))
    with _boxes(at, b, True):
        with at.over(4, "q"):
            at.plan(_box(b, "read"))
            at.put("unsigned part[4];", f"ac_ldmatrix4{b.boxes.suffix}(part, {_slot(at, b, True)} + {_swizzled(b)});",
                   f"ac_unpack<{kind}, 8>(&{name}[b * 32 + q * 8], part);")  # fmt: skip
        make_box(at, b.out, maps)
        at.plan(_box(b, "write"))
        store_box(at, b.out, value, _slot(at, b, True))
        send_box(at, b.out, number, _slot(at, b, True), _box(b, "write"))
    with _boxes(at, b, False):
        with at.over(4, "q"):
            at.put(f"ac_unpack<{kind}, 8>(&{name}[b * 32 + q * 8], &{b.turn}[(b * 4 + q) * 4]);")
        make_box(at, b.out, maps)
        at.plan(read_by_engine((half - 1) * b.out.parts), team_meets(at), _box(b, "write"))
        store_box(at, b.out, value, _slot(at, b, False))
        send_box(at, b.out, number, _slot(at, b, False), _box(b, "write"))
    at.plan(Count(b.turn, "", number="0"))


@contextmanager
def _boxes(at: WarpSpecialisedPrinter, b: Beside, second: bool) -> Iterator[None]:
    """A loop over the boxes of a half."""
    x = b.boxes
    begin = x.count // 2 if second else 0
    with at.block(f"for (int b = {begin}; b < {begin + x.count // 2}; ++b)", unroll=True, again="b", turns=x.count // 2):
        at.put(f"const int m = b / {x.groups}, g = b % {x.groups};", "(void)m; (void)g;")
        yield


def _slot(at: WarpSpecialisedPrinter, b: Beside, second: bool) -> str:
    """Where box b of a half lies."""
    half = b.boxes.count // 2
    box = f"(b - {half})" if second else "b"
    return f"{at.memory} + {b.offset} + (wave / 4 * {half} + {box}) * {BOX_BYTES}"


def _box(b: Beside, do: str) -> Box:
    """Box b of a half: both halves lie in one place, and each fills it anew."""
    return Box("half", do, (("b", 1),), b.boxes.count // 2, b.turn, 1)


def _swizzled(b: Beside) -> str:
    return f"ac_swizzle<128>({b.boxes.place})"


def _barrier(at: WarpSpecialisedPrinter, b: Beside) -> str:
    return f"{at.memory} + {b.barrier} + 8 * (wave / 4)"
