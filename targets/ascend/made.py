"""Functions that the interface has no instruction for, as expressions of those that it has and of choices among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autocomp.targets.ascend.whole import is_short

from autocomp.ir.body import Const, Expr, Map
from autocomp.ir.types import BOOL, F32, DType


def _sign(x: Expr) -> Expr:
    """1, -1, or x where that is 0 or no number."""
    c = lambda v: Const(x.dtype, v)
    return _where(_is("gt", x, c(0.0)), c(1.0), _where(_is("lt", x, c(0.0)), c(-1.0), x))


def _log1p(x: Expr) -> Expr:
    """log(u) x / (u - 1) for u = 1 + x as it is rounded (Kahan): what rounding takes from u is in both factors. x where u is 1, log(u)
    where nothing is lost."""
    one = Const(x.dtype, 1.0)
    u = _map("add", x, one)
    back, log = _map("sub", u, one), _map("log", u)
    rest = _map("mul", log, _map("div", x, back))
    return _where(_is("eq", u, one), x, _where(_is("eq", back, x), log, rest))


def _expm1(x: Expr) -> Expr:
    """(u - 1) x / log(u) for u = exp(x) as it is rounded (Kahan): what rounding takes from u is in both factors. x where u is 1, u - 1
    where |x| > 16."""
    c = lambda v: Const(x.dtype, v)
    u = _map("exp", x)
    less = _map("sub", u, c(1.0))
    rest = _map("mul", less, _map("div", x, _map("log", u)))
    far = _map("abs", x)
    return _where(_is("gt", far, c(16.0)), less, _where(_is("eq", u, c(1.0)), x, rest))


def _mish(x: Expr) -> Expr:
    """x n / (n + 2) for n = e (e + 2), e = exp(x): x tanh(log(1 + e)). From x = 20 on it is x (halves: from 5.5 on, n is finite)."""
    c = lambda v: Const(x.dtype, v)
    e = _map("exp", _map("min", x, c(20.0 if x.dtype.bits > 16 else 5.5)))
    n = _map("mul", e, _map("add", e, c(2.0)))
    return _map("mul", x, _map("div", n, _map("add", n, c(2.0))))


FAR = 2.0**22  # quotients from here on have no remainder in single precision


def _mod(a: Expr, b: Expr) -> Expr:
    """The remainder with the divisor's sign: a - q b for q = floor(a / b), both in two pieces of 12 bits so that each product is exact, and
    b more where a / b was rounded up to q. NaN for quotients of 2^22 and more, and where b is 0 or infinite."""
    q = _map("floor", _map("div", a, b))
    r = _left(a, q, b)
    near = _where(_is_under(r, b), _map("add", r, b), r)
    return _where(_is("lt", _map("abs", q), Const(a.dtype, FAR)), near, Const(a.dtype, float("nan")))


def _floordiv(a: Expr, b: Expr) -> Expr:
    """floor(a / b), and 1 less where a / b was rounded up to it. NaN where either is infinite."""
    q = _map("floor", _map("div", a, b))
    less = _where(_is_under(_left(a, q, b), b), _map("sub", q, Const(a.dtype, 1.0)), q)
    return _map("add", _map("add", less, _map("sub", a, a)), _map("sub", b, b))


def _left(a: Expr, q: Expr, b: Expr) -> Expr:
    """a - q b, exact."""
    pieces = [_map("mul", x, y) for x in _halves(q) for y in _halves(b)]
    for x in pieces:
        a = _map("sub", a, x)
    return a


def _halves(x: Expr) -> tuple[Expr, Expr]:
    """A number as the sum of two of 12 bits (Veltkamp)."""
    c = _map("mul", x, Const(x.dtype, 4097.0))
    high = _map("sub", c, _map("sub", c, x))
    return high, _map("sub", x, high)


def _is_under(r: Expr, b: Expr) -> Expr:
    """Whether r has the other sign than b."""
    zero = Const(r.dtype, 0.0)
    return _where(_is("gt", b, zero), _truth(_is("lt", r, zero)), _truth(_is("gt", r, zero)))


def _truth(c: Expr) -> Expr:
    """A condition as 1 or 0, which a choice asks for not being 0."""
    return _where(c, Const(F32, 1.0), Const(F32, 0.0))


def _pow(x: Expr, y: Expr) -> Expr:
    """exp(y log |x|), its sign that of x where y is odd; NaN for negative x where y is no whole number. 1 where y is 0 or x is 1."""
    c = lambda v: Const(x.dtype, v)
    power = _map("exp", _map("mul", y, _map("log", _map("abs", x))))
    whole = _map("floor", y)
    odd = _map("sub", whole, _map("mul", _map("floor", _map("mul", whole, c(0.5))), c(2.0)))
    signed = _where(_is("eq", whole, y), _map("mul", power, _map("sub", c(1.0), _map("mul", odd, c(2.0)))), c(float("nan")))
    some = _where(_is("lt", x, c(0.0)), signed, power)
    return _where(_is("eq", y, c(0.0)), c(1.0), _where(_is("eq", x, c(1.0)), c(1.0), some))


def _short_mod(a: Expr, b: Expr) -> Expr:
    """Of whole numbers of a byte, whose quotients are 1 / 255 and more from the next whole number: 0 where b is 0."""
    x, y = _float(a), _float(b)
    return _divided(a, b, _map("sub", x, _map("mul", _map("floor", _map("div", x, y)), y)))


def _short_floordiv(a: Expr, b: Expr) -> Expr:
    return _divided(a, b, _map("floor", _map("div", _float(a), _float(b))))


def _divided(a: Expr, b: Expr, x: Expr) -> Expr:
    return Map(a.dtype, "cast", (_where(_is("eq", _float(b), Const(F32, 0.0)), Const(F32, 0.0), x),))


def _short_pow(x: Expr, y: Expr) -> Expr:
    """By the bits of the exponent, each product wrapped; 1, -1 or 0 for negative exponents."""
    out: Expr = Const(x.dtype, 1)
    half = lambda v: _map("floor", _map("mul", v, Const(F32, 0.5)))
    base, left = x, _float(y)
    for k in range(y.dtype.bits - (y.dtype.kind == "i")):
        base = _map("mul", base, base) if k else base
        rest = half(left)
        out = _where(_is("eq", _map("mul", rest, Const(F32, 2.0)), left), out, _map("mul", out, base))
        left = rest
    if y.dtype.kind != "i":
        return out
    c, f = (lambda v: Const(x.dtype, v)), _float(y)
    even = _is("eq", _map("mul", half(f), Const(F32, 2.0)), f)
    minus = _where(_is("eq", _float(x), Const(F32, -1.0)), _where(even, c(1), c(-1)), c(0))
    inverse = _where(_is("eq", _float(x), Const(F32, 1.0)), c(1), minus)
    return _where(_is("lt", f, Const(F32, 0.0)), inverse, out)


def _bit(x: Expr, n: int) -> Expr:
    """Bit n of a whole number in two's complement, as a float."""
    if isinstance(x, Const):
        return Const(F32, float(int(x.value) >> n & 1))
    part = lambda k: _map("floor", _map("mul", _float(x), Const(F32, 0.5**k)))
    return _map("sub", part(n), _map("mul", part(n + 1), Const(F32, 2.0)))


