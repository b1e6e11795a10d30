"""One name for axes that walk the same elements: rows of softmax and of its statistics, factors that contractions share.

    out[i, j] = exp(x[i, j] - max_r x[i, r])   ->   out[i, j] = exp(x[i, j] - max_j x[i, j]):  x is loaded once
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Contract, Expr, Gather, Load, Reduce, bound_axes, free_axes, postorder, rewrite, substitute
from autocomp.ir.kernel import Kernel


def unify_axes(k: Kernel) -> Kernel:
    """Rename bound axes to a domain axis, or to another bound axis, wherever that makes a load or gather equal to another one."""
    while True:
        values = tuple(s.value for s in k.stores)
        step = next(_renamings(k, values), None)
        if step is None:
            return k
        old, new = step
        k = replace(k, stores=tuple(replace(s, value=rename_axis(s.value, old, new)) for s in k.stores))


def rename_axis(root: Expr, old: str, new: str) -> Expr:
    """The body with bound axis `old` called `new`."""
    def go(e: Expr) -> Expr:
        if isinstance(e, (Reduce, Contract)) and any(a.name == old for a in e.axes):
            return replace(e, axes=tuple(replace(a, name=new) if a.name == old else a for a in e.axes))
        return e
    return rewrite(substitute(root, {old: aff(new)}), go)


def _renamings(k: Kernel, values: tuple[Expr, ...]) -> Iterator[tuple[str, str]]:
    bound: dict[str, Axis] = {a.name: a for v in values for a in bound_axes(v)}
    domain = {a.name: a for a in k.axes}
    loads = {e for e in postorder(*values) if isinstance(e, (Load, Gather))}
    free = free_axes(values)
    heavy = [e for e in postorder(*values) if isinstance(e, (Reduce, Contract))]
    for name, axis in bound.items():
        if name in domain:
            continue
        owners = [e for e in heavy if any(a.name == name for a in e.axes)]
        for other in (*domain, *bound):
            target = domain.get(other) or bound[other]
            if other == name or target.extent != axis.extent:
                continue
            if any(other in free[id(e)] or any(a.name == other for a in e.axes) for e in owners):
                continue
            if any(_captures(x, name, other, free) for e in owners for a in e.args for x in postorder(a)):
                continue
            mine = [e for e in loads if name in free[id(e)]]
            if any(substitute(e, {name: aff(other)}) in loads for e in mine) and (other in domain or other < name):
                yield name, other


def _captures(e: Expr, name: str, other: str, free: Mapping[int, frozenset[str]]) -> bool:
    """Whether a reduction over `other` has `name` free: renamed, it would bind what it only mentioned."""
    return isinstance(e, (Reduce, Contract)) and any(a.name == other for a in e.axes) and name in free[id(e)]
