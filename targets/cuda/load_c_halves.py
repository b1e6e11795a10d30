"""The same in two halves (directive `load_c_halves`), where shared memory has no room for a whole operand tile beside the mainloop's ring.

    a quarter of a product's turns    the stores of the tile before have been read from there: the first half is asked for
    half of them                      it has come and goes to registers, packed; the second half is asked for
    behind the product                results of the second half take its place and leave, then those of the first half

All of it is a warpgroup's own: its first thread starts the copies, one barrier says that a half has come, and as two come a tile, the
parity of a wait follows from the half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autocomp.targets.cuda.tma_store import (
    BOX_BYTES,
    Boxes,
    descriptor_of,
    make_box,
    placed,
    read_by_engine,
    send_box,
    store_box,
    team_meets,
)
from autocomp.targets.simt.expressions import STORED
from autocomp.targets.simt.placed import tile_of

from autocomp.tile.plan import Box, Count, Done, Fence, Signal
from autocomp.tile.program import Loop, Stmt

if TYPE_CHECKING:
    from autocomp.targets.cuda.load_c import LoadC
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

TURNS = 8  # of a tile, at least: a half is under way for a quarter of them, and a copy takes about a microsecond


def room(at: WarpSpecialisedPrinter, x: Boxes) -> int:
    """Bytes of a half, and of what says that it has come, for all warpgroups; 0 where there are no halves or a tile has too few turns."""
    ok = at.persistent and not at.order and not at.stream and x.count % 2 == 0 and len(_ring(at)) == 1
    return at.workers * (x.count // 2 * BOX_BYTES + 8) if ok and _turns(at, _ring(at)[0]) >= TURNS else 0


def _ring(at: WarpSpecialisedPrinter) -> list[Loop]:
    return [q.loop for q in at.queues if q.loop is not None]


def _turns(at: WarpSpecialisedPrinter, loop: Loop) -> int:
    """A tile's turns; 0 where the text does not know them."""
    total = 1
    for a in loop.axes:
        n = at.p.extent(a)
        total *= -(-n // tile_of(at.p, a)) if isinstance(n, int) and loop.until is None else 0
    return total


def barriers(at: WarpSpecialisedPrinter, b: LoadC) -> None:
    """One a warpgroup: a half has come."""
    with at.block(f"for (int i = 0; i < {at.workers}; ++i)"):
        at.put(f"ac_barrier_init({at.memory} + {b.barrier} + 8 * i, 1);")


def cuts(at: WarpSpecialisedPrinter, loop: Loop) -> list[tuple[str, bool]]:
    """(turn, which half is then asked for) of a product's loop, in order."""
    if not (at.load_c and at.load_c.halves and loop in _ring(at)):
        return []
    turns = _turns(at, loop)
    return [(str(turns // 4), False), (str(turns // 2), True)]


def at_cut(at: WarpSpecialisedPrinter, second: bool) -> None:
    """What is done between two turns: the first half is asked for; or it is taken, and the second asked for."""
    b = at.load_c
    assert b is not None
    if second:
        half = b.boxes.count // 2
        at.plan(_come(at, b, 0))
        at.put(f"unsigned {b.turn}[{16 * half}];")
        with _boxes(at, b, False), at.over(4, "q"):
            at.plan(_box(b, "read"))
            at.put(f"ac_ldmatrix4{b.boxes.suffix}(*(unsigned (*)[4])&{b.turn}[(b * 4 + q) * 4], {_slot(at, b, False)} + {_swizzled(b)});")
        # A barrier of threads does not wait for matrix loads under way (products of other warps hold them up); the fence does. Without it
        # the second half overtook the last of them in 7 to 14 of 100 runs (H200, clusters of 2, 2026-11-21).
        at.put(f"ac_keep({b.turn});")
        at.plan(Fence("ac_async_fence();"), team_meets(at), Count(b.turn, ""))
    with at.block("if (threadIdx.x % 128 == 0)"):
        if not second:
            at.plan(Done(0, "ac_bulk_wait<0>();", "stores"))
        _ask(at, b, second)


def _ask(at: WarpSpecialisedPrinter, b: LoadC, second: bool) -> None:
    x, full = b.boxes, _barrier(at, b)
    at.put(f"ac_barrier_expect({full}, {x.count // 2 * BOX_BYTES});")
    row = f"(wave / 4 * {x.repeats} + m) * 64"
    with _boxes(at, b, second), at.over(x.parts, "part"):
        at.plan(_box(b, "load"))
        at.put(f"ac_bulk_load({_slot(at, b, second)} + part * {x.run * 128}, &map{b.map}, {full}, {placed(at, x, row)});")
    at.plan(Signal("fill", "full", b.turn, 1))


def leave(at: WarpSpecialisedPrinter, b: LoadC, maps: Sequence[Stmt]) -> None:
    """Results of the second half in place, then of the first."""
    number, value, half = descriptor_of(at, b.out), b.store.srcs[0], b.out.count // 2
    name, kind = at.names.of(b.copy.dst), STORED[at.bufs[b.copy.dst].dtype.name]
    at.plan(_come(at, b, 1))
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
    at.plan(Count(b.turn, ""))


@contextmanager
def _boxes(at: WarpSpecialisedPrinter, b: LoadC, second: bool) -> Iterator[None]:
    """A loop over the boxes of a half."""
    x = b.boxes
    begin = x.count // 2 if second else 0
    with at.block(f"for (int b = {begin}; b < {begin + x.count // 2}; ++b)", unroll=True, again="b", turns=x.count // 2):
        at.put(f"const int m = b / {x.groups}, g = b % {x.groups};", "(void)m; (void)g;")
        yield


def _slot(at: WarpSpecialisedPrinter, b: LoadC, second: bool) -> str:
    """Where box b of a half lies."""
    half = b.boxes.count // 2
    box = f"(b - {half})" if second else "b"
    return f"{at.memory} + {b.offset} + (wave / 4 * {half} + {box}) * {BOX_BYTES}"


def _box(b: LoadC, do: str) -> Box:
    """Box b of a half: both halves lie in one place, and each fills it anew."""
    return Box("half", do, (("b", 1),), b.boxes.count // 2, b.turn, 1)


def _come(at: WarpSpecialisedPrinter, b: LoadC, phase: int) -> Signal:
    """A half has come."""
    return Signal("wait", "full", b.turn, 1, f"ac_barrier_wait({_barrier(at, b)}, {phase});")


def _swizzled(b: LoadC) -> str:
    return f"ac_swizzle<128>({b.boxes.place})"


def _barrier(at: WarpSpecialisedPrinter, b: LoadC) -> str:
    return f"{at.memory} + {b.barrier} + 8 * (wave / 4)"
