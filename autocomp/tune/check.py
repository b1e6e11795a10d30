"""Whether a kernel's result is right: inputs for one kernel, its float64 meaning, and the comparison with it.

The meaning of a large kernel is computed in two windows of its domain, one at the start and one at the end of every shrunk axis (so
that tails are in it); what lies outside them is compared with the first result that is right inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod, sqrt

import numpy as np

from autocomp.ir.affine import Aff
from autocomp.ir.body import Axis, Contract, Expr, Gather, Load, Map, Reduce, bound_axes, free_axes, postorder, substitute
from autocomp.ir.body_meaning import Meaning
from autocomp.ir.kernel import Kernel
from autocomp.ir.scalar import accumulator
from autocomp.ir.tolerance import SAFETY, shaken
from autocomp.ir.types import Sym, TensorType, dim_hint
from autocomp.runtime.executor import shape_of

ELEMENTS = 1 << 22  # largest array of the reference's evaluation
OPERATIONS = 2e10  # multiply-adds that it may take
SAMPLES = 1 << 20  # elements compared outside the windows while searching
INTEGERS = 8  # integer inputs are below this (indices are clamped by the kernel itself)


@dataclass(frozen=True)
class Part:
    """Expected values of one output in a window: `value` at `index` (broadcastable), where `skip` is false."""

    output: str
    index: tuple[np.ndarray, ...]
    value: np.ndarray
    skip: np.ndarray
    relative: float


def sizes_of(kernel: Kernel) -> dict[str, int]:
    """Values of a kernel's symbols to measure it with."""
    dims = [d for a in (*kernel.inputs, *kernel.outputs) for d in a.type.shape]
    return {d.name: dim_hint(d) for d in (*dims, *(a.extent for a in kernel.axes)) if isinstance(d, Sym)}


def inputs_of(kernel: Kernel, sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    """Standard normal floats, small integers, fair bools, by argument name; integers that index a tensor lie anywhere in it, so that what
    is read is not a few rows that caches hold."""
    rng, places = np.random.default_rng(seed), _places(kernel, sizes)

    def one(name: str, t: TensorType) -> np.ndarray:
        shape = shape_of(t, sizes)
        if t.dtype.is_float:
            return rng.standard_normal(shape, np.float32).astype(t.dtype.numpy)
        return rng.integers(0, places.get(name, INTEGERS) if t.dtype.is_int else 2, shape).astype(t.dtype.numpy)

    return {a.name: one(a.name, a.type) for a in kernel.inputs}


def _places(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """For each integer input that an index is made of, how many places there are: of several tensors, in the smallest."""
    types, out = {a.name: a.type for a in kernel.inputs}, dict[str, int]()
    for e in postorder(*(s.value for s in kernel.stores)):
        if isinstance(e, Gather) and e.tensor in types:
            for i, n in zip(e.index, shape_of(types[str(e.tensor)], sizes)):
                for x in postorder(i):
                    if isinstance(x, Load) and x.tensor in types and types[x.tensor].dtype.is_int:
                        most = min(n, 1 << types[x.tensor].dtype.bits - 1)  # bytes reach no further
                        out[x.tensor] = min(most, out.get(x.tensor, most))
    return out


def expected(kernel: Kernel, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int], elements: int = 0,
             operations: float = 0.0, coarse: float = 0.0) -> list[Part]:  # fmt: skip
    """The float64 meaning of every output, whole or in windows of at most so many elements and multiply-adds (0: ELEMENTS, OPERATIONS).
    `coarse`: as in `ir.tolerance.tolerance`."""
    values = tuple(s.value for s in kernel.stores)
    error = relative_error(values)
    out = []
    for axes, at in _windows(kernel, sizes, elements or ELEMENTS, operations or OPERATIONS):
        moved = [replace(s, index=tuple(i.substitute(at) for i in s.index), value=substitute(s.value, at),
                         guard=tuple(g.substitute(at) for g in s.guard)) for s in kernel.stores]  # fmt: skip
        meaning = [Meaning(axes, [s.value for s in moved], sizes, wide, _fetch(kernel, arrays, sizes)) for wide in (True, False)]
        for arg, store in zip(kernel.outputs, moved):
            with np.errstate(all="ignore"):
                want, own = meaning[0].value(store.value), meaning[1].value(store.value)
                t = arg.type.dtype
                skip = ~np.isfinite(np.asarray(own, np.float64)) & np.isfinite(want) if t.is_float else np.zeros((1,) * want.ndim, bool)
            relative = SAFETY * max(error, t.eps, coarse) if t.is_float else 0.0
            places = tuple(meaning[0].index(i) for i in store.index)
            if store.guard:
                stored = np.broadcast_to(meaning[0].inside(store.guard), np.broadcast_shapes(want.shape, *(i.shape for i in places)))
                want, skip, *at_ = (np.broadcast_to(x, stored.shape)[stored] for x in (want, skip, *places))
                places = tuple(at_)
            out.append(Part(arg.name, places, want, skip, relative))
    return out


def deviation(parts: list[Part], got: Mapping[str, np.ndarray]) -> str:
    """Why a result is wrong: its worst element, both values; "" if it is right."""
    for p in parts:
        shape = np.broadcast_shapes(p.value.shape, *(np.shape(i) for i in p.index))
        y = np.broadcast_to(got[p.output][tuple(np.broadcast_to(i, shape) for i in p.index)], shape)
        text = _compare(p.output, y.astype(np.float64), np.broadcast_to(p.value, shape).astype(np.float64), p.relative,
                        np.broadcast_to(p.skip, shape))  # fmt: skip
        if text:
            return text
    return ""


def widened(kernel: Kernel, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int], parts: list[Part]) -> list[Part]:
    """The parts with room for what their inputs hardly determine (a sum that cancels, by which is divided), by the rule of verification:
    what is allowed is at least SAFETY times what the meaning itself moves by when the inputs move by an ulp (`ir.tolerance`)."""
    near = [expected(kernel, shaken(arrays, k), sizes) for k in range(2)]
    out = []
    for i, p in enumerate(parts):
        want = p.value.astype(np.float64)
        moved = max(float(_ratios(other[i].value.astype(np.float64), want, p.relative, p.skip).max(initial=0.0)) for other in near)
        out.append(replace(p, relative=p.relative * max(1.0, SAFETY * moved)) if np.isfinite(moved) else p)
    return out


