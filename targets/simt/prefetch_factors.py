"""Prefetch of what products' factors are computed from (directive `prefetch_factors`): a turn's elements are loaded into registers, as they
are stored, while the product of the turn before runs.

    before   pipelined r0 stages=3     after   pipelined r0 stages=3
               b = copy w                        b = copy w
               x = copy in0                      x = copy in0
               f = map exp(x)                    f = map exp(x)
               acc += mma f, b                   loads of x start, of the next turn
                                                 acc += mma f, b

Otherwise each load is waited for where it is used: compilers put it next to there. A product over 1024 rows whose factor is elu(x) + 1 of
16 halves a load waited for each of its eight loads a turn, 8000 clocks of it (39 us, two blocks a core, H200, 2026-11-27).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.simt import direct_mainloop, prefetch_behind_reduction
from autocomp.targets.simt.facts import Facts

from autocomp.tile.program import Loop, Stmt
from autocomp.tile.steps import Act, Over, Scheme, Step, Steps, by, loops, stmt_of

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer


@dataclass(frozen=True)
class AskAhead(Scheme):
    """The loads of a copy are started for the turn behind this one; its values wait in registers as they are stored."""

    copy: Stmt

    says = "loads of {0.copy.dst} start, of the next turn"


def prefetch_factors(steps: Steps, facts: Facts) -> Steps:
    """Starts the loads of copies that a pipelined loop's products read through maps behind the last of these."""

    def change(n: Over, loop: Loop) -> Over:
        stmts = [stmt_of(m) for m in n.body]
        product = next((k for k, s in enumerate(stmts) if s is not None and s.op == "mma"), None)
        if product is None or loop.kind != "pipelined" or loop.until is not None or None in stmts:
            return n
        if facts.place.stages < 2 or direct_mainloop.product_of(facts.place, loop):
            return n
        behind: dict[int, list[Step]] = {}
        for s in stmts[:product]:
            readers = [k for k, x in enumerate(stmts) if x is not None and s is not None and s.dst in x.srcs]
            if s is not None and prefetch_behind_reduction.comes_whole(facts, s) and readers and readers[-1] < product:
                behind.setdefault(readers[-1], []).append(Act(AskAhead(s)))
        body = [m for k, step in enumerate(n.body) for m in (step, *behind.get(k, ()))]
        return Over(tuple(body), n.loop, n.how) if behind else n

    return loops(steps, change)


def begin(at: Printer, n: Over, loop: Loop) -> tuple[Stmt, ...]:
    """In front of a loop: the first turn's loads. Its copies that are asked for ahead."""
    found = tuple(x.copy for m in n.body if (x := by(m, AskAhead)))
    if found:
        for s in found:
            prefetch_behind_reduction.declare(at, s)
        _of_turn(at, found, loop, "0")
    return found


def ahead(at: Printer, s: Stmt, loop: Loop, it: str, total: str) -> None:
    """Prints the loads of the turn behind `it`."""
    with at.block(f"if ({it} + 1 < {total})"):
        _of_turn(at, (s,), loop, f"({it} + 1)")


def end(at: Printer, copies: tuple[Stmt, ...]) -> None:
    """Behind a loop."""
    for s in copies:
        del at.asked[s.dst]


def _of_turn(at: Printer, copies: tuple[Stmt, ...], loop: Loop, it: str) -> None:
    outer = at.base.copy()
    at.bases(loop, it)
    for s in copies:
        prefetch_behind_reduction.load(at, s)
    at.base.clear()
    at.base.update(outer)
