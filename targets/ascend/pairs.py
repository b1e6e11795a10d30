"""Integers of 64 bits on vector cores: two words each, a low and a high half, by the functions of words (`words.py`).

    s: [i] = map add(x, y)   ->   s_low = map add(x_low, y_low)
                                  s_high = map sub(add(x_high, y_high), carry), -1 or 0 by the sign of what both and their sum say

A copy from memory becomes one a half, which read what arrived once; a store puts both halves beside each other. What `whole.py` holds in
one word or in single precision stays there. Quotients, remainders and products of all are the scalar unit's.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from autocomp.targets.ascend.geometry import extent
from autocomp.targets.ascend.whole import HALVES, Held, by_columns, looked_up, whole

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Const, Expr, Gather, Index, Map, postorder
from autocomp.ir.halves import (
    LOWEST,
    MADE,
    MOST,
    Pair,
    by_words,
    carried,
    digits,
    halves_of,
    holds,
    number,
    of_number,
    signed,
    unsigned,
    word,
)
from autocomp.ir.types import I32, I64
from autocomp.tile.program import Buf, Loop, Stmt, TileProgram, Value, walk

LOW, HIGH = HALVES


def pairs(p: TileProgram, converts: bool = True) -> TileProgram:
    """The program with integers of 64 bits that nothing else holds as pairs of words; as it is where one of them has no such form.
    `converts`: conversions between them and single precision are the unit's."""
    long = {b.name for b in p.bufs if b.dtype == I64} - looked_up(p)
    if not long or any(s.op == "mma" for s, _ in walk(p.body)):
        return p
    held = whole(p)
    long = _long(p, long, held) if not converts else long - held.names
    if not long:
        return p
    try:
        of = _Split(p, frozenset(long))
        body = _block(p.body, of)
    except UnsupportedOp:
        return p
    made = of.bufs.values()
    return _read(replace(p, body=body, bufs=(*(b for b in p.bufs if b.name not in long), *made)), frozenset(b.name for b in made))


def _long(p: TileProgram, of: set[str], held: Held) -> set[str]:
    """Which integers of 64 bits are pairs where nothing converts them: those in single precision, too, that come from memory or are made
    of a float or of such."""
    found, floats = of - held.names, of & held.floats
    made = [s for s, _ in walk(p.body) if s.dst in floats]
    while True:
        more = {s.dst for s in made if s.op == "copy" or any(x.name in found for x in _values(s)) or
                (isinstance(s.expr, Expr) and any(isinstance(e, Map) and _far(e) for e in postorder(s.expr)))} - found  # fmt: skip
        if not more:
            return found
        found |= more


def _far(e: Map) -> bool:
    return e.fn == "cast" and e.dtype == I64 and e.operands[0].dtype.is_float


def names(name: str) -> tuple[str, str]:
    return f"{name}_low", f"{name}_high"


def halves(p: TileProgram) -> dict[str, int]:
    """Which half of what arrives a value is, by its name: 0 the low one."""
    said = {s.dst: s.expr.fn if isinstance(s.expr, Map) else s.expr for s, _ in walk(p.body)}
    return {name: HALVES.index(half) for name, half in said.items() if half in HALVES}


def of_half(x: float, half: int | None) -> float:
    """A number as a half of 64 bits has it; another value (None) as it is."""
    return x if half is None else halves_of(int(x))[half]


def _block(body: tuple[Loop | Stmt, ...], of: _Split) -> tuple[Loop | Stmt, ...]:
    out: list[Loop | Stmt] = []
    for n in body:
        out += [replace(n, body=_block(n.body, of))] if isinstance(n, Loop) else of.statement(n)
    return tuple(out)


def _read(p: TileProgram, halves: frozenset[str]) -> TileProgram:
    """The program without halves that nobody reads."""
    while True:
        used = {v for s, _ in walk(p.body) for v in (*s.srcs, *(x.name for x in _values(s)))}
        if not (unread := {n for n in halves if n not in used and p.buf(n)}):
            return p
        p = replace(p, body=_without(p.body, unread), bufs=tuple(b for b in p.bufs if b.name not in unread))


