"""Statements of a tile program -> works of a vector core's agents: copies in (MTE2), instructions (V), copies out (MTE3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from autocomp.targets.ascend import words
from autocomp.targets.ascend.bordered import Inner, asked_outside, bordered_lines, inner
from autocomp.targets.ascend.choices import compared, indices, is_mask, selected
from autocomp.targets.ascend.columns import looked_up
from autocomp.targets.ascend.copies import Region, copy_lines, region
from autocomp.targets.ascend.direct import direct
from autocomp.targets.ascend.edges import cut, masked
from autocomp.targets.ascend.frames import Frame
from autocomp.targets.ascend.geometry import Geometry, extent, on_chip
from autocomp.targets.ascend.masks import COMPARISONS, difference, settled
from autocomp.targets.ascend.operand import WORD, Operand, number
from autocomp.targets.ascend.rearranged import is_turned, picked, strided, turned
from autocomp.targets.ascend.scalars import Scalars, gathered_lines, is_scalar
from autocomp.targets.ascend.tables import loaded, slot_text, stored, table
from autocomp.targets.ascend.whole import EXACT, WRAPPING, Held, by_columns, compares_words, computed, has_end, is_short, is_word, whole

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Gather, Index, Map
from autocomp.ir.types import BOOL, DType
from autocomp.tile.agents import Work
from autocomp.tile.places import Place
from autocomp.tile.program import Buf, Stmt, Tensor, TileProgram, Value, walk

MTE2, V, MTE3 = "vector.MTE2", "vector.V", "vector.MTE3"


@dataclass
class VectorPart:
    """Fills `frame`; `outer` takes loads of what is the same for all rows. `guard`: text in front of copies ("" or a condition).

    `start` and `true`: text of the first index and of the count of a tile along an axis, as this core sees them. `slots`: of rings.
    `kept`: values that are read a round later.
    """

    p: TileProgram
    g: Geometry
    ub: Place
    start: dict[str, str]
    true: dict[str, str]
    frame: Frame
    outer: Frame
    slots: int = 2
    guard: str = ""
    kept: frozenset[str] = frozenset()
    by: int = 0
    fused: bool = False  # directive fused_scale
    partial: frozenset[str] = frozenset()  # directive thread_partials: sums that are eight lanes' until behind their loop
    row: str = ""  # the axis whose rows vector cores share
    before: list[str] = field(default_factory=list)  # what a core does in front of its loop
    depth: dict[str, int] = field(default_factory=dict)
    values: dict[str, Operand] = field(default_factory=dict)
    names: int = 0
    applied: set[str] = field(default_factory=set)  # directives that took effect
    ending: set[str] = field(default_factory=set)  # values that nobody reads behind the statement at hand
    exact: bool = False  # what is computed is a word: numbers that single precision rounds are none in between
    scalars: Scalars = field(init=False)
    changing: set[str] = field(init=False)
    direct: frozenset[str] = field(init=False)
    whole: Held = field(init=False)

    def __post_init__(self) -> None:
        self.scalars = Scalars(self.p, self.start)
        sums = {s.dst for s, _ in walk(self.p.body) if s.op == "mma"}  # of the cube unit: they arrive when they are whole
        made = Counter(s.dst for s, _ in walk(self.p.body) if s.dst not in sums or s.op == "map")
        self.changing = {name for name, n in made.items() if n > 1 or name in sums}
        self.direct = direct(self.p, self.g)
        self.whole = whole(self.p)

    def statement(self, s: Stmt) -> None:
        """One statement that is not a matrix product."""
        b = self.p.buf(s.dst)
        if b is not None and is_scalar(b.dtype) and s.dst not in self.whole.names and s.op in ("copy", "map"):
            source = self.p.tensor(s.srcs[0]) if s.op == "copy" else s.expr
            assert isinstance(source, (Tensor, Expr))
            self.scalars.known[s.dst] = source
        elif s.op == "map" and isinstance(s.expr, Gather) and b is not None:
            self.values[s.dst] = self.gathered(s.dst, s.expr, b)
        elif s.op == "copy":
            t = self.p.tensor(s.srcs[0])
            assert t is not None
            whole = region(replace(t, guard=()), self.start, self.p.name)
            if t.guard:
                self.values[s.dst] = self.bordered(s.dst, t, whole)
            elif step := strided(self, whole):
                self.values[s.dst] = picked(self, s.dst, whole, t.dtype, step, self.load)
            elif is_turned(self, whole):
                self.values[s.dst] = turned(self, s.dst, whole, t.dtype)
            else:
                self.values[s.dst] = self.load(s.dst, whole, t.dtype, as_is=s.dst in self.direct)
        elif s.op == "fill":
            self.fill(s)
        elif s.op == "map" and isinstance(s.expr, Map) and s.dst in self.direct:
            self.values[s.dst] = self.as_stored(s.dst, s.expr, b)
        elif s.op == "map" and isinstance(s.expr, Expr) and s.dst in self.kept and b is not None:
            kind, lane = self.g.kind(b.axes, self.p.name)
            ring = Operand(self.staged(self.frame, f"{s.dst}_kept", "float", self.g.bytes(kind, lane), self.by + 1), kind, lane)
            self.values[s.dst] = self.moved(self.evaluated(s, ring), ring)
        elif s.op == "map" and isinstance(s.expr, Expr):
            state = self.values.get(s.dst)
            spent = self.spent(s.expr) if state is None else ""
            result = self.evaluated(s, self.values[spent] if spent else state)
            if spent and result == self.values[spent]:
                self.values.pop(spent)
            self.values[s.dst] = self.named(s.dst, result) if state is None else self.moved(result, state)
        elif s.op == "reduce":
            folded = self.reduce(s)
            if s.acc:
                self.combine(str(s.expr), self.value(s.dst), folded)
            else:
                self.values[s.dst] = folded
        elif s.op == "store":
            t = self.p.tensor(s.dst)
            assert t is not None
            self.store(f"{t.name}_out", region(t, self.start, self.p.name), t.dtype, self.value(s.srcs[0]),
                       as_is=s.srcs[0] in self.direct)  # fmt: skip
        else:
            raise UnsupportedOp(f"'{s.op}' of {s.dst} is not done by vector cores here", where=self.p.name)

    def spent(self, e: Expr) -> str:
        """A value that a function of two reads for the last time, in whose place its result may lie; "" for none."""
        operands = e.operands if isinstance(e, Map) and e.fn in table()["binary"] else ()
        for name in (a.name for a in operands if isinstance(a, Value) and a.name in self.ending):
            o = self.values.get(name)
            if o is not None and o.kind == "full" and o.element == "float" and o.offset >= 0 and list(self.values.values()).count(o) == 1:
                return name
        return ""

    def value(self, name: str) -> Operand:
        """A value by name. Raises UnsupportedOp for one that vector cores do not hold."""
        if name not in self.values:
            b = self.p.buf(name)
            raise UnsupportedOp(f"{name} has elements of type {b.dtype if b else '?'}, which are not computed by vector cores here",
                                where=self.p.name, hint=f"types: {', '.join(table()['stored'])}")  # fmt: skip
        return self.values[name]

    # ---- buffers
    def temporary(self, kind: str, lane: str, hint: str = "t", element: str = "float") -> Operand:
        """A piece of unified buffer with room for a value in single precision."""
        bytes_ = self.g.bytes(kind, lane)
        at = self.ub.take(bytes_)
        self.names += 1
        name = f"{hint}{self.names}"
        form = "ac_f32" if element == "float" else f"LocalTensor<{element}>"
        self.frame.declarations.append(f"const {form} {name} = ac_at<{element}>(ub, {bytes_}, {at});")
        return Operand(name, kind, lane, at, element)

    def release(self, o: Operand) -> None:
        if o.offset >= 0:
            self.ub.give(o.offset, self.g.bytes(o.kind, o.lane))

    def drop(self, name: str) -> None:
        """A value that nobody reads any more."""
        o = self.values.pop(name, None)
        if o is not None and o not in self.values.values():
            self.release(o)

    def named(self, name: str, o: Operand) -> Operand:
        """The result of an expression as the value `name`. One that stands for another is that one, unless either changes later."""
        names = {n for n, x in self.values.items() if x == o}
        if o.kind != "number" and not (names and ({name} | names) & self.changing):
            return o
        kind, lane = ("stat", "") if o.kind == "number" else (o.kind, o.lane)
        return self.moved(o, self.temporary(kind, lane, name, o.element))

    def moved(self, o: Operand, d: Operand) -> Operand:
        """A value's copy in the place `d`."""
        if o == d:
            return d
        if o.kind not in ("number", d.kind) or (o.lane != d.lane and o.kind != "number"):
            raise UnsupportedOp(f"{d.name} has a value a {d.kind} and is given one a {o.kind}", where=self.p.name)
        n = self.g.elements(d.kind, d.lane)
        self.v([f"Duplicate({d.name}, {o.name}, {n});" if o.kind == "number" else f"Adds({d.name}, {o.name}, {d.zero}, {n});"], (o,), d)
        if o not in self.values.values():
            self.release(o)
        return d

    def fill(self, s: Stmt) -> None:
        """A state at its first value."""
        b = self.p.buf(s.dst)
        assert b is not None and isinstance(s.expr, (int, float))
        kind, lane = self.g.kind(b.axes, self.p.name)
        first = self.constant(s.dst, s.expr)
        self.values[s.dst] = self.moved(first, self.temporary(kind, lane, s.dst, first.element))

    def constant(self, name: str, value: float) -> Operand:
        """A number as a value of that name has it."""
        return words.number(int(value)) if name in self.whole.words else Operand(number(float(value)), "number")

    def v(self, lines: list[str], reads: tuple[Operand, ...], *writes: Operand) -> None:
        read = [o for o in reads if o.kind != "number"]
        self.frame.works.append(Work(V, tuple(o.storage for o in read), tuple(o.storage for o in writes), tuple(lines),
                                     tuple(o.name for o in (*read, *writes))))  # fmt: skip

    def staged(self, frame: Frame, name: str, element: str, bytes_: int, slots: int = 0, apart: bool = False) -> str:
        """A ring in unified buffer, of so many slots where they are given; gives the name of the round's slot. `apart`: Place.take."""
        size, slots = self.ub.rounded(bytes_), slots or self.slots
        at = self.ub.take(bytes_, slots, name, apart)
        offset = slot_text(at, frame.turn, slots, size)
        frame.declarations.append(f"const LocalTensor<{element}> {name} = ac_at<{element}>(ub, {bytes_}, {offset});")
        self.depth[name] = slots
        return name

    def as_stored(self, name: str, e: Map, b: Buf | None) -> Operand:
        """One instruction on values as memory has them, into the place that is copied out."""
        assert b is not None
        args = [self.value(a.name) for a in e.operands if isinstance(a, Value)]
        kind, lane = self.g.kind(b.axes, self.p.name)
        n = self.g.elements(kind, lane)
        out = Operand(self.staged(self.frame, f"{name}_out", stored(b.dtype, self.p.name), -(-n // 16) * 16 * b.dtype.bytes), kind, lane)
        row = table()["binary"].get(e.fn) or table()["unary"][e.fn]
        self.v([f"{row['call']}({', '.join([out.name, *(a.name for a in args)])}, {n});"], tuple(args), out)
        return out

    @contextmanager
    def lying(self, g: Geometry, true: dict[str, str]) -> Iterator[None]:
        """Inside, tiles and their true counts are those of memory's own order."""
        before = self.g, self.true
        self.g, self.true = g, true
        try:
            yield
        finally:
            self.g, self.true = before

    # ---- copies
    def guarded(self, lines: tuple[str, ...]) -> tuple[str, ...]:
        return (f"{self.guard} {{", *("  " + x for x in lines), "}") if self.guard else lines

    def load(self, name: str, r: Region, dtype: DType, scratch: str = "", as_is: bool = False) -> Operand:
        """A tile from memory as single precision, or as it is (`as_is`); `scratch`: the buffer between cores that it lies in, whose
        writer it waits for."""
        kind, lane = self.g.kind(r.axes, self.p.name)
        element = loaded(dtype, self.p.name)
        frame = self.outer if kind == "line" else self.frame
        bytes_ = self.g.bytes(kind, lane, dtype.bytes) if kind != "stat" else -(-self.g.slots // self.g.block) * self.g.block * dtype.bytes
        local = self.staged(frame, f"{name}_in", element, bytes_, apart=bool(scratch))
        lines = copy_lines(r, self.g, kind, lane, self.true, local, True, self.p.name)
        work = Work(MTE2, (scratch,) if scratch else (), (local,), self.guarded(lines))
        (frame.works if scratch else frame.loads).append(work)
        got = Operand(local, kind, lane)
        if as_is:
            return got
        if kind == "stat" and name not in self.whole.words:
            return self.widened(name, got, element)
        return self.single(name, got, element)

    def blocks(self, name: str, scratch: str, at: str, row: str, apart: int) -> Operand:
        """A value a row that the cube core left as a block of equal elements, `apart` elements from the next: it comes with the last
        work's copy from there."""
        local = self.staged(self.frame, f"{name}_in", "float", self.g.bytes("stat", ""))
        shape = f"ac_copy({self.true[row] if row else 1}, 32, {4 * apart - 32}, 0)"
        copy = self.guarded((f"DataCopyPad({local}, {scratch}_g[{at}], {shape}, {{false, 0, 0, 0}});",))
        w = self.frame.works.pop()
        assert isinstance(w, Work) and w.agent == MTE2
        self.frame.works.append(Work(MTE2, w.reads, (*w.writes, local), (*w.lines, *copy)))
        return Operand(local, "stat", "")

    def bordered(self, name: str, t: Tensor, r: Region) -> Operand:
        """A tile that lies in part outside of its tensor, as single precision, with the fill where somebody reads it there."""
        kind, lane = self.g.kind(r.axes, self.p.name)
        if kind != "full":
            raise UnsupportedOp(f"{t.name} is read with a border (a pad or a mask) and has one element a {kind}", where=self.p.name,
                                hint="borders are of whole tiles")  # fmt: skip
        part = inner(t, name, (*(a for a, n in self.g.rows if n > 1), lane), self.start, self.true, self.p.name)
        self.frame.declarations += part.declarations
        if step := strided(self, r):
            got = picked(self, name, r, t.dtype, step, partial(self.inside, part.spread(lane, step)))
        else:
            got = self.inside(part, name, r, t.dtype)
        for g in asked_outside(name, t, self.p):
            x = indices(self, g, lane)
            mask = compared(self, x, Operand("0.0f", "number"), "GE")
            self.release(x)
            chosen = (words.chosen if got.element == WORD else selected)(self, mask, got, self.constant(name, t.fill))
            for o in (mask, got):
                self.release(o)
            got = chosen
        return got

    def inside(self, part: Inner, name: str, r: Region, dtype: DType) -> Operand:
        """The part of a tile that lies in its tensor, as single precision."""
        kind, lane = self.g.kind(r.axes, self.p.name)
        element = loaded(dtype, self.p.name)
        local = self.staged(self.frame, f"{name}_in", element, self.g.bytes(kind, lane, dtype.bytes))
        lines = bordered_lines(r, part, self.g, lane, local, self.p.name)
        self.frame.loads.append(Work(MTE2, (), (local,), self.guarded(lines)))
        return self.single(name, Operand(local, kind, lane), element)

    def gathered(self, name: str, e: Gather, b: Buf) -> Operand:
        """Rows that integers name."""
        kind, lane = self.g.kind(b.axes, self.p.name)
        if by_columns(e) and e.index[-1].name in self.whole.words:  # type: ignore[attr-defined]
            return looked_up(self, name, e, kind, lane)
        if kind != "full":
            raise UnsupportedOp(f"{name} is looked up for one element a {kind}", where=self.p.name, hint="vector cores copy rows")
        element = stored(b.dtype, self.p.name)
        raw = self.staged(self.frame, f"{name}_in", element, self.g.bytes(kind, lane, b.dtype.bytes))
        lines = gathered_lines(e, self.scalars, self.g, lane, self.true, raw)
        self.frame.loads.append(Work(MTE2, (), (raw,), self.guarded(lines)))
        return self.single(name, Operand(raw, kind, lane), element)

    def single(self, name: str, got: Operand, element: str) -> Operand:
        """What was copied, in single precision or as words."""
        if name in self.whole.words:
            return words.arrived(self, name, got, self.p.buf(name).dtype)  # type: ignore[union-attr]
        if element == "float":
            return got
        d = self.temporary(got.kind, got.lane, name)
        self.converted(d, got, element, self.g.elements(got.kind, got.lane))
        return d

    def converted(self, d: Operand, got: Operand, element: str, n: int) -> None:
        """d = got, which has elements of that type, exactly: bytes become half precision first."""
        if element in table()["by_half"]:
            half = self.temporary(got.kind, got.lane, element="half")
            self.v([f"Cast({half.name}, {got.name}, RoundMode::CAST_NONE, {n});"], (got,), half)
            self.release(half)
            got = half
        mode = "CAST_RINT" if element in table()["integers"].values() else "CAST_NONE"
        self.v([f"Cast({d.name}, {got.name}, RoundMode::{mode}, {n});"], (got,), d)

    def widened(self, name: str, raw: Operand, element: str) -> Operand:
        """A dense statistic with one block a row."""
        d = self.temporary("stat", "", name)
        if element != "float":
            t = self.temporary("stat", "")
            self.converted(t, raw, element, self.g.slots)
            self.release(t)
            raw = t
        self.v([f"ac_widen({d.name}, {raw.name}, {self.g.slots});"], (raw,), d)
        return d

    def store(self, name: str, r: Region, dtype: DType, o: Operand, scratch: str = "", as_is: bool = False) -> None:
        """A value to memory in its own precision. `as_is`: it lies on chip in that precision already."""
        element = loaded(dtype, self.p.name)
        kind, lane = self.g.kind(r.axes, self.p.name)
        if o.kind != kind or o.lane != lane:
            raise UnsupportedOp(f"a value with one element a {o.kind} cannot be stored as {r.tensor.removesuffix('_g')}", where=self.p.name)
        n = self.g.elements(kind, lane) if kind != "stat" else self.g.slots
        if o.name in self.depth and (as_is or element == o.element):  # it was made, or has arrived, where it is copied from
            lines = copy_lines(r, self.g, kind, lane, self.true, o.name, False, self.p.name)
            self.frame.works.append(Work(MTE3, (o.name,), (), self.guarded(lines)))
            return
        if kind == "stat":
            dense = words.compacted(self, o) if o.element == WORD else self.temporary("stat", "")
            if o.element != WORD:
                self.v([f"ac_compact({dense.name}, {o.name}, {n});"], (o,), dense)
            self.release(dense)
            o = dense
        out = self.staged(self.frame, name, element, -(-n // 32) * 32 * dtype.bytes)
        if element in table()["by_half"]:
            half = self.temporary(kind, lane, element="half")
            self.v([f"Cast({half.name}, {o.name}, RoundMode::CAST_RINT, {n});"], (o,), half)
            self.release(half)
            o = half
        mode = "NONE" if o.element == WORD else "RINT"
        cast = f"Adds({out}, {o.name}, {o.zero}, {n});" if element == o.element else f"Cast({out}, {o.name}, RoundMode::CAST_{mode}, {n});"
        self.v([cast], (o,), Operand(out, kind, lane))
        lines = copy_lines(r, self.g, kind, lane, self.true, out, False, self.p.name)
        self.frame.works.append(Work(MTE3, (out,), (scratch,) if scratch else (), self.guarded(lines)))

    # ---- arithmetic
    def reduce(self, s: Stmt) -> Operand:
        x = self.value(s.srcs[0])
        axes = on_chip(self.p, s)
        if not axes:  # one element along each: the sum of the steps
            return x
        s = replace(s, axis=axes[0])
        if x.element == WORD:
            return words.folded(self, s, x)
        if s.axis in dict(self.g.rows) and x.kind == "full" and s.expr in table()["reduce"]:
            return self.rows_folded(s, x)
        if s.axis != x.lane or x.kind != "full" or s.expr not in table()["reduce"]:
            raise UnsupportedOp(f"a reduction '{s.expr}' over axis {s.axis} of a value with lanes along {x.lane}", where=self.p.name)
        d, t, w = self.temporary("stat", "", s.dst), self.temporary("stat", ""), self.temporary("line", x.lane)
        g = self.g
        size = f"{g.count}, {g.slots}, {self.true[x.lane]}, {g.pitch(x.lane)}"
        self.v([f"{table()['reduce'][s.expr]}({d.name}, {x.name}, {t.name}, {w.name}, {size});"], (x,), d, t, w)
        self.release(t)
        self.release(w)
        return d

    def rows_folded(self, s: Stmt, x: Operand) -> Operand:
        """One value a lane from all rows of a tile."""
        wide = [a for a, n in self.g.rows if n > 1]
        if wide not in ([], [s.axis]) or self.true[s.axis] == "c_row":
            raise UnsupportedOp(f"a reduction over rows {s.axis} in tiles of rows {', '.join(wide)}", where=self.p.name,
                                hint="one axis of rows, which no two cores share, can be folded")  # fmt: skip
        d = self.temporary("line", x.lane, s.dst)
        call = table()["binary"][str(s.expr)]["call"]
        self.v([f"ac_fold_{call}({d.name}, {x.name}, {self.true[s.axis]}, {self.g.pitch(x.lane)});"], (x,), d)
        return d

    def combine(self, fn: str, state: Operand, x: Operand) -> None:
        """state = fn(state, x), in place."""
        if fn not in table()["binary"] or (state.kind, state.lane) != (x.kind, x.lane):
            raise UnsupportedOp(f"'{fn}' of a {state.kind} and a {x.kind} into a state", where=self.p.name)
        if state.element == WORD:
            words.combined(self, fn, state, x)
            return
        line = f"{table()['binary'][fn]['call']}({state.name}, {state.name}, {x.name}, {self.g.elements(state.kind, state.lane)});"
        self.v([line], (state, x), state)
        self.release(x)

    def scaled_sum(self, state: Operand, by: Operand, x: Operand) -> None:
        """state = state by + x, in place: one instruction where `by` is a value a row."""
        floats = {state.element, by.element, x.element} == {"float"}
        if floats and state.kind == by.kind == "stat":
            self.v([f"ac_scaled_add({state.name}, {by.name}, {x.name}, {self.g.elements('stat', '')});"], (state, x, by), state)
            self.release(x)
            return
        if (state.kind, by.kind) != ("full", "stat") or not floats:
            self.moved(self.call("mul", [state, by], [], state), state)
            self.combine("add", state, x)
            return
        line = f"ac_scaled_sum({state.name}, {by.name}, {x.name}, {self.g.count}, {self.g.pitch(state.lane)});"
        self.v([line], (state, x, by), state)
        self.release(x)

    def evaluated(self, s: Stmt, into: Operand | None) -> Operand:
        """The value of a statement's expression, as values of its name are held."""
        assert isinstance(s.expr, Expr)
        self.exact = s.dst in self.whole.words
        if self.exact and isinstance(s.expr, Const):
            return self.constant(s.dst, s.expr.value)
        result = self.numbered(self.expression(settled(s.expr, self.p, self.scalars.known, self.whole.words), into))
        return (words.as_word if self.exact else words.as_float)(self, result)

    def expression(self, root: Expr, into: Operand | None = None) -> Operand:
        """Instructions for an expression; each part once, temporaries freed behind their last use. The last one writes `into`."""
        nodes = list(_evaluated(root))
        uses = Counter(a for e in nodes for a in e.args)
        done: dict[Expr, Operand] = {}
        fused = {e: e.args[0] for e in nodes if self.fused and self.is_scaled_less(e) and uses[e.args[0]] == 1}
        edges = {e: m for e in nodes if (m := cut(self, e)) is not None and uses[m[0]] == 1}
        spared = {e.args[0] for e in edges if uses[e.args[0]] == 1}
        for e in nodes:
            if e in spared:
                continue
            if e in edges:
                kept, step = edges[e]
                done[e] = masked(self, done[kept], step)
                if isinstance(kept, Value):  # it is the result now
                    self.values.pop(kept.name)
            elif e in fused:
                done[e] = self.scaled_less(e)
            elif e not in fused.values():
                done[e] = self.node(e, done, uses, into if e is root else None)
        return done[root]

    def is_scaled_less(self, e: Expr) -> bool:
        """Whether an expression is a tile by a number less a value a row."""
        if not isinstance(e, Map) or e.fn != "sub" or not isinstance(x := e.args[0], Map) or x.fn != "mul":
            return False
        kinds = [self.values[a.name] for a in (x.args[0], e.args[1]) if isinstance(a, Value) and a.name in self.values]
        return isinstance(x.args[1], Const) and [(o.kind, o.element) for o in kinds] == [("full", "float"), ("stat", "float")]

    def scaled_less(self, e: Expr) -> Operand:
        """That difference: what it is less is spread over the rows, and the tile by the number added to it."""
        x, less = e.args
        of, by, stat = self.value(x.args[0].name), number(float(x.args[1].value)), self.value(less.name)  # type: ignore[attr-defined]
        d = self.temporary(of.kind, of.lane)
        size = f"{self.g.count}, {self.g.pitch(d.lane)}, {self.g.elements(d.kind, d.lane)}"
        self.applied.add("fused_scale")
        self.v([f"{table()['scaled_less']}({d.name}, {of.name}, {stat.name}, {by}, {size});"], (of, stat), d)
        return d

    def node(self, e: Expr, done: dict[Expr, Operand], uses: Counter[Expr], into: Operand | None) -> Operand:
        if isinstance(e, Value):
            return self.value(e.name)
        if isinstance(e, Const):
            return Operand(number(float(e.value)), "number")
        if isinstance(e, Index):
            return self.counted(e.index)
        if not isinstance(e, Map):
            raise UnsupportedOp(f"'{type(e).__name__}' is not computed by vector cores here", where=self.p.name)
        if (d := difference(e)) is not None:
            x = self.counted(d[0])
            mask = compared(self, x, Operand("0.0f", "number"), d[1])
            self.release(x)
            return mask
        if not e.dtype.is_float and not computed(e, self.whole) and not is_word(e, self.whole):
            raise UnsupportedOp(f"'{e.fn}' of elements of type {e.operands[0].dtype} into {e.dtype} is not computed by vector cores here",
                                where=self.p.name, hint=f"types: {', '.join(table()['stored'])}; see targets/ascend/whole.py")  # fmt: skip
        args = [done[a] for a in e.operands]
        dying = []
        for a in dict.fromkeys(e.operands):
            uses[a] -= e.operands.count(a)
            if isinstance(a, Map) and not uses[a]:
                dying.append(done[a])
        for i, o in enumerate(args):
            if e.fn == "where" and i == 0:
                args[0] = o if is_mask(o) else compared(self, o, Operand("0.0f", "number"), "NE")
            elif is_mask(o):
                args[i] = self.numbered(o)
            dying += [args[i]] if args[i] is not o else []
        if compares_words(e, self.whole):
            return self.freed(words.compared(self, *self.given(e, args), COMPARISONS[e.fn]), dying)
        single = computed(e, self.whole) and not (self.exact and has_end(e))
        if e.dtype.is_int and not is_short(e.dtype) and not single:
            return words.computed(self, e, self.given(e, args), dying)
        if e.fn == "cast" and is_short(e.dtype) and e.dtype != BOOL and args[0].element == WORD:
            return self.freed(words.byte(self, args[0], e.dtype), dying)
        for i, o in enumerate(args):
            args[i] = words.as_float(self, o)
            dying += [args[i]] if args[i] is not o else []
        if e.fn == "cast" and e.dtype.is_float:  # of words
            return self.freed(args[0], [o for o in dying if o != args[0]])
        if not e.dtype.is_float and e.fn in ("cast", "and", "or", "not", *WRAPPING):
            return self.whole_numbers(e, args, dying)
        if e.fn == "as_stored":
            return self.rounded(args[0], stored(e.dtype, self.p.name), dying)
        return self.call(e.fn, args, dying, into)

    def given(self, e: Map, args: list[Operand]) -> list[Operand]:
        """Operands of a function of words: constants as words have them."""
        return [words.number(int(a.value)) if isinstance(a, Const) and not a.dtype.is_float else o for a, o in zip(e.operands, args)]

    def freed(self, d: Operand, dying: list[Operand]) -> Operand:
        for o in dying:
            self.release(o)
        return d

    def counted(self, e: Aff) -> Operand:
        """An index expression as a value. Raises UnsupportedOp where single precision does not hold all of its numbers."""
        most = abs(e.const) + sum(abs(e.coef(a)) * (extent(self.p, a) - 1) for a in e.names())
        if most > EXACT:
            raise UnsupportedOp(f"indices [{e}] up to {most}, vector cores hold whole numbers up to {EXACT}", where=self.p.name)
        last = self.p.outputs[0].axes[-1] if self.p.outputs[0].axes else ""
        lane = next((a for a in e.names() if a in self.g.lanes), last if last in self.g.lanes else next(iter(self.g.lanes)))
        return indices(self, e, lane)

    def numbered(self, x: Operand) -> Operand:
        """A bit an element as 1 or 0; another value as it is."""
        if not is_mask(x):
            return x
        return selected(self, x, Operand("1.0f", "number"), Operand("0.0f", "number"))

    def whole_numbers(self, e: Map, args: list[Operand], dying: list[Operand]) -> Operand:
        """Integers and truth values: what single precision makes of them, wrapped to a short type."""
        if e.dtype == BOOL and e.fn == "cast":  # what is not 0, and what is no number
            mask = compared(self, args[0], Operand("0.0f", "number"), "EQ")
            d = selected(self, mask, Operand("0.0f", "number"), Operand("1.0f", "number"))
            for o in (mask, *dying):
                self.release(o)
            return d
        if e.dtype == BOOL:
            call = {"and": ("mul", args), "or": ("max", args), "not": ("sub", [Operand("1.0f", "number"), *args])}[e.fn]
            return self.call(call[0], call[1], dying, None)
        cut = e.fn == "cast" and e.operands[0].dtype.is_float
        if cut:
            x = self.unary(table()["unary"]["trunc"], args[0], dying)
            if not is_short(e.dtype):
                return x
        else:
            x = args[0] if e.fn == "cast" else self.call(e.fn, args, dying, None)
        if not is_short(e.dtype):
            raise UnsupportedOp(f"'{e.fn}' of elements of type {e.dtype} wraps, single precision does not", where=self.p.name)
        d, t = self.temporary(x.kind, x.lane), self.temporary(x.kind, x.lane)
        low = 128 if e.dtype.kind == "i" else 0
        self.v([f"ac_wrapped({d.name}, {x.name}, {t.name}, {low}.0f, {self.g.elements(x.kind, x.lane)});"], (x,), d, t)
        for o in (t, *(dying if e.fn == "cast" and not cut else [x])):
            self.release(o)
        return d

    def rounded(self, x: Operand, element: str, dying: list[Operand]) -> Operand:
        """A value as a type of memory has it, in single precision again."""
        if x.kind == "number":
            x = self.named("t", x)
        d, n = self.temporary(x.kind, x.lane), self.g.elements(x.kind, x.lane)
        if element == "float":
            self.v([f"Adds({d.name}, {x.name}, 0.0f, {n});"], (x,), d)
        else:
            short = self.temporary(x.kind, x.lane, element=element)
            self.v([f"Cast({short.name}, {x.name}, RoundMode::CAST_RINT, {n});", "PipeBarrier<PIPE_V>();",
                    f"Cast({d.name}, {short.name}, RoundMode::CAST_NONE, {n});"], (x,), short, d)  # fmt: skip
            self.release(short)
        for o in dying:
            self.release(o)
        return d

    def call(self, fn: str, args: list[Operand], dying: list[Operand], into: Operand | None) -> Operand:
        unary, binary = table()["unary"].get(fn), table()["binary"].get(fn)
        if fn in COMPARISONS or fn == "where":
            d = compared(self, *args, COMPARISONS[fn]) if fn in COMPARISONS else selected(self, *args)
            for o in dying:
                self.release(o)
            return d
        if unary is not None:
            return self.unary(unary, args[0], dying, into)
        if binary is None:
            raise UnsupportedOp(f"no vector instruction for '{fn}'", where=self.p.name,
                                hint="see binary and unary in targets/ascend/instructions.yaml")  # fmt: skip
        kinds = {a.kind for a in args} - {"number"}
        kind = "full" if "full" in kinds or len(kinds) > 1 else kinds.pop() if kinds else "stat"
        lanes = {a.lane for a in args if a.lane}
        if len(lanes) > 1:
            raise UnsupportedOp(f"'{fn}' of values with lanes along {' and '.join(sorted(lanes))}", where=self.p.name)
        lane = lanes.pop() if lanes else ""
        for o in [x for x in dying if (x.kind, x.lane) == (kind, lane)]:
            self.release(o)
        d = into if into is not None and (into.kind, into.lane) == (kind, lane) else self.temporary(kind, lane)
        lines, scratch = self.binary(fn, binary, d, *args)
        self.v(lines, tuple(args), d, *scratch)
        for o in [x for x in dying if (x.kind, x.lane) != (kind, lane)]:
            self.release(o)
        return d

    def unary(self, row: Mapping[str, object], x: Operand, dying: list[Operand], into: Operand | None = None) -> Operand:
        """A function of one value: `into` a place or in place where nobody reads that again, if it is one instruction; functions of the
        header may read their argument twice."""
        if x.kind == "number":
            x = self.named("t", x)
        temps = [self.temporary(x.kind, x.lane) for _ in range(int(str(row.get("temps", 0))))]
        once = not str(row["call"]).startswith("ac_")
        if once and into is not None and (into.kind, into.lane, into.element) == (x.kind, x.lane, x.element):
            d = into
        elif once and x in dying and x.offset >= 0:
            d, dying = x, [o for o in dying if o != x]
        else:
            d = self.temporary(x.kind, x.lane)
        operands = ", ".join([d.name, x.name, *(t.name for t in temps)])
        self.v([f"{row['call']}({operands}, {self.g.elements(x.kind, x.lane)});"], (x,), d, *temps)
        for t in [*temps, *dying]:
            self.release(t)
        return d

    def binary(self, fn: str, row: dict[str, str], d: Operand, a: Operand, b: Operand) -> tuple[list[str], tuple[Operand, ...]]:
        """Text of one binary function, and what it writes besides its result."""
        n, call = self.g.elements(d.kind, d.lane), row["call"]
        if a.kind == "number" and "scalar" in row:
            a, b = b, a
        if a.kind == b.kind == "number" or {a.kind, b.kind} == {"line", "stat"}:
            raise UnsupportedOp(f"'{fn}' of a {a.kind} and a {b.kind} has no vector instruction", where=self.p.name)
        if b.kind == "number":
            text = {"sub": f"Adds({d.name}, {a.name}, -({b.name}), {n});", "div": f"Muls({d.name}, {a.name}, 1.0f / {b.name}, {n});"}
            return [text.get(fn) or f"{row['scalar']}({d.name}, {a.name}, {b.name}, {n});"], ()
        if a.kind == "number":
            constant = self.temporary(d.kind, d.lane)
            self.release(constant)
            return [f"Duplicate({constant.name}, {a.name}, {n});", "PipeBarrier<PIPE_V>();",
                    f"{call}({d.name}, {constant.name}, {b.name}, {n});"], (constant,)  # fmt: skip
        if a.kind == b.kind:
            return [f"{call}({d.name}, {a.name}, {b.name}, {n});"], ()
        name = f"ac_{call}_{b.kind}" if a.kind == "full" else f"ac_{a.kind}_{call}"
        return [f"{name}({d.name}, {a.name}, {b.name}, {self.g.count}, {self.g.pitch(d.lane)});"], ()


def _evaluated(root: Expr) -> list[Expr]:
    """The parts of an expression, operands first, without the indices that a comparison is about."""
    out: dict[int, Expr] = {}

    def visit(e: Expr) -> None:
        if id(e) in out:
            return
        if difference(e) is None:
            for a in e.args:
                visit(a)
        out[id(e)] = e

    visit(root)
    return list(out.values())