def difference(first: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray], parts: list[Part], whole: bool) -> str:
    """Why a result differs from the first right one (two roundings apart), in samples or in every element."""
    for p in {p.output: p for p in parts}.values():
        a, b = first[p.output].reshape(-1), got[p.output].reshape(-1)
        step = 1 if whole else max(1, a.size // SAMPLES) | 1  # odd: not in step with tiles
        x, y = b[::step].astype(np.float64), a[::step].astype(np.float64)
        text = _compare(p.output, x, y, 2 * p.relative, ~np.isfinite(y))
        if text:
            return f"{text} (the first right result)"
    return ""


def _compare(name: str, got: np.ndarray, want: np.ndarray, relative: float, lost: np.ndarray) -> str:
    """The worst element beyond relative * (|want| + the largest |want|), in words. `lost`: no number is needed there."""
    ratio = _ratios(got, want, relative, lost)
    if not ratio.size or ratio.max() <= 1:
        return ""
    at = np.unravel_index(int(ratio.argmax()), ratio.shape)
    return f"wrong: {name} has {got[at]:.6g} where {want[at]:.6g} is right ({ratio[at]:.3g} times the allowed error)"


def _ratios(got: np.ndarray, want: np.ndarray, relative: float, lost: np.ndarray) -> np.ndarray:
    """Each element's error over what is allowed, inf where one of the two is no number."""
    finite = np.abs(want[np.isfinite(want)])
    top = float(finite.max()) if finite.size else 0.0
    with np.errstate(all="ignore"):
        limit = relative * (np.abs(want) + top)
        same = (got == want) | (np.isnan(got) & np.isnan(want)) | (lost & ~np.isfinite(got))
        ratio = np.where(same, 0.0, np.where(limit > 0, np.abs(got - want) / limit, np.inf))
    return np.where(np.isnan(ratio), np.inf, ratio)


def relative_error(values: tuple[Expr, ...]) -> float:
    """Expected relative error along the worst path of a body (the model of `ir.tolerance`)."""
    total: dict[int, float] = {}
    for e in postorder(*values):
        u, steps = e.dtype.eps / 2, 0
        if isinstance(e, (Reduce, Contract)):
            steps = max(prod(dim_hint(a.extent) for a in e.axes) - 1, 0)
        own = u * u if isinstance(e, (Map, Reduce, Contract)) else 0.0
        wide = accumulator(e.dtype).eps / 2 if e.dtype.is_float else 0.0
        total[id(e)] = max((total[id(a)] for a in e.args), default=0.0) + own + steps * wide * wide
    return sqrt(max((total[id(v)] for v in values), default=0.0))


def _fetch(kernel: Kernel, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]):  # type: ignore[no-untyped-def]
    types = {a.name: a.type for a in kernel.inputs}

    def fetch(e: Expr) -> np.ndarray:
        assert isinstance(e, (Load, Gather))
        name = str(e.tensor)
        return arrays[name].reshape(shape_of(types[name], sizes))

    return fetch


def _windows(kernel: Kernel, sizes: Mapping[str, int], elements: int, operations: float) -> list[tuple[tuple[Axis, ...], dict[str, Aff]]]:
    """(axes, where they begin) of the whole domain, or of a window at its start and one at its end."""
    full = {a.name: sizes[a.extent.name] if isinstance(a.extent, Sym) else a.extent for a in kernel.axes}
    extent = dict(full)
    while (_elements(kernel, extent) > elements or _operations(kernel, extent) > operations) and max(extent.values()) > 1:
        name = max(extent, key=lambda n: (extent[n], n))
        extent[name] = -(-extent[name] // 2)
    axes = tuple(replace(a, extent=extent[a.name]) for a in kernel.axes)
    if extent == full:
        return [(axes, {})]
    end = {n: Aff.of(n) + (full[n] - extent[n]) for n in full if extent[n] < full[n]}
    return [(axes, {}), (axes, end)]


def _elements(kernel: Kernel, extent: Mapping[str, int]) -> int:
    """The largest value of the body, in elements."""
    values = tuple(s.value for s in kernel.stores)
    every = dict(extent) | {a.name: dim_hint(a.extent) for v in values for a in bound_axes(v)}
    return max(prod(every.get(n, 1) for n in names) for names in free_axes(values).values())


def _operations(kernel: Kernel, extent: Mapping[str, int]) -> float:
    """Multiply-adds of the contractions."""
    depth = sum(prod(dim_hint(a.extent) for a in e.axes) for e in postorder(*(s.value for s in kernel.stores)) if isinstance(e, Contract))
    return float(prod(extent.values())) * depth
