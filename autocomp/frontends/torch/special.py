"""ATen's functions beyond the table of scalar functions, written with its entries: signs, angles, lengths, the tail of erf."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, log, pi, sqrt
from typing import Any

from autocomp.frontends.torch.call import Call, row
from autocomp.ir.loop_bodies import loop
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, F32, I32, SHORT_FLOATS, DType


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


@row("erfc", "special_erfc", "special_erfcx")
def _erfc(c: Call, a: Node) -> Node:
    """erfc, or times exp(x^2)."""
    assert c.out is not None
    if c.out.dtype.bits == 64:
        raise c.refuse("has no form that is right to f64", "compute it in float32")
    x = c.cast(a, F32)
    number = lambda v: c.b.const(v, F32)
    size = c.op("abs", x)
    t = c.op("div", number(1), c.op("add", c.op("mul", size, number(0.5)), number(1)))
    square, exponent, two = c.op("mul", size, size), _power_series(c, TAIL, t), number(2)
    if c.name == "special_erfcx":
        two = c.op("mul", two, c.op("exp", square))
    else:
        exponent = c.op("sub", exponent, square)
    y = c.op("mul", t, c.op("exp", exponent))
    return _result(c, c.op("where", c.op("lt", x, number(0)), c.op("sub", two, y), y))


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
