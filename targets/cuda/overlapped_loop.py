"""The consumers' text of a loop whose last product runs a turn late (`softmax_overlap`)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from autocomp.targets.cuda import exp2_scores, mbarriers, mma_row_sums, warpgroup_order
from autocomp.targets.cuda.queues import arrival
from autocomp.targets.cuda.softmax_overlap import Overlapped
from autocomp.targets.cuda.unroll_ring import Unrolled
from autocomp.targets.cuda.wgmma import multiply, packing

from autocomp.tile.plan import Count
from autocomp.tile.program import Loop, Stmt, walk
from autocomp.tile.steps import Over, by, stmt_of

if TYPE_CHECKING:
    from autocomp.targets.cuda.queues import Queue
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


def print_overlapped(printer: WarpSpecialisedPrinter, n: Over, loop: Loop, mine: list[Queue], skew: Overlapped) -> set[str]:
    """Prints the loop. Returns the sums that are whole behind it."""
    late_queues = [q for q in mine if q is printer.of[skew.late.srcs[1]]]
    soon_queues = [q for q in mine if q not in late_queues]
    together = loop.opt("overlap") == "2"
    if sums := by(n, mma_row_sums.RowSums):
        mma_row_sums.begin(printer, sums)
    if twos := by(n, exp2_scores.Exp2Scores):
        exp2_scores.begin(printer, twos)
    first = [m for m in n.body if stmt_of(m) in skew.first]  # less the zeros that products start from
    packed, pack = packing(printer, printer.place.products[skew.late])
    scores = {s.dst for s, _ in walk(skew.first) if s.op == "mma"}
    weights = [s for s in skew.then if s.dst == skew.late.srcs[0]] if together and skew.when is not None else []

    with printer.block(""):
        printer.bases(loop, "0")
        printer.waited -= {q.name for q in soon_queues}
        if printer.exp2_scores:
            exp2_scores.multiply(printer, printer.exp2_scores)
        printer.run(first)
        if printer.exp2_scores:
            exp2_scores.first_weights(printer, printer.exp2_scores, skew, weights, packed, pack)
        else:
            _first_weights(printer, skew)
            printer.settle(scores)
            printer.put(pack)
        step(printer, soon_queues)
    it = printer.names.fresh("it")
    unrolled, in_order = by(n, Unrolled), by(n, warpgroup_order.InOrder) is not None
    if in_order:
        warpgroup_order.begin_order(printer)
    if unrolled:
        printer.slots = {q.name: mbarriers.turn(f"({it} - 1)" if q in late_queues else it, unrolled.times) for q in mine}
        printer.put(f"#pragma unroll {unrolled.times}")
    with printer.block(f"for (int {it} = 1; {it} < {printer.turns(loop)}; ++{it})", again=it, begins=1):
        printer.bases(loop, it)
        printer.waited -= {q.name for q in soon_queues}
        for q in soon_queues:
            arrival(printer, q)
        if in_order:
            warpgroup_order.await_turn(printer)
        printer.run(first)
        printer.waited -= {q.name for q in late_queues}
        multiply(printer, skew.late, packed)
        if in_order:
            warpgroup_order.pass_turn(printer)
        if together:
            printer.settle({*scores, skew.late.dst})
            printer.put(f"ac_keep({packed});")
            step(printer, late_queues)
        if printer.exp2_scores:
            exp2_scores.weights(printer, printer.exp2_scores, skew.maps, weights, pack)
        else:
            printer.run((*skew.maps, *weights))
            if weights:
                printer.put(pack)
        printer.settle(scores)
        due = _due(printer, skew.when, packed)
        with printer.block(due) if due else nullcontext():  # a branch: the wait for the late product stays behind the weights
            printer.run(skew.rare)
            if together:
                _rescale(printer, skew, weights)
            if weights:
                printer.put(pack)
        if not together:
            printer.settle({skew.late.dst})
            printer.put(f"ac_keep({packed});")
            step(printer, late_queues)
            with printer.block(due) if due else nullcontext():
                printer.run((*skew.rescale, *skew.updates))
        printer.run(s for s in skew.then if s not in weights)
        if not weights:
            printer.put(pack)
        step(printer, soon_queues)
    printer.slots = {}
    printer.waited -= {q.name for q in late_queues}
    multiply(printer, skew.late, packed)
    if printer.persistent:  # the next tile's turns begin before this product is done
        step(printer, late_queues)
        printer.flights[-1].carried = True
    for a in loop.axes:
        printer.base.pop(a, None)
    return {printer.row_sums.total} if printer.row_sums else set()


def _rescale(printer: WarpSpecialisedPrinter, skew: Overlapped, weights: list[Stmt]) -> None:
    """What a moved base changes where both products have been waited for."""
    printer.run(skew.rescale)
    if printer.row_sums:
        mma_row_sums.rescaled(printer, printer.row_sums, skew.rescale)
    printer.run((*skew.updates, *weights))
    if printer.exp2_scores:
        printer.put(f"{printer.exp2_scores.flag} = true;")


def _due(printer: WarpSpecialisedPrinter, when: Loop | None, packed: str) -> str:
    """The branch of a turn in which a rescaling is due; "" where each turn rescales."""
    if when is None:
        return ""
    return f"if ({mma_row_sums.condition(printer, printer.row_sums, when, packed) if printer.row_sums else printer.condition(when)})"


def _first_weights(printer: WarpSpecialisedPrinter, skew: Overlapped) -> None:
    """The maps of a tile's first turn, which has no late product and goes where a rescaling is due."""
    again = {s.dst for s in skew.rare}
    printer.run(s for s in skew.maps if s.dst not in again)
    printer.run((*skew.rare, *skew.updates, *skew.then))


def step(printer: WarpSpecialisedPrinter, queues: list[Queue]) -> None:
    """The next turn of these queues."""
    for q in queues:
        printer.plan(Count(q.name, f"++{q.name};"))
