"""Overlap of attention's products with its softmax (schedule field `softmax_overlap`; FlashAttention 3: intra-warpgroup overlap): the
product of weights and values runs one iteration late, beside the softmax of the next scores.

    first iteration   products of the scores; maps; pack the factor
    then, each        start the products of the scores; start the late product of the iteration before; wait for the scores; maps;
                      wait for the late product; rescale its accumulator; pack the factor
    behind the loop   the late product of the last iteration

overlap=2 waits for the late product together with the scores: weights are packed as they are made, in fewer registers, which leaves room
for another warpgroup to have the matrix units meanwhile.

Where the program says when a rescaling is due (`when`), the rest of an iteration is printed under that condition, and the first one
goes there at once: it starts from the identity.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.cuda import exp2_scores, mbarriers, mma_row_sums, warpgroup_order
from autocomp.targets.cuda.exp2_scores import find_exp2_scores
from autocomp.targets.cuda.mma_row_sums import find_row_sums
from autocomp.targets.cuda.queues import arrival
from autocomp.targets.cuda.wgmma import multiply, packing

from autocomp.tile.plan import Count
from autocomp.tile.program import Loop, Stmt, walk

if TYPE_CHECKING:
    from autocomp.targets.cuda.queues import Queue
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


@dataclass(frozen=True)
class Overlapped:
    """Statements of the loop: `first` up to the scores' product, `maps` behind it, `rescale` of the late product's accumulator,
    `updates` of what the rescaling reads. `rare`: what is done between `maps` and `then` only where `when` says so; `rescale` and
    `updates` too, then."""

    first: tuple[Stmt, ...]
    maps: tuple[Stmt, ...]
    rescale: tuple[Stmt, ...]
    updates: tuple[Stmt, ...]
    late: Stmt
    when: Loop | None = None
    rare: tuple[Stmt, ...] = ()
    then: tuple[Stmt, ...] = ()


def overlap_of(printer: WarpSpecialisedPrinter, loop: Loop) -> Overlapped | None:
    """The split of a loop that asks for it (overlap=1, 2) and has the form; None otherwise."""
    body = [n for n in loop.body if not (isinstance(n, Stmt) and n.op == "copy" and n.dst in printer.of)]
    rare = [n for n in body if isinstance(n, Loop)]
    if loop.opt("overlap") not in ("1", "2") or len(rare) > 1 or any(n.kind != "when" for n in rare):
        return None
    stmts = [n for n in body if isinstance(n, Stmt)]
    products = [s for s in stmts if s.op == "mma"]
    if len(products) != 2 or (loop.until is not None and loop.until[1] < 0):
        return None
    early, late = products
    if late.srcs[0] in printer.placer.bulk or late.srcs[0] in printer.placer.laid or late.dst in early.srcs:
        return None
    if printer.of[late.srcs[1]] is printer.of.get(early.srcs[1]):
        return None
    at = stmts.index(early) + 1
    if rare:
        return _rare(body, rare[0], tuple(stmts[:at]), late)
    touch = [s for s in stmts if s is not late and late.dst in (s.dst, *s.srcs)]
    if any(s.op != "map" or s.dst != late.dst or stmts.index(s) > stmts.index(late) for s in touch):
        return None
    if any(s in touch for s in stmts[:at]):
        return None
    rest = [s for s in stmts[at:] if s is not late and s not in touch]
    maps, updates = _parted(rest, touch, stmts)
    return Overlapped(tuple(stmts[:at]), maps, tuple(touch), updates, late)


def _rare(body: list[Loop | Stmt], when: Loop, first: tuple[Stmt, ...], late: Stmt) -> Overlapped | None:
    """The split where the late product's accumulator is rescaled under a condition alone."""
    at = body.index(when)
    maps = [s for s in body[len(first) : at] if isinstance(s, Stmt)]
    then = [s for s in body[at + 1 :] if isinstance(s, Stmt) and s is not late]
    inside = [s for s in when.body if isinstance(s, Stmt)]
    touch = [s for s in inside if late.dst in (s.dst, *s.srcs)]
    if any(n in body[at:] for n in first) or any(s.op != "map" or s.dst != late.dst for s in touch):
        return None
    if len(inside) < len(when.body) or late in maps or any(late.dst in (s.dst, *s.srcs) for s in (*first, *maps, *then)):
        return None
    rare, updates = _parted([s for s in inside if s not in touch], touch, inside)
    return Overlapped(first, tuple(maps), tuple(touch), updates, late, when, rare, tuple(then))


