"""What the tests of the traced front end compare NumPy with: values at the ends of every dtype, and results elementwise."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from autocomp.frontends.tracing import trace
from autocomp.ir.reference import evaluate
from autocomp.ir.types import DTYPES

KINDS = [n for n in DTYPES if not n.startswith("f8")]
ULPS = 16  # of NumPy's result in its own dtype: what is written in terms of other functions rounds some times more


def values(name: str) -> np.ndarray:
    """Small numbers, the extremes and, of floats, NaN, infinities, zeros of either sign, the least numbers."""
    d = DTYPES[name].numpy
    if name == "bool":
        return np.array([False, True])
    if DTYPES[name].is_int:
        i = np.iinfo(d)
        v = [0, 1, 2, 3, 5, 7, 8, 31, 100, i.max, i.max - 1, i.max // 2 + 1]
        return np.array(v + ([-1, -2, -3, -7, -8, -100, i.min, i.min + 1] if i.min else []), d)
    f = ml_dtypes.finfo(d)
    ends = [float(f.max), float(f.min), float(f.tiny), -float(f.tiny), float(f.smallest_subnormal), np.nan, np.inf, -np.inf]
    return np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 7.25, -7.5, 1e-3, 100, -100, 88.5, 11, *ends]).astype(d)


def pairs(a: str, b: str) -> tuple[np.ndarray, np.ndarray]:
    """Every value of one dtype with every one of another."""
    x, y = np.meshgrid(np.arange(len(values(a))), np.arange(len(values(b))))
    return values(a)[x.ravel()], values(b)[y.ravel()]


def traced(fn: Any, *args: np.ndarray) -> list[np.ndarray]:
    """Outputs of the traced graph in its own dtypes, by the references of its ops."""
    g = trace(fn, *args)
    out = evaluate(g, dict(zip([n.attrs["name"] for n in g.inputs], args)), float64=False)
    return [out[name] for name, _ in g.outputs]


def difference(got: np.ndarray, want: Any, zeros: bool = True) -> str:
    """How a result differs from NumPy's: in dtype, shape, a value (integers and bools exactly) or, with `zeros`, the sign of a zero."""
    want, got = np.asarray(want), np.asarray(got)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "iub":
        bad = got != want
    else:
        g, w, f = got.astype("f8"), want.astype("f8"), ml_dtypes.finfo(want.dtype)
        with np.errstate(all="ignore"):
            near = np.abs(g - w) <= ULPS * float(f.eps) * np.abs(w) + 8 * float(f.smallest_subnormal)
        bad = ~((g == w) | (np.isnan(g) & np.isnan(w)) | (near & np.isfinite(g) & np.isfinite(w)))
        if zeros:
            bad |= (w == 0) & (g == 0) & (np.signbit(g) != np.signbit(w))
    k = int(np.argmax(bad)) if bad.size else 0
    return f"[{k}] is {got.ravel()[k]!r}, not {want.ravel()[k]!r}, and {int(bad.sum())} in all" if bad.any() else ""
