"""A choice between elements of one tensor is one load from a chosen place (directive `one_load`).

    where(i < 5, x[i + 744], x[i - 5])             over i:749   ->   x[(i - 5) mod 749]              a roll
    where(i < 48, -x[i + 48], x[i - 48])           over i:96    ->   v = x[(i + 48) mod 96]: where(i < 48, -v, v)
    where(i < 3, x[i + 7], x[i - 3])               over i:12    ->   x[i - 3 - 10*floor((2 - i)/16)]

Places that lie apart by a constant are chosen by a remainder or a floor, which have two values where their ranges say so. isl proves that
the guards that are left out hold on their side of the choice, and that every place lies in the tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from autocomp.ir.affine import Aff
from autocomp.ir.body import Contract, Expr, Gather, Inside, Load, Map, Recurrence, Reduce, bound_axes
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import Dim
from autocomp.loops.access import Index, bounds, implied, simplest


@lru_cache(maxsize=256)
def one_load(k: Kernel) -> Kernel:
    """The kernel with one load in the place of two on both sides of a choice, wherever one tensor is read (static extents only)."""
    every = (*k.axes, *(a for s in k.stores for a in bound_axes(s.value)))
    extents = {a.name: a.extent for a in every if isinstance(a.extent, int)}
    choices = _Choices(extents, {a.name: a.type.shape for a in k.inputs})
    stores = tuple(replace(s, value=choices.value(s.value, ())) for s in k.stores)
    return k if all(a.value is b.value for a, b in zip(stores, k.stores)) else replace(k, stores=stores)


class _Choices:
    """Values with their choices made places, inner ones first."""

    def __init__(self, extents: Mapping[str, int], shapes: Mapping[str, tuple[Dim, ...]]) -> None:
        self.extents, self.shapes = extents, shapes
        self.done: dict[tuple[Expr, Index], Expr] = {}

    def value(self, e: Expr, facts: Index) -> Expr:
        """`e` where every fact is >= 0."""
        key = (e, facts)
        if key not in self.done:
            self.done[key] = self._value(e, facts)
        return self.done[key]

    def _value(self, e: Expr, facts: Index) -> Expr:
        if not (isinstance(e, Map) and e.fn == "where" and isinstance(e.operands[0], Inside) and len(e.operands[0].guard) == 1):
            new = tuple(self.value(a, facts) for a in e.args)
            return e if all(x is y for x, y in zip(new, e.args)) else e.with_args(new)
        (test,) = e.operands[0].guard
        yes, no = self.value(e.operands[1], (*facts, test)), self.value(e.operands[2], (*facts, -test - 1))
        left = _loads(no)
        for a in _loads(yes):
            for b in left:
                if a is not b and (both := self.chosen(test, a, b, facts)):
                    yes, no = _with(yes, a, both), _with(no, b, both)
                    left.remove(b)
                    break
        return yes if yes is no else e.with_args((e.operands[0], yes, no))

    def chosen(self, test: Aff, a: Load, b: Load, facts: Index) -> Load | None:
        """The load that is `a` where test >= 0 and `b` elsewhere, as far as the facts hold; those that it needs are guards of it."""
        if a.tensor != b.tensor or a.dtype != b.dtype:
            return None
        shared = tuple(g for g in a.guard if g in b.guard)
        if shared and repr(a.fill) != repr(b.fill):
            return None
        index: list[Aff] = []
        for i, j in zip(a.index, b.index):
            if (at := place(test, i, j, self.extents, facts)) is None:
                return None
            index.append(at)
        for more in ((), tuple(f for f in facts if f not in shared)):
            new = replace(a, index=tuple(index), guard=(*shared, *more))
            names = frozenset().union(*(x.names() for x in (test, *new.index, *new.guard, *a.guard, *b.guard)))
            if not names <= self.extents.keys():
                return None
            axes = tuple((n, self.extents[n]) for n in sorted(names))
            left_out = [(g, side) for x, side in ((a, test), (b, -test - 1)) for g in x.guard if g not in shared]
            within = bounds(new.index, new.guard, axes, self.shapes[a.tensor])
            if within and all(implied(g, (side, *new.guard), axes) for g, side in left_out):
                return new
        return None


def _loads(e: Expr) -> list[Load]:
    """The loads at a value's own point: of no reduction, no lookup and no state inside of it."""
    if isinstance(e, (Reduce, Contract, Recurrence, Gather)):
        return []
    return [e] if isinstance(e, Load) else list(dict.fromkeys(x for a in e.args for x in _loads(a)))


def _with(e: Expr, old: Load, new: Load) -> Expr:
    """`e` with a load replaced at its own point."""
    if e is old:
        return new
    if isinstance(e, (Reduce, Contract, Recurrence, Gather)) or not e.args:
        return e
    args = tuple(_with(a, old, new) for a in e.args)
    return e if all(x is y for x, y in zip(args, e.args)) else e.with_args(args)


def place(test: Aff, a: Aff, b: Aff, extents: Mapping[str, int], facts: Index = ()) -> Aff | None:
    """`a` where test >= 0, `b` elsewhere, if they lie apart by a constant on one of the sides, where every fact is >= 0."""
    names = frozenset().union(*(x.names() for x in (test, a, b, *facts)))
    if a == b or not names <= extents.keys():
        return a if a == b else None
    axes = tuple((n, extents[n]) for n in sorted(names))
    for side, taken, other in ((test, a, b), (-test - 1, b, a)):
        apart = simplest(taken - other, (side, *facts), axes)
        if apart.is_const and (apart.const > 0 or (taken - other) != apart):
            return _stepped(-side - 1, other, apart.const, extents)
    return None


def _stepped(step: Aff, a: Aff, by: int, extents: Mapping[str, int]) -> Aff:
    """a + by where step < 0, `a` elsewhere."""
    low, high = step.range(extents)
    if low >= 0 or high < 0 or not by:
        return a if low >= 0 else a + by
    most = max(-low, high + 1)
    if by >= most:
        return a - step + step % by
    return a - step // (1 << (most - 1).bit_length()) * by
