"""Epilogue operands by TMA (directive `load_c`; CUTLASS: the epilogue's source C): a residual, gate or mask as large as the output tile
arrives by bulk tensor loads in the boxes of shared memory from which the results leave.

    producer   behind a tile's factors: wait until the slot is empty, then one box of 64 columns after another into it
    consumers  wait for the boxes; each warp reads its rows as its accumulators lie, four matrices of 8 x 8 at once, computes, and
               writes the result to where it read the operand; the bulk engine stores the boxes, and the slot is empty again

No thread spends an instruction on an address in global memory, no register waits during the product, and blocks that stay have the
operand of a tile ahead under way. An operand whose rows the engine cannot copy is read thread by thread (`prefetch_epilogue`).

    before   c = copy r                after   c = copy r  | of c, by TMA through 2 slots
             y = map acc, c                    y = map acc, c
             store out = y                     store out = y  | of c, by TMA through 2 slots
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autocomp.targets.cuda import queues
from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.tma_store import BOX_BYTES, Boxes, each_box, find_boxes, number_of, part_store, placed, store_box, team_meets
from autocomp.targets.simt.expressions import STORED
from autocomp.targets.simt.placement import ALIGN

from autocomp.tile.plan import Box, Count, Fence, Reads, Signal
from autocomp.tile.program import Loop, Stmt
from autocomp.tile.steps import Scheme, Steps, each, sayings, stmt_of, told

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


@dataclass(frozen=True)
class LoadC(Scheme):
    """`copy` brings the operand, `store` takes the result from the same `boxes` (`out`: where it goes). `slots` of `bytes` each; or one of
    half a tile (`halves`)."""

    copy: Stmt
    store: Stmt
    boxes: Boxes
    out: Boxes
    slots: int
    bytes: int
    halves: bool = False

    @property
    def said(self) -> str:
        return f"of {self.copy.dst}, by TMA through {'half a slot' if self.halves else f'{self.slots} slots'} of {self.bytes} bytes"


@dataclass(frozen=True)
class Beside(LoadC):
    """The same in a kernel: slots lie at `offset`, their barriers at `barrier`; `map`: the operand's descriptor; `turn`: the variable that
    counts a role's tiles, of `halves` what holds the first half."""

    offset: int = 0
    barrier: int = 0
    map: int = 0
    turn: str = ""


def load_c(steps: Steps, facts: Facts) -> Steps:
    """Has the first operand for which there is room come in boxes, whole."""
    for x in operands(facts):
        each_ = facts.takers * (x.bytes + 16)
        if slots := next((n * facts.takers for n in ((2, 1) if facts.persistent else (1,)) if n * each_ <= facts.free), 0):
            return brought(steps, replace(x, slots=slots))
    return steps


def operands(at: Facts) -> Iterator[LoadC]:
    """Operands of an epilogue that are as large as the tile and lie in boxes as a result does; none where blocks share out a tile."""
    first = at.p.body[0] if at.p.body else None
    if at.parts or not (isinstance(first, Loop) and first.kind == "grid"):
        return
    behind = [n for n in first.body if isinstance(n, Stmt)]
    stores = [(s, x) for s in behind if s.op == "store" and (x := find_boxes(at, s.dst, at.place.layouts[s.srcs[0]]))]
    for s in behind:
        if s.op != "copy" or at.queue(s.dst) or s.dst in at.place.shared or s.dst not in at.place.layouts:
            continue
        layout = at.place.layouts[s.dst]
        x = find_boxes(at, s.srcs[0], layout)
        mine = [(st, y) for st, y in stores if x and at.place.layouts[st.srcs[0]] == layout and (y.run, y.turned) == (x.run, x.turned)]
        if x is not None and mine:
            yield LoadC(s, *mine[0][:1], x, mine[0][1], 1, at.workers * x.count * BOX_BYTES)


def brought(steps: Steps, x: LoadC) -> Steps:
    """Steps whose operand comes in boxes and whose result leaves from there."""
    return each(steps, lambda n: told(n, x) if stmt_of(n) in (x.copy, x.store) else n)


