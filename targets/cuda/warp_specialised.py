"""Warp specialisation (schedule field `roles`; CUTLASS: KernelTmaWarpSpecialized): one producer warpgroup starts TMA copies into rings of
shared memory, the consumer warpgroups multiply what has arrived (wgmma) and run the epilogue. Registers move from the producer to the
consumers (setmaxnreg).

Who does what are the steps that passes leave (`passes`); the producer's are spelt by `producer`, products by `wgmma`. Waits, releases and
drains are inferred from what each statement touches (`tile.signals`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from autocomp.targets.cuda import (
    interleave_epilogue,
    load_c,
    load_c_halves,
    mainloop,
    multicast,
    passes,
    ping_pong,
    prefetch_constants,
    prefetch_epilogue,
    queues,
    warpgroup_order,
    wgmma,
)
from autocomp.targets.cuda.cluster_split_k import AddUp, add_up, find_cluster_split_k, own_share
from autocomp.targets.cuda.exp2_scores import Based
from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.laid import lay_down
from autocomp.targets.cuda.mma_row_sums import Ones
from autocomp.targets.cuda.multicast import pair
from autocomp.targets.cuda.overlapped_loop import print_overlapped
from autocomp.targets.cuda.prefetch_constants import PrefetchedConstants
from autocomp.targets.cuda.producer import produce
from autocomp.targets.cuda.skip_dead_steps import ends
from autocomp.targets.cuda.softmax_overlap import Overlapped
from autocomp.targets.cuda.stream_k import find_stream_k, mend, pieces
from autocomp.targets.cuda.team_placer import TEAM, TeamPlacer, register_budget
from autocomp.targets.cuda.tma_store import ThirdStage, TmaStore, descriptor_of, store_boxes
from autocomp.targets.cuda.warp_specialise import tile_of_role
from autocomp.targets.simt.expressions import literal
from autocomp.targets.simt.pdl import AwaitLaunches
from autocomp.targets.simt.placed import Placement
from autocomp.targets.simt.placement import ALIGN
from autocomp.targets.simt.printer import Printer
from autocomp.targets.simt.thread_partials import defer, settle

from autocomp.cost.chip import Chip
from autocomp.errors import UnsupportedOp
from autocomp.forks import kept_property
from autocomp.ir.affine import Aff
from autocomp.ir.schedule import Schedule
from autocomp.tile.layout import Layout
from autocomp.tile.plan import Agents, Barrier, Block, Box, ClusterBarrier, Done, Draft, Fence, Inbox, Line, Node, Order, Signal, Touch
from autocomp.tile.program import Loop, Stmt, Tensor, TileProgram, walk
from autocomp.tile.steps import Act, Over, Scheme, Step, Steps, by, steps_of, stmt_of

ADDRESSES = 28  # registers of a consumer beside its values: ptxas takes 109 to 114 for what is counted as 86 (attention, NVRTC 13.0)
SPARED = 2  # fewer where products are waited for together, so that weights are packed as they are made: 103 to 108


class WarpSpecialisedPrinter(Printer):
    """The consumers' text; `queues.produce` prints the other role."""

    zeros_outside = False  # a ring holds whatever lies behind a row

    def __init__(self, p: TileProgram, place: Placement, placer: TeamPlacer, exact: bool = False, cluster: int = 1,
                 blocks: int = 1, teams: int = 1, room: float = 0, directives: Iterable[str] = ()) -> None:  # fmt: skip
        super().__init__(p, place, exact, directives=directives)
        self.placer, self.workers, self.consuming = placer, placer.workers, False
        self.teams = teams * placer.workers  # consuming warpgroups; `workers` of them share a tile
        self.budget = register_budget(self.teams, placer.resident)
        first = p.body[0] if p.body else None
        self.persistent = isinstance(first, Loop) and first.opt("persistent") == "yes"
        self.parts = find_cluster_split_k(self)
        self.added = False  # the parts' sums
        if self.parts is not None:
            self.memory = "own"
            if cluster != self.parts.count:
                raise placer.refuse(f"a depth in {self.parts.count} parts needs clusters of as many blocks, not of {cluster}")
        elif cluster > 1:
            self.paired, self.together, self.memory = pair(self), cluster, "own"
        self.stream = find_stream_k(self, blocks)
        self.order = ping_pong.find_ping_pong(self, teams)
        self.takers = teams
        self.queues = queues.find_queues(self)
        self.of = {s.dst: q for q in self.queues for s in q.copies}
        self.room = room
        self.load_c: load_c.Beside | None = None
        self.for_all: frozenset[str] = frozenset()  # factors that blocks of a cluster bring for each other
        self.doing: Step | None = None  # the step being printed
        self.third_stage: ThirdStage | None = None  # where a third box lies
        self.rings = {q.name: q for q in self.queues}
        self.in_turn = False  # products of a step start in the warpgroups' order
        self.row_sums: Ones | None = None  # what the product of a loop being printed sums
        self.exp2_scores: Based | None = None  # how its scores come as exponents
        self.narrow = False  # the graph rounds its products to half types
        self.ends: dict[Loop, tuple[tuple[str, Aff], ...]] = {}  # of loops in which some tiles have fewer steps along an axis
        self.fewer: dict[str, str] = {}  # such an axis -> the variable with the steps of this tile
        self.numbers: dict[str, str] = {}  # of a ring whose loop is unrolled: its turn by the iteration's number
        self.turn_of = ""  # the number of the loop's turn being printed, where it may be the first one
        self.started = Draft()  # what all threads do before the roles part
        self.wrappers: dict[str, str] = {}
        self.descriptors: dict[tuple[str, bool, bool, int], str] = {}  # of a factor (a warpgroup's own part, along its rows) -> variable
        self.stored = False
        self.prefetched: PrefetchedConstants | None = None  # constants that do not wait for earlier launches
        self.steps = 0  # in depth, of the products being printed, where they are fewer than the tile's
        self.box = ""  # the number of the box whose values are being made, where they are made box by box

    # ---- the two roles
    agents, describes = "consumers", "ac_descriptor"  # the function that makes descriptors of factors

    def words(self, n: Order) -> str:
        if isinstance(n, Barrier) and n.agents == self.agents:
            return n.text or f"ac_barrier_sync(1, {TEAM * self.workers});"
        if isinstance(n, Done):
            return f"ac_bulk_wait<{n.behind}>();" if n.of == "stores" else f"ac_team_wait<{0 if n.whole else n.behind}>();"
        if not isinstance(n, Signal):
            return super().words(n)
        c = self.load_c
        own = c and n.queue == c.turn and (n.do == "arrive" or (c.halves and n.do == "wait"))
        return load_c.spelt(self, c, n) if c and own else queues.spelt(self, n)

    def note(self, forms: list[tuple[str, Steps]]) -> None:
        """Keeps the steps behind each pass, and which loops some tiles end sooner."""
        super().note(forms)
        self.ends = ends(self.forms[-1][1])

    def count(self, axis: str) -> str:
        """Tiles along an axis; of a loop that some tiles end sooner, those of this one."""
        return self.fewer.get(axis) or super().count(axis)

    def turns(self, loop: Loop) -> str:
        """Iterations of a loop, in this tile."""
        for axis, guard in self.ends.get(loop, ()):
            name, rest = self.names.fresh(f"{axis}_steps"), guard - Aff.make([(axis, guard.coef(axis))], 0)
            last = self.index(rest, lambda a: self.base.get(a, "0"))
            self.put(f"const int {name} = ac_min({super().count(axis)}, ({last}) / {-guard.coef(axis)} + 1);")
            self.fewer[axis] = name
        return super().turns(loop)

    @kept_property
    def facts(self) -> Facts:
        """What passes know."""
        free = self.room - -(-self.place.bytes // ALIGN) * ALIGN
        return Facts(self.p, self.place, self.directives, self.overlaps, self.placer, tuple(self.queues), self.workers, self.persistent,
                     self.together, self.paired, self.parts, self.stream, self.order, free, self.half and self.narrow)  # fmt: skip

    PASSES = passes.PASSES

    def statements(self) -> None:
        steps = self.scheduled(self.p.body)
        producer, consumers = (n for n in steps if isinstance(n, Over))
        self.load_c, self.for_all = load_c.reserved(self, steps), multicast.for_all(steps)
        if self.load_c:
            self.rings[self.load_c.turn] = queues.Queue(self.load_c.turn, None, [], self.load_c.slots, at=self.load_c.barrier)
        asks = self.opening(steps)
        if self.parts:
            self.plan(ClusterBarrier("arrive", "ac_cluster_arrive();"))
        self.here.put(self.started)
        self.plan(Barrier("cluster") if self.together > 1 else Barrier("block", "__syncthreads();"))
        with self.within(Block("if (team == 0)", (), role="producer")):
            self.put(f"ac_registers_release<{self.budget[0]}>();")
            with self.block("if (threadIdx.x == 0)"):
                produce(self, producer)
            self.leave()
            if self.parts:
                self.plan(ClusterBarrier("wait", "ac_cluster_wait();"))
            self.put("return;")
        if any(by(n, AwaitLaunches) for n in tile_of_role(consumers)[0]):
            self.meet_launches()
        self.put(f"ac_registers_claim<{self.budget[1]}>();")
        self.here.put(self.top)
        self.consuming = True
        self.consume(consumers)
        if self.stored:
            self.plan(Done(0, "if (threadIdx.x % 128 == 0) ac_bulk_drain();", "stores"))
        self.leave()
        if self.stream or self.parts or self.together > 1 or self.in_turn:
            blocks = 3 if self.stream else self.parts.count if self.parts else self.together
            self.plan(Agents(blocks, self.workers if self.in_turn else 2, row=self.stream is not None))
        asked = tuple(Line(f"ac_map_ask(&map{n});") for n in range(len(self.placer.maps)))
        asks.put(Block("if (threadIdx.x == AC_WAVE)", asked))  # a copy waits for its descriptor as for its data

    def opening(self, steps: Steps) -> Draft:
        """What a thread is, and the barriers. A place for what is done between the two."""
        self.put("extern __shared__ __align__(1024) unsigned char smem[];")
        if self.memory == "own":
            self.put(f"unsigned char *const {self.memory} = ac_own_memory(smem);")
        if self.parts:
            self.put(f"const int {self.parts.rank} = ac_cluster_rank();")
        wave = self.order.wave if self.order else "threadIdx.x / AC_WAVE - 4"
        self.put(f"const int lane = threadIdx.x % AC_WAVE, team = threadIdx.x / 128, wave = {wave};")
        self.put("(void)lane; (void)wave;")
        self.prefetched = prefetch_constants.named(self, steps)
        asks = Draft()
        self.here.put(asks)
        with self.block("if (threadIdx.x == 0)", alone=True):
            self.barriers()
            self.plan(Box("mbarriers", "write", far=True), Fence("ac_barrier_fence();", "mbarriers"))
        return asks

    def barriers(self) -> None:
        """What one thread makes first."""
        queues.barriers(self)
        if self.parts:
            inbox = f"{self.memory} + {self.parts.barrier}"
            self.put(f"ac_barrier_init({inbox}, 1);")
            self.plan(Inbox("expect", f"ac_barrier_expect({inbox}, {self.parts.bytes});"))
        if self.order:
            ping_pong.barriers(self, self.order)
        if self.load_c:
            if self.load_c.halves:
                load_c_halves.barriers(self, self.load_c)
            else:
                queues.barriers_of(self, self.rings[self.load_c.turn], self.workers)

    def consume(self, role: Over) -> None:
        """The consuming warpgroups."""
        queues.counters(self)
        self.declare()
        _, body = tile_of_role(role)
        with self.tiles():
            self.run(body)
            if self.persistent:
                self.touch(self.accumulators)
                queues.turned(self, None)
        warpgroup_order.end_order(self)

    def holds(self, chip: Chip, schedule: Schedule) -> tuple[float, int, dict[str, int]]:
        """A consumer's registers for its values, those of factors that are packed, and which values share some (how many do)."""
        addresses = ADDRESSES - SPARED * (schedule.softmax_overlap == 2)
        return self.budget[1] - addresses, self.placer.packed(), prefetch_epilogue.held_back(self)

    def leave(self) -> None:
        """A block of a cluster stays until no other writes into its memory or arrives at its barriers."""
        if self.together > 1:
            self.plan(Barrier("cluster"))

    @contextmanager
    def tiles(self) -> Iterator[None]:
        """The text around a tile: its position, and a loop over tiles where blocks stay."""
        first = self.p.body[0] if self.p.body else None
        if not (isinstance(first, Loop) and first.kind == "grid"):
            yield
        elif self.parts:
            self.grid(first, f"blockIdx.x / {self.parts.count}")
            yield
        elif self.stream:
            with pieces(self, self.stream, first):
                yield
        elif self.persistent:
            every = self.together
            total = " * ".join(f"(({self.count(a)} + {every - 1}) / {every})" if a == self.paired else self.count(a) for a in first.axes)
            of = lambda x: f"{x} / {every}" if every > 1 else x
            begin, step = of("blockIdx.x"), of("gridDim.x")
            if self.order and self.consuming:
                begin, step = f"{begin} + (team - 1) * {step}", f"{self.order.teams} * {step}"
            with self.block(f"for (int tile = {begin}; tile < {total}; tile += {step})", again="tile"):
                self.grid(first, "tile")
                yield
        else:
            self.grid(first)
            yield

    def in_front(self, node: Node) -> None:
        """Prints what is done once, in front of all tiles of the consumers, whatever else is printed by then."""
        self.top.first(node)

    @property
    def side(self) -> str:
        """A consuming warpgroup's number."""
        return "(team - 1)" if self.order else "wave / 4"

    # ---- consumers
    def run(self, body: Iterable[Loop | Stmt | Step]) -> None:
        for n in steps_of(body):
            self.doing = n
            if isinstance(n, Act):
                ACTS[type(n.what)](self, n.what)
            elif isinstance(n, Over) and n.loop:
                self.third_stage = by(n, ThirdStage)
                self.loop(n, n.loop)
            elif end := by(n, interleave_epilogue.BoxByBox):
                assert isinstance(n, Over)
                interleave_epilogue.finish(self, n, end.boxes)
            elif isinstance(n, Over) and self.stream:
                with self.block(f"if ({mend(self, self.stream)})"):
                    self.run(n.body)
            elif s := stmt_of(n):
                if s.op != "mma":
                    self.touch({s.dst, *s.srcs})
                getattr(self, s.op)(s)

    def load(self, s: Stmt, t: Tensor) -> None:
        if self.load_c and self.load_c.copy is s:
            load_c.receive(self, self.load_c)
        else:
            super().load(s, t)

    def touch(self, names: Iterable[str], lent: str = "") -> None:
        """What follows touches these values, which products may write or read; `lent`: as in `plan.Touch`."""
        under_way = {*self.accumulators, *self.placer.laid, *((self.row_sums.total,) if self.row_sums else ())}
        if mine := under_way.intersection(names):
            self.plan(Touch(tuple(sorted(mine)), lent=lent))

    @kept_property
    def accumulators(self) -> frozenset[str]:
        """What products write."""
        return frozenset(s.dst for s, _ in walk(self.p.body) if s.op == "mma")

    def share(self, name: str) -> None:
        self.before_write(name)
        lay_down(self, self.placer.laid[name])

    def tree_key(self, key: str, bytes_: int) -> str:
        """Trees take turns in one place: memory is short where kernels have roles."""
        return f"tree of {bytes_} bytes"

    def condition(self, when: Loop) -> str:
        """The name of a flag that says whether a `when` is due: on what each worker holds of the value. It is alike in a wave; in all
        warps that exchange parts of what is done then, so that they come to the barriers of the exchange together."""
        of, far = when.opt("of"), self.names.fresh("far")
        tests = [f"{self.names.of(of)}[{r}] <= {literal(float(when.opt('above')), self.bufs[of].dtype)}"
                 for r in range(self.place.layouts[of].registers)]  # fmt: skip
        due = f"!({' && '.join(tests)})"
        if any(s.op == "reduce" and self.facts.crosses_waves(s) for s, _ in walk(when.body)):
            self.plan(Barrier(self.agents, f"const bool {far} = ac_barrier_any(1, {TEAM * self.workers}, {due});"))
        else:
            self.put(f"const bool {far} = ac_any({due});")
        return far

    def loop(self, n: Over, loop: Loop) -> None:
        if loop.kind == "when":
            self.touch({x for s, _ in walk(loop.body) for x in (s.dst, *s.srcs)})
            with self.block(f"if ({self.condition(loop)})"):
                self.run(n.body)
            return
        mine = [q for q in self.queues if q.loop is loop]
        if not mine:
            super().loop(n, loop)
            return
        self.touch(self.accumulators)
        if skew := by(n, Overlapped):
            late = defer(self, n)
            made = print_overlapped(self, n, loop, mine, skew)
            self.deferred -= made
            settle(self, replace(late, sums=tuple(s for s in late.sums if s.dst not in made)))
            return
        late = defer(self, n)
        mainloop.iterate(self, n, loop, mine)
        settle(self, late)

    def mma(self, s: Stmt) -> None:
        pr = self.place.products[s]
        queues.read(self, pr.a, pr.b)
        packed = ""
        if pr.a in self.placer.laid:
            self.before_read(pr.a)
        elif pr.a not in self.placer.bulk:  # a factor from registers: packed, so that its values may be made anew meanwhile
            self.touch({s.dst})
            packed, pack = wgmma.packing(self, pr)
            self.put(pack)
        wgmma.issue_product(self, s, packed)

    def in_shares(self, layout: Layout) -> bool:
        """Whether the blocks of a cluster finish a share each of what lies so."""
        return self.parts is not None and self.added and layout.reg == self.place.layouts[self.parts.sums[0][0]].reg

    @contextmanager
    def registers(self, layout: Layout, var: str = "r", step: int = 1) -> Iterator[None]:
        """Of what lies as a sum in parts, this block's share alone."""
        if self.box:
            each = 32 // step
            with self.block(f"for (int {var} = {self.box} * {each}; {var} < {self.box} * {each} + {each}; ++{var})", unroll=True):
                yield
        elif self.parts and self.in_shares(layout):
            with own_share(self, self.parts, layout, var, step):
                yield
        else:
            with super().registers(layout, var, step):
                yield

    def store(self, s: Stmt) -> None:
        sent = by(self.doing, TmaStore) if self.doing else None
        if sent is None:  # a warpgroup meets the others of its block nowhere, so that none stores what another one has
            t = self.p.tensor(s.dst)
            assert t is not None
            self.store_registers(s, t)
        elif self.load_c is not None and self.load_c.store is s:
            load_c.leave(self, self.load_c, descriptor_of(self, sent.boxes))
        else:
            store_boxes(self, s, sent.boxes)

    def to_shared(self, s: Stmt, when: list[str] | None = None) -> None:
        raise UnsupportedOp(f"{s.dst} cannot be copied in bulk", where=f"kernel {self.p.name}")


ACTS: dict[type[Scheme], Callable[[WarpSpecialisedPrinter, Any], None]] = {  # what schemes do among the statements of a tile
    prefetch_epilogue.Ask: lambda at, x: prefetch_epilogue.ask(at, x.copy),
    AddUp: lambda at, x: add_up(at),
    ping_pong.AwaitTurn: lambda at, x: ping_pong.begin(at),
}
