"""Does a tiled program visit every element exactly once? Decided by isl for one statement of it at a time.

    for b_m: for b_k: acc[m] += f(m, k)     visits { [b_m, b_k, p_m, p_k] -> [m = b_m + p_m, k = b_k + p_k] }, masked to the extents

A fold is right where, in every life of its result, the visits are a bijection onto (elements of the result) x (elements reduced); a store
where they are one onto the elements of the buffer. Nothing is assumed of how the program was derived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import islpy as isl

from autocomp.ir.affine import Aff, aff
from autocomp.ir.types import Dim, Sym
from autocomp.loops import sets
from autocomp.loops.dependence import order_map
from autocomp.loops.nest import LoopNest


@dataclass(frozen=True)
class Visits:
    """One statement's. extents, tile: of every axis that is named, the tile no larger than the extent; loops: axes whose tiles pass by
    around the statement, outermost first, of which the first `life` begin its result anew; axes: those of the result; folded: those that
    it reduces; until: (a, b, c): a's loop ends behind the tile that holds index c + the last index of b's tile."""

    extents: tuple[tuple[str, Dim], ...]
    tile: tuple[tuple[str, Dim], ...]
    loops: tuple[str, ...]
    axes: tuple[str, ...]
    life: int = 0
    folded: tuple[str, ...] = ()
    until: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class Target:
    """Where a store puts its elements: indices into a buffer of this shape, wherever every guard is >= 0."""

    shape: tuple[Dim, ...]
    index: tuple[Aff, ...]
    guard: tuple[Aff, ...] = ()


@lru_cache(maxsize=16384)
def folds_once(v: Visits) -> str:
    """Why some element is not folded exactly once into each element of the result, "" if each is."""
    if kept := [a for a in v.loops[v.life :] if a in v.axes]:
        return f"the result is kept through a loop over {kept[0]}, of which it has one tile"
    begin = tuple(_base(a) for a in v.loops[: v.life])
    seen = _visits(v, (*(aff(b) for b in begin), *(_place(v, a) for a in (*v.axes, *v.folded))))
    wanted = _wanted(v, begin)
    names = (*(f"tile of {a} at" for a in v.loops[: v.life]), *v.axes, *v.folded)
    return _bijection(seen, wanted, names, "folded")


@lru_cache(maxsize=16384)
def stores_once(stores: tuple[tuple[Visits, Target], ...]) -> str:
    """Why some element of a buffer is not written exactly once by the statements that store to it, "" if each is."""
    shape = stores[0][1].shape
    names = tuple(f"dimension {n}" for n in range(len(shape)))
    whole = sets.domain(tuple((f"d{n}", d) for n, d in enumerate(shape)), (), _symbols(stores))
    done: isl.Set | None = None
    for v, t in stores:
        place = {a: _place(v, a) for a in v.axes}
        seen = _visits(v, tuple(i.substitute(place) for i in t.index), tuple(g.substitute(place) for g in t.guard))
        if twice := _twice(seen, names, "written"):
            return twice
        range_ = seen.range()
        if done is not None and not (both := done.intersect(range_)).is_empty():
            return f"{_element(both, names)} is written by two statements"
        done = range_ if done is None else done.union(range_)
    assert done is not None
    lacks = whole.subtract(done)
    return "" if lacks.is_empty() else f"{_element(lacks, names)} is never written"


def runs_once(nest: LoopNest) -> str:
    """Why two instances of a transformed nest would have one place in time, "" if each has its own."""
    time = order_map(nest, nest.rows)
    return "" if time.is_injective() else "two instances of a statement have one place in time"


def parts_once(extent: int, parts: int, length: int) -> str:
    """Why an element of a reduction is not in exactly one of its parts, "" if each is."""
    m = isl.Map(f"{{ [p, r] -> [p * {length} + r] : 0 <= p < {parts} and 0 <= r < {length} and p * {length} + r < {extent} }}")
    return _bijection(m, isl.Set(f"{{ [x] : 0 <= x < {extent} }}"), ("element",), "in a part")


def outside(guard: Sequence[Aff], axis: str, extents: Mapping[str, Dim], extent: Dim) -> bool:
    """Does a guard (each >= 0) exclude everything past the end of an axis?"""
    names = sorted({n for g in guard for n in g.names()} & extents.keys() | {axis})
    box = tuple((n, 2**31) for n in names)
    end = aff(axis) - (extent.name if isinstance(extent, Sym) else extent)
    return bool(sets.domain(box, (*guard, end), sets.symbols((extent, *extents.values()))).is_empty())


# ---- sets
def _base(axis: str) -> str:
    return f"tile_{axis}"


def _point(axis: str) -> str:
    return f"point_{axis}"


def _place(v: Visits, axis: str) -> Aff:
    """The index along an axis: where the tile begins and the point in it."""
    return aff(_point(axis)) + (_base(axis) if axis in v.loops else 0)


def _size(d: Dim) -> Aff:
    return aff(d.name if isinstance(d, Sym) else d)


def _symbols(stores: tuple[tuple[Visits, Target], ...]) -> tuple[Sym, ...]:
    return sets.symbols(d for v, t in stores for d in (*t.shape, *(d for _, d in v.extents)))


def _visits(v: Visits, values: tuple[Aff, ...], guard: tuple[Aff, ...] = ()) -> isl.Map:
    """{ [tiles, points] -> values } over what the loops and masks let happen."""
    extent, tile = dict(v.extents), dict(v.tile)
    mine = tuple(dict.fromkeys((*v.axes, *v.folded)))
    axes = (*((_base(a), extent[a]) for a in v.loops), *((_point(a), tile[a]) for a in mine))
    steps = [_step(_base(a), tile[a]) for a in v.loops]
    masks = [_size(extent[a]) - _place(v, a) - 1 for a in mine]
    ends = [_last(v, b) + c - _base(a) for a, b, c in v.until]
    syms = sets.symbols(d for _, d in v.extents)
    m = sets.function(axes, values, syms)
    return m.intersect_domain(sets.domain(axes, (*steps, *masks, *ends, *guard), syms))


def _step(base: str, size: Dim) -> Aff:
    """>= 0 where a loop over tiles of this size has a turn; one as long as its axis has the first turn alone."""
    return -(aff(base) % size) if isinstance(size, int) else -aff(base)


def _last(v: Visits, axis: str) -> Aff:
    """The last index of the tile of an axis."""
    return _size(dict(v.tile)[axis]) - 1 + (_base(axis) if axis in v.loops else 0)


def _wanted(v: Visits, begin: tuple[str, ...]) -> isl.Set:
    """{ [begins of the life's tiles, elements of the result there, all elements reduced] }."""
    extent, tile, lives = dict(v.extents), dict(v.tile), v.loops[: v.life]
    axes = (*((b, extent[a]) for b, a in zip(begin, lives)), *((f"x_{a}", extent[a]) for a in (*v.axes, *v.folded)))
    guard = [_step(b, tile[a]) for b, a in zip(begin, lives)]
    for a in v.axes:
        if a in lives:
            guard += [aff(f"x_{a}") - _base(a), _size(tile[a]) + _base(a) - 1 - f"x_{a}"]
    for a, b, c in v.until:
        size = tile[a]
        if a in v.folded and isinstance(size, int):
            guard.append(_last(v, b) + c - (aff(f"x_{a}") - (aff(f"x_{a}") % size)))
    syms = sets.symbols(d for _, d in v.extents)
    return sets.domain(axes, tuple(guard), syms)


def _bijection(seen: isl.Map, wanted: isl.Set, names: Sequence[str], what: str) -> str:
    if twice := _twice(seen, names, what):
        return twice
    range_ = seen.range()
    if not (lacks := wanted.subtract(range_)).is_empty():
        return f"{_element(lacks, names)} is never {what}"
    if not (more := range_.subtract(wanted)).is_empty():
        return f"{_element(more, names)} is {what}, and should not be"
    return ""


def _twice(seen: isl.Map, names: Sequence[str], what: str) -> str:
    if seen.is_injective():
        return ""
    pairs = seen.apply_range(seen.reverse())
    pairs = pairs.subtract(isl.Map.identity(pairs.get_space()))
    return f"{_element(pairs.domain().apply(seen), names)} is {what} more than once, by iterations {_distance(pairs)} apart"


def _distance(pairs: isl.Map) -> str:
    """How far two iterations (bases of tiles, points in them) lie apart along each axis."""
    later = pairs.intersect(isl.Map.lex_lt(pairs.get_space().domain()))
    bases = [str(pairs.get_dim_name(isl.dim_type.in_, i)) for i in range(pairs.dim(isl.dim_type.in_))]
    far: dict[str, int] = {}
    for n, x in zip(bases, sets.sample(later.deltas())[1]):
        axis = sets.unname(n).split("_", 1)[1]
        far[axis] = far.get(axis, 0) + abs(x)
    return ", ".join(f"{a} {x}" for a, x in far.items() if x)


def _element(s: isl.Set, names: Sequence[str]) -> str:
    sizes, point = sets.sample(s)
    at = f" (at {', '.join(f'{n}={x}' for n, x in sizes.items())})" if sizes else ""
    return f"the element [{', '.join(f'{n} {x}' for n, x in zip(names, point, strict=True))}]{at}"
