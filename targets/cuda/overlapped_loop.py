"""The consumers' text of a loop whose last product runs a turn late (`softmax_overlap`)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.cuda import exp2_scores, mma_row_sums, warpgroup_order
from autocomp.targets.cuda.softmax_overlap import Overlapped
from autocomp.targets.cuda.unroll_ring import Unrolled
from autocomp.targets.cuda.wgmma import multiply, packing

from autocomp.tile.plan import Count, Reads
from autocomp.tile.program import Loop, Stmt, walk
from autocomp.tile.steps import Over, Step, by, stmt_of

if TYPE_CHECKING:
    from autocomp.targets.cuda.queues import Queue
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


def print_overlapped(printer: WarpSpecialisedPrinter, n: Over, loop: Loop, mine: list[Queue], skew: Overlapped) -> set[str]:
    """Prints the loop. Returns the sums that are whole behind it."""
    if sums := by(n, mma_row_sums.RowSums):
        mma_row_sums.begin(printer, sums)
    if twos := by(n, exp2_scores.Exp2Scores):
        exp2_scores.begin(printer, twos)
    late = [q for q in mine if q is printer.of[skew.late.srcs[1]]]
    first = [m for m in n.body if stmt_of(m) in skew.first]  # less the zeros that products start from
    together = loop.opt("overlap") == "2"
    weights = [s for s in skew.then if s.dst == skew.late.srcs[0]] if together and skew.when is not None else []
    scores = {s.dst for s, _ in walk(skew.first) if s.op == "mma"}
    x = _Turns(loop, skew, first, late, [q for q in mine if q not in late], together, weights, scores,
               *packing(printer, printer.place.products[skew.late]))  # fmt: skip
    _first_turn(printer, x)
    it = printer.names.fresh("it")
    unrolled, in_order = by(n, Unrolled), by(n, warpgroup_order.InOrder) is not None
    if in_order:
        warpgroup_order.begin_order(printer)
    if unrolled:
        printer.numbers = {q.name: f"({it} - 1)" if q in late else it for q in mine}
        printer.put(f"#pragma unroll {unrolled.times}")
    with printer.block(f"for (int {it} = 1; {it} < {printer.turns(loop)}; ++{it})", again=it, begins=1,
                       numbers=tuple(printer.numbers.items())):  # fmt: skip
        _turn(printer, x, it, in_order)
    printer.numbers = {}
    multiply(printer, skew.late, x.packed)
    if printer.persistent:  # the next tile's turns begin before this product is done
        step(printer, late)
    for a in loop.axes:
        printer.base.pop(a, None)
    return {printer.row_sums.total} if printer.row_sums else set()


@dataclass(frozen=True)
class _Turns:
    """What the turns of such a loop share. `late`: queues of the late product's other factor, `soon`: the others; `together`: both products
    of a turn are waited for at once; `weights`: the late product's first factor, where that is made before a rescaling is known to be due;
    `packed`: its registers, which `pack` fills."""

    loop: Loop
    skew: Overlapped
    first: list[Step]
    late: list[Queue]
    soon: list[Queue]
    together: bool
    weights: list[Stmt]
    scores: set[str]
    packed: str
    pack: str


def _first_turn(printer: WarpSpecialisedPrinter, x: _Turns) -> None:
    """A tile's first turn, which has no late product."""
    with printer.block(""):
        printer.bases(x.loop, "0")
        if printer.exp2_scores:
            exp2_scores.multiply(printer, printer.exp2_scores)
        printer.run(x.first)
        if printer.exp2_scores:
            exp2_scores.first_weights(printer, printer.exp2_scores, x.skew, x.weights, x.packed, x.pack)
        else:
            _first_weights(printer, x.skew)
            printer.touch(x.scores)
            printer.put(x.pack)
        step(printer, x.soon)


def _turn(printer: WarpSpecialisedPrinter, x: _Turns, it: str, in_order: bool) -> None:
    """The scores' products, the late product of the turn before, and the maps between."""
    skew, weights = x.skew, x.weights
    printer.bases(x.loop, it)
    printer.plan(Reads(tuple(q.name for q in x.soon)))
    if in_order:
        warpgroup_order.await_turn(printer)
    printer.run(x.first)
    multiply(printer, skew.late, x.packed)
    if in_order:
        warpgroup_order.pass_turn(printer)
    if x.together:
        _late_is_done(printer, x, {*x.scores, skew.late.dst})
    if printer.exp2_scores:
        exp2_scores.weights(printer, printer.exp2_scores, skew.maps, weights, x.pack)
    else:
        printer.run((*skew.maps, *weights))
        if weights:
            printer.put(x.pack)
    printer.touch(x.scores)
    due = _due(printer, skew.when, x.packed)
    with printer.block(due) if due else nullcontext():  # a branch: the wait for the late product stays behind the weights
        printer.run(skew.rare)
        if x.together:
            _rescale(printer, skew, weights)
        if weights:
            printer.put(x.pack)
    if not x.together:
        _late_is_done(printer, x, {skew.late.dst})
        with printer.block(due) if due else nullcontext():
            printer.run((*skew.rescale, *skew.updates))
    printer.run(s for s in skew.then if s not in weights)
    if not weights:
        printer.put(x.pack)
    step(printer, x.soon)


def _late_is_done(printer: WarpSpecialisedPrinter, x: _Turns, products: set[str]) -> None:
    """Waits for these products, the late one among them, and gives its factors' slots back."""
    printer.touch(products)
    printer.put(f"ac_keep({x.packed});")
    step(printer, x.late)


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