def _values(s: Stmt) -> list[Value]:
    return [x for x in postorder(s.expr) if isinstance(x, Value)] if isinstance(s.expr, Expr) else []


def _without(body: tuple[Loop | Stmt, ...], gone: set[str]) -> tuple[Loop | Stmt, ...]:
    kept = (n for n in body if isinstance(n, Loop) or n.dst not in gone)
    return tuple(replace(n, body=_without(n.body, gone)) if isinstance(n, Loop) else n for n in kept)


class _Split:
    """Statements of values of which some, `long`, are pairs."""

    def __init__(self, p: TileProgram, long: frozenset[str]) -> None:
        self.p, self.long = p, long
        self.known: dict[Expr, Pair] = {}
        self.bufs: dict[str, Buf] = {}  # of words
        self.sums = {s.dst for s, _ in walk(p.body) if s.op == "reduce" and s.expr == "add" and s.dst in long}  # four digits each
        for name in long:
            self.words(name, name, *(_digits(name) if name in self.sums else names(name)))

    def words(self, like: str, *made: str) -> None:
        """Values of words over the axes of another value; `like` itself is one or is not."""
        of = next(b for b in self.p.bufs if b.name == like)
        self.bufs |= {n: Buf(n, I32, of.axes, of.scope) for n in made if n != like}

    def statement(self, s: Stmt) -> list[Stmt]:
        """Raises UnsupportedOp for what has no form in pairs."""
        if s.op == "store" and s.srcs[0] in self.long:
            return [*self.whole(s.srcs[0]), replace(s, srcs=names(s.srcs[0]))]
        if s.dst not in self.long:
            if s.op == "map" and isinstance(s.expr, Expr):
                return [_made(s, s.dst, self.plain(s.expr))]
            if any(v in self.long for v in s.srcs):
                raise UnsupportedOp(f"'{s.op}' of integers of 64 bits", where=s.dst)
            return [s]
        if s.op == "copy" and not s.acc:
            return [replace(s, dst=d, expr=half) for d, half in zip(names(s.dst), (LOW, HIGH))]
        if s.op == "reduce" and s.dst in self.sums:
            return self.summed(s)
        if s.op == "reduce" and s.expr in ("max", "min"):
            return self.extreme(s)
        if s.op == "fill" and s.dst in self.sums and s.expr == 0:
            return [replace(s, dst=d) for d in _digits(s.dst)]
        if s.op == "fill" and isinstance(s.expr, int):
            return [replace(s, dst=d, expr=half) for d, half in zip(names(s.dst), halves_of(s.expr))]
        if s.op == "map" and isinstance(s.expr, Gather) and not by_columns(s.expr):
            return [replace(s, dst=d, expr=Map(I32, half, (s.expr,))) for d, half in zip(names(s.dst), (LOW, HIGH))]
        if s.op == "map" and isinstance(s.expr, Expr) and not s.acc:
            return [_made(s, d, half) for d, half in zip(names(s.dst), self.pair(s.expr))]
        raise UnsupportedOp(f"'{s.op}' of integers of 64 bits", where=s.dst)

    def whole(self, name: str) -> list[Stmt]:
        """A sum's halves, where it has been digits."""
        if name not in self.sums:
            return []
        self.words(name, *names(name))
        made = Stmt("map", name)
        return [_made(made, d, half) for d, half in zip(names(name), self.pair(Value(I64, name)))]

    def summed(self, s: Stmt) -> list[Stmt]:
        """A sum digit by digit: no more than 2^16 of them make one of 32 bits."""
        (x,) = s.srcs
        if (n := prod(extent(self.p, a) for a in s.axis.split(","))) > MOST:
            raise UnsupportedOp(f"sums of {n} integers of 64 bits", where=s.dst)
        parts = [f"{x}_digit{k}" for k in range(4)]
        self.words(x, *parts)
        made = [_made(Stmt("map", d), d, e) for d, e in zip(parts, digits(self.pair(Value(I64, x))))]
        return [*made, *(replace(s, dst=d, srcs=(v,)) for d, v in zip(_digits(s.dst), parts))]

    def extreme(self, s: Stmt) -> list[Stmt]:
        """The largest or smallest: that of the high halves, and of those that have it that of the low ones, in their order as unsigned
        words. What other turns of a loop found is compared with it."""
        (x,), fn = s.srcs, str(s.expr)
        low, high = self.pair(Value(I64, x))
        top, left, last = f"{s.dst}_top", f"{x}_left", f"{s.dst}_last"
        self.words(s.dst, top, last)
        self.words(x, f"{x}_high", left)
        none = number(LOWEST if fn == "max" else -LOWEST - 1)
        made = [_made(Stmt("map", v), v, e) for v, e in ((f"{x}_high", high),) if e != Value(I32, v)]
        made.append(replace(s, dst=top, srcs=(f"{x}_high",), acc=False))
        same = holds("eq", Value(I32, f"{x}_high"), Value(I32, top))
        made.append(_made(Stmt("map", left), left, word("where", same, unsigned(low), none)))
        made.append(replace(s, dst=last, srcs=(left,), acc=False))
        found: Pair = (word("bitxor", Value(I32, last), number(LOWEST)), Value(I32, top))
        if s.acc:
            found = MADE[fn](found, self.pair(Value(I64, s.dst)))
        return [*made, *(_made(Stmt("map", d), d, e) for d, e in zip(names(s.dst), found))]

    def plain(self, e: Expr) -> Expr:
        """An expression of another type whose parts of 64 bits are pairs. What has none of `long` stays as it is."""
        if not any(isinstance(x, Value) and x.name in self.long for x in postorder(e)):
            return e
        if isinstance(e, Map) and any(a.dtype == I64 for a in e.operands):
            return self.made(e)[0]
        if isinstance(e, Gather):
            raise UnsupportedOp("a look-up of or by integers of 64 bits")
        return e.with_args(tuple(self.plain(a) for a in e.args))

    def pair(self, e: Expr) -> Pair:
        if e not in self.known:
            self.known[e] = self._pair(e)
        return self.known[e]

    def _pair(self, e: Expr) -> Pair:
        """The halves of an integer of 64 bits. Raises UnsupportedOp."""
        if isinstance(e, Value):
            if e.name in self.sums:
                return carried(*(Value(I32, n) for n in _digits(e.name)))
            if e.name in self.long:
                return Value(I32, names(e.name)[0]), Value(I32, names(e.name)[1])
            return signed(Map(I32, "cast", (e,)))
        if isinstance(e, Const):
            return of_number(int(e.value))
        if isinstance(e, Index) and e.index.is_affine:
            return signed(Index(I32, e.index))
        if not isinstance(e, Map):
            raise UnsupportedOp(f"'{type(e).__name__}' of integers of 64 bits")
        low, high = self.made(e)
        return low, high

    def made(self, e: Map) -> tuple[Expr, ...]:
        """A function of or into integers of 64 bits by words. Raises UnsupportedOp."""
        found = by_words(e, self.pair, self.plain)
        if not found:
            raise UnsupportedOp(f"'{e.fn}' of integers of 64 bits into {e.dtype}")
        return found


def _made(s: Stmt, dst: str, e: Expr) -> Stmt:
    """A map with another result."""
    return replace(s, dst=dst, expr=e, srcs=tuple(dict.fromkeys(x.name for x in postorder(e) if isinstance(x, Value))))


def _digits(name: str) -> tuple[str, ...]:
    return tuple(f"{name}_sum{k}" for k in range(4))
