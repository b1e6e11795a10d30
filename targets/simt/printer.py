"""A placed tile program as the C++ of one block: grid decoding, loops, copies, maps, reductions, products and stores.

Registers are arrays indexed by constants once loops over them are unrolled. What is printed is a plan (`tile.plan`): statements say which
memory they touch that others see, and barriers are placed when all of them are there (`tile.synchronise`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import gcd
from typing import Any

from autocomp.targets.cpu.flat import dim_text
from autocomp.targets.cpu.names import c_name
from autocomp.targets.simt import (
    copies,
    direct_mainloop,
    peel_tail,
    prefetch_behind_reduction,
    prefetch_factors,
    products,
    scans,
    shared_divisors,
    skip_masked_sums,
    skip_masks,
    skip_neutral,
    software_pipeline,
    streams,
    thread_partials,
    trees,
    turned,
    turned_store,
    untied_accumulators,
    wide_gathers,
)
from autocomp.targets.simt.access import access_width
from autocomp.targets.simt.batch_copies import SideBySide, batch_copies
from autocomp.targets.simt.coordinates import Coordinates
from autocomp.targets.simt.digits import digit, linear, register
from autocomp.targets.simt.expressions import STORED, Scalar, every, held, literal, only_quotients, under
from autocomp.targets.simt.extremes import extremes
from autocomp.targets.simt.facts import Facts, scheduled
from autocomp.targets.simt.late_launch import LetNextStart, late_launch
from autocomp.targets.simt.pairs import load_words, sum_parts
from autocomp.targets.simt.pdl import AwaitLaunches, pdl
from autocomp.targets.simt.placed import Placement, Shared, tile_of
from autocomp.targets.simt.prefetch_behind_reduction import AskFor

from autocomp.ir.affine import Aff
from autocomp.ir.body import Expr, Gather, Map
from autocomp.ir.directives import required
from autocomp.ir.monoids import identity
from autocomp.ir.types import BOOL, Sym
from autocomp.tile import check_steps
from autocomp.tile.check_plan import require
from autocomp.tile.layout import Digit, Layout, weights
from autocomp.tile.plan import Access, Commit, Done, Exit, Landed, Line, Order, Signal, Slots, TensorMemory, spell
from autocomp.tile.program import Loop, Stmt, Tensor, TileProgram, Value, walk
from autocomp.tile.steps import Over, Step, Steps, by, inside, show, steps_of, stmt_of
from autocomp.tile.synchronise import synchronise

TAKEN = (  # the printer's own variables
    "r", "q", "m", "n", "kk", "c", "row", "col", "lane", "wave", "warp", "own", "sum", "block", "smem", "fa", "fb",
    "tile", "waves", "wave_of", "next", "end", "other", "left", "scratch",
)  # fmt: skip


class Printer(Coordinates):
    """Prints the statements of one kernel. `zeros_outside`: copies to registers are zero outside of the extents."""

    zeros_outside = True

    def __init__(self, p: TileProgram, place: Placement, exact: bool = False, directives: Iterable[str] = ()) -> None:
        super().__init__(p, place, TAKEN)
        self.directives = frozenset(directives)
        self.applied = set(p.applied)  # those that took effect
        self.exact = exact
        self.bufs = {b.name: b for b in p.bufs}
        self.half = not exact and all(t.dtype.bytes <= 2 for t in (*p.inputs, *p.outputs) if t.dtype.is_float)
        self.extreme = extremes(p).__contains__
        self.relative = only_quotients(p)
        self.growing = {x.until[0] for x in _all_loops(p.body) if x.until}  # axes along which a tile's loops grow longer
        self.streaming = (1, 0)  # bytes of tensors that are told from others where they are read once, from and to
        self.overlaps = False  # whether a launch may start while the one before it ends
        self.kept: dict[str, str] = {}  # constants that have a register of their own
        self.soon: set[str] = set()  # copies that are loaded before a barrier and used behind it
        self.turning: tuple[Loop, str, str] | None = None  # a pipelined loop, its turn's number and how many there are
        self.asked: dict[str, str] = {}  # of a copy whose loads stand in front of a barrier -> its packed values
        self.deferred: set[str] = set()  # carried reductions whose tree runs behind their loop
        self.ring_slots: dict[str, Slots] = {}  # of a ring whose loop is being printed: the slot that a turn reads
        self.turn = ""  # a tile's number where a block has several: what blocks of a cluster read of each other alternates with it
        self.warp, self.memory = ("warp", "own") if place.cluster > 1 else ("wave", "smem")
        self.forms: list[tuple[str, Steps]] = []  # the steps behind each pass
        self.unmasked: dict[tuple[str, Expr], tuple[Aff, ...]] = {}  # masks not evaluated in tiles where these hold
        self.wanted: dict[Loop, tuple[Aff, ...]] = {}  # loops not run in tiles where these hold nowhere
        dims = [d for t in (*p.inputs, *p.outputs) for d in t.shape]
        self.sizes = tuple(dict.fromkeys(d.name for d in dims if isinstance(d, Sym))) + tuple(p.read_sizes(dims))

    # ---- the kernel
    def text(self) -> list[str]:
        """The lines of the function's body, of the plan that `statements` wrote: ordered, checked, spelt."""
        plan = synchronise(self.whole.done(), self.agents)
        require(plan, self.p.name, self.takers)
        return spell(plan, self.words)

    def passes(self) -> Iterator[tuple[str, str]]:
        """The kernel's plan behind each pass, as text: its steps, the lines that are written of them, and these synchronised."""
        for name, steps in self.forms:
            yield name, show(self.p, steps)
        for name, plan in (("write", self.whole.done()), ("synchronise", synchronise(self.whole.done(), self.agents))):
            yield name, "\n".join(spell(plan, self.words, 0)) + "\n"

    agents, takers = "block", 1  # the threads that share memory, in a plan's words; how many of them take tiles by turns

    def words(self, n: Order) -> str:
        """A barrier or a wait, as the device header calls it."""
        if isinstance(n, Signal | Done | TensorMemory):
            return ""
        if isinstance(n, Commit):
            return "ac_commit();"
        if isinstance(n, Landed):
            counted = self.place.counted and n.copies is not None
            return f"ac_wait_copies<{n.behind * (n.copies or 0)}>();" if counted else f"ac_wait<{n.behind}>();"
        return n.text or ("ac_cluster_sync();" if n.agents == "cluster" else "ac_sync();")

    def statements(self) -> None:
        """Writes the plan."""
        self.heading()
        first = self.p.body[0] if self.p.body else None
        if isinstance(first, Loop) and first.kind == "grid":
            self.grid(first, f"blockIdx.x / {self.place.cluster}" if self.place.cluster > 1 else "blockIdx.x")
            self.declare()
            self.run(self.scheduled(first.body))
        else:
            self.declare()
            self.run(self.scheduled(self.p.body))
        self.closing()

    PASSES: tuple[Callable[[Steps, Any], Steps], ...] = (
        skip_masked_sums.skip_masked_sums,
        thread_partials.thread_partials,
        prefetch_factors.prefetch_factors,
        software_pipeline.software_pipeline,
        prefetch_behind_reduction.prefetch_behind_reduction,
        skip_masks.skip_masks,
        skip_neutral.skip_neutral,
        batch_copies,
        peel_tail.peel_tail,
        pdl,
        late_launch,
    )

    @property
    def facts(self) -> Any:
        """What passes know."""
        return Facts(self.p, self.place, self.directives, self.overlaps)

    def scheduled(self, body: Iterable[Loop | Stmt]) -> Steps:
        """The steps as the schedule's passes leave them; what took effect is noted."""
        program = steps_of(body)
        self.note([("tile program", program), *scheduled(self.PASSES, program, self.facts)])
        return self.forms[-1][1]

    def note(self, forms: list[tuple[str, Steps]]) -> None:
        """Keeps the steps behind each pass, which must be right."""
        check_steps.require(forms, self.p.name)
        self.forms, self.unmasked, self.wanted = forms, skip_masks.unmasked(forms[-1][1]), skip_masked_sums.wanted(forms[-1][1])
        for name in {name for name, _ in forms} & self.directives:
            self.wants(name)

    def heading(self) -> None:
        """What a thread is."""
        if self.place.cluster > 1:
            own = self.place.threads // self.place.cluster // self.place.wave
            self.put("const int lane = threadIdx.x % AC_WAVE, warp = threadIdx.x / AC_WAVE;",
                     f"const int wave = warp + ac_cluster_rank() * {own};", "(void)lane; (void)wave;")  # fmt: skip
        else:
            self.put("const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;", "(void)lane; (void)wave;")
        self.here.put(self.top)

    def closing(self) -> None:
        """The end of the plan, and what its first lines declare only where it is used."""
        self.plan(Exit())
        if self.memory == "own" and self.place.bytes:
            self.top.first(Line(f"unsigned char *const {self.memory} = ac_own_memory(smem);"))
        if self.place.bytes:
            self.top.first(Line("extern __shared__ __align__(1024) unsigned char smem[];"))

    def wants(self, directive: str, possible: bool = True) -> bool:
        """Whether the schedule asks for a scheme that is `possible` here; it has taken effect then, and what it requires with it."""
        found = possible and directive in self.directives
        if found:
            self.applied |= {directive, *required(directive)}
        return found

    def certain(self, layout: Layout, axis: str) -> int:
        """... which the schedule asks for."""
        n = super().certain(layout, axis)
        return n if n and self.wants("peel_tail") else 0

    def meet_launches(self, alone: bool = False) -> None:
        """In front of the first access to global memory, where launches overlap: what earlier ones wrote is there, and what they read
        may be overwritten; the next one may start its blocks, unless the wait stands `alone`."""
        if self.overlaps:
            self.put("ac_launch_wait();", *(() if alone else ("ac_launch_next();",)))

    def declare(self) -> None:
        """Registers of every fragment; zeros where a computed factor does not fill its padded tile."""
        for b in self.p.bufs:
            if b.name in self.place.layouts and b.name not in self.place.late:
                self.put(self.storage(b.name, self.names.of(b.name)))
        for name in self.place.cleared:
            x = self.place.shared[name]
            self.before_write(name)
            self.put(f"ac_clear<{x.bytes}, {self.place.threads}>(smem + {x.offset});")

    def storage(self, name: str, called: str) -> str:
        """The declaration of a value's registers."""
        b, n = self.bufs[name], (self.place.strips.get(name) or self.place.layouts[name]).registers
        if name in self.place.words:
            return f"unsigned {called}[{n * b.dtype.bytes // 4}];"
        words = "alignas(16) " if b.dtype.bytes == 1 and not b.dtype.is_float and n % 4 == 0 else ""
        return f"{words}{held(b.dtype)} {called}[{n}];"

    def count(self, axis: str) -> str:
        """Tiles along an axis."""
        t, e = tile_of(self.p, axis), self.p.extent(axis)
        return str(-(-e // t)) if isinstance(e, int) else f"(int)(({dim_text(e)} + {t - 1}) / {t})"

    def grid(self, loop: Loop, number: str = "blockIdx.x") -> None:
        """The block's number as tile positions, the last axis fastest; grouped(g) walks g rows of tiles first."""
        self.put(f"int block = {number};")
        count = lambda a: f"(({self.count(a)} + {self.together - 1}) / {self.together})" if a == self.paired else self.count(a)
        place = lambda a, n: f"(({n}) * {self.together} + ac_cluster_rank())" if a == self.paired else n
        order = loop.opt("order", "")
        group = int(order[8:-1]) if order.startswith("grouped(") else 0
        axes = list(loop.axes)
        for a in axes:
            self.base[a] = self.names.fresh(f"{a}_b")
        if group and len(axes) >= 2:
            row, col = axes[-2], axes[-1]
            self.put(
                f"const int rows_{row} = {count(row)}, cols_{col} = {count(col)}, all_{row} = rows_{row} * cols_{col};",
                f"const int tile_{row} = block % all_{row}, first_{row} = tile_{row} / ({group} * cols_{col}) * {group};",
                f"const int high_{row} = {self.high(row, group)};",
                self.first(row, place(row, f"(first_{row} + tile_{row} % ({group} * cols_{col}) % high_{row})"), always=True),
                self.first(col, f"tile_{row} % ({group} * cols_{col}) / high_{row}", always=True),
                f"block /= all_{row};",
            )
            axes = axes[:-2]
        for i, a in enumerate(reversed(axes)):
            last = i == len(axes) - 1
            n = count(a)
            number = "block" if last else f"block % {n}"
            if a in self.growing:  # the longest tiles first, so that the last wave is short
                number = f"({n} - 1 - {number})"
            number = place(a, number)
            self.put(self.first(a, number))
            if not last:
                self.put(f"block /= {n};")

    def high(self, row: str, group: int) -> str:
        """Rows of tiles in a group: a number where all groups have as many, for divisions by others take a hundred clocks."""
        extent = self.p.extent(row)
        if isinstance(extent, int):
            tiles = -(-extent // tile_of(self.p, row))
            rows = -(-tiles // self.together) if row == self.paired else tiles
            if rows <= group or rows % group == 0:
                return str(min(rows, group))
        return f"ac_min(rows_{row} - first_{row}, {group})"

    def run(self, body: Iterable[Loop | Stmt | Step]) -> None:
        steps = steps_of(body)
        begun = {s.dst for n in steps if (s := stmt_of(n)) and s.op == "fill"}
        for n in steps:
            if by(n, SideBySide):
                turned.copy(self, tuple(inside((n,))))
            elif by(n, peel_tail.Peeled):
                self.peel(tuple(inside((n,))))
            elif isinstance(n, Over) and (ring := by(n, software_pipeline.Ring)):
                software_pipeline.write(self, n, ring.slots)
            elif isinstance(n, Over) and n.loop:
                self.loop(n, n.loop)
            elif (s := stmt_of(n)) and s.dst not in self.place.late:
                getattr(self, s.op)(s)
            elif ask := by(n, AskFor):
                prefetch_behind_reduction.ask(self, ask.copy)
            elif (soon := by(n, prefetch_factors.AskAhead)) and self.turning:
                prefetch_factors.ahead(self, soon.copy, *self.turning)
            elif wait := by(n, AwaitLaunches):
                self.meet_launches(wait.alone)
            elif by(n, LetNextStart):
                self.put("ac_launch_next();")
            for s, pr in self.place.products.items():
                if pr.parts > 1 and s.dst in begun and any(s is x for x in inside((n,))):
                    sum_parts(self, s, pr)

    def maker(self, name: str) -> Stmt:
        """The map that makes a value."""
        return next(s for s, _ in walk(self.p.body) if s.dst == name and s.op == "map")

    def covered(self, name: str, op: str) -> bool:
        """Whether a reduction or a scan by `op` needs no condition where a fragment lies outside of the extents: what is copied is zero
        there, and a cast of it. A condition would hold its predicate until the element is there, and a thread has seven of them."""
        made = [s for s, _ in walk(self.p.body) if s.dst == name]
        s, place = made[0], self.place
        if len(made) > 1 or identity(op, self.bufs[name].dtype) != 0 or not self.zeros_outside:
            return False
        if s.op == "map":
            e = s.expr
            return isinstance(e, Map) and e.fn == "cast" and isinstance(e.args[0], Value) and self.covered(e.args[0].name, op)
        t = self.p.tensor(s.srcs[0]) if s.op == "copy" else None
        return t is not None and not t.fill and not any(name in x for x in (self.asked, place.strips, place.staged, place.words))

    def made(self, name: str) -> Expr:
        """Its expression."""
        e = self.maker(name).expr
        assert isinstance(e, Expr)
        return e

    # ---- loops
    def loop(self, n: Over, loop: Loop) -> None:
        """A loop of the program with what schemes say of it."""
        if loop.kind == "when":  # running it always changes nothing
            self.run(n.body)
            return
        pipelined = loop.kind == "pipelined" and self.place.stages > 1
        product = direct_mainloop.product_of(self.place, loop) if pipelined else None
        if product is not None:
            direct_mainloop.turns_ahead(self, loop, product)
            return
        late = thread_partials.defer(self, n)
        if skipped := by(n, skip_neutral.Skipped):
            skip_neutral.write(self, n, loop, skipped)
        else:
            total, it = self.turns(loop), self.names.fresh("it")
            with self.block(f"for (int {it} = 0; {it} < {total}; ++{it})", again=it):
                self.bases(loop, it)
                self.turn_begins(loop, it)
                self.run(n.body)
        for a in loop.axes:
            self.base.pop(a)
        thread_partials.settle(self, late)

    def turn_begins(self, loop: Loop, it: str) -> None:
        """What a target prints in front of a turn's statements."""

    def turns(self, loop: Loop) -> str:
        """Iterations of a loop."""
        total = " * ".join(self.count(a) for a in loop.axes)
        if guards := self.wanted.get(loop):
            turns = self.names.fresh("turns")
            self.put(f"const int {turns} = {' && '.join(map(self.somewhere, guards))} ? {total} : 0;")
            return turns
        if loop.until is None:
            return total
        axis, constant = loop.until
        last = f"{self.base.get(axis, '0')} + {tile_of(self.p, axis) - 1 + constant}"
        return f"ac_min({total}, ({last}) / {tile_of(self.p, loop.axes[0])} + 1)"

    def somewhere(self, guard: Aff) -> str:
        """The condition that a sum of indices is at least 0 for an element of the tile."""
        most = lambda a: f"({self.base.get(a, '0')} + {tile_of(self.p, a) - 1})" if guard.coef(a) > 0 else self.base.get(a, "0")
        return f"{self.index(guard, most)} >= 0"

    def bases(self, loop: Loop, it: str) -> None:
        """First indices of the loop's tiles at iteration `it`, the last axis fastest."""
        below = ""
        for i, a in enumerate(reversed(loop.axes)):
            last = i == len(loop.axes) - 1
            number = f"{it}{below}" + ("" if last else f" % {self.count(a)}")
            number = f"({self.count(a)} - 1 - {number})" if loop.back else number
            self.base[a] = self.names.fresh(f"{a}_b")
            self.put(self.first(a, number))
            below += f" / {self.count(a)}"

    def issue(self, ring: list[Stmt], loop: Loop, it: str, total: str, slot: str, slots: Slots) -> None:
        """Start the copies of iteration `it` into a slot; a group is closed even where there is nothing to copy."""
        outer = self.base.copy()
        with self.block("" if self.place.counted else f"if ({it} < {total})"):
            self.bases(loop, it)
            for s in copies.asynchronous_first(self, ring):
                self.slot[s.dst] = slot
                self.plan(Access(s.dst, True, lands=True, slots=slots))
                self.to_shared(s, [f"{it} < {total}"] if self.place.counted else [])
        self.plan(Commit())
        self.base.clear()
        self.base.update(outer)

    # ---- memory that other threads see
    def before_read(self, name: str) -> None:
        far = trees.far(name)
        self.plan(Access(name, False, far, slots=self.ring_slots.get(name), halves=bool(self.turn) and far))

    def before_write(self, name: str, lands: bool = False, own: bool = False) -> None:
        far = trees.far(name)
        self.plan(Access(name, True, far, lands, own, halves=bool(self.turn) and far))

    # ---- statements
    def copy(self, s: Stmt) -> None:
        if s.dst in self.place.shared and self.place.shared[s.dst].view is not None:
            self.before_write(s.dst, lands=True)
            self.to_shared(s)
            self.plan(Commit())
            return
        t = self.p.tensor(s.srcs[0])
        if t is None:
            src = self.bufs[s.srcs[0]]
            self.map(Stmt("map", s.dst, s.srcs, Value(src.dtype, src.name)))
        elif s.dst in self.place.words:
            load_words(self, s, t)
        elif s.dst in self.place.staged:
            turned.copy(self, (s,))
        else:
            self.load(s, t)
            if s.dst in self.place.shared:
                self.share(s.dst)

    def load(self, s: Stmt, t: Tensor) -> None:
        """A tile of a view into registers, vectors where memory allows; zero outside the extents, the fill outside the guards."""
        if s.dst in self.asked:
            prefetch_behind_reduction.unpack(self, s, t)
            return
        if s.dst in self.place.strips:
            self.load_strip(s, t)
            return
        layout, name = self.place.layouts[s.dst], self.names.of(s.dst)
        v = self.vector(layout, t)
        with self.registers(layout, "q", v):
            r = f"q * {v}" if v > 1 else "q"
            there, guards, address = self.reached(layout, t, f"({r})" if v > 1 else r)
            ok = there + guards
            how = "_soon" if s.dst in self.soon else streams.once(self, t, v) or streams.streamed(self, t, v)
            read = f"ac_load{how}<{v}>(&{name}[{r}], {address});"
            if not ok:
                self.put(read)
            else:
                zero = literal(0, t.dtype)
                other = literal(t.fill, t.dtype) if t.guard else zero
                if there and other != zero:
                    other = f"{every(there)} ? {other} : {zero}"
                self.read_where(t, v, f"&{name}[{r}]", ok, address, other, how)

    def read_where(self, t: Tensor, v: int, to: str, ok: list[str], address: str, other: str, how: str = "") -> None:
        """A load under conditions: values are there, and short ones converted, in any case (`ac_load_where`)."""
        if how in ("", "_streamed"):
            self.put(f"ac_load{how}_where<{v}>({to}, {every(ok)}, {address}, {other});")
        else:
            self.put(f"if ({every(ok)}) ac_load{how}<{v}>({to}, {address});", f"else ac_fill<{v}>({to}, {other});")

    def load_strip(self, s: Stmt, t: Tensor) -> None:
        """Each element that a thread's windows read: where the first window that reads it is, and where the tensor has it."""
        self.wants("window_strips")
        strip, layout, name = self.place.strips[s.dst], self.place.layouts[s.dst], self.names.of(s.dst)
        v = self.vector(layout, t)
        r = f"(q * {v})" if v > 1 else "q"
        at = lambda a: self.coordinate(strip.layout, a, r)
        slid = {x.out: (x, n) for n, (x, _) in enumerate(strip.slides)}
        taps = {x.tap for x, _ in strip.slides}
        ok = self.inside(strip.layout, [a for a in t.axes if a not in slid and a not in taps], r)
        for a, (x, n) in slid.items():
            mine = self.local(Layout((), strip.layout.lane, strip.layout.wave), a, 0)
            first = f"{mine} + {x.first(strip.place(n, r))}"
            ok += [c.replace("%s", first) for c in self.outside(a, layout.extent(a), self.base.get(a))]
        ok += self.guards(t.guard, at)
        address = self.address(t, at)
        with self.registers(strip.layout, "q", v):
            if ok:
                self.read_where(t, v, f"&{name}[{r}]", ok, address, literal(t.fill if t.guard else 0, t.dtype))
            else:
                self.put(f"ac_load<{v}>(&{name}[{r}], {address});")

    def vector(self, layout: Layout, t: Tensor) -> int:
        """Elements that one access moves under a layout."""
        return access_width(self.p, layout, t, self.uncut)

    def peel(self, stmts: tuple[Stmt, ...]) -> None:
        """Copies and stores that an end of a tensor may cut: vectors in whole tiles, elements in others."""
        peel_tail.write(self, stmts)

    def fill(self, s: Stmt) -> None:
        b = self.bufs[s.dst]
        n = self.place.layouts[s.dst].registers
        with self.over(n):
            self.put(f"{self.names.of(s.dst)}[r] = {literal(s.expr, b.dtype)};")

    def read_at(self, name: str, layout: Layout, r: str) -> str:
        """The register of value `name` that belongs to register `r` of a value with `layout`."""
        mine = self.place.layouts[name]
        if name in self.place.strips:
            return f"{self.names.of(name)}[{self.place.strips[name].register(mine, layout, r)}]"
        if mine.reg == layout.reg:
            return f"{self.names.of(name)}[{r}]"
        return f"{self.names.of(name)}[{register(mine, layout, r, name)}]"

    def word_at(self, name: str, layout: Layout) -> str:
        """The word around register r of a value of bytes that lies as `layout`, "" where it has no words."""
        mine, b = self.place.layouts.get(name), self.bufs[name]
        if mine is None or mine.reg != layout.reg or name in self.place.strips:
            return ""
        if b.dtype.bytes != 1 or b.dtype == BOOL or mine.registers % 4:
            return ""
        return f"ac_word({self.names.of(name)}, r)"

    def map(self, s: Stmt) -> None:
        layout = self.place.layouts[s.dst]
        assert isinstance(s.expr, Expr)
        if always := self.needless(s, layout):
            with self.block(f"if ({always})"):
                self.elements(s.dst, layout, s.expr.args[1])
            with self.block("else"):
                self.elements(s.dst, layout, s.expr)
        else:
            self.elements(s.dst, layout, s.expr)
        if s.dst in self.place.shared:
            self.share(s.dst)

    def elements(self, dst: str, layout: Layout, expr: Expr) -> None:
        if isinstance(expr, Gather) and (t := wide_gathers.wide(self, dst, layout, expr)):
            wide_gathers.write(self, dst, layout, expr, t)
            return
        with self.registers(layout):
            self.put(f"{self.names.of(dst)}[r] = {self.scalar(layout, 'r').text(expr)};")

    def scalar(self, layout: Layout, r: str) -> Scalar:
        """Texts of expressions at register `r` of a layout."""
        word = (lambda n: self.word_at(n, layout)) if r == "r" else lambda n: ""
        return Scalar(lambda n: self.read_at(n, layout, r), self.table, lambda a: self.coordinate(layout, a, r),
                      self.exact, self.half, self.relative, word, self.index, self.extreme,
                      shared=lambda e: shared_divisors.shared(self, layout, e))  # fmt: skip

    def needless(self, s: Stmt, layout: Layout) -> str:
        """The condition under which a map's mask of indices holds in the whole of a loop's tile, "" where no scheme asks for that."""
        if not (isinstance(s.expr, Map) and s.expr.fn == "where"):
            return ""
        size = lambda a: layout.extent(a) if a in layout.axes() else 1
        first = lambda a: self.coordinate(Layout((), (), ()), a, 0)
        least = lambda g: lambda a: f"({first(a)} + {size(a) - 1})" if g.coef(a) < 0 and size(a) > 1 else first(a)
        return " && ".join(f"{self.index(g, least(g))} >= 0" for g in self.unmasked.get((s.dst, s.expr.args[0]), ()))

    def share(self, name: str) -> None:
        """A computed factor of a product, from registers into shared memory."""
        x, layout = self.place.shared[name], self.place.layouts[name]
        self.before_write(name)
        kind, v = STORED[x.buf.dtype.name], self.run_to_shared(x, layout)
        r = f"(q * {v})" if v > 1 else "r"
        with self.registers(layout, "q" if v > 1 else "r", v):
            row, col = (linear(group, lambda a: self.local(layout, a, r)) for group in (x.outer, x.inner))
            ok = self.first_of_replicas(layout)
            ok += [f"{self.local(layout, a, r)} < {tile_of(self.p, a)}" for a in x.buf.axes if layout.extent(a) > tile_of(self.p, a)]
            place, value = self.element(x, row, col), self.names.of(name)
            alone = f"*({kind} *)({place}) = ac_stored<{kind}>({value}[r]);"
            write = f"ac_store<{v}>(({kind} *)({place}), &{value}[{r}]);" if v > 1 else alone
            self.put(under(ok, write))

    def run_to_shared(self, x: Shared, layout: Layout) -> int:
        """Registers that one store brings to shared memory: neighbours of a row, in one of the chunks that the swizzle moves whole."""
        first = layout.reg[0] if layout.reg else None
        if first is None or not x.inner or (first.axis, first.stride) != (x.inner[0][0], 1):
            return 1
        return gcd(16 // x.buf.dtype.bytes, first.count, x.inner[0][1], tile_of(self.p, first.axis), x.row)

    def first_of_replicas(self, layout: Layout) -> list[str]:
        """Conditions under which a thread is the first of those that hold a value. The others may hold something else: a product of one row
        has the padding's rows in their place."""
        return [f"{digit(k, Digit(d.axis, 1, d.count), w, level)} == 0" for k, level in (("lane", layout.lane), ("wave", layout.wave))
                for d, w in weights(level) if not d.axis]  # fmt: skip

    def table(self, tensor: str, indices: list[str]) -> str:
        """A data-dependent read, indices clamped to the buffer."""
        t = self.p.tensor(tensor)
        assert t is not None
        offset = ""
        for i, d in zip(indices, t.shape, strict=True):
            here = f"ac_clamp((long long)({i}), (long long){dim_text(d)})"
            offset = f"({offset}) * {dim_text(d)} + {here}" if offset else here
        return f"ac_held({self.pointer[t.buffer]}[{offset}])"

    def store(self, s: Stmt) -> None:
        t = self.p.tensor(s.dst)
        assert t is not None
        found = turned_store.turned(self, s, t) if "turned_store" in self.directives else None
        if found is not None and self.wants("turned_store"):
            turned_store.store(self, s, t, found)
            return
        self.store_registers(s, t)

    def store_registers(self, s: Stmt, t: Tensor) -> None:
        """Each thread stores what it has."""
        layout = self.place.layouts[s.srcs[0]]
        v = self.vector(layout, t)
        single = self.first_of_replicas(layout)
        store = untied_accumulators.stored_by(self, s, t.dtype)
        with self.registers(layout, "q", v):
            r = f"(q * {v})" if v > 1 else "q"
            at = lambda a: self.coordinate(layout, a, r)
            alone = [f"{self.local(layout, a, r)} == 0" for a in sorted(layout.axes()) if all(a != x for x, _ in self.p.axes)]  # sides of 1
            ok = single + alone + self.inside(layout, t.axes, r) + self.guards(t.guard, at)
            write = f"{store}<{v}>({self.address(t, at, at_once=v > 1)}, &{self.names.of(s.srcs[0])}[{r}]);"
            self.put(under(ok, write))

    def reduce(self, s: Stmt) -> None:
        trees.reduce(self, s)

    def scan(self, s: Stmt) -> None:
        scans.scan(self, s)

    def tree_key(self, key: str, bytes_: int) -> str:
        """The place in shared memory for a tree's partial results."""
        return key

    def to_shared(self, s: Stmt, when: list[str] | None = None) -> None:
        copies.to_shared(self, s, when)

    def mma(self, s: Stmt) -> None:
        products.mma(self, s)


def _all_loops(body: Iterable[Loop | Stmt]) -> list[Loop]:
    found = [n for n in body if isinstance(n, Loop)]
    return found + [x for n in found for x in _all_loops(n.body)]


def parameters(p: TileProgram, printer: Printer) -> list[str]:
    """Pointers to inputs and outputs, then sizes. Where launches overlap, what earlier ones may write is not said to stay as it is: the
    compiler would read it in front of the wait (loads of constants pass `griddepcontrol.wait` in what ptxas 13.0 makes of them)."""
    out = []
    for tensors, const in ((p.inputs, "const "), (p.outputs, "")):
        for b in dict.fromkeys(t.buffer for t in tensors):
            t = next(t for t in tensors if t.buffer == b)
            stays = "" if const and printer.overlaps and not t.constant else "__restrict__ "
            out.append(f"{const}{STORED[t.dtype.name]} *{stays}{printer.pointer[b]}")
    return out + [f"long long {c_name(s)}" for s in printer.sizes]
