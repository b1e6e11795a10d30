"""Access maps through isl: the simplest form of a composed view, and whether an access stays in its buffer.

An access is (index, guard) over named axes, each axis in [0, extent): it touches buffer[index] where every guard >= 0.
Everything is memoised on the access itself, so equal accesses of a model are looked at once.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

import islpy as isl

from autocomp.errors import AutocompError
from autocomp.ir.affine import Aff
from autocomp.ir.types import Dim, Sym
from autocomp.loops import sets
from autocomp.loops.effort import ROUNDINGS, OverBudget, counted
from autocomp.loops.sets import Extents
from autocomp.loops.verdict import Verdict

Index = tuple[Aff, ...]


class OutOfBounds(AutocompError):
    """An access would leave its buffer at the named iteration (a defect of this compiler, never of the model)."""


@lru_cache(maxsize=65536)
def minimal_guard(guard: Index, axes: Extents) -> Index:
    """Guards that some iteration of the domain fails, each in its simplest form; those implied by the others are dropped."""
    kept: list[Aff] = list(dict.fromkeys(guard))
    for g in list(kept):
        rest = tuple(x for x in kept if x != g)
        if implied(g, rest, axes):
            kept.remove(g)
    return tuple(g if g.is_affine else simplest(g, (), axes) for g in kept)


@lru_cache(maxsize=65536)
def implied(g: Aff, guard: Index, axes: Extents) -> bool:
    """Does g >= 0 hold wherever every guard does?"""
    try:
        with counted():
            return g in guard or sets.domain(axes, (*guard, -g - 1), free_symbols((g, *guard), axes)).is_empty()
    except OverBudget:
        return False


@lru_cache(maxsize=65536)
def simplest(a: Aff, guard: Index, axes: Extents) -> Aff:
    """The simplest of: the expression, its range-simplified form, isl's form on the guarded domain, where isl finds it within its limits.

        floor((64*h + d)/64)  with h < 12, d < 64      ->  h
        ((((6*a + b) mod 8)) mod 4)  with a < 4, b < 6  ->  ((2*a + b) mod 4)
    """
    if a.is_affine:
        return a
    forms = [a]
    if all(isinstance(d, int) for _, d in axes):
        forms.append(a.simplify({n: d for n, d in axes if isinstance(d, int)}))
    if min(map(sets.complexity, forms))[0] <= ROUNDINGS:
        with suppress(OverBudget), counted():
            forms += _by_isl(a, guard, axes)
    return min(forms, key=sets.complexity)


def _by_isl(a: Aff, guard: Index, axes: Extents) -> list[Aff]:
    """The expression as isl writes it on the guarded domain, if it is one there."""
    dom = sets.domain(axes, guard, free_symbols((a, *guard), axes))
    pieces = sets.function(axes, (a,), free_symbols((a, *guard), axes)).intersect_domain(dom).as_pw_multi_aff()
    if pieces.n_piece() != 1:
        return []
    found: list[isl.MultiAff] = []
    pieces.foreach_piece(lambda _, m: found.append(m))
    return [sets.from_isl(found[0].get_aff(0))]


def free_symbols(exprs: tuple[Aff, ...], axes: Extents) -> tuple[Sym, ...]:
    """Names in the expressions that are no axes, as symbols of unknown size (extents' own symbols keep their bounds)."""
    known = {n for n, _ in axes} | {d.name for _, d in axes if isinstance(d, Sym)}
    return tuple(Sym(n) for n in sorted(set().union(*(e.names() for e in exprs)) - known)) if exprs else ()


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
