"""A kernel of open sizes at some of the sizes that it may have: one schedule serves them all, and is priced at small and at large ones.

    b in 1..64, n in 2..1024, spread 0.3    ->    b = 2, n = 6    b = 8, n = 45 (expected)    b = 27, n = 294

Scores of attention in one tile stay near at 45 rows, and do not at 294.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autocomp.cost.chip import Chip
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import pricer
from autocomp.cost.work import Cost
from autocomp.ir.body import Axis, Contract, Expr, Reduce, rewrite
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.sizes import inputs_of
from autocomp.ir.types import Dim, Sym, TensorType, dim_hint


def fixed(d: Dim, above: float) -> Dim:
    """A symbol that has one value, so far above the middle of its bounds (`dim_hint`)."""
    if not isinstance(d, Sym):
        return d
    if d.is_computed:
        return replace(d, parts=tuple((fixed(s, above), k) for s, k in d.parts), factors=tuple(fixed(s, above) for s in d.factors))  # type: ignore[misc]
    value = dim_hint(d, above)
    return replace(d, lo=value, hi=value)


def at(kernel: Kernel, above: float) -> Kernel:
    """The kernel with symbols that have one value each."""
    axis = lambda a: Axis(a.name, fixed(a.extent, above))
    arg = lambda a: replace(a, type=TensorType(a.type.dtype, tuple(fixed(d, above) for d in a.type.shape)))

    def one(e: Expr) -> Expr:
        return replace(e, axes=tuple(map(axis, e.axes))) if isinstance(e, (Contract, Reduce)) else e

    stores = tuple(replace(s, value=rewrite(s.value, one)) for s in kernel.stores)
    return replace(kernel, axes=tuple(map(axis, kernel.axes)), inputs=tuple(map(arg, kernel.inputs)),
                   outputs=tuple(map(arg, kernel.outputs)), stores=stores)  # fmt: skip


def places(kernel: Kernel, spread: float) -> tuple[float, ...]:
    """How far above the middle the sizes lie at which a kernel is priced: in the middle alone for one that has no open sizes."""
    return (0.0, -spread, spread) if sizes(kernel, -spread) != sizes(kernel, spread) else (0.0,)


def sizes(kernel: Kernel, above: float) -> dict[str, int]:
    """The values of the symbols that a kernel's sizes are computed from, so far above the middle, by name."""
    dims = (*(d for a in (*kernel.inputs, *kernel.outputs) for d in a.type.shape), *(a.extent for a in kernel.axes))
    found = {s for d in dims if isinstance(d, Sym) for s in inputs_of(d)}
    return {s.name: dim_hint(s, above) for s in sorted(found, key=lambda s: s.name)}


def elsewhere(kernel: Kernel, chip: Chip, spread: float) -> list[Callable[[Schedule], Cost]]:
    """The kernel's pricers at small and at large sizes; none where it has no open ones."""
    return [pricer(demand_of(k), chip, k) for k in (at(kernel, x) for x in places(kernel, spread)[1:])]
