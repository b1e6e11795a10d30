"""Neighbouring axes that every access walks as one become one axis; the tensors' dimensions merge with them.

    y[h, w] = f(x[c, h, w])   over h:56 w:56   ->   y[p] = f(x[c, p])   over p:3136

A kernel's arguments are row-major memory, so an argument of shape [64, 56, 56] is one of shape [64, 3136] too. What walks the same
dimensions with other axes merges those as well, and an outer axis may be a part of its dimension:

    y[g, c, h] = x[6*g + c, h] - s[g], s[g] = sum over d:6 k:9 of x[6*g + d, k]   ->   y[g, p] = x[54*g + p] - s[g], a sum over q:54

or both axes walk one dimension:

    y[9*c + h] = x[c, h]   over c:64 h:9   ->   y[p] = x[p]   over p:576

as may an index that is a value (9*c + h -> p).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Contract, Expr, Gather, Index, Inside, Load, Recurrence, Reduce, postorder, rewrite
from autocomp.ir.kernel import Arg, Kernel
from autocomp.ir.types import Dim


def merge_axes(k: Kernel, digits: bool = True) -> Kernel:
    """The kernel with as few axes as its accesses allow (static extents only). `digits`: also outer axes that are a part of a dimension.
    Not in products, whose windows are found by the axes of their taps; nor reduced axes that walk one dimension there."""
    product = any(isinstance(e, Contract) for s in k.stores for e in postorder(s.value))
    digits = digits and not product
    while True:
        step = next((m for pair, own in _pairs(k) if (m := _merged(k, *pair, digits, own or not product)) is not None), None)
        if step is None:
            return k
        k = step


def _pairs(k: Kernel) -> Iterator[tuple[tuple[Axis, Axis], bool]]:
    """(outer, inner) neighbours of the domain and of each reduction; whether of the domain."""
    groups = [k.axes, *(e.axes for s in k.stores for e in postorder(s.value) if isinstance(e, (Reduce, Contract)))]
    seen: set[tuple[str, str]] = set()
    for i, axes in enumerate(groups):
        for a, b in pairwise(axes):
            if isinstance(a.extent, int) and isinstance(b.extent, int) and (a.name, b.name) not in seen:
                seen.add((a.name, b.name))
                yield (a, b), i == 0


def _merged(k: Kernel, a: Axis, b: Axis, digits: bool, within: bool) -> Kernel | None:
    """The kernel with axes a, b as one (named a), and so other pairs that walk the same dimensions; None where an access keeps them
    apart."""
    nodes = list(postorder(*(s.value for s in k.stores)))
    if any(isinstance(e, Recurrence) for e in nodes):
        return None
    extents = {x.name: x.extent for axes in (k.axes, *(e.axes for e in nodes if isinstance(e, (Reduce, Contract)))) for x in axes}
    shapes = {x.name: x.type.shape for x in (*k.inputs, *k.outputs)}
    uses = [(s.tensor, s.index, s.guard) for s in k.stores] + [(e.tensor, e.index, e.guard) for e in nodes if isinstance(e, Load)]
    pairs, place = {a.name: b.name}, dict[str, int]()
    while True:
        found, known = dict(pairs), len(place)
        for tensor, index, _ in uses:
            if within and tensor not in place and _within(index, found, extents):
                continue
            outer = {x: d for d, i in enumerate(index) for x in i.names() if x in pairs}
            inner = {x for i in index for x in i.names() if x in pairs.values()}
            at = {place[tensor]} if tensor in place else set(outer.values())
            if not at:
                if inner:
                    return None
                continue
            d = min(at)
            ends = _pair(index, d, shapes[tensor], extents, digits)
            if len(at) > 1 or ends is None or any(found.get(x, y) != y for x, y in (ends,)) or {*outer, *inner} - {*ends}:
                return None
            found |= (ends,)
            place[tensor] = d
        if (found, known) == (pairs, len(place)):
            break
        pairs = found
    names = pairs.keys() | pairs.values()
    if len(names) < 2 * len(pairs) or any(g.names() & names for _, _, guard in uses for g in guard):
        return None
    for e in nodes:
        if isinstance(e, Gather) and str(e.tensor) in place:
            return None
        if isinstance(e, Index) and not _apart((e.index,), pairs, extents):
            return None
        if isinstance(e, Inside) and any(i.names() & names for i in e.guard):
            return None
        if isinstance(e, (Reduce, Contract)) and not _neighbours(e.axes, pairs):
            return None
    if not _neighbours(k.axes, pairs):
        return None
    return _rebuilt(k, pairs, extents, place)


def _pair(index: tuple[Aff, ...], d: int, shape: tuple[Dim, ...], extents: Mapping[str, Dim], digits: bool) -> tuple[str, str] | None:
    """(outer, inner) axes that walk dimensions d and d + 1 as one: the inner one all of its own, the outer one too, or with `digits` its
    last one step by step; None where other axes do (a window slides), or these occur elsewhere."""
    if d + 1 >= len(index) or len(index[d + 1].names()) != 1 or not isinstance(shape[d + 1], int) or not isinstance(shape[d], int):
        return None
    (inner,) = index[d + 1].names()
    steps = [x for x, c in index[d].terms if c == 1 and isinstance(x, str)]
    if index[d + 1] != aff(inner) or extents.get(inner) != shape[d + 1] or not steps:
        return None
    outer = steps[-1]
    rest, size = index[d] - aff(outer), extents.get(outer)
    elsewhere = (*index[:d], *index[d + 2 :], rest)
    whole = not rest.terms and rest.const == 0 and size == shape[d]
    part = digits and isinstance(size, int) and all(isinstance(x, str) and c % size == 0 for x, c in rest.terms)
    return (outer, inner) if (whole or part) and outer != inner and not any(i.names() & {outer, inner} for i in elsewhere) else None


def _within(index: tuple[Aff, ...], pairs: Mapping[str, str], extents: Mapping[str, Dim]) -> bool:
    """Whether an access has each pair that it has any axis of in one dimension, where the inner axis walks the steps of the outer one; at
    least one pair."""
    return any(i.names() & {*pairs.keys(), *pairs.values()} for i in index) and _apart(index, pairs, extents)


def _apart(index: tuple[Aff, ...], pairs: Mapping[str, str], extents: Mapping[str, Dim]) -> bool:
    """Whether each pair of which indices have any axis is in one of them, where the inner axis walks the steps of the outer one."""
    mine = {x: y for x, y in pairs.items() if any(i.names() & {x, y} for i in index)}
    return all(
        sum(bool(i.names() & {x, y}) for i in index) == 1
        and any(i.is_affine and i.coef(y) and i.coef(x) == i.coef(y) * int(extents[y]) for i in index)  # type: ignore[arg-type]
        for x, y in mine.items())  # fmt: skip


def _neighbours(axes: tuple[Axis, ...], pairs: Mapping[str, str]) -> bool:
    """Whether of each pair an axis list has both, one behind the other, or none."""
    names = [x.name for x in axes]
    return all((outer in names) == (inner in names) and (outer not in names or names.index(inner) == names.index(outer) + 1)
               for outer, inner in pairs.items())  # fmt: skip


def _one_axis(i: Aff, pairs: Mapping[str, str]) -> Aff:
    """An index without inner axes, in whose steps the outer ones go."""
    for x, y in pairs.items():
        if c := i.coef(y) if y in i.names() else 0:
            i = i - aff(x) * i.coef(x) - aff(y) * c + aff(x) * c
    return i


def _rebuilt(k: Kernel, pairs: Mapping[str, str], extents: Mapping[str, Dim], place: Mapping[str, int]) -> Kernel:
    def shorter(tensor: str, index: tuple[Aff, ...]) -> tuple[Aff, ...]:
        if (d := place.get(tensor)) is None:  # both axes in one dimension, or none of them
            return tuple(_one_axis(i, pairs) for i in index)
        outer = next(x for x in index[d].names() if x in pairs and index[d + 1] == aff(pairs[x]))
        return (*index[:d], (index[d] - aff(outer)) * int(extents[pairs[outer]]) + aff(outer), *index[d + 2 :])  # type: ignore[arg-type]

    def fewer(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        one = {outer: replace(x, extent=extents[outer] * extents[inner])  # type: ignore[operator]
               for x in axes if (outer := x.name) in pairs and (inner := pairs[outer])}  # fmt: skip
        return tuple(one.get(x.name, x) for x in axes if x.name not in pairs.values())

    def one(e: Expr) -> Expr:
        if isinstance(e, Load):
            return replace(e, index=shorter(e.tensor, e.index))
        if isinstance(e, Index):
            return replace(e, index=_one_axis(e.index, pairs))
        return replace(e, axes=fewer(e.axes)) if isinstance(e, (Reduce, Contract)) else e

    def arg(x: Arg) -> Arg:
        if (d := place.get(x.name)) is None:
            return x
        s = x.type.shape
        return replace(x, type=replace(x.type, shape=(*s[:d], s[d] * s[d + 1], *s[d + 2 :])))  # type: ignore[operator]

    stores = tuple(replace(s, index=shorter(s.tensor, s.index), value=rewrite(s.value, one)) for s in k.stores)
    return replace(k, axes=fewer(k.axes), inputs=tuple(map(arg, k.inputs)), outputs=tuple(map(arg, k.outputs)), stores=stores)
