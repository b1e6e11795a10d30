"""What conditions of the graph phases can ask of tensors, and the list arithmetic for attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from math import copysign, frexp, gcd, isclose, isfinite, prod, sqrt
from typing import Any

import numpy as np
from ml_dtypes import finfo

from autocomp.ir.away_from_zero import normal
from autocomp.ir.sizes import linear, product, quotient, size_of, summed
from autocomp.ir.types import DTYPES, Dim, Sym, TensorType, contains
from autocomp.options import Options
from autocomp.quick import quick
from autocomp.rewrite.interpolation import winograd_inputs, winograd_results, winograd_taps
from autocomp.rewrite.where import Unanswerable

LONGEST = 4096  # elements of a list that a rule makes
CLOSE, ROUNDED = 1e-4, 2.0  # relative: two numbers that `close` takes as one; last places, where it is told of which type


@quick
@dataclass(frozen=True)
class Operand:
    """What a matched tensor variable is to a condition. `value` is set where all elements are one known number;
    `decides` where a rounding or a comparison is computed from it (`ir.decided`); `least`: the magnitude that its elements but 0 have at
    least (`ir.away_from_zero`), None of a tensor that nothing computes, in the check of a rule: it may be one or the other."""

    type: TensorType
    constant: bool = False
    value: float | None = None
    decides: bool = False
    least: float | None = None


def static(dims: Sequence[Dim]) -> tuple[int, ...]:
    """The dims as ints; refuses symbols."""
    for d in dims:
        if isinstance(d, Sym):
            raise Unanswerable(f"dimension {d} is symbolic")
    return tuple(int(d) for d in dims)  # type: ignore[arg-type]


def broadcast_shape(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...]:
    """NumPy's broadcasting of two shapes; refuses what NumPy refuses."""
    n = max(len(a), len(b))
    out: list[Dim] = []
    for x, y in zip(padded(a, n), padded(b, n)):
        if x != y and 1 not in (x, y):
            raise Unanswerable(f"shapes {list(map(str, a))} and {list(map(str, b))} do not broadcast")
        out.append(y if x == 1 else x)
    return tuple(out)


def padded(shape: Sequence[Dim], rank: int) -> tuple[Dim, ...]:
    """The shape with ones in front up to `rank`."""
    return (1,) * (rank - len(shape)) + tuple(shape)


def _value(x: Operand) -> float:
    if x.value is None:
        raise Unanswerable("its elements are not one known number")
    return x.value


def _perm(p: Sequence[int], n: int) -> tuple[int, ...]:
    if sorted(p) != list(range(n)):
        raise Unanswerable(f"{list(p)} is no permutation of {n} axes")
    return tuple(p)


def _inverse(p: Sequence[int]) -> tuple[int, ...]:
    q = [0] * len(_perm(p, len(p)))
    for i, a in enumerate(p):
        q[a] = i
    return tuple(q)


def _replaced(xs: Sequence[Any], i: int, v: Any) -> tuple[Any, ...]:
    out = list(xs)
    out[i] = v
    return tuple(out)


def _last_over(xs: Sequence[Any], v: Any) -> int:
    """The place of the last element above v."""
    if not (places := [i for i, x in enumerate(xs) if x > v]):
        raise Unanswerable(f"nothing in {list(xs)} is above {v}")
    return places[-1]


_OPTIONS = frozenset(f.name for f in fields(Options))


def _option(options: Options) -> Callable[[str], Any]:
    def option(name: str) -> Any:
        if name not in _OPTIONS:
            raise Unanswerable(f"there is no option '{name}'")
        return getattr(options, name)
    return option


def _held(d: str, v: float) -> float:
    """The number as a dtype holds it."""
    with np.errstate(all="ignore"):
        return float(np.asarray(v, np.float64).astype(DTYPES[d].numpy))


def _listed(items: Sequence[Any]) -> tuple[Any, ...]:
    """A list that a rule makes, of so many elements that a tensor could have axes."""
    if len(items) > LONGEST:
        raise Unanswerable(f"a list of {len(items)} elements, at most {LONGEST} are made")
    return tuple(items)


def _rank(n: Any) -> int:
    if not isinstance(n, int) or n > LONGEST:
        raise Unanswerable(f"a rank of {n}, at most {LONGEST} is possible")
    return n


def _repeated(v: Any, n: Any) -> tuple[Any, ...]:
    if not isinstance(n, int) or n > LONGEST:
        raise Unanswerable(f"a list of {n} elements, at most {LONGEST} are made")
    return (v,) * n


def _ceil_div(n: Dim, by: int) -> Dim:
    """n / by rounded up; of a symbol a size that is computed from it."""
    return size_of(quotient(summed([(linear(n), 1)], int(by) - 1), int(by)))


def _normal_number(d: str, v: float) -> bool:
    held = abs(_held(d, v))
    return v == 0 or (isfinite(held) and held >= float(finfo(DTYPES[d].numpy).smallest_normal))


def close(a: float, b: float, dtype: str = "") -> bool:
    """Two numbers agree: to ROUNDED last places of a type of floats; without one to 4 digits, small ones to 3."""
    if dtype:
        return isclose(a, b, rel_tol=ROUNDED * DTYPES[dtype].eps)
    return isclose(a, b, rel_tol=CLOSE if min(abs(a), abs(b)) >= CLOSE else 20 * CLOSE)


