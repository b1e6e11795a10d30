"""What is reduced varies along the axes that are reduced: a value without one of them is written as one that has it.

    y[i] = sum_r x[i]   ->   y[i] = sum_r where(r >= 0, x[i], x[i])

A statement of a tile program reduces, or multiplies along, the axes that its operands lie over, so the value has to be there as
often as it counts.
"""

from __future__ import annotations

from dataclasses import replace

from autocomp.ir.affine import aff
from autocomp.ir.body import Contract, Expr, Inside, Map, Reduce, free_axes, postorder, rewrite
from autocomp.ir.kernel import Kernel


def spread_operands(k: Kernel) -> Kernel:
    """The kernel with every operand of a reduction or contraction over all axes that are reduced."""
    values = tuple(s.value for s in k.stores)
    free = free_axes(values)
    folds = [e for e in postorder(*values) if isinstance(e, (Reduce, Contract))]
    if all({a.name for a in e.axes} <= free[id(x)] for e in folds for x in e.args):
        return k
    made: dict[tuple[int, frozenset[str]], Expr] = {}  # parts of one state know each other by their operands
    kept: list[Expr] = []

    def spread(x: Expr, axes: frozenset[str]) -> Expr:
        missing = axes - free_axes((x,))[id(x)]
        key = (id(x), missing)
        if missing and key not in made:
            kept.append(x)
            made[key] = Map(x.dtype, "where", (Inside.of(tuple(aff(a) for a in sorted(missing))), x, x))
        return made[key] if missing else x

    def one(e: Expr) -> Expr:
        if not isinstance(e, (Reduce, Contract)):
            return e
        axes = frozenset(a.name for a in e.axes)
        new = tuple(spread(x, axes) for x in e.args)
        return e if all(a is b for a, b in zip(new, e.args)) else e.with_args(new)

    return replace(k, stores=tuple(replace(s, value=rewrite(s.value, one)) for s in k.stores))
