"""A third epilogue stage (directive `third_epilogue_stage`): beside the two boxes of shared memory from which results leave by TMA, a
consumer warpgroup uses its own rows of the operand slot that the tile's last iteration has read.

With two places each box but the first two waits until the bulk engine has read the box before the last, and for the other warps to
know it; with three that is left to the fourth one. The slot is given back in the next tile's first turn, when its stores have been
read. Where blocks of a cluster share a factor their producers would all wait for that, and copies bind there: not done.

    before   serial r0                           after   serial r0  | the slot of q0 that its last turn read is a third place
             ...                                         ...
             each box of 64 x 64, 4 a warpgroup          each box of 64 x 64, 4 a warpgroup  | the same
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.interleave_epilogue import BoxByBox
from autocomp.targets.cuda.load_c import LoadC
from autocomp.targets.cuda.team_placer import ROWS
from autocomp.targets.cuda.tma import CHUNK, Bulk
from autocomp.targets.cuda.tma_store import BOX_BYTES, PLACES, ThirdStage

from autocomp.tile.plan import Box
from autocomp.tile.program import Loop, Stmt
from autocomp.tile.steps import Over, Step, Steps, bodies, by, sayings, stmt_of, told

if TYPE_CHECKING:
    from autocomp.targets.cuda.queues import Queue
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


def third_epilogue_stage(steps: Steps, facts: Facts) -> Steps:
    """Lends the slot to a loop of products whose results leave box by box right behind it."""
    if not facts.persistent or facts.together > 1 or facts.order or facts.stream or facts.parts:
        return steps

    def change(body: Steps) -> Steps:
        for k, n in enumerate(body):
            end = next((m for m in body[k + 1 :] if not ((s := stmt_of(m)) and s.op == "copy")), None)
            x = _found(facts, n.loop, end) if isinstance(n, Over) and n.loop and end else None
            if x is not None and end is not None:
                return tuple(told(m, x) if m is n or m is end else m for m in body)
        return body

    return bodies(steps, change)


def _found(at: Facts, loop: Loop, rest: Step) -> ThirdStage | None:
    """None where a tile's results do not leave in boxes behind maps, where these rows are not a warpgroup's own, or a tile has fewer turns
    than the ring has slots: the turn that waits for this slot tells all warps that it has been read."""
    mine, end = at.rings(loop), by(rest, BoxByBox)
    products = [s for s in loop.body if isinstance(s, Stmt) and s.op == "mma"]
    if end is None or any(isinstance(x, LoadC) for x in sayings((rest,))) or len(mine) != 1:
        return None
    if end.boxes.count < PLACES or len(products) != 1 or at.place.products[products[0]].a not in at.placer.bulk:
        return None
    product, (queue,) = at.place.products[products[0]], mine
    x = at.placer.bulk[product.a]
    own = x.bytes // at.workers
    alone = type(x) is Bulk and product.waves == (at.workers, 1) and x.chunk == CHUNK and not x.more and own % (ROWS * CHUNK) == 0
    alone = alone and own >= BOX_BYTES and (x.boxes == 1 if x.deep else x.boxes % at.workers == 0)
    found = alone and at.turns(loop) >= queue.depth > 1
    return ThirdStage(queue.name, queue.depth, x.offset, x.bytes, own) if found else None


def give_back(at: WarpSpecialisedPrinter, q: Queue, turn: str) -> None:
    """In a tile's first turn, while its product runs: what a warpgroup's first warp, which starts its stores, kept of the tile before."""
    with at.block(f"if ({turn} == 0 && {q.name} > 0 && wave % 4 == 0 && lane == 0)"):
        at.plan(Box("box", "over", ring=q.name, depth=q.depth, back=1, lent=PLACES - 1))
