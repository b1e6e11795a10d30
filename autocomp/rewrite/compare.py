"""Both sides of a rule on one instance and one set of values: do they agree as far as the rule says that they do?

Values are computed node by node in double precision and rounded to each node's own type, so that sums of the same terms are the same
number whatever order a BLAS takes them in. An exact rule agrees to the last bit, on NaN, infinities and signed zeros too (where an op
says which zero it gives). With `exact: false` the right side may be off by what the left side's own roundings can do to it, found by
disturbing each of its values by half a unit in the last place; it may make no NaN or infinity of its own, keeps NaN, and gains no room
from being computed in a narrower type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod, sqrt
from typing import Any

import ml_dtypes
import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.away_from_zero import normal
from autocomp.ir.body import Contract, Reduce, postorder
from autocomp.ir.node import Graph, Node
from autocomp.ir.ops import OPS
from autocomp.ir.ops.data import indexed
from autocomp.ir.types import BOOL, DTYPES, F8E4M3, F64, DType
from autocomp.rewrite.attributes import limits
from autocomp.rewrite.expr import Call, Ref
from autocomp.rewrite.feeds import (
    ALIKE,
    DENSE,
    DYADIC,
    HALVES,
    LARGE,
    LARGEST,
    NAN,
    NEAR,
    NORMAL,
    POSITIVE,
    SCALED,
    SHIFTED,
    SPECIAL,
    SPREAD,
    TIES,
    TINY,
    WHOLE,
    feed,
)
from autocomp.rewrite.instance import Instance, Uniform
from autocomp.rewrite.where import evaluate

SAFETY = 8.0  # of the bound from lengths of sums
MOVED = 16.0  # times what disturbed values move the left side
DISTURBED = 6
AT_STEPS = 32  # where a disturbance may step over an edge or not; values drawn of STEADY kinds lie near one by chance alone
UNIT = 2.0**-20  # by which inputs are moved there
SHIFTS, DIVISIONS = ("shl", "shr"), ("idiv", "floordiv", "mod", "fmod")
STEADY = (NORMAL, LARGE, POSITIVE, NEAR)
MOST_NUMBER = 2.0**40  # beyond it what is near a number of the rule overflows in products
STEPS = frozenset({"floor", "ceil", "round", "trunc", "sign", "mod", "fmod", "floordiv", "idiv", "reduce_argmax", "reduce_argmin",
                   "maxpool_index", "topk", "radix_topk"})  # fmt: skip
FOLDS = ("reduce_sum", "reduce_prod", "cumsum", "cumprod")  # two terms of them have one order, and no product is fused into them
ADDING = frozenset({"add", "sub", "mod", "fmod", "silu", "softplus", "gelu", "gelu_tanh", "mish", "expm1", "pow"})
ZERO_OF_TWO = frozenset({"max", "min", "relu"})  # which zero they give of zeros of both signs is not said
ZEROS_EITHER_WAY = frozenset({"sign", "mod", "fmod", "pow"})  # nor which one these give


class Undefined(Exception):
    """An op has no meaning for these values (a division of integers by zero); the message says which."""


@dataclass(frozen=True)
class Difference:
    """Where the sides differ, in words."""

    text: str


def compare_sides(x: Instance, right: Node, seed: int, kind: str, finite: bool = False) -> Difference | None:
    """None if the sides agree on values of one kind. Raises Undefined where the left side has no meaning for any of a few draws."""
    inputs = {str(n.attrs["name"]): n.type for n in x.b.inputs}
    exact, least = x.rule.exact, _least(x) if kind == TINY else {}
    numbers = _numbers(x.left, right) if kind == NEAR else ()
    if kind == NEAR and not numbers:
        raise Undefined("no number is compared with")
    for attempt in range(3):
        rng = np.random.default_rng((seed, attempt)) if attempt else np.random.default_rng(seed)
        fed = feed(rng, inputs, kind if attempt < 2 else POSITIVE, exact, least, _power(rng, x.left) if kind == ALIKE else 0, numbers)
        fed = defined(rng, x.left, in_range(rng, x.left, fed) if attempt == 1 else fed)
        try:
            lefts = values(x.left, fed)
            break
        except Undefined:
            if attempt == 2:
                raise
    try:
        rights = values(right, fed, whole=_factors(right) if kind == SCALED else frozenset())
    except Undefined as e:
        return Difference(f"the right side is undefined: {e}{_shown(fed)}")
    a, b = lefts[id(x.left)], rights[id(right)]
    bad = _different(x, right, lefts, rights, fed, kind)
    if finite and kind in (NAN, SPECIAL, DENSE):
        bad = bad & np.isfinite(_double(a)) & np.isfinite(_double(b))
    if not bad.any():
        return None
    at = tuple(int(i[0]) for i in np.nonzero(bad)) if bad.ndim else ()
    return Difference(f"element {list(at)}: left {_item(a[at])}, right {_item(b[at])}{_shown(fed)}")


def defined(rng: np.random.Generator, left: Node, fed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Values with those of inputs that integers are shifted by, or divided by, or that are indices, such that most have a meaning: a shift
    by each place of the type, the first and the last among them, no zero as a divisor, indices of elements that are there: all of a
    scatter's, which has no meaning else, most of others'."""
    for n in below(left):
        if (found := indexed(n)) is not None and found[0].op in ("input", "param"):
            name, most = str(found[0].attrs["name"]), min((int(d) for d in found[1]), default=0)  # type: ignore[arg-type]
            v = fed[name]
            inside = rng.integers(-most if v.dtype.kind == "i" else 0, most, v.shape) if most else v
            fed[name] = np.where(rng.random(v.shape) < (1.0 if n.op.startswith("scatter") else 0.75), inside, v).astype(v.dtype)
        if n.op not in (*SHIFTS, *DIVISIONS) or not n.type.dtype.is_int or n.inputs[1].op not in ("input", "param"):
            continue
        name, bits = str(n.inputs[1].attrs["name"]), n.type.dtype.bits
        v = fed[name]
        if n.op in SHIFTS:
            places = np.where(rng.random(v.shape) < 0.5, rng.integers(0, bits, v.shape), rng.choice((0, 1, bits - 2, bits - 1), v.shape))
            fed[name] = places.astype(v.dtype)
        else:
            fed[name] = np.where(v == 0, np.ones((), v.dtype), v)
    return fed


