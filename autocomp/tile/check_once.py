"""Is every output element of a tile program written once, and every reduced element folded once? Read off the program as it stands: loops
around each statement, where its accumulator begins, what masks its tail. isl answers (`loops.covering`).

    acc = fill 0                     a life of acc: one turn of the loops around its fill
    serial k:  acc += mma a, b       in it, each (m, n, k) is visited once, and past k's end a or b is zero
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from autocomp.ir.body import Const, Expr, Index, Inside, Map
from autocomp.ir.types import Dim
from autocomp.loops.covering import Target, Visits, folds_once, outside, stores_once
from autocomp.tile.program import Loop, Stmt, TileProgram, Value, reads, walk

IDENTITY = {"add": 0.0, "mul": 1.0, "max": -inf, "min": inf, "or": 0.0, "and": 1.0}
KEEPS = {"cast", "as_stored", "neg", "abs", "relu", "shr", "shl"}  # f(0, ..) = 0
FINITE = KEEPS | {"add", "sub", "mul", "max", "min", "where", "bitand", "bitor"}  # of finite operands


def problems(p: TileProgram) -> list[str]:
    """What is visited more or less than once, and tails that are folded unmasked; [] if nothing is."""
    return _Once(p).problems()


def stores(p: TileProgram) -> list[tuple[str, str]]:
    """(buffer, why) of outputs of which an element is not stored exactly once."""
    once = _Once(p)
    return [(b, why) for b in dict.fromkeys(t.buffer for t in p.outputs) if (why := once.stored(b))]


def tails(p: TileProgram) -> list[tuple[str, str]]:
    """(statement, why) of folds that take in what lies past the end of an axis."""
    once = _Once(p)
    folds = [(i, x.stmt) for i, x in enumerate(once.order) if x.stmt.op in ("reduce", "mma")]
    return [(_show(s), why) for i, s in folds for a in once.folded(s) if (why := once.tail(i, s, a))]


@dataclass(frozen=True)
class _Place:
    stmt: Stmt
    loops: tuple[Loop, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(a for n in self.loops for a in n.axes)


class _Once:
    def __init__(self, p: TileProgram) -> None:
        self.p = p
        self.order = [_Place(s, tuple(n for n in loops if n.axes)) for s, loops in walk(p.body)]  # `when`: may run as often, or not
        self.extent = dict(p.axes)
        sizes = dict(p.tile)
        self.tile: dict[str, Dim] = {a: min(sizes.get(a, n), n) if isinstance(n, int) else sizes.get(a, n) for a, n in p.axes}

    def problems(self) -> list[str]:
        found: list[str] = []
        for i, x in enumerate(self.order):
            if x.stmt.op in ("reduce", "mma"):
                found += [f"{_show(x.stmt)}: {why}" for why in self.fold(i, x) if why]
        return list(dict.fromkeys((*found, *(f"output {b}: {why}" for b, why in stores(self.p)))))

    # ---- folds
    def fold(self, i: int, x: _Place) -> list[str]:
        s = x.stmt
        dst = self.p.buf(s.dst)
        assert dst is not None
        folded = self.folded(s)
        states = self.states(i, x, folded)
        looped = [a for a in folded if a in x.axes]
        if looped and not states:
            return [f"a part of {', '.join(looped)} is taken for the whole"]
        found = []
        for life in states or [len(x.axes)]:
            until = tuple((n.axes[0], *n.until) for n in x.loops if n.until)
            if any(b not in dst.axes and b not in x.axes for _, b, _ in until):
                return ["a loop ends by an axis that is not there"]
            found.append(folds_once(self.visits(x, dst.axes, folded, life, until)))
        return [*found, *(self.tail(i, s, a) for a in folded)]

    def folded(self, s: Stmt) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a for n in s.srcs for a in self.axes_of(n) if a not in self.axes_of(s.dst)))

    def states(self, i: int, x: _Place, folded: Sequence[str]) -> list[int]:
        """Of each value that carries what a statement folds from turn to turn, how many axes of loops stand around its beginning."""
        if x.stmt.acc:
            return [self.begins(i, x, x.stmt.dst)]
        if not any(a in x.axes for a in folded):
            return []
        reached, out = {x.stmt.dst}, []
        for y in self.order[i + 1 :]:
            if y.loops[: len(x.loops)] != x.loops:
                continue
            if reached & reads(y.stmt):
                reached.add(y.stmt.dst)
                life = self.begins(i, x, y.stmt.dst)
                if life < len(x.axes):
                    out.append(life)
        return list(dict.fromkeys(out))

    def begins(self, i: int, x: _Place, name: str) -> int:
        """How many axes of loops stand around the last statement before `x` that gives a value without reading it."""
        for y in reversed(self.order[:i]):
            s = y.stmt
            if s.dst == name and not s.acc and name not in reads(s) and x.loops[: len(y.loops)] == y.loops:
                return len(y.axes)
        return len(x.axes)

    def visits(self, x: _Place, axes: Sequence[str], folded: Sequence[str] = (), life: int = 0,
               until: tuple[tuple[str, str, int], ...] = ()) -> Visits:  # fmt: skip
        named = tuple(dict.fromkeys((*x.axes, *axes, *folded)))
        return Visits(tuple((a, self.extent[a]) for a in named), tuple((a, self.tile[a]) for a in named), x.axes, tuple(axes), life,
                      tuple(folded), until)  # fmt: skip

    def stored(self, buffer: str) -> str:
        """What is wrong with the stores to a buffer."""
        stores = []
        for x in self.order:
            t = self.p.tensor(x.stmt.dst) if x.stmt.op == "store" else None
            if t is not None and t.buffer == buffer:
                stores.append((self.visits(x, t.axes), Target(t.shape, t.index, t.guard)))
        return stores_once(tuple(stores)) if stores else "is never stored"

    def axes_of(self, name: str) -> tuple[str, ...]:
        b = self.p.buf(name)
        assert b is not None, name
        return b.axes

    # ---- tails
    def tail(self, i: int, s: Stmt, axis: str) -> str:
        """Why what lies past the end of a folded axis would be folded too, "" if it changes nothing."""
        size, extent = self.tile[axis], self.extent[axis]
        if size == extent or (isinstance(size, int) and isinstance(extent, int) and extent % size == 0):
            return ""
        if s.op == "mma":
            first, second = s.srcs
            for x, y in ((first, second), (second, first)):
                if self.is_(i, x, axis, 0.0) and self.finite(i, y, axis):
                    return ""
            return f"past the end of {axis} neither factor is zero"
        identity = IDENTITY.get(str(s.expr))
        if identity is not None and not self.is_(i, s.srcs[0], axis, identity):
            return f"past the end of {axis} it folds what is not masked"
        return ""

    def made(self, i: int, name: str) -> tuple[int, Stmt] | None:
        """The last statement before number i that gives a value."""
        return next(((j, self.order[j].stmt) for j in range(i - 1, -1, -1) if self.order[j].stmt.dst == name), None)

    def is_(self, i: int, name: str, axis: str, value: float) -> bool:
        """Is a value this number wherever the axis is past its end?"""
        made = self.made(i, name)
        if made is None or axis not in self.axes_of(name):
            return False
        j, s = made
        if s.op == "copy":
            t = self.p.tensor(s.srcs[0])
            return self.is_(j, s.srcs[0], axis, value) if t is None else value == 0 and axis in t.axes
        if s.op == "fill":
            return s.expr == value
        return s.op == "map" and isinstance(s.expr, Expr) and self.expr_is(j, s.expr, axis, value)

    def expr_is(self, i: int, e: Expr, axis: str, value: float) -> bool:
        if isinstance(e, Const):
            return e.value == value or _extreme(e, value)
        if isinstance(e, Value):
            return self.is_(i, e.name, axis, value)
        if not isinstance(e, Map):
            return False
        first = e.operands[0]
        if e.fn == "where":
            never = isinstance(first, Inside) and outside(first.guard, axis, self.extent, self.extent[axis])
            return all(self.expr_is(i, x, axis, value) for x in e.operands[2 if never else 1 :])
        if e.fn == "cast" and value != 0:
            return self.expr_is(i, first, axis, value)
        if value != 0:
            return False
        if e.fn in KEEPS:
            return self.expr_is(i, first, axis, 0.0)
        if e.fn in ("add", "sub"):
            return all(self.expr_is(i, x, axis, 0.0) for x in e.operands)
        if e.fn in ("mul", "bitand"):
            a, b = e.operands
            return any(self.expr_is(i, x, axis, 0.0) and self.expr_finite(i, y, axis) for x, y in ((a, b), (b, a)))
        return False

    def finite(self, i: int, name: str, axis: str) -> bool:
        """Is a value a finite number past the axis' end, whatever memory holds?"""
        made = self.made(i, name)
        b = self.p.buf(name)
        if b is not None and not b.dtype.is_float:
            return True
        if made is None:
            return False
        j, s = made
        if s.op == "copy":
            return self.is_(i, name, axis, 0.0)
        return s.op == "map" and isinstance(s.expr, Expr) and self.expr_finite(j, s.expr, axis)

    def expr_finite(self, i: int, e: Expr, axis: str) -> bool:
        if isinstance(e, Const):
            return abs(e.value) < inf
        if isinstance(e, (Index, Inside)):
            return True
        if isinstance(e, Value):
            return not e.dtype.is_float or self.finite(i, e.name, axis)
        if self.expr_is(i, e, axis, 0.0):
            return True
        return isinstance(e, Map) and e.fn in FINITE and all(self.expr_finite(i, x, axis) for x in e.operands)


def _extreme(e: Const, value: float) -> bool:
    """Is a constant the least or the greatest number of an integer type, which stands for an infinity?"""
    if e.dtype.is_float or abs(value) != inf:
        return False
    least, most = (0, 1) if e.dtype.kind == "b" else (-(2 ** (8 * e.dtype.bytes - 1)), 2 ** (8 * e.dtype.bytes - 1) - 1)
    return int(e.value) in ((most, 2 * most + 1) if value > 0 else (least, 0) if e.dtype.kind == "u" else (least,))


def _show(s: Stmt) -> str:
    return f"{s.dst} {'+=' if s.acc else '='} {s.op} {', '.join(s.srcs)}"
