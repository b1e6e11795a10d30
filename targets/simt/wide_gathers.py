"""Rows that a tensor says the numbers of are read in vectors (directive `wide_gathers`), where threads walk the rows' own elements.

    before   for r in 0..8: v[r] = t[ac_clamp(row, 1556) * 440 + ac_clamp(i1 + r, 440)]
    after    if (i1 < 440) ac_load<8>(&v[0], t + (ac_clamp(row, 1556) * 440 + i1))

A gathered value is a copy of a view whose rows may be any: where each index that is no value of a tensor stays in its dimension
(by ranges), the width of an access follows from the same arithmetic as for other copies (`access`). The row is the same for all elements
of a vector, and is clamped once for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autocomp.targets.cpu.flat import dim_text
from autocomp.targets.simt.expressions import literal

from autocomp.ir.affine import Aff, FloorDiv
from autocomp.ir.body import Expr, Gather, Index, Inside, postorder
from autocomp.ir.types import Dim, dim_hint
from autocomp.tile.layout import Layout
from autocomp.tile.program import Tensor, TileProgram, Value

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer


def rows(p: TileProgram, dst: str, e: Gather) -> Tensor | None:
    """What a value `dst` reads by `e`, as a view over its axes, where the innermost index is bounded: what lies side by side are elements
    of one row. An index that ranges do not bound is a floor, of which no axis is a step, over the axes on which it depends: an index of
    its own at each of their points."""
    t = p.tensor(str(e.tensor))
    if t is None or not bounded(p, e.index[-1], t.shape[-1]):
        return None
    axes = next((b.axes for b in p.bufs if b.name == dst), ())
    index = tuple(i.index if isinstance(i, Index) and bounded(p, i, n) else _any(p, i) for i, n in zip(e.index, t.shape, strict=True))
    return Tensor(t.name, t.dtype, axes, tuple(p.extent(a) for a in axes), t.buffer, t.shape, index, constant=t.constant)


def bounded(p: TileProgram, i: Expr, size: Dim) -> bool:
    """Whether an index is one of the dimension's wherever its axes are inside their extents."""
    if not isinstance(i, Index):
        return False
    sizes = {a: n for a, n in p.axes if isinstance(n, int)}
    if isinstance(size, int) and i.index.names() <= sizes.keys():
        low, high = i.index.range(sizes)
        return low >= 0 and high < size
    return any(i.index == Aff.of(a) and n == size for a, n in p.axes)


def _any(p: TileProgram, i: Expr) -> Aff:
    """An index that a tensor says."""
    axes, point, below = _axes(p, i), Aff(), 1
    for a in axes:
        point, below = point + Aff.of(a) * below, below * dim_hint(p.extent(a))
    return Aff(((FloorDiv(point, 1), 1),))


def _axes(p: TileProgram, i: Expr) -> list[str]:
    """The axes on which an expression depends."""
    found = set[str]()
    for x in postorder(i):
        if isinstance(x, Value):
            found |= {a for b in p.bufs if b.name == x.name for a in b.axes}
        elif isinstance(x, Index):
            found |= x.index.names()
        elif isinstance(x, Inside):
            found |= {a for g in x.guard for a in g.names()}
    return [a for a, _ in p.axes if a in found]


def wide(at: Printer, dst: str, layout: Layout, e: Gather) -> Tensor | None:
    """The view that a map reads, where the schedule asks for vectors and its accesses are some."""
    t = rows(at.p, dst, e) if "wide_gathers" in at.directives else None
    return t if t is not None and at.wants("wide_gathers", at.vector(layout, t) > 1) else None


def write(at: Printer, dst: str, layout: Layout, e: Gather, t: Tensor) -> None:
    """The loads of a value that is read so; zeros outside the extents."""
    name, v = at.names.of(dst), at.vector(layout, t)
    r = f"(q * {v})"
    with at.registers(layout, "q", v):
        scalar, offset = at.scalar(layout, r), ""
        for i, n in zip(e.index, t.shape, strict=True):
            here = scalar.text(i)
            here = here if bounded(at.p, i, n) else f"ac_clamp((long long)({here}), (long long){dim_text(n)})"
            offset = f"({offset}) * {dim_text(n)} + {here}" if offset else here
        ok = at.inside(layout, t.axes, r)
        address = f"{at.pointer[t.buffer]} + {'ac_here' if ok else ''}({offset})"  # made in any case: else behind a jump, load by load
        if ok:
            at.read_where(t, v, f"&{name}[{r}]", ok, address, literal(0, t.dtype))
        else:
            at.put(f"ac_load<{v}>(&{name}[{r}], {address});")
