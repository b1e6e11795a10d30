"""Interleaved epilogue (directive `interleave_epilogue`): the element-wise maps behind a product and the TMA stores of its results
alternate, one box of 64 x 64 results (32 values a thread) at a time.

    before   maps of the whole tile; store box 0, 1, ..
    after    maps of box 0; store box 0; maps of box 1; store box 1; ..

Computed for the whole tile first, the maps of an epilogue and its stores would take one another's time: a special function of every
element keeps one unit busy while the bulk engine waits, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.cuda import load_c_halves
from autocomp.targets.cuda.tma_store import Boxes, find_boxes, store_boxes

from autocomp.tile.program import Loop, Stmt

if TYPE_CHECKING:
    from autocomp.targets.cuda.load_c import LoadC
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


@dataclass(frozen=True)
class End:
    """The end of a tile: maps that only its last store reads, the store, and its boxes; `part`: an operand that comes in halves."""

    maps: tuple[Stmt, ...]
    store: Stmt
    boxes: Boxes
    part: LoadC | None


def end_of(at: WarpSpecialisedPrinter, rest: Sequence[Loop | Stmt]) -> End | None:
    """None where `rest` is not that, or blocks share it out."""
    if not rest or "interleave_epilogue" not in at.directives:
        return None
    first, *more = rest
    part = at.load_c if at.load_c and at.load_c.halves and at.load_c.copy is first else None
    *before, store = more if part else rest
    maps = tuple(s for s in before if isinstance(s, Stmt) and s.op == "map")
    if at.parts or not isinstance(store, Stmt) or store.op != "store" or not maps or len(maps) < len(before):
        return None
    layout = at.place.layouts[store.srcs[0]]
    if any(at.place.layouts[s.dst] != layout or s.dst in at.place.shared for s in maps):
        return None
    x = find_boxes(at, store.dst, layout)
    return None if x is None or x.count == 1 or (at.load_c and not part) else End(maps, store, x, part)


def finish(at: WarpSpecialisedPrinter, rest: Sequence[Loop | Stmt]) -> bool:
    """Prints the end of a tile; False where it is none."""
    end = end_of(at, rest)
    if end is None:
        return False
    at.wants("interleave_epilogue")
    at.ending = True
    at.settle({n for s in (*end.maps, end.store) for n in (s.dst, *s.srcs)})
    at.ending = False
    if end.part:
        load_c_halves.leave(at, end.part, end.maps)
    else:
        store_boxes(at, end.store, end.maps)
    return True
