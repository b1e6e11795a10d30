"""How wide a tile of a factor can be copied: elements that one copy may move, from where they lie and where they are read.

Matrix units are fed through shared memory. Where neighbouring elements of a factor lie side by side and aligned, one copy moves
up to 16 bytes; else every element costs an address, a guard and a copy of its own.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from autocomp.cost.derived import constant
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Contract, Load, bound_axes, postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import Dim, Sym

SMALL = constant("small_factor")  # a tensor of less than this part of a factor's elements is read again from near
WIDEST = int(constant("copy_bytes"))  # bytes of one copy between memories


def copy_width(index: Sequence[Aff], guard: Sequence[Aff], shape: Sequence[Dim], extents: Mapping[str, Dim], bytes_: int,
               beside: Container[tuple[str, str]] = ()) -> int:  # fmt: skip
    """Elements (a power of two, at most 16 bytes) that a copy may move when a tensor of `shape` is read at `index` over axes of
    these extents. 1 where the last dimension is not walked in steps of one or runs start at odd places. `beside`: pairs of axes that
    become one where both walk dimensions whole (`egraph.merge`)."""
    width = WIDEST // bytes_
    none = {a: Aff() for a, n in extents.items() if n == 1}  # of a window of one element, say
    index, guard = (tuple(i.substitute(none) for i in xs) if none else tuple(xs) for xs in (index, guard))
    while len(shape) > 1 and shape[-1] == 1:  # dimensions of one element are nowhere in memory
        index, shape = index[:-1], shape[:-1]
    index, shape, extents = _merged(index, guard, shape, extents, beside)
    axis = _contiguous(index, extents)
    if not axis:
        return 1
    while width > 1 and not _aligned(index, guard, shape, axis, extents[axis], width):
        width //= 2
    return width


def _merged(index: Sequence[Aff], guard: Sequence[Aff], shape: Sequence[Dim], extents: Mapping[str, Dim],
            beside: Container[tuple[str, str]]) -> tuple[Sequence[Aff], Sequence[Dim], Mapping[str, Dim]]:  # fmt: skip
    """The last dimensions as one where two axes that lie `beside` each other walk them whole: lines of an image are one run."""
    guarded = frozenset().union(*(g.names() for g in guard))
    while len(shape) > 1 and isinstance(shape[-1], int) and isinstance(shape[-2], int):
        pair = [next(iter(i.names()), "") if len(i.terms) == 1 else "" for i in index[-2:]]
        whole = all(i == aff(a) and extents.get(a) == n for i, a, n in zip(index[-2:], pair, shape[-2:]))
        if not whole or guarded & set(pair) or tuple(pair) not in beside:
            break
        extents = {**extents, pair[1]: shape[-2] * shape[-1]}
        index, shape = (*index[:-2], index[-1]), (*shape[:-2], shape[-2] * shape[-1])
    return index, shape, extents


def _contiguous(index: Sequence[Aff], extents: Mapping[str, Dim]) -> str:
    """The axis (of more than one element) that steps by one element in memory, "" if there is none."""
    if not index:
        return ""
    last = index[-1]
    for a in sorted(last.names()):
        plain = all(atom == a or isinstance(atom, str) or a not in atom.num.names() for atom, _ in last.terms)
        if last.coef(a) == 1 and plain and extents.get(a, 1) != 1 and not any(a in i.names() for i in index[:-1]):
            return a
    return ""


def _multiple(d: Dim) -> int:
    return d.multiple if isinstance(d, Sym) else d


def _aligned(index: Sequence[Aff], guard: Sequence[Aff], shape: Sequence[Dim], axis: str, extent: Dim, width: int) -> bool:
    """Whether every run of `width` elements begins at a multiple of it and no guard cuts one."""
    if _multiple(extent) % width:
        return False
    pitch = 1
    for i, n in zip(reversed(index), reversed(shape), strict=True):
        if any(c * pitch % width for c in (*(c for atom, c in i.terms if atom != axis), i.const)):
            return False
        pitch *= _multiple(n)
    return all(_cuts_whole(g, axis, width) for g in guard if axis in g.names())


def _cuts_whole(g: Aff, axis: str, width: int) -> bool:
    c = g.coef(axis)
    if abs(c) != 1:
        return False
    edge = g.const if c == 1 else g.const + 1
    return all(k % width == 0 for k in (*(k for atom, k in g.terms if atom != axis), edge))


def narrow_copies(k: Kernel, least: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Copies of less than 16 bytes a step in depth that bring a tile's factors to shared memory, for each row and for each column; of them
    those of `least` bytes or more."""
    shapes = {a.name: a.type for a in k.inputs}
    extents = {a.name: a.extent for a in (*k.axes, *(a for st in k.stores for a in bound_axes(st.value)))}
    every, wide = [0.0, 0.0], [0.0, 0.0]
    for e in postorder(*(st.value for st in k.stores)):
        if not isinstance(e, Contract):
            continue
        for side, factor in enumerate((e.a, e.b)):
            loads = [x for x in postorder(factor) if isinstance(x, Load)]
            large = max((shapes[x.tensor].elements for x in loads), default=0)
            for x in loads:
                t = shapes[x.tensor]
                width = copy_width(x.index, x.guard, t.shape, extents, t.dtype.bytes)
                if SMALL * t.elements >= large and width * t.dtype.bytes < WIDEST:
                    every[side] += 1 / width
                    wide[side] += 1 / width if width * t.dtype.bytes >= least else 0.0
    return (every[0], every[1]), (wide[0], wide[1])
