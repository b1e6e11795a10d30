"""One name for axes that walk the same elements: rows of softmax and of its statistics, factors that contractions share.

    out[i, j] = exp(x[i, j] - max_r x[i, r])   ->   out[i, j] = exp(x[i, j] - max_j x[i, j]):  x is loaded once
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations

from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Contract, Expr, Gather, Load, Reduce, bound_axes, free_axes, postorder, rewrite, substitute
from autocomp.ir.kernel import Kernel

TOGETHER = 3  # axes of a row that are renamed in one step


def unify_axes(k: Kernel) -> Kernel:
    """Rename bound axes to a domain axis, or to another bound axis, wherever that makes a load or gather equal to another one."""
    while True:
        values = tuple(s.value for s in k.stores)
        step = next(_renamings(k, values), None)
        if step is None:
            return k
        for old, new in step:
            k = replace(k, stores=tuple(replace(s, value=rename_axis(s.value, old, new)) for s in k.stores))


def rename_axis(root: Expr, old: str, new: str) -> Expr:
    """The body with bound axis `old` called `new`."""
    def go(e: Expr) -> Expr:
        if isinstance(e, (Reduce, Contract)) and any(a.name == old for a in e.axes):
            return replace(e, axes=tuple(replace(a, name=new) if a.name == old else a for a in e.axes))
        return e
    return rewrite(substitute(root, {old: aff(new)}), go)


def _renamings(k: Kernel, values: tuple[Expr, ...]) -> Iterator[list[tuple[str, str]]]:
    """Renamings that make one load another: of an axis, or of several together (a row over channels and pixels has two of its own)."""
    bound: dict[str, Axis] = {a.name: a for v in values for a in bound_axes(v)}
    domain = {a.name: a for a in k.axes}
    loads = dict.fromkeys(e for e in postorder(*values) if isinstance(e, (Load, Gather)))
    free = free_axes(values)
    heavy = [e for e in postorder(*values) if isinstance(e, (Reduce, Contract))]

    def may(name: str, other: str) -> bool:
        if name not in bound or name in domain or (domain.get(other) or bound[other]).extent != bound[name].extent:
            return False
        owners = [e for e in heavy if any(a.name == name for a in e.axes)]
        if any(other in free[id(e)] or any(a.name == other for a in e.axes) for e in owners):
            return False
        caught = any(_captures(x, name, other, free) for e in owners for a in e.args for x in postorder(a))
        return (other in domain or other < name) and not caught

    for name in bound:
        mine = [e for e in loads if name in free[id(e)]]
        for other in (*domain, *bound):
            if other != name and may(name, other) and any(substitute(e, {name: aff(other)}) in loads for e in mine):
                yield [(name, other)]
    for e in loads:
        for x in loads:
            own, others = free[id(e)] - free[id(x)], free[id(x)] - free[id(e)]
            if e.dtype == x.dtype and 1 < len(own) == len(others) <= TOGETHER:
                for order in permutations(sorted(others)):
                    pairs = [*zip(sorted(own), order, strict=True)]
                    if all(may(*p) for p in pairs) and substitute(e, {n: aff(o) for n, o in pairs}) is x:
                        yield pairs


def _captures(e: Expr, name: str, other: str, free: Mapping[int, frozenset[str]]) -> bool:
    """Whether a reduction over `other` has `name` free: renamed, it would bind what it only mentioned."""
    return isinstance(e, (Reduce, Contract)) and any(a.name == other for a in e.axes) and name in free[id(e)]
