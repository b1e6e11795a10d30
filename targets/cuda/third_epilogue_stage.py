"""A third epilogue stage (directive `third_epilogue_stage`): beside the two boxes of shared memory from which results leave by TMA, a
consumer warpgroup uses its own rows of the operand slot that the tile's last iteration has read.

With two places each box but the first two waits until the bulk engine has read the box before the last, and for the other warps to
know it; with three that is left to the fourth one. The slot is given back in the next tile's first turn, when its stores have been
read. Where blocks of a cluster share a factor their producers would all wait for that, and copies bind there: not done.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import TYPE_CHECKING

from autocomp.targets.cuda import interleave_epilogue, queues
from autocomp.targets.cuda.team_placer import ROWS
from autocomp.targets.cuda.tma import CHUNK, Bulk
from autocomp.targets.cuda.tma_store import BOX_BYTES, PLACES, ThirdStage
from autocomp.targets.simt.placed import tile_of

from autocomp.tile.plan import Done
from autocomp.tile.program import Loop, Stmt

if TYPE_CHECKING:
    from autocomp.targets.cuda.queues import Queue
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


def find_third_stage(at: WarpSpecialisedPrinter, loop: Loop, rest: Sequence[Loop | Stmt]) -> ThirdStage | None:
    """None where a tile's results do not leave in boxes behind maps, where these rows are not a warpgroup's own, or a tile has fewer turns
    than the ring has slots: the turn that waits for this slot tells all warps that it has been read."""
    mine = [q for q in at.queues if q.loop is loop]
    rest = list(dropwhile(lambda n: isinstance(n, Stmt) and n.op == "copy", rest))
    if not at.persistent or at.together > 1 or at.order or at.stream or at.parts or at.load_c or len(mine) != 1 or loop.until is not None:
        return None
    end, products = interleave_epilogue.end_of(at, rest), [s for s in loop.body if isinstance(s, Stmt) and s.op == "mma"]
    if end is None or end.boxes.count < PLACES or len(products) != 1 or at.place.products[products[0]].a not in at.placer.bulk:
        return None
    product, (queue,) = at.place.products[products[0]], mine
    x = at.placer.bulk[product.a]
    own = x.bytes // at.workers
    alone = type(x) is Bulk and product.waves == (at.workers, 1) and x.chunk == CHUNK and not x.more and own % (ROWS * CHUNK) == 0
    alone = alone and own >= BOX_BYTES and (x.boxes == 1 if x.deep else x.boxes % at.workers == 0)
    turns = 1
    for a in loop.axes:
        n = at.p.extent(a)
        turns *= -(-n // tile_of(at.p, a)) if isinstance(n, int) else 0
    found = at.wants("third_epilogue_stage", alone and queue.depth > 1 and turns >= queue.depth)
    return ThirdStage(queue.name, queue.depth, x.offset, x.bytes, own) if found else None


def keep(at: WarpSpecialisedPrinter, q: Queue, slot: str) -> None:
    """Behind a tile's last product: the slot is given back but by each warpgroup's first warp, which starts its stores."""
    queues.give_back(at, q, slot, "wave % 4 > 0 && ", when="never")


def give_back(at: WarpSpecialisedPrinter, q: Queue, turn: str) -> None:
    """In a tile's first turn, while its product runs: the rest of what the tile before has kept."""
    with at.block(f"if ({turn} == 0 && {q.name} > 0 && wave % 4 == 0 && lane == 0)"):
        at.plan(Done(0, "ac_bulk_wait<0>();", "stores"))
        queues.give_back(at, q, f"({q.name} - 1) % {q.depth}", "", 1, "first", turn)