def reserved(at: WarpSpecialisedPrinter, steps: Steps) -> Beside | None:
    """The operand that comes in boxes, with its places."""
    x = next((x for x in sayings(steps) if isinstance(x, LoadC)), None)
    if x is None:
        return None
    at.placer.maps.append(x.boxes.map)
    offset = at.place.reserve(x.bytes // 2 if x.halves else x.slots * x.bytes, ALIGN)
    barrier = at.place.reserve(8 * at.workers if x.halves else 16 * x.slots, 8)
    return Beside(x.copy, x.store, x.boxes, x.out, x.slots, x.bytes, x.halves, offset, barrier, len(at.placer.maps) - 1,
                  at.names.fresh("beside"))  # fmt: skip


def _place(at: WarpSpecialisedPrinter, b: Beside) -> str:
    """Where the current slot begins."""
    slot, _ = queues.turn(at, at.rings[b.turn])
    return f"{at.memory} + {b.offset}" + (f" + {slot} * {b.bytes}" if b.slots > 1 else "")


def _own(at: WarpSpecialisedPrinter, b: Beside) -> str:
    """Where this warpgroup's part of the current slot begins; who takes turns has all of it."""
    return _place(at, b) + ("" if at.order else f" + wave / 4 * {b.out.count * BOX_BYTES}")


def send(at: WarpSpecialisedPrinter, b: Beside) -> None:
    """The producer's part of a tile."""
    q = at.rings[b.turn]
    at.plan(Signal("fill", "full", b.turn, b.slots))
    full = queues.barrier(at, q, queues.turn(at, q)[0])
    at.put(f"ac_barrier_expect({full}, {b.bytes});")
    x = b.boxes
    with at.over(at.workers * x.repeats, "m"), at.over(x.groups, "g"), at.over(x.parts, "part"):
        to = f"{_place(at, b)} + (m * {x.groups} + g) * {BOX_BYTES} + part * {x.run * 128}"
        at.put(f"ac_bulk_load({to}, &map{b.map}, {full}, {placed(at, x, 'm * 64')});")
    if at.persistent:
        at.plan(Count(b.turn, f"++{b.turn};"))


def receive(at: WarpSpecialisedPrinter, b: Beside) -> None:
    """The operand's values, as the accumulators lie."""
    x, name = b.boxes, at.names.of(b.copy.dst)
    near, kind = at.names.fresh("boxes"), STORED[at.bufs[b.copy.dst].dtype.name]
    at.plan(Reads((b.turn,)))
    at.put(f"unsigned char *const {near} = {_own(at, b)};")
    with at.each(x.count, "box"), at.over(4, "q"):
        at.plan(Box("box", "read", (("box", 1),), x.count, b.turn, b.slots))
        at.put("unsigned part[4];", f"ac_ldmatrix4{x.suffix}(part, {near} + box * {BOX_BYTES} + ac_swizzle<128>({x.place}));",
               f"ac_unpack<{kind}, 8>(&{name}[box * 32 + q * 8], part);")  # fmt: skip


def leave(at: WarpSpecialisedPrinter, b: Beside, number: int) -> None:
    """Prints the store: results to where the operand was, boxes to global memory through descriptor `number`, the slot given back."""
    x, y, near = b.out, b.store.srcs[0], at.names.fresh("boxes")
    at.put(f"unsigned char *const {near} = {_own(at, b)};")
    with each_box(at, at.place.layouts[y], x):
        place = Box("box", "write", number_of(at, x), x.count, b.turn, b.slots)
        at.plan(place)
        store_box(at, x, y, f"{near} + (m * {x.groups} + g) * {BOX_BYTES}")
    at.plan(Fence("ac_async_fence();"), team_meets(at))
    with at.block("if (threadIdx.x % 128 == 0)"):
        with at.each(x.repeats, "m"), at.each(x.groups, "g"):
            part_store(at, x, number, f"{near} + (m * {x.groups} + g) * {BOX_BYTES}", place)
        at.plan(Box("box", "over", places=x.count * x.parts, ring=b.turn, depth=b.slots))
    if at.persistent:
        at.plan(Count(b.turn, f"{b.turn} += {at.facts.takers};", times=at.facts.takers))


def spelt(at: WarpSpecialisedPrinter, b: Beside, n: Signal) -> str:
    """A slot is given back by the thread that has waited for its stores; of halves: one has come, the parity is its number."""
    if b.halves:
        return f"ac_barrier_wait({at.memory} + {b.barrier} + 8 * (wave / 4), {n.number or 0});"
    q = at.rings[b.turn]
    slot, _ = queues.turn(at, q, f"({b.turn} - {n.back})" if n.back else "")
    return f"{f'if ({b.turn} >= {n.back}) ' if n.back else ''}ac_barrier_arrive({queues.barrier(at, q, slot, False)});"
