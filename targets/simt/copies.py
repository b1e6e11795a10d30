"""Tiles of views into shared memory, as C++: chunk by chunk, asynchronously where memory allows."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.simt.access import windows_overlap
from autocomp.targets.simt.digits import along

from autocomp.errors import UnsupportedOp
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

COPIES = 16  # of a thread that are unrolled: more only cost compile time


def of_thread(at: Printer, s: Stmt) -> int:
    """Asynchronous copies of a thread for one tile of an operand."""
    x = at.place.shared[s.dst]
    return -(-(x.rows * x.row // x.vector) // at.place.threads) if x.vector * x.buf.dtype.bytes == 16 else 0


def to_shared(at: Printer, s: Stmt, when: list[str] | None = None) -> None:
    """A tile of a view into shared memory, chunk by chunk, asynchronously where memory allows.

    Chunks are numbered as they lie in shared memory; the swizzle is undone on the side of global memory, so that a wave's
    destinations are dense.
    """
    x = at.place.shared.get(s.dst) or at.place.staged[s.dst]
    t = x.view
    assert t is not None
    chunks, per_row = x.rows * x.row // x.vector, x.row // x.vector
    count = -(-chunks // at.place.threads)
    whole = x.vector * x.buf.dtype.bytes == 16
    again = at.place.counted and whole and bool(chunks % at.place.threads)  # idle waves bring the last chunks once more
    with at.block(f"for (int q = 0; q < {count}; ++q)", unroll=x.vector > 1, most=COPIES if count > COPIES else 0):
        ahead = f"{at.warp} * {at.place.wave} + q * {at.place.threads}"
        number = f"ac_min({ahead}, {chunks - at.place.wave}) + lane" if again else f"threadIdx.x + q * {at.place.threads}"
        at.put(f"const int c = {number};")
        if chunks % at.place.threads and not again:
            at.put(f"if (c >= {chunks}) break;")
        lies = f"c / {per_row}"
        place_ = x.chunk(lies, f"c % {per_row}") if whole else f"c % {per_row}"
        at.put(f"const int row = {x.number(f'({lies})')}, col = {place_}{f' * {x.vector}' if x.vector > 1 else ''};")
        local: dict[str, str] = {}
        covers = dict((*x.outer, *x.inner))  # sizes with what pads the tile: the outermost axis of a group takes it all
        for var, group, padded in (("row", x.outer, x.rows), ("col", x.inner, x.row)):
            local |= {a: f"({text})" for a, text in along(group, var).items()}
            if group:
                covers[group[-1][0]] = -(-padded // prod(n for _, n in group[:-1]))
        ok: list[str] = list(when or [])
        for a in t.axes:
            if a not in local:
                ok += [c.replace("%s", "0") for c in at.outside(a, 1, at.base.get(a))]
                continue
            ok += [c.replace("%s", local[a]) for c in at.outside(a, covers[a], at.base.get(a))]
        point = lambda a: (f"({at.base[a]} + {local[a]})" if a in at.base else local[a]) if a in local else at.base.get(a, "0")
        ok += at.guards(t.guard, point)
        if t.fill and t.guard:
            raise UnsupportedOp(f"a factor of a product is filled with {t.fill} outside", where=f"kernel {at.p.name}")
        target = f"{at.start(x)} + c * 16" if whole else at.element(x, lies, "col")
        inside = " && ".join(ok) or "true"
        bytes_ = x.vector * x.buf.dtype.bytes
        kept = "_kept" if bytes_ == 16 and at.wants("cache_windows", windows_overlap(t, {a: at.p.extent(a) for a in t.axes})) else ""
        at.put(f"ac_copy{kept}<{bytes_}>({target}, {at.address(t, point, at_once=True)}, {inside});")