def channels_last(rank: int) -> tuple[int, ...]:
    """The permutation that moves axis 1 behind the others: [N, C, H, W] -> [N, H, W, C]."""
    return (0, *range(2, rank), 1)


def channels_first(rank: int) -> tuple[int, ...]:
    """Its inverse: [N, H, W, C] -> [N, C, H, W]."""
    return (0, rank - 1, *range(1, rank - 1))


def _keeps_order(shape: Sequence[Dim], perm: Sequence[int]) -> bool:
    """Whether a permutation moves axes of extent 1 only, so that memory stays as it is."""
    wide = [a for a in _perm(perm, len(shape)) if shape[a] != 1]
    return wide == sorted(wide)


def tensor_functions(options: Options, features: Sequence[str] | None = None) -> dict[str, Callable[..., Any]]:
    """The functions of the graph phases' vocabulary; arguments are Operands, tuples, numbers and words.

    features: the chip's; None where a rule is checked without a chip (then it has them all).
    """
    return {
        "feature": lambda name: features is None or name in features,
        "channels_last": lambda n: channels_last(_rank(n)),
        "channels_first": lambda n: channels_first(_rank(n)),
        "keeps_order": _keeps_order,
        "rotated": lambda n: (n - 1, *range(_rank(n) - 1)),  # the last axis first
        "offset": lambda _tensor, _axis: 0,  # of the first of its siblings; a match among several has its own
        "missing": lambda n, grain: int(-n % int(grain)),  # from n to the next multiple
        "ceil_div": _ceil_div,
        "round_up": lambda n, grain: product((_ceil_div(n, grain), int(grain))),
        "largest": lambda n: n.hi if isinstance(n, Sym) else n,
        "gcd": lambda a, b: gcd(int(a), int(b)),
        "dim_at": lambda xs, i: xs[i],
        "option": _option(options),
        "rank": lambda x: x.type.rank,
        "shape": lambda x: x.type.shape,
        "dim": lambda x, i: x.type.shape[i],
        "dtype": lambda x: x.type.dtype.name,
        "bytes": lambda d: DTYPES[d].bytes if isinstance(d, str) else prod(static(d.type.shape)) * d.type.dtype.bytes,
        "elements": lambda x: prod(static(x.type.shape)),
        "is_static": lambda x: x.type.is_static,
        "beside_others": lambda x, i: i < x.type.rank - 1 or (x.type.is_static and x.type.elements == x.type.shape[i]),
        "is_constant": lambda x: x.constant,
        "is_uniform": lambda x: x.value is not None,
        "decides": lambda x: x.decides,
        "invertible": lambda d, x: x.least is None or x.least >= normal(DTYPES[d]),
        "near_zero": lambda d, x: x.least is None or x.least < normal(DTYPES[d]),
        "value": _value,
        "is_float": lambda x: x.type.dtype.is_float,
        "is_int": lambda x: x.type.dtype.is_int,
        "negative_zero": lambda v: v == 0 and copysign(1.0, v) < 0,
        "holds": lambda d, v: isfinite(v) and _held(d, v) == v,
        "normal_number": _normal_number,
        "widens": lambda a, b: contains(DTYPES[b], DTYPES[a]),
        "len": len,
        "product": lambda xs: prod(static(xs)),
        "sum": lambda xs: sum(static(xs)),
        "min": min, "max": max, "abs": abs, "sqrt": sqrt, "int": int,
        "close": close,
        "compose": lambda outer, inner: tuple(inner[i] for i in outer),     # transpose(transpose(x, inner), outer)
        "inverse": _inverse,
        "permuted": lambda xs, p: tuple(xs[i] for i in p),
        "mapped": lambda axes, p: tuple(sorted(p[a] for a in axes)),
        "padded": lambda shape, n: padded(shape, _rank(n)),
        "range": lambda *a: _listed(range(*a)),
        "repeat": _repeated,
        "sorted": lambda xs: tuple(sorted(xs)),
        "replaced": _replaced,
        "zeros": lambda x: (0,) * x.type.rank,
        "ones": lambda x: (1,) * x.type.rank,
        "on_axis": lambda x, i, v: _replaced((0,) * x.type.rank, i, v),
        "along": lambda x, i, n: _replaced((1,) * x.type.rank, i, n),
        "with_axis": lambda x, i, v: _replaced(x.type.shape, i, v),
        "inserted": lambda xs, i, v: (*xs[:i], v, *xs[i:]),
        "without": lambda xs, axes: tuple(x for i, x in enumerate(xs) if i not in axes),
        "kept": lambda xs, axes: tuple(1 if i in axes else x for i, x in enumerate(xs)),
        "power_of_two": lambda v: abs(frexp(v)[0]) == 0.5,     # then 1 / v is exact as well
        "contains": lambda xs, v: v in xs,
        "last_over": _last_over,
        "suffix": lambda xs, n: tuple(xs)[len(xs) - n:],
        "normal": lambda axes, n: tuple(sorted(a % n for a in (axes if isinstance(axes, tuple) else (axes,)))),
        "broadcast": broadcast_shape,
        "batched": lambda a, b: broadcast_shape(a[:-2], b[:-2]),
        "winograd_inputs": winograd_inputs,
        "winograd_taps": winograd_taps,
        "winograd_results": winograd_results,
    }


@cache
def default_functions() -> Mapping[str, Callable[..., Any]]:
    """Those that a rule is checked with: default options, a chip that has every feature."""
    return tensor_functions(Options())
