"""Attributes and partners drawn at random, by what ops take: a permutation of the operand's axes, borders of a window, a second factor.

What is drawn need not fit: the op's own type rule decides that, and a draw that it refuses is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from autocomp.ir.ops import OPS
from autocomp.ir.scalar import SCALAR
from autocomp.ir.types import BOOL, DTYPES, I32, I64, DType, TensorType, widens
from autocomp.rewrite.functions import channels_first, channels_last

Rng = np.random.Generator
Shape = tuple[int, ...]
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -2.5, 8.0, 0.125, 1 / 3, 7.0, 100.0, 1e-3, 1e-5, -0.0)
FILTERED = ("conv", "conv_direct", "conv_spread", "conv_transpose")
WINDOWED = (*FILTERED, "maxpool", "maxpool_index", "sumpool", "avgpool", "patches")
MOST = 4096  # elements of a drawn tensor


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    """One of some values, whatever they are."""
    return values[int(rng.integers(len(values)))]


def chance(rng: Rng, p: float) -> bool:
    return bool(rng.random() < p)


@dataclass(frozen=True)
class Palette:
    """What one instance is drawn from: few extents, so that tensors fit each other, one rank and one dtype."""

    extents: tuple[int, ...]
    rank: int
    dtype: DType

    def shape(self, rng: Rng, rank: int) -> Shape:
        return tuple(pick(rng, self.extents) for _ in range(rank))


def number(rng: Rng, dtype: DType, more: Sequence[float] = ()) -> float:
    """A number of a dtype: common ones, those in `more`, and now and then an extreme one."""
    if dtype.is_float:
        if chance(rng, 0.25):
            info = np.finfo(dtype.numpy) if dtype.numpy in (np.float16, np.float32, np.float64) else None
            tiny, most = (float(info.tiny), float(info.max)) if info else (2.0**-126, 2.0**100)
            if dtype.bits == 8:
                tiny, most = 2.0**-6, 448.0
            return float(pick(rng, (tiny, tiny / 4, -tiny / 4, tiny / 2, most, most / 2, tiny * 8, np.inf, -np.inf, np.nan)))
        return float(pick(rng, (*NUMBERS, *more, *between(more))))
    if dtype == BOOL:
        return float(pick(rng, (0, 1)))
    low, high = limits(dtype)
    near = (int(m) for m in (*more, *between(more)) if abs(m) < 2**31)
    values = [v for v in (0, 1, 2, 3, 7, 8, 16, 100, -1, -3, low, high, *near) if low <= v <= high]
    return float(pick(rng, values))


def between(numbers: Sequence[float]) -> tuple[float, ...]:
    """Numbers beside those of a rule and half way between them: where a condition holds for a range, both ends are not all of it."""
    near = (v for m in numbers for v in (m * 0.97, m * 1.03, m - 1, m + 1))
    margins = [b for b in numbers if 0 < b < 0.1]  # by which a condition lets a number be off
    off = (m + s * b for m in numbers for b in margins if b < abs(m) for s in (0.5, -0.5))
    return (*near, *off, *(v for a, b in pairwise(sorted(numbers)) for v in ((a + b) / 2, (3 * a + b) / 4)))


def limits(dtype: DType) -> tuple[int, int]:
    """The least and greatest number of an integer dtype."""
    return (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1) if dtype.kind == "i" else (0, 2**dtype.bits - 1)


# ---- shapes
def regrouped(rng: Rng, shape: Shape) -> Shape:
    """Another shape of as many elements: axes merged, split, or of one element."""
    total, kind = prod(shape), int(rng.integers(5))
    if kind == 0:
        return shape
    if kind == 1:
        return (total,)
    out: list[int] = []
    if kind == 2:
        rest = total
        for _ in range(int(rng.integers(1, 4))):
            d = pick(rng, [k for k in range(1, min(rest, 12) + 1) if rest % k == 0])
            out.append(d)
            rest //= d
        out.append(rest)
        return tuple(int(x) for x in rng.permutation(out))
    for d in shape:
        split = [k for k in range(2, d) if d % k == 0]
        if split and chance(rng, 0.5):
            k = pick(rng, split)
            out += [k, d // k]
        elif out and chance(rng, 0.4):
            out[-1] *= d
        else:
            out.append(d)
    if kind == 4:
        out.insert(int(rng.integers(len(out) + 1)), 1)
    return tuple(out)


def beside(rng: Rng, shape: Shape, palette: Palette) -> Shape:
    """A shape that mostly broadcasts with `shape`: the same, shorter, with ones, one extent alone at any place, or one axis more."""
    kind = rng.random()
    if kind < 0.4:
        return shape
    if kind < 0.5:
        return ()
    if kind < 0.62:
        return shape[int(rng.integers(len(shape) + 1)) :]
    if kind < 0.74:
        return tuple(1 if chance(rng, 0.5) else d for d in shape[int(rng.integers(len(shape) + 1)) if chance(rng, 0.3) else 0 :])
    if kind < 0.84 and shape:
        rank = len(shape) + int(rng.integers(-1, 2))
        at = int(rng.integers(max(rank, 1)))
        return tuple(pick(rng, shape) if k == at else 1 for k in range(rank))
    return (1 if chance(rng, 0.5) else pick(rng, palette.extents), *(d if d > 1 else pick(rng, palette.extents) for d in shape))


# ---- partners
def partner(rng: Rng, op: str, place: int, known: Mapping[int, TensorType], attrs: Mapping[str, Any], palette: Palette) -> TensorType:
    """A type for operand `place` of an op, some of its others being known."""
    other = next(iter(known.values()), None)
    if op == "where" and place == 0:
        return TensorType(BOOL, beside(rng, other.shape if other else palette.shape(rng, palette.rank), palette))  # type: ignore[arg-type]
    if op in ("gather", "gather_elements", "gather_nd") and place == 1:
        shape = other.shape if op == "gather_elements" and other else palette.shape(rng, int(rng.integers(0, 3)))
        return TensorType(pick(rng, (I64, I32)), shape)
    if op == "sum_at" and other:
        along = tuple(d if k == attrs.get("axis", 0) else 1 for k, d in enumerate(other.shape))
        shape = other.shape if place or chance(rng, 0.5) else along
        return TensorType(palette.dtype if place else pick(rng, (I64, I32)), shape)
    if other is None:
        least = 3 if op in WINDOWED else 1 if op in ("matmul", "concat") or "axes" in OPS[op].attrs or "axis" in OPS[op].attrs else 0
        rank = max(palette.rank, least)
        if op == "transpose" and rank < 2 and chance(rng, 0.9):
            rank = 2
        return TensorType(palette.dtype, palette.shape(rng, rank))
    s: Shape = other.shape  # type: ignore[assignment]
    if op in SCALAR:
        if op == "where":
            values = [t for k, t in known.items() if k > 0]
            return TensorType(values[0].dtype if values else palette.dtype, beside(rng, s, palette))
        return TensorType(other.dtype, beside(rng, s, palette))
    if op in ("matmul", "softmax_weighted_sum"):
        return TensorType(other.dtype, _factor(rng, place, s, palette))
    if op in FILTERED:
        return TensorType(other.dtype, _window(rng, op, place, s, attrs, palette))
    if op == "concat" and s:
        axis = attrs.get("axis", 0)
        return TensorType(other.dtype, tuple(pick(rng, palette.extents) if k == axis else d for k, d in enumerate(s)))
    if op == "einsum" and "->" in str(attrs.get("spec")):
        letters = attrs["spec"].replace(" ", "").partition("->")[0].split(",")
        size = dict(zip(letters[1 - place], s))
        return TensorType(other.dtype, tuple(size.get(c, pick(rng, palette.extents)) for c in letters[place]))
    if op in ("layer_norm", "rms_norm"):
        return TensorType(other.dtype, s[int(rng.integers(len(s) + 1)) :])
    if op == "batch_norm":
        return TensorType(other.dtype, s[1:2])
    return other


def _factor(rng: Rng, place: int, s: Shape, palette: Palette) -> Shape:
    n = pick(rng, palette.extents)
    batch = s[:-2] if chance(rng, 0.6) else () if chance(rng, 0.7) else tuple(1 if chance(rng, 0.5) else d for d in s[:-2])
    if chance(rng, 0.2):
        batch = (pick(rng, palette.extents), *batch)
    if not s:
        return (n,)
    if place == 1:
        return (s[-1],) if chance(rng, 0.12) else (*batch, s[-1], n)
    k = s[-2] if len(s) > 1 else s[0]
    return (k,) if chance(rng, 0.12) else (*batch, n, k)


def _window(rng: Rng, op: str, place: int, s: Shape, attrs: Mapping[str, Any], palette: Palette) -> Shape:
    """Weights for data (place 1), or data for weights."""
    layout, g = attrs.get("layout", "nchw"), attrs.get("groups", 1)
    if len(s) < 3 or not isinstance(g, int) or g < 1:
        return s
    rank = len(s) - 2
    if place == 1:
        c, window = (s[1] if layout == "nchw" else s[-1]), tuple(pick(rng, (1, 2, 3, 3)) for _ in range(rank))
        o = g * int(rng.integers(1, 4))
        if op == "conv_transpose":
            return (c, o // g, *window)
        per = c // g
        return {"nchw": (o, per, *window), "nhwc": (*window, per, o)}.get(layout, (o, *window, per))
    per = {"nchw": s[1], "nhwc": s[-2]}.get(layout, s[-1])
    space = tuple(int(rng.integers(3, 8)) for _ in range(rank))
    n = pick(rng, (1, 2))
    return (n, per * g, *space) if layout == "nchw" else (n, *space, per * g)


# ---- attributes
def early(rng: Rng, op: str, known: Mapping[int, TensorType], palette: Palette) -> dict[str, Any]:
    """Attributes on which the types of further operands depend."""
    out: dict[str, Any] = {}
    if "groups" in OPS[op].attrs:
        c = known[0].shape[1] if 0 in known and known[0].rank > 1 else 1
        last = known[0].shape[-1] if 0 in known and known[0].rank > 1 else 1
        out["groups"] = pick(rng, (1, 1, 2, 3, c, last))
    if op == "concat":
        rank = max((t.rank for t in known.values()), default=palette.rank)
        out["axis"] = int(rng.integers(max(rank, 1)))
    if op == "einsum":
        out["spec"] = pick(rng, ("ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "ij,jk->ki", "bij,jk->bik", "i,j->ij", "ij,ij->i"))
    return out


def attributes(rng: Rng, op: str, types: Sequence[TensorType], palette: Palette) -> dict[str, Any]:
    """Attributes of an op over operands of these types. Draws for every attribute that this file knows of."""
    names, s = OPS[op].attrs, (types[0].shape if types else ())
    rank = len(s)
    out: dict[str, Any] = {}
    if op == "transpose":
        out["perm"] = _perm(rng, rank)
    elif op == "reshape":
        out["shape"] = regrouped(rng, s)  # type: ignore[arg-type]
    elif op == "broadcast":
        lead = palette.shape(rng, pick(rng, (0, 1, 1, 2)))
        out["shape"] = (*lead, *(pick(rng, palette.extents) if d == 1 and chance(rng, 0.6) else d for d in s))
    elif op == "slice":
        out |= _slice(rng, s)  # type: ignore[arg-type]
    elif op.startswith("pad"):
        low = -1 if chance(rng, 0.25) else 0
        out |= {k: tuple(int(rng.integers(low, 3)) for _ in s) for k in ("lo", "hi")} | {
            "value": number(rng, types[0].dtype) if types[0].dtype.is_float else pick(rng, (0, 0, 1, 3))
        }
    elif op in WINDOWED:
        out |= _windows(rng, op, types, chance(rng, 0.2))
    elif op == "tile":
        out["repeats"] = tuple(pick(rng, (1, 1, 2, 3)) for _ in s)
    elif op in ("topk", "radix_topk"):
        axis = int(rng.integers(max(rank, 1)))
        out |= {"axis": axis, "k": int(rng.integers(1, int(s[axis]) + 1)) if rank else 1, "part": pick(rng, ("values", "indices"))}  # type: ignore[arg-type]
    elif "axes" in names:
        out["axes"] = _axes(rng, rank, op.startswith("reduce_arg"))
    if "axis" in names and "axis" not in out:
        out["axis"] = int(rng.integers(max(rank, 1)))
    for k in ("keepdims", "exclusive", "reverse", "largest", "count_include_pad", "column_major"):
        if k in names:
            out[k] = chance(rng, 0.5)
    if "to" in names:
        out["to"] = pick(rng, tuple(DTYPES))
    if "part" in names and "part" not in out:
        out["part"] = pick(rng, ("mean", "var") if op == "welford" else ("m", "l"))
    if op == "sum_at" and len(types) > 1:  # sums may be wider than their terms, which wrap or overflow before they are
        out["dtype"] = pick(rng, tuple(k for k, d in DTYPES.items() if widens(types[1].dtype, d)))
    if "eps" in names:
        out["eps"] = pick(rng, (1e-5, 1e-3, 0.0, 0.5))
    rest = {"size": pick(rng, (1, 2, 3, 5)), "depth": pick(rng, palette.extents), "dtype": palette.dtype.name,
            "reduction": pick(rng, ("none", "add", "max"))}  # fmt: skip
    return {k: v for k, v in rest.items() if k in names} | out


def _perm(rng: Rng, rank: int) -> tuple[int, ...]:
    kind = int(rng.integers(8))
    if kind == 0:
        return tuple(range(rank))
    if rank >= 3 and kind in (1, 2):
        return channels_first(rank) if kind == 1 else channels_last(rank)
    if rank >= 2 and kind == 3:
        return (*range(rank - 2), rank - 1, rank - 2)
    return tuple(int(x) for x in rng.permutation(rank))


def _axes(rng: Rng, rank: int, one: bool) -> tuple[int, ...]:
    if not rank:
        return ()
    kind = int(rng.integers(4))
    if one or kind == 0:
        return (int(rng.integers(rank)),)
    if kind == 1:
        return (rank - 1,)
    chosen = rng.permutation(rank)[: int(rng.integers(1, rank + 1))]
    return tuple(int(a) for a in (np.sort(chosen) if chance(rng, 0.7) else np.sort(chosen)[::-1] if chance(rng, 0.6) else chosen))


def _slice(rng: Rng, s: Shape) -> dict[str, Any]:
    starts, ends, steps = [], [], []
    for d in s:
        kind = int(rng.integers(4))
        if kind == 0:
            a, b, k = 0, d, 1
        elif kind == 1 and d:
            a, b, k = d - 1, -1, -1
        else:
            a = int(rng.integers(d)) if d else 0
            b, k = int(rng.integers(a + 1, d + 1)) if d else 0, pick(rng, (1, 1, 2, 3))
        starts.append(a)
        ends.append(b)
        steps.append(k)
    return {"starts": tuple(starts), "limits": tuple(ends), "steps": tuple(steps)}


def _windows(rng: Rng, op: str, types: Sequence[TensorType], plain: bool) -> dict[str, Any]:
    n = max(types[0].rank - 2, 0)
    some = lambda *values: tuple(pick(rng, values) for _ in range(n))
    out: dict[str, Any] = {
        "strides": some(1, 1, 2, 3),
        "spread": some(1, 2, 2, 3),
        "dilations": some(1, 1, 1, 2),
        "lo": some(0, 1, 2, 0, 1, -1),
        "hi": some(0, 1, 2, 0, 1, -1),
    }
    if plain:
        out |= {"strides": (1,) * n, "dilations": (1,) * n, "lo": (0,) * n, "hi": (0,) * n}
    return out | {"window": some(1, 2, 3), "layout": pick(rng, ("nchw", "nhwc"))}