def _parted(rest: list[Stmt], touch: list[Stmt], order: list[Stmt]) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
    """What may run before the rescaling, and what must follow it: it changes what the rescaling reads."""
    read = {x for s in touch for x in s.srcs}
    before = {s.dst for s in order[: order.index(touch[0])]} if touch else set()
    end = next((i for i, s in enumerate(rest) if s.dst in read and s.dst not in before), len(rest))
    return tuple(rest[:end]), tuple(rest[end:])


def print_overlapped(printer: WarpSpecialisedPrinter, loop: Loop, mine: list[Queue], skew: Overlapped) -> set[str]:
    """The consumers' text of such a loop. Returns the sums that are whole behind it."""
    late_queues = [q for q in mine if q is printer.of[skew.late.srcs[1]]]
    soon_queues = [q for q in mine if q not in late_queues]
    together = loop.opt("overlap") == "2"
    if together:
        skew = _in_products(printer, loop, skew)
    packed, pack = packing(printer, printer.place.products[skew.late])
    scores = {s.dst for s, _ in walk(skew.first) if s.op == "mma"}
    weights = [s for s in skew.then if s.dst == skew.late.srcs[0]] if together and skew.when is not None else []

    with printer.block(""):
        printer.bases(loop, "0")
        printer.waited -= {q.name for q in soon_queues}
        if printer.exp2_scores:
            exp2_scores.multiply(printer, printer.exp2_scores)
        printer.run(skew.first)
        if printer.exp2_scores:
            exp2_scores.first_weights(printer, printer.exp2_scores, skew, weights, packed, pack)
        else:
            _first_weights(printer, skew)
            printer.settle(scores)
            printer.put(pack)
        step(printer, soon_queues)
    it = printer.names.fresh("it")
    times = repeated(printer, loop, mine) if together else 1
    in_order = printer.wants("warpgroup_order", together and printer.workers > 1)
    if in_order:
        warpgroup_order.begin_order(printer)
    if times > 1:
        printer.slots = {q.name: mbarriers.turn(f"({it} - 1)" if q in late_queues else it, times) for q in mine}
        printer.put(f"#pragma unroll {times}")
    with printer.block(f"for (int {it} = 1; {it} < {printer.turns(loop)}; ++{it})", again=it, begins=1):
        printer.bases(loop, it)
        printer.waited -= {q.name for q in soon_queues}
        for q in soon_queues:
            arrival(printer, q)
        if in_order:
            warpgroup_order.await_turn(printer)
        printer.run(skew.first)
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


def _in_products(printer: WarpSpecialisedPrinter, loop: Loop, skew: Overlapped) -> Overlapped:
    """The split without the maps that products do as well: sums of weights, the scale of scores."""
    found = find_row_sums(printer, skew)
    if found is not None:
        skew, printer.row_sums = found
        mma_row_sums.begin(printer, printer.row_sums)
    twos = find_exp2_scores(printer, skew, loop)
    if twos is not None:
        skew, printer.exp2_scores = twos
        printer.put(f"bool {printer.exp2_scores.flag} = false;")
    return skew


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


def repeated(printer: WarpSpecialisedPrinter, loop: Loop, mine: list[Queue]) -> int:
    """How often the loop's text is repeated, so that the slots of its rings are constants: as often as they have slots, where every tile's
    turns begin at the first slot and an even round; else once, as where a mask ends the loop (0.44 to 0.45 ms of causal attention)."""
    depth, total = mine[0].depth, printer.turns(loop)
    begins = loop.until is None and (not printer.persistent or (total.isdigit() and int(total) % (2 * depth) == 0))
    return depth if printer.wants("unroll_ring", begins and depth > 1 and all(q.depth == depth for q in mine)) else 1


def step(printer: WarpSpecialisedPrinter, queues: list[Queue]) -> None:
    """The next turn of these queues."""
    for q in queues:
        printer.plan(Count(q.name, f"++{q.name};"))
