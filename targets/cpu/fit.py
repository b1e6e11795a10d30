"""Tables of piecewise polynomials for the CPU header: `python -m autocomp.targets.cpu.fit > targets/cpu/include/autocomp_cpu_tables.h`

A permutation instruction finds one of 16 or 32 coefficients a lane in registers, so a function is a polynomial of degree 4 on as
many intervals. Each is fitted by Lawson's iteration (least squares, weights times the error, again: it tends to the smallest largest
error), and coefficients are rounded to f32 from the highest on, the lower ones fitted again to what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

DEGREE = 4
GELU_SCALE, GELU_CELLS = 2.8, 16  # cell i: around |x| = i / 2.8; beyond 15.5 / 2.8 the result's part is below 9e-8
TANH_SCALE, TANH_END = 1.66, 9.02  # cells: 1.66 |x| + 1 by its exponent and first 3 bits; tanh(9.02) is 1 in f32
Function = Callable[[np.ndarray], np.ndarray]


def lawson(f: Function, weight: Function, low: float, high: float, powers: list[int]) -> np.ndarray:
    """Coefficients of x**powers whose largest weighted distance from f on [low, high] is about the smallest."""
    x = (low + high) / 2 - (high - low) / 2 * np.cos(np.pi * (np.arange(2000) + 0.5) / 2000)
    basis, want, w, share = x[:, None] ** np.array(powers), f(x), weight(x), np.ones(2000)
    best, least = np.zeros(len(powers)), math.inf
    for _ in range(100):
        s = np.sqrt(share) * w
        c = np.linalg.lstsq(basis * s[:, None], want * s, rcond=None)[0]
        error = np.abs((basis @ c - want) * w)
        if error.max() < least:
            best, least = c, float(error.max())
        share = share * error / np.mean(share * error)
    return best


def fit(f: Function, weight: Function, low: float, high: float, first: int = 0) -> np.ndarray:
    """f32 coefficients of x**0 .. x**DEGREE; those below `first` are 0."""
    out = np.zeros(DEGREE + 1)
    for k in range(DEGREE, first - 1, -1):
        rest = partial(_rest, f, out.copy())
        out[k] = np.float32(lawson(rest, weight, low, high, list(range(first, k + 1)))[-1])
    return out


def _rest(f: Function, done: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray(f(x) - np.polynomial.polynomial.polyval(x, done))


def gelu() -> np.ndarray:
    """[degree + 1, cells]: max(x, 0) - gelu(x) = t (1 - Phi(t)) as polynomials in t = abs(x); its value at 0 is 0."""
    part = np.vectorize(lambda t: t * math.erfc(t / math.sqrt(2)) / 2)
    ends = [(max(0.0, (i - 0.5) / GELU_SCALE), (i + 0.5) / GELU_SCALE) for i in range(GELU_CELLS)]
    near = lambda t: 1 / np.maximum(t, 0.1)
    return np.array([fit(part, (np.ones_like if low else near), low, high, int(not low)) for low, high in ends]).T


def tanh() -> np.ndarray:
    """[degree + 2, 32]: tanh as polynomials in abs(x) - middle, and in the last row the cells' middles. The first cell is x + ..., the last
    one ends at 1: the gradient 1 - y^2 of what is saturated is 0."""
    table = np.zeros((32, DEGREE + 2))
    for cell in range(32):
        low, high = ((2.0 ** (c // 8) * (1 + c % 8 / 8) - 1) / TANH_SCALE for c in (cell, cell + 1))
        high = min(high, TANH_END)
        row = np.zeros(DEGREE + 2)
        if cell:
            row[-1] = round((low + high) / 2 * 64) / 64
            row[:-1] = fit(partial(_tanh_from, row[-1]), np.ones_like, low - row[-1], high - row[-1])
            if high == TANH_END:
                end = high - row[-1]
                row[1] += (1 - np.polynomial.polynomial.polyval(end, row[:-1])) / end
        else:
            row[:-1] = fit(lambda x: np.tanh(x) - x, lambda x: 1 / np.tanh(x), 1e-6, high, 2)
            row[1] = 1
        table[(127 * 8 + cell) % 32] = row  # the low five of the bits from 20 on of the f32 1.66 |x| + 1
    return table.T


def exp() -> np.ndarray:
    """[32]: 2^(i / 32)."""
    return 2.0 ** (np.arange(32) / 32)


def _tanh_from(middle: float, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.tanh(middle + x))


def text(name: str, what: str, table: np.ndarray) -> str:
    """A C array, of tables one row a coefficient."""
    number = lambda v: (t if set(t) & set(".en") else t + ".0") + "f" if (t := f"{np.float32(v).item():.9g}") else ""
    lines = []
    for row in np.atleast_2d(table):
        parts = [", ".join(number(v) for v in row[i : i + 8]) for i in range(0, len(row), 8)]
        lines.append("{" + ",\n   ".join(parts) + "}")
    values = lines[0] if table.ndim == 1 else "{\n  " + ",\n  ".join(lines) + "}"
    size = "".join(f"[{n}]" for n in table.shape)
    return f"/* {what} */\nstatic const float {name}{size} __attribute__((aligned(64), unused)) = {values};\n"


def main() -> None:
    """Print the header of tables."""
    print("/* Made by targets/cpu/fit.py, which says how. */")
    print(text("ac_exp_table", "2^(i / 32)", exp()), end="")
    print(text("ac_gelu_table", f"rows: coefficients of t^0.. in cells around i / {GELU_SCALE}", gelu()), end="")
    print(text("ac_tanh_table", "rows: coefficients of (t - middle)^0.., then the middles", tanh()), end="")


if __name__ == "__main__":
    main()
