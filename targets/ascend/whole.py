"""Which whole numbers and truth values vector cores hold: in single precision where that is exact, others as words of 32 bits.

    i8, u8, bool    any value of theirs; sums, differences and products stay below 2^24 and wrap to the type behind each step
    i32, i64        what a cast of a float or of these makes, indices, and choices among such, also by the largest or smallest of a row;
                    elements in memory where they are only cast to a float, which rounds once, or to bool, which asks for 0. The ends of a
                    type stand for what is not chosen (`ir/monoids.py: argmax`): they round, so none may be left where a result is stored

Words (`words.py`) are i32 otherwise: copies, sums, differences, products, quotients, remainders, choices, comparisons, extremes; i64
that a cast makes of i32, and i64 in memory of which casts to shorter integers take the low half. Other i64 are two words (`pairs.py`). All
else of integers is the scalar unit's (`scalars.py`): the vector unit has none of 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autocomp.targets.ascend.tables import table

from autocomp.ir.body import Const, Expr, Gather, Index, Inside, Map, postorder
from autocomp.ir.types import BOOL, I32, I64, DType
from autocomp.tile.program import Stmt, TileProgram, Value, walk

EXACT = 2**24  # whole numbers up to this many are single precision's
WRAPPING = frozenset({"add", "sub", "mul", "neg", "abs"})
MADE = frozenset({"floordiv", "mod", "pow", "bitand", "bitor", "bitxor", "bitnot", "shl", "shr"})  # of a byte: by made.py of others
DIVISIONS = frozenset({"floordiv", "mod"})
BITS = frozenset({"bitand", "bitor", "bitxor", "bitnot"})
SHIFTS = frozenset({"shl", "shr"})
CHOICES = frozenset({"max", "min", "where"})
COMPARED = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
TRUTHS = COMPARED | {"and", "or", "not", "isnan", "isinf"}
HALVES = ("low_word", "high_word")  # of what arrives, which one a value is (pairs.py)
FOLDED = frozenset({"add", "max", "min"})  # words of a row


@dataclass(frozen=True)
class Held:
    """Integers and truth values of a program that vector cores hold: as numbers in single precision, as words of 32 bits."""

    floats: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        return self.floats | self.words


def is_short(d: DType) -> bool:
    """Whether single precision holds every value of a type that is no float, and products of two."""
    return d == BOOL or (d.is_int and d.bits <= 8)


def whole(p: TileProgram) -> Held:
    """What of a program's integers and truth values vector cores hold. What single precision holds is not held as words."""
    types = {b.name: b.dtype for b in p.bufs}
    if all(d.is_float for d in types.values()):
        return Held()
    floats = _floats(p)
    statements = [s for s, _ in walk(p.body)]
    made: dict[str, list[Stmt]] = {}
    for s in statements:
        made.setdefault(s.dst, []).append(s)
    out = {v for s in statements if s.op == "mma" for v in (*s.srcs, s.dst)} | _looked_up(statements, made) | floats
    kept = {v for s in statements if isinstance(s.expr, Expr) for v in _read_besides(s.expr, _narrows)} | {
        v for s in statements if s.op != "map" for v in s.srcs}  # fmt: skip
    words = {n for n, d in types.items() if d in (I32, I64) and n not in out}
    bytes_ = {n for n, d in types.items() if is_short(d) and n not in out}
    while True:
        h = Held(floats | frozenset(bytes_), frozenset(words))
        lost = {n for n in words if not all(_is_word(s, types[n], h, n in kept) for s in made.get(n, ()))}
        lost |= {n for n in bytes_ if not all(_holds(s, types[n], h, True, made) for s in made.get(n, ()))}
        if not lost:
            return h
        words, bytes_ = words - lost, bytes_ - lost


def _is_word(s: Stmt, d: DType, h: Held, kept: bool) -> bool:
    """Whether a statement's result is a word; `kept`: all 64 bits are read."""
    if s.op == "copy":
        return d == I32 or not kept
    if s.op == "map" and isinstance(s.expr, Expr):
        return is_word(s.expr, h)
    return d == I32 and (s.op == "fill" or (s.op == "reduce" and s.expr in FOLDED and s.srcs[0] in h.words))


