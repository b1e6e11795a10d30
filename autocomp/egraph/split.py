"""An axis that is read in two digits becomes two axes.

    y[s, c] = f(x[c // 64, s, c mod 64])   over c:768   ->   y[s, 64*h + d] = f(x[h, s, d])   over h:12 d:64

So a kernel that stores merged heads still has the heads as an axis of its own: their scores are computed once a head.

    y[o] = f(x[o // 2 + k], w[o mod 2, k])   over o:5   ->   y[2*h + p] = f(x[h + k], w[p, k])   over h:3 p:2, where 2*h + p < 5
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd

from autocomp.ir.affine import Aff, FloorDiv, Mod, aff
from autocomp.ir.body import Axis, Contract, Expr, Index, Inside, Load, Recurrence, Reduce, bound_axes, free_axes, postorder, rewrite
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import Sym


def split_axes(k: Kernel, uneven: bool = False) -> Kernel:
    """The kernel with every axis split at the digits that its accesses use (static extents only); where both factors of a contraction are
    read at an axis, also at those of a place beside it, floor((axis + c) / n). `uneven`: such axes also where the last digit does not come
    to an end; what lies behind it is not stored."""
    fresh = 0
    while True:
        if any(isinstance(e, Recurrence) for s in k.stores for e in postorder(s.value)):
            return k
        axes = {a.name: a for a in (*k.axes, *(a for s in k.stores for a in bound_axes(s.value))) if isinstance(a.extent, int)}
        extent = {n: int(a.extent) for n, a in axes.items()}  # type: ignore[arg-type]
        every = {(n, d, c) for i in _indices(k) for n, d, c in _digits(i) if n in extent and 1 < d < extent[n]}
        plain = {x for x in every if extent[x[0]] % x[1] == 0 and x[2] == 0}
        more = {x for x in every - plain if uneven or extent[x[0]] % x[1] == 0}
        both = _batched(k) if more else frozenset()
        found = sorted({(n, d) for n, d, c in every if (n, d, c) in plain or ((n, d, c) in more and n in both)})
        if not found:
            return k
        name = found[0][0]
        size = min(d for n, d in found if n == name)
        fresh += 1
        k = _split(k, axes[name], size, f"{name}_h{fresh}", f"{name}_l{fresh}")


def _batched(k: Kernel) -> frozenset[str]:
    """Axes of the domain that both factors of a contraction are read at."""
    free = free_axes(tuple(s.value for s in k.stores))
    products = [e for s in k.stores for e in postorder(s.value) if isinstance(e, Contract)]
    both = frozenset().union(*(free[id(e.a)] & free[id(e.b)] for e in products))
    return both & {a.name for a in k.axes}


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


def digits(i: Aff) -> Iterator[tuple[str, int]]:
    """(axis, n) of every floor(axis / n) and (axis mod n), at any depth."""
    return ((axis, n) for axis, n, c in _digits(i) if c == 0)


def _digits(i: Aff) -> Iterator[tuple[str, int, int]]:
    """(axis, n, c) of every floor((k*axis + c) / (k*n)) and ((k*axis + c) mod n), at any depth."""
    for atom, _ in i.terms:
        if isinstance(atom, (FloorDiv, Mod)):
            if len(atom.num.terms) == 1 and isinstance(axis := atom.num.terms[0][0], str):
                times = atom.num.terms[0][1]
                yield axis, atom.den // gcd(times, atom.den), atom.num.const if times == 1 else 1
            yield from _digits(atom.num)


def _split(k: Kernel, axis: Axis, size: int, high: str, low: str) -> Kernel:
    extent = int(axis.extent)  # type: ignore[arg-type]
    pair = (Axis(high, -(-extent // size)), Axis(low, size))
    by = {axis.name: aff(high) * size + low}
    known = {a.name: a.extent for a in (*k.axes, *(a for s in k.stores for a in bound_axes(s.value)), *pair) if isinstance(a.extent, int)}
    shapes = {a.name: a.type.shape for a in k.inputs}
    end = (aff(extent - 1) - by[axis.name],) if extent % size else ()

    def place(i: Aff) -> Aff:
        new = i.substitute(by)
        return new.simplify(known) if new.names() <= known.keys() else new

    def within(e: Load) -> Load:
        """Loads nothing behind the end of the axis that is behind the end of its tensor."""
        if not end or high not in frozenset().union(*(i.names() for i in e.index)):
            return e
        sides = [g for i, n in zip(e.index, shapes[e.tensor]) if {high, low} & i.names()
                 for g in (i, aff(n.name if isinstance(n, Sym) else n) - 1 - i)]  # fmt: skip
        needed = (g for g in sides if not g.names() <= known.keys() or g.range(known)[0] < 0)
        return replace(e, guard=tuple(dict.fromkeys((*e.guard, *needed))))

    def one(e: Expr) -> Expr:
        if isinstance(e, Load):
            return within(replace(e, index=tuple(map(place, e.index)), guard=tuple(map(place, e.guard))))
        if isinstance(e, Index):
            return replace(e, index=place(e.index))
        if isinstance(e, Inside):
            return replace(e, guard=tuple(map(place, e.guard)))
        if isinstance(e, (Reduce, Contract)) and any(a.name == axis.name for a in e.axes):
            return replace(e, axes=_replaced(e.axes, axis, pair))
        return e

    stores = tuple(replace(s, index=tuple(map(place, s.index)), value=rewrite(s.value, one), guard=(*map(place, s.guard), *(
        end if any(axis.name in i.names() for i in s.index) else ()))) for s in k.stores)  # fmt: skip
    return replace(k, axes=_replaced(k.axes, axis, pair), stores=stores)


def _replaced(axes: tuple[Axis, ...], axis: Axis, pair: tuple[Axis, Axis]) -> tuple[Axis, ...]:
    return tuple(x for a in axes for x in (pair if a.name == axis.name else (a,)))
