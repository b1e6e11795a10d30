"""Tables of Winograd's minimal filtering F(m, r): m results of r taps from m + r - 1 products (Lavin and Gray, Fast Algorithms for
Convolutional Neural Networks, 2016; Toom and Cook's interpolation at points that a rule chooses, and at infinity).

With `results` A [m, n], `taps` G [n, r] and `inputs` B [n, n], n = m + r - 1, in exact fractions:
y = A ((G g) * (B d)), where y[i] = sum over k of d[i + k] g[k].
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

Row = tuple[Fraction, ...]


def winograd_inputs(results: int, taps: int, points: Sequence[float]) -> tuple[float, ...]:
    """B, row by row: coefficients of the polynomials that vanish at all points but one, for infinity at all."""
    at = _checked(results, taps, points)
    rows = [_vanishing(at[:i] + at[i + 1 :]) for i in range(len(at))]
    return _flat([*((*row, Fraction(0)) for row in rows), _vanishing(at)])


def winograd_taps(results: int, taps: int, points: Sequence[float]) -> tuple[float, ...]:
    """G transposed, tap by tap: powers of each point over the product of its distances to the others."""
    at = _checked(results, taps, points)
    rows = [[p**k / _distances(p, at) for k in range(taps)] for p in at]
    return _flat(list(zip(*rows, [Fraction(k == taps - 1) for k in range(taps)], strict=True)))


def winograd_results(results: int, taps: int, points: Sequence[float]) -> tuple[float, ...]:
    """A, row by row: powers of each point; infinity counts for the last result."""
    at = _checked(results, taps, points)
    return _flat([[*(p**k for p in at), Fraction(k == results - 1)] for k in range(results)])


def _checked(results: int, taps: int, points: Sequence[float]) -> Row:
    """The points as fractions. Raises ValueError where there are too few of them or one stands twice."""
    at = tuple(map(Fraction, points))
    if len(set(at)) != len(at) or len(at) != results + taps - 2:
        raise ValueError(f"F({results}, {taps}) interpolates at {results + taps - 2} different points, not at {list(points)}")
    return at


@cache
def _vanishing(points: Row) -> Row:
    """Coefficients, the constant one first, of the product of x - p."""
    out: Row = (Fraction(1),)
    for p in points:
        out = tuple(a - p * b for a, b in zip((Fraction(0), *out), (*out, Fraction(0)), strict=True))
    return out


def _distances(p: Fraction, points: Row) -> Fraction:
    out = Fraction(1)
    for q in points:
        out *= p - q if q != p else 1
    return out


def _flat(rows: Sequence[Sequence[Fraction]]) -> tuple[float, ...]:
    return tuple(float(x) for row in rows for x in row)