def is_word(e: Expr, h: Held) -> bool:
    """Whether an integer is a word of 32 bits, or can be made one."""
    if isinstance(e, Value):
        return e.name in h.words or (not e.dtype.is_float and e.name in h.floats)
    if isinstance(e, Const):
        return not e.dtype.is_float and -(2**31) <= int(e.value) < 2**31
    if isinstance(e, Index):
        return e.index.is_affine
    if isinstance(e, Gather):
        return e.dtype == I32 and by_columns(e)
    if not isinstance(e, Map) or e.dtype not in (I32, I64):
        return isinstance(e, Map) and computed(e, h)
    if e.fn == "cast":
        a = e.operands[0]
        return a.dtype.is_float or is_word(a, h)
    if e.fn == "ordinal" or e.fn in HALVES:
        return True
    if e.fn == "where":
        return e.dtype == I32 and computed(e.operands[0], h) and all(is_word(a, h) for a in e.operands[1:])
    if e.fn in SHIFTS:
        k = e.operands[1]
        return e.dtype == I32 and isinstance(k, Const) and 0 <= int(k.value) < I32.bits and is_word(e.operands[0], h)
    return e.dtype == I32 and e.fn in WRAPPING | CHOICES | DIVISIONS | BITS and all(is_word(a, h) for a in e.operands)


def _floats(p: TileProgram) -> frozenset[str]:
    """Integers and truth values that single precision holds where nothing is a word."""
    statements = [s for s, _ in walk(p.body)]
    types = {b.name: b.dtype for b in p.bufs}
    if all(d.is_float for d in types.values()):
        return frozenset()
    made: dict[str, list[Stmt]] = {}
    for s in statements:
        made.setdefault(s.dst, []).append(s)
    looked_up = _looked_up(statements, made)
    found = {n for n, d in types.items() if not d.is_float and d.name in table()["held"] and n not in looked_up}
    read_whole = {v for s in statements if isinstance(s.expr, Expr) for v in _read_besides(s.expr, _to_float)} | {
        v for s in statements if s.op not in ("copy", "map") for v in s.srcs}  # fmt: skip
    factors = {v for s in statements if s.op == "mma" for v in (*s.srcs, s.dst)}
    found -= factors
    while True:
        held = Held(frozenset(found))
        out = {n for n in found if not all(_holds(s, types[n], held, n in read_whole, made) for s in made.get(n, ()))}
        if not out:
            return frozenset(found)
        found -= out


def by_columns(e: object) -> bool:
    """Whether a look-up is of elements of rows: its last index is data, all others are affine."""
    if not isinstance(e, Gather) or not isinstance(e.index[-1], Value):
        return False
    return all(isinstance(i, Index) and i.index.is_affine for i in e.index[:-1])


def looked_up(p: TileProgram) -> set[str]:
    """Values that indices of look-ups of whole rows are made of: the scalar unit's."""
    statements = [s for s, _ in walk(p.body)]
    made: dict[str, list[Stmt]] = {}
    for s in statements:
        made.setdefault(s.dst, []).append(s)
    return _looked_up(statements, made)


def _looked_up(statements: list[Stmt], made: dict[str, list[Stmt]]) -> set[str]:
    left = [v.name for s in statements if isinstance(s.expr, Expr) for g in postorder(s.expr) if isinstance(g, Gather)
            for i in g.index[: -1 if by_columns(g) and g.index[-1].dtype == I32 else None] for v in postorder(i)
            if isinstance(v, Value)]  # fmt: skip
    found: set[str] = set()
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += [v.name for s in made.get(name, ()) if isinstance(s.expr, Expr) for v in postorder(s.expr) if isinstance(v, Value)]
    return found


def _holds(s: Stmt, d: DType, h: Held, read_whole: bool, made: dict[str, list[Stmt]]) -> bool:
    """Whether single precision holds a statement's result; `read_whole`: it is read elsewhere than by casts."""
    if s.op == "copy":
        return s.expr is None and (is_short(d) or not read_whole)
    if s.op == "map" and isinstance(s.expr, Expr):
        return computed(s.expr, h) and (not has_end(s.expr, h) or _picks(s.expr, made))
    if s.op == "fill":  # an end is what folding begins with, and at least one element is folded
        return isinstance(s.expr, (int, float)) and _is_held(int(s.expr), d)
    return s.op == "reduce" and s.expr in ("max", "min") and s.srcs[0] in h.floats


def has_end(e: Expr, h: Held | None = None) -> bool:
    """Whether a number that single precision rounds is among the parts of an integer; of an `h`, but for words that are compared."""
    if isinstance(e, Const):
        return not e.dtype.is_float and abs(int(e.value)) > EXACT
    return not (h and isinstance(e, Map) and compares_words(e, h)) and any(has_end(a, h) for a in e.args)


