"""What the printer asks of a view: which axis is contiguous in memory, how many elements move at once, when a tile sticks out."""

from __future__ import annotations

from autocomp.ir.affine import Aff
from autocomp.ir.types import Dim, Sym
from autocomp.tile.program import Tensor


def multiple_of(d: Dim) -> int:
    """A number that a dimension is known to be a multiple of."""
    return d.multiple if isinstance(d, Sym) else d


def contiguous_axis(t: Tensor) -> str:
    """The axis whose step is one element in memory, "" if there is none."""
    if not t.index:
        return ""
    last = t.index[-1]
    for a in t.axes:
        if last.coef(a) == 1 and not any(a in i.names() for i in t.index[:-1]) and _plain(last, a):
            return a
    return ""


def vector_width(t: Tensor, axis: str, most: int, extent: Dim) -> int:
    """Elements along `axis` (contiguous) that one access may move, a power of two up to `most`: the address is then a multiple of
    the width wherever the index of `axis` is, and a guard or the end of the axis never cuts a vector."""
    if contiguous_axis(t) != axis:
        return 1
    v = most
    while v > 1 and not _aligned(t, axis, v, extent):
        v //= 2
    return v


def _plain(a: Aff, axis: str) -> bool:
    """The axis occurs outside floors and mods only."""
    return all(atom == axis or (axis not in ({atom} if isinstance(atom, str) else atom.num.names())) for atom, _ in a.terms)


def _aligned(t: Tensor, axis: str, v: int, extent: Dim) -> bool:
    if multiple_of(extent) % v:
        return False
    pitch = 1
    for d in range(len(t.index) - 1, -1, -1):
        ix = t.index[d]
        rest = [c for atom, c in ix.terms if atom != axis] + [ix.const]
        if any(c * pitch % v for c in rest):
            return False
        pitch *= multiple_of(t.shape[d])
    return all(_guard_aligned(g, axis, v) for g in t.guard)


def _guard_aligned(g: Aff, axis: str, v: int) -> bool:
    """g >= 0 changes only at multiples of v along the axis."""
    if axis not in g.names():
        return True
    c = g.coef(axis)
    if abs(c) != 1 or not _plain(g, axis):
        return False
    rest = [k for atom, k in g.terms if atom != axis]
    edge = g.const if c == 1 else g.const + 1
    return all(k % v == 0 for k in (*rest, edge))
