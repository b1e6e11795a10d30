"""Pairs of instances whose order must be kept, and whether rows keep it.

Rows are compared position by position, as instances run. What isl says about a position depends on the pairs and on the loops before it
alone, so schedules that cut other axes ask again what is known.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import islpy as isl

from autocomp.ir.affine import Aff
from autocomp.loops import sets
from autocomp.loops.nest import Rows, Statement

Times = tuple[Aff, Aff]  # of the earlier and of the later instance at one position


class Order:
    """Pairs {earlier -> later}, as a union map and for each two statements as a set over the axes of both."""

    def __init__(self, statements: Sequence[Statement], pairs: isl.UnionMap) -> None:
        self.pairs = pairs
        found: list[isl.Map] = []
        pairs.foreach_map(found.append)
        number = {s.name: n for n, s in enumerate(statements)}
        self._between: list[_Between] = []
        for m in found:
            if not m.is_empty():
                earlier, later = (number[m.get_tuple_name(kind)] for kind in (isl.dim_type.in_, isl.dim_type.out))
                self._between.append(_Between(statements, earlier, later, m.wrap()))

    def __bool__(self) -> bool:
        """Is there any pair?"""
        return bool(self._between)

    def goes_back(self, rows: Sequence[Rows], free: Set[int]) -> bool:
        """Does some pair not move forward under these rows? `free`: positions of tile loops of open size.

        One that can be negative after nothing but zeros goes back, and so does one that is zero everywhere. A tile loop of any size
        moves by something between 0 and the loop's own distance, so it may be negative where that may, and may always be zero.
        """
        depth = 1 + 2 * max(len(r.loops) for r in rows)
        times = [r.flat(depth) for r in rows]
        return any(b.goes_back(tuple(zip(times[b.earlier], times[b.later], strict=True)), free) for b in self._between)


class _Between:
    """The pairs of two statements (by number), of which there is at least one."""

    def __init__(self, statements: Sequence[Statement], earlier: int, later: int, pairs: isl.Set) -> None:
        self.earlier, self.later = earlier, later
        space = pairs.get_space()
        first, second = statements[earlier].names, statements[later].names
        symbols = [sets.unname(space.get_dim_name(isl.dim_type.param, n)) for n in range(space.dim(isl.dim_type.param))]
        self._places = sets.places_of(first, symbols), sets.places_of(second, symbols, len(first))
        self._zero = sets.zero(space)
        self._left: dict[tuple[Times, ...], isl.Set] = {(): pairs}  # by the positions at which both are at the same time
        self._known: dict[tuple[tuple[Times, ...], Times], tuple[bool, bool]] = {}

    def goes_back(self, times: tuple[Times, ...], free: Set[int]) -> bool:
        same: tuple[Times, ...] = ()
        for k, (x, y) in enumerate(times):
            if x.is_const and y.is_const:
                back, stays = x.const > y.const, x.const == y.const
            else:
                back, stays = self._moves(same, (x, y))
            if back:
                return True
            if k in free:
                continue
            if not stays:
                return False
            if not x.is_const or not y.is_const:
                same = (*same, (x, y))
        return True

    def _moves(self, same: tuple[Times, ...], at: Times) -> tuple[bool, bool]:
        """May the later instance stand before the earlier one at this position, and may both be at the same time, where they were at the
        same time at the positions before?"""
        if (same, at) not in self._known:
            step = self._aff(at[1], 1).sub(self._aff(at[0], 0))
            back = not self._left[same].intersect(isl.Set.from_basic_set(step.neg_basic_set())).is_empty()
            left = self._left[(*same, at)] = self._left[same].intersect(isl.Set.from_basic_set(step.zero_basic_set()))
            self._known[same, at] = back, not left.is_empty()
        return self._known[same, at]

    def _aff(self, a: Aff, side: int) -> isl.Aff:
        return sets.affine(a, self._zero, self._places[side])