def in_range(rng: np.random.Generator, left: Node, fed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Values with those of floats that are cast to an integer type such that it holds them: all over its range, and at its ends."""
    for n in below(left):
        if n.op != "cast" or not n.type.dtype.is_int or not n.inputs[0].type.dtype.is_float:
            continue
        low, high = limits(n.type.dtype)
        for i in below(n):
            if i.op in ("input", "param") and i.type.dtype.is_float:
                v = fed[str(i.attrs["name"])]
                some = np.where(rng.random(v.shape) < 0.5, rng.uniform(low, high, v.shape), rng.choice((low, high // 2 + 1, high), v.shape))
                with np.errstate(all="ignore"):
                    held = some.astype(v.dtype).astype(np.float64)
                fed[str(i.attrs["name"])] = np.where((held >= low) & (held <= high), held, 1.0).astype(v.dtype)
    return fed


def _numbers(left: Node, right: Node) -> tuple[float, ...]:
    """Those that stand as tensors in either side, less 0 and what is beyond MOST_NUMBER."""
    held = {float(n.attrs["value"]) for side in (left, right) for n in below(side) if n.op == "const" and n.type.dtype != BOOL}  # type: ignore[arg-type]
    return tuple(sorted(v for v in held if v and abs(v) <= MOST_NUMBER))


def _factors(side: Node) -> frozenset[int]:
    """Products of f8e4m3 that sums take: kernels multiply and add in one instruction, and what is more than 448 on the way is held."""
    summed = {id(i) for n in below(side) if n.op == "reduce_sum" for i in n.inputs}
    return frozenset(id(n) for n in below(side) if n.op == "mul" and n.type.dtype == F8E4M3 and id(n) in summed)


def _power(rng: np.random.Generator, left: Node) -> int:
    """Of two: a magnitude for all values, of the type with the least range that is computed."""
    types = {n.type.dtype for n in below(left) if n.type.dtype.is_float}
    info = min((ml_dtypes.finfo(d.numpy) for d in types), key=lambda i: i.maxexp, default=ml_dtypes.finfo(np.float32))
    return int(rng.integers(int(info.minexp) + 2, int(info.maxexp) - 1))


def _clear(x: Instance, fed: Mapping[str, np.ndarray]) -> bool:
    """Whether the left side stays in the range of its types also where all values are ROOM times as large, or as small. Where it is 0
    everywhere (windows of a border alone) it does not say."""
    nodes = [n for n in below(x.left) if n.type.dtype.is_float]
    if any(n.type.dtype.bits == 8 for n in nodes):
        return False
    room = 16.0 if any(n.type.dtype.numpy == np.float16 for n in nodes) else 4096.0
    zeros = []
    for by in (1.0, room, 1 / room):
        with np.errstate(all="ignore"):
            other = {k: (v.astype(np.float64) * by).astype(v.dtype) if v.dtype.kind not in "iub" else v for k, v in fed.items()}
        try:
            found = values(x.left, other)
        except Undefined:
            return False
        magnitudes = [np.abs(_double(found[id(n)])) for n in nodes]
        if x.left.type.dtype.is_float and not found[id(x.left)].any():
            return False
        if not all(np.isfinite(v).all() and ((v == 0) | (v >= normal(n.type.dtype))).all() for n, v in zip(nodes, magnitudes)):
            return False
        zeros.append([v == 0 for v in magnitudes])
    return all(np.array_equal(a, b) for other in zeros[1:] for a, b in zip(zeros[0], other, strict=True))


def _least(x: Instance) -> dict[str, float]:
    """How near zero the conditions let tensors be: those with `invertible(d, ?y)`."""
    asked = (c for c in x.rule.where if isinstance(c, Call) and c.name == "invertible")
    return {c.args[1].name: normal(DTYPES[evaluate(c.args[0], x.env)]) for c in asked if isinstance(c.args[1], Ref)}


def _item(v: Any) -> str:
    return repr(v.item() if hasattr(v, "item") else v)


def _shown(fed: Mapping[str, np.ndarray]) -> str:
    return "".join(f"; ?{k} = {v.tolist()}" for k, v in fed.items()) if sum(v.size for v in fed.values()) <= 12 else ""


# ---- evaluation
@lru_cache(maxsize=64)
def below(root: Node) -> tuple[Node, ...]:
    """The nodes of an expression, operands first."""
    return Graph("", (), (("y", root),)).nodes()


def values(
    root: Node, fed: Mapping[str, np.ndarray], disturb: np.random.Generator | None = None, unit: float = 0.0, zero: float | None = None,
    whole: frozenset[int] = frozenset(),
) -> dict[int, np.ndarray]:
    """The value of every node below `root`, each in its own type. Raises Undefined.

    disturb: every float is moved by up to half a unit in the last place of its type; inputs by `unit`, relative to themselves.
    zero: what the larger and the smaller of 0.0 and -0.0 are. whole: nodes that are not rounded.
    """
    out: dict[int, np.ndarray] = {}
    for n in below(root):
        if n.op in ("input", "param"):
            v = np.asarray(fed[str(n.attrs["name"])])
            if disturb is not None and n.type.dtype.is_float:
                v = v.astype(np.float64) * (1 + unit * disturb.uniform(-1, 1, v.shape))
        else:
            args = tuple(out[id(i)] for i in n.inputs)
            v = _value(n, args, disturb, id(n) in whole)
            if zero is not None and n.op in ZERO_OF_TWO and n.type.dtype.is_float:
                v = _with_zero(v, args, zero)
        out[id(n)] = v
    return out


def _value(n: Node, args: Sequence[np.ndarray], disturb: np.random.Generator | None, whole: bool = False) -> np.ndarray:
    if n.op == "const":
        return np.asarray(n.attrs["value"], n.type.dtype.numpy)
    if disturb is None:
        _require_defined(n, args)
    wide = tuple(a.astype(np.float64) if a.dtype.kind not in "iub" else a for a in args)
    with np.errstate(all="ignore"):
        try:
            v = np.asarray(OPS[n.op].reference(wide, n.attrs, n.type))
        except (ModelError, IndexError, OverflowError, ValueError, TypeError) as e:
            raise Undefined(f"{n.op}: {e}") from None
        if not n.type.dtype.is_float:
            return v.astype(n.type.dtype.numpy, copy=False)
        if disturb is not None:
            return _disturbed(n.type.dtype, v.astype(np.float64), disturb) if _rounds(n) else v.astype(np.float64)
        return v if whole else v.astype(n.type.dtype.numpy)


def _disturbed(d: DType, v: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Values off by up to half a unit in the last place of a type, of f64 by a whole one, as nothing between is held here; what has lost
    digits below the normal numbers of f32 and f64, or is zero, by the least number (those of shorter types are a model's own)."""
    least = normal(d) if d.bits >= 32 else _smallest(d) / 8
    half = d.eps / 2 * rng.uniform(-1, 1, v.shape) if d != F64 else d.eps * rng.choice((-1.0, 1.0), v.shape)
    way = np.where(v == 0, rng.choice((-1, 1), v.shape), rng.choice((0, 1), v.shape) * np.sign(v))  # a root of what is left has a sign
    return np.asarray(v * (1 + half) + np.where(np.abs(v) < least, _smallest(d) / 4 * way, 0.0))


def _zero_either_way(n: Node) -> bool:
    return n.op in ZEROS_EITHER_WAY or (n.op.startswith("scatter") and n.attrs.get("reduction") in ("max", "min"))


def _with_zero(v: np.ndarray, args: Sequence[np.ndarray], zero: float) -> np.ndarray:
    """The larger or smaller of the operands (of one: of it and 0.0) `v`, where these are zeros of both signs `zero`."""
    signs = [(a == 0) & (np.signbit(a) == s) for a in (args if len(args) > 1 else (*args, np.zeros((), v.dtype))) for s in (False, True)]
    return np.where((signs[0] | signs[2]) & (signs[1] | signs[3]), np.asarray(zero, v.dtype), v)


def _rounds(n: Node) -> bool:
    """Views and choices move values as they are."""
    return n.op not in ("transpose", "reshape", "broadcast", "slice", "pad", "concat", "neg", "abs", "max", "min", "relu", "where", "tile",
                        "gather", "reduce_max", "reduce_min", "maxpool", "table", "iota")  # fmt: skip


def _require_defined(n: Node, args: Sequence[np.ndarray]) -> None:
    if n.op in DIVISIONS and n.type.dtype.is_int:
        a, b = args
        low = limits(n.type.dtype)[0]
        if (b == 0).any() or (n.type.dtype.kind == "i" and ((b == -1) & (a == low)).any()):
            raise Undefined(f"{n.op} of integers by zero, or of the least one by -1")
    elif n.op in SHIFTS:
        if ((args[1] < 0) | (args[1] >= n.type.dtype.bits)).any():
            raise Undefined(f"{n.op} by the width or more")
    elif n.op == "cast" and n.type.dtype.is_int and args[0].dtype.kind not in "iub":
        low, high = limits(n.type.dtype)
        v = args[0].astype(np.float64)
        if not (np.isfinite(v).all() and (np.trunc(v) >= low).all() and (np.trunc(v) <= high).all() and (v < 2.0**n.type.dtype.bits).all()):
            raise Undefined(f"a cast of numbers outside of {n.type.dtype}")
        if high > 2**53 and (v >= float(high)).any():
            raise Undefined(f"a cast of numbers outside of {n.type.dtype}")


# ---- agreement
def _different(x: Instance, right: Node, lefts: Mapping[int, np.ndarray], rights: Mapping[int, np.ndarray], fed: Mapping[str, np.ndarray],
               kind: str) -> np.ndarray:  # fmt: skip
    a, b = lefts[id(x.left)], rights[id(right)]
    both = (*below(x.left), *below(right))
    p, q = _double(a), _double(b)
    floating = x.left.type.dtype.is_float
    if a.dtype.kind in "iub" or b.dtype.kind in "iub":
        same = a == b
    else:
        same = (p == q) | (np.isnan(p) & np.isnan(q))
    if x.rule.exact:
        if floating and (p == 0).any() and not any(_zero_either_way(n) or terms(n) > 1 for n in both):
            same &= (p != 0) | _same_zero(x.left, right, fed)
        if same.all():  # most are, and what roundings may do takes longer to find out
            return ~same
        if kind == TIES and any(terms(n) > 1 and not n.op.startswith("reduce_") for n in both):
            return np.zeros(same.shape, bool)  # sums of products of far apart numbers, in another order
        if kind == LARGEST and any(terms(n) > (2 if n.op in FOLDS else 1) for n in both):
            return np.zeros(same.shape, bool)  # sums that overflow in one order
        if not floating or kind in DYADIC or not _sums_of_doubles(both):
            return ~same
        if kind in (SPREAD, TIES):  # products that overflow: a fused multiply and add keeps some of them finite
            return np.zeros(same.shape, bool)
        return ~same & ~_close(x, right, lefts, p, q, fed)
    if same.all():
        return ~same
    if kind == ALIKE and not _clear(x, fed):
        return np.zeros(same.shape, bool)
    endless = all(n.type.dtype != F8E4M3 for n in both)  # where there is no infinity, NaN is what overflows
    steps = any(n.op in STEPS or (not n.type.dtype.is_float and any(i.type.dtype.is_float for i in n.inputs)) for n in both)
    if kind not in DYADIC and steps and (kind not in STEADY or any(n.type.dtype.is_float and n.type.dtype.bits < 32 for n in both)):
        if kind in (NAN, SPECIAL) and floating and endless:  # a rounding may step over an edge, but makes and loses no NaN
            return np.asarray(np.isnan(q) & ~np.isnan(p) | np.isnan(p) & ~np.isnan(q) & (kind == NAN))
        return np.zeros(same.shape, bool)
    if not floating:
        return ~same & _steady(x, a, fed) if steps and kind not in DYADIC else ~same
    numbers = [u.held if isinstance(u, Uniform) else u for u in x.bindings.values() if isinstance(u, (Uniform, int, float))]
    extreme = any(not (v == 0 or 1e-6 < abs(v) < 1e4) for v in numbers)
    fine, lost = np.isfinite(p), ~np.isfinite(q)
    bad = fine & lost
    if kind == SCALED:  # which is for what overflows; at the end of its range what is rounded up does
        bad &= np.abs(p) <= float(ml_dtypes.finfo(x.left.type.dtype.numpy).max) / 2
    else:
        bad |= fine & ~_close(x, right, lefts, p, q, fed, kind == TINY, AT_STEPS if steps else DISTURBED)
    if kind in (WHOLE, HALVES, NAN, POSITIVE, NORMAL) and endless and not extreme:
        bad |= np.isnan(p) & ~np.isnan(q)
    if kind not in (LARGE, SCALED, SHIFTED, TINY) and not extreme:
        bad |= np.isinf(p) & (~lost | (p == -q))
        if kind == SPECIAL and endless and not any(n.op in ADDING or terms(n) > 1 for n in below(right)):
            bad |= np.isinf(p) & np.isnan(q)  # no infinities meet on the way
    return np.asarray(bad & ~same)


def _steady(x: Instance, a: np.ndarray, fed: Mapping[str, np.ndarray]) -> np.ndarray:
    """Where no disturbance of the left side moves its whole number."""
    moved = [values(x.left, fed, np.random.default_rng((11, k)), UNIT)[id(x.left)] for k in range(AT_STEPS)]
    return np.asarray(np.all([v == a for v in moved], axis=0))


def _same_zero(left: Node, right: Node, fed: Mapping[str, np.ndarray]) -> np.ndarray:
    """Where the right side's sign is the left one's, or that of one side is not said: it depends on which of two zeros is the larger."""
    signs = [[np.signbit(_double(values(side, fed, zero=z)[id(side)])) for z in (0.0, -0.0)] for side in (left, right)]
    (a, b), (c, d) = signs
    return np.asarray((a != b) | (c != d) | (a == c))


def _close(
    x: Instance,
    right: Node,
    lefts: Mapping[int, np.ndarray],
    p: np.ndarray,
    q: np.ndarray,
    fed: Mapping[str, np.ndarray],
    flushed: bool = False,
    draws: int = DISTURBED,
) -> np.ndarray:
    """Element by element: is the right side off by no more than the left side's own roundings may move it? `flushed`: what is below the
    normal numbers may be 0. `draws`: of disturbances."""
    nodes = below(x.left)
    computed = [n.type.dtype.eps / 2 for n in nodes if n.type.dtype.is_float and n.op not in ("input", "param", "const")]
    unit = min((e for e in computed if e), default=x.left.type.dtype.eps / 2)
    with np.errstate(all="ignore"):
        finite = [np.abs(v[np.isfinite(v)]).max(initial=0.0) for n in nodes if n.type.dtype.is_float for v in (_double(lefts[id(n)]),)]
        both = (*nodes, *below(right))
        summed_up = any(terms(n) > 1 for n in both)  # else no node's magnitude is in an element's result, but by what a disturbance shows
        scale = float(max(finite, default=0.0)) if summed_up else np.abs(np.where(np.isfinite(p), p, 0.0))
        length = sum(map(terms, both))
        least = normal(x.left.type.dtype) if flushed else _smallest(x.left.type.dtype)
        summed = min((n.type.dtype.eps for n in nodes if terms(n) > 1 and n.type.dtype.is_float), default=x.left.type.dtype.eps)
        unmoved = SAFETY * (sqrt(length) * summed + x.left.type.dtype.eps) / 2 * scale + least
        off, moved = np.abs(p - q), np.zeros(p.shape)
        for k in range(draws):  # each one leaves more room
            if ((off <= MOVED * moved + unmoved) | ~np.isfinite(off)).all():
                break
            other = _double(values(x.left, fed, np.random.default_rng((7, k)), unit)[id(x.left)])
            moved = np.fmax(moved, np.where(np.isfinite(other - p), np.abs(other - p), 0.0))
        return np.asarray(off <= MOVED * moved + unmoved)


def _smallest(d: DType) -> float:
    """A few of the least numbers of a type: what is rounded among them has no digits left."""
    return {"f64": 5e-324, "f32": 1.4e-45, "bf16": 1e-40, "f16": 6e-8, "f8e4m3": 2.0**-9, "f8e5m2": 2.0**-16}.get(d.name, 0.0) * 4


@lru_cache(maxsize=4096)
def terms(n: Node) -> int:
    """Terms of the sums in one op, at least 1."""
    entry = OPS.get(n.op)
    if entry is None or entry.comprehension is None or n.op in ("table", "iota"):
        return 8 if entry is not None and entry.decompose is not None else 1
    try:
        body = entry.comprehension(tuple(i.type for i in n.inputs), n.attrs, n.type).value
    except ModelError:
        return 1
    out = 1
    for e in postorder(body):
        if isinstance(e, (Reduce, Contract)):
            out *= max(prod(a.extent for a in e.axes if isinstance(a.extent, int)), 2)
    return out


def _sums_of_doubles(nodes: Sequence[Node]) -> bool:
    """Sums of f64 are as the BLAS takes their terms: nothing wider is here to compute them in."""
    return any(n.type.dtype == F64 and terms(n) > 1 for n in nodes)


def _double(v: np.ndarray) -> np.ndarray:
    return np.asarray(v.astype(np.float64))


__all__ = ["Difference", "Undefined", "compare_sides", "values"]
