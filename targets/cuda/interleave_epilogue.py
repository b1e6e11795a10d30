"""Interleaved epilogue (directive `interleave_epilogue`): the element-wise maps behind a product and the TMA stores of its results
alternate, one box of 64 x 64 results (32 values a thread) at a time.

    before   y = map acc                      after   each box of 64 x 64, 4 a warpgroup
             store out = y  | by TMA                    y = map acc
                                                        store out = y  | by TMA

Computed for the whole tile first, the maps of an epilogue and its stores would take one another's time: a special function of every
element keeps one unit busy while the bulk engine waits, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.cuda import load_c_halves
from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.load_c import LoadC
from autocomp.targets.cuda.tma_store import Boxes, TmaStore, store_boxes

from autocomp.tile.steps import Over, Scheme, Steps, bodies, by, inside, sayings, stmt_of

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


@dataclass(frozen=True)
class BoxByBox(Scheme):
    """Steps that are done for each of a tile's boxes."""

    boxes: Boxes

    says = "each box of {0.boxes.run} x 64, {0.boxes.count} a warpgroup"


def interleave_epilogue(steps: Steps, facts: Facts) -> Steps:
    """Groups the end of a tile: maps that only its last store reads, the store, and an operand that comes in halves in front of them."""

    beside = any(isinstance(x, LoadC) for x in sayings(steps))

    def change(body: Steps) -> Steps:
        ends = ((k, _boxes(body[k:], facts, beside)) for k in range(len(body)))
        k, x = next(((k, x) for k, x in ends if x), (0, None))
        return (*body[:k], Over(body[k:], None, (BoxByBox(x),))) if x else body

    return bodies(steps, change)


def _boxes(rest: Steps, facts: Facts, beside: bool) -> Boxes | None:
    """The boxes of a tile's end; None where `rest` is not that, or blocks share it out. `beside`: the tile has an operand that comes in
    boxes; it begins with that then, and gets it in halves."""
    part = by(rest[0], LoadC)
    if beside and not (part and part.halves and part.copy is stmt_of(rest[0])):
        return None
    *before, store = rest[1:] if beside else rest
    maps = [s for n in before if (s := stmt_of(n)) and s.op == "map"]
    last, sent = stmt_of(store), by(store, TmaStore)
    if facts.parts or last is None or sent is None or sent.boxes.count == 1 or not maps or len(maps) < len(before):
        return None
    layout = facts.place.layouts[last.srcs[0]]
    return None if any(facts.place.layouts[s.dst] != layout or s.dst in facts.place.shared for s in maps) else sent.boxes


def finish(at: WarpSpecialisedPrinter, end: Over, boxes: Boxes) -> None:
    """Prints the end of a tile."""
    *before, store = inside(end.body)
    maps = tuple(s for s in before if s.op == "map")
    at.touch({n for s in (*maps, store) for n in (s.dst, *s.srcs)}, at.third_stage.ring if at.third_stage else "")
    if len(maps) < len(before):
        load_c_halves.leave(at, maps)
    else:
        store_boxes(at, store, boxes, maps)
