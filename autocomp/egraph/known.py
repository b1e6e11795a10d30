"""What a choice between two values already knows is not asked again inside it.

    where(r < 4, where(r < 4, f(x[i] if r < 4), 0), g(y[i] if r >= 4))   ->   where(r < 4, f(x[i]), g(y[i]))

A guard of a load goes only where the load stays inside its tensor without it: memory is then read whichever side is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autocomp.ir.affine import Aff
from autocomp.ir.body import Expr, Inside, Load, Map, bound_axes
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import Dim

Facts = tuple[Aff, ...]


def use_known(k: Kernel) -> Kernel:
    """The kernel with tests that an enclosing `where` decides removed (static extents only)."""
    every = (*k.axes, *(a for s in k.stores for a in bound_axes(s.value)))
    extents = {a.name: a.extent for a in every if isinstance(a.extent, int)}
    shapes = {a.name: a.type.shape for a in k.inputs}
    simplifier = _Simplifier(extents, shapes)
    return replace(k, stores=tuple(replace(s, value=simplifier.value(s.value, ())) for s in k.stores))


class _Simplifier:
    def __init__(self, extents: Mapping[str, int], shapes: Mapping[str, tuple[Dim, ...]]) -> None:
        self.extents, self.shapes = extents, shapes
        self.done: dict[tuple[Expr, Facts], Expr] = {}

    def value(self, e: Expr, facts: Facts) -> Expr:
        """`e` where every fact is >= 0."""
        key = (e, facts)
        if key not in self.done:
            self.done[key] = self._value(e, facts)
        return self.done[key]

    def _value(self, e: Expr, facts: Facts) -> Expr:
        if isinstance(e, Map) and e.fn == "where" and isinstance(e.operands[0], Inside):
            return self.choice(e, e.operands[0].guard, facts)
        if isinstance(e, Load) and facts and e.guard:
            left = tuple(g for g in e.guard if not self.implied(g, facts))
            return replace(e, guard=left) if left != e.guard and self.within(e, left) else e
        return e.with_args(tuple(self.value(a, facts) for a in e.args)) if e.args else e

    def choice(self, e: Map, guard: Facts, facts: Facts) -> Expr:
        left = tuple(g for g in guard if not self.implied(g, facts))
        if not left:
            return self.value(e.operands[1], facts)
        if any(self.implied(-g - 1, facts) for g in left):
            return self.value(e.operands[2], facts)
        otherwise = (*facts, -left[0] - 1) if len(left) == 1 else facts
        return e.with_args((Inside.of(left), self.value(e.operands[1], (*facts, *left)), self.value(e.operands[2], otherwise)))

    def implied(self, g: Aff, facts: Facts) -> bool:
        """g >= 0 follows from one fact and the axes' extents."""
        return any((g - f).names() <= self.extents.keys() and (g - f).range(self.extents)[0] >= 0 for f in facts)

    def within(self, e: Load, guard: Facts) -> bool:
        """Inside its tensor at every point of the domain where `guard` holds, each guard taken by itself."""
        for i, d in zip(e.index, self.shapes[e.tensor]):
            if not isinstance(d, int) or not i.names() <= self.extents.keys():
                return False
            lo, hi = i.range(self.extents)
            if (lo < 0 and not self.implied(i, guard)) or (hi >= d and not self.implied(-i + d - 1, guard)):
                return False
        return True
