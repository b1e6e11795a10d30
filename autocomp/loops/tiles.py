"""Full and partial tiles: where in the grid a guarded access needs no test (index-set splitting), as conditions to print.

    load x[i + kh - 1] if 0 <= i + kh - 1 < 64, i in tiles of 16   ->   full where 1 <= i_tile <= 2, tested elsewhere
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import islpy as isl

from autocomp.ir.affine import Aff
from autocomp.loops import sets
from autocomp.loops.access import free_symbols
from autocomp.loops.sets import Extents


@dataclass(frozen=True)
class FullTiles:
    """kind: all (no tile needs the test) | none (every tile does) | some. `conditions` (each >= 0, over `AXIS_tile`, the
    number of the tile) select the full tiles when kind is some; () with kind none also stands for a set of no simple form."""

    kind: str
    conditions: tuple[Aff, ...] = ()


@lru_cache(maxsize=16384)
def full_tiles(guard: tuple[Aff, ...], axes: Extents, tile: tuple[tuple[str, int], ...]) -> FullTiles:
    """Which tiles satisfy every guard at all their points. Axes that `tile` does not name lie whole in each tile."""
    syms = tuple({*free_symbols(guard, axes), *sets.symbols(d for _, d in axes)})
    numbers = tuple(Aff.of(a) // n for a, n in tile)
    to_tile = sets.function(axes, numbers, syms)
    grid = sets.domain(axes, (), syms).apply(to_tile)
    partial = grid.subtract(grid)
    for g in guard:
        partial = partial.union(sets.domain(axes, (-g - 1,), syms).apply(to_tile))
    full = grid.subtract(partial).coalesce()
    if partial.is_empty():
        return FullTiles("all")
    if full.is_empty() or full.n_basic_set() != 1:
        return FullTiles("none")
    conditions = _conditions(full.gist(grid), tuple(f"{a}_tile" for a, _ in tile))
    return FullTiles("none") if conditions is None else FullTiles("some", conditions)


def _conditions(s: isl.Set, names: tuple[str, ...]) -> tuple[Aff, ...] | None:
    """The set's constraints as expressions that are >= 0; None where it has divisions or several parts."""
    if s.n_basic_set() != 1:
        return None
    b = s.get_basic_sets()[0]
    if b.dim(isl.dim_type.div):
        return None
    out: list[Aff] = []
    for c in b.get_constraints():
        a = Aff((), c.get_constant_val().to_python())
        for kind, label in ((isl.dim_type.param, None), (isl.dim_type.set, names)):
            for k in range(b.dim(kind)):
                n = label[k] if label else sets.unname(b.get_dim_name(kind, k))
                a = a + Aff.of(n) * c.get_coefficient_val(kind, k).to_python()
        out += [a, -a] if c.is_equality() else [a]
    return tuple(sorted(out, key=str))
