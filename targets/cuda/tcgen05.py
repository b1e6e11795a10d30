"""Kernels whose products one thread issues into tensor memory (PTX: tcgen05; sm_100a): a producing thread starts TMA copies into rings of
shared memory, an issuing thread multiplies what has arrived, and the consumer warpgroups load the sums and run the epilogue.

Who does what are the steps that `tensor_memory` leaves. Sums are a ring too: the issuing thread fills a slot of it, the consumers empty it.
What completes a product is a commit (tcgen05.commit): an arrival at an mbarrier when all products issued before are done. No kernel of
this file has run on a device: it is compiled, and its text runs on the CPU model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autocomp.targets.cuda import queues
from autocomp.targets.cuda.pdl import pdl
from autocomp.targets.cuda.producer import produce
from autocomp.targets.cuda.queues import Queue
from autocomp.targets.cuda.team_placer import TEAM, TeamPlacer
from autocomp.targets.cuda.tensor_memory import BOX_BYTES, PIECE, ROWS, Boxes, Issue, Pieces, tensor_memory
from autocomp.targets.cuda.tma import Bulk
from autocomp.targets.cuda.tma_store import read_by_engine, team_meets
from autocomp.targets.cuda.warp_specialise import tile_of_role, warp_specialise
from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter
from autocomp.targets.cuda.wgmma import deep, descriptor
from autocomp.targets.simt.capacity import check_shared, registers_of
from autocomp.targets.simt.emit import check_grid
from autocomp.targets.simt.expressions import STORED, index
from autocomp.targets.simt.pdl import AwaitLaunches
from autocomp.targets.simt.placed import Placement, Product
from autocomp.targets.simt.placement import ALIGN, Placer

from autocomp.cost.chip import Chip
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.schedule import Schedule
from autocomp.tile.instruction import Instruction
from autocomp.tile.layout import Layout
from autocomp.tile.plan import Barrier, Block, Box, Count, Done, Draft, Fence, Node, Order, Signal, TensorMemory
from autocomp.tile.program import Buf, Stmt, TileProgram
from autocomp.tile.steps import Over, Steps, by, stmt_of

ADDRESSES = 40  # inferred: registers of a consumer beside its values
LEAST = 32  # columns of an allocation at least, a power of two; source: PTX ISA, tcgen05.alloc
# kind of an instruction and code of a factor's type in its descriptor; source: PTX ISA, tcgen05 instruction descriptor
KINDS = {"f16": ("f16", 0), "bf16": ("f16", 1), "tf32": ("tf32", 2), "f8e4m3": ("f8f6f4", 0), "f8e5m2": ("f8f6f4", 1),
         "u8": ("i8", 0), "i8": ("i8", 1)}  # fmt: skip
SUMS = {"f32": 1, "i32": 2}


class TensorPlacer(TeamPlacer):
    """Factors in swizzled TMA boxes; a thread's registers as loads bring it a row of the sums."""

    def product(self, s: Stmt, chained: bool) -> None:
        self.first = s.srcs[0]
        Placer.product(self, s, chained)
        pr = self.out.products[s]
        if pr.repeat != (1, 1) or not all(type(self.bulk.get(x)) is Bulk for x in (pr.a, pr.b)):
            raise self.refuse(f"{s.dst}: no product of factors copied in bulk, {pr.instruction.m} rows a warpgroup and at most 256 columns")
        self.whole_boxes(pr)

    def instruction(self, a: Buf, b: Buf, c: Buf, n: int) -> Instruction:
        i = super().instruction(a, b, c, n)
        if i.n % 16:
            raise self.refuse(f"{n} columns are no multiple of 16", "take a wider tile")
        return i


