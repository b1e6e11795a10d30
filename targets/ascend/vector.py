"""Statements of a tile program -> works of a vector core's agents: copies in (MTE2), instructions (V), copies out (MTE3)."""

from __future__ import annotations

from dataclasses import replace

from autocomp.targets.ascend import words
from autocomp.targets.ascend.choices import wide
from autocomp.targets.ascend.copies import Region, region
from autocomp.targets.ascend.expressions import Expressions
from autocomp.targets.ascend.geometry import on_chip, tile_of
from autocomp.targets.ascend.operand import WORD, Operand
from autocomp.targets.ascend.rearranged import is_alone, is_turned, picked, spread_out, strided, turned
from autocomp.targets.ascend.scalars import is_scalar
from autocomp.targets.ascend.tables import stored, table
from autocomp.targets.ascend.transfers import Transfers

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Expr, Gather, Map
from autocomp.tile.program import Buf, Stmt, Tensor, Value


class VectorPart(Transfers, Expressions):
    """Statements that are no matrix products, one after another."""

    def statement(self, s: Stmt) -> None:
        """One statement that is not a matrix product."""
        b = self.p.buf(s.dst)
        if b is not None and is_scalar(b.dtype) and s.dst not in self.whole.names and s.op in ("copy", "map"):
            source = self.p.tensor(s.srcs[0]) if s.op == "copy" else s.expr
            assert isinstance(source, (Tensor, Expr))
            self.scalars.known[s.dst] = source
        elif s.op == "map" and isinstance(e := s.expr.args[0] if s.dst in self.halves else s.expr, Gather) and b is not None:  # type: ignore[union-attr]
            self.values[s.dst] = self.gathered(s.dst, e, b)
        elif s.op == "copy":
            t = self.p.tensor(s.srcs[0])
            assert t is not None
            whole = region(replace(t, guard=()), self.start, self.p.name)
            if t.guard:
                self.values[s.dst] = self.bordered(s.dst, t, whole)
            elif is_alone(self, whole):
                self.values[s.dst] = spread_out(self, s.dst, whole, t.dtype)
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
                self.values[s.dst] = self.named(s.dst, folded)
        elif s.op == "store":
            t = self.p.tensor(s.dst)
            assert t is not None
            r, o = region(t, self.start, self.p.name), self.value(s.srcs[0])
            kind, lane = self.g.kind(r.axes, self.p.name)
            if len(s.srcs) > 1:
                self.store_halves(f"{t.name}_out", r, s, kind, lane)
                return
            d = wide(self, o, kind, lane) if kind == "full" else o
            self.store(f"{t.name}_out", r, t.dtype, d, as_is=s.srcs[0] in self.direct)
            if d is not o:
                self.release(d)
        else:
            raise UnsupportedOp(f"'{s.op}' of {s.dst} is not done by vector cores here", where=self.p.name)

    def store_halves(self, name: str, r: Region, s: Stmt, kind: str, lane: str) -> None:
        """Integers of 64 bits, a value each half."""
        given = [self.value(v) for v in s.srcs]
        as_words = [words.as_word(self, o) if o.kind != "number" else words.number(int(float(o.name.rstrip("f")))) for o in given]
        low, high = (wide(self, o, kind, lane) if kind == "full" else o for o in as_words)
        self.store_pair(name, r, low, high)
        for o in {*as_words, low, high} - {*given}:
            self.release(o)

    def spent(self, e: Expr) -> str:
        """A value that a function of two reads for the last time, in whose place its result may lie; "" for none."""
        operands = e.operands if isinstance(e, Map) and e.fn in table()["binary"] else ()
        for name in (a.name for a in operands if isinstance(a, Value) and a.name in self.ending):
            o = self.values.get(name)
            if o is not None and o.kind == "full" and o.element == "float" and o.offset >= 0 and list(self.values.values()).count(o) == 1:
                return name
        return ""

    def fill(self, s: Stmt) -> None:
        """A state at its first value."""
        b = self.p.buf(s.dst)
        assert b is not None and isinstance(s.expr, (int, float))
        kind, lane = self.g.kind(b.axes, self.p.name)
        first = self.constant(s.dst, s.expr)
        self.values[s.dst] = self.moved(first, self.temporary(kind, lane, s.dst, first.element))

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

    # ---- reductions and states
    def reduce(self, s: Stmt) -> Operand:
        x = self.value(s.srcs[0])
        axes = on_chip(self.p, s)
        s = replace(s, axis=axes[0]) if axes else s
        if not axes or (s.axis != x.lane and tile_of(self.p, s.axis) == 1):  # one element along each: the sum of the steps
            return x
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
        inside = s.srcs[0] in self.ending and x.offset >= 0 and list(self.values.values()).count(x) == 1
        t, bytes_ = x, -(-tile_of(self.p, s.axis) // 2) * self.g.pitch(x.lane) * 4
        if not inside:
            t = Operand(f"{d.name}_half", x.kind, x.lane, self.ub.take(bytes_))
            self.frame.declarations.append(f"const ac_f32 {t.name} = ac_at<float>(ub, {bytes_}, {t.offset});")
        size = f"{self.true[s.axis]}, {self.g.pitch(x.lane)}, {'true' if inside else 'false'}"
        self.v([f"ac_fold_{call}({d.name}, {x.name}, {t.name}, {size});"], (x,), d, t)
        if not inside:
            self.ub.give(t.offset, bytes_)
        return d

    def combine(self, fn: str, state: Operand, x: Operand) -> None:
        """state = fn(state, x), in place."""
        if fn not in table()["binary"] or (state.kind, state.lane) != (x.kind, x.lane):
            raise UnsupportedOp(f"'{fn}' of a {state.kind} and a {x.kind} into a state", where=self.p.name)
        if (state.element == WORD) != (x.element == WORD):
            raise UnsupportedOp(f"'{fn}' of a word and a number in single precision", where=self.p.name)
        if state.element == WORD:
            words.combined(self, fn, state, x)
            return
        line = f"{table()['binary'][fn]['call']}({state.name}, {state.name}, {x.name}, {self.g.elements(state.kind, state.lane)});"
        self.v([line], (state, x), state)
        if x not in self.values.values():
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
