"""Values for the tensors of an instance: whole numbers near 0, any numbers, large, small and tiny ones (subnormal, or with a reciprocal
that overflows), zeros of both signs, infinities, NaN; integers over the whole range of their type; floats beside the ends of integer
types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

import ml_dtypes
import numpy as np

from autocomp.ir.types import BOOL, DType, TensorType
from autocomp.rewrite.attributes import limits

WHOLE, HALVES, NORMAL, SPECIAL, NAN, LARGE, SPREAD, POSITIVE = "whole", "halves", "normal", "special", "nan", "large", "spread", "positive"
SHIFTED, SCALED, EDGES, TIES, TINY, LARGEST, FULL, DENSE = "shifted", "scaled", "edges", "ties", "tiny", "largest", "full", "dense"
SMALL, ALIKE, FAINT, NEAR = "small", "alike", "faint", "near"
EXACT_KINDS = (WHOLE, SPECIAL, NORMAL, SPREAD, HALVES, POSITIVE, NAN, EDGES, TIES, TINY, LARGEST)
LOOSE_KINDS = (WHOLE, NORMAL, NAN, LARGE, HALVES, POSITIVE, SPECIAL, SHIFTED, SCALED, TINY, SMALL, ALIKE)
HALVED = (4, 8, 11, 11, 24, 24)  # digits of f8e4m3, bf16, f16 and f32 with the one in front
DYADIC = (WHOLE, HALVES)  # sums and products of a few of them are not rounded
SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0)
INFINITE = (0.0, -0.0, np.inf, -np.inf, 1.0, -2.0)
ENDS = (7, 8, 15, 16, 24, 31, 32, 53, 63)  # powers of two: integer types end there, or a float's whole numbers
LOUD = {"f64": 1e3, "f32": 1e3, "bf16": 1e3, "f8e4m3": 3.0, "f8e5m2": 3.0}  # large: exp() overflows, products of a few do not


REACH = {"f16": (-8, 9), "f8e4m3": (-5, 6), "f8e5m2": (-6, 7)}  # of powers of two in scaled values


def feed(
    rng: np.random.Generator, types: Mapping[str, TensorType], kind: str, exact: bool, least: Mapping[str, float] | None = None,
    power: int = 0, numbers: Sequence[float] = (),
) -> dict[str, np.ndarray]:
    """One array for each tensor. Scaled: each by a power of two of its own, so that products in another order may overflow. Tiny: those of
    `least` are not nearer to zero than that, or are zero, since a condition of the rule says so. Alike: magnitudes of 2^`power`. Near: at
    the rule's `numbers`, beside them, and between them and the next whole ones, of either sign."""
    out = {}
    for k, t in types.items():
        out[k] = near(rng, t, numbers) if kind == NEAR else array(rng, t, kind, exact)
        if kind == ALIKE and t.dtype.is_float:
            out[k] = (np.copysign(2.0**power * rng.uniform(1, 2, out[k].shape), out[k])).astype(t.dtype.numpy)
        if kind == SCALED and t.dtype.is_float:
            with np.errstate(all="ignore"):
                out[k] = (out[k].astype(np.float64) * 2.0 ** rng.integers(*REACH.get(t.dtype.name, (-20, 21)))).astype(t.dtype.numpy)
        if kind == TINY and least is not None and k in least:
            x = out[k].astype(np.float64)
            out[k] = np.where((x != 0) & (np.abs(x) < least[k]), np.copysign(least[k], x), x).astype(t.dtype.numpy)
    return out


def array(rng: np.random.Generator, t: TensorType, kind: str, exact: bool) -> np.ndarray:
    """Values of a kind. `exact`: NaN is among the special ones (else infinities alone: where infinities meet, what is regrouped may give
    another NaN)."""
    shape = tuple(int(d) for d in t.shape)  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        return (floats(rng, t.dtype, shape, kind, exact) if t.dtype.is_float else integers(rng, t.dtype, shape, kind)).astype(t.dtype.numpy)


def near(rng: np.random.Generator, t: TensorType, numbers: Sequence[float]) -> np.ndarray:
    """Values at numbers with which a rule compares, or at which it clips: its sides may differ there and nowhere else."""
    shape = tuple(int(d) for d in t.shape)  # type: ignore[arg-type]
    if t.dtype == BOOL:
        return array(rng, t, WHOLE, True)
    signed = rng.choice(np.asarray(numbers, np.float64), shape) * rng.choice((1, 1, 1, -1), shape)
    if not t.dtype.is_float:
        low, high = limits(t.dtype)
        inside = np.clip(signed, max(low, -(2**53)), min(high, 2**53)).astype(t.dtype.numpy)
        steps = rng.integers(-2, 3, shape)
        held = (inside >= low + 2) & (inside <= high - 2)
        return np.where(held, inside + steps.astype(t.dtype.numpy), inside).astype(t.dtype.numpy)
    beside = rng.choice((0.0, 0.0, 0.5, -0.5, 1.0, -1.0, 2.0), shape)
    beside = np.where(rng.random(shape) < 0.4, rng.uniform(-1, 1, shape), beside)
    last = 1 + float(t.dtype.eps) * np.where(rng.random(shape) < 0.2, rng.choice((-1, 1), shape), 0)
    with np.errstate(all="ignore"):
        return ((signed + beside) * last).astype(t.dtype.numpy)


