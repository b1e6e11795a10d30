"""Rings of shared memory through which the producer hands operand slots to the consumers (CUTLASS: PipelineTmaAsync).

A ring is a queue: `full` says that a slot's bytes have landed, `empty` that its readers are done. Both roles count its turns; the slot and
the parity that a turn waits for follow from its number. In a cluster, neighbouring blocks receive the factor that they share once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.cuda import mbarriers, ping_pong
from autocomp.targets.cuda.cluster_split_k import own_turns
from autocomp.targets.simt import streams
from autocomp.targets.simt.expressions import index

from autocomp.tile import agents
from autocomp.tile.agents import Again, Work
from autocomp.tile.plan import Count, Reads, Signal
from autocomp.tile.program import Loop, Stmt, walk

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

OTHERS = "wave % 4 > 0"  # all but a warpgroup's first warp


@dataclass
class Queue:
    """Buffers of one slot: copied together, released together. `loop` is the loop whose iterations take turns (None: tiles do).
    `resident`: copied once, in front of all tiles, and never released."""

    name: str
    loop: Loop | None
    copies: list[Stmt]
    depth: int
    resident: bool = False
    at: int = 0


def find_queues(at: WarpSpecialisedPrinter) -> list[Queue]:
    """What the producer hands to the consumers (`tile.agents`). Copies of one loop that one product reads, or products that share a factor,
    travel together."""
    statements = list(walk(at.p.body))
    copies = {s.dst: s for s, _ in statements if s.op == "copy" and s.dst in at.placer.bulk}
    products = [s.srcs for s, _ in statements if s.op == "mma"]
    stays = {name: at.persistent and name in at.place.once for name in copies}
    loops = {str(id(x)): x for _, around in statements for x in around if x.kind != "grid"}

    def work(s: Stmt, around: tuple[Loop, ...]) -> Again | Work:
        mine = (s.dst,) if s.dst in copies else ()
        n: Again | Work = Work("producer" if mine else "consumers", tuple(x for x in s.srcs if x in copies), mine, ())
        for x in reversed(around):
            n = Again(str(id(x)), (), (n,))
        return n

    def together(tried: list[agents.Queue]) -> bool:
        """Whether the last buffer of each joins the others. What a block with one tile copies once comes by itself."""
        return all(stays[new] == (rest[0] in at.place.once) and any(new in x and {*rest} & {*x} for x in products)
                   for q in tried for *rest, new in (q.buffers,) if rest)  # fmt: skip

    found = agents.find_queues({"block": tuple(work(*x) for x in statements)}, {name: at.place.depth(name) for name in copies})
    queues = agents.merged(found, together)
    return [Queue(f"q{n}", loops.get(q.loop), [copies[x] for x in q.buffers], q.depth, stays[q.buffers[0]],
                  at.place.reserve(16 * q.depth, 8)) for n, q in enumerate(queues)]  # fmt: skip


def readers(at: WarpSpecialisedPrinter, q: Queue) -> int:
    """Blocks whose consumers release a queue's slots."""
    return at.together if any(s.dst in at.for_all for s in q.copies) else 1


def spelt(at: WarpSpecialisedPrinter, n: Signal) -> str:
    """A signal about a ring's slot: of a warp that has read it, to all producers that write into it."""
    if n.do == "fill":
        return ""
    if n.what == "order":
        return ping_pong.spelt(at, n)
    q, full = at.rings[n.queue], n.what == "full"
    slot, phase = turn(at, q, f"({q.name} - {n.back})" if n.back else n.number)
    of = barrier(at, q, slot, full)
    if n.do == "wait":
        return f"ac_barrier_wait({of}, {phase if full else f'1 ^ ({phase})'});"
    guard = {"again": f"{n.loop} > 0 && ", "never": f"{OTHERS} && "}.get(n.when, "")
    who, arrive = (f"lane < {at.together}", f"_at({of}, lane)") if n.far else ("lane == 0", f"({of})")
    return f"if ({guard}{who}) ac_barrier_arrive{arrive};"


def read(at: WarpSpecialisedPrinter, *names: str) -> None:
    """Lines that follow read these factors, where they are copied."""
    at.plan(Reads(tuple(q.name for x in names if (q := at.of.get(x)))))


def barrier(at: WarpSpecialisedPrinter, q: Queue, slot: str, full: bool = True) -> str:
    """The address of a slot's barrier: that its bytes have landed, or that it is empty."""
    return mbarriers.barrier(at.memory, q.at, q.depth, slot, full)


def barriers(at: WarpSpecialisedPrinter) -> None:
    """What makes each slot's barriers: one arrival fills it, one of each reading warp empties it."""
    for q in at.queues:
        barriers_of(at, q, 4 * at.workers * readers(at, q))


