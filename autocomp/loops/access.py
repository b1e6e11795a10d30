"""Access maps through isl: composing views, simplest form, and the questions that emitters and costs ask of an access.

An access is (index, guard) over named axes, each axis in [0, extent): it touches buffer[index] where every guard >= 0.
Everything is memoised on the access itself, so equal accesses of a model are looked at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import gcd, prod

import islpy as isl

from autocomp.errors import AutocompError
from autocomp.ir.affine import Aff
from autocomp.ir.types import Dim, Sym
from autocomp.loops import sets
from autocomp.loops.sets import Extents
from autocomp.loops.verdict import Verdict

Index = tuple[Aff, ...]


class OutOfBounds(AutocompError):
    """An access would leave its buffer at the named iteration (a defect of this compiler, never of the model)."""


def compose(outer: tuple[Index, Index], inner: Mapping[str, Aff], axes: Extents) -> tuple[Index, Index]:
    """View of a view: `outer` is (index, guard) over old axes, `inner` gives each old axis over `axes`.

        x[outer(a)] with a = inner(b)   ->   x[outer(inner(b))], canonical for b in `axes`

    transpose then reshape:  compose(([n, m],), {m: floor(p/4), n: p mod 4}, p:12)  ->  [p mod 4, floor(p/4)]
    """
    index, guard = outer
    return canonical(tuple(i.substitute(inner) for i in index), tuple(g.substitute(inner) for g in guard), axes)


@lru_cache(maxsize=65536)
def canonical(index: Index, guard: Index, axes: Extents) -> tuple[Index, Index]:
    """The same access in its simplest form: floors and mods that the domain decides are gone, redundant guards too.

        [floor((64*h + d)/64), (64*h + d) mod 64], [127 - d]   with h < 12, d < 64   ->   [h, d], []
    """
    guard = minimal_guard(guard, axes)
    if all(i.is_affine for i in index):
        return index, guard
    return tuple(_simplest(i, guard, axes) for i in index), guard


@lru_cache(maxsize=65536)
def minimal_guard(guard: Index, axes: Extents) -> Index:
    """Guards that some iteration of the domain fails, each in its simplest form; those implied by the others are dropped."""
    kept: list[Aff] = list(dict.fromkeys(guard))
    for g in list(kept):
        rest = tuple(x for x in kept if x != g)
        if sets.domain(axes, (*rest, -g - 1), free_symbols((g, *rest), axes)).is_empty():
            kept.remove(g)
    return tuple(g if g.is_affine else _simplest(g, (), axes) for g in kept)


@lru_cache(maxsize=65536)
def implied(g: Aff, guard: Index, axes: Extents) -> bool:
    """Does g >= 0 hold wherever every guard does?"""
    return g in guard or sets.domain(axes, (*guard, -g - 1), free_symbols((g, *guard), axes)).is_empty()


@lru_cache(maxsize=65536)
def _simplest(a: Aff, guard: Index, axes: Extents) -> Aff:
    """The simplest of: the expression, its range-simplified form, isl's form on the guarded domain."""
    if a.is_affine:
        return a
    forms = [a]
    if all(isinstance(d, int) for _, d in axes):
        forms.append(a.simplify({n: d for n, d in axes if isinstance(d, int)}))
    dom = sets.domain(axes, guard, free_symbols((a, *guard), axes))
    pieces = sets.function(axes, (a,), free_symbols((a, *guard), axes)).intersect_domain(dom).as_pw_multi_aff()
    if pieces.n_piece() == 1:
        found: list[isl.MultiAff] = []
        pieces.foreach_piece(lambda _, m: found.append(m))
        forms.append(sets.from_isl(found[0].get_aff(0)))
    return min(forms, key=sets.complexity)


def free_symbols(exprs: tuple[Aff, ...], axes: Extents) -> tuple[Sym, ...]:
    """Names in the expressions that are no axes, as symbols of unknown size (extents' own symbols keep their bounds)."""
    known = {n for n, _ in axes} | {d.name for _, d in axes if isinstance(d, Sym)}
    return tuple(Sym(n) for n in sorted(set().union(*(e.names() for e in exprs)) - known)) if exprs else ()


