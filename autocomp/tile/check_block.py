"""Runs a plan's accesses turn by turn and reports what its barriers and waits do not order.

All threads run the same statements, so one run of them is enough: two accesses are apart where threads met between them. An
asynchronous copy writes from when it is started until its thread has waited for it, and others know of that when they have met behind
the wait. Loops of unknown length run once, twice and often enough for a ring to come round; what may not run is tried both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from autocomp.errors import AutocompError
from autocomp.tile import check_agents, check_roles
from autocomp.tile.plan import Access, Barrier, Block, Commit, Landed, Node, walk

MOST = 8  # turns of a loop that are tried
Event = Access | Barrier | Commit | Landed


@dataclass
class Use:
    """An access that has been made: how often threads had met before it was over (None: it is not yet)."""

    access: Access
    over: int | None


@dataclass
class Run:
    """One run. `met`: barriers of the block, and of the whole cluster; `open`: copies in no group yet; `groups`: those under way."""

    met: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    uses: dict[tuple[str, int], list[Use]] = field(default_factory=dict)
    open: list[Use] = field(default_factory=list)
    groups: list[list[Use]] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def step(self, n: Event, slot: int) -> None:
        if isinstance(n, Barrier) and n.agents != "warpgroup":
            self.met[False] += 1
            self.met[True] += n.agents == "cluster"
        elif isinstance(n, Commit):
            self.groups.append(self.open)
            self.open = []
        elif isinstance(n, Landed):
            landed = self.groups if n.behind == 0 else self.groups[: -n.behind]
            for use in (x for group in landed for x in group):
                use.over = self.met[use.access.far]
            self.groups = self.groups[len(landed) :]
        elif isinstance(n, Access):
            self.access(n, slot)

    def access(self, a: Access, slot: int) -> None:
        now, mine = self.met[a.far], self.uses.setdefault((a.buffer, slot), [])
        for x in mine:
            b = x.access
            if not (a.write or b.write) or (a.own and not b.write):
                continue
            if x.over is None:
                self.found.append(f"{_does(a)} {a.buffer} while copies into it are under way")
            elif x.over >= now:
                self.found.append(f"{_does(a)} {a.buffer} which others {'write' if b.write else 'read'}, and nothing orders the two")
        use = Use(a, None if a.lands else now)
        mine[:] = [x for x in mine if x.over is None or x.over >= now] + [use]
        if a.lands:
            self.open.append(use)

    def end(self) -> None:
        for uses in self.uses.values():
            for x in uses:
                if x.over is None:
                    self.found.append(f"ends while copies into {x.access.buffer} are under way")
                elif x.access.far and x.over >= self.met[True]:
                    self.found.append(f"ends while other blocks {'write' if x.access.write else 'read'} {x.access.buffer}")


def problems(body: tuple[Node, ...]) -> list[str]:
    """What is wrong with a plan; [] if nothing is."""
    found: list[str] = []
    deep = max([1, *(n.slots.depth for n in walk(body) if isinstance(n, Access) and n.slots)])
    for turns in sorted({1, 2, min(MOST, deep + 2)}):
        for taken in (True, False) if any(isinstance(n, Block) and n.perhaps for n in walk(body)) else (True,):
            run = Run()
            for event, slot in _events(body, turns, taken, {}):
                run.step(event, slot)
            run.end()
            found += run.found
    return list(dict.fromkeys(found))


def all_problems(body: tuple[Node, ...], takers: int = 1) -> list[str]:
    """What is wrong with a plan in a block, between its roles, between blocks; of the first of these where anything is."""
    return problems(body) or check_roles.problems(body, takers) or check_agents.problems(body)


def require(body: tuple[Node, ...], kernel: str, takers: int = 1) -> None:
    """Raises AutocompError where a plan's accesses are not ordered: an error of the compiler, found before anything runs. `takers`: how
    many consumers take tiles by turns."""
    if found := all_problems(body, takers):
        raise AutocompError(f"the plan of a block is wrong: it {found[0]}", where=f"kernel {kernel}",
                            hint="this is an error of the compiler; another schedule may avoid it")  # fmt: skip


def _events(body: tuple[Node, ...], turns: int, taken: bool, at: dict[str, int]) -> Iterator[tuple[Event, int]]:
    """The statements of a run with the slot that each touches. `at`: the turn of each loop around."""
    for n in body:
        if isinstance(n, Block):
            if n.perhaps and not taken:
                continue
            for turn in range(n.turns or turns) if n.again else (0,):
                yield from _events(n.body, turns, taken, {**at, n.again: turn} if n.again else at)
        elif isinstance(n, Access):
            slots = n.slots
            yield n, at.get("tile", 0) % 2 if n.halves else (at.get(slots.turn, 0) + slots.ahead) % slots.depth if slots else 0
        elif isinstance(n, Event):
            yield n, 0


def _does(a: Access) -> str:
    return "writes" if a.write else "reads"