def floats(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], kind: str, exact: bool) -> np.ndarray:
    if kind == WHOLE:
        return rng.integers(-3, 4, shape).astype(np.float64)
    if kind == FULL:
        return np.ones(shape)
    if kind == HALVES:
        return rng.integers(-7, 8, shape) / 2
    x = rng.standard_normal(shape)
    density = float(rng.choice((0.5, 0.25, 0.03)))
    if kind == SPECIAL:
        return np.where(rng.random(shape) < density, rng.choice(SPECIALS if exact else INFINITE, shape), x)
    if kind == DENSE:  # special ones alone, so that infinities meet
        return rng.choice(SPECIALS, shape)
    if kind == NAN:
        return np.where(rng.random(shape) < density, np.nan, x)
    if kind == LARGE:
        return x * LOUD.get(dtype.name, 30.0)
    if kind == POSITIVE:
        return np.abs(x) + 0.01
    if kind == SPREAD:
        reach = {"f64": 300, "f32": 37, "bf16": 37}.get(dtype.name, 4)
        return np.where(rng.random(shape) < 0.5, x, np.sign(x) * 10.0 ** rng.uniform(-reach - 1, reach, shape))
    if kind == SHIFTED:  # far from zero, close to each other: differences of sums of squares have no digits there
        return x + (LOUD.get(dtype.name, 30.0) if dtype.bits > 8 else 3.0)
    if kind == EDGES:
        edges = 2.0 ** rng.choice(ENDS, shape) + rng.choice((-1.0, 0.0, 1.0, 0.5), shape)
        return np.where(rng.random(shape) < 0.5, np.sign(x) * edges, x)
    if kind == LARGEST:  # twice these overflow, or just do not
        largest = np.sign(x) * float(ml_dtypes.finfo(dtype.numpy).max) * rng.choice((1.0, 0.75, 0.5, 0.25), shape)
        return np.where(rng.random(shape) < 2 * density, largest, x)
    if kind == FAINT:  # squares of them are less than the least number of the type, the sum of many is not
        return np.full(shape, 1.5 * 2.0 ** (log2(float(ml_dtypes.finfo(dtype.numpy).smallest_subnormal)) // 2 - 2))
    if kind == SMALL and dtype.bits > 8:  # beside them 1 is large: what is added to it and taken off again has lost its digits
        return x * 2.0 ** rng.integers(-12, -7)
    if kind == TINY:
        info = ml_dtypes.finfo(dtype.numpy)
        ends = log2(float(info.smallest_subnormal)), log2(float(info.smallest_normal)) + 2
        return np.where(rng.random(shape) < 2 * density, np.sign(x) * 2.0 ** rng.uniform(*ends, shape), x)
    if kind == TIES and dtype.bits == 16:  # sums of a few lie half way between two numbers, or beside by what f32 does not hold
        return np.sign(x) * 2.0 ** rng.choice((-12, 0, 12, 12, 12), shape) * (1 + rng.integers(0, 2, shape) * float(dtype.eps))
    if kind == TIES and dtype.bits > 16:  # half way between two numbers of a shorter type, or just beside
        return np.sign(x) * 2.0 ** rng.choice((-2, 0, 9), shape) * (1 + _beside(rng, shape, float(dtype.eps)))
    return x


def _beside(rng: np.random.Generator, shape: tuple[int, ...], least: float) -> np.ndarray:
    """Odd multiples of half a last place of a type with HALVED digits, and one `least` more or less."""
    half = np.maximum(2.0 ** -rng.choice(HALVED, shape), 2 * least)
    return half * (2 * rng.integers(0, 4, shape) + 1) + least * rng.integers(-1, 2, shape)


def integers(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Of an integer type or bool: a few small ones, the whole range, or its edges and their neighbours."""
    if kind == FULL:  # all alike, the greatest of the type
        return np.full(shape, 1 if dtype == BOOL else limits(dtype)[1], dtype.numpy)
    if dtype == BOOL:  # all of them false or true, or mixed
        return rng.random(shape) < rng.choice((0.0, 0.5, 0.5, 1.0))
    low, high = limits(dtype)
    if kind in (WHOLE, HALVES, POSITIVE):
        return rng.integers(0 if kind == POSITIVE else max(low, -3), 4, shape)
    if kind in (NORMAL, LARGE, NAN, SCALED) or (kind == TIES and (dtype.bits <= 16 or rng.random() < 0.5)):
        return rng.integers(low, high, shape, dtype=dtype.numpy, endpoint=True)
    if kind == TIES:
        ties = 2.0 ** rng.integers(dtype.bits - 8, dtype.bits - 2, shape) * (1 + _beside(rng, shape, 0.0))
        return (rng.choice((-1, 1), shape) if low else 1) * ties.astype(dtype.numpy) + rng.integers(0, 2, shape).astype(dtype.numpy)
    steps = (0, 1, 2, -1, -2, 127, 128, 200, 2**24, 2**24 + 1, 2**53, 2**53 + 1, high, high - 1, low, low + 1, high // 2, low // 2)
    edges = np.array([v for v in steps if low <= v <= high], dtype.numpy)
    return rng.choice(edges, shape)
