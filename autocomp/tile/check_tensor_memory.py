"""What agents of a plan do in tensor memory, for the plan's checker (`check_plan`): one thread issues products, the consumers do alike.

    slots       bulk copies fill them, products read them until a commit behind has landed: it gives them back, and hands sums on
    sums        products write a slot of their ring, consumers load from it until a fence stands behind the load
    columns     a warp takes them, all know where they lie behind a barrier between two fences, all have met when they go back

Products and loads see what others did up to the role's last fence `after` alone (PTX: tcgen05.fence), whatever it has been told since.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autocomp.tile.happens_before import ONE, PRODUCT, THREADS, Clock, Place, Use
from autocomp.tile.plan import TensorMemory

if TYPE_CHECKING:
    from autocomp.tile.check_plan import Run, Team


@dataclass
class Columns:
    """An agent's part. `heard`: its clock at its last fence `after`; `open`: products behind the last commit; `used`: the last turn of a
    ring in which it did its work; `taken`, `known`, `freed`: columns have been taken, it has read where they lie, they have gone back."""

    heard: Clock = field(default_factory=list)
    open: list[Use] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    taken: bool = False
    known: bool = False
    freed: bool = False


def does(run: Run, n: TensorMemory, a: Team) -> None:
    """One statement."""
    mine, columns = a.columns, ("tensor memory", a.block, 0)
    if n.do == "alloc":
        mine.taken = True
        if a.team >= 0:
            run.use(a, columns, True, THREADS, open=True, level=1)
    elif n.do == "before":
        a.closes([x for x in a.pending if x.by == THREADS], False)
        a.closes([x for x in a.pending if x.by == ONE and x.place[0] != "mbarriers"], True)
    elif n.do == "after":
        mine.heard = list(a.clock)
    elif n.do == "name":
        _use(run, a, columns, False)
        mine.known = mine.taken
    elif n.do == "free":
        mine.freed = True
        _use(run, a, columns, True, THREADS)
        if not mine.used:
            run.w.says(a, "frees tensor memory from which it has loaded nothing")
    else:  # products begin, or sums are loaded
        mine.used[n.ring] = a.turn.get(n.ring, 0)
        if not mine.known:
            run.w.says(a, "uses tensor memory and does not know where it lies")
        if n.do == "load":
            _use(run, a, run.slot(n.ring, a), False, open=True)
            _use(run, a, columns, False, THREADS, open=True, level=1)
        else:
            mine.open.append(_use(run, a, run.slot(n.ring, a), True, PRODUCT, open=True))
            mine.open += [_use(run, a, run.slot(q, a), False, PRODUCT, open=True) for q in n.reads]


def commits(a: Team) -> bool:
    """Whether an arrival is a commit: all products before it are over then."""
    a.closes(a.columns.open, True)
    a.columns.open = []
    return a.team < -1


def end(run: Run, a: Team) -> None:
    """A team ends."""
    if not a.columns.freed:
        run.w.says(a, "ends without giving tensor memory back")


def _use(run: Run, a: Team, place: Place, write: bool, by: str = ONE, **more: object) -> Use:
    """An access of tensor memory or of its engine."""
    now, a.clock = a.clock, a.columns.heard
    x = run.use(a, place, write, by, **more)  # type: ignore[arg-type]
    a.clock = now
    return x
