"""The mainloop of a warp-specialised kernel: one iteration takes a slot of each ring, starts its products and releases the slot when they
are done. It is printed in parts where something is done between two iterations (`load_c_halves`) and where the last one has fewer steps
in depth (`short_last_step`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autocomp.targets.cuda import load_c_halves, queues, third_epilogue_stage
from autocomp.targets.cuda.load_c_halves import AtTurn
from autocomp.targets.cuda.short_last_step import LastTurn

from autocomp.tile.program import Loop, walk
from autocomp.tile.steps import Over, by

if TYPE_CHECKING:
    from autocomp.targets.cuda.queues import Queue
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

LONG = 32  # turns of a loop that no compiler prints behind each other of itself


def iterate(at: WarpSpecialisedPrinter, n: Over, loop: Loop, mine: list[Queue]) -> None:
    """The loop's text; in parts where something is done between two of its turns."""
    begin, total = queues.span(at, loop)
    cuts, short = [x for x in n.how if isinstance(x, AtTurn)], by(n, LastTurn)
    first, parts = "0", 1 + len(cuts) + bool(short)
    for k, cut in enumerate(cuts):
        _part(at, n, loop, mine, begin, first, str(cut.turn), (k, parts))
        load_c_halves.at_cut(at, cut.second)
        first = str(cut.turn)
    if short:
        last = str(int(total) - 1)
        _part(at, n, loop, mine, begin, first, last, (parts - 2, parts))
        first, at.steps = last, short.steps
    _part(at, n, loop, mine, begin, first, total, (parts - 1, parts))
    at.steps = 0


def _part(at: WarpSpecialisedPrinter, n: Over, loop: Loop, mine: list[Queue], begin: Callable[[str], str], first: str, end: str,
          part: tuple[int, int]) -> None:  # fmt: skip
    """A part of a loop's turns: the number of it, and how many there are.

    No instruction may read an accumulator under way, and ptxas (13.0, 13.5) takes any wait behind the last product of a block of
    instructions for the one that its results need: behind `wait 1` it moved a third of an epilogue's conversions in front of `wait 0`
    (a loop of 5 turns that the compiler had unrolled: the first eight columns of each tile were wrong now and then). So short loops stay
    loops, and a last turn that stands alone waits for all.
    """
    it = at.names.fresh("it")
    at.turn_of = it if first == "0" else ""
    turns = int(end) - int(first) if first.isdigit() and end.isdigit() else LONG + 1
    alone = turns == 1 and part[0] == part[1] - 1
    whole = 1 < turns <= LONG  # else compilers print all turns behind each other
    with at.block(f"for (int {it} = {first}; {it} < {end}; ++{it})", unroll=whole, most=int(whole), again=it, part=part, lone=alone):
        at.bases(loop, begin(it))
        # warpgroups that share rows stop for each other anyway: the slot is free one product sooner
        at.touch({s.dst for s, _ in walk(loop.body) if s.op == "mma" and at.place.products[s].a in at.placer.laid})
        at.run(n.body)
        if at.third_stage and first == "0":
            third_epilogue_stage.give_back(at, mine[0], it)
        queues.turned(at, loop)
    for a in loop.axes:
        at.base.pop(a)
