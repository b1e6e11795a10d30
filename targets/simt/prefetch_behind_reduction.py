"""Prefetch across reductions (directive `prefetch_behind_reduction`): operands that a row's results need, such as a norm's scale and
shift, are loaded while threads exchange the reductions' states.

    s = reduce x; t = reduce f(x, s); g = copy in1; y = map x, t, g   ->   s = reduce x; ask for g; t = reduce f(x, s); y = map x, t, g

They wait as they are stored, two halves a register, where a row's values are 32 registers of a thread: layer norm of 16384 x 4096 halves
took 67.8 us so and 69.1 without (128 threads); with 64 registers 70.6 for 68.8 (64 threads), with 16 71.8 for 68.5 (256 threads), as
fewer bytes are under way; the same run, outputs in the same memory, H200, 2026-11-21.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autocomp.targets.simt.expressions import STORED

from autocomp.tile.program import Stmt, Tensor
from autocomp.tile.steps import Over, Steps, stmt_of

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

ROOM = (16, 32)  # registers of a thread for a row's values: more than, up to
WHOLE = 16  # bytes of an access


def ask(at: Printer, steps: Steps, begun: Stmt) -> None:
    """Prints loads of copies that stand behind the reductions of a body, where `begun` is the first of several; `at.asked` has them."""
    body = [s for n in steps if (s := stmt_of(n))]
    if at.place.products or any(isinstance(n, Over) and n.loop for n in steps):
        return
    folds = [s for s in body if s.op == "reduce"]
    values = at.place.layouts.get(begun.srcs[0])
    if len(folds) < 2 or folds[0] is not begun or values is None or not ROOM[0] < values.registers <= ROOM[1]:
        return
    if "prefetch_behind_reduction" not in at.directives:
        return
    room = values.registers
    for s in body[body.index(folds[-1]) :]:
        t = at.p.tensor(s.srcs[0]) if s.op == "copy" else None
        if t is None or not _packs(at, s, t) or (words := at.place.layouts[s.dst].registers // 2) > room:
            continue
        room -= words
        layout, name = at.place.layouts[s.dst], at.names.fresh(f"{at.names.of(s.dst)}_asked")
        v = at.vector(layout, t)
        at.put(f"unsigned {name}[{words}];")
        with at.registers(layout, "q", v):
            at.put(f"ac_ask<{v}>(&{name}[q * {v // 2}], {at.reached(layout, t, f'(q * {v})')[2]});")
        at.asked[s.dst] = name
        at.wants("prefetch_behind_reduction")


def _packs(at: Printer, s: Stmt, t: Tensor) -> bool:
    """Whether a copy comes in whole accesses of halves, none of them outside."""
    elsewhere = {*at.place.words, *at.place.shared, *at.place.late, *at.place.staged}
    if s.dst in elsewhere or s.dst not in at.place.layouts or t.dtype.bytes != 2 or t.guard:
        return False
    layout = at.place.layouts[s.dst]
    v = at.vector(layout, t)
    return v * t.dtype.bytes == WHOLE and not at.reached(layout, t, f"(q * {v})")[0]


def unpack(at: Printer, s: Stmt, t: Tensor) -> None:
    """Prints the values of a copy that was asked for."""
    layout, name = at.place.layouts[s.dst], at.names.of(s.dst)
    v = at.vector(layout, t)
    with at.registers(layout, "q", v):
        at.put(f"ac_unpack<{STORED[t.dtype.name]}, {v}>(&{name}[q * {v}], &{at.asked[s.dst]}[q * {v // 2}]);")
