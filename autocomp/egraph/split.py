"""An axis that is read in two digits becomes two axes.

    y[s, c] = f(x[c // 64, s, c mod 64])   over c:768   ->   y[s, 64*h + d] = f(x[h, s, d])   over h:12 d:64

So a kernel that stores merged heads still has the heads as an axis of its own: their scores are computed once a head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autocomp.ir.affine import Aff, FloorDiv, Mod, aff
from autocomp.ir.body import Axis, Contract, Expr, Index, Inside, Load, Recurrence, Reduce, bound_axes, postorder, rewrite
from autocomp.ir.kernel import Kernel, Store


def split_axes(k: Kernel) -> Kernel:
    """The kernel with every axis split at the digits that its accesses use (static extents only)."""
    fresh = 0
    while True:
        if any(isinstance(e, Recurrence) for s in k.stores for e in postorder(s.value)):
            return k
        axes = {a.name: a for a in (*k.axes, *(a for s in k.stores for a in bound_axes(s.value))) if isinstance(a.extent, int)}
        extent = {n: int(a.extent) for n, a in axes.items()}  # type: ignore[arg-type]
        found = sorted({(n, d) for i in _indices(k) for n, d in _digits(i) if n in extent and d < extent[n] and extent[n] % d == 0})
        if not found:
            return k
        name = found[0][0]
        size = min(d for n, d in found if n == name)
        fresh += 1
        k = _split(k, axes[name], size, f"{name}_h{fresh}", f"{name}_l{fresh}")


def _indices(k: Kernel) -> Iterator[Aff]:
    for s in k.stores:
        yield from s.index
        for e in postorder(s.value):
            if isinstance(e, Load):
                yield from (*e.index, *e.guard)
            elif isinstance(e, Index):
                yield e.index
            elif isinstance(e, Inside):
                yield from e.guard


def _digits(i: Aff) -> Iterator[tuple[str, int]]:
    """(axis, n) of every floor(axis / n) and (axis mod n), at any depth."""
    for atom, _ in i.terms:
        if isinstance(atom, (FloorDiv, Mod)):
            if atom.num.const == 0 and len(atom.num.terms) == 1 and atom.num.terms[0][1] == 1 and isinstance(atom.num.terms[0][0], str):
                yield atom.num.terms[0][0], atom.den
            yield from _digits(atom.num)


def _split(k: Kernel, axis: Axis, size: int, high: str, low: str) -> Kernel:
    pair = (Axis(high, axis.extent // size), Axis(low, size))  # type: ignore[operator]
    by = {axis.name: aff(high) * size + low}
    known = {a.name: a.extent for a in (*k.axes, *(a for s in k.stores for a in bound_axes(s.value)), *pair) if isinstance(a.extent, int)}

    def place(i: Aff) -> Aff:
        new = i.substitute(by)
        return new.simplify(known) if new.names() <= known.keys() else new

    def one(e: Expr) -> Expr:
        if isinstance(e, Load):
            return replace(e, index=tuple(map(place, e.index)), guard=tuple(map(place, e.guard)))
        if isinstance(e, Index):
            return replace(e, index=place(e.index))
        if isinstance(e, Inside):
            return replace(e, guard=tuple(map(place, e.guard)))
        if isinstance(e, (Reduce, Contract)) and any(a.name == axis.name for a in e.axes):
            return replace(e, axes=_replaced(e.axes, axis, pair))
        return e

    stores = tuple(Store(s.tensor, tuple(map(place, s.index)), rewrite(s.value, one)) for s in k.stores)
    return replace(k, axes=_replaced(k.axes, axis, pair), stores=stores)


def _replaced(axes: tuple[Axis, ...], axis: Axis, pair: tuple[Axis, Axis]) -> tuple[Axis, ...]:
    return tuple(x for a in axes for x in (pair if a.name == axis.name else (a,)))