# ---- questions

@lru_cache(maxsize=65536)
def bounds(index: Index, guard: Index, axes: Extents, shape: tuple[Dim, ...]) -> Verdict:
    """Is every access in its buffer? A no names the iteration, the index and the shape."""
    bad = out_of_range(index, guard, axes, shape)
    if bad is None:
        return Verdict(True)
    syms, point = bad
    at = dict(zip((n for n, _ in axes), point, strict=True))
    where = ", ".join(str(i.eval({**syms, **at})) for i in index)
    sizes = f" with {', '.join(f'{k}={v}' for k, v in syms.items())}" if syms else ""
    return Verdict(False, why=f"iteration [{', '.join(f'{k}={v}' for k, v in at.items())}] reads or writes [{where}] of a buffer "
                              f"of shape [{', '.join(map(str, shape))}]{sizes}")


def out_of_range(index: Index, guard: Index, axes: Extents, shape: tuple[Dim, ...]) -> tuple[dict[str, int], list[int]] | None:
    """(symbol values, iteration) of an access outside `shape`; None where there is none."""
    syms = sets.symbols(shape)
    syms += tuple(s for s in free_symbols((*index, *guard), axes) if s.name not in {d.name for d in syms})
    sizes = {n: d for n, d in axes if isinstance(d, int)}
    for i, d in zip(index, shape, strict=True):
        last = Aff.of(d.name if isinstance(d, Sym) else d) - 1
        for outside in (-i - 1, i - last - 1):
            if outside.names() <= sizes.keys() and outside.range(sizes)[1] < 0:  # few accesses need their guards to stay inside
                continue
            s = sets.domain(axes, (*guard, outside), syms)
            if not s.is_empty():
                return sets.sample(s)
    return None


def require_in_bounds(index: Index, guard: Index, axes: Extents, shape: tuple[Dim, ...], where: str) -> None:
    """Raise OutOfBounds with the iteration where an access leaves its buffer."""
    verdict = bounds(index, guard, axes, shape)
    if not verdict:
        raise OutOfBounds(verdict.why, where=where, hint="a defect of this compiler: please report the op named here")


@lru_cache(maxsize=65536)
def injective(index: Index, guard: Index, axes: Extents) -> Verdict:
    """Do different iterations touch different cells? A no names two iterations of one cell."""
    syms = free_symbols((*index, *guard), axes)
    m = sets.function(axes, index, syms).intersect_domain(sets.domain(axes, guard, syms))
    if m.is_injective():
        return Verdict(True)
    same = m.apply_range(m.reverse())
    twins = same.intersect(isl.Map.lex_lt(m.domain().get_space())).wrap()
    values, point = sets.sample(twins)
    n, names = len(axes), [a for a, _ in axes]
    first, second = (", ".join(f"{k}={v}" for k, v in zip(names, p, strict=True)) for p in (point[:n], point[n:]))
    cell = [i.eval({**values, **dict(zip(names, point[:n], strict=True))}) for i in index]
    return Verdict(False, why=f"iterations [{first}] and [{second}] both touch cell {cell}")


@lru_cache(maxsize=65536)
def divisible(a: Aff, n: int, axes: Extents, guard: Index = ()) -> bool:
    """Is the expression a multiple of n at every iteration?"""
    if n == 1 or (all(c % n == 0 for _, c in a.terms) and a.const % n == 0):
        return True
    return sets.domain(axes, (*guard, (a % n) - 1), free_symbols((a, *guard), axes)).is_empty()


def row_strides(shape: tuple[Dim, ...]) -> tuple[int | None, ...]:
    """Elements between neighbours along each dimension of a row-major buffer; None from the first symbolic one on outwards."""
    out: list[int | None] = []
    step: int | None = 1
    for d in reversed(shape):
        out.append(step)
        step = step * d if step is not None and isinstance(d, int) else None
    return tuple(reversed(out))


