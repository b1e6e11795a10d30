"""What a placed tile program issues, counted statement by statement as the printer prints it, without text and without a compiler.

`Counter` is the printer with counters in the place of lines: which loops there are, which copies a ring holds and which trees run behind
their loop is the printer's own decision, and barriers stand where `tile.synchronise` places them. What an access costs is evaluated on
sampled waves (`samples.py`): the share for which a guard holds, sectors and lines of a request, passes over the banks of shared memory.
What functions cost is a table (functions.yaml).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, prod
from typing import Any

import numpy as np
from autocomp.targets.simt import copies, min_blocks, prefetch_factors, scans, thread_partials, trees, turned_store, wide_gathers
from autocomp.targets.simt.access import PREDICATES, nearest_axis
from autocomp.targets.simt.batch_copies import batch_copies
from autocomp.targets.simt.capacity import pressure, registers_of
from autocomp.targets.simt.coordinates import steps_once
from autocomp.targets.simt.copies import ASYNCHRONOUS, BATCH
from autocomp.targets.simt.counted import Counted
from autocomp.targets.simt.emit import blocks_hinted, fitted
from autocomp.targets.simt.function_costs import cost_of, function_cost, table, written
from autocomp.targets.simt.peel_tail import peel_tail
from autocomp.targets.simt.phases import RING
from autocomp.targets.simt.placed import Placement, Product, Shared, tile_of
from autocomp.targets.simt.prefetch_behind_reduction import prefetch_behind_reduction
from autocomp.targets.simt.printer import Printer
from autocomp.targets.simt.products import BYTES, Side, turns_together
from autocomp.targets.simt.samples import LINE, SECTOR, TAGS, WORD, Limit, Samples, accesses, footprint
from autocomp.targets.simt.skip_masked_sums import Wanted, skip_masked_sums
from autocomp.targets.simt.skip_masks import skip_masks
from autocomp.targets.simt.skip_neutral import AHEAD, Skipped, skip_neutral
from autocomp.targets.simt.strips import multiplied, share

from autocomp.cost.chip import Chip
from autocomp.cost.issue import Issued
from autocomp.ir.body import Expr, Gather, Index, Inside, Map, postorder
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import SHORT_FLOATS, dim_hint
from autocomp.tile.instruction import Instruction
from autocomp.tile.layout import Layout, weights
from autocomp.tile.plan import Block, Cost, Turn
from autocomp.tile.program import Loop, Stmt, Tensor, TileProgram, walk
from autocomp.tile.steps import Over, by, inside, stmt_of
from autocomp.tile.synchronise import synchronise

BESIDE = 24  # registers of a thread beside its values: addresses, guards, loops
UNROLLED = 16  # elements of a loop's body up to which compilers are seen to overlap several turns
OVERLAPPED = 4  # of them at most
CLAMP = 6  # instructions of 64-bit integers that bound an index


def count(p: TileProgram, schedule: Schedule, chip: Chip, instructions: Sequence[Instruction], plain: Instruction,
          exact: bool = False) -> Counted | None:  # fmt: skip
    """What `emit` would print of a tile program, counted; None where a product's factors come straight to registers, which is not.
    Raises UnsupportedOp and DoesNotFit as `emit` does."""
    p, at = fitted(p, schedule, chip, instructions, plain)  # before anything is counted: a schedule that does not fit has no price
    if any(x.instruction.load == "direct" for x in at.products.values()):
        return None
    return Counter(p, at, exact, schedule.directives).counted(registers_of(chip, at.threads // at.cluster))


class Counter(Printer):
    """Counts the statements of one kernel. Numbers are warp instructions of one warp, in the mean of all."""

    def __init__(self, p: TileProgram, place: Placement, exact: bool = False, directives: tuple[str, ...] = ()) -> None:
        super().__init__(p, place, exact, directives=directives)
        self.samples = Samples(p, place)
        self.warps = place.threads // place.wave
        self.often = 1.0  # turns of the loops around
        self.overlap = 1.0
        self.loading = self.own_depth = False
        self.mapped = all(s.op in ("copy", "map", "store") for s, _ in walk(p.body))
        self.asked_bytes = self.stored_bytes = self.partial_bytes = self.stored_lines = self.stored_parts = 0.0
        self.views: dict[str, dict[int, float]] = {}  # buffer -> by the loop around: bytes of sectors that a block reads
        self.around: list[Loop] = []
        self.multiplied = multiplied(p, place) if not exact else frozenset()
        self.asked_late = frozenset() if "min_blocks" in directives else frozenset(min_blocks.turning(p, place))
        self.carried = frozenset() if "min_blocks" in directives or self.asked_late else min_blocks.carried(p, place)
        self.in_turn = self.filled = 0.0  # loads of those in this turn, and registers that they fill
        self.spared = 0.0  # registers that the compiler saves where it asks for them late

    def counted(self, registers: int) -> Counted:
        """All of it; a thread has at most so many `registers`, and leaves the others in local memory from turn to turn."""
        parts = len(self.place.reserved)
        self.spend(table()["start"])
        self.statements()
        plan = synchronise(self.whole.done(), self.agents)
        p, own = self.p, self.warps / self.place.cluster  # warps of a block
        buffers = lambda ts: {t.buffer: prod(map(dim_hint, t.shape)) * t.dtype.bytes for t in ts}
        each = [tuple(x.values()) for x in self.views.values()]
        first, again = sum(max(x) for x in each), sum(sum(x) - max(x) for x in each)
        types = [x.instruction.factor or x.instruction.types[0] for x in self.place.products.values() if x.instruction.call]
        read, written = (float(sum(buffers(ts).values())) for ts in (p.inputs, p.outputs))
        held = pressure(p, self.place, {}) + BESIDE + max(map(self.fragments, self.place.products.values()), default=0.0)
        held = max(held - self.spared, BESIDE)
        spilt = max(0.0, held - registers)
        threads, held = self.place.threads // self.place.cluster, min(float(registers), held)
        work = Issued(blocks_hinted(p) * self.place.cluster, threads, held, 0.0, (), read, written, self.asked_bytes * own,
                      first / self.place.cluster, self.stored_bytes * own,
                      again / self.place.cluster, types[0] if types else "", self.partial_bytes / self.place.cluster,
                      self.stored_lines * own, self.stored_parts * own)  # fmt: skip
        return Counted(p, plan, self.place, parts, work, own, spilt, self.own_depth)

    def fragments(self, x: Product) -> float:
        """Registers of the factors that a step multiplies."""
        i, (rows, columns) = x.instruction, x.repeat
        if not i.call or i.load == "thread":
            if i.k > 1 or x.a not in self.place.shared or x.b not in self.place.shared:
                return 0.0
            held = x.part(False).registers + x.part(True).registers / x.pieces(self.place.shared)
            return held * x.run(self.place.shared) * max(WORD, self.place.shared[x.a].buf.dtype.bytes) / WORD
        return (rows * i.m + columns * i.n) * i.k * BYTES[i.factor or i.types[0]] / WORD / self.place.wave

    # ---- counters
    def put(self, *lines: str) -> None:
        """Text is not kept."""

    def spend(self, cost: Mapping[str, float], times: float = 1.0) -> None:
        self.plan(Cost(tuple((pipe, n * times) for pipe, n in cost.items())))

    def request(self, requests: float, slots: float) -> None:
        self.plan(Cost((("memory", requests),), slots))

    def wait(self, kind: str, times: float = 1.0) -> None:
        self.plan(Cost(waits=((kind, times),)))

    @contextmanager
    def repeated(self, times: float, turn: str) -> Iterator[None]:
        before, self.often, self.loading = self.often, self.often * times, False
        with self.within(Block("", (), again=turn, times=times)):
            self.spend(table()["turn"])
            yield
        self.often, self.loading = before, False

    def closing(self) -> None:
        """Blocks of a cluster part for nothing."""

    # ---- loops
    def grid(self, loop: Loop, number: str = "blockIdx.x") -> None:
        super().grid(loop, number)
        self.samples.enter(loop)

    # a loop's turns are counted, not what stands in front of them
    PASSES = (skip_masked_sums, thread_partials.thread_partials, prefetch_factors.prefetch_factors, prefetch_behind_reduction,
              skip_masks, skip_neutral, batch_copies, peel_tail)

    def loop(self, n: Over, loop: Loop) -> None:
        if loop.kind == "when":
            self.run(n.body)
            return
        stages = self.place.stages if loop.kind == "pipelined" else 1
        ring = [s for s in inside(n.body) if s.op == "copy" and s.dst in self.place.shared] if stages > 1 else []
        self.samples.enter(loop)
        for a in loop.axes:
            self.base[a] = f"{a}_b"
        inner = tuple(m for m in n.body if stmt_of(m) not in ring)
        late, asked = thread_partials.defer(self, n), prefetch_factors.begin(self, n, loop)
        values = [s.dst for m in inner if (s := stmt_of(m)) and s.dst in self.place.layouts]
        elements = max((self.place.layouts[x].registers for x in values), default=1)
        turns = self.samples.turns(loop) * (self.samples.wanted(x.guards) if (x := by(n, Wanted)) else 1.0)
        parted = any(s.op == "map" and self.needless(s, self.place.layouts[s.dst]) for m in inner if (s := stmt_of(m)))
        self.overlap = min(OVERLAPPED, max(1.0, UNROLLED / elements), max(1.0, turns)) if not parted else 1.0  # no load passes a branch
        self.around.append(loop)
        skipped = by(n, Skipped)
        if skipped:
            once, self.overlap = self.overlap, AHEAD
            with self.repeated(max(1.0, turns / self.place.wave), self.names.fresh("first")):
                self.run(skipped.makers)
                self.spend(table()["comparison"], 2)
            turns, self.overlap = turns * skipped.share, once
        with self.repeated(turns, self.names.fresh("it")):
            for s in ring:
                self.to_shared(s)
            if ring:
                self.wait(RING, 1)
                self.plan(Turn(tuple(s.dst for s in ring), stages - 2))
            self.run(inner)
        prefetch_factors.end(self, asked)
        self.around.pop()
        self.overlap = 1.0
        self.samples.leave(loop)
        for a in loop.axes:
            self.base.pop(a, None)
        self.deferred -= {s.dst for s in late.sums} | {b.fold.dst for b in late.bases}
        for s in (*late.sums, *(b.over_workers for b in late.bases)):
            self.tree(s)
        for move in late.moves:
            self.map(move)

    # ---- statements
    def run(self, body: Any) -> None:
        super().run(body)
        again = min_blocks.waits(self.in_turn, min_blocks.KEPT, min_blocks.KEPT)
        self.wait("load", (again - 1) / self.overlap)
        self.spared = max(self.spared, self.filled * (1 - 1 / again))
        self.loading, self.in_turn, self.filled = False, 0.0, 0.0

    def copy(self, s: Stmt) -> None:
        t = self.p.tensor(s.srcs[0])
        if t is not None and s.dst in self.place.words:
            self.load(s, t)
        else:
            super().copy(s)

    def load(self, s: Stmt, t: Tensor) -> None:
        layout = self.place.layouts[s.dst]
        short = s.dst not in self.place.words and t.dtype in SHORT_FLOATS
        conditions = self.access(layout, t, short, part=share(self.place.strips.get(s.dst), layout))
        if not self.loading and s.dst not in self.asked:
            self.wait("load", 1 / self.overlap)
            self.loading = True
        if self.mapped and conditions > PREDICATES:  # kept until what is stored under them
            self.wait("load", ceil(conditions / PREDICATES) - 1)
        if s.dst in self.asked_late:
            self.wait("load", (min_blocks.waits(self.accesses(layout, t, s.dst)) - 1) / self.overlap)
        elif s.dst in self.carried:
            self.in_turn += self.accesses(layout, t, s.dst)
            self.filled += layout.registers
        self.reads(t.buffer, self.footprint(t)[0])

    def accesses(self, layout: Layout, t: Tensor, dst: str) -> float:
        """Loads of a thread that fill a fragment."""
        return layout.registers / self.vector(layout, t) * share(self.place.strips.get(dst), layout)

    def peel(self, stmts: tuple[Stmt, ...]) -> None:
        """As in whole tiles, which most are."""
        self.spend(table()["comparison"], 1)
        self.uncut = self.place.peeled
        for s in stmts:
            (self.copy if s.op == "copy" else self.store)(s)
        self.uncut = frozenset()

    def footprint(self, t: Tensor) -> tuple[float, float]:
        """Bytes of a block's sectors of a view, and of those that it has in part."""
        return footprint(t, {a: self.extent_of_block(a) for a in t.axes})

    def reads(self, buffer: str, bytes_: float) -> None:
        """A block reads so many bytes of a buffer in the loop around; other views of it there are taken to lie among them."""
        loops, loop = self.views.setdefault(buffer, {}), id(self.around[-1]) if self.around else 0
        loops[loop] = max(bytes_, loops.get(loop, 0.0))

    def extent_of_block(self, axis: str) -> int:
        """Indices along an axis that a block reads in all its turns."""
        e = self.samples.extent[axis]
        grid = next((x.axes for x in self.p.body if isinstance(x, Loop) and x.kind == "grid"), ())
        return min(e, tile_of(self.p, axis)) if axis in grid else e

    def access(self, layout: Layout, t: Tensor, converted: bool, store: bool = False, more: list[Any] | None = None,
               part: float = 1.0, v: int = 0) -> float:  # fmt: skip
        """Counts the accesses of a value's registers to a view; returns how many conditions they are under. `part`: of them those that are
        made; `v`: elements of each, if not as wide as they may be."""
        x, costs = self.samples, table()
        v = v or self.vector(layout, t)
        r, each = x.registers(layout, v)
        each *= part
        at = x.at(layout, r)
        limits = [*x.inside(layout, [a for a in t.axes if a not in self.uncut], r), *x.guard(t.guard, at)]
        shape = x.shape(r)
        there: Any = np.ones(shape, bool)
        for c in [x.holds for x in limits] + (more or []):
            there = there & c
        apart, hoisted = _compared(limits, shape[-1])
        number = shape[-1] * each
        any_lane = there.any(axis=1)
        active = float(any_lane.mean()) * number
        place = np.broadcast_to(x.address(t, at), shape)
        made = accesses(place, there)
        sectors, lines = made.distinct(SECTOR) * each, made.distinct(LINE) * each
        bytes_ = float(there.mean()) * number * self.place.wave * v * t.dtype.bytes
        slots = lines
        if not store:
            slots = max(lines / TAGS, made.passes(v * t.dtype.bytes) * each)
        self.request(active, max(slots, active, bytes_ / LINE))
        if store:
            self.stored_bytes += sectors * SECTOR * self.often
            self.stored_lines += lines * self.often
            self.stored_parts += lines * made.partial(v * t.dtype.bytes) * each / max(1.0, sectors) * self.often
        else:
            self.asked_bytes += sectors * SECTOR * self.often
        if converted:
            self.spend(costs["casts"]["float"], number * v)
        conditions = sum(different for _, different in apart.values()) * each  # those that are alike are one predicate
        self.spend(costs["comparison"], conditions)
        self.spend({"integer": 1}, hoisted)
        self.spend(costs["address"], max(1.0, self.addresses(layout, t, number)))
        for atom in {a for i in t.index for a, _ in i.terms if not isinstance(a, str) and steps_once(a, dict(self.p.axes)) is not None}:
            different = prod(d.count for d in layout.reg if d.axis in atom.num.names())
            self.spend(costs["wrapped"], min(float(different), number))
        return conditions

    def addresses(self, layout: Layout, t: Tensor, number: float) -> float:
        """Addresses that differ from one another by no constant: those of indices with floors of what a thread decides."""
        plain = all(i.is_affine for i in t.index) and all(isinstance(n, int) for n in t.shape)
        return 1.0 if plain else number

    def fill(self, s: Stmt) -> None:
        self.loading = False

    def elements(self, dst: str, layout: Layout, expr: Expr) -> None:
        self.loading = False
        if isinstance(expr, Gather) and (t := wide_gathers.rows(self.p, dst, expr)):
            self.gathered(layout, expr, t, self.vector(layout, t) if wide_gathers.wide(self, dst, layout, expr) else 1)
            return
        waits = self.compute(expr, layout.registers, self.scalar(layout, "r").by_shared)
        self.wait("arithmetic", 1)
        if waits:
            self.wait("special", 1)

    def gathered(self, layout: Layout, e: Gather, t: Tensor, v: int) -> None:
        """Elements of rows, `v` an access. Vectors bound what nothing else bounds; elements alone bound every index, of which compilers
        bound the row once for its elements."""
        times = layout.registers / v
        free = [i for i, n in zip(e.index, t.shape, strict=True) if v == 1 or not wide_gathers.bounded(self.p, i, n)]
        self.spend({"integer": CLAMP}, times * (1 if v == 1 else len(free)))
        for i in free:
            self.compute(i, times)
        self.access(layout, t, t.dtype in SHORT_FLOATS, v=v)
        self.wait("load", 1)
        self.wait("arithmetic", 1)
        self.reads(t.buffer, self.footprint(t)[0])

    def map(self, s: Stmt) -> None:
        layout = self.place.layouts[s.dst]
        assert isinstance(s.expr, Expr)
        expr = s.expr
        if self.needless(s, layout):
            turns = self.samples.turns(self.around[-1]) if self.around else 1.0
            self.spend({"integer": 1, "branch": 1})
            self.spend({"integer": 2}, layout.registers / turns)
            expr = expr.args[1]
        self.elements(s.dst, layout, expr)
        if s.dst in self.place.shared:
            self.share(s.dst)

    def compute(self, e: Expr, times: float, by_shared: Callable[[Map], bool] = lambda e: False) -> bool:
        """Counts an expression, evaluated so often; whether it takes special functions. `by_shared`: whether a quotient is a product with a
        reciprocal that several elements share (`shared_divisors`)."""
        special, fused, often_written = False, set(), written(e)
        for x in postorder(e):
            if isinstance(x, Map):
                if x.fn in ("add", "sub") and x.dtype.is_float:  # one multiply-add
                    fused |= {id(a) for a in x.args[:2] if isinstance(a, Map) and a.fn == "mul"}
        for x in postorder(e):
            if isinstance(x, Gather):
                self.spend(table()["address"], times)
                self.spend({"integer": CLAMP}, times)
                t = self.p.tensor(str(x.tensor))
                bytes_ = x.dtype.bytes
                self.request(times, times * self.place.wave / 4)
                self.asked_bytes += times * self.place.wave * SECTOR * self.often
                if t is not None:
                    self.reads(t.buffer, min(prod(map(dim_hint, t.shape)) * bytes_, times * self.place.wave * SECTOR))
                self.wait("load", 1)
            elif isinstance(x, Index):
                self.spend({"integer": 1}, times)
            elif isinstance(x, Inside):
                self.spend({"integer": 1}, times * len(x.guard))
            elif isinstance(x, Map) and id(x) not in fused:
                cost = table()["shared"] if by_shared(x) else cost_of(x, self.half)
                if cost.get("branch"):  # its slow path: compilers overlap none of them, and know no two to be one
                    often = times * max(1, often_written[x])
                    self.spend(cost, often)
                    if cost.get("special"):
                        self.wait("special", often)
                    self.wait("arithmetic", often * cost.get("fma", 0.0))
                    self.wait("branch", often)
                    continue
                self.spend(cost, times)
                special |= bool(cost.get("special"))
        return special

    # ---- reductions
    def reduce(self, s: Stmt) -> None:
        self.loading = False
        src, dst = self.bufs[s.srcs[0]], self.bufs[s.dst]
        layout, out = self.place.layouts[src.name], self.place.layouts[dst.name]
        gone = s.axis.split(",")
        combine = function_cost(str(s.expr), dst.dtype, self.half)
        padded = [a for a in gone if layout.extent(a) > tile_of(self.p, a)]
        self.spend(combine, 0 if s.srcs[0] in self.multiplied else layout.registers)
        if padded and not self.covered(src.name, str(s.expr)):
            self.spend({"integer": 1}, layout.registers - min(self.certain(layout, a) for a in padded))
        self.wait("arithmetic", layout.registers / out.registers)
        if s.dst not in self.deferred:
            self.tree(s)
        if s.acc:
            self.spend(combine, out.registers)

    def scan(self, s: Stmt) -> None:
        self.loading = False
        layout, dst, axis = self.place.layouts[s.dst], self.bufs[s.dst], s.axis.lstrip("-")
        how, combine = scans.steps_of(layout, axis), function_cost(str(s.expr), dst.dtype, self.half)
        n, words = how.groups, 2 if dst.dtype.bits == 64 else 1
        self.spend(combine, layout.registers * (2 if how.steps else 1))
        if self.inside(layout, [axis], "r") and not self.covered(s.srcs[0], str(s.expr)):
            self.spend({"integer": 1}, layout.registers - self.certain(layout, axis))
        if s.srcs[1:]:
            self.spend(combine, 2 * n + (0 if how.steps else layout.registers))
        self.wait("arithmetic", how.inner[0].count if how.inner else 1)
        for k, step in enumerate(how.steps):
            exchanges = (step.count - 1).bit_length()
            self.spend(combine, 2 * n * {"wave": step.count, "lane": exchanges, "reg": 1}[step.level])
            if step.level == "lane":
                self.request(exchanges * n * words, exchanges * n * words)
                self.wait("exchange", exchanges)
            elif step.level == "wave":
                self.meet(f"scan {k} of {s.dst}", n * words, n * step.count * words)
                self.wait("shared", 1)
                self.wait("arithmetic", step.count)
            else:
                self.wait("arithmetic", step.count)

    def tree(self, s: Stmt) -> None:
        """Lanes by exchange, waves through shared memory."""
        layout, dst = self.place.layouts[s.srcs[0]], self.bufs[s.dst]
        n, gone = self.place.layouts[s.dst].registers, set(s.axis.split(","))
        combine, words = function_cost(str(s.expr), dst.dtype, self.half), 2 if dst.dtype.bits == 64 else 1
        for d, _ in weights(layout.lane):
            if d.axis in gone:
                steps = (d.count - 1).bit_length()
                self.request(steps * n * words, steps * n * words)
                self.spend(combine, steps * n)
                self.wait("exchange", steps)
        peers = prod(d.count for d in layout.wave if d.axis in gone)
        if peers > 1:
            key = f"tree of {s.dst}"
            shared_out = n * peers >= trees.SHARED_OUT and peers == self.warps
            reads = n * 2 + n if shared_out else n * peers
            self.meet(key, n * words, reads * words)
            self.spend(combine, reads)
            self.wait("shared", 2 if shared_out else 1)
            self.wait("arithmetic", peers)
            if self.place.cluster > 1:
                self.before_write(key + trees.OVER_BLOCKS)
                self.before_read(key + trees.OVER_BLOCKS)

    # ---- shared memory
    def meet(self, key: str, written: int, read: int) -> None:
        """Words that each thread leaves in shared memory, and those that it takes from there behind a barrier."""
        if key not in self.place.trees:
            self.place.trees[key] = self.place.reserve(self.place.threads * written * WORD)
        self.before_write(key)
        self.request(written, written)
        self.before_read(key)
        self.request(read, read)

    def share(self, name: str) -> None:
        x, layout = self.place.shared[name], self.place.layouts[name]
        self.before_write(name)
        self.by_element(x, layout, self.run_to_shared(x, layout))
        self.spend(table()["casts"]["float"], layout.registers if x.buf.dtype in SHORT_FLOATS else 0)

    def by_element(self, x: Shared, layout: Layout, run: int = 1) -> None:
        """The registers of a value, `run` at once, to or from their place in shared memory."""
        r, each = self.samples.registers(layout, run)
        n = layout.registers / run
        self.request(n, max(n, self.passes(x, layout, r, run * x.buf.dtype.bytes) * each))
        self.spend(table()["element"], n)

    def passes(self, x: Shared, layout: Layout, r: Any, bytes_: int = 0) -> float:
        row, col = (self.samples.linear(group, layout, r) for group in (x.outer, x.inner))
        place = np.broadcast_to(self.samples.swizzled(x, row, col), self.samples.shape(r))
        return self.samples.passes(place, bytes_ or x.buf.dtype.bytes)

    def to_shared(self, s: Stmt, when: list[str] | None = None) -> None:
        x = self.place.shared.get(s.dst) or self.place.staged[s.dst]
        t = x.view
        assert t is not None
        chunks = x.rows * x.row // x.vector
        n = chunks / self.place.threads
        bytes_ = x.vector * x.buf.dtype.bytes
        cut = {a for a, e in self.samples.extent.items() if a in t.axes and e % tile_of(self.p, a) != 0}
        parted = [x.row // x.vector, *(size for group in (x.outer, x.inner) for _, size in group[:-1])]
        first = min(n, 1.0) if copies.constant_steps(x, self.place.threads) else n
        self.chunk(first, parted, t, len(t.guard) + len(cut))
        self.spend(table()["comparison"], (n - first) * (len(t.guard) + len(cut & {a for a, _ in x.outer})))  # with what ends the rows
        self.spend(table()["element"], (n - first) * (bytes_ < ASYNCHRONOUS))  # zeroed
        wide = max(1.0, bytes_ * self.place.wave / LINE)
        lines = max(wide, self.place.wave * bytes_ / min(x.row_bytes, LINE) if x.row_bytes < LINE else wide)
        self.request(n * (1 if bytes_ >= ASYNCHRONOUS else 2), n * lines * (1 if bytes_ >= ASYNCHRONOUS else 2))
        asked = self.place.wave * bytes_
        near = nearest_axis(t, {a for a, size in (*x.outer, *x.inner) if size > 1})
        run = min(_side_by_side(x, near, self.place.wave * x.vector) * x.buf.dtype.bytes, asked)
        step = t.index[-1].step(near) if near else 1
        begins = 0 if dim_hint(t.shape[-1]) * x.buf.dtype.bytes % SECTOR == 0 else SECTOR - bytes_  # anywhere in a sector
        self.asked_bytes += n * asked / run * max(run * step + begins, SECTOR) * self.often
        if bytes_ < ASYNCHRONOUS:
            self.wait("load", ceil(n / (BATCH if "batch_copies" in self.directives else 1)))
        elif s.dst in self.place.staged:
            self.wait("load", 0 if self.loading else 1)  # else it comes with what is loaded beside it
        elif self.place.stages == 1:
            self.wait("load", 1)
        self.reads(t.buffer, self.footprint(t)[0])
        if s.dst in self.place.staged:
            self.by_element(x, self.place.layouts[s.dst])
            self.wait("shared", 1)

    def chunk(self, n: float, parted: Sequence[int], t: Tensor, guards: float) -> None:
        """`n` copies of chunks of a view, whose number is parted by these sizes: what makes their places and compares them."""
        costs = table()
        self.spend(costs["chunk"], n)
        for size in parted:
            self.spend(costs["parted"]["even" if size & (size - 1) == 0 else "odd"], n * (size > 1))
        self.spend(costs["term"], n * len({a for i in t.index for a in i.names()} & {a for a in t.axes if tile_of(self.p, a) > 1}))
        self.spend(costs["guarded"], n * guards)

    # ---- products
    def mma(self, s: Stmt) -> None:
        self.loading = False
        pr = self.place.products[s]
        for name in (pr.a, pr.b):
            if name in self.place.shared:
                self.before_read(name)
        if pr.instruction.call and pr.instruction.load != "thread":
            self.matrix_product(pr)
        else:
            self.plain_product(pr)

    def matrix_product(self, pr: Product) -> None:
        i, (rm, rn), steps = pr.instruction, pr.repeat, pr.steps
        for name, side, n in ((pr.a, i.m, rm), (pr.b, i.n, rn)):
            if name not in self.place.shared:
                self.spend({"fma": 1}, steps * n * 2)
                continue
            bytes_ = side * n * i.k * self.place.shared[name].buf.dtype.bytes
            if i.load == "ldmatrix":
                self.request(steps * max(1, bytes_ / 512), steps * bytes_ / LINE)
            else:
                self.request(steps * bytes_ / LINE, steps * bytes_ / LINE)
            self.spend(table()["element"], steps * max(1, bytes_ / 512))
        self.plan(Cost((("matrix", steps * rm * rn),), matrix=2.0 * i.m * i.n * i.k * rm * rn * steps))
        self.wait("shared", max(1.0, steps / OVERLAPPED))
        self.wait("special", steps)

    def plain_product(self, pr: Product) -> None:
        i, layout = pr.instruction, pr.layout
        steps, deep_run = -(-prod(n for _, n in pr.k) // i.k), pr.run(self.place.shared)
        for name, group in ((pr.a, pr.m), (pr.b, pr.n)):
            x = self.place.shared.get(name)
            if x is None:
                continue
            part = layout.project([a for a, _ in group])
            r, each = self.samples.registers(part)
            side = self.samples.linear(group, part, r)
            deep = np.zeros((1, 1, 1), np.int64)
            place = self.samples.swizzled(x, *((side, deep) if pr.deep(x) else (deep, side)))
            along = deep_run if pr.deep(x) else 1
            run = along if pr.deep(x) else pr.beside(x, part)
            side_by_side = np.broadcast_to(place, self.samples.shape(r))[..., :: 1 if pr.deep(x) else run]
            passes = self.samples.passes(side_by_side, x.buf.dtype.bytes * i.k * run) * each / along
            self.request(steps * part.registers / run, steps * max(passes, part.registers / run))
            self.spend(table()["loaded"], steps * part.registers / run * (run * x.buf.dtype.bytes * i.k / WORD - 1))
            if x.swizzled:  # what a register decides of its place is a constant, or each read computes its own
                apart = pr.deep(x) and Side(x, pr.part(name == pr.a), group, pr).apart()
                self.spend(table()["placed" if apart else "swizzled"], steps * part.registers / run)
        turns = steps / deep_run / turns_together(pr, steps * i.k, deep_run) if i.k == 1 else steps
        self.spend({"fma": 1}, steps * layout.registers)
        self.spend(table()["turn"], turns)
        self.wait("shared", turns)

    def store(self, s: Stmt) -> None:
        self.loading = False
        t = self.p.tensor(s.dst)
        assert t is not None
        layout = self.place.layouts[s.srcs[0]]
        if "turned_store" in self.directives and (found := turned_store.turned(self, s, t)):
            self.turned(s, t, found)
            return
        first = [_first(self.samples.lane, layout.lane), _first(self.samples.wave, layout.wave)]
        self.access(layout, t, t.dtype in SHORT_FLOATS, True, first)
        self.partial_bytes += self.footprint(t)[1]

    def turned(self, s: Stmt, t: Tensor, x: turned_store.Turned) -> None:
        """A store through shared memory: its registers there, a barrier, and its chunks from there."""
        layout, v = self.place.layouts[s.srcs[0]], turned_store.beside(self, s, x)
        before = len(self.place.reserved)
        _, key = turned_store.memory(self, s, t, x)
        self.own_depth |= len(self.place.reserved) > before  # deeper rings may have room for it
        r, each = self.samples.registers(layout, v)
        place: Any = 0
        for a, _, pitch in x.axes:
            place = place + self.samples.local(layout, a, r) * pitch
        n = layout.registers / v
        bytes_ = v * t.dtype.bytes
        passes = self.samples.passes(np.broadcast_to(place * t.dtype.bytes, self.samples.shape(r)), max(4, bytes_)) * each
        self.request(n, max(n, passes))
        self.spend(table()["casts"]["float"], layout.registers if t.dtype in SHORT_FLOATS else 0)
        self.before_read(key)
        chunks, bytes_ = x.chunks / self.place.threads, x.vector * t.dtype.bytes
        wide = max(1.0, bytes_ * self.place.wave / LINE)
        self.chunk(chunks, [n for _, n, _ in x.axes][1:], t, sum(self.samples.extent[a] % n != 0 for a, n, _ in x.axes))
        run = t.dtype.bytes
        for a, n, _ in reversed(x.axes):  # what lies side by side in the tensor
            run *= n
            if n != self.samples.extent[a]:
                break
        lines = chunks * max(wide, self.place.wave * bytes_ / run)
        self.request(2 * chunks, chunks * wide + lines)
        self.stored_lines += lines * self.often
        self.stored_parts += lines * (min(run, bytes_ * self.place.wave) % SECTOR != 0 and run < LINE) * self.often
        self.stored_bytes += chunks * self.place.wave * bytes_ * (-(-run // SECTOR) * SECTOR / run) * self.often
        self.wait("shared", 1)


def _first(number: Any, level: Any) -> Any:
    """Whether a worker is the first of those that hold a value."""
    out = np.ones_like(number, dtype=bool)
    for d, w in weights(level):
        if not d.axis:
            out = out & (number // w % d.count == 0)
    return out


def _side_by_side(x: Shared, near: str, span: int) -> int:
    """Elements that lie side by side in memory of `span` that follow each other in a tile's rows; `near`: the axis along which memory is
    contiguous."""
    below = 1
    for axis, size in x.inner:
        if axis == near:
            return max(x.vector, min(size, -(-span // below)))
        below *= size
    return x.vector


def _compared(limits: list[Limit], registers: int) -> tuple[dict[Any, tuple[Any, float]], int]:
    """Comparisons that differ from one access to the next, by the index that they limit: for which registers they are kept, how many
    different ones there are. And how many do not differ over accesses."""
    apart: dict[Any, tuple[Any, float]] = {}
    hoisted = set()
    for x in limits:
        asked = np.broadcast_to(x.asked, (registers,))
        if not asked.any():
            continue
        different = len(np.unique(np.broadcast_to(x.left[:1, :1], (1, 1, registers))[0, 0][asked]))
        if different > 1 or not asked.all():
            seen, most = apart.get(x.name, (False, 0.0))
            apart[x.name] = (asked | seen, max(float(different), most))
        else:
            hoisted.add(x.name)
    return apart, len(hoisted - apart.keys())