def _picks(e: Expr, made: dict[str, list[Stmt]]) -> bool:
    """where(a == b or a is no number, x, end) for the largest or smallest b of a: of each row one element at least is not the end. The
    same where an index says so, as b is of elements that there are."""
    if not (isinstance(e, Map) and e.fn == "where" and isinstance(e.operands[2], Const) and not has_end(e.operands[1])):
        return False
    c, x = e.operands[:2]
    if isinstance(x, Value) and _of_indices(c):
        return all(isinstance(s.expr, Expr) and _picks(s.expr, made) and _masked_by(c, s.expr, made) for s in made.get(x.name, ()))
    if not (isinstance(c, Map) and c.fn == "or" and all(isinstance(x, Map) and isinstance(x.operands[0], Value) for x in c.operands)):
        return False
    same, none = c.operands
    assert isinstance(same, Map) and isinstance(none, Map)
    a, b = same.operands[0], same.operands[-1]
    if (same.fn, none.fn) != ("eq", "isnan") or none.operands[0] != a or not isinstance(a, Value) or not isinstance(b, Value):
        return False
    extremes = [s.expr for s in made.get(b.name, ()) if isinstance(s.expr, Map) and s.expr.fn in ("max", "min")]
    of = {x.name for m in extremes for x in m.operands if isinstance(x, Value)}
    folded = [s for x in (*of, b.name) for s in made.get(x, ()) if s.op == "reduce" and s.expr in ("max", "min")]
    return a.name in of or any(a.name in s.srcs for s in folded)


def _masked_by(c: Expr, e: Expr, made: dict[str, list[Stmt]]) -> bool:
    """Whether a choice among elements (`_picks`) is among those that the same condition keeps."""
    read = {x.name for x in postorder(e) if isinstance(x, Value)}
    return any(isinstance(s.expr, Map) and s.expr.fn == "where" and s.expr.operands[0] == c for n in read for s in made.get(n, ()))


def _of_indices(e: Expr) -> bool:
    return isinstance(e, Inside) or (isinstance(e, Map) and all(isinstance(a, (Index, Const)) for a in e.operands) and e.fn in TRUTHS)


def _is_held(n: int, d: DType) -> bool:
    """Whether single precision has a number, or it is an end of its type."""
    return abs(n) <= EXACT or (d.is_int and n in (2 ** (d.bits - (d.kind == "i")) - 1, -(2 ** (d.bits - 1))))


def computed(e: Expr, h: Held) -> bool:
    """Whether single precision computes an integer or a truth value exactly. Raises nothing: what it is made of may still be refused."""
    if isinstance(e, Value):
        return e.name in h.floats if not e.dtype.is_float else True
    if _of_indices(e):
        return True
    if isinstance(e, Const):
        return e.dtype.is_float or _is_held(int(e.value), e.dtype)
    if isinstance(e, Index):
        return e.index.is_affine
    if not isinstance(e, Map):
        return False
    if e.dtype.is_float:
        return True
    if e.fn == "cast":
        a = e.operands[0]
        if is_short(e.dtype) and a.dtype in (I32, I64) and not computed(a, h):
            return is_word(a, h)
        return (a.dtype.is_float or is_short(a.dtype) or e.dtype == BOOL) and computed(a, h)
    if compares_words(e, h):
        return True
    if e.dtype == BOOL and e.fn in (TRUTHS | CHOICES):
        return all(computed(a, h) for a in e.operands)
    if e.fn in CHOICES or (e.fn in WRAPPING | MADE and is_short(e.dtype)):
        return all(computed(a, h) for a in e.operands)
    return False


def compares_words(e: Map, h: Held) -> bool:
    """Whether a comparison is of words: of integers that single precision does not hold."""
    return (e.fn in COMPARED and all(a.dtype == I32 and is_word(a, h) for a in e.operands)
            and not all(computed(a, h) for a in e.operands))  # fmt: skip


def _to_float(e: Map) -> bool:
    return e.dtype.is_float or e.dtype == BOOL


def _narrows(e: Map) -> bool:
    return e.dtype.is_int and e.dtype.bits <= 32


def _read_besides(e: Expr, cast: Callable[[Map], bool], inside: bool = False) -> Iterator[str]:
    """Values that an expression reads elsewhere than in casts of that kind."""
    if isinstance(e, Value):
        if not inside:
            yield e.name
        return
    for a in e.args:
        yield from _read_besides(a, cast, isinstance(e, Map) and e.fn == "cast" and cast(e))
