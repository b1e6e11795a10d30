"""What the printer asks of a view: which axis is contiguous in memory, how many elements move at once, when a tile sticks out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from math import prod

from autocomp.targets.simt.placed import tile_of
from autocomp.targets.simt.samples import SECTOR

from autocomp.ir.affine import Aff, Atom, Mod
from autocomp.ir.types import Dim, Sym
from autocomp.tile.layout import Digit, Layout
from autocomp.tile.program import Tensor, TileProgram, walk

VECTOR_BYTES = 16  # of one access
PREDICATES = 7  # conditions that a thread has registers for: P0 to P6 in what compilers print for sm_80 to sm_90


def read_once(p: TileProgram, t: Tensor, tiles: Callable[[str], str]) -> bool:
    """Whether a kernel reads each element of a view's buffer once: one block does, and that one in no loop again.

    tiles(axis) is the text of how many tiles a grid axis has.
    """
    loads = [loops for s, loops in walk(p.body) if s.op == "copy" and s.srcs[0] == t.name]
    if len(loads) != 1 or sum(x.buffer == t.buffer for x in p.inputs) > 1 or not all(isinstance(n, int) for n in (*t.shape, *t.extents)):
        return False
    again = [a for x in loads[0] for a in x.axes if a not in t.axes and tiles(a) != "1"]
    in_parts = t.guard and set(t.axes) <= {x for i in t.index for x, _ in i.terms} and not windows_overlap(t, dict(zip(t.axes, t.extents)))
    return not again and bool(in_parts or prod(t.extents) <= prod(t.shape))  # type: ignore[arg-type]


def windows_overlap(t: Tensor, extents: Mapping[str, Dim]) -> bool:
    """Whether neighbours along an axis of a view read elements again: an index is a sum of axes, and one of them steps by less than the
    others reach (a window that slides by less than its size)."""
    for i in t.index:
        reach = 0
        for atom, step in sorted(i.terms, key=lambda x: abs(x[1])):
            size = extents.get(atom) if isinstance(atom, str) else None
            if not isinstance(size, int):
                break
            if size > 1 and 0 < abs(step) <= reach:
                return True
            reach += abs(step) * (size - 1)
    return False


def multiple_of(d: Dim) -> int:
    """A number that a dimension is known to be a multiple of."""
    return d.multiple if isinstance(d, Sym) else d


def contiguous_axis(t: Tensor) -> str:
    """The axis whose step is one element in memory (but where a remainder begins again), "" if there is none."""
    if not t.index:
        return ""
    last = t.index[-1]
    for a in t.axes:
        if last.step(a) == 1 and not any(a in i.names() for i in t.index[:-1]):
            return a
    return ""


def nearest_axis(t: Tensor, wide: Collection[str]) -> str:
    """Of the axes along which a tile is `wide` the contiguous one, or else that of the smallest step of which a sector has several
    elements; "" if there is none."""
    if not t.index:
        return ""
    last = t.index[-1]
    steps = {a: last.step(a) for a in t.axes if a in wide and not any(a in i.names() for i in t.index[:-1])}
    near = {a: n for a, n in steps.items() if 0 < n * t.dtype.bytes < SECTOR}
    return min(near, key=lambda a: near[a]) if near else ""


def vector_width(t: Tensor, axis: str, most: int, extent: Dim) -> int:
    """Elements along `axis` (contiguous) that one access may move, a power of two up to `most`: the address is then a multiple of
    the width wherever the index of `axis` is, and a guard or the end of the axis never cuts a vector."""
    if contiguous_axis(t) != axis:
        return 1
    v = 1 << (most.bit_length() - 1)
    while v > 1 and not _aligned(t, axis, v, extent):
        v //= 2
    return v


def access_width(p: TileProgram, layout: Layout, t: Tensor, peeled: Set[str] = frozenset()) -> int:
    """Elements of a view that one access moves under a layout; along `peeled` axes in tiles that their end does not cut."""
    first = layout.reg[0] if layout.reg else None
    if first is None or first.stride != 1 or any(d.axis not in t.axes for d in layout.reg):
        return 1
    most = max(1, VECTOR_BYTES // t.dtype.bytes)
    v = vector_width(t, first.axis, min(first.count, most), 0 if first.axis in peeled else p.extent(first.axis))
    while v > 1 and (first.count % v or tile_of(p, first.axis) % v):
        v //= 2
    return max(v, run_width(t, layout.reg, most, {x: p.extent(x) for x in t.axes if x in layout.axes()}))


def run_width(t: Tensor, digits: Sequence[Digit], most: int, extents: Mapping[str, Dim]) -> int:
    """Elements that one access may move when registers walk `digits` (fastest first): several axes that follow each other in memory
    count as one, where all but the last lie whole in the run. A power of two up to `most`."""
    run, whole = 1, []
    for d in digits:
        if view_step(t, d.axis) != run or d.stride != 1:
            break
        run *= d.count
        whole.append(d)
        if extents[d.axis] != d.count:
            break
    if len(whole) < 2 or any(d.axis in g.names() for d in whole for g in t.guard):
        return 1
    v = most
    while v > 1 and not _run_fits(t, whole, v, extents):
        v //= 2
    return v


def _run_fits(t: Tensor, run: Sequence[Digit], v: int, extents: Mapping[str, Dim]) -> bool:
    """v elements are whole digits and a part of the last one; whatever else moves the address moves it by multiples of v."""
    left = v
    for d in run:
        last = left <= d.count
        if (d.count % left if last else left % d.count) or (last and multiple_of(extents[d.axis]) % left):
            return False
        if last:
            return steps_by(t, {x.axis for x in run[: run.index(d) + 1]}, v)
        left //= d.count
    return False


def view_step(t: Tensor, axis: str) -> int:
    """Elements between neighbours along an axis, 0 where that is no one number."""
    pitch, step = 1, 0
    for n in range(len(t.index) - 1, -1, -1):
        if not _plain(t.index[n], axis) or (step and t.index[n].coef(axis)):
            return 0
        step += t.index[n].coef(axis) * pitch
        size = t.shape[n]
        if isinstance(size, Sym):
            return step if all(axis not in i.names() for i in t.index[:n]) else 0
        pitch *= size
    return step


def _plain(a: Aff, axis: str) -> bool:
    """The axis occurs outside floors and mods only."""
    return all(atom == axis or (axis not in ({atom} if isinstance(atom, str) else atom.num.names())) for atom, _ in a.terms)


def _aligned(t: Tensor, axis: str, v: int, extent: Dim) -> bool:
    if multiple_of(extent) % v:
        return False
    return steps_by(t, {axis}, v) and all(_guard_aligned(g, axis, v) for g in t.guard)


def steps_by(t: Tensor, inside: Set[str], v: int) -> bool:
    """Whatever moves the address but the axes `inside` moves it by multiples of v elements."""
    pitch = 1
    for d in range(len(t.index) - 1, -1, -1):
        rest = [c for atom, c in t.index[d].terms if atom not in inside and not _goes_along(atom, inside)] + [t.index[d].const]
        if any(c * pitch % v for c in rest) or any(not _whole(atom, inside, v) for atom, _ in t.index[d].terms):
            return False
        pitch *= multiple_of(t.shape[d])
    return True


def _goes_along(atom: Atom, inside: Set[str]) -> bool:
    """A remainder that moves with one of the axes: by multiples of v from one run of v elements to the next."""
    return isinstance(atom, Mod) and bool(atom.num.names() & inside)


def _whole(atom: Atom, inside: Set[str], v: int) -> bool:
    """A floor goes on and a remainder begins again at multiples of v along the axes `inside`."""
    if isinstance(atom, str) or not atom.num.names() & inside:
        return True
    rest = [c for x, c in atom.num.terms if x not in inside] + [atom.num.const]
    mine = [c for x, c in atom.num.terms if x in inside]
    return mine == [1] and not any(c % v for c in (*rest, atom.den))


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
