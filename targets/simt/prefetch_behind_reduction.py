"""Prefetch across reductions (directive `prefetch_behind_reduction`): operands that a row's results need, such as a norm's scale and
shift, are loaded while threads exchange the reductions' states.

    before   s = reduce x              after   s = reduce x
             t = reduce f(x, s)                loads of g start, as they are stored
             g = copy in1                      t = reduce f(x, s)
             y = map x, t, g                   g = copy in1
                                               y = map x, t, g

They wait as they are stored, two halves a register, where a row's values are 32 registers of a thread: layer norm of 16384 x 4096 halves
took 67.8 us so and 69.1 without (128 threads); with 64 registers 70.6 for 68.8 (64 threads), with 16 71.8 for 68.5 (256 threads), as
fewer bytes are under way; the same run, outputs in the same memory, H200, 2026-11-21.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.simt.access import access_width
from autocomp.targets.simt.expressions import STORED
from autocomp.targets.simt.facts import Facts
from autocomp.targets.simt.placed import WORD, tile_of

from autocomp.tile.program import Stmt, Tensor
from autocomp.tile.steps import Act, Over, Scheme, Step, Steps, bodies, stmt_of

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

ROOM = (16, 32)  # registers of a thread for a row's values: more than, up to
WHOLE = 16  # bytes of an access


@dataclass(frozen=True)
class AskFor(Scheme):
    """The loads of a copy are started; its values wait in registers as they are stored."""

    copy: Stmt

    says = "loads of {0.copy.dst} start, as they are stored"


def prefetch_behind_reduction(steps: Steps, facts: Facts) -> Steps:
    """Starts the loads of copies that stand behind the reductions of a body in front of the second of these."""

    def change(body: Steps) -> Steps:
        stmts = [s for n in body if (s := stmt_of(n))]
        folds = [s for s in stmts if s.op == "reduce"]
        values = facts.place.layouts.get(folds[0].srcs[0]) if len(folds) > 1 else None
        if values is None or not ROOM[0] < values.registers <= ROOM[1] or any(isinstance(n, Over) and n.loop for n in body):
            return body
        room, asked = values.registers, list[Step]()
        for s in stmts[stmts.index(folds[-1]) :]:
            words = facts.place.layouts[s.dst].registers // 2 if _packs(facts, s) else 0
            if 0 < words <= room:
                room -= words
                asked.append(Act(AskFor(s)))
        k = next(k for k, n in enumerate(body) if stmt_of(n) is folds[0]) + 1
        return (*body[:k], *asked, *body[k:])

    return steps if facts.place.products else bodies(steps, change)


def _packs(at: Facts, s: Stmt) -> bool:
    """Whether a copy comes in whole accesses of halves, none of them outside."""
    return comes_whole(at, s) and (t := at.p.tensor(s.srcs[0])) is not None and t.dtype.bytes == 2


def comes_whole(at: Facts, s: Stmt) -> bool:
    """Whether a copy comes into registers in whole accesses, none of them outside."""
    elsewhere = {*at.place.words, *at.place.shared, *at.place.late, *at.place.staged, *at.place.strips}
    t, layout = at.p.tensor(s.srcs[0]) if s.op == "copy" else None, at.place.layouts.get(s.dst)
    if t is None or layout is None or s.dst in elsewhere or t.guard or t.dtype.name not in STORED:
        return False
    tile, extent = (lambda a: tile_of(at.p, a)), at.p.extent
    whole = all(layout.extent(a) <= tile(a) and isinstance(e := extent(a), int) and e % tile(a) == 0 for a in t.axes)
    return whole and access_width(at.p, layout, t) * t.dtype.bytes == WHOLE


def ask(at: Printer, s: Stmt) -> None:
    """Prints the loads of a copy; its values are in `at.asked`."""
    declare(at, s)
    load(at, s)


def declare(at: Printer, s: Stmt) -> None:
    """Prints the registers in which a copy's values wait as they are stored."""
    t, layout = at.p.tensor(s.srcs[0]), at.place.layouts[s.dst]
    assert t is not None
    at.asked[s.dst] = at.names.fresh(f"{at.names.of(s.dst)}_asked")
    at.put(f"unsigned {at.asked[s.dst]}[{layout.registers * t.dtype.bytes // WORD}];")


def load(at: Printer, s: Stmt) -> None:
    """Prints the loads of a copy into these registers."""
    t, layout = at.p.tensor(s.srcs[0]), at.place.layouts[s.dst]
    assert t is not None
    v = at.vector(layout, t)
    with at.registers(layout, "q", v):
        at.put(f"ac_ask<{v}>(&{at.asked[s.dst]}[q * {v * t.dtype.bytes // WORD}], {at.reached(layout, t, f'(q * {v})')[2]});")


def unpack(at: Printer, s: Stmt, t: Tensor) -> None:
    """Prints the values of a copy that was asked for."""
    layout, name = at.place.layouts[s.dst], at.names.of(s.dst)
    v = at.vector(layout, t)
    with at.registers(layout, "q", v):
        at.put(f"ac_unpack<{STORED[t.dtype.name]}, {v}>(&{name}[q * {v}], &{at.asked[s.dst]}[q * {v * t.dtype.bytes // WORD}]);")