def _bitwise(of: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    """Bit by bit of bytes: the sum of of(bit of a, bit of b) 2^n, which the type wraps."""

    def made(a: Expr, b: Expr) -> Expr:
        out = of(_bit(a, 0), _bit(b, 0))
        for n in range(1, a.dtype.bits):
            out = _map("add", out, _map("mul", of(_bit(a, n), _bit(b, n)), Const(F32, 2.0**n)))
        return Map(a.dtype, "cast", (out,))

    return made


def _bitand(a: Expr, b: Expr) -> Expr:
    """The rest of a / 2^n for b = 2^n - 1."""
    a, b = (b, a) if isinstance(a, Const) else (a, b)
    if isinstance(b, Const) and b.value >= 0 and int(b.value) & (int(b.value) + 1) == 0:
        x, whole = _float(a), Const(F32, b.value + 1.0)
        return Map(a.dtype, "cast", (_map("sub", x, _map("mul", _map("floor", _map("div", x, whole)), whole)),))
    return _bitwise(lambda x, y: _map("mul", x, y))(a, b)


def _bitnot(x: Expr) -> Expr:
    return Map(x.dtype, "cast", (_map("sub", Const(F32, -1.0), _float(x)),))


def _shifted(a: Expr, k: Expr, by: Callable[[int], float]) -> Expr:
    """floor(a times by(k)), which the type wraps. Shifts by all bits and more have no value."""
    at = lambda n: _map("floor", _map("mul", _float(a), Const(F32, by(n))))
    out = at(int(k.value) if isinstance(k, Const) else 0)
    for n in range(1, 0 if isinstance(k, Const) else a.dtype.bits):
        out = _where(_is("eq", _float(k), Const(F32, float(n))), at(n), out)
    return Map(a.dtype, "cast", (out,))


def _isnan(x: Expr) -> Expr:
    return _is("ne", x, x)


def _isinf(x: Expr) -> Expr:
    return _is("eq", _map("abs", x), Const(x.dtype, float("inf")))


def _float(x: Expr) -> Expr:
    return Map(F32, "cast", (x,))


def _map(fn: str, *x: Expr) -> Expr:
    return Map(x[0].dtype, fn, x)


def _where(c: Expr, x: Expr, y: Expr) -> Expr:
    return Map(y.dtype, "where", (c, x, y))


def _is(fn: str, a: Expr, b: Expr) -> Expr:
    return Map(BOOL, fn, (a, b))


FLOATS: Mapping[str, Callable[..., Expr]] = {
    "sign": _sign, "log1p": _log1p, "expm1": _expm1, "mish": _mish, "mod": _mod, "floordiv": _floordiv, "pow": _pow}  # fmt: skip
SHORT: Mapping[str, Callable[..., Expr]] = {
    "mod": _short_mod, "floordiv": _short_floordiv, "pow": _short_pow, "isnan": _isnan, "isinf": _isinf,
    "bitand": _bitand, "bitor": _bitwise(lambda x, y: _map("max", x, y)),
    "bitxor": _bitwise(lambda x, y: _map("abs", _map("sub", x, y))), "bitnot": _bitnot,
    "shl": lambda x, k: _shifted(x, k, lambda n: 2.0**n), "shr": lambda x, k: _shifted(x, k, lambda n: 0.5**n)}  # fmt: skip


def of_others(fn: str, d: DType) -> Callable[..., Expr] | None:
    """What makes a function that gives floats, whole numbers of a byte or truth values of its operands; None for one not made so."""
    return FLOATS.get(fn) if d.is_float else SHORT.get(fn) if is_short(d) else None
