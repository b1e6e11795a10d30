"""Persistent row reductions (rule tiling/gpu-persistent-rows): a row that two passes read (softmax, norms over wide rows) comes from
memory once and stays in a ring of shared memory; the next row's pieces are copied into slots as the row leaves them.

Blocks stay for several tiles. A piece is what a block reads in one turn of a loop over the row; the bulk engine brings it into a slot
of a ring, and the slots that the row leaves over receive the next row's pieces meanwhile. `full` says that a piece has landed; its waves
arrive at `empty` when they have read it for the last time, and one thread, a turn later, starts the copy that follows in the slot. Where
these signals stand follows from the reads, the copies and the counts of turns (`tile.signals`).

    piece = tile of this block * turns + turn      slot = piece % stages      phase of its barriers = piece / stages
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from autocomp.targets.cuda import mbarriers
from autocomp.targets.simt import trees
from autocomp.targets.simt.access import steps_by, view_step
from autocomp.targets.simt.capacity import check_block, check_capacity, registers_of
from autocomp.targets.simt.digits import digit
from autocomp.targets.simt.emit import check_grid, source
from autocomp.targets.simt.expressions import STORED
from autocomp.targets.simt.placed import Placement, tile_of
from autocomp.targets.simt.placement import place
from autocomp.targets.simt.printer import Printer
from autocomp.targets.simt.skip_neutral import skip_neutral
from autocomp.targets.source import Planned

from autocomp.cost.chip import Chip
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.schedule import Schedule
from autocomp.tile.instruction import Instruction
from autocomp.tile.layout import Digit, weights
from autocomp.tile.plan import Agents, Barrier, Box, Count, Fence, Order, Reads, Signal
from autocomp.tile.program import Loop, Stmt, Tensor, TileProgram
from autocomp.tile.steps import Over, Step

GRAIN = 16  # bytes: addresses and lengths of bulk copies are multiples of it (PTX ISA, cp.async.bulk)
RING = "row"  # its name in the plan
MOST = 64  # copies that one thread starts for a piece


def planned_rows(p: TileProgram, schedule: Schedule, chip: Chip, plain: Instruction, headers: tuple[str, ...] = ()) -> Planned:
    """The statements of the plan of blocks that stay, `schedule.resident` on a core, where a block holds all that they place: a piece's
    values (`fitted_rows`), then slots and what reductions exchange. Raises UnsupportedOp for rows that do not come in bulk, DoesNotFit with
    the numbers of slots, shared memory or registers."""
    at, shared = fitted_rows(p, schedule, chip, plain)
    printer = RowPrinter(p, at, schedule.directives)
    printer.overlaps = printer.wants("pdl", "launches_overlap" in chip.features)
    printer.statements()
    check_capacity(p, at, shared, registers_of(chip, schedule.threads, schedule.resident))
    blocks = chip.clusters(schedule.cluster) * schedule.cluster * schedule.resident
    return Planned(printer, lambda header: source(p, at, printer, schedule.threads, header, headers, "cu", at_most=blocks,
                                                  resident=schedule.resident))  # fmt: skip


def fitted_rows(p: TileProgram, schedule: Schedule, chip: Chip, plain: Instruction) -> tuple[Placement, float]:
    """Where the values of a row's piece lie, and the bytes of shared memory that a block has, if a thread's registers hold them. The
    slots come on top (`planned_rows`). Raises UnsupportedOp where the chip has no bulk copies, DoesNotFit with the numbers."""
    if "clusters" not in chip.features:
        raise UnsupportedOp(f"{chip.name} has no bulk copies", where=f"kernel {p.name}", hint="take a schedule with one block a tile")
    check_block(p, schedule.threads, schedule.cluster, chip)
    at = place(p, (), plain, schedule.threads * schedule.cluster, chip.lanes(4), schedule.stages, schedule.cluster)
    reserved = chip.limits.get("shared_reserved", 0.0)  # of each block, beside what it may have
    shared = (chip.memory("shared").capacity + reserved) // schedule.resident - reserved
    check_capacity(p, at, shared, registers_of(chip, schedule.threads, schedule.resident))
    check_grid(p)
    return at, shared


@dataclass(frozen=True)
class Streamed:
    """A view's piece as a block reads it. `places`: each digit of a register, a lane or a wave with its step in the slot; `outer`: the
    digits between runs of memory, fastest first; `far`: those between the blocks of a cluster; `run`: elements of a bulk copy; `offset`:
    bytes from the slot's start."""

    view: Tensor
    places: dict[tuple[str, int], int]
    outer: tuple[Digit, ...]
    far: tuple[tuple[Digit, int], ...]
    run: int
    offset: int

    @property
    def copies(self) -> int:
        return prod(d.count for d in self.outer)

    @property
    def bytes(self) -> int:
        return self.copies * self.run * self.view.dtype.bytes


