"""Integers of 64 bits by words of 32, for units that have no wider ones: expressions of a low and a high half.

    add(a, b)   ->   low = add(a.low, b.low), high = sub(add(a.high, b.high), carry): -1 or 0 by what the low halves and their sum say

Words are signed and wrap. What numbers decide is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import add, and_, inv, lshift, mul, neg, or_, rshift, sub, xor

from autocomp.ir.body import Const, Expr, Map
from autocomp.ir.types import BOOL, F16, F32, I32, I64, DType

HALF, DIGIT = 16, 22  # bits of products' factors, of what single precision holds exactly
WORD = 32
LOWEST = -(2**31)
MOST = 2**HALF  # terms of a sum whose digits have 32 bits
Pair = tuple[Expr, Expr]


def number(n: int) -> Expr:
    return Const(I32, n)


FOLDED: Mapping[str, Callable[..., int]] = {
    "bitand": and_, "bitor": or_, "bitxor": xor, "bitnot": inv, "add": add, "sub": sub, "mul": mul, "neg": neg, "min": min, "max": max,
    "shl": lshift, "shr": rshift}  # fmt: skip
SAME = {("bitand", -1), ("bitor", 0), ("bitxor", 0), ("add", 0), ("sub", 0)}  # x fn number is x
NUMBER = {("bitand", 0), ("bitor", -1), ("mul", 0)}  # that number


def word(fn: str, *args: Expr) -> Expr:
    """A function of words; of numbers, and beside one that decides it, what it is."""
    of = [int(a.value) if isinstance(a, Const) else None for a in args]
    if None not in of and fn in FOLDED:
        return number(halves_of(FOLDED[fn](*of))[0])
    for x, n, last in ((args[0], of[-1], True), (args[-1], of[0], False)):
        if len(args) == 2 and n is not None and (last or fn not in ("sub", "shl", "shr")):
            if (fn, n) in SAME:
                return x
            if (fn, n) in NUMBER:
                return number(n)
    return Map(I32, fn, args)


def of_number(n: int) -> Pair:
    low, high = halves_of(n)
    return number(low), number(high)


def holds(fn: str, a: Expr, b: Expr) -> Expr:
    return Map(BOOL, fn, (a, b))


def halves_of(n: int) -> tuple[int, int]:
    """The words of a number of 64 bits as signed ones."""
    word = lambda x: (x - LOWEST) % 2**WORD + LOWEST
    return word(n), word(n >> WORD)


def _sign(x: Expr) -> Expr:
    """-1 for a word below 0, else 0."""
    if isinstance(x, Const):
        return number(-1 if int(x.value) < 0 else 0)
    return word("max", word("min", x, number(0)), number(-1))


def signed(x: Expr) -> Pair:
    return x, _sign(x)


def _float(fn: str, *args: Expr) -> Expr:
    return Map(F32, fn, args)


def _f(x: float) -> Expr:
    return Const(F32, x)


def real(a: Pair) -> Expr:
    """A pair in single precision, rounded once: digits of 22 bits, of which the first two round to s and leave e, a multiple of the third
    one's range. Where that is not 0, all that the third says is whether there is more."""
    low = lambda x: word("bitand", x, number(2**DIGIT - 1))
    middle = low(word("bitor", down(a[0], DIGIT), word("shl", a[1], number(WORD - DIGIT))))
    first, second, third = (Map(F32, "cast", (x,)) for x in (word("shr", a[1], number(2 * DIGIT - WORD)), middle, low(a[0])))
    x, y = _float("mul", first, _f(2.0 ** (2 * DIGIT))), _float("mul", second, _f(2.0**DIGIT))
    s = _float("add", x, y)
    e = _float("sub", y, _float("sub", s, x))
    more = _float("add", e, _float("mul", _float("min", third, _f(1.0)), _f(2.0 ** (DIGIT - 1))))
    return _float("add", s, _float("where", holds("eq", e, _f(0.0)), third, more))


