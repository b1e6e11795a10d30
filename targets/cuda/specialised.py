"""Kernels whose warps have roles: one warpgroup starts bulk copies into rings, the others multiply what has arrived.

A ring is a queue: `full` says that a slot's bytes have landed, `empty` that its readers are done. The producer walks the same
program as the consumers and keeps only the copies; waits, releases and drains are inferred from what each statement touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace

from autocomp.targets.cuda import turns
from autocomp.targets.cuda.boxes import store_boxes
from autocomp.targets.cuda.bulk import Bulk
from autocomp.targets.cuda.early import ask, unpack
from autocomp.targets.cuda.laid import lay_down
from autocomp.targets.cuda.parts import add_up, find_parts, own_share, own_turns
from autocomp.targets.cuda.skewed import print_skewed, skew_of
from autocomp.targets.cuda.streams import find_stream, mend, pieces
from autocomp.targets.cuda.team_placer import TEAM, Laid, TeamPlacer, register_budget
from autocomp.targets.simt.access import contiguous_axis
from autocomp.targets.simt.expressions import STORED, index, literal
from autocomp.targets.simt.placed import Product
from autocomp.targets.simt.placement import Placement
from autocomp.targets.simt.printer import Printer

from autocomp.errors import UnsupportedOp
from autocomp.tile.layout import Layout
from autocomp.tile.program import Loop, Stmt, Tensor, TileProgram, walk

PTX = {"f8e4m3": "e4m3", "f8e5m2": "e5m2", "i8": "s8", "i32": "s32"}  # types that PTX names otherwise


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


@dataclass
class Flight:
    """A product under way: its accumulator and register factor must not be touched; then its queues' slots are free."""

    stmt: Stmt
    queues: tuple[str, ...]
    carried: bool = False  # begun in the turn before
    guard: str = ""  # when there was one


def _starts_product(fill: Stmt, behind: Sequence[Loop | Stmt]) -> bool:
    """Whether the next statement that touches what is filled with zero is a product into it: it then need not be read."""
    for n in behind:
        touched = {x for s, _ in walk((n,)) for x in (s.dst, *s.srcs)}
        if fill.dst in touched:
            return fill.expr == 0 and isinstance(n, Stmt) and n.op == "mma" and n.dst == fill.dst
    return False


