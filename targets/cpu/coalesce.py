"""Merge axes that every access walks as one: a [64, 56, 56] element-wise kernel becomes one loop over 200704 elements.
This is a normal form of a nest's axes, no choice: the same elements in the same order, without a schedule that could want it otherwise.

for h < H: for w < W: Y[h*W + w] = f(X[h*W + w])   ->   for w < H*W: Y[w] = f(X[w])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autocomp.targets.cpu.flat import View
from autocomp.targets.cpu.lower import Nest

from autocomp.ir.body import Expr, Gather, Index, Inside, postorder
from autocomp.tile.program import Loop, Stmt, walk


def coalesce(nest: Nest) -> Nest:
    """Merge whole, adjacent axes (outer, inner) until no pair is left. Sizes must be numbers."""
    while True:
        pair = next((p for p in _pairs(nest) if _mergeable(nest, *p)), None)
        if pair is None:
            return nest
        nest = _merge(nest, *pair)


def _pairs(nest: Nest) -> Iterator[tuple[str, str]]:
    """Neighbours in the axis order of some view or value."""
    seen: set[tuple[str, str]] = set()
    for axes in [v.axes for v in nest.views.values()] + [s.axes for s in nest.slots.values()]:
        for a, b in zip(axes, axes[1:]):
            if (a, b) not in seen:
                seen.add((a, b))
                yield a, b


def _mergeable(nest: Nest, outer: str, inner: str) -> bool:
    slid = {x for at in nest.buffers.values() for a, i in at.items() for x in (a, *i.names())}
    if outer in nest.tile or inner in nest.tile or outer in slid or inner in slid:
        return False
    ea, eb = nest.extent[outer], nest.extent[inner]
    if not isinstance(ea, int) or not isinstance(eb, int):
        return False
    return (
        all(_view_ok(v, outer, inner, eb) for v in nest.views.values())
        and all(_adjacent(s.axes, outer, inner) for s in nest.slots.values())
        and all(_stmt_ok(s, outer, inner) for s, _ in walk(nest.body))
    )


def _view_ok(v: View, outer: str, inner: str, inner_extent: int) -> bool:
    if {outer, inner} & v.guard_names() or not _adjacent(v.axes, outer, inner):
        return False
    so, si = v.flat.stride(outer), v.flat.stride(inner)
    return isinstance(so, int) and isinstance(si, int) and so == si * inner_extent


def _adjacent(axes: tuple[str, ...], outer: str, inner: str) -> bool:
    """Both absent, or inner right behind outer."""
    if outer not in axes or inner not in axes:
        return outer not in axes and inner not in axes
    return axes.index(inner) == axes.index(outer) + 1


def _stmt_ok(s: Stmt, outer: str, inner: str) -> bool:
    if s.axis and {outer, inner} & set(s.axis.split(",")) and not _adjacent(tuple(s.axis.split(",")), outer, inner):
        return False
    if not isinstance(s.expr, Expr):
        return True
    for e in postorder(s.expr):
        used = (
            e.index.names()
            if isinstance(e, Index)
            else frozenset().union(*(g.names() for g in e.guard))
            if isinstance(e, Inside)
            else frozenset()
        )
        if {outer, inner} & used or isinstance(e, Gather):
            return False
    return True


def _merge(nest: Nest, outer: str, inner: str) -> Nest:
    drop = lambda axes: tuple(a for a in axes if a != outer)
    extent = dict(nest.extent)
    extent[inner] = extent[outer] * extent[inner]  # type: ignore[operator]
    views = {n: replace(v, axes=drop(v.axes), flat=v.flat.without(outer)) for n, v in nest.views.items()}
    slots = {n: replace(s, axes=drop(s.axes)) for n, s in nest.slots.items()}

    def block(body: tuple[Loop | Stmt, ...]) -> tuple[Loop | Stmt, ...]:
        return tuple(
            replace(n, body=block(n.body)) if isinstance(n, Loop) else replace(n, axis=",".join(drop(tuple(n.axis.split(",")))))
            for n in body
        )

    return replace(nest, extent=extent, views=views, slots=slots, body=block(nest.body))