def of_float(x: Expr) -> Pair:
    """A float without its fraction: digits of 32 bits of its absolute value, which single precision takes apart exactly, and then its
    sign. Halves have no more than a word."""
    if x.dtype == F16:
        return signed(Map(I32, "cast", (x,)))
    size = _float("trunc", _float("abs", x))
    high = _float("floor", _float("mul", size, _f(2.0**-WORD)))
    low = _float("sub", size, _float("mul", high, _f(2.0**WORD)))
    low = _float("where", holds("ge", low, _f(-float(LOWEST))), _float("sub", low, _f(2.0**WORD)), low)
    s = word("neg", Map(I32, "cast", (holds("lt", x, _f(0.0)),)))
    return _sub(tuple(word("bitxor", Map(I32, "cast", (h,)), s) for h in (low, high)), (s, s))  # type: ignore[arg-type]


def _all(fn: str) -> Callable[..., Pair]:
    """A function of bits, half by half."""
    return lambda *xs: (word(fn, *(x[0] for x in xs)), word(fn, *(x[1] for x in xs)))


def _add(a: Pair, b: Pair) -> Pair:
    low = word("add", a[0], b[0])
    carry = word("bitor", word("bitand", a[0], b[0]), word("bitand", word("bitor", a[0], b[0]), word("bitnot", low)))
    return low, word("sub", word("add", a[1], b[1]), _sign(carry))


def _sub(a: Pair, b: Pair) -> Pair:
    low, other = word("sub", a[0], b[0]), word("bitnot", a[0])
    borrow = word("bitor", word("bitand", other, b[0]), word("bitand", word("bitor", other, b[0]), low))
    return low, word("add", word("sub", a[1], b[1]), _sign(borrow))


def _neg(a: Pair) -> Pair:
    low = word("neg", a[0])
    return low, word("add", word("neg", a[1]), _sign(word("bitor", a[0], low)))


def _abs(a: Pair) -> Pair:
    s = _sign(a[1])
    return _sub((word("bitxor", a[0], s), word("bitxor", a[1], s)), (s, s))


def unsigned(x: Expr) -> Expr:
    """A word whose order as a signed one is that of x as an unsigned one."""
    return number(int(x.value) + (-LOWEST if int(x.value) < 0 else LOWEST)) if isinstance(x, Const) else word("bitxor", x, number(LOWEST))


def _ordered(high: str, low: str) -> Callable[[Pair, Pair], Expr]:
    """By the high halves, where these are equal by the low ones."""

    def order(a: Pair, b: Pair) -> Expr:
        last = Map(BOOL, "and", (holds("eq", a[1], b[1]), holds(low, unsigned(a[0]), unsigned(b[0]))))
        return Map(BOOL, "or", (holds(high, a[1], b[1]), last))

    return order


def _same(fn: str) -> Callable[[Pair, Pair], Expr]:
    return lambda a, b: holds(fn, word("bitor", word("bitxor", a[0], b[0]), word("bitxor", a[1], b[1])), number(0))


def chosen(c: Expr, a: Pair, b: Pair) -> Pair:
    return word("where", c, a[0], b[0]), word("where", c, a[1], b[1])


def _extreme(fn: str) -> Callable[[Pair, Pair], Pair]:
    return lambda a, b: chosen(COMPARED[fn](a, b), a, b)


def down(x: Expr, k: int) -> Expr:
    """A word as an unsigned one by 2^k, 0 < k < 32."""
    return word("bitand", word("shr", x, number(k)), number(2 ** (WORD - k) - 1))


def left(a: Pair, k: int) -> Pair:
    if k == 0:
        return a
    if k >= WORD:
        return number(0), a[0] if k == WORD else word("shl", a[0], number(k - WORD))
    return word("shl", a[0], number(k)), word("bitor", word("shl", a[1], number(k)), down(a[0], WORD - k))


def right(a: Pair, k: int) -> Pair:
    if k == 0:
        return a
    if k >= WORD:
        return a[1] if k == WORD else word("shr", a[1], number(k - WORD)), _sign(a[1])
    return word("bitor", down(a[0], k), word("shl", a[1], number(WORD - k))), word("shr", a[1], number(k))