class TeamPrinter(Printer):
    """The consumers' text; `producer` prints the other role."""

    def __init__(self, p: TileProgram, place: Placement, placer: TeamPlacer, exact: bool = False, cluster: int = 1,
                 blocks: int = 1, teams: int = 1) -> None:  # fmt: skip
        super().__init__(p, place, exact)
        self.placer, self.workers, self.consuming = placer, placer.workers, False
        self.teams = teams * placer.workers  # consuming warpgroups; `workers` of them share a tile
        self.budget = register_budget(self.teams, placer.resident)
        first = p.body[0] if p.body else None
        self.persistent = isinstance(first, Loop) and first.opt("persistent") == "yes"
        self.parts = find_parts(self)
        self.added = False  # the parts' sums
        if self.parts is not None:
            self.memory = "own"
            if cluster != self.parts.count:
                raise placer.refuse(f"a depth in {self.parts.count} parts needs clusters of as many blocks, not of {cluster}")
        elif cluster > 1:
            self.paired, self.together, self.memory = self.pair(), cluster, "own"
        self.stream = find_stream(self, blocks)
        self.order = turns.find_turns(self, teams)
        self.queues = self.find_queues()
        self.of = {s.dst: q for q in self.queues for s in q.copies}
        self.waited: set[str] = set()
        self.empty: set[str] = set()  # accumulators that the next product starts afresh
        self.flights: list[Flight] = []
        self.wrappers: dict[str, str] = {}
        self.returned: set[str] = set()  # queues of tiles whose slot of this tile is given back
        self.descriptors: dict[tuple[str, bool, bool, int], str] = {}  # of a factor (a warpgroup's own part, along its rows) -> variable
        self.stored = False
        self.early: dict[str, str] = {}  # of a copy whose loads came before the product -> its packed values

    def find_queues(self) -> list[Queue]:
        """Copies of one loop that one product reads, or products that share a factor, travel together."""
        groups: list[tuple[Loop | None, list[Stmt], set[int]]] = []
        products = [s for s, _ in walk(self.p.body) if s.op == "mma"]
        readers = {name: {id(m) for m in products if name in m.srcs} for name in self.placer.bulk}
        for s, loops in walk(self.p.body):
            if s.op != "copy" or s.dst not in self.placer.bulk:
                continue
            loop = loops[-1] if loops and loops[-1].kind != "grid" else None
            stays = self.persistent and s.dst in self.place.once
            mine = [g for g in groups if g[0] is loop and g[2] & readers[s.dst] and stays == (g[1][0].dst in self.place.once)]
            new = (loop, [x for g in mine for x in g[1]] + [s], set().union(readers[s.dst], *(g[2] for g in mine)))
            groups = [g for g in groups if g not in mine] + [new]
        out = []
        for n, (loop, copies, _) in enumerate(groups):
            depth = self.place.depth(copies[0].dst)
            q = Queue(f"q{n}", loop, copies, depth, self.persistent and copies[0].dst in self.place.once)
            q.at = self.place.reserve(16 * depth, 8)
            out.append(q)
        return out

    # ---- the two roles
    def body(self) -> list[str]:
        self.put("extern __shared__ __align__(1024) unsigned char smem[];")
        if self.memory == "own":
            self.put(f"unsigned char *const {self.memory} = ac_own_memory(smem);")
        if self.parts:
            self.put(f"const int {self.parts.rank} = ac_cluster_rank();")
        wave = self.order.wave if self.order else "threadIdx.x / AC_WAVE - 4"
        self.put(f"const int lane = threadIdx.x % AC_WAVE, team = threadIdx.x / 128, wave = {wave};")
        self.put("(void)lane; (void)wave;")
        with self.block("if (threadIdx.x == 0)"):
            for q in self.queues:
                with self.block(f"for (int i = 0; i < {q.depth}; ++i)"):
                    self.put(f"ac_barrier_init({self.barrier(q, 'i')}, 1);")
                    self.put(f"ac_barrier_init({self.barrier(q, 'i', False)}, {4 * self.workers * self.readers(q)});")
            if self.parts:
                inbox = f"{self.memory} + {self.parts.barrier}"
                self.put(f"ac_barrier_init({inbox}, 1);", f"ac_barrier_expect({inbox}, {self.parts.bytes});")
            if self.order:
                turns.barriers(self, self.order)
            self.put("ac_barrier_fence();")
        if self.parts:
            self.put("ac_cluster_arrive();")
        self.put("ac_cluster_sync();" if self.together > 1 else "__syncthreads();")
        with self.block("if (team == 0)"):
            self.put(f"ac_registers_release<{self.budget[0]}>();")
            with self.block("if (threadIdx.x == 0)"):
                self.counters()
                for q in self.queues:
                    if q.resident:
                        self.send(q)
                with self.tiles() as body:
                    self.produce(body)
                    self.turned(None)
            self.leave()
            if self.parts:
                self.put("ac_cluster_wait();")
            self.put("return;")
        self.put(f"ac_registers_claim<{self.budget[1]}>();")
        self.consuming = True
        self.counters()
        self.declare()
        with self.tiles() as body:
            self.waited -= {q.name for q in self.queues if q.loop is None}
            self.returned.clear()
            if self.order:
                turns.begin(self, self.order)
                last = next(k for k, n in enumerate(body) if turns.holds_last(self.order, n)) + 1
                self.run(body[:last])
                turns.pass_on(self, self.order)
                body = body[last:]
            self.run(body)
            if self.persistent:
                self.settle({f.stmt.dst for f in self.flights})
                for q in self.queues:
                    if q.loop is None and not q.resident and q.name not in self.returned:
                        self.give_back(q, self.turn(q)[0], "")
                self.turned(None)
        if self.stored:
            self.put("if (threadIdx.x % 128 == 0) ac_bulk_drain();")
        self.leave()
        return self.lines

    def leave(self) -> None:
        """A block of a cluster stays until no other writes into its memory or arrives at its barriers."""
        if self.together > 1:
            self.put("ac_cluster_sync();")

    # ---- clusters: neighbouring blocks receive the factor that they share once
    def pair(self) -> str:
        """The grid axis along which a cluster's blocks lie: some copied factor does not depend on it."""
        first = self.p.body[0] if self.p.body else None
        axes = first.axes if isinstance(first, Loop) and first.kind == "grid" else ()
        if len(axes) < 2 or first is None or first.opt("persistent") != "yes":  # type: ignore[union-attr]
            raise self.placer.refuse("a cluster shares a factor between rows of tiles, in blocks that stay")
        if any(s.op == "reduce" for s, _ in walk(self.p.body)):
            raise self.placer.refuse("a cluster that shares a factor reduces nothing")
        if all(axes[-2] in x.view.axes for x in self.placer.bulk.values()):
            raise self.placer.refuse(f"no factor is shared along {axes[-2]}")
        return axes[-2]

    def shared(self, s: Stmt) -> bool:
        """Whether all blocks of the cluster need the same bytes."""
        return self.together > 1 and self.paired not in self.placer.bulk[s.dst].view.axes

    def readers(self, q: Queue) -> int:
        """Blocks whose consumers release a queue's slots."""
        return self.together if any(map(self.shared, q.copies)) else 1

    def give_back(self, q: Queue, slot: str, guard: str) -> None:
        """Tell the producers that write into a slot that this warp has read it."""
        empty = self.barrier(q, slot, False)
        if self.readers(q) > 1:
            self.put(f"if ({guard}lane < {self.together}) ac_barrier_arrive_at({empty}, lane);")
        else:
            self.put(f"if ({guard}lane == 0) ac_barrier_arrive({empty});")

    @contextmanager
    def tiles(self) -> Iterator[tuple[Loop | Stmt, ...]]:
        """The text around a tile: its position, and a loop over tiles where blocks stay."""
        first = self.p.body[0] if self.p.body else None
        if not (isinstance(first, Loop) and first.kind == "grid"):
            yield self.p.body
            return
        if self.parts:
            self.grid(first, f"blockIdx.x / {self.parts.count}")
            yield first.body
        elif self.stream:
            with pieces(self, self.stream, first):
                yield first.body
        elif self.persistent:
            every = self.together
            total = " * ".join(f"(({self.count(a)} + {every - 1}) / {every})" if a == self.paired else self.count(a) for a in first.axes)
            of = lambda x: f"{x} / {every}" if every > 1 else x
            begin, step = of("blockIdx.x"), of("gridDim.x")
            if self.order and self.consuming:
                begin, step = f"{begin} + (team - 1) * {step}", f"{self.order.teams} * {step}"
            with self.block(f"for (int tile = {begin}; tile < {total}; tile += {step})"):
                self.grid(first, "tile")
                yield first.body
        else:
            self.grid(first)
            yield first.body

    def turned(self, loop: Loop | None) -> None:
        """The next turn of a loop's queues."""
        if loop is None and self.order and self.consuming:
            turns.skip(self, self.order, [q for q in self.queues if not q.resident])
            return
        for q in self.queues:
            if q.loop is loop and (loop is not None or self.persistent) and not q.resident:
                self.put(f"++{q.name};")

    def counters(self) -> None:
        if self.order and self.consuming:
            turns.counters(self, self.order, [q for q in self.queues if not q.resident])
            return
        for q in self.queues:
            if (q.loop is not None or self.persistent) and not q.resident:
                self.put(f"unsigned {q.name} = 0;")

    def local(self, layout: Layout, axis: str, r: str | int) -> str:
        before = len(self.lines)
        text = super().local(layout, axis, r)
        if len(self.lines) > before:  # the thread's share of an index is declared where its role begins
            line = self.lines.pop(2)
            at = next(i for i, x in enumerate(self.lines) if "ac_registers_claim" in x) + 1
            self.lines.insert(at, line)
        return text

    @property
    def side(self) -> str:
        """A consuming warpgroup's number."""
        return "(team - 1)" if self.order else "wave / 4"

    def sync(self, over_blocks: bool = False) -> None:
        self.put(f"ac_barrier_sync(1, {TEAM * self.workers});")
        self.written.clear()
        self.seen.clear()

    def barrier(self, q: Queue, slot: str, full: bool = True) -> str:
        at = q.at + (0 if full else 8 * q.depth)
        return f"{self.memory} + {at}" + (f" + 8 * ({slot})" if q.depth > 1 else "")

    def turn(self, q: Queue) -> tuple[str, str]:
        """(slot, parity) of the queue's current turn."""
        if q.resident or (q.loop is None and not self.persistent):
            return "0", "0"
        return (f"{q.name} % {q.depth}", f"{q.name} / {q.depth} % 2") if q.depth > 1 else ("0", f"{q.name} % 2")

    def span(self, loop: Loop) -> tuple[Callable[[str], str], str]:
        """(a turn's number in the loop by its number in this block, number of turns of this block)."""
        if self.stream and self.stream.loop is loop:
            start = self.stream.begin
            return lambda it: f"({start} + {it})", self.stream.turns
        if self.parts is None or self.parts.loop is not loop:
            return lambda it: it, self.turns(loop)
        begin, turns = own_turns(self, self.parts, self.turns(loop))
        return lambda it: f"({begin} + {it})", turns

    # ---- producer
    def produce(self, body: Iterable[Loop | Stmt]) -> None:
        started: set[str] = set()
        for n in body:
            if isinstance(n, Loop):
                if any(s.dst in self.of for s, _ in walk(n.body)):
                    it = self.names.fresh("it")
                    begin, total = self.span(n)
                    with self.block(f"for (int {it} = 0; {it} < {total}; ++{it})"):
                        self.bases(n, begin(it))
                        self.produce(n.body)
                        self.turned(n)
                    for a in n.axes:
                        self.base.pop(a)
            elif n.op == "copy" and n.dst in self.of and self.of[n.dst].name not in started and not self.of[n.dst].resident:
                q = self.of[n.dst]
                started.add(q.name)
                self.send(q)

    def send(self, q: Queue) -> None:
        """Wait for a free slot, announce its bytes, start its copies."""
        slot, phase = self.turn(q)
        bytes_ = sum(self.placer.bulk[s.dst].copied for s in q.copies)
        if (q.loop is not None or self.persistent) and not q.resident:
            self.put(f"ac_barrier_wait({self.barrier(q, slot, False)}, 1 ^ ({phase}));")
        self.put(f"ac_barrier_expect({self.barrier(q, slot)}, {bytes_});")
        for s in q.copies:
            x = self.placer.bulk[s.dst]
            number = list(self.placer.bulk).index(s.dst)
            coordinates = [index(a, lambda n: self.base.get(n, "0")) for a in x.start]
            for b in range(x.boxes):
                here = [f"{c} + {more}" if more else c for c, more in zip(coordinates, x.shift(b))]
                to = f"{self.memory} + {x.offset}{f' + {slot} * {x.bytes}' if q.depth > 1 else ''}{f' + {b * x.box_bytes}' if b else ''}"
                rest = f"{to}, &map{number}, {self.barrier(q, slot)}, {', '.join(here)}"
                if self.shared(s):  # each block fetches its part, for all
                    turn = str(b % self.together) if x.boxes > 1 else f"{q.name} % {self.together}" if q.loop is not None else "0"
                    self.put(f"if (ac_cluster_rank() == {turn}) ac_bulk_load_all<{self.together}>({rest});")
                else:
                    self.put(f"ac_bulk_load{self.once(x.view, 16 // x.view.dtype.bytes)}({rest});")

    # ---- consumers
    def run(self, body: Iterable[Loop | Stmt]) -> None:
        body = list(body)
        for k, n in enumerate(body):
            if isinstance(n, Loop):
                ask(self, n, body[k + 1 :])
                self.loop(n)
                if self.stream and self.stream.loop is n:
                    with self.block(f"if ({mend(self, self.stream)})"):
                        self.run(body[k + 1 :])
                    return
                continue
            if n.op == "copy" and n.dst in self.of:
                continue
            if n.op == "fill" and _starts_product(n, body[k + 1 :]):
                self.settle({n.dst})
                self.empty.add(n.dst)
                continue
            if n.op != "mma":
                self.settle({n.dst, *n.srcs})
            getattr(self, n.op)(n)

    def load(self, s: Stmt, t: Tensor) -> None:
        (unpack(self, s, t) if s.dst in self.early else super().load(s, t))

    def settle(self, names: set[str]) -> None:
        """Wait for the products under way whose accumulators or register factors are touched."""
        touched = [i for i, f in enumerate(self.flights) if f.stmt.dst in names or self.laid_by(f) & names]
        if not touched:
            return
        younger = len(self.flights) - 1 - touched[-1]
        self.put(f"ac_team_wait<{younger}>();")
        done, self.flights = self.flights[: touched[-1] + 1], self.flights[touched[-1] + 1 :]
        for f in done:
            self.release(f)
            self.seen |= self.laid_by(f)
        for name in dict.fromkeys(f.stmt.dst for f in done):
            self.put(f"ac_keep({self.names.of(name)});")

    def laid_by(self, f: Flight) -> set[str]:
        """The factor that consumers have laid for a product under way."""
        return {self.place.products[f.stmt].a} & self.placer.laid.keys()

    def share(self, name: str) -> None:
        self.before_write(name)
        lay_down(self, self.placer.laid[name])

    def tree_key(self, key: str, bytes_: int) -> str:
        """Trees take turns in one place: memory is short where kernels have roles."""
        return f"tree of {bytes_} bytes"

    def release(self, f: Flight) -> None:
        """Give back the slots that a finished product was the last to read: those of this turn, or of the turn before."""
        for name in f.queues:
            q = next(x for x in self.queues if x.name == name)
            if q.loop is None:
                self.give_back(q, self.turn(q)[0], "")
                self.returned.add(q.name)
                continue
            back = f"({q.name} - 1)" if f.carried else q.name
            guard = f"{f.guard} && " if f.guard else ""
            slot = f"{back} % {q.depth}" if q.depth > 1 else "0"
            self.give_back(q, slot, guard)

    def condition(self, when: Loop) -> str:
        """The name of a flag, alike in a wave, that says whether a `when` is due: on what each worker holds of the value."""
        of, far = when.opt("of"), self.names.fresh("far")
        tests = [f"{self.names.of(of)}[{r}] <= {literal(float(when.opt('above')), self.bufs[of].dtype)}"
                 for r in range(self.place.layouts[of].registers)]  # fmt: skip
        self.put(f"const bool {far} = ac_any(!({' && '.join(tests)}));")
        return far

    def crosses_waves(self, s: Stmt) -> bool:
        """Whether warps exchange their parts of a reduction."""
        return any(d.axis in s.axis.split(",") for d in self.place.layouts[s.srcs[0]].wave)

    def loop(self, loop: Loop) -> None:
        if loop.kind == "when":
            if any(s.op == "reduce" and self.crosses_waves(s) for s, _ in walk(loop.body)):
                raise self.placer.refuse("what is done rarely, by a warp at its own time, reduces over warps", "lazy: 0")
            self.settle({x for s, _ in walk(loop.body) for x in (s.dst, *s.srcs)})
            with self.block(f"if ({self.condition(loop)})"):
                self.run(loop.body)
            return
        mine = [q for q in self.queues if q.loop is loop]
        if not mine:
            super().loop(loop)
            return
        skew = skew_of(self, loop)
        if skew is not None:
            self.settle({f.stmt.dst for f in self.flights})
            late = self.defer(loop)
            self.deferred |= {s.dst for s in late}
            print_skewed(self, loop, mine, skew)
            self.settle_trees(late)
            return
        left, seen = self.rehearse(loop)
        self.seen |= seen
        before, self.flights = self.flights, [Flight(f.stmt, f.queues, True) for f in left]
        if before:
            names = {f.stmt.dst for f in before}
            carried, self.flights = self.flights, before
            self.settle(names)
            self.flights = carried
        late = self.defer(loop)
        self.deferred |= {s.dst for s in late}
        self.iterate(loop, mine)
        self.settle_trees(late)
        self.flights = [Flight(f.stmt, f.queues if self.persistent else (), True) for f in self.flights]
        if self.parts and self.parts.loop is loop:
            add_up(self, self.parts)
            self.added = True

    def rehearse(self, loop: Loop) -> tuple[list[Flight], set[str]]:
        """The products that are still under way at the end of an iteration, and what others may then still read."""
        twin = copy(self)
        twin.lines, twin.flights = ["", "", "ac_registers_claim"], []
        twin.base, twin.slot, twin.thread = dict(self.base), dict(self.slot), dict(self.thread)
        twin.descriptors = dict(self.descriptors)
        twin.seen, twin.written, twin.waited = set(self.seen), set(self.written), set(self.waited)
        twin.place = replace(self.place, trees=dict(self.place.trees))
        twin.names = self.names.copy()
        twin.iterate(loop, [q for q in self.queues if q.loop is loop])
        return twin.flights, twin.seen

    def iterate(self, loop: Loop, mine: list[Queue]) -> None:
        it = self.names.fresh("it")
        begin, total = self.span(loop)
        for f in self.flights:
            f.guard = f"{it} > 0" if f.carried else ""
        with self.block(f"for (int {it} = 0; {it} < {total}; ++{it})"):
            self.bases(loop, begin(it))
            self.waited -= {q.name for q in mine}
            # warpgroups that share rows stop for each other anyway: the slot is free one product sooner
            self.settle({f.stmt.dst for f in self.flights if f.carried and self.laid_by(f)})
            self.run(loop.body)
            old = [f for f in self.flights if f.carried]
            if old:
                self.flights = [f for f in self.flights if not f.carried]
                self.put(f"ac_team_wait<{len(self.flights)}>();")
                for f in old:
                    self.release(f)
            self.turned(loop)
        for a in loop.axes:
            self.base.pop(a)

    def mma(self, s: Stmt) -> None:
        pr = self.place.products[s]
        for name in (pr.a, pr.b):
            q = self.of.get(name)
            if q is not None:
                self.arrival(q)
        packed = ""
        if pr.a in self.placer.laid:
            self.before_read(pr.a)
        elif pr.a not in self.placer.bulk:  # a factor from registers: packed, so that its values may be made anew meanwhile
            self.settle({s.dst})
            packed, pack = self.packing(pr)
            self.put(pack)
        self.issue_product(s, packed)

    def packing(self, pr: Product) -> tuple[str, str]:
        """Declares registers for a product's first factor; their name, and the text that packs the factor into them."""
        packed, have = self.names.fresh("fa"), self.place.layouts[pr.a].registers
        self.put(f"unsigned {packed}[{have // 2}];")
        return packed, f"ac_pack<{STORED[self.bufs[pr.a].dtype.name]}, {have}>({packed}, {self.names.of(pr.a)});"

    def multiply(self, s: Stmt, packed: str) -> None:
        """A product whose first factor has been packed into registers."""
        pr = self.place.products[s]
        self.arrival(self.of[pr.b])
        self.issue_product(s, packed)

    def arrival(self, q: Queue) -> None:
        """Wait once a turn until a queue's bytes have landed."""
        if q.name not in self.waited:
            slot, phase = self.turn(q)
            self.put(f"ac_barrier_wait({self.barrier(q, slot)}, {phase});")
            self.waited.add(q.name)

    def issue_product(self, s: Stmt, packed: str) -> None:
        """Start a product; it is under way until its accumulator is touched."""
        pr = self.place.products[s]
        acc = self.names.of(s.dst)
        i, (rm, rn) = pr.instruction, pr.repeat
        per = i.n // 2
        if not any(f.stmt.dst == s.dst and not f.carried for f in self.flights):  # else it goes on where nothing may touch
            self.put(f"ac_keep({acc});")
        self.put("ac_team_fence();")
        call = self.wrapper(pr, bool(packed))
        with self.block(f"for (int kk = 0; kk < {pr.steps}; ++kk)", unroll=True), self.over(rm, "m"), self.over(rn, "n"):
            a = f"&{packed}[(m * {pr.steps} + kk) * 4]" if packed else self.descriptor(pr.a, True, pr)
            keep = "kk > 0" if s.dst in self.empty else "1"
            self.put(f"{call}({keep}, &{acc}[(m * {rn} + n) * {per}], {a}, {self.descriptor(pr.b, False, pr)});")
        self.put("ac_team_commit();")
        self.empty.discard(s.dst)
        queues = [q for name in (pr.a, pr.b) if (q := self.of.get(name)) is not None and self.ends(q, s)]
        self.flights.append(Flight(s, tuple(sorted({q.name for q in queues if self.last_reader(q) is s}))))

    def ends(self, q: Queue, s: Stmt) -> bool:
        """Whether the slot of a queue may be free behind a product: of an iteration, or of a tile that has no loop around it."""
        around = next(loops for x, loops in walk(self.p.body) if x is s)
        return q.loop is not None or (self.persistent and not q.resident and all(x.kind == "grid" for x in around))

    def last_reader(self, q: Queue) -> Stmt:
        names = {s.dst for s in q.copies}
        return [s for s, _ in walk(self.p.body) if s.op == "mma" and names & set(s.srcs)][-1]

    def descriptor(self, name: str, first: bool, pr: Product) -> str:
        """The matrix descriptor of a factor at step kk and repetition m or n: its first element's, made once, and a way in 16 bytes."""
        x, q, i = self.placer.bulk.get(name) or self.placer.laid[name], self.of.get(name), pr.instruction
        if not isinstance(x, Laid) and type(x) is not Bulk:  # rows that share memory lie by a formula of their own
            number = f"(wave / 4 * {pr.repeat[0]} + m)" if first else "n"
            side = f"{number} * {i.m}" if first else f"n * {i.n}" if pr.repeat[1] > 1 else "0"
            slot = f" + {self.turn(q)[0]} * {x.bytes}" if q is not None and q.depth > 1 else ""
            place = x.place(side, number, i.m if first else i.n, i.k * x.buf.dtype.bytes)
            return f"ac_descriptor({self.memory} + {x.offset}{slot} + {place}, 1, 1024)"
        var, size, count = ("m", i.m, pr.repeat[0]) if first else ("n", i.n, pr.repeat[1])
        way = [f"{self.turn(q)[0]} * {x.bytes // 16}"] if q is not None and q.depth > 1 else []
        if self.deep(name, pr):
            bytes_ = i.k * x.buf.dtype.bytes
            steps = 128 // bytes_
            way += [f"{var} * {size * 8}"] * (count > 1) + [f"kk % {steps} * {bytes_ // 16}"]
            way += [f"kk / {steps} * {x.box_bytes // 16}"] * (x.boxes > 1)
        else:
            way += [f"{var} * {size} / {x.across} * {x.box_bytes // 16}"] * (count > 1) + [f"kk * {i.k * 8}"]
        return f"ac_descriptor_at({self.described(name, first, pr)}, {' + '.join(way)})"

    def described(self, name: str, first: bool, pr: Product) -> str:
        """The descriptor of a warpgroup's first element of a factor, declared where its role begins. Warpgroups have rows of their own,
        or columns where they share rows."""
        (high, wide), deep, x = pr.waves, self.deep(name, pr), self.placer.bulk.get(name) or self.placer.laid[name]
        apart = high if first else wide
        key = (name, first and apart > 1, deep, apart)
        if key not in self.descriptors:
            mine = ""
            if apart > 1:
                size = pr.repeat[0] * pr.instruction.m if first else pr.repeat[1] * pr.instruction.n
                number = f"ac_uniform(wave / 4){f' % {high}' if wide > 1 else ''}" if first else f"ac_uniform(wave / {4 * high})"
                mine = f" + {number} * {size * 128 if deep else size // x.across * x.box_bytes}"
            self.descriptors[key] = variable = self.names.fresh(f"{name}_at")
            lead = 1 if deep else x.box_bytes
            at = next(i for i, text in enumerate(self.lines) if "ac_registers_claim" in text) + 1
            self.lines.insert(at, f"  const unsigned long long {variable} = ac_descriptor({self.memory} + {x.offset}{mine}, {lead}, 1024);")
        return self.descriptors[key]

    def deep(self, name: str, pr: Product) -> bool:
        """Whether a factor lies along the axes that this product sums."""
        x = self.placer.bulk.get(name)
        return x is None or (x.deep if len(self.readers_of(name)) == 1 else contiguous_axis(x.view) in [a for a, _ in pr.k])

    def readers_of(self, name: str) -> list[Stmt]:
        return [s for s, _ in walk(self.p.body) if s.op == "mma" and name in s.srcs]

    def wrapper(self, pr: Product, registers: bool) -> str:
        """The device function of one instruction shape, printed in front of the kernel."""
        i = pr.instruction
        ta = "" if registers else f"{0 if self.deep(pr.a, pr) else 1}, "
        tb = 0 if self.deep(pr.b, pr) else 1
        kinds = i.types[0] if i.types[0] == i.types[1] else f"{i.types[0]}_{i.types[1]}"
        name = f"ac_wgmma_n{i.n}_{kinds}_{'r' if registers else 's' + ta[0]}{tb}"
        if name not in self.wrappers:
            n = i.n // 2
            acc = ", ".join(f"%{x}" for x in range(n))
            whole = i.types[2] == "i32"
            outs = ", ".join(f'"+{"r" if whole else "f"}"(d[{x}])' for x in range(n))
            a = "{" + ", ".join(f"%{n + x}" for x in range(4)) + "}" if registers else f"%{n}"
            b = n + (4 if registers else 1)
            ins = ", ".join(f'"r"(a[{x}])' for x in range(4)) if registers else '"l"(a)'
            kind = "const unsigned *a" if registers else "unsigned long long a"
            opcode = f"wgmma.mma_async.sync.aligned.m64n{i.n}k{i.k}.{'.'.join(PTX.get(i.types[x], i.types[x]) for x in (2, 0, 1))}"
            more = "" if whole else ", 1, 1" if i.deep else f", 1, 1, {ta}{tb}"  # scales of floats; major axes where there is a choice
            self.wrappers[name] = (
                f"AC_DEVICE void {name}(int keep, {'int' if whole else 'float'} *d, {kind}, unsigned long long b) {{\n"
                f'  asm volatile("{{.reg .pred p; setp.ne.b32 p, %{b + 1}, 0; {opcode} {{{acc}}}, {a}, %{b}, p{more};}}"\n'
                f'    : {outs} : {ins}, "l"(b), "r"(keep));\n}}\n'
            )
        return name

    def in_shares(self, layout: Layout) -> bool:
        """Whether the blocks of a cluster finish a share each of what lies so."""
        return self.parts is not None and self.added and layout.reg == self.place.layouts[self.parts.sums[0][0]].reg

    @contextmanager
    def registers(self, layout: Layout, var: str = "r", step: int = 1) -> Iterator[None]:
        """Of what lies as a sum in parts, this block's share alone."""
        if self.parts and self.in_shares(layout):
            with own_share(self, self.parts, layout, var, step):
                yield
        else:
            with super().registers(layout, var, step):
                yield

    def store(self, s: Stmt) -> None:
        if not store_boxes(self, s):
            super().store(s)

    def to_shared(self, s: Stmt, when: list[str] | None = None) -> None:
        raise UnsupportedOp(f"{s.dst} cannot be copied in bulk", where=f"kernel {self.p.name}")
