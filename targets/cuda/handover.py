"""What keeps the matrix units at work where several warpgroups of an attention share a core.

    in turn   products of one step start behind those of the warpgroup before: each has the units whole, for half as long, and is at its
              maps while the others multiply. Without an order warpgroups that come together stay together.
    ahead     where blocks stay, the first product of a tile starts behind the last one of the tile before, and runs during its
              division and its stores.

The order goes round by named barriers: one warpgroup waits, the one before it arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autocomp.targets.cuda import queues, rings
from autocomp.targets.cuda.steps import issue_product

from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.cuda.skewed import Skew
    from autocomp.targets.cuda.specialised import TeamPrinter

PAIR = 256  # threads that meet at a barrier of the order: two warpgroups


def barrier(at: TeamPrinter, further: int = 0) -> str:
    """The barrier of this warpgroup's turn, or of one `further` on, behind those of the block, the consumers, their stores."""
    number = f"({at.side} + {further}) % {at.workers}" if further else at.side
    return f"{2 + at.workers} + {number}"


def begin_order(at: TeamPrinter) -> None:
    """The last warpgroup lets the first one begin; printed once, where the role begins."""
    if not at.in_turn:
        at.in_front(f"if ({at.side} == {at.workers - 1}) ac_barrier_pass({2 + at.workers}, {PAIR});")
    at.in_turn = True


def end_order(at: TeamPrinter) -> None:
    """The first warpgroup takes the last arrival, so that none is left."""
    if at.in_turn:
        at.put(f"if ({at.side} == 0) ac_barrier_sync({2 + at.workers}, {PAIR});")


def await_turn(at: TeamPrinter) -> None:
    at.put(f"ac_barrier_sync({barrier(at)}, {PAIR});")


def pass_turn(at: TeamPrinter) -> None:
    at.put(f"ac_barrier_pass({barrier(at, 1)}, {PAIR});")


def starts_ahead(at: TeamPrinter, skew: Skew) -> Stmt | None:
    """The product that a tile's turns begin with, where the tile before can start it: nothing but its factors' arrival goes before it,
    and a ring keeps this tile's while the next one's arrive."""
    if not at.persistent or at.order or at.stream or at.parts or any(s.op not in ("fill", "mma") for s in skew.first):
        return None
    product = next(s for s in skew.first if s.op == "mma")
    mine = [at.of.get(n) for n in product.srcs]
    kept = all(q is not None and (q.resident or q.depth > 1) for q in mine)
    return product if kept else None


def before_tiles(at: TeamPrinter, start: Callable[[], None]) -> None:
    """Prints what starts a tile's first product in front of the loop over tiles; it is under way where a tile begins."""
    mark = "  " * at.depth + "// ahead"
    at.lines.append(mark)
    start()
    where = at.lines.index(mark)
    text, at.lines[where:] = at.lines[where + 1 :], []
    loop = max(i for i, x in enumerate(at.lines) if x.lstrip().startswith("for (int tile ="))
    at.lines[loop:loop] = [x[2 * (at.depth - 1) :] for x in text]


def next_tile(at: TeamPrinter, product: Stmt) -> None:
    """Behind a tile's last product: the first one of the next tile. Behind the last tile it multiplies what is there, for nobody."""
    mine = [q for n in product.srcs if (q := at.of.get(n)) is not None]
    at.slots = {q.name: rings.turn(f"({q.name} + 1)", q.depth) for q in mine if q.loop is None and not q.resident}
    at.waited -= {q.name for q in mine}
    with at.block(f"if ({at.more})"):
        for q in mine:
            queues.arrival(at, q)
    at.empty.add(product.dst)
    issue_product(at, product, "")
    at.slots = {}
    at.ahead.add(product.dst)