def _mul(a: Pair, b: Pair) -> Pair:
    """By halves of words, none of whose products and carries has more than 32 bits."""
    low = lambda x: word("bitand", x, number(2**HALF - 1))
    (a0, a1), (b0, b1) = ((low(x[0]), down(x[0], HALF)) for x in (a, b))
    t = word("add", word("mul", a1, b0), down(word("mul", a0, b0), HALF))
    u = word("add", word("mul", a0, b1), low(t))
    over = word("add", word("mul", a1, b1), word("add", down(t, HALF), down(u, HALF)))
    cross = word("add", word("mul", a[0], b[1]), word("mul", a[1], b[0]))
    return word("mul", a[0], b[0]), word("add", over, cross)


def carried(a: Expr, b: Expr, c: Expr, d: Expr) -> Pair:
    """Sums of digits of 16 bits, unsigned words each, as a number."""
    low = lambda x: word("bitand", x, number(2**HALF - 1))
    b = word("add", b, down(a, HALF))
    c = word("add", c, down(b, HALF))
    d = word("add", d, down(c, HALF))
    return word("bitor", low(a), word("shl", b, number(HALF))), word("bitor", low(c), word("shl", d, number(HALF)))


def digits(a: Pair) -> tuple[Expr, ...]:
    """The four digits of 16 bits, the lowest first."""
    low = lambda x: word("bitand", x, number(2**HALF - 1))
    return low(a[0]), down(a[0], HALF), low(a[1]), down(a[1], HALF)


COMPARED: Mapping[str, Callable[[Pair, Pair], Expr]] = {
    "eq": _same("eq"), "ne": _same("ne"), "lt": _ordered("lt", "lt"), "le": _ordered("lt", "le"), "gt": _ordered("gt", "gt"),
    "ge": _ordered("gt", "ge")}  # fmt: skip
MADE: Mapping[str, Callable[..., Pair]] = {
    "add": _add, "sub": _sub, "neg": _neg, "abs": _abs, "mul": _mul, "max": _extreme("ge"), "min": _extreme("le"),
    **{fn: _all(fn) for fn in ("bitand", "bitor", "bitxor", "bitnot")}}  # fmt: skip


def by_words(e: Map, pair: Callable[[Expr], Pair], plain: Callable[[Expr], Expr]) -> tuple[Expr, ...]:
    """A function of or into integers of 64 bits: the halves of one, or another value alone; () where it has no such form. `pair` and
    `plain` give operands of 64 bits and others."""
    a = e.operands[0]
    if e.fn == "cast" and e.dtype == I64:
        return pair(a) if a.dtype == I64 else of_float(plain(a)) if a.dtype.is_float else _widened(a.dtype, plain(a))
    if e.fn == "cast" and a.dtype == I64:
        return _narrowed(e.dtype, pair(a))
    if e.fn == "where" and e.dtype == I64:
        return chosen(plain(a), *(pair(x) for x in e.operands[1:]))
    if e.fn in COMPARED and e.dtype == BOOL:
        return (COMPARED[e.fn](*(pair(x) for x in e.operands)),)
    if e.dtype != I64:
        return ()
    if e.fn in ("shl", "shr"):
        k = e.operands[1]
        known = isinstance(k, Const) and 0 <= int(k.value) < 2 * WORD
        return (left if e.fn == "shl" else right)(pair(a), int(k.value)) if known else ()  # type: ignore[attr-defined]
    return MADE[e.fn](*(pair(x) for x in e.operands)) if e.fn in MADE else ()


def _widened(d: DType, x: Expr) -> tuple[Expr, ...]:
    """An integer of at most 32 bits; () of unsigned ones that need all of them."""
    if d.kind == "u" and d.bits >= WORD:
        return ()
    low = x if d == I32 else Map(I32, "cast", (x,))
    return signed(low) if d.kind == "i" else (low, number(0))


def _narrowed(d: DType, x: Pair) -> tuple[Expr, ...]:
    if d == BOOL:
        return (holds("ne", word("bitor", *x), number(0)),)
    if d.is_float:
        return (Map(d, "cast", (real(x),)),)
    return () if d.bits > WORD else (x[0],) if d == I32 else (Map(d, "cast", (x[0],)),)
