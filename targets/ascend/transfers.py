"""Tiles that vector cores copy in (MTE2) and out (MTE3), and the casts between types of memory and what is computed in."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from autocomp.targets.ascend import bf16, words
from autocomp.targets.ascend.bordered import Inner, asked_outside, bordered_lines, inner
from autocomp.targets.ascend.choices import compared, indices, selected
from autocomp.targets.ascend.columns import looked_up
from autocomp.targets.ascend.copies import Region, copy_lines
from autocomp.targets.ascend.operand import LONG, WORD, Operand
from autocomp.targets.ascend.packed import packed
from autocomp.targets.ascend.pairs import of_half
from autocomp.targets.ascend.rearranged import picked, strided
from autocomp.targets.ascend.scalars import gathered_lines
from autocomp.targets.ascend.tables import loaded, stored, table
from autocomp.targets.ascend.vector_core import MTE2, MTE3, VectorCore
from autocomp.targets.ascend.whole import by_columns

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Gather
from autocomp.ir.types import I64, DType
from autocomp.tile.agents import Work
from autocomp.tile.program import Buf, Tensor

LONG_BYTES = I64.bytes


class Transfers(VectorCore):
    """Copies of a vector core, each with its casts."""

    def load(self, name: str, r: Region, dtype: DType, scratch: str = "", as_is: bool = False) -> Operand:
        """A tile from memory as single precision, or as it is (`as_is`); `scratch`: the buffer between cores that it lies in, whose
        writer it waits for."""
        kind, lane = self.g.kind(r.axes, self.p.name)
        element = loaded(dtype, self.p.name)
        frame = self.outer if kind == "line" else self.frame
        bytes_ = self.g.bytes(kind, lane, dtype.bytes) if kind != "stat" else -(-self.g.slots // self.g.block) * self.g.block * dtype.bytes
        local = self.other_half(name, r)
        if not local:
            local = self.staged(frame, f"{name}_in", element, bytes_, apart=bool(scratch))
            lines = copy_lines(r, self.g, kind, lane, self.true, local, True, self.p.name)
            work = Work(MTE2, (scratch,) if scratch else (), (local,), self.guarded(lines))
            (frame.works if scratch else frame.loads).append(work)
            self.came = (r, self.g), local
        got = Operand(local, kind, lane)
        if as_is:
            return got
        if kind == "stat" and name not in self.whole.words:
            return self.widened(name, got, element)
        return self.single(name, got, element)

    def other_half(self, name: str, r: Region | Gather) -> str:
        """Where a tile lies of which a half has been taken (pairs.py); "" for what has not come."""
        return self.came[1] if name in self.halves and self.came[0] == (r, self.g) else ""

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
        """A tile that lies in part outside of its tensor, as single precision, with the fill where somebody reads it there. A border along
        axes that the tensor does not have (zeros put between its elements) is a choice alone: all of it is inside."""
        kind, lane = self.g.kind(r.axes, self.p.name)
        if kind != "full":
            raise UnsupportedOp(f"{t.name} is read with a border (a pad or a mask) and has one element a {kind}", where=self.p.name,
                                hint="borders are of whole tiles")  # fmt: skip
        read = frozenset[str]().union(*(i.names() for i in t.index))
        if lane not in read and not any(read & g.names() for g in t.guard):
            got = self.load(name, replace(r, axes=tuple(a for a in r.axes if a in read)), t.dtype)
        else:
            part = inner(t, name, (*(a for a, n in self.g.rows if n > 1), lane), self.start, self.true, self.p.name)
            self.frame.declarations += part.declarations
            step = strided(self, r)
            load = partial(self.inside, part.spread(lane, step) if step else part)
            got = picked(self, name, r, t.dtype, step, load) if step else load(name, r, t.dtype)
        for g in asked_outside(name, t, self.p):
            x = indices(self, g, lane)
            mask = compared(self, x, Operand("0.0f", "number"), "GE")
            self.release(x)
            fill = self.constant(name, of_half(t.fill, self.halves.get(name)))
            chosen = (words.chosen if got.element == WORD else selected)(self, mask, got, fill)
            for o in (mask, got):
                self.release(o)
            got = chosen
        return got

    def inside(self, part: Inner, name: str, r: Region, dtype: DType) -> Operand:
        """The part of a tile that lies in its tensor, as single precision."""
        kind, lane = self.g.kind(r.axes, self.p.name)
        element = loaded(dtype, self.p.name)
        local = self.other_half(name, r)
        if not local:
            local = self.staged(self.frame, f"{name}_in", element, self.g.bytes(kind, lane, dtype.bytes))
            lines = bordered_lines(r, part, self.g, lane, local, self.p.name)
            self.frame.loads.append(Work(MTE2, (), (local,), self.guarded(lines)))
            self.came = (r, self.g), local
        return self.single(name, Operand(local, kind, lane), element)

    def gathered(self, name: str, e: Gather, b: Buf) -> Operand:
        """Rows that integers name."""
        kind, lane = self.g.kind(b.axes, self.p.name)
        if by_columns(e) and e.index[-1].name in self.whole.words:  # type: ignore[attr-defined]
            return looked_up(self, name, e, kind, lane)
        if kind != "full":
            raise UnsupportedOp(f"{name} is looked up for one element a {kind}", where=self.p.name, hint="vector cores copy rows")
        element = loaded(e.dtype, self.p.name) if name in self.halves else stored(b.dtype, self.p.name)
        raw = self.other_half(name, e)
        if not raw:
            raw = self.staged(self.frame, f"{name}_in", element, self.g.bytes(kind, lane, e.dtype.bytes))
            lines = gathered_lines(e, self.scalars, self.g, lane, self.true, raw)
            self.frame.loads.append(Work(MTE2, (), (raw,), self.guarded(lines)))
            self.came = (e, self.g), raw
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
        if bf16.made(self, element):
            bf16.widened(self, d, got, n)
            return
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
        if self.joins and not scratch and (run := packed(self, name, r, element, replace(o, element=element) if as_is else o)):
            self.joined.add(r.tensor)
            with self.lying(*run[1:3]):
                self.store(name, run[3], dtype, run[0], as_is=as_is)
                self.release(run[0])
            return
        n = self.g.elements(kind, lane) if kind != "stat" else self.g.slots
        if kind != "stat" and o.name in self.depth and (as_is or element == o.element):  # made, or arrived, where it is copied from
            lines = copy_lines(r, self.g, kind, lane, self.true, o.name, False, self.p.name)
            self.frame.works.append(Work(MTE3, (o.name,), (scratch,) if scratch else (), self.guarded(lines)))
            return
        if kind == "stat":
            dense = words.compacted(self, o) if o.element == WORD else self.temporary("stat", "")
            if o.element != WORD:
                self.v([f"ac_compact({dense.name}, {o.name}, {n});"], (o,), dense)
            if not bf16.made(self, element):
                self.release(dense)
            o = dense
        out = self.staged(self.frame, name, element, -(-n // 32) * 32 * dtype.bytes)
        if element in table()["by_half"]:
            half = self.temporary(kind, lane, element="half")
            self.v([f"Cast({half.name}, {o.name}, RoundMode::CAST_RINT, {n});"], (o,), half)
            self.release(half)
            o = half
        if element == LONG and not self.shifts:
            words.longs(self, Operand(out, kind, lane, element=LONG), o, n)
        elif bf16.made(self, element):
            bf16.narrowed(self, Operand(out, kind, lane, element=element), o, n)
            if kind == "stat":
                self.release(o)
        else:
            self.v([self.narrowing(out, o, element, n)], (o,), Operand(out, kind, lane))
        lines = copy_lines(r, self.g, kind, lane, self.true, out, False, self.p.name)
        self.frame.works.append(Work(MTE3, (out,), (scratch,) if scratch else (), self.guarded(lines)))

    def store_pair(self, name: str, r: Region, low: Operand, high: Operand) -> None:
        """Both halves of integers of 64 bits (pairs.py) to memory."""
        kind, lane = self.g.kind(r.axes, self.p.name)
        if {(o.kind, o.lane) for o in (low, high)} != {(kind, lane)}:
            raise UnsupportedOp(f"a value with one element a {low.kind} cannot be stored as {r.tensor}", where=self.p.name)
        n = self.g.elements(kind, lane)
        if kind == "stat":
            n, dense = self.g.slots, [words.compacted(self, o) for o in (low, high)]
            low, high = dense
        out = self.staged(self.frame, name, LONG, -(-n // 32) * 32 * LONG_BYTES)
        words.joined_halves(self, Operand(out, kind, lane, element=LONG), low, high, n)
        if kind == "stat":
            for o in (low, high):
                self.release(o)
        lines = copy_lines(r, self.g, kind, lane, self.true, out, False, self.p.name)
        self.frame.works.append(Work(MTE3, (out,), (), self.guarded(lines)))

    def narrowing(self, out: str, o: Operand, element: str, n: int) -> str:
        """Text of an instruction that gives elements their type in memory."""
        if element == o.element:
            return f"Adds({out}, {o.name}, {o.zero}, {n});"
        return f"Cast({out}, {o.name}, RoundMode::CAST_{'NONE' if o.element == WORD else 'RINT'}, {n});"
