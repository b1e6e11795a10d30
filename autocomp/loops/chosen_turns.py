"""A sum that takes in what a condition chooses, as long as what it chooses (directive `skip_neutral`).

    sum over r:2176 of where(at[r] == i0, u[r, i1], 0)    over i0:500, i1    ->    the same over r:5

What is left is a kernel to be priced, not to be run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from autocomp.ir.body import Axis, Const, Expr, Index, Map, Reduce, free_axes, postorder, rewrite
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import dim_hint


@lru_cache(maxsize=256)
def chosen_turns(k: Kernel) -> tuple[Kernel, str]:
    """The shorter kernel and the axis of its sum; the kernel and "" where no condition on a row's number chooses for all its columns."""
    if (found := _chosen(k)) is None:
        return k, ""
    fold, axis, row = found
    short = Axis(axis.name, max(1, -(-dim_hint(axis.extent) // max(1, dim_hint(row.extent)))))
    change = lambda e: replace(e, axes=(short,)) if e is fold else e
    return replace(k, stores=tuple(replace(s, value=rewrite(s.value, change)) for s in k.stores)), axis.name


def choosing_rows(k: Kernel) -> tuple[Axis, ...]:
    """The axis whose number decides which turns its row takes in, () if none does."""
    found = _chosen(k)
    return (found[2],) if found is not None else ()


def _chosen(k: Kernel) -> tuple[Reduce, Axis, Axis] | None:
    """The sum, its axis and the axis of rows that choose."""
    folds = [e for s in k.stores for e in postorder(s.value) if isinstance(e, Reduce)]
    if len(k.stores) != 1 or len(folds) != 1 or folds[0].monoid != "sum" or len(folds[0].axes) != 1 or len(folds[0].operands) != 1:
        return None
    (fold,), (axis,), (value,) = folds, folds[0].axes, folds[0].operands
    while isinstance(value, Map) and value.fn == "cast":  # a cast of nothing is nothing
        value = value.args[0]
    row = next((a for a in k.axes if a.name == _row(value)), None)
    if row is None or not isinstance(row.extent, int) or not isinstance(axis.extent, int) or not isinstance(value, Map):
        return None
    free = free_axes((value,))[id(value.args[0])]
    if axis.name not in free or free - {axis.name, row.name} or not any(a is not row and a.extent != 1 for a in k.axes):
        return None
    return fold, axis, row


def asked_for(test: object) -> list[str]:
    """The axes whose numbers an equality compares with what stands on its other side."""
    asked = [x.index for x in test.args if isinstance(x, Index)] if isinstance(test, Map) and test.fn == "eq" else []
    return [n for i in asked for n in i.names()]


def is_nothing(e: Expr) -> bool:
    """Whether a sum takes in nothing by it."""
    return isinstance(e, Const) and e.value == 0


def _row(value: Expr) -> str:
    """The axis whose number decides, "" if none does."""
    names = asked_for(value.args[0]) if isinstance(value, Map) and value.fn == "where" and is_nothing(value.args[2]) else []
    return names[0] if len(names) == 1 else ""