def barriers_of(at: WarpSpecialisedPrinter, q: Queue, emptied: int) -> None:
    """Those of one queue; `emptied`: arrivals that empty a slot."""
    with at.block(f"for (int i = 0; i < {q.depth}; ++i)"):
        at.put(f"ac_barrier_init({barrier(at, q, 'i')}, 1);")
        at.put(f"ac_barrier_init({barrier(at, q, 'i', False)}, {emptied});")


def turn(at: WarpSpecialisedPrinter, q: Queue, number: str = "") -> tuple[str, str]:
    """(slot, parity) of the queue's turn of that number, or its current one."""
    if q.resident or (q.loop is None and not at.persistent):
        return "0", "0"
    return mbarriers.turn(number or at.numbers.get(q.name, q.name), q.depth)


def counted(at: WarpSpecialisedPrinter) -> list[Queue]:
    """Those that have several turns."""
    return [q for q in at.queues if (q.loop is not None or at.persistent) and not q.resident]


def turned(at: WarpSpecialisedPrinter, loop: Loop | None) -> None:
    """The next turn of a loop's queues."""
    if loop is None and at.order and at.consuming:
        ping_pong.skip(at, at.order, counted(at))
        return
    for q in counted(at):
        if q.loop is loop:
            at.plan(Count(q.name, f"++{q.name};"))


def counters(at: WarpSpecialisedPrinter) -> None:
    """A role's first turn of each queue."""
    mine = bool(at.order and at.consuming)
    if at.load_c and at.persistent and not at.load_c.halves:
        first = f"unsigned {at.load_c.turn} = {'team - 1' if mine else '0'};"
        at.plan(Count(at.load_c.turn, first, begin=True, times=int(mine)))
    if at.order and mine:
        ping_pong.counters(at, at.order, counted(at))
        return
    for q in counted(at):
        at.plan(Count(q.name, f"unsigned {q.name} = 0;", begin=True, times=0))


def span(at: WarpSpecialisedPrinter, loop: Loop) -> tuple[Callable[[str], str], str]:
    """(a turn's number in the loop by its number in this block, number of turns of this block)."""
    if at.stream and at.stream.loop is loop:
        start = at.stream.begin
        return lambda it: f"({start} + {it})", at.stream.turns
    if at.parts is None or at.parts.loop is not loop:
        return lambda it: it, at.turns(loop)
    begin, number = own_turns(at, at.parts, at.turns(loop))
    return lambda it: f"({begin} + {it})", number


def send(at: WarpSpecialisedPrinter, q: Queue) -> None:
    """Announce a slot's bytes, start its copies; of the first turns, those that are not ahead already."""
    slot, _ = turn(at, q)
    at.plan(Signal("fill", "full", q.name, q.depth, far=readers(at, q) > 1))
    early = at.prefetched.constants if at.prefetched and at.prefetched.queue is q else ()
    if early and q in counted(at):
        with at.block(f"if ({q.name} >= {at.prefetched.turns})"):  # type: ignore[union-attr]
            expect(at, q, slot)
            start(at, q, early, q.name, slot)
    elif not early:
        expect(at, q, slot)
    start(at, q, [s for s in q.copies if s not in early], q.name, slot)


def expect(at: WarpSpecialisedPrinter, q: Queue, slot: str) -> None:
    """Announce the bytes of a slot."""
    at.put(f"ac_barrier_expect({barrier(at, q, slot)}, {sum(at.placer.bulk[s.dst].copied for s in q.copies)});")


def start(at: WarpSpecialisedPrinter, q: Queue, copies: Iterable[Stmt], number: str, slot: str) -> None:
    """Start copies of a queue's turn of that number into a slot."""
    for s in copies:
        x = at.placer.bulk[s.dst]
        factor = list(at.placer.bulk).index(s.dst)
        coordinates = [index(a, lambda n: at.base.get(n, "0")) for a in x.start]
        for b in range(x.boxes):
            here = [f"{c} + {more}" if more else c for c, more in zip(coordinates, x.shift(b))]
            to = f"{at.memory} + {x.offset}{f' + {slot} * {x.bytes}' if q.depth > 1 else ''}{f' + {b * x.box_bytes}' if b else ''}"
            rest = f"{to}, &map{factor}, {barrier(at, q, slot)}, {', '.join(here)}"
            if s.dst in at.for_all:  # each block fetches its part
                whose = str(b % at.together) if x.boxes > 1 else f"{number} % {at.together}" if q.loop is not None else "0"
                at.put(f"if (ac_cluster_rank() == {whose}) ac_bulk_load_all<{at.together}>({rest});")
            else:
                at.put(f"ac_bulk_load{streams.once(at, x.view, 16 // x.view.dtype.bytes)}({rest});")
