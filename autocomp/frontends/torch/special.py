"""ATen's functions beyond the table of scalar functions, written with its entries: signs, angles, lengths, the tail of erf."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, factorial, inf, log, pi, prod, sqrt
from typing import Any

from ml_dtypes import finfo

from autocomp.frontends.torch.call import Call, row
from autocomp.ir.loop_bodies import loop
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, F32, F64, I32, SHORT_FLOATS, DType


def _pair(c: Call, a: Any, b: Any) -> tuple[Node, Node, DType]:
    """Both operands in the type to compute in, and that type: f32 for short floats."""
    assert c.out is not None
    wide = F32 if c.out.dtype in SHORT_FLOATS else c.out.dtype
    return c.value(a, wide), c.value(b, wide), wide


def _result(c: Call, y: Node) -> Node:
    assert c.out is not None
    return c.shaped(c.cast(y, c.out.dtype))


def negative(c: Call, x: Node) -> Node:
    """Whether the sign bit is set: of -0.0 too (of a NaN the bit is not looked at)."""
    zero = c.b.const(0, x.type.dtype)
    if not x.type.dtype.is_float:
        return c.op("lt", x, zero)
    below = c.op("lt", c.op("div", c.b.const(1, x.type.dtype), x), zero)
    return c.op("where", c.op("eq", x, zero), below, c.op("lt", x, zero))


@row("signbit")
def _signbit(c: Call, x: Node) -> Node:
    return c.shaped(c.b.const(False, BOOL)) if x.type.dtype.kind in "bu" else negative(c, x)


def _signed(c: Call, size: Node, minus: Node) -> Node:
    return c.op("where", minus, c.op("neg", size), size)


@row("copysign")
def _copysign(c: Call, a: Any, b: Any) -> Node:
    x, y, _ = _pair(c, a, b)
    return _result(c, _signed(c, c.op("abs", x), negative(c, y)))


@row("atan2")
def _atan2(c: Call, a: Any, b: Any) -> Node:
    """The angle of (x = b, y = a): of |y / x|, in the half-plane of x, with the sign of y; also of zeros and of infinities."""
    y, x, d = _pair(c, a, b)
    number = lambda v: c.b.const(v, d)
    height, width = c.op("abs", y), c.op("abs", x)
    equal = c.op("eq", height, width)  # also 0 / 0 and inf / inf
    ratio = c.op("where", equal, c.op("where", c.op("eq", width, number(0)), number(0), number(1)), c.op("div", height, width))
    angle = c.op("atan", ratio)
    angle = c.op("where", negative(c, x), c.op("sub", number(pi), angle), angle)
    return _result(c, _signed(c, angle, negative(c, y)))


@row("hypot")
def _hypot(c: Call, a: Any, b: Any) -> Node:
    """Scaled by the longer leg, whose square may be beyond the type; an infinite leg makes it infinite whatever the other is."""
    x, y, d = _pair(c, a, b)
    x, y = c.op("abs", x), c.op("abs", y)
    longer, shorter = c.op("max", x, y), c.op("min", x, y)
    ratio = c.op("div", shorter, longer)
    length = c.op("mul", longer, c.op("sqrt", c.op("add", c.op("mul", ratio, ratio), c.b.const(1, d))))
    length = c.op("where", c.op("eq", longer, c.b.const(0, d)), longer, length)
    endless = c.op("or", c.op("isinf", x), c.op("isinf", y))
    return _result(c, c.op("where", endless, c.b.const(float("inf"), d), length))


@row("fmax", "fmin")
def _present(c: Call, a: Any, b: Any) -> Node:
    """The larger or smaller one; of a number and a NaN the number."""
    assert c.out is not None
    d = c.out.dtype
    x, y = c.value(a, d), c.value(b, d)
    if d == BOOL:
        return c.shaped(c.op("or" if c.name == "fmax" else "and", x, y))
    z = c.op(c.name[1:], x, y)
    if d.is_float:
        z = c.op("where", c.op("isnan", x), y, c.op("where", c.op("isnan", y), x, z))
    return c.shaped(z)


@row("ldexp")
def _ldexp(c: Call, a: Any, b: Any) -> Node:
    x, y, _ = _pair(c, a, b)
    return _result(c, c.op("mul", x, c.op("exp2", y)))


@row("gcd", "lcm")
def _gcd(c: Call, a: Any, b: Any) -> Node:
    """Euclid's algorithm, in as many steps as the longest pair of the type takes (neighbours of Fibonacci's series, each 1.618 times the
    one before)."""
    assert c.out is not None
    d = c.out.dtype
    if not d.is_int:
        raise c.refuse(f"of {d.name}", "cast to an integer type")
    zero, one = c.b.const(0, d), c.b.const(1, d)
    x, y = (c.op("abs", c.shaped(c.value(v, d))) if d.kind == "i" else c.shaped(c.value(v, d)) for v in (a, b))

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        p, q = carries
        done = c.op("eq", q, zero)
        rest = c.op("mod", p, c.op("where", done, one, q))
        return [c.op("where", done, p, q), c.op("where", done, zero, rest)], []

    largest = loop(c.b, [x, y], [], body, ceil(d.bits * log(2) / log((1 + sqrt(5)) / 2)) + 1)[0][0]
    if c.name == "gcd":
        return largest
    by = c.op("where", c.op("eq", largest, zero), one, largest)
    wide = I32 if d.bits < 32 else d  # as in C: the product is an int, of which the result's type keeps the last bits
    multiple = c.op("mul", c.cast(c.op("idiv", x, by), wide), c.cast(y, wide))
    return c.cast(c.op("abs", multiple), d)


TAIL = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277)
"""erfc(x) = t exp(-x^2 + sum of TAIL[k] t^k), t = 1 / (1 + x/2), to a relative 1.2e-7 for x >= 0 (W. H. Press et al., Numerical
Recipes, 6.2)."""


NEAR_TAIL = ((5.57535335369399327526e2, 1.02755188689515710272e3, 9.34528527171957607540e2, 5.26445194995477358631e2,
              1.96520832956077098242e2, 4.86371970985681366614e1, 7.46321056442269912687e0, 5.64189564831068821977e-1,
              2.46196981473530512524e-10),
             (5.57535340817727675546e2, 1.65666309194161350182e3, 2.24633760818710981792e3, 1.82390916687909736289e3,
              9.75708501743205489753e2, 3.54937778887819891062e2, 8.67072140885989742329e1, 1.32281951154744992508e1, 1.0))
FAR_TAIL = ((2.97886665372100240670e0, 7.40974269950448939160e0, 6.16021097993053585195e0, 5.01905042251180477414e0,
             1.27536670759978104416e0, 5.64189583547755073984e-1),
            (3.36907645100081516050e0, 9.60896809063285878198e0, 1.70814450747565897222e1, 1.20489539808096656605e1,
             9.39603524938001434673e0, 2.26052863220117276590e0, 1.0))  # fmt: skip
"""exp(x^2) erfc(x) in f64 as quotients of polynomials, from 1 to 8 and beyond (S. L. Moshier, Cephes, ndtr.c)."""


@row("erfc", "special_erfc", "special_erfcx")
def _erfc(c: Call, a: Node) -> Node:
    """erfc, or times exp(x^2)."""
    assert c.out is not None
    d, scaled = c.out.dtype if c.out.dtype == F64 else F32, c.name == "special_erfcx"
    x = c.cast(a, d)
    number = lambda v: c.b.const(v, d)
    size, two = c.op("abs", x), number(2)
    square = c.op("mul", size, size)
    grown = c.op("exp", square)
    if d == F64:
        far = c.op("where", c.op("gt", size, number(1e9)), c.op("div", number(1 / sqrt(pi)), size), _quotient(c, FAR_TAIL, size))
        y = c.op("where", c.op("lt", size, number(8)), _quotient(c, NEAR_TAIL, size), far)
        y = y if scaled else c.op("mul", y, c.op("exp", c.op("neg", square)))
        near = c.op("sub", number(1), c.op("erf", size))
        y = c.op("where", c.op("lt", size, number(1)), c.op("mul", near, grown) if scaled else near, y)
    else:
        t = c.op("div", number(1), c.op("add", c.op("mul", size, number(0.5)), number(1)))
        exponent = _power_series(c, TAIL, t)
        y = c.op("mul", t, c.op("exp", exponent if scaled else c.op("sub", exponent, square)))
    two = c.op("mul", two, grown) if scaled else two
    return _result(c, c.op("where", c.op("lt", x, number(0)), c.op("sub", two, y), y))


def _quotient(c: Call, factors: Sequence[Sequence[float]], x: Node) -> Node:
    above, below = (_power_series(c, f, x) for f in factors)
    return c.op("div", above, below)


NEAR = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.000218580870, -4.39150654e-06, -3.52338770e-06, 3.43273939e-07,
        2.81022636e-08)  # fmt: skip
FAR = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322, 0.000100950558,
       -0.000200214257)  # fmt: skip
"""erfinv(x) = x p(w), w = -log(1 - x^2): p of w - 2.5 where w < 5, else of sqrt(w) - 3 (M. Giles, Approximating the erfinv function)."""


@row("erfinv", "special_erfinv")
def _erfinv(c: Call, a: Node) -> Node:
    """Giles' approximation, and two steps of Newton's method from there, which f64 needs; infinite at 1 and -1, NaN beyond."""
    assert c.out is not None
    d = c.out.dtype if c.out.dtype.bits == 64 else F32
    x = c.cast(a, d)
    number = lambda v: c.b.const(v, d)
    w = c.op("neg", c.op("log", c.op("mul", c.op("sub", number(1), x), c.op("add", number(1), x))))
    near = _power_series(c, NEAR, c.op("sub", w, number(2.5)))
    far = _power_series(c, FAR, c.op("sub", c.op("sqrt", c.op("max", w, number(0))), number(3)))
    y = c.op("mul", x, c.op("where", c.op("lt", w, number(5)), near, far))
    for _ in range(2 if d.bits == 64 else 0):
        slope = c.op("mul", number(2 / sqrt(pi)), c.op("exp", c.op("neg", c.op("mul", y, y))))
        y = c.op("sub", y, c.op("div", c.op("sub", c.op("erf", y), x), slope))
    end = c.op("mul", x, number(inf))
    return _result(c, c.op("where", c.op("eq", c.op("abs", x), number(1)), end, y))


def _power_series(c: Call, factors: Sequence[float], x: Node) -> Node:
    y = c.b.const(factors[-1], x.type.dtype)
    for k in reversed(factors[:-1]):
        y = c.op("add", c.op("mul", y, x), c.b.const(k, x.type.dtype))
    return y


# ---- quantiles of the normal distribution
MIDDLE = ((-1.23916583867381258016e0, 1.39312609387279679503e1, -5.66762857469070293439e1, 9.80010754185999661536e1,
           -5.99633501014107895267e1),
          (-1.18331621121330003142e0, 1.59056225126211695515e1, -8.20372256168333339912e1, 2.00260212380060660359e2,
           -2.25462687854119370527e2, 8.63602421390890590575e1, 4.67627912898881538453e0, 1.95448858338141759834e0, 1.0))
SIDE = ((-8.57456785154685413611e-4, -3.50424626827848203418e-2, -1.40256079171354495875e-1, 2.18663306850790267539e0,
         1.46849561928858024014e1, 4.40805073893200834700e1, 5.71628192246421288162e1, 3.15251094599893866154e1,
         4.05544892305962419923e0),
        (-9.33259480895457427372e-4, -3.80806407691578277194e-2, -1.42182922854787788574e-1, 2.50464946208309415979e0,
         1.50425385692907503408e1, 4.13172038254672030440e1, 4.53907635128879210584e1, 1.57799883256466749731e1, 1.0))
END = ((6.23974539184983293730e-9, 2.65806974686737550832e-6, 3.01581553508235416007e-4, 1.23716634817820021358e-2,
        2.01485389549179081538e-1, 1.33303460815807542389e0, 3.93881025292474443415e0, 6.91522889068984211695e0, 3.23774891776946035970e0),
       (6.79019408009981274425e-9, 2.89247864745380683936e-6, 3.28014464682127739104e-4, 1.34204006088543189037e-2,
        2.16236993594496635890e-1, 1.37702099489081330271e0, 3.67983563856160859403e0, 6.02427039364742014255e0, 1.0))  # fmt: skip
"""x with P(normal <= x) = p: of the square of p - 1/2 in the middle, of 1 / sqrt(-2 log p) in the tails (Moshier, ndtri.c)."""


@row("special_ndtri")
def _ndtri(c: Call, a: Node) -> Node:
    """Infinite at 0 and 1, NaN outside. The upper half mirrors the lower one: 1 - p is exact there."""
    assert c.out is not None
    d = F64 if c.out.dtype == F64 else F32
    p = c.cast(a, d)
    number = lambda v: c.b.const(v, d)
    upper = c.op("gt", p, number(1 - exp(-2)))
    low = c.op("where", upper, c.op("sub", number(1), p), p)
    y = c.op("sub", p, number(0.5))
    z = c.op("mul", y, y)
    middle = c.op("mul", c.op("add", y, c.op("mul", y, c.op("mul", z, _quotient(c, MIDDLE, z)))), number(sqrt(2 * pi)))
    x = c.op("sqrt", c.op("mul", c.op("log", low), number(-2)))
    r = c.op("div", number(1), x)
    part = c.op("where", c.op("lt", x, number(8)), _quotient(c, SIDE, r), _quotient(c, END, r))
    tail = c.op("sub", c.op("sub", x, c.op("div", c.op("log", x), x)), c.op("mul", r, part))
    tail = c.op("where", c.op("eq", low, number(0)), number(inf), tail)
    tail = c.op("where", upper, tail, c.op("neg", tail))
    return _result(c, c.op("where", c.op("gt", low, number(exp(-2))), middle, tail))


# ---- modified Bessel functions of the first kind
SERIES = {F32: (12, 22, 9), F64: (20, 40, 24)}
"""Up to which x the power series is taken, its terms, and the terms of the series in 1 / x beyond: both end below the type's precision
there."""


@row("i0", "special_i0", "special_i0e", "special_i1", "special_i1e")
def _bessel(c: Call, a: Node) -> Node:
    """I_n(x) = (x/2)^n sum of (x^2/4)^k / k! (k+n)!, whose terms have one sign, or for large x exp(x) / sqrt(2 pi x) times Hankel's series;
    the forms with e times exp(-|x|)."""
    assert c.out is not None
    d, n, scaled = F64 if c.out.dtype == F64 else F32, int("1" in c.name), c.name.endswith("e")
    last, terms, more = SERIES[d]
    x = c.cast(a, d)
    number = lambda v: c.b.const(v, d)
    size = c.op("abs", x)
    small, large = c.op("min", size, number(last)), c.op("max", size, number(last))
    near = _power_series(c, [1 / (factorial(k) * factorial(k + n)) for k in range(terms)],
                         c.op("mul", c.op("mul", small, small), number(0.25)))  # fmt: skip
    near = c.op("mul", near, c.op("mul", small, number(0.5))) if n else near
    hankel = [prod((2 * j - 1) ** 2 - 4 * n * n for j in range(1, k + 1)) / (factorial(k) * 8**k) for k in range(more)]
    r = c.op("div", number(1), large)
    far = c.op("mul", _power_series(c, hankel, r), c.op("mul", c.op("sqrt", r), number(1 / sqrt(2 * pi))))
    if scaled:
        near = c.op("mul", near, c.op("exp", c.op("neg", small)))
    else:  # in two steps: exp(x) is beyond the type before the function is
        half = c.op("exp", c.op("mul", large, number(0.5)))
        far = c.op("mul", c.op("mul", half, far), half)
        far = c.op("where", c.op("isinf", size), size, far)
    y = c.op("where", c.op("gt", size, number(last)), far, near)
    y = c.op("where", c.op("isnan", x), x, y)
    return _result(c, _signed(c, y, c.op("lt", x, number(0))) if n else y)


# ---- what floats are made of
@row("frexp")
def _frexp(c: Call, a: Node) -> tuple[Node, Node]:
    """(m, e) with a = m 2^e, 1/2 <= |m| < 1, by exact products with powers of two; zeros and what is not finite stay, with 0."""
    d = F64 if a.type.dtype == F64 else F32
    x = c.cast(a, d)
    number, whole = lambda v: c.b.const(v, d), lambda v: c.b.const(v, I32)
    zero = c.op("eq", x, number(0))
    special = c.op("or", zero, c.op("or", c.op("isnan", x), c.op("isinf", x)))
    m = c.op("where", special, number(0.5), c.op("abs", x))
    e = c.op("broadcast", whole(0), shape=x.type.shape)
    highest = 9 if d == F64 else 6
    for k in (2**j for j in range(highest, -1, -1)):  # to below 2
        above = c.op("ge", m, number(2.0**k))
        m, e = c.op("where", above, c.op("mul", m, number(2.0**-k)), m), c.op("add", e, c.op("where", above, whole(k), whole(0)))
    for k in (2**j for j in (highest, *range(highest, -1, -1))):  # to 1 or more
        under = c.op("lt", m, number(2.0 ** (1 - k)))
        m, e = c.op("where", under, c.op("mul", m, number(2.0**k)), m), c.op("sub", e, c.op("where", under, whole(k), whole(0)))
    m = c.op("mul", m, c.op("where", c.op("lt", x, number(0)), number(-0.5), number(0.5)))
    m = c.op("where", special, x, m)
    return c.cast(m, a.type.dtype), c.op("where", special, whole(0), c.op("add", e, whole(1)))


@row("nextafter")
def _nextafter(c: Call, a: Any, b: Any) -> Node:
    """The next number of the type from a towards b, by a sum that rounds to it: x +- u (1 + 2 u) |x|, u half the step behind 1;
    where that product would have too few digits, of x / u; of numbers with the least distance, x +- that. Rump, Zimmermann, Boldo,
    Melquiond, Computing predecessor and successor in rounding to nearest, BIT 49, 2009."""
    x, y, wide = _pair(c, a, b)
    assert c.out is not None
    d, info = c.out.dtype, finfo(c.out.dtype.numpy)
    u, least, most = float(info.eps) / 2, float(info.smallest_subnormal), float(info.max)
    number = lambda v: c.b.const(v, wide)
    size = c.op("abs", x)
    small, scaled = c.op("lt", size, number(least / u)), c.op("lt", size, number(least / u**2 / 2))
    factor = c.op("where", scaled, number(1 / u), number(1.0))
    at = c.op("mul", x, factor)
    step = c.op("mul", c.op("abs", at), number(u * (1 + 2 * u)))
    at, step = c.op("where", small, x, at), c.op("where", small, number(least), step)
    moved = c.op("where", c.op("gt", y, x), c.op("add", at, step), c.op("sub", at, step))
    back = c.op("where", c.op("and", scaled, c.op("not", small)), number(u), number(1.0))
    moved = c.op("mul", c.cast(c.cast(moved, d), wide), back)
    below = c.op("lt", x, number(0))
    moved = c.op("where", c.op("and", c.op("eq", moved, number(0)), below), number(-0.0), moved)
    moved = c.op("where", c.op("isinf", x), c.op("where", below, number(-most), number(most)), moved)
    odd = c.op("or", c.op("isnan", x), c.op("isnan", y))
    return _result(c, c.op("where", odd, c.op("add", x, y), c.op("where", c.op("eq", x, y), y, moved)))
