"""ATen's functions of the gamma family: its logarithm and the derivatives of that. In f64: they are small differences of what they are
made of."""

from __future__ import annotations

from math import inf, log, nan, pi

from autocomp.frontends.torch.call import Call, row
from autocomp.ir.node import Node
from autocomp.ir.types import F64

SHIFTS = 8  # steps x -> x + 1, beyond which the series of Stirling has less than 1e-13 of error
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)  # of lgamma, over odd powers of z
DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760)  # over even powers
TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)  # over odd powers from the third on


class _Values:
    """Arithmetic over nodes of f64 and numbers."""

    def __init__(self, c: Call) -> None:
        self.c = c

    def node(self, v: Node | float) -> Node:
        return v if isinstance(v, Node) else self.c.b.const(v, F64)

    def __call__(self, op: str, *xs: Node | float) -> Node:
        return self.c.op(op, *map(self.node, xs))

    def choose(self, condition: Node, a: Node | float, b: Node | float) -> Node:
        return self.c.op("where", condition, self.node(a), self.node(b))

    def series(self, factors: tuple[float, ...], x: Node) -> Node:
        y = self.node(factors[-1])
        for k in reversed(factors[:-1]):
            y = self("add", self("mul", y, x), k)
        return y


def _of(c: Call, a: Node) -> tuple[_Values, Node, Node, Node, Node]:
    """(arithmetic, x, whether x is reflected at 1/2, the positive argument, the fraction of x in [0, 1))."""
    v, x = _Values(c), c.cast(a, F64)
    low = v("lt", x, 0.5)
    return v, x, low, v.choose(low, v("sub", 1.0, x), x), v("sub", x, v("floor", x))


def _result(c: Call, y: Node) -> Node:
    assert c.out is not None
    return c.cast(y, c.out.dtype)


@row("lgamma", "special_gammaln")
def _lgamma(c: Call, a: Node) -> Node:
    """log |gamma|: infinite at 0, at negative integers and at infinities."""
    v, x, low, p, fraction = _of(c, a)
    small = v("lt", p, float(SHIFTS))
    steps: Node | float = p
    for k in range(1, SHIFTS):
        steps = v("mul", steps, v("add", p, float(k)))
    z = v.choose(small, v("add", p, float(SHIFTS)), p)
    inverse = v("div", 1.0, z)
    tail = v("mul", inverse, v.series(STIRLING, v("mul", inverse, inverse)))
    y = v("add", v("sub", v("mul", v("sub", z, 0.5), v("log", z)), z), v("add", 0.5 * log(2 * pi), tail))
    y = v("sub", y, v("log", v.choose(small, steps, 1.0)))
    sine = v("abs", v("sin", v("mul", pi, fraction)))
    y = v.choose(low, v("sub", v("log", v("div", pi, sine)), y), y)
    return _result(c, v.choose(v("eq", v("abs", x), inf), inf, y))


@row("digamma", "special_digamma", "special_psi")
def _digamma(c: Call, a: Node) -> Node:
    """The logarithm's derivative: infinite at 0 against its sign, NaN at negative integers."""
    v, x, low, p, fraction = _of(c, a)
    small = v("lt", p, float(SHIFTS))
    steps = v("div", 1.0, p)
    for k in range(1, SHIFTS):
        steps = v("add", steps, v("div", 1.0, v("add", p, float(k))))
    z = v.choose(small, v("add", p, float(SHIFTS)), p)
    inverse = v("div", 1.0, z)
    square = v("mul", inverse, inverse)
    y = v("add", v("sub", v("log", z), v("mul", 0.5, inverse)), v("mul", square, v.series(DIGAMMA, square)))
    y = v("sub", y, v.choose(small, steps, 0.0))
    angle = v("mul", pi, fraction)
    mirrored = v("sub", y, v("div", v("mul", pi, v("cos", angle)), v("sin", angle)))
    mirrored = v.choose(v("eq", fraction, 0.0), nan, mirrored)
    return _result(c, v.choose(v("eq", x, 0.0), v("div", -1.0, x), v.choose(low, mirrored, y)))


@row("polygamma", "special_polygamma")
def _polygamma(c: Call, n: int, a: Node) -> Node:
    """The n-th derivative of digamma for n of 0 and 1. Raises UnsupportedOp on others."""
    if n == 0:
        return _digamma(c, a)
    if n != 1:
        raise c.refuse(f"derivative {n} of digamma", "derivatives 0 and 1 are written with the table's functions")
    v, _, low, p, fraction = _of(c, a)
    small = v("lt", p, float(SHIFTS))
    squared = lambda y: v("mul", y, y)
    steps = v("div", 1.0, squared(p))
    for k in range(1, SHIFTS):
        steps = v("add", steps, v("div", 1.0, squared(v("add", p, float(k)))))
    z = v.choose(small, v("add", p, float(SHIFTS)), p)
    inverse = v("div", 1.0, z)
    square = squared(inverse)
    y = v("add", v("add", inverse, v("mul", 0.5, square)), v("mul", v("mul", inverse, square), v.series(TRIGAMMA, square)))
    y = v("add", y, v.choose(small, steps, 0.0))
    return _result(c, v.choose(low, v("sub", squared(v("div", pi, v("sin", v("mul", pi, fraction)))), y), y))
