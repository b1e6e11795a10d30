"""A loop whose last product runs one iteration late, so that the matrix units have work while the next factor is computed.

    first iteration   products of the scores; maps; pack the factor
    then, each        start the products of the scores; start the late product of the iteration before; wait for the scores; maps;
                      wait for the late product; rescale its accumulator; pack the factor
    behind the loop   the late product of the last iteration
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.tile.program import Loop, Stmt, walk

if TYPE_CHECKING:
    from autocomp.targets.cuda.specialised import Queue, TeamPrinter


@dataclass(frozen=True)
class Skew:
    """Statements of the loop: `first` up to the scores' product, `maps` behind it, `rescale` of the late product's accumulator,
    `updates` of what the rescaling reads."""

    first: tuple[Stmt, ...]
    maps: tuple[Stmt, ...]
    rescale: tuple[Stmt, ...]
    updates: tuple[Stmt, ...]
    late: Stmt


def skew_of(printer: TeamPrinter, loop: Loop) -> Skew | None:
    """The split of a loop that asks for it (overlap=1) and has the form; None otherwise."""
    body = [n for n in loop.body if not (isinstance(n, Stmt) and n.op == "copy" and n.dst in printer.of)]
    if loop.opt("overlap") != "1" or printer.persistent or not all(isinstance(n, Stmt) for n in body):
        return None
    stmts = [n for n in body if isinstance(n, Stmt)]
    products = [s for s in stmts if s.op == "mma"]
    if len(products) != 2 or (loop.until is not None and loop.until[1] < 0):
        return None
    early, late = products
    if late.srcs[0] in printer.placer.bulk or late.dst in early.srcs or printer.of[late.srcs[1]] is printer.of.get(early.srcs[1]):
        return None
    touch = [s for s in stmts if s is not late and late.dst in (s.dst, *s.srcs)]
    if any(s.op != "map" or s.dst != late.dst or stmts.index(s) > stmts.index(late) for s in touch):
        return None
    at = stmts.index(early) + 1
    if any(s in touch for s in stmts[:at]):
        return None
    rest = [s for s in stmts[at:] if s is not late and s not in touch]
    read = {x for s in touch for x in s.srcs}
    before = {s.dst for s in stmts[: stmts.index(touch[0])]} if touch else set()
    end = next((i for i, s in enumerate(rest) if s.dst in read and s.dst not in before), len(rest))
    return Skew(tuple(stmts[:at]), tuple(rest[:end]), tuple(touch), tuple(rest[end:]), late)


def print_skewed(printer: TeamPrinter, loop: Loop, mine: list[Queue], skew: Skew) -> None:
    """The consumers' text of such a loop."""
    late_queues = [q for q in mine if q is printer.of[skew.late.srcs[1]]]
    soon_queues = [q for q in mine if q not in late_queues]
    packed, pack = printer.packing(printer.place.products[skew.late])

    def part() -> None:
        printer.waited -= {q.name for q in soon_queues}
        printer.run(skew.first)

    def rest() -> None:
        printer.run(skew.maps)
        printer.settle({s.dst for s, _ in walk(skew.first) if s.op == "mma"})

    with printer.block(""):
        printer.bases(loop, "0")
        part()
        rest()
        printer.run(skew.updates)
        printer.put(pack)
        step(printer, soon_queues)
    it = printer.names.fresh("it")
    with printer.block(f"for (int {it} = 1; {it} < {printer.turns(loop)}; ++{it})"):
        printer.bases(loop, it)
        part()
        printer.waited -= {q.name for q in late_queues}
        printer.multiply(skew.late, packed)
        rest()
        printer.settle({skew.late.dst})
        printer.put(f"ac_keep({packed});")
        step(printer, late_queues)
        printer.run(skew.rescale)
        printer.run(skew.updates)
        printer.put(pack)
        step(printer, soon_queues)
    printer.waited -= {q.name for q in late_queues}
    printer.multiply(skew.late, packed)
    for a in loop.axes:
        printer.base.pop(a, None)


def step(printer: TeamPrinter, queues: list[Queue]) -> None:
    """The next turn of these queues."""
    for q in queues:
        printer.put(f"++{q.name};")