def encoded(pr: Product, a_deep: bool, b_deep: bool) -> int:
    """The instruction descriptor: types, majors and sizes. source: PTX ISA, tcgen05 instruction descriptor."""
    i = pr.instruction
    left, right = (KINDS[i.factor or x][1] for x in i.types[:2])
    return SUMS[i.types[2]] << 4 | left << 7 | right << 10 | (not a_deep) << 15 | (not b_deep) << 16 | i.n // 8 << 17 | i.m // 16 << 24


class TensorMemoryPrinter(WarpSpecialisedPrinter):
    """The text of all three roles."""

    describes = "ac_tensor_descriptor"

    def __init__(self, p: TileProgram, place: Placement, placer: TensorPlacer, columns: int, **rest: Any) -> None:
        """`columns`: of tensor memory, that a core has."""
        super().__init__(p, place, placer, **rest)
        ((_, pr),) = place.products.items()
        self.across = pr.instruction.n * self.workers  # columns of a tile's sums
        depth = 2 if self.persistent and 2 * self.across <= columns else 1
        self.sums = Queue(self.names.fresh("sums"), None, [], depth)
        self.sums.at = place.reserve(16 * depth, 8)
        self.rings[self.sums.name] = self.sums
        self.named_at, self.tensor_name = place.reserve(4, 4), self.names.fresh("tensor")
        self.taken_columns = max(LEAST, 1 << (self.across * depth - 1).bit_length())
        if self.taken_columns > columns:
            raise DoesNotFit("columns of tensor memory", needed=self.taken_columns, available=columns, where=f"kernel {p.name}",
                             hint="use narrower tiles")  # fmt: skip
        self.issuing, self.boxes = Draft(), self.names.fresh("boxes")
        self.held = Pieces("", PIECE, 0)  # what is at hand of the sums

    def in_front(self, node: Node) -> None:
        self.issuing.put(node)

    PASSES = (warp_specialise, pdl, tensor_memory)

    def statements(self) -> None:
        steps = self.scheduled(self.p.body)
        producer, issuer, consumers = (n for n in steps if isinstance(n, Over))
        own = f"{self.memory} + {self.named_at}"
        self.opening(steps)
        alloc = f"if (wave == 0) ac_tensor_alloc<{self.taken_columns}>({own});"
        self.plan(TensorMemory("alloc", alloc), Barrier("block", "__syncthreads();"),
                  TensorMemory("name", f"const unsigned {self.tensor_name} = *(const unsigned *)({own});"))  # fmt: skip
        with self.within(Block("if (team == 0)", (), role="producer issuer")):
            with self.within(Block("if (threadIdx.x == 0)", (), role="producer")):
                produce(self, producer)
            with self.within(Block("if (threadIdx.x == AC_WAVE)", (), role="issuer")):
                self.write_issuer(tile_of_role(issuer)[1])
            self.put("return;")
        if any(by(n, AwaitLaunches) for n in tile_of_role(consumers)[0]):
            self.meet_launches()
        self.here.put(self.top)
        self.consume(consumers)
        free = f"if (wave == 0) ac_tensor_free<{self.taken_columns}>({self.tensor_name});"
        self.plan(Barrier("consumers"), TensorMemory("free", free))

    def barriers(self) -> None:
        for q, emptied in (*((q, 1) for q in self.queues), (self.sums, 4 * self.workers)):
            queues.barriers_of(self, q, emptied)

    def holds(self, chip: Chip, schedule: Schedule) -> tuple[float, int, dict[str, int]]:
        pieces = {x: layout.registers // PIECE for x, layout in self.place.layouts.items() if layout.registers > PIECE}
        return registers_of(chip, TEAM * (schedule.workers + 1)) - ADDRESSES, 0, pieces

    # ---- the issuing thread
    def write_issuer(self, body: Steps) -> None:
        self.here.put(self.issuing)
        queues.counters(self)
        self.next_sums(begin=True)
        with self.tiles():
            self.turns_of(body, "")
            queues.turned(self, None)
            self.next_sums()

    def turns_of(self, body: Steps, turn: str) -> None:
        """A product, or the loop around it; `turn`: the variable that counts the loop's turns."""
        for n in body:
            if isinstance(n, Over) and n.loop:
                it = self.names.fresh("it")
                if turn or n.loop.until or not all(isinstance(x := self.p.extent(a), int) and x > 0 for a in n.loop.axes):
                    raise self.placer.refuse(f"a loop over {', '.join(n.loop.axes)} has no fixed number of turns")
                with self.block(f"for (int {it} = 0; {it} < {self.turns(n.loop)}; ++{it})", again=it):
                    self.turns_of(n.body, it)
                    queues.turned(self, n.loop)
            elif (s := stmt_of(n)) and by(n, Issue):
                self.multiply(s, turn)

    def multiply(self, s: Stmt, turn: str) -> None:
        """The instructions of one step, for each consumer's rows, and the commit that gives its slots back."""
        pr = replace(self.place.products[s], repeat=(self.workers, 1), waves=(1, 1))
        i, reads = pr.instruction, tuple(q.name for q in self.queues if q in (self.of.get(pr.a), self.of.get(pr.b)))
        self.plan(TensorMemory("multiply", ring=self.sums.name, depth=self.sums.depth, reads=reads))
        kind, how = KINDS[i.factor or i.types[0]][0], encoded(pr, deep(self, pr.a, pr), deep(self, pr.b, pr))
        slot, _ = queues.turn(self, self.sums)
        to = f"{self.tensor_name}{f' + {slot} * {self.across}' if self.sums.depth > 1 else ''}{f' + m * {i.n}' if self.workers > 1 else ''}"
        keep = f"{turn} > 0 || kk > 0" if turn else "kk > 0"
        with self.block(f"for (int kk = 0; kk < {pr.steps}; ++kk)", unroll=True), self.over(self.workers, "m"):
            factors = f"{descriptor(self, pr.a, True, pr)}, {descriptor(self, pr.b, False, pr)}"
            self.put(f"ac_tensor_mma_{kind}({to}, {factors}, {how:#x}u, {keep});")
        self.plan(TensorMemory("issued", reads=reads))

    # ---- consumers
    def consume(self, role: Over) -> None:
        self.next_sums(begin=True)
        self.declare()
        *front, pieces = tile_of_role(role)[1]
        what = by(pieces, Pieces)
        assert isinstance(pieces, Over) and what is not None
        if what.boxes:
            self.wants("tma_store")
            self.placer.maps.append(what.boxes.map)
            at, size = self.place.reserve(BOX_BYTES * what.boxes.slots * self.workers, ALIGN), BOX_BYTES * what.boxes.slots
            self.put(f"unsigned char *const {self.boxes} = {self.memory} + {at}{f' + wave / 4 * {size}' if self.workers > 1 else ''};")
        with self.tiles():
            self.run(front)
            slot, _ = queues.turn(self, self.sums)
            rows = f"({self.tensor_name} + (wave % 4 << 21){f' + {slot} * {self.across}' if self.sums.depth > 1 else ''}"
            rows += f" + wave / 4 * {self.across // self.workers})" if self.workers > 1 else ")"
            with self.each(what.count, "g"):
                columns = f"g * {what.columns}"
                load = f"ac_tensor_load<{what.columns}>(&{self.names.of(what.sums)}[{columns}], {rows} + {columns});"
                self.plan(TensorMemory("load", load, self.sums.name, self.sums.depth))
                self.box, self.held = "g", what
                self.run(pieces.body)
                self.box = ""
            self.next_sums()
        if what.boxes:
            self.plan(Done(0, "if (threadIdx.x % 128 == 0) ac_bulk_drain();", "stores"))

    def store(self, s: Stmt) -> None:
        if self.held.boxes:
            self.leave_by_tma(s, self.held.boxes)
        else:
            super().store(s)

    def leave_by_tma(self, s: Stmt, x: Boxes) -> None:
        """Rows of threads into a box, swizzled, and the box to global memory."""
        slot = f"g % {x.slots}" if x.slots > 1 else "0"
        box = Box("boxes", "write", (("g", 1),), x.slots)
        if self.persistent or self.held.count > x.slots:  # a slot is written again; tiles of odd pieces end where the next ones begin
            self.plan(read_by_engine(0 if self.held.count % x.slots else x.slots - 1), team_meets(self))
        self.plan(box)
        to, kind, value = f"{self.boxes} + {slot} * {BOX_BYTES}", STORED[self.bufs[s.srcs[0]].dtype.name], self.names.of(s.srcs[0])
        with self.over(8, "q"):
            self.put(f"ac_store<8>(({kind} *)({to} + ac_swizzle<128>(wave % 4 * 32 + lane, q * 16)), &{value}[g * 64 + q * 8]);")
        here = {x.row: f"wave / 4 * {ROWS}" if self.workers > 1 else "", x.column: "g * 64"}
        first = lambda a: f"({' + '.join(y for y in (self.base.get(a), here.get(a)) if y) or '0'})"
        place = ", ".join(index(i, first) for i in x.start)
        store = f"if (threadIdx.x % 128 == 0) ac_bulk_store(&map{len(self.placer.maps) - 1}, {to}, {place});"
        self.plan(Fence("ac_async_fence();"), team_meets(self), replace(box, do="store", text=store))

    def registers(self, layout: Layout, var: str = "r", step: int = 1) -> Any:
        """Of what lies as the sums, the piece that is at hand."""
        if not self.box or layout.registers == 1:
            return self.over(layout.registers // step, var)
        each = self.held.columns // step
        return self.block(f"for (int {var} = {self.box} * {each}; {var} < {self.box} * {each} + {each}; ++{var})", unroll=True)

    def words(self, n: Order) -> str:
        if isinstance(n, TensorMemory):
            return f"ac_tensor_{n.do}();" if n.do in ("before", "after") else ""
        if isinstance(n, Signal) and n.do == "fill" and (n.what == "empty" or n.queue == self.sums.name):
            slot, _ = queues.turn(self, q := self.rings[n.queue])
            return f"ac_tensor_commit({queues.barrier(self, q, slot, n.what == 'full')});"
        return super().words(n)

    def next_sums(self, begin: bool = False) -> None:
        """A role's number of the tile's sums, where there are several tiles."""
        if self.persistent:
            name = self.sums.name
            self.plan(Count(name, f"unsigned {name} = 0;", begin=True, times=0) if begin else Count(name, f"++{name};"))


def placed(p: TileProgram, schedule: Schedule, chip: Chip, table: tuple[Instruction, ...], plain: Instruction) -> TensorMemoryPrinter:
    """The printer of a program whose products stand in front. Raises UnsupportedOp for what is no plain product, DoesNotFit with the
    numbers of shared memory or tensor memory."""
    if schedule.cluster > 1 or schedule.cluster_split_k > 1 or schedule.ping_pong or schedule.stream_k or schedule.resident > 1:
        raise UnsupportedOp("products into tensor memory are not shared out among blocks or warpgroups that take turns",
                            where=f"kernel {p.name}", hint="one block a core, a tile at a time")  # fmt: skip
    at = Placement(TEAM * schedule.workers, chip.lanes(4), schedule.stages)
    placer = TensorPlacer(p, table, plain, at, schedule.workers, 1, schedule.instruction)
    placer.run()
    if len(at.products) != 1:
        raise placer.refuse(f"a kernel with tensor memory has one product, and this one has {len(at.products)}")
    shared, reserved = chip.shared_of_core
    check_shared(p, max(at.bytes, placer.reach), shared - reserved)
    check_grid(p)
    return TensorMemoryPrinter(p, at, placer, int(chip.numbers["tensor_columns"]), room=shared - reserved, directives=schedule.directives)