@lru_cache(maxsize=65536)
def stride(index: Index, shape: tuple[Dim, ...], axis: str, axes: Extents) -> int | None:
    """Elements the address moves when `axis` grows by one; None where that is not one number (symbolic, or it varies)."""
    moves = [_step(i, axis, axes) for i in index]
    steps = row_strides(shape)
    if any(m is None or (m and s is None) for m, s in zip(moves, steps, strict=True)):
        return _address_step(index, steps, axis, axes)
    return sum(m * s for m, s in zip(moves, steps, strict=True) if m and s is not None)


def _step(i: Aff, axis: str, axes: Extents) -> int | None:
    if all(isinstance(t, str) or axis not in t.num.names() for t, _ in i.terms):
        return i.coef(axis)
    return _constant_step(i, axis, axes)


def _address_step(index: Index, steps: tuple[int | None, ...], axis: str, axes: Extents) -> int | None:
    """A reshape's index moves row and column together; the address may still move evenly."""
    if any(s is None and axis in i.names() for i, s in zip(index, steps, strict=True)):
        return None
    address = sum((i * s for i, s in zip(index, steps, strict=True) if s is not None), Aff())
    return _constant_step(address, axis, axes)


@lru_cache(maxsize=65536)
def _constant_step(a: Aff, axis: str, axes: Extents) -> int | None:
    """a(axis + 1) - a(axis) where it is the same everywhere in the domain."""
    extent = dict(axes)[axis]
    if extent == 1:
        return 0
    inner = Aff.of(extent.name if isinstance(extent, Sym) else extent) - 2 - Aff.of(axis)
    move = a.substitute({axis: Aff.of(axis) + 1}) - a
    syms = free_symbols((a,), axes)
    values = sets.function(axes, (move,), syms).intersect_domain(sets.domain(axes, (inner,), syms)).range()
    if values.is_empty() or not values.is_singleton():
        return None
    return values.sample_point().get_coordinate_val(isl.dim_type.set, 0).to_python()


def contiguous(index: Index, shape: tuple[Dim, ...], axis: str, axes: Extents) -> bool:
    """Do consecutive values of `axis` touch consecutive elements?"""
    return stride(index, shape, axis, axes) == 1


@lru_cache(maxsize=65536)
def alignment(index: Index, shape: tuple[Dim, ...], axis: str, axes: Extents) -> int:
    """The largest n (a power of two up to 64) such that rows along `axis` begin at a multiple of n elements.

    What a vector load of n elements needs of its base when `axis` is stepped by n. 1 where nothing is known.
    """
    steps = row_strides(shape)
    if any(s is None and i.names() - {axis} for i, s in zip(index, steps, strict=True)):
        return 1
    base = sum((i * s for i, s in zip(index, steps, strict=True) if s is not None), Aff()).substitute({axis: Aff()})
    rest = tuple(a for a in axes if a[0] != axis)
    common = gcd(base.const, *(c for _, c in base.terms))
    n = common & -common if common else 64
    while n < 64 and divisible(base, 2 * n, rest):
        n *= 2
    return min(n, 64)


@lru_cache(maxsize=65536)
def footprint(index: Index, guard: Index, axes: Extents) -> int:
    """Distinct cells touched over the whole domain. Extents must be ints."""
    if not guard and all(i.is_affine and len(i.terms) <= 1 for i in index):
        used = [i.terms[0][0] for i in index if i.terms]
        if len(used) == len(set(used)):
            size = dict(axes)
            return prod(size[u] for u in used)  # type: ignore[index, misc]
    m = sets.function(axes, index).intersect_domain(sets.domain(axes, guard))
    return m.range().count_val().to_python()


@lru_cache(maxsize=65536)
def overlap(a: tuple[Index, Index, Extents], b: tuple[Index, Index, Extents]) -> tuple[int, ...] | None:
    """A cell that both accesses (index, guard, axes) of one buffer touch; None where they are disjoint."""
    syms = tuple(dict.fromkeys((*sets.symbols(d for _, d in (*a[2], *b[2])),)))
    ranges = [sets.function(x, i, syms).intersect_domain(sets.domain(x, g, syms)).range() for i, g, x in (a, b)]
    both = ranges[0].intersect(ranges[1])
    return None if both.is_empty() else tuple(sets.sample(both)[1])