class RowPrinter(Printer):
    """The text of a block that stays. `place.stages`: slots."""

    turn: str

    zeros_outside = False  # a ring holds whatever lies behind a row

    def __init__(self, p: TileProgram, place: Placement, directives: tuple[str, ...]) -> None:
        super().__init__(p, place, directives=directives)
        for name in ("at", "piece"):
            self.names.fresh(name)
        first = p.body[0] if p.body else None
        if not isinstance(first, Loop) or first.kind != "grid" or place.products:
            raise self.refuse("blocks stay for rows of a grid, without products")
        self.rows = first
        self.passes = [n for n in first.body if isinstance(n, Loop) and any(isinstance(s, Stmt) and s.op == "copy" for s in n.body)]
        if not self.passes or any(n.axes != self.passes[0].axes or n.until for n in self.passes):
            raise self.refuse("no loops pass over a row alike")
        self.streamed: dict[str, Streamed] = {}  # by view
        self.slot_bytes = 0
        for s in self.passes[-1].body:
            if isinstance(s, Stmt) and s.op == "copy" and all(self.reads(n, s.srcs[0]) for n in self.passes) and (x := self.stream(s)):
                self.streamed[s.srcs[0]] = x
                self.slot_bytes += -(-x.bytes // 128) * 128
        if not self.streamed:
            raise self.refuse("no row comes in runs of 16 bytes")
        self.turns_of_row = prod(-(-int(p.extent(a)) // tile_of(p, a)) for a in self.passes[0].axes)  # type: ignore[arg-type]
        if place.stages < self.turns_of_row:
            raise DoesNotFit("slots for the pieces of a row", needed=self.turns_of_row, available=place.stages,
                             where=f"kernel {p.name}", hint="use larger pieces or more stages")  # fmt: skip
        self.slots_at = place.reserve(self.slot_bytes * place.stages, 128)
        self.full = place.reserve(16 * place.stages, 8)
        self.tile = f"(piece / {self.turns_of_row})"

    def refuse(self, what: str) -> UnsupportedOp:
        return UnsupportedOp(what, where=f"kernel {self.p.name}", hint="take a schedule with one block a tile")

    # ---- what comes through slots
    def reads(self, loop: Loop, view: str) -> bool:
        return any(isinstance(s, Stmt) and s.op == "copy" and s.srcs[0] == view for s in loop.body)

    def stream(self, s: Stmt) -> Streamed | None:
        """How a copy goes through slots, None if it does not: its tile lies inside of the tensor, in runs of whole 16 bytes."""
        t, layout = self.p.tensor(s.srcs[0]), self.place.layouts.get(s.dst)
        if t is None or layout is None or s.dst in self.place.staged or s.dst in self.place.words or t.guard:
            return None
        if any(layout.extent(a) != tile_of(self.p, a) for a in layout.axes()) or any(self.outside(a, 1, "b") for a in t.axes):
            return None
        if any(not d.axis for level in (layout.reg, layout.lane, layout.wave) for d in level):
            return None
        near, far = trees.levels(layout, layout.waves // self.place.cluster)
        run, places, outer, total = 1, dict[tuple[str, int], int](), list[Digit](), 1
        step = lambda d: view_step(t, d.axis) * d.stride
        for d in sorted((*layout.reg, *layout.lane, *(d for d, _ in near)), key=step):
            places[d.axis, d.stride] = total
            if step(d) == run and not outer:
                run *= d.count
            else:
                outer.append(d)
            total *= d.count
        v = GRAIN // t.dtype.bytes
        steps = [step(d) for d in (*outer, *(d for d, _ in far))]
        if run % v or any(x <= 0 or x % v for x in steps) or not steps_by(t, layout.axes(), v) or total // run > MOST:
            return None
        return Streamed(t, places, tuple(outer), tuple(far), run, self.slot_bytes)

    # ---- the kernel
    # launches are awaited in front of all tiles, and of each row every piece
    PASSES = tuple(x for x in Printer.PASSES[:-1] if x is not skip_neutral)

    def statements(self) -> None:
        self.heading()
        self.meet_launches()
        n, stages = self.place.cluster, self.place.stages
        self.total = " * ".join(self.count(a) for a in self.rows.axes)
        of = lambda x: f"({x} / {n})" if n > 1 else x
        self.begin, self.step = of("(int)blockIdx.x"), of("(int)gridDim.x")
        waves = self.place.threads // n // self.place.wave
        with self.block("if (threadIdx.x == 0)", alone=True):
            with self.block(f"for (int i = 0; i < {stages}; ++i)"):
                self.put(f"ac_barrier_init({self.barrier('i')}, 1);", f"ac_barrier_init({self.barrier('i', False)}, {waves});")
            self.plan(Box("mbarriers", "write", far=True), Fence("ac_barrier_fence();", "mbarriers"))
            with self.block(f"for (int i = 0; i < {stages}; ++i)", again="i", turns=stages):
                self.start("i", "i", 0)
                self.plan(Count(RING, ""))
            self.plan(Count(RING, "", begin=True, times=0))
        self.plan(Barrier("block"), Count(RING, "", times=-1))  # each turn begins with the next number
        self.put("int piece = 0;")
        head = f"for (int tile = {self.begin}; tile < {self.total}; tile += {self.step}, piece += {self.turns_of_row})"
        with self.block(head, again="tile"):
            self.grid(self.rows, "tile")
            self.declare()
            self.run(self.scheduled(self.rows.body))
            with self.block("if (threadIdx.x == 0)", alone=True):
                self.follow(f"(piece + {self.turns_of_row - 1})", -stages)
        self.plan(Agents(producer=False, turns=self.turns_of_row))
        self.closing()

    def barrier(self, slot: str, full: bool = True) -> str:
        return mbarriers.barrier(self.memory, self.full, self.place.stages, slot, full)

    def follow(self, piece: str, back: int) -> None:
        """Text of one thread: the copy that follows a piece in its slot; `back`: of its turn, as in `Signal`."""
        stages = self.place.stages
        name = self.names.fresh("done")
        self.put(f"const int {name} = {piece};")
        self.start(f"({name} + {stages})", f"{name} % {stages}", back, name)

    def start(self, piece: str, slot: str, back: int, last: str = "") -> None:
        """Text of one thread: the copies of a piece, if there is one, behind the readers of the slot's `last` one."""
        outer = dict(self.base)
        tile = self.names.fresh("soon")
        self.put(f"const int {tile} = {self.begin} + {piece} / {self.turns_of_row} * {self.step};")
        with self.block(f"if ({tile} < {self.total})", within=(RING, back), numbers=((RING, last),)):
            self.grid(self.rows, tile)
            self.bases(self.passes[0], f"{piece} % {self.turns_of_row}")
            self.plan(Signal("fill", "full", RING, self.place.stages, back=back))
            self.put(f"ac_barrier_expect({self.barrier(slot)}, {sum(x.bytes for x in self.streamed.values())});")
            for x in self.streamed.values():
                self.bring(x, slot)
        self.base.clear()
        self.base.update(outer)

    def words(self, n: Order) -> str:
        if isinstance(n, Barrier) and n.agents == "wave":
            return "ac_wave_sync();"
        if not isinstance(n, Signal) or n.do == "fill":
            return super().words(n)
        if n.do == "arrive":
            return f"if (lane == 0) ac_barrier_arrive({self.barrier('at', False)});"
        slot, phase = mbarriers.turn(n.number, n.depth)
        return f"ac_barrier_wait({self.barrier('at' if n.what == 'full' else slot, n.what == 'full')}, {phase});"

    def bring(self, x: Streamed, slot: str) -> None:
        k, every = self.names.fresh("k"), x.run * x.view.dtype.bytes

        def place(a: str) -> str:
            parts = [digit(k, d, w, x.outer) for d, w in weights(x.outer) if d.axis == a]
            parts += [digit("ac_cluster_rank()", d, w, tuple(d for d, _ in x.far)) for d, w in x.far if d.axis == a]
            base = self.base.get(a)
            return "(" + " + ".join(([base] if base else []) + parts) + ")" if parts else base or "0"

        to = f"{self.memory} + {self.slots_at + x.offset} + ({slot}) * {self.slot_bytes}"
        if x.copies > 1:
            with self.over(x.copies, k):
                self.put(f"ac_bulk_run({to} + {k} * {every}, {self.address(x.view, place)}, {every}, {self.barrier(slot)});")
        else:
            self.put(f"ac_bulk_run({to}, {self.address(x.view, place)}, {every}, {self.barrier(slot)});")

    # ---- statements
    def turn_begins(self, loop: Loop, it: str) -> None:
        if not any(loop is n for n in self.passes):
            return
        stages = self.place.stages
        self.plan(Count(RING, "", number=f"(piece + {it})"))
        self.put(f"const int at = (piece + {it}) % {stages};")
        self.plan(Reads((RING,)))
        if loop is self.passes[-1]:
            with self.block(f"if (threadIdx.x == 0 && {it} > 0)", alone=True, since=(((it, 1),), 1)):
                self.follow(f"(piece + {it} - 1)", 1 - stages)

    def loop(self, n: Over, loop: Loop) -> None:
        super().loop(n, loop)
        if any(loop is n for n in self.passes[:-1]):  # the next pass begins with the row's first piece
            self.plan(Count(RING, "", times=-1, turns=True))

    def run(self, body: Iterable[Loop | Stmt | Step]) -> None:
        """What blocks of a cluster read of each other alternates from tile to tile; in a loop of a tile it is written once a turn."""
        turn, tile = self.turn, self.tile
        self.turn, self.tile = tile, ""
        super().run(body)
        self.turn, self.tile = turn, tile

    def load(self, s: Stmt, t: Tensor) -> None:
        if t.name not in self.streamed or not any(s in n.body for n in self.passes):
            super().load(s, t)
        else:
            self.take(s, self.streamed[t.name])

    def take(self, s: Stmt, x: Streamed) -> None:
        """A thread's part of a slot."""
        layout, name, kind = self.place.layouts[s.dst], self.names.of(s.dst), STORED[x.view.dtype.name]
        v = self.vector(layout, x.view)
        near, _ = trees.levels(layout, layout.waves // self.place.cluster)
        at = lambda d: Digit(d.axis, x.places[d.axis, d.stride], d.count)
        mine = [digit("lane", at(d), w, layout.lane) for d, w in weights(layout.lane)]
        mine += [digit(self.warp, at(d), w, tuple(d for d, _ in near)) for d, w in near]
        from_ = self.names.fresh("from")
        self.put(f"const {kind} *{from_} = (const {kind} *)({self.memory} + {self.slots_at + x.offset} + at * {self.slot_bytes})"
                 f"{''.join(f' + {m}' for m in mine)};")  # fmt: skip
        with self.registers(layout, "q", v):
            r = f"(q * {v})" if v > 1 else "q"
            offset = " + ".join(digit(r, at(d), w, layout.reg) for d, w in weights(layout.reg)) or "0"
            self.put(f"ac_load<{v}>(&{name}[q * {v}], {from_} + ({offset}));")
        self.plan(Box("rows", "read", ring=RING, depth=self.place.stages))
