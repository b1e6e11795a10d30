"""A tile program -> the programs of a cube core and of its vector cores, with what they hand each other through memory.

Products go to the cube core, everything else to the vector cores, which share the rows of a tile. A sum that vector cores read leaves
L0C behind its last product; a factor that they make goes back through memory to L1. A state that they rewrite between products (the
weighted sum of attention) stays with them: each product gives a part that is added. Nothing here asks what a kernel computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from autocomp.targets.ascend import coupled
from autocomp.targets.ascend.copies import Region, base_text
from autocomp.targets.ascend.cube import FIX, Cube, Factor, M, Part, borders
from autocomp.targets.ascend.fractals import handed, whole_fractals
from autocomp.targets.ascend.frames import Frame, Joint
from autocomp.targets.ascend.geometry import origin, strides, tile_of, trips, values
from autocomp.targets.ascend.half_scores import Halves, Scores
from autocomp.targets.ascend.partials import lane_sums, scale
from autocomp.targets.ascend.score_columns import at_once, columns, folded, stays_in_loop
from autocomp.targets.ascend.tables import stored, table
from autocomp.targets.ascend.vector import VectorPart

from autocomp.cost.engines import fed_at_once
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.body import Map
from autocomp.ir.types import F32, DType
from autocomp.tile.agents import Again, Work
from autocomp.tile.program import Buf, Loop, Stmt, Tensor, TileProgram, Value, walk

Body = tuple[Loop | Stmt, ...]


@dataclass(frozen=True)
class Scratch:
    """A buffer in memory between cores: `slots` tiles of `bytes` each for a group of cores, at `offset` of all such memory."""

    name: str
    element: str
    slots: int
    count: int
    bytes: int


@dataclass
class Split:
    """Fills `frame` (the cube core's) and the vector part's. `start`: text of a tile's first index along an axis, of the whole group;
    `row`: the axis whose tiles the vector cores share; `chunked`: they take their rows in rounds; `late`: ids of statements that run
    `by` rounds late; factors that come in a loop have `more` slots; `joined`: a loop with such statements runs on from tile to tile."""

    p: TileProgram
    cube: Cube
    vector: VectorPart
    start: dict[str, str]
    row: str
    frame: Frame
    chunked: bool
    late: frozenset[int] = frozenset()
    by: int = 0
    more: int = 0
    joined: bool = False
    fractals: bool = False  # directive handed_fractals
    tight: int = 0  # as few slots in L1 as let factors come a round early: one a tile; 2: two of factors that are not late
    scores: Scores | None = None  # directive half_scores
    before: list[str] = field(default_factory=list)  # what the cube core does in front of its loop
    scratches: list[Scratch] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    skipped: set[int] = field(default_factory=set)
    scales: dict[int, str] = field(default_factory=dict)
    factors: dict[str, Factor] = field(default_factory=dict)
    fed: dict[tuple[str, str, int], str] = field(default_factory=dict)
    home: dict[str, Frame] = field(default_factory=dict)
    inner: tuple[Frame, Again, Part] | None = None
    once: set[str] = field(default_factory=set)  # factors that are copied in front of a loop
    tile: Frame = field(default_factory=lambda: Frame("", ""))  # around the open loop

    @property
    def one(self) -> bool:
        """Whether one core has both units: its works stand in one loop, and sums go from L0C straight to unified buffer."""
        return self.vector.frame is self.frame

    def __post_init__(self) -> None:
        self.statements = [s for s, _ in walk(self.p.body)]
        products = [s for s in self.statements if s.op == "mma"]
        factors = {v for s in products for v in s.srcs}
        self.ones = {s.dst for s in self.statements if s.op == "fill" and s.expr == 1 and s.dst in factors}
        self.products = [s for s in products if not self.ones & {*s.srcs}]
        self.beside = {id(x): s for s in products if self.ones & {*s.srcs} for x in self.products if x.srcs[0] == s.srcs[0]}  # row_sums.py
        self.skipped |= {id(s) for s in self.beside.values()}
        self.sums = {s.dst for s in products}
        self.states = {s.dst for s in self.statements if s.op == "map" and s.dst in self.sums}
        self.inputs = {v for s in self.products for v in s.srcs}
        self.read = {v for s in self.statements if s.op != "mma" for v in (*s.srcs, *values(s.expr))}
        self.first = {s.dst: s for s in reversed(self.statements)}
        self.copied = {s.dst: s.srcs[0] for s in self.statements if s.op == "copy"}
        self.buf: dict[str, Buf] = {b.name: b for b in self.p.bufs}
        inner = [x for _, loops in walk(self.p.body) for x in loops if x.kind != "grid"]
        self.short = any(x.until is not None or trips(self.p, x.axes) == 1 for x in inner)  # tiles may have one round
        self.halves = Halves(self.scores, self.vector, self.cube.whole(self.scores.lane)) if self.scores else None

    # ---- the walk
    def body(self, nodes: Body) -> None:
        """Works of one block of statements, into the open frames."""
        last = _last_uses(nodes)
        for at, (factor, until) in self.scalings(nodes).items():
            self.skipped.add(id(nodes[at]))
            self.scales[id(nodes[until])] = factor
            last[factor] = max(last[factor], until)
        made = {n.dst for n in nodes if isinstance(n, Stmt) and self.first[n.dst] is n}
        done = {s.dst: i for i, n in enumerate(nodes) for s, _ in walk((n,)) if s.op == "mma" and s.dst in made - self.states}
        for i, n in enumerate(nodes):
            self.vector.ending = {v for v, at in last.items() if at == i and v in made}
            if isinstance(n, Loop):
                self.loop(n)
            elif id(n) not in self.skipped:
                with self.behind(id(n) in self.late):
                    if self.halves is not None and id(n) in self.halves.of.statements:
                        self.halves.statement(n, self.scales.get(id(n)))
                        if n.dst in self.inputs:
                            self.hand_over(n.dst)
                    elif n.op == "reduce" and n.dst in self.vector.partial:
                        lane_sums(self.vector, n, self.scales.get(id(n)))
                    else:
                        self.statement(n)
            for name in [v for v, at in done.items() if at == i]:
                with self.behind(id(n) in self.late):
                    self.leaves(name, nodes)
            for name in [v for v, at in last.items() if at == i and v in made and not (self.joined and not self.open)]:
                self.vector.drop(name)  # of two tiles at once nothing is dropped

    def scalings(self, nodes: Body) -> dict[int, tuple[str, int]]:
        """Statements of a block that only scale a state by a value in front of a product, or of sums by lanes, that are added to it: their
        place, the value, and the place of the statement that does both."""
        found: dict[int, tuple[str, int]] = {}
        for i, n in enumerate(nodes):
            if not isinstance(n, Stmt) or n.dst not in self.states | self.vector.partial or (by := scale(n)) is None:
                continue
            for j in range(i + 1, len(nodes)):
                x = nodes[j]
                adds = isinstance(x, Stmt) and x.op == ("reduce" if n.dst in self.vector.partial else "mma")
                if isinstance(x, Loop) or by == x.dst or (n.dst in (x.dst, *x.srcs, *values(x.expr)) and not adds):
                    break
                if x.dst == n.dst:
                    if (id(n) in self.late) == (id(x) in self.late):
                        found[i] = by, j
                    break
        return found

    @contextmanager
    def behind(self, late: bool) -> Iterator[None]:
        """Works go to those of the round before, where `late`."""
        frames = (self.frame, self.vector.frame) if late else ()
        for f in frames:
            f.works, f.late = f.late, f.works
        yield
        for f in frames:
            f.works, f.late = f.late, f.works

    def loop(self, n: Loop) -> None:
        name = f"{n.axes[-1]}{'' if n.axes[-1] not in self.loops else len(self.loops)}"
        self.loops.append(name)
        total = trips(self.p, n.axes)
        limit = str(total)
        if n.until is not None and n.until[1] >= 0:
            axis, past = n.until
            step = tile_of(self.p, n.axes[0])
            limit = f"ac_least({total}, ({self.start[axis]} + {self.cube.true[axis]} + {past - 1 + step}) / {step})"
        first = origin(self.p, n.axes, name)
        above, beside = self.frame, self.vector.frame
        self.tile, one = above, self.one
        self.frame, self.vector.frame = (Frame(name, f"{name}_round", by=max(1, self.by)) for _ in range(2))
        if one:
            self.vector.frame = self.frame
        outer, self.vector.outer = self.vector.outer, self.vector.frame
        self.open.append(name)
        self.body(n.body)
        self.open.pop()
        for into, done in ((above, self.frame), (beside, self.vector.frame))[: 1 if one else 2]:
            if self.joined and not self.open:
                into.joint = Joint(done, name, limit, tuple(first), len(into.works), len(into.late))
            elif done.body or done.late:
                into.works.append(done.again(name, limit, first))
        self.frame, self.vector.frame, self.vector.outer = above, beside, outer

    def statement(self, s: Stmt) -> None:
        if s.op == "mma":
            self.product(s)
            return
        if s.op == "copy" and s.dst in self.inputs:
            self.bring(s)
        if s.op == "copy" and s.dst not in self.read:
            return
        if s.op == "fill" and s.dst in self.sums - self.states:
            self.home[s.dst] = self.frame
            return
        if s.op == "fill" and s.dst in self.ones:
            self.constant(s)
            return
        self.vector.statement(s)
        if s.dst in self.inputs and s.op != "copy":
            self.hand_over(s.dst)

    # ---- factors
    def axes_of(self, name: str, s: Stmt) -> tuple[str, str]:
        """(axis beside the depth, depth) of a factor of a product; "" where it has one element. Raises UnsupportedOp."""
        wide = [a for a in self.buf[name].axes if tile_of(self.p, a) > 1]
        out = self.buf[s.dst].axes
        mine, depth = [a for a in wide if a in out], [a for a in wide if a not in out]
        other = next(v for v in s.srcs if v != name) if s.srcs[0] != s.srcs[1] else name
        shared = [a for a in mine if a in self.buf[other].axes]
        if len(mine) > 1 or len(depth) > 1 or shared:
            raise UnsupportedOp(f"{name} with tiles along {', '.join(wide)}", where=self.p.name,
                                hint="cube cores take matrices: one axis of the result and one that is summed")  # fmt: skip
        return (mine or [""])[0], (depth or [""])[0]

    def factor(self, name: str, step: dict[str, int]) -> tuple[Factor, int]:
        """A factor's tile as a matrix of memory, and how far its rows lie apart."""
        s = next(x for x in self.products if name in x.srcs)
        beside, depth = self.axes_of(name, s)
        rows, cols = (beside, depth) if step.get(depth, 1) == 1 else (depth, beside)
        if step.get(cols, 1) != 1:
            raise UnsupportedOp(f"elements of {name} along axis {cols} lie {step[cols]} apart", where=self.p.name,
                                hint="cube cores copy rows; transpose the tensor beforehand")  # fmt: skip
        f = Factor(name, self.buf[name].dtype, rows, cols, rows == depth != "")
        return f, step.get(rows, 0) or self.cube.size(cols)

    def bring(self, s: Stmt) -> None:
        """A factor from memory to L1."""
        t = self.p.tensor(s.srcs[0])
        assert t is not None
        step, offset = strides(replace(t, guard=()), self.p.name)
        f, apart = self.factor(s.dst, step)
        if self.one:
            coupled.check_factor(self.p, f, t, s.dst in self.read)
        f = replace(f, folded=folded(self, f, apart, bool(t.guard)))
        at = base_text(step, offset, self.start)
        border = borders(t, f, self.start, self.p.name) if t.guard else None
        early = self.more > self.by  # then it does not wait behind what vector cores hand over
        late = any(id(x) in self.late for x in self.products if s.dst in x.srcs)
        more, needed = (self.more, self.by + 3 if early else self.by + 1 if late else 1) if self.open else (0, 1)
        if self.tight:
            more, needed = (-1, 1) if not self.open else (self.more - 1, self.more + 1) if late or self.tight < 2 else (0, 2)
        elif early and not self.open and not self.joined:
            more = -1
        text, work = self.cube.load(f, f"{t.buffer}_g", at, apart, (), self.frame.turn, border, more)
        self.frame.declarations.append(text)
        if (slots := self.cube.depth[f.name]) < needed:
            l1 = self.cube.place("l1")
            more_bytes = (needed - slots) * l1.spans[f.name].bytes
            raise DoesNotFit(f"{needed} slots of {f.name} in l1 of a core", needed=l1.top + more_bytes, available=l1.capacity,
                             hint="use fewer stages or smaller tiles")  # fmt: skip
        if not self.open:
            self.once.add(s.dst)
        if early and (self.open or (self.joined and (not self.tight or (stays_in_loop(self, f) and not self.short)))):
            self.frame.early.append(work)
        else:
            self.arrived(work)
        self.factors[s.dst] = f

    def constant(self, s: Stmt) -> None:
        """A factor of one column of ones: in L1 before anything else."""
        self.vector.applied.add("mma_row_sums")
        f = Factor(s.dst, self.buf[s.dst].dtype, self.buf[s.dst].axes[0], "", True)
        rows, element = self.cube.size(f.rows), stored(f.dtype, self.p.name)
        fill = f"{table()['ones']}({f.name}, {rows});"
        self.before += [self.cube.ring("l1", f.name, element, rows * self.cube.size(""), "", 1 - self.cube.slots), fill,
                        *(f"{x}Flag<HardEvent::MTE2_MTE1>(0);" for x in ("Set", "Wait"))]  # fmt: skip
        self.factors[f.name] = f

    def hand_over(self, name: str) -> None:
        """A factor that vector cores made: through memory to L1."""
        b = self.buf[name]
        beside, depth = self.axes_of(name, next(x for x in self.products if name in x.srcs))
        lane = next((a for a in b.axes if a in self.vector.g.lanes), "")
        if self.chunked or lane != depth or beside not in ("", self.row):
            raise UnsupportedOp(f"factor {name} is made with lanes along {lane or 'no axis'}, rows along {self.row}", where=self.p.name,
                                hint="vector cores hand over matrices of rows")  # fmt: skip
        pitch = self.vector.g.pitch(lane)
        f = Factor(name, b.dtype, beside, depth, False)
        halves = self.halves if self.halves is not None and name == self.halves.of.factor.dst else None
        whole = halves is not None or (self.fractals and bool(beside) and whole_fractals(self.p, self.vector, b.dtype, depth))
        rows = self.cube.size(beside) if whole else tile_of(self.p, beside) if beside else 1
        scratch = self.scratch(name, b.dtype, rows, pitch, max(2, self.by + 1))
        slot, more = self.slot(scratch), -1 if self.joined else 0  # flags are few, and it is fed as soon as it has come
        if halves is not None:
            halves.hand_over(scratch.name, slot, rows)
            text, work = self.cube.as_it_lies(f, f"{scratch.name}_g[{slot}]", rows, scratch.name, self.frame.turn, more)
        elif whole:
            own = self.vector.true[beside]
            handed(self.vector, name, self.vector.values[name], b.dtype, scratch.name, slot, self.cube.whole(depth), own, rows)
            text, work = self.cube.as_it_lies(f, f"{scratch.name}_g[{slot}]", rows, scratch.name, self.frame.turn, more)
        else:
            region = Region(f"{scratch.name}_g", f"{slot} + {pitch} * w_row", {beside: pitch, depth: 1}, b.axes, b.dtype.bytes)
            self.vector.store(f"{name}_out", region, b.dtype, self.vector.values[name], scratch.name)
            text, work = self.cube.load(f, f"{scratch.name}_g", slot, pitch, (scratch.name,), self.frame.turn, more=more)
        self.frame.declarations.append(text)
        with self.behind(any(id(s) in self.late for s in self.products if name in s.srcs)):
            self.frame.works.append(work)
        self.factors[name] = f

    def scratch(self, name: str, dtype: DType, rows: int, pitch: int, slots: int = 2) -> Scratch:
        if self.one:
            raise UnsupportedOp(f"{name} goes from one unit of a core to the other and back", where=self.p.name,
                                hint="that is printed as handed over between two kinds of cores")  # fmt: skip
        count = rows * pitch
        s = Scratch(f"{name}_m", stored(dtype, self.p.name), slots, count, -(-count * dtype.bytes // 512) * 512)
        self.scratches.append(s)
        self.vector.depth[s.name] = s.slots
        return s

    def slot(self, s: Scratch) -> str:
        """First element of the round's slot of a group."""
        return f"(group * {s.slots} + {self.frame.turn} % {s.slots}) * {s.bytes // (2 if s.element != 'float' else 4)}ull"

    # ---- products
    def product(self, s: Stmt) -> None:
        a, b = self.sides(s)
        m, k = self.axes_of(a, s)
        n, depth = self.axes_of(b, s)
        k = k or depth
        if self.halves is not None and s.dst == self.halves.of.acc:
            columns(self, s, m, n, k)
            return
        part, frame = self.in_parts(self.fed_at_once(a, m, n, k), k)
        near = [self.feed(frame, v, side, other, part) for v, side, other in ((a, "a", m), (b, "b", n))]
        if s.dst in self.states:
            name, first = f"{s.dst}_part", f"{part.begin} == 0" if part.begin else "true"
            beside = self.beside.get(id(s))
            self.frame.declarations.append(self.cube.accumulator(name, m, n, self.frame.turn, self.cube.size("") if beside else 0))
            work = self.cube.product(name, near[0], near[1], m, n, part, first)
            if beside:
                ones, more = self.ones_fed(beside.srcs[1], part), f"{name}[{self.cube.whole(m)} * {self.cube.size(n)}]"
                line = self.cube.product(more, near[0], ones, m, str(self.cube.size("")), part, first).lines
                work = Work(M, (*work.reads, ones), work.writes, (*work.lines, *line))
            self.multiply(frame, work)
            self.arrives(name, s.dst, m, n, self.buf[s.dst].axes, f"{beside.dst}_part" if beside else "")
            for x in (s, *([beside] if beside else [])):
                state, term, by = self.vector.values[x.dst], self.vector.values.pop(f"{x.dst}_part"), self.scales.get(id(x))
                if by is None:
                    self.vector.combine("add", state, term)
                else:
                    self.vector.scaled_sum(state, self.vector.value(by), term)
            return
        home = self.home[s.dst]
        if not any(f" {s.dst} = " in d for d in home.declarations):
            home.declarations.append(self.cube.accumulator(s.dst, m, n, home.turn))
        inner = self.open[self.open.index(home.loop) + 1 :] if home.loop in self.open else self.open
        started = any(x is not s and x.dst == s.dst for x in self.products[: next(i for i, x in enumerate(self.products) if x is s)])
        at = [*inner, *([part.begin] if part.begin else [])]
        first = "false" if started else " && ".join(f"{x} == 0" for x in at) or "true"
        self.multiply(frame, self.cube.product(s.dst, near[0], near[1], m, n, part, first))

    def fed_at_once(self, a: str, m: str, n: str, k: str) -> int:
        """Elements of a step's depth that one instruction takes."""
        sides = [self.sides(x) for x in self.products]
        most = at_once(self) if self.halves is not None else self.cube.size(n)
        return fed_at_once(self.cube.size(m), min(most, self.cube.size(n)), self.cube.size(k), self.buf[a].dtype.bytes, self.cube.chip,
                           len({x for x, _ in sides}), len({x for _, x in sides}), self.cube.size("") if self.ones else 0)  # fmt: skip

    def in_parts(self, fed: int, k: str) -> tuple[Part, Frame]:
        """What an instruction takes, and the frame of its feeds: the open one, or a loop over parts behind what has been copied to L1.
        Products of the same parts share the loop."""
        if fed >= self.cube.size(k):
            return self.cube.part(k, fed, ""), self.frame
        old = self.inner
        if old is not None and self.behind_parts() is not None and old[2].depth == k and old[2].size == fed:
            return old[2], old[0]
        name = f"{k}_part{sum(x.startswith(f'{k}_part') for x in self.loops) or ''}"
        self.loops.append(name)
        self.inner = Frame(name, f"{name}_round"), Again(name, (), (), ("}",)), self.cube.part(k, fed, name)
        self.frame.works.append(self.inner[1])
        return self.inner[2], self.inner[0]

    def behind_parts(self) -> int | None:
        """Where the loop over parts stands in the open frame, if only sums that leave have come since."""
        works = self.frame.works
        at = next((i for i, x in enumerate(works) if self.inner is not None and x is self.inner[1]), None)
        return at if at is not None and all(isinstance(x, Work) and x.agent == FIX for x in works[at + 1 :]) else None

    def multiply(self, frame: Frame, work: Work) -> None:
        """A product behind its feeds; a loop over parts is written anew with it."""
        frame.works.append(work)
        if frame is self.frame:
            return
        assert self.inner is not None
        _, old, part = self.inner
        name = part.begin
        head = f"for (uint32_t {name} = 0; {name} < {self.cube.count(part.depth)}; {name} += {part.size}, ++{name}_round) {{"
        again = Again(name, (head, *("  " + d for d in frame.declarations)), frame.body, ("}",))
        at = next(i for i, x in enumerate(self.frame.works) if x is old)
        self.frame.works[at] = again
        self.inner = frame, again, part

    def arrived(self, work: Work) -> None:
        """A copy to L1 in front of the products of its step."""
        at = self.behind_parts()
        self.frame.works.insert(len(self.frame.works) if at is None else at, work)

    def sides(self, s: Stmt) -> tuple[str, str]:
        """The factor with the rows and the one with the lanes of the result."""
        a, b = s.srcs
        lane = next((x for x in self.buf[s.dst].axes if x in self.vector.g.lanes), "")
        return (b, a) if lane in self.buf[a].axes else (a, b)

    def feed(self, frame: Frame, name: str, side: str, other: str, part: Part) -> str:
        """A factor in L0, loaded once a block of `frame`."""
        key = (name, side, id(frame))
        if key not in self.fed:
            text, line, work = self.cube.feed(self.factors[name], side, other, part, frame.turn)
            frame.declarations.append(line)
            frame.works.append(work)
            self.fed[key] = text
        return self.fed[key]

    def ones_fed(self, name: str, part: Part) -> str:
        """A factor of ones in L0B, where it stays: all parts are alike."""
        key = (name, "b", 0)
        if key not in self.fed:
            f, size = self.factors[name], part.size
            text, line, work = self.cube.feed(f, "b", "", Part(part.depth, size, str(size), str(size)), "", slots=1)
            self.before += [line, *work.lines, *(f"{x}Flag<HardEvent::MTE1_M>(0);" for x in ("Set", "Wait"))]
            self.fed[key] = text
        return self.fed[key]

    def leaves(self, name: str, nodes: Body) -> None:
        """A finished sum: straight to a tensor where nothing but a conversion stands between, else to the vector cores."""
        if self.halves is not None and name == self.halves.of.acc:
            return  # part by part
        s = next(x for x in self.products if x.dst == name)
        a, b = self.sides(s)
        m, n = self.axes_of(a, s)[0], self.axes_of(b, s)[0]
        way = None if self.one else self.straight(name, n, nodes)
        if self.one:
            coupled.arrives(self.vector, name, m, n, self.cube.size(m))
        elif way is None:
            self.arrives(name, name, m, n, self.buf[name].axes)
        if way is None:
            return
        t, call = way
        step, offset = strides(t, self.p.name)
        target = f"{t.buffer}_g[{base_text(step, offset, self.start)}]"
        self.frame.works.append(self.cube.out(name, target, m, n, step.get(m, 0) or self.cube.size(n), (), call))

    def straight(self, name: str, n: str, nodes: Body) -> tuple[Tensor, str] | None:
        """The tensor and the call where a sum is stored as it is, converted or clipped at zero, and its columns (axis n) lie side by side;
        their statements are skipped then."""
        users = [x for x in self.statements if name in (*x.srcs, *values(x.expr)) and x.op != "mma"]
        steps, relu = [], ""
        while len(users) == 1 and users[0].op == "map" and users[0] in nodes:
            inner = _plain(users[0].expr)
            if inner is None or users[0].dst in self.inputs:
                return None
            relu = "_relu" if inner == "relu" else relu
            steps.append(users[0])
            users = [x for x in self.statements if users[0].dst in (*x.srcs, *values(x.expr))]
        if len(users) != 1 or users[0].op != "store" or users[0] not in nodes:
            return None
        t = self.p.tensor(users[0].dst)
        assert t is not None
        lane = next((a for a in self.buf[name].axes if a in self.vector.g.lanes), "")
        if t.guard or any(strides(t, self.p.name)[0].get(a, 1) != 1 for a in (lane, n)) or t.dtype.name not in ("f16", "bf16", "f32"):
            return None
        self.skipped |= {id(x) for x in (*steps, users[0])}
        return t, f"ac_fixpipe{relu}"

    def arrives(self, acc: str, value: str, m: str, n: str, axes: tuple[str, ...], beside: str = "") -> None:
        """A sum from L0C through memory to unified buffer, as the vector value `acc`; `beside`: one of a column of ones, which lies behind
        its columns and goes its way with it; of it a block of equal elements a row arrives."""
        pitch = self.vector.g.pitch(n) if n else 16
        if beside:
            pitch = self.cube.size(n) + self.cube.size("")
        rows = tile_of(self.p, m) if m else 1
        scratch = self.scratch(acc, F32, rows, pitch)
        target, slot = f"{scratch.name}_g[{self.slot(scratch)}]", self.slot(scratch)
        self.frame.works.append(self.cube.out(acc, target, m, str(pitch) if beside else n, pitch, (scratch.name,)))
        region = Region(f"{scratch.name}_g", f"{slot} + {pitch} * w_row", {m: pitch, n: 1}, axes, 4)
        self.vector.values[acc] = self.vector.load(acc, region, F32, scratch.name)
        if beside:
            at = f"{slot} + {pitch} * w_row + {self.cube.size(n)}"
            self.vector.values[beside] = self.vector.blocks(beside, scratch.name, at, m, pitch)


def _plain(e: object) -> str | None:
    """"cast" or "relu" where an expression is no more than that of one value."""
    name = "cast"
    while isinstance(e, Map) and e.fn in ("cast", "relu") and (e.fn == "relu" or e.dtype.is_float):
        name, e = ("relu" if e.fn == "relu" else name), e.operands[0]
    return name if isinstance(e, Value) else None


def _last_uses(nodes: Body) -> dict[str, int]:
    """Value -> the last node of a block that reads or updates it."""
    last: dict[str, int] = {}
    for i, n in enumerate(nodes):
        for s, _ in walk((n,)):
            for v in (*s.srcs, *values(s.expr)):
                last[v] = i
            if s.acc or s.op in ("mma", "map"):
                last[s.dst] = i
    return last
