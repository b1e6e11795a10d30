"""Neighbouring axes that every access walks as one become one axis; the tensors' dimensions merge with them.

    y[h, w] = f(x[c, h, w])   over h:56 w:56   ->   y[p] = f(x[c, p])   over p:3136

A kernel's arguments are row-major memory, so an argument of shape [64, 56, 56] is one of shape [64, 3136] too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Contract, Expr, Gather, Index, Inside, Load, Recurrence, Reduce, postorder, rewrite
from autocomp.ir.kernel import Arg, Kernel


def merge_axes(k: Kernel) -> Kernel:
    """The kernel with as few axes as its accesses allow (static extents only)."""
    while True:
        step = next((m for pair in _pairs(k) if (m := _merged(k, *pair)) is not None), None)
        if step is None:
            return k
        k = step


def _pairs(k: Kernel) -> Iterator[tuple[Axis, Axis]]:
    """(outer, inner) neighbours of the domain and of each reduction."""
    groups = [k.axes, *(e.axes for s in k.stores for e in postorder(s.value) if isinstance(e, (Reduce, Contract)))]
    seen: set[tuple[str, str]] = set()
    for axes in groups:
        for a, b in pairwise(axes):
            if isinstance(a.extent, int) and isinstance(b.extent, int) and (a.name, b.name) not in seen:
                seen.add((a.name, b.name))
                yield a, b


def _merged(k: Kernel, a: Axis, b: Axis) -> Kernel | None:
    """The kernel with axes a, b as one (named a), None where an access keeps them apart."""
    nodes = list(postorder(*(s.value for s in k.stores)))
    if any(isinstance(e, Recurrence) for e in nodes):
        return None
    names = {a.name, b.name}
    place: dict[str, int | None] = {}
    shapes = {x.name: x.type.shape for x in (*k.inputs, *k.outputs)}
    uses: list[tuple[str, tuple[Aff, ...], tuple[Aff, ...]]] = [(s.tensor, s.index, s.guard) for s in k.stores]
    for e in nodes:
        if isinstance(e, Load):
            uses.append((e.tensor, e.index, e.guard))
        elif isinstance(e, Gather):
            place[str(e.tensor)] = None
        elif isinstance(e, (Index, Inside)):
            used = e.index.names() if isinstance(e, Index) else frozenset().union(*(g.names() for g in e.guard))
            if used & names:
                return None
        elif isinstance(e, (Reduce, Contract)) and len(names & {x.name for x in e.axes}) == 1:
            return None
    for tensor, index, guard in uses:
        at = _position(index, a, b, shapes[tensor])
        if any(g.names() & names for g in guard) or at is False:
            return None
        if tensor in place and place[tensor] != at:
            return None
        place[tensor] = at  # type: ignore[assignment]
    new = replace(a, extent=a.extent * b.extent)  # type: ignore[operator]
    return _rebuilt(k, a, b, new, {t: d for t, d in place.items() if d is not None})


def _position(index: tuple[Aff, ...], a: Axis, b: Axis, shape: tuple[object, ...]) -> int | bool | None:
    """Dimension d with index[d] = a and index[d + 1] = b over b's full extent; None if neither occurs; False otherwise."""
    names = {a.name, b.name}
    if not any(i.names() & names for i in index):
        return None
    for d in range(len(index) - 1):
        if index[d] == aff(a.name) and index[d + 1] == aff(b.name) and shape[d + 1] == b.extent and shape[d] == a.extent:
            rest = index[:d] + index[d + 2 :]
            return False if any(i.names() & names for i in rest) else d
    return False


def _rebuilt(k: Kernel, a: Axis, b: Axis, new: Axis, place: dict[str, int]) -> Kernel:
    def shorter(tensor: str, index: tuple[Aff, ...]) -> tuple[Aff, ...]:
        d = place.get(tensor)
        return index if d is None else (*index[:d], aff(new.name), *index[d + 2 :])

    def one(e: Expr) -> Expr:
        if isinstance(e, Load):
            return replace(e, index=shorter(e.tensor, e.index))
        if isinstance(e, (Reduce, Contract)) and any(x.name == a.name for x in e.axes):
            return replace(e, axes=_axes(e.axes, a, b, new))
        return e

    def arg(x: Arg) -> Arg:
        d = place.get(x.name)
        if d is None:
            return x
        s = x.type.shape
        return replace(x, type=replace(x.type, shape=(*s[:d], s[d] * s[d + 1], *s[d + 2 :])))  # type: ignore[operator]

    stores = tuple(replace(s, index=shorter(s.tensor, s.index), value=rewrite(s.value, one)) for s in k.stores)
    return replace(
        k, axes=_axes(k.axes, a, b, new), inputs=tuple(map(arg, k.inputs)), outputs=tuple(map(arg, k.outputs)), stores=stores
    )


def _axes(axes: tuple[Axis, ...], a: Axis, b: Axis, new: Axis) -> tuple[Axis, ...]:
    return tuple(new if x.name == a.name else x for x in axes if x.name != b.name)
