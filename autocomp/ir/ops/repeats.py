"""Views that read elements more than once: tile, and pads with the operand's own elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autocomp.budget import check_table
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.affine import aff
from autocomp.ir.body import Comprehension, Read
from autocomp.ir.node import Attrs
from autocomp.ir.ops.pointwise import axes_of
from autocomp.ir.ops.table import Op, register
from autocomp.ir.types import Dim, Sym, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


# ---- tile
def _tile_infer(t: Types, a: Attrs) -> TensorType:
    x, times = t[0], a["repeats"]
    if len(times) != x.rank or any(n < 0 for n in times):
        raise ModelError(f"repeats {list(times)} do not fit {x}: one number of 0 or more a dimension", where="tile")
    shape: list[Dim] = []
    for d, n in zip(x.shape, times):
        if isinstance(d, Sym) and n != 1:
            raise UnsupportedOp(f"repeats the symbolic dimension {d}", where="tile", hint="fix it with dims={...}")
        shape.append(d if isinstance(d, Sym) else d * n)
    return TensorType(x.dtype, tuple(shape))


def _tile_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    index = (aff(x.name) if n == 1 or isinstance(d, Sym) else aff(x.name) % d for x, d, n in zip(axes, t[0].shape, a["repeats"]))
    return Comprehension(axes, Read(t[0].dtype, 0, tuple(index)))


register(
    Op(
        "tile",
        (1, 1),
        _tile_infer,
        lambda x, a, o: np.tile(x[0], a["repeats"]),
        _tile_meaning,
        attrs={"repeats": ...},
        doc="out[i] = x[i mod extent]: numpy.tile with one number a dimension",
    )
)


# ---- pads with the operand's own elements
def _edge(i: np.ndarray, n: int) -> np.ndarray:
    return np.clip(i, 0, n - 1)


def _wrap(i: np.ndarray, n: int) -> np.ndarray:
    return i % n


def _reflect(i: np.ndarray, n: int) -> np.ndarray:
    period = max(1, 2 * (n - 1))
    return np.where(i % period < n, i % period, period - i % period)


Source = Callable[[np.ndarray, int], np.ndarray]
PAD_MODES: dict[str, Source] = {"edge": _edge, "reflect": _reflect, "wrap": _wrap}
"""Which element of a dimension of n stands at (possibly outside) position i."""


def _positions(source: Source, n: int, lo: int, hi: int) -> np.ndarray:
    return source(np.arange(-lo, n + hi), n)


def _pad_infer(name: str) -> Callable[[Types, Attrs], TensorType]:
    def infer(t: Types, a: Attrs) -> TensorType:
        x, shape = t[0], []
        if not len(a["lo"]) == len(a["hi"]) == x.rank:
            raise ModelError(f"lo and hi must have {x.rank} entries for {x}", where=name)
        for d, lo, hi in zip(x.shape, a["lo"], a["hi"]):
            if isinstance(d, Sym) and (lo or hi):
                raise UnsupportedOp(f"a pad of the symbolic dimension {d}", where=name, hint="fix the dimension with dims={...}")
            if isinstance(d, int) and (d + lo + hi < 0 or (d == 0 and lo + hi > 0)):
                raise ModelError(f"lo {lo}, hi {hi} cannot be applied to a dimension of {d} in {x}", where=name)
            shape.append(d if isinstance(d, Sym) else d + lo + hi)
        return TensorType(x.dtype, tuple(shape))

    return infer


def _pad_reference(source: Source) -> Callable[[Arrays, Attrs, TensorType], np.ndarray]:
    def reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
        y = x[0]
        for axis, (lo, hi) in enumerate(zip(a["lo"], a["hi"])):
            y = np.take(y, _positions(source, y.shape[axis], lo, hi), axis=axis) if lo or hi else y
        return y

    return reference


def _runs(at: np.ndarray) -> list[tuple[int, int, int]]:
    """(start, step, count) of maximal arithmetic progressions with step 1, -1 or 0.

    [2, 1, 0, 1, 2, 3, 2]   ->   (2, -1, 2), (0, 1, 4), (2, 0, 1)
    """
    moves = np.diff(at)
    ends = np.append(np.flatnonzero(np.diff(moves)), len(moves) - 1)  # the last of each stretch of equal moves
    out: list[tuple[int, int, int]] = []
    i = 0
    while i < len(at):
        step, count = (int(moves[i]), 1) if i < len(moves) else (2, 1)
        if abs(step) <= 1:
            count = int(ends[np.searchsorted(ends, i)]) - i + 2
        out.append((int(at[i]), step if count > 1 else 0, count))
        i += count
    return out


def _pad_decompose(source: Source) -> Callable[..., Any]:
    """Along each padded axis: slices of x (backwards where mirrored, one element broadcast where repeated), joined. What comes around
    lies a constant apart: slices of x itself are joined, and each is padded along the other axes first, so that they are one load."""

    def decompose(b: Any, nodes: Any, a: Attrs) -> Any:
        x = nodes[0]
        if source is _wrap:
            return wrapped(b, x, tuple(enumerate(zip(a["lo"], a["hi"]))))
        for axis, (lo, hi) in enumerate(zip(a["lo"], a["hi"])):
            if not lo and not hi:
                continue
            shape = x.type.shape
            check_table(shape[axis] + lo + hi, "pad")
            parts = []
            for start, step, count in _runs(_positions(source, shape[axis], lo, hi)) or [(0, 1, 0)]:
                spans = [(0, d, 1) for d in shape]
                spans[axis] = (start, start + step * count, step) if step else (start, start + 1, 1)
                starts, limits, steps = zip(*spans)
                part = b.op("slice", x, starts=starts, limits=limits, steps=steps)
                wide = (*shape[:axis], count, *shape[axis + 1 :])
                parts.append(part if step or count == 1 else b.op("broadcast", part, shape=wide))
            x = parts[0] if len(parts) == 1 else b.op("concat", *parts, axis=axis)
        return x

    def wrapped(b: Any, x: Any, axes: tuple[tuple[int, tuple[int, int]], ...]) -> Any:
        if not axes:
            return x
        (axis, (lo, hi)), *others = axes
        if not lo and not hi:
            return wrapped(b, x, tuple(others))
        check_table(x.type.shape[axis] + lo + hi, "pad")
        parts = []
        if x.type.shape[axis] == 1:
            inner = wrapped(b, x, tuple(others))
            return b.op("broadcast", inner, shape=(*inner.type.shape[:axis], 1 + lo + hi, *inner.type.shape[axis + 1 :]))
        at = _positions(source, x.type.shape[axis], lo, hi)
        rounds = np.split(at, np.flatnonzero(np.diff(at) != 1) + 1)
        for start, count in ((int(run[0]) if len(run) else 0, len(run)) for run in rounds):
            spans = [(start, start + count) if k == axis else (0, d) for k, d in enumerate(x.type.shape)]
            starts, limits = zip(*spans)
            parts.append(wrapped(b, b.op("slice", x, starts=starts, limits=limits, steps=(1,) * x.type.rank), tuple(others)))
        return parts[0] if len(parts) == 1 else b.op("concat", *parts, axis=axis)

    return decompose


for _mode, _source in PAD_MODES.items():
    register(
        Op(
            f"pad_{_mode}",
            (1, 1),
            _pad_infer(f"pad_{_mode}"),
            _pad_reference(_source),
            decompose=_pad_decompose(_source),
            attrs={"lo": ..., "hi": ...},
            doc=f"x with its own elements around it, as numpy.pad's mode '{_mode}'; negative amounts crop",
        )
    )
