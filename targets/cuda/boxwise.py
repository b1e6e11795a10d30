"""What follows a tile's product, box by box: maps of 32 values a thread, then their box, so that stores are under way meanwhile.

Computed for the whole tile first, the maps of an epilogue and its stores would take one another's time: a special function of every
element keeps one unit busy while the bulk engine waits, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autocomp.targets.cuda import halves
from autocomp.targets.cuda.boxes import find_boxes, store_boxes

from autocomp.tile.program import Loop, Stmt

if TYPE_CHECKING:
    from autocomp.targets.cuda.specialised import TeamPrinter


def finish(at: TeamPrinter, rest: Sequence[Loop | Stmt]) -> bool:
    """Prints the end of a tile: maps that only its last store reads, and the store. False where `rest` is not that, or blocks share it
    out."""
    first, *more = rest
    part = at.beside if at.beside and at.beside.halves and at.beside.copy is first else None
    *maps, store = more if part else rest
    if at.parts or not isinstance(store, Stmt) or store.op != "store" or not maps:
        return False
    layout = at.place.layouts[store.srcs[0]]
    if any(not isinstance(s, Stmt) or s.op != "map" or at.place.layouts[s.dst] != layout or s.dst in at.place.shared for s in maps):
        return False
    x = find_boxes(at, store.dst, layout)
    if x is None or x.count == 1 or (at.beside and not part):
        return False
    at.settle({n for s in (*maps, store) if isinstance(s, Stmt) for n in (s.dst, *s.srcs)})
    done = tuple(s for s in maps if isinstance(s, Stmt))
    if part:
        halves.leave(at, part, done)
    else:
        store_boxes(at, store, done)
    return True
