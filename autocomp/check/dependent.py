"""Kernels in which order matters, made of drawn ones: what a rule about schedules has to ask `legal` for.

The tiles of a product or of a row's statistics are right in any order, so that a rule which forgets to ask is right about them by luck.
Of each drawn kernel others are made that have the same form:

    out[i, j] = f(sum_r a[i, r] b[r, j])   ->   out[i, j] = f(sum_{h < 2, r < R/2} a[i, h R/2 + r] b[h R/2 + r, j])
        where sums stay as they are written, a loop over tiles of r around h would add the halves in turns

    out[i, j] = f(..)                      ->   out[i, j] = f(..) * max_q s[q]
        tiles of i begin in front of the maximum, and would store what waits for it (beside a running reduction, so does the maximum run)

    out[i, j] = f(sum_{r < R} a[i, r] b[r, j])   ->   R is known only when it runs
        so that no parts of it can be made before

Element-wise kernels give none: without a reduction nothing waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autocomp.egraph.bodies import signature
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Contract, Expr, Load, Map, Reduce, bound_axes, indices, postorder, rewrite, substitute
from autocomp.ir.kernel import Arg, Kernel
from autocomp.ir.monoids import identity
from autocomp.ir.scans import is_running, running
from autocomp.ir.types import BOOL, Sym, TensorType

PARTS = 2  # of a reduced axis
ELEMENTS = 8  # of the vector
LONGER = 4  # times an extent, where it is open


def dependent(kernel: Kernel, parts: bool = False) -> Iterator[Kernel]:
    """The kernels in which order matters that a drawn one gives rise to. `parts`: those that matter to reductions in parts."""
    folds = [e for s in kernel.stores for e in postorder(s.value) if isinstance(e, (Reduce, Contract))]
    axes = dict.fromkeys(a.name for e in folds for a in e.axes)
    if parts:
        made = {f"any_length_{a}": _open(kernel, a) for a in axes}
    else:
        made = {"times_maximum": _with_maximum(kernel) if folds and kernel.axes else None}
        made |= {f"{a}_in_parts": _in_parts(kernel, a) for a in axes}
    yield from (replace(k, name=f"{k.name}_{how}", signature=signature(k)) for how, k in made.items() if k is not None)


def _in_parts(kernel: Kernel, axis: str) -> Kernel | None:
    """The reductions over an axis as ones over its parts and their elements; None where it has no equal parts."""
    extents = {a.name: a.extent for s in kernel.stores for a in bound_axes(s.value)}
    extent = extents[axis]
    if not isinstance(extent, int) or extent % PARTS or extent < 2 * PARTS:
        return None
    part, length = Axis(f"r{len(extents)}", PARTS), extent // PARTS

    def both(e: Expr) -> Expr:
        if not isinstance(e, (Reduce, Contract)) or all(a.name != axis for a in e.axes):
            return e
        return replace(e, axes=tuple(x for a in e.axes for x in ((part, replace(a, extent=length)) if a.name == axis else (a,))))

    by = {axis: aff(part.name) * length + axis}
    return replace(kernel, stores=tuple(replace(s, value=rewrite(substitute(s.value, by), both)) for s in kernel.stores))


def _open(kernel: Kernel, axis: str) -> Kernel | None:
    """The kernel with a reduced axis of any length; None where something else than a dimension of each tensor follows that axis."""
    nodes = list(postorder(*(s.value for s in kernel.stores)))
    extents = [a.extent for a in (*kernel.axes, *(a for s in kernel.stores for a in bound_axes(s.value)))]
    follows = [i for s in kernel.stores for i in indices(s.value) if axis in i.names()]
    if any(isinstance(n, Sym) for n in extents) or any(i != aff(axis) for i in follows):
        return None
    extent = next(int(a.extent) for s in kernel.stores for a in bound_axes(s.value) if a.name == axis)  # type: ignore[arg-type]
    size = Sym("open", extent, LONGER * extent)

    def longer(e: Expr) -> Expr:
        if not isinstance(e, (Reduce, Contract)):
            return e
        return replace(e, axes=tuple(replace(a, extent=size) if a.name == axis else a for a in e.axes))

    along = {(e.tensor, d) for e in nodes if isinstance(e, Load) for d, i in enumerate(e.index) if i == aff(axis)}
    shape = lambda a: tuple(size if (a.name, d) in along else n for d, n in enumerate(a.type.shape))
    inputs = tuple(replace(a, type=TensorType(a.type.dtype, shape(a))) for a in kernel.inputs)
    return replace(kernel, inputs=inputs, stores=tuple(replace(s, value=rewrite(s.value, longer)) for s in kernel.stores))


def _with_maximum(kernel: Kernel) -> Kernel | None:
    """The first result times the largest element of a vector, where it is a number; along a running reduction, the largest so far."""
    first, *others = kernel.stores
    dtype = first.value.dtype
    if dtype == BOOL:
        return None
    along = next((x for e in postorder(first.value) if (x := running(e, kernel.axes))), None) if is_running(kernel) else None
    extent = along.axis.extent if along else ELEMENTS
    axis = Axis(f"r{len({a.name for s in kernel.stores for a in bound_axes(s.value)})}", extent)
    vector = Arg(f"in{len(kernel.inputs)}", TensorType(dtype, (extent,)))
    guard = (aff(along.axis.name) - axis.name,) if along else ()
    element = Load(dtype, vector.name, (aff(axis.name),), guard, identity("max", dtype))
    value = Map(dtype, "mul", (first.value, Reduce(dtype, "max", (axis,), (element,))))
    return replace(kernel, inputs=(*kernel.inputs, vector), stores=(replace(first, value=value), *others))
