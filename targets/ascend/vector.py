"""Statements of a tile program -> works of a vector core's agents: copies in (MTE2), instructions (V), copies out (MTE3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import isinf, prod

from autocomp.targets.ascend.geometry import Geometry, strides
from autocomp.targets.ascend.tables import stored, table

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Const, Expr, Map, postorder
from autocomp.tile.agents import Node, Work
from autocomp.tile.places import Place
from autocomp.tile.program import Stmt, Tensor, TileProgram, Value

MOST = 4095  # rows that one copy instruction takes
MTE2, V, MTE3 = "vector.MTE2", "vector.V", "vector.MTE3"


@dataclass(frozen=True)
class Operand:
    """A value in unified buffer (`name`, at `offset`) or a number (kind "number", its text in `name`)."""

    name: str
    kind: str
    offset: int = -1

    @property
    def storage(self) -> tuple[str, ...]:
        return (f"ub+{self.offset}",) if self.offset >= 0 else (self.name,)


def number(value: float) -> str:
    if isinf(value):
        return f"{'-' if value < 0 else ''}3.4028235e38f"
    text = f"{value:.9g}"
    return text + ("f" if any(c in text for c in ".e") else ".0f")


@dataclass
class VectorPart:
    """`loads` and, behind them, `works` in program order; `declarations` for the loop's start.
    `slot`: text of the round's slot of rings of two.
    `start` and `true`: text of the first index and of the count of a tile along an axis."""

    p: TileProgram
    g: Geometry
    ub: Place
    slot: str
    start: dict[str, str]
    true: dict[str, str]
    depth: dict[str, int] = field(default_factory=dict)
    loads: list[Node] = field(default_factory=list)
    works: list[Node] = field(default_factory=list)
    declarations: list[str] = field(default_factory=list)
    values: dict[str, Operand] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    names: int = 0

    def run(self, body: tuple[Stmt, ...]) -> None:
        for i, s in enumerate(body):
            for v in (*s.srcs, *_values(s.expr)):
                self.last[v] = i
            if s.acc:
                self.last[s.dst] = i
        for i, s in enumerate(body):
            self.statement(s)
            for name in [n for n, end in self.last.items() if end == i and n in self.values]:
                self.release(self.values[name])

    def statement(self, s: Stmt) -> None:
        if s.op == "copy":
            t = self.p.tensor(s.srcs[0])
            assert t is not None
            self.values[s.dst] = self.load(s.dst, t)
        elif s.op == "map" and isinstance(s.expr, Expr):
            self.values[s.dst] = self.named(s.dst, self.expression(s.expr))
        elif s.op == "reduce" and not s.acc:
            self.values[s.dst] = self.reduce(s)
        elif s.op == "store":
            t = self.p.tensor(s.dst)
            assert t is not None
            self.store(t, self.values[s.srcs[0]])
        else:
            raise UnsupportedOp(f"'{s.op}{' +=' if s.acc else ''}' of {s.dst} is not done by vector cores here", where=self.p.name,
                                hint="choose a schedule that keeps reduced rows whole")  # fmt: skip

    # ---- buffers
    def temporary(self, kind: str, hint: str = "t") -> Operand:
        """A piece of unified buffer in single precision."""
        bytes_ = self.g.bytes(kind)
        at = self.ub.take(bytes_)
        self.names += 1
        name = f"{hint}{self.names}"
        self.declarations.append(f"const ac_f32 {name} = ac_at<float>(ub, {bytes_}, {at});")
        return Operand(name, kind, at)

    def release(self, o: Operand) -> None:
        if o.offset >= 0:
            self.ub.give(o.offset, self.g.bytes(o.kind))

    def named(self, name: str, o: Operand) -> Operand:
        """The result of an expression as the value `name`; a value that stands for another is copied."""
        if o.kind != "number" and o not in self.values.values():
            return o
        d = self.temporary("stat" if o.kind == "number" else o.kind, name)
        n = self.g.elements(d.kind)
        self.v([f"Duplicate({d.name}, {o.name}, {n});" if o.kind == "number" else f"Adds({d.name}, {o.name}, 0.0f, {n});"], (o,), d)
        return d

    def v(self, lines: list[str], reads: tuple[Operand, ...], *writes: Operand) -> None:
        self.works.append(Work(V, tuple(s for o in reads if o.kind != "number" for s in o.storage),
                               tuple(s for o in writes for s in o.storage), tuple(lines)))  # fmt: skip

    def staged(self, name: str, element: str, bytes_: int) -> str:
        """A ring of two in unified buffer; gives the name of the round's slot."""
        size = self.ub.rounded(bytes_)
        at = self.ub.take(bytes_, 2)
        self.declarations.append(f"const LocalTensor<{element}> {name} = ac_at<{element}>(ub, {bytes_}, {at} + {self.slot} * {size});")
        self.depth[name] = 2
        return name

    # ---- copies
    def load(self, name: str, t: Tensor) -> Operand:
        kind = self.g.kind(t.axes, self.p.name)
        if kind == "stat":
            raise UnsupportedOp(f"{t.name} has no elements side by side along axis {self.g.lane}", where=self.p.name)
        element = stored(t.dtype, self.p.name)
        raw = self.staged(f"{name}_in", element, self.g.bytes(kind, t.dtype.bytes))
        lines = self.rows(t, kind, lambda at, gm, c: f"DataCopyPad({raw}[{at}], {t.buffer}_g[{gm}], {c}, {{false, 0, 0, 0}});", True)
        self.loads.append(Work(MTE2, (), (raw,), tuple(lines)))
        if element == "float":
            return Operand(raw, kind)
        d = self.temporary(kind, name)
        self.v([f"Cast({d.name}, {raw}, RoundMode::CAST_NONE, {self.g.elements(kind)});"], (Operand(raw, kind),), d)
        return d

    def store(self, t: Tensor, o: Operand) -> None:
        element = stored(t.dtype, self.p.name)
        kind = self.g.kind(t.axes, self.p.name)
        if o.kind != kind or (kind == "stat" and len(self.g.rows) > 1):
            side = "row" if o.kind == "stat" else "column"
            raise UnsupportedOp(f"a value with one element a {side} cannot be stored as {t.name}", where=self.p.name)
        n = self.g.elements(kind)
        if kind == "stat":
            n = self.g.slots
            dense = self.temporary("stat")
            self.v([f"ac_compact({dense.name}, {o.name}, {n});"], (o,), dense)
            self.release(dense)
            o = dense
        out = self.staged(f"{t.name}_out", element, -(-n // 16) * 16 * t.dtype.bytes)
        cast = f"Adds({out}, {o.name}, 0.0f, {n});" if element == "float" else f"Cast({out}, {o.name}, RoundMode::CAST_RINT, {n});"
        self.v([cast], (o,), Operand(out, kind))
        lines = self.rows(t, kind, lambda at, gm, c: f"DataCopyPad({t.buffer}_g[{gm}], {out}[{at}], {c});", False)
        self.works.append(Work(MTE3, (out,), (), tuple(lines)))

    def rows(self, t: Tensor, kind: str, copy, into: bool) -> list[str]:  # type: ignore[no-untyped-def]
        """Text that copies a tile of a tensor row by row, or many rows at once where their distance in memory is even."""
        step, offset = strides(t, self.p.name)
        begin = [f"{step[a]}ull * {self.start[a]}" for a in t.axes if step[a] and self.start[a] != "0"]
        base = " + ".join(begin + ([str(offset)] if offset else []))
        lane = self.g.lane if kind != "stat" else (self.g.rows[-1][0] if self.g.rows else "")
        if lane and step[lane] != 1:
            raise UnsupportedOp(f"elements of {t.name} along axis {lane} lie {step[lane]} apart", where=self.p.name,
                                hint="vector cores copy rows; transpose the tensor beforehand")  # fmt: skip
        size, count = t.dtype.bytes, self.true[lane] if lane else "1"
        rows = [] if kind != "full" else [(a, n) for a, n in self.g.rows]
        block = bool(rows) and step.get(rows[-1][0], 0) >= self.g.lanes and rows[-1][1] <= MOST
        apart = {a: self.g.pitch * prod(n for _, n in rows[i + 1 :]) for i, (a, _) in enumerate(rows)}
        outer = [a for a, _ in (rows[:-1] if block else rows)]
        loops = [f"for (uint32_t r_{a} = 0; r_{a} < {self.true[a]}; ++r_{a})" for a in outer]
        at = " + ".join(f"r_{a} * {apart[a]}" for a in outer) or "0"
        gm = " + ".join([base or "0", *(f"{step[a]}ull * r_{a}" for a in outer if step.get(a, 0))])
        gap = f"({self.g.pitch * size} - ({count} * {size} + 31) / 32 * 32) / 32"
        far = f"({step[rows[-1][0]]} - {count}) * {size}" if block else "0"
        a, b = (far, gap if block else "0") if into else (gap if block else "0", far)
        shape = f"ac_copy({self.true[rows[-1][0]] if block else 1}, {count} * {size}, {a}, {b})"
        lines = [("  " * i) + x for i, x in enumerate(loops)]
        return [*lines, "  " * len(lines) + copy(at, gm, shape)]

    # ---- arithmetic
    def reduce(self, s: Stmt) -> Operand:
        x = self.values[s.srcs[0]]
        if s.axis != self.g.lane or x.kind != "full" or s.expr not in table()["reduce"]:
            raise UnsupportedOp(f"a reduction '{s.expr}' over axis {s.axis} of a value with lanes along {self.g.lane}", where=self.p.name)
        d, t, w = self.temporary("stat", s.dst), self.temporary("stat"), self.temporary("line")
        g = self.g
        call = f"{table()['reduce'][s.expr]}({d.name}, {x.name}, {t.name}, {w.name}, {g.count}, {g.slots}, {self.true[g.lane]}, {g.pitch});"
        self.v([call], (x,), d, t, w)
        self.release(t)
        self.release(w)
        return d

    def expression(self, root: Expr) -> Operand:
        """Instructions for an expression; each part once, temporaries freed behind their last use."""
        root = _bare(root)
        nodes = list(postorder(root))
        uses = Counter(a for e in nodes for a in e.args)
        done: dict[Expr, Operand] = {}
        for e in nodes:
            done[e] = self.node(e, done, uses)
        return done[root]

    def node(self, e: Expr, done: dict[Expr, Operand], uses: Counter[Expr]) -> Operand:
        if isinstance(e, Value):
            return self.values[e.name]
        if isinstance(e, Const):
            return Operand(number(float(e.value)), "number")
        if not isinstance(e, Map):
            raise UnsupportedOp(f"'{type(e).__name__}' is not computed by vector cores here", where=self.p.name)
        args = [done[a] for a in e.operands]
        dying = []
        for a in dict.fromkeys(e.operands):
            uses[a] -= e.operands.count(a)
            if isinstance(a, Map) and not uses[a]:
                dying.append(done[a])
        return self.call(e.fn, args, dying)

    def call(self, fn: str, args: list[Operand], dying: list[Operand]) -> Operand:
        unary, binary = table()["unary"].get(fn), table()["binary"].get(fn)
        if unary is not None:
            x = args[0]
            temps = [self.temporary(x.kind) for _ in range(unary.get("temps", 0))]
            d = self.temporary(x.kind)
            operands = ", ".join([d.name, x.name, *(t.name for t in temps)])
            self.v([f"{unary['call']}({operands}, {self.g.elements(x.kind)});"], (x,), d, *temps)
            for t in [*temps, *dying]:
                self.release(t)
            return d
        if binary is None:
            raise UnsupportedOp(f"no vector instruction for '{fn}'", where=self.p.name,
                                hint="see binary and unary in targets/ascend/instructions.yaml")  # fmt: skip
        kinds = {a.kind for a in args} - {"number"}
        kind = "full" if "full" in kinds or len(kinds) > 1 else kinds.pop() if kinds else "stat"
        for o in [x for x in dying if x.kind == kind]:
            self.release(o)
        d = self.temporary(kind)
        lines, scratch = self.binary(fn, binary, d, *args)
        self.v(lines, tuple(args), d, *scratch)
        for o in [x for x in dying if x.kind not in (kind, "number")]:
            self.release(o)
        return d

    def binary(self, fn: str, row: dict[str, str], d: Operand, a: Operand, b: Operand) -> tuple[list[str], tuple[Operand, ...]]:
        """Text of one binary function, and what it writes besides its result."""
        n, call = self.g.elements(d.kind), row["call"]
        if a.kind == "number" and "scalar" in row:
            a, b = b, a
        if a.kind == b.kind == "number" or {a.kind, b.kind} == {"line", "stat"}:
            raise UnsupportedOp(f"'{fn}' of a {a.kind} and a {b.kind} has no vector instruction", where=self.p.name)
        if b.kind == "number":
            text = {"sub": f"Adds({d.name}, {a.name}, -({b.name}), {n});", "div": f"Muls({d.name}, {a.name}, 1.0f / {b.name}, {n});"}
            return [text.get(fn) or f"{row['scalar']}({d.name}, {a.name}, {b.name}, {n});"], ()
        if a.kind == "number":
            constant = self.temporary(d.kind)
            self.release(constant)
            return [f"Duplicate({constant.name}, {a.name}, {n});", "PipeBarrier<PIPE_V>();",
                    f"{call}({d.name}, {constant.name}, {b.name}, {n});"], (constant,)  # fmt: skip
        if a.kind == b.kind:
            return [f"{call}({d.name}, {a.name}, {b.name}, {n});"], ()
        name = f"ac_{call}_{b.kind}" if a.kind == "full" else f"ac_{a.kind}_{call}"
        return [f"{name}({d.name}, {a.name}, {b.name}, {self.g.count}, {self.g.pitch});"], ()


def _bare(e: Expr) -> Expr:
    """Without conversions between floating-point types: everything is computed in single precision."""
    if isinstance(e, Map) and e.fn == "cast" and e.dtype.is_float and e.operands[0].dtype.is_float:
        return _bare(e.operands[0])
    return e.with_args(tuple(_bare(a) for a in e.args)) if e.args else e


def _values(e: object) -> list[str]:
    return [x.name for x in postorder(e) if isinstance(x, Value)] if isinstance(e, Expr) else []
