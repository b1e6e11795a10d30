"""Ping-pong (schedule field `ping_pong`; CUTLASS: KernelTmaWarpSpecializedPingpong): each consumer warpgroup has output tiles of its own;
while one runs its epilogue, the products of the next have the matrix units.

    tile t of a block belongs to warpgroup t mod W. Before its first product it waits for the warpgroup before it to have started its
    last one, and behind its own last product it lets the next one begin.

    before   grid i0, i1 persistent=yes       after   grid i0, i1 persistent=yes
               serial r0                                await this warpgroup's turn
                 ..                                     serial r0
               store out = y                              ..
                                                        store out = y

Where the next warpgroup may begin follows from where the tile's last product does (`tile.signals`).

The order also keeps waits sound: a wait by parity must not look past a slot that another warpgroup has yet to see filled, and the
warpgroup before has seen every slot of its tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.cuda.facts import Facts

from autocomp.tile.plan import Count, Reach, Signal
from autocomp.tile.program import walk
from autocomp.tile.steps import Act, Scheme, Steps, of_tile

if TYPE_CHECKING:
    from autocomp.targets.cuda.queues import Queue
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


@dataclass(frozen=True)
class PingPong:
    """`teams` consuming warpgroups; `order`: offset of their barriers in shared memory."""

    teams: int
    order: int

    @property
    def wave(self) -> str:
        """A warp's number in its warpgroup."""
        return "threadIdx.x / AC_WAVE % 4"


@dataclass(frozen=True)
class AwaitTurn(Scheme):
    """A warpgroup waits until the one before it has started its last product."""

    says = "await this warpgroup's turn"


def ping_pong(steps: Steps, facts: Facts) -> Steps:
    """Puts the order of warpgroups in front of a tile's products."""
    return of_tile(steps, lambda body: (Act(AwaitTurn()), *body)) if facts.order else steps


def find_ping_pong(at: WarpSpecialisedPrinter, teams: int) -> PingPong | None:
    """Raises UnsupportedOp where warpgroups would meet in more than the copied factors."""
    if teams == 1:
        return None
    if not at.persistent or at.stream or at.memory == "own" or at.placer.laid:
        raise at.placer.refuse("warpgroups take turns at the tiles of blocks that stay and are in no cluster")
    if any(s.op == "reduce" for s, _ in walk(at.p.body)) or at.place.staged or at.place.cleared:
        raise at.placer.refuse("warpgroups that take turns share no memory but for copied factors")
    if any(len([x for x in loops if x.kind != "grid"]) > 1 or any(x.until for x in loops) for _, loops in walk(at.p.body)):
        raise at.placer.refuse("a tile's turns of a ring are counted where one loop of fixed length takes them")
    return PingPong(teams, at.place.reserve(8 * teams, 8))


def barriers(at: WarpSpecialisedPrinter, t: PingPong) -> None:
    """A barrier a warpgroup, at which the one before it arrives."""
    for w in range(t.teams):
        at.put(f"ac_barrier_init({at.memory} + {t.order + 8 * w}, 4);")


def counters(at: WarpSpecialisedPrinter, t: PingPong, queues: Sequence[Queue]) -> None:
    """The first turn of each ring that is this warpgroup's."""
    for q in queues:
        at.plan(Count(q.name, f"int {q.name} = (team - 1) * ({_turns(at, q)});", True, 1, q.loop is not None))
    at.put("int turn = 0;")


def begin(at: WarpSpecialisedPrinter) -> None:
    """A tile's products begin."""
    at.plan(Reach("products", True, "teams", at.takers))


def spelt(at: WarpSpecialisedPrinter, n: Signal) -> str:
    """The wait for this warpgroup's turn; or it lets the next one begin."""
    t = at.order
    assert t is not None
    if n.do == "wait":
        return f"ac_barrier_wait({at.memory} + {t.order} + 8 * (team - 1), (turn + (team == 1)) % 2);"
    return f"if (lane == 0) ac_barrier_arrive({at.memory} + {t.order} + 8 * (team % {t.teams}));"


def skip(at: WarpSpecialisedPrinter, t: PingPong, queues: Sequence[Queue]) -> None:
    """Behind a tile: the other warpgroups' turns."""
    for q in queues:
        others = f"{t.teams - 1} * ({_turns(at, q)})" if q.loop is not None else str(t.teams)
        at.plan(Count(q.name, f"{q.name} += {others};", times=t.teams - (q.loop is not None), turns=q.loop is not None))
    at.put("++turn;")


def _turns(at: WarpSpecialisedPrinter, q: Queue) -> str:
    return "1" if q.loop is None else at.turns(q.loop)
