"""Monoids: what a reduction folds with. A monoid is a base and modules, as data.

Base: plain reductions (state, scalar function, lift). Module: a sum that lives relative to the base and can be moved to
another base value (state, lift, rebase). One rule makes every step, over a tile or over a looped axis:

    m1 = m op reduce_r lift_m            x1 = rebase(x, m -> m1) + sum_r rebase(lift_x, lift_m -> m1)

The combination of two partial states is the same with both sides rebased. `pick`: states that follow the winner of the
base (arg-max's index). Expressions are infix over the operands' names, the states, and `<state>1` for a state's new value.
Source of the formulation of (max, sum-exp): Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from autocomp.ir.types import BOOL, DType, dtype_of


@dataclass(frozen=True)
class Monoid:
    """`operands` names what is folded; `finish` gives the value of the whole from the states.

    `tells`: the module that sums nothing but weights, none of them negative: its sum in one step is no less than any of them, so while
    it is moderate the base may stay behind and nothing overflows.
    `exact`: combining in any order gives the same bits (max, integers), not only the same real number.
    `bounded`: the base stays within the finite numbers, so that sums over nothing but infinite values (keys that are all masked) are 0.
    """

    name: str
    operands: tuple[str, ...]
    base: tuple[tuple[str, str, str], ...]
    modules: tuple[tuple[str, str, str], ...] = ()
    pick: tuple[tuple[str, str], ...] = ()
    finish: str = ""
    exact: bool = False
    tells: str = ""
    bounded: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(s for s, *_ in (*self.base, *self.modules, *self.pick))


# Chan, Golub and LeVeque 1979: a part's squared deviations moved from its own mean s/n to the whole's, s1/n1.
_CHAN = "x + n * (s / max(n, 1) - s1 / max(n1, 1)) * (s / max(n, 1) - s1 / max(n1, 1))"

MONOIDS: dict[str, Monoid] = {
    m.name: m
    for m in (
        Monoid("sum", ("v",), (("s", "add", "v"),), finish="s"),
        Monoid("prod", ("v",), (("s", "mul", "v"),), finish="s"),
        Monoid("max", ("v",), (("m", "max", "v"),), finish="m", exact=True),
        Monoid("min", ("v",), (("m", "min", "v"),), finish="m", exact=True),
        Monoid("any", ("v",), (("m", "or", "v"),), finish="m", exact=True),
        Monoid("all", ("v",), (("m", "and", "v"),), finish="m", exact=True),
        Monoid("argmax", ("v", "i"), (("m", "max", "v"),), pick=(("i", "i"),), finish="i", exact=True),
        Monoid("argmin", ("v", "i"), (("m", "min", "v"),), pick=(("i", "i"),), finish="i", exact=True),
        Monoid("max_sumexp", ("v",), (("m", "max", "v"),), (("l", "1", "x * exp(m - m1)"),), finish="l", tells="l"),
        Monoid("softmax_weighted", ("v", "w"), (("m", "max", "v"),),
               (("l", "1", "x * exp(m - m1)"), ("o", "w", "x * exp(m - m1)")), finish="o / l", tells="l"),
        Monoid("masked_softmax_weighted", ("v", "w"), (("m", "max", "v"),),  # some weight is 1, or all are 0
               (("l", "1", "x * exp(m - m1)"), ("o", "w", "x * exp(m - m1)")), finish="o / max(l, 0.5)", tells="l", bounded=True),
        Monoid("welford", ("v",), (("n", "add", "1"), ("s", "add", "v")), (("M2", "0", _CHAN),), finish="M2 / n"),
        Monoid("welford_counted", ("v", "k"),  # k: 1, or 0 for what is no element, whose v is 0
               (("n", "add", "k"), ("s", "add", "v")), (("M2", "0", _CHAN),), finish="M2 / n"),
    )
}  # fmt: skip


def identity(fn: str, dtype: DType) -> float | int | bool:
    """The neutral element of a base operation (add, mul, max, min, or, and)."""
    if fn == "add":
        return 0
    if fn == "mul":
        return 1
    if fn in ("or", "and"):
        return fn == "and"
    if dtype == BOOL:
        return fn == "min"
    if dtype.is_float:
        endless = bool(np.isinf(np.float64("inf").astype(dtype.numpy)))  # not f8e4m3, in which it would be NaN
        return (float("-inf") if fn == "max" else float("inf")) if endless else bound(fn, dtype)
    info = np.iinfo(dtype.numpy)
    return int(info.min if fn == "max" else info.max)


def neutral(fn: str, dtype: DType) -> float | int | bool:
    """The same as a number of the type: 0.0 where floats are added."""
    x = identity(fn, dtype)
    return float(x) if dtype.is_float else x


def start(m: Monoid, fn: str, dtype: DType) -> float | int | bool:
    """What a carried base state starts from. Modules rebase by a difference of base values, so where the identity is infinite
    the largest finite number of that sign stands in: a first tile that is all -inf (masked) then never forms inf - inf.
    """
    neutral = identity(fn, dtype)
    return neutral if not m.modules or not np.isinf(neutral) else bound(fn, dtype)


def bound(fn: str, dtype: DType) -> float:
    """The finite number next to the neutral element of a maximum or a minimum."""
    limit = ml_dtypes.finfo(dtype.numpy)
    return float(limit.min if fn == "max" else limit.max)


def fold(name: str, operands: tuple[np.ndarray, ...], axes: tuple[int, ...], part: str, dtype: Any) -> np.ndarray:
    """NumPy meaning: reduce arrays (broadcast against each other) over `axes`, kept as 1. `part` names a state, "" the result."""
    v = operands[0]
    if name in ("sum", "prod"):
        return (np.sum if name == "sum" else np.prod)(v, axis=axes, keepdims=True, dtype=dtype)
    if name in ("max", "min"):
        fn = np.max if name == "max" else np.min
        return fn(v, axis=axes, keepdims=True, initial=identity(name, dtype_of(v)))
    if name in ("any", "all"):
        return (np.any if name == "any" else np.all)(v, axis=axes, keepdims=True)
    if name in ("argmax", "argmin"):
        best = (np.max if name == "argmax" else np.min)(v, axis=axes, keepdims=True)
        if part == "m":
            return best
        wins = (v == best) | (np.isnan(v) if v.dtype.kind == "f" else False)
        i = np.broadcast_to(operands[1], v.shape)
        return np.min(np.where(wins, i, np.iinfo(np.int64).max), axis=axes, keepdims=True)
    if name in ("welford", "welford_counted"):
        k = np.broadcast_to(operands[1] if len(operands) > 1 else np.ones((), v.dtype), v.shape)
        n = np.sum(k, axis=axes, keepdims=True, dtype=dtype)
        s = np.sum(v, axis=axes, keepdims=True, dtype=dtype)
        if part in ("n", "s"):
            return n if part == "n" else s
        m2 = np.sum(k * (v - s / np.maximum(n, 1)) ** 2, axis=axes, keepdims=True)
        return m2 if part == "M2" else m2 / n
    m = np.max(v, axis=axes, keepdims=True)
    if part == "m":
        return m
    e = np.exp(v - np.where(np.isinf(m), 0, m))
    l = np.sum(e, axis=axes, keepdims=True)
    if name == "max_sumexp" or part == "l":
        return l
    o = _weighted(e, operands[1], axes)
    return o if part == "o" else o / (np.maximum(l, l.dtype.type(0.5)) if MONOIDS[name].bounded else l)


def _weighted(e: np.ndarray, w: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """sum over axes of e * w without forming the product when one axis is reduced."""
    if len(axes) != 1:
        return np.sum(e * w, axis=axes, keepdims=True)
    n = e.ndim
    ea = [k for k in range(n) if e.shape[k] > 1 or k in axes]
    wa = [k for k in range(n) if w.shape[k] > 1 or k in axes]
    out = [k for k in range(n) if k not in axes and (e.shape[k] > 1 or w.shape[k] > 1)]
    shape = [max(e.shape[k], w.shape[k]) if k in out else 1 for k in range(n)]
    return np.einsum(
        e.reshape([e.shape[k] for k in ea]), ea, w.reshape([w.shape[k] for k in wa]), wa, out, optimize=True
    ).reshape(shape)
