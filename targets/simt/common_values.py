"""Quotients and other special functions are computed once (directive `common_values`): where they stand twice, and where they lack an axis
of the result.

    before   p: [i, r] = map (x - s / max(n, 1)) * (x - s / max(n, 1))        with s, n: [i]
    after    div: [i] = map s / max(n, 1)
             p: [i, r] = map (x - div) * (x - div)

Compilers know no two quotients to be one where these have a slow path, as those of f32 do: a turn of a variance by columns divided 80 times
where 8 are needed (f32[8192, 1000], nvcc 13.0). Each such value stands in the innermost loop that changes an operand of it, in front of
its first use there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

from autocomp.targets.simt.capacity import pressure
from autocomp.targets.simt.placed import Placement, tile_of
from autocomp.targets.simt.thread_partials import scales

from autocomp.ir.body import Const, Expr, Index, Inside, Map, postorder
from autocomp.ir.scalar import SCALAR
from autocomp.tile.program import Buf, Loop, Stmt, TileProgram, Value, walk
from autocomp.tile.values import values_of, with_values

MORE = 1.5  # times the registers of values that a thread may hold with names: a quotient that is computed in place takes some, too


def common_values(p: TileProgram, place: Callable[[TileProgram], Placement]) -> tuple[TileProgram, Placement]:
    """The program with such parts of its maps as values of their own, unless a thread would hold many more at once then, and where its
    values lie (`place` says it)."""
    named = _Namer(p).program()
    if named is p:
        return p, place(p)
    there, here = place(named), place(p)
    return (p, here) if pressure(named, there, {}) > MORE * pressure(p, here, {}) else (named, there)


@dataclass
class _Level:
    """A body under construction: its loop (the program has none), what that writes, and the parts that have names so far."""

    loop: Loop | None
    written: Container[str] = ()
    body: list[Loop | Stmt] = field(default_factory=list)
    made: dict[Expr, str] = field(default_factory=dict)

    def holds(self, counted: frozenset[str], operands: Sequence[str]) -> bool:
        """Whether a value differs from turn to turn, or stands in front of no such loop."""
        if self.loop is None or self.loop.kind in ("grid", "when"):
            return True
        return bool(counted & set(self.loop.axes)) or any(x in self.written for x in operands)


class _Namer:
    """What products read stays in the maps that make it, for they may stand where it is multiplied; so does what only scales a carried
    state, which moves with its base (`thread_partials`)."""

    def __init__(self, p: TileProgram) -> None:
        self.p = p
        self.bufs = {b.name: b for b in p.bufs}
        self.taken = {*self.bufs, *(t.name for t in (*p.inputs, *p.outputs)), *(a for a, _ in p.axes)}
        stmts = [s for s, _ in walk(p.body)]
        self.kept = _factors(stmts) | {s.dst for s in stmts if scales(s, s.dst)}
        wholes = [s.expr for s in stmts if self.open(s) and isinstance(s.expr, Expr)]
        self.uses = Counter([*wholes, *(a for e in dict.fromkeys(postorder(*wholes)) for a in e.args)])
        self.levels = [_Level(None)]

    def program(self) -> TileProgram:
        body = self.run(self.p.body)
        new = tuple(b for n, b in self.bufs.items() if self.p.buf(n) is None)
        return replace(self.p, body=body, bufs=(*self.p.bufs, *new), applied=(*self.p.applied, "common_values")) if new else self.p

    def open(self, s: Stmt) -> bool:
        return s.op == "map" and s.dst not in self.kept

    def run(self, body: Sequence[Loop | Stmt]) -> tuple[Loop | Stmt, ...]:
        level = self.levels[-1]
        for n in body:
            if isinstance(n, Loop):
                written = {s.dst for s, _ in walk(n.body)}
                self.levels.append(_Level(n, written))
                done: Loop | Stmt = replace(n, body=self.run(n.body))
                self.levels.pop()
            else:
                written, done = {n.dst}, self.reading(n, True) if self.open(n) else n
            level.body.append(done)
            level.made = {e: x for e, x in level.made.items() if not written & set(values_of(e))}
        return tuple(level.body)

    def reading(self, s: Stmt, whole: bool) -> Stmt:
        """The statement with such parts read from values; its own expression is one only as a `whole`."""
        assert isinstance(s.expr, Expr)
        axes, e = self.wide(self.bufs[s.dst].axes), s.expr
        parts = [*self.parts(e, axes)] if whole and self.uses[e] > 1 else [x for a in e.args for x in self.parts(a, axes)]
        expr = with_values(e, {x: Value(x.dtype, self.named(x)) for x in parts})
        return replace(s, srcs=values_of(expr), expr=expr)

    def parts(self, e: Expr, axes: frozenset[str]) -> Iterator[Expr]:
        """The largest parts with a special function that lack one of the axes, or that stand elsewhere too and would still have one."""
        special = [x for x in postorder(e) if isinstance(x, Map) and x.dtype.is_float and SCALAR[x.fn].unit == "special"]
        mine = self.axes(e) if special else None
        if mine is not None and (mine < axes or (self.uses[e] > 1 and any(self.axes(x) == mine for x in special))):
            yield e
            return
        for a in e.args if special else ():
            yield from self.parts(a, axes)

    def axes(self, e: Expr) -> frozenset[str] | None:
        """Those that a part varies with in a tile; None where data decide what it reads, or threads do not hold it."""
        values = values_of(e)
        if any(not isinstance(x, (Value, Index, Inside, Map, Const)) for x in postorder(e)):
            return None
        if any(self.bufs[x].scope != "fragment" or x in self.kept for x in values):
            return None
        return self.wide({a for x in values for a in self.bufs[x].axes} | _counted(e))

    def wide(self, axes: Sequence[str] | frozenset[str] | set[str]) -> frozenset[str]:
        """Those along which a tile has more than one element; an open size, which an expression may compute with, is no axis."""
        own = dict(self.p.axes)
        return frozenset(a for a in axes if a in own and tile_of(self.p, a) != 1)

    def named(self, e: Expr) -> str:
        """The value of a part, made where it is not yet."""
        counted, operands = _counted(e), values_of(e)
        level = next(x for x in reversed(self.levels) if x.holds(counted, operands))
        if e not in level.made:
            assert isinstance(e, Map)
            name, n = e.fn, 1
            while name in self.taken:
                n += 1
                name = f"{e.fn}{n}"
            self.taken.add(name)
            axes = {a for x in operands for a in self.bufs[x].axes} | counted
            self.bufs[name] = Buf(name, e.dtype, tuple(a for a, _ in self.p.axes if a in axes), "fragment")
            level.body.append(self.reading(Stmt("map", name, operands, e), False))
            level.made[e] = name
        return level.made[e]


def _counted(e: Expr) -> frozenset[str]:
    """Axes whose indices an expression computes with."""
    indices = [i for x in postorder(e) for i in ((x.index,) if isinstance(x, Index) else x.guard if isinstance(x, Inside) else ())]
    return frozenset(a for i in indices for a in i.names())


def _factors(stmts: Sequence[Stmt]) -> set[str]:
    """Values that products read, and those that such are computed from."""
    found = {x for s in stmts if s.op == "mma" for x in s.srcs}
    while new := {x for s in stmts if s.dst in found and s.op in ("map", "copy") for x in s.srcs} - found:
        found |= new
    return found
