"""Turns in which a sum takes in its neutral value alone are passed over (directive `skip_neutral`): updates that are scattered by an index.

    before   serial r0                          after   serial r0
               i = copy at                                | 32 turns are looked at side by side: those without `c` are not run
               c = map i == n                             i = copy at
               v = map where(c, u, 0)                     ...
               s += reduce add v

Each lane of a wave finds the condition of one turn; the wave runs the turns in which it holds for one of a thread's rows, in their order.
What decides must be the same for all threads of a block (rows that each thread has whole, and one turn), and no thread may wait for another
wave in a turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.simt.facts import Facts
from autocomp.targets.simt.placed import Placement, tile_of

from autocomp.ir.body import Map
from autocomp.ir.types import dim_hint
from autocomp.loops.chosen_turns import asked_for, is_nothing
from autocomp.tile.program import Loop, Stmt, TileProgram, Value, walk
from autocomp.tile.steps import Over, Scheme, Step, Steps, loops, stmt_of, told

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer


AHEAD = 8  # turns that a lane looks at before one is run: what they read is under way at once


@dataclass(frozen=True)
class Skipped(Scheme):
    """A loop's turns are run where `condition` holds for one of a thread's rows, which `makers` make; `share`: of the turns, as far as is
    known."""

    condition: str
    makers: tuple[Step, ...]
    share: float

    says = "turns are looked at side by side, and run where {0.condition} holds"


def skip_neutral(steps: Steps, facts: Facts) -> Steps:
    """Says so of loops over single places whose only sum takes in nothing where a condition fails."""

    def change(n: Over, loop: Loop) -> Over:
        x = _skipped(n, loop, facts.p, facts.place)
        return told(n, x) if x is not None else n

    return loops(steps, change)


def write(at: Printer, n: Over, loop: Loop, x: Skipped) -> None:
    """The loop over the turns' conditions, AHEAD of a lane's at once, and in it the turns that are run."""
    at.wants("skip_neutral")
    total, first, turn, it, todo, mine = at.turns(loop), *(at.names.fresh(w) for w in ("first", "turn", "it", "todo", "mine"))
    with at.block(f"for (int {first} = 0; {first} < {total}; {first} += {AHEAD} * AC_WAVE)", again=first):
        at.put(f"ac_lanes {todo}[{AHEAD}];")
        with at.block(f"for (int u = 0; u < {AHEAD}; ++u)", unroll=True):
            at.put(f"const int {turn} = {first} + u * AC_WAVE + lane;", f"bool {mine} = false;")
            with at.block(f"if ({turn} < {total})"):
                at.bases(loop, turn)
                at.run(x.makers)
                held = (f"{at.names.of(x.condition)}[{r}]" for r in range(at.place.layouts[x.condition].registers))
                at.put(f"{mine} = {' || '.join(held)};")
            at.put(f"{todo}[u] = ac_holds({mine});")
        with at.block(f"for (int u = 0; u < {AHEAD}; ++u)", unroll=True), at.block(f"while ({todo}[u])", again=it):
            at.put(f"const int {it} = {first} + u * AC_WAVE + ac_lowest({todo}[u]);", f"{todo}[u] &= {todo}[u] - 1;")
            at.bases(loop, it)
            at.run(n.body)


def _skipped(n: Over, loop: Loop, p: TileProgram, place: Placement) -> Skipped | None:
    steps = {s.dst: m for m in n.body if (s := stmt_of(m))}
    stmts = [s for m in n.body if (s := stmt_of(m))]
    sums = [s for s in stmts if s.acc]
    if (len(stmts) != len(n.body) or len(steps) != len(stmts) or len(sums) != 1 or loop.until is not None or loop.back
            or loop.kind not in ("serial", "pipelined") or len(loop.axes) != 1 or tile_of(p, loop.axes[0]) != 1):  # fmt: skip
        return None
    of = {s.dst: s for s in stmts}
    (s,) = sums
    made = _choice(s.srcs[0], of) if s.op == "reduce" and s.expr == "add" else None
    if not (isinstance(made, Map) and made.fn == "where" and isinstance(made.args[0], Value) and is_nothing(made.args[2])):
        return None
    condition = made.args[0].name
    makers = _closure(condition, of)
    behind = {x for t, around in walk(p.body) if loop not in around for x in t.srcs}
    if s.dst in makers or behind & (of.keys() - {s.dst}):  # what a turn that is not run would have left
        return None
    alone = [place.layouts[x] for x in makers if x in place.layouts]
    if (condition not in makers or len(alone) != len(makers) or any(d.axis for a in alone for d in (*a.lane, *a.wave))
            or any(_meets(x, place) for x in of)):  # fmt: skip
        return None
    rows = place.layouts[condition].registers
    return Skipped(condition, tuple(steps[x] for x in of if x in makers), min(1.0, rows * _share(of[condition].expr, p)))


def _choice(name: str, of: dict[str, Stmt]) -> object:
    """What a value is a cast of, or itself: a cast of nothing is nothing."""
    e = of[name].expr if name in of else None
    while (isinstance(e, Map) and e.fn == "cast") or (isinstance(e, Value) and e.name in of):
        e = e.args[0] if isinstance(e, Map) else of[e.name].expr
    return e


def _closure(name: str, of: dict[str, Stmt]) -> set[str]:
    """What a loop makes on the way to a value."""
    found, left = set[str](), [name]
    while left:
        x = left.pop()
        if x in of and x not in found:
            found.add(x)
            left += of[x].srcs
    return found


def _meets(name: str, place: Placement) -> bool:
    """Whether threads wait for each other where a value is made."""
    return name in place.shared or name in place.staged or name in place.late


def _share(e: object, p: TileProgram) -> float:
    """Of the turns that are run: one of as many as there are rows, where a row's number is asked for."""
    return 1 / max((1, *(dim_hint(p.extent(a)) for a in asked_for(e))))
