"""Happens-before by vector clocks: what agents that run side by side know of each other's accesses. Plans of all targets are checked by it.

An agent runs its program in order, with a clock of what it knows to be over of each agent, itself among them: what it has started may go on
beside it. Barriers, mbarriers and flags hand clocks on. Of two accesses to one place, one of them a write, the first must be over and known
to who makes the second. An mbarrier has a place in clocks too, its phases: what copies fill is known to who knows of their phase.

A wait passes by nothing but what others did, so one run stands for all orders in which agents may run. That a wait by parity takes no other
phase for its own is asked of the clocks as well: who waits must know of the phase before, who ends the next one that the wait is over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

Clock = list[int]
Place = tuple[Hashable, ...]
E = TypeVar("E")

# who makes an access
ONE = "one"  # in its agent's order: a single thread, or each for itself
THREADS = "threads"  # what an agent does at once: its own accesses are ordered by barriers alone
BOX = "box"  # threads, each a part that no other touches, of what engines touch too
ENGINE = "engine"  # a bulk copy
FILL = "fill"  # a bulk copy that an mbarrier waits for
PRODUCT = "product"  # a matrix product
WHO = {ENGINE: "bulk copies", FILL: "bulk copies", PRODUCT: "products", BOX: "threads"}  # else others


@dataclass(slots=True, eq=False)
class Use:
    """An access. `over`: its agent's time from which on others may know that it is done (None: not yet); `open`: it is under way, or no
    fence has followed; else a barrier of `level` makes it known. `parts`: accesses of the same parts touch different bytes;
    `box`: which box of its place, None for all."""

    place: Place
    agent: int
    write: bool
    by: str = ONE
    over: int | None = None
    open: bool = False
    level: int = 0
    parts: Hashable = None
    box: int | None = None

    @property
    def who(self) -> str:
        return WHO.get(self.by, "others")


@dataclass
class Agent:
    """`now`: its time; `clock`: what it knows; `pending`: its accesses that are not over; `come`: the turn of each barrier it is at."""

    number: int
    name: str
    clock: Clock
    now: int = 1
    pending: list[Use] = field(default_factory=list)
    come: dict[Place, int] = field(default_factory=dict)

    @property
    def says(self) -> Clock:
        out = list(self.clock)
        out[self.number] = self.now
        return out

    def learns(self, clock: Clock) -> None:
        self.clock = joined(self.clock, clock)

    def closes(self, uses: list[Use], over: bool) -> None:
        """Accesses have been fenced or waited for; `over`: no barrier must follow."""
        for x in uses:
            x.open = False
            x.over = self.now if over else x.over
        if over:
            self.pending = [x for x in self.pending if x.over is None]

    def meets(self, level: int) -> None:
        """Threads of the agent meet."""
        for x in self.pending:
            if not x.open and x.level <= level:
                x.over = self.now
        self.pending = [x for x in self.pending if x.over is None]
        self.clock[self.number] = self.now


@dataclass
class Meeting:
    """A barrier: who has come to its turn, with what they know; turns that are over, with what all knew."""

    come: set[int] = field(default_factory=set)
    known: Clock = field(default_factory=list)
    over: list[Clock] = field(default_factory=list)


@dataclass
class Phase:
    """An mbarrier: its `place` in clocks, arrivals and parts of its phase so far, phases that are over, what who ended them knew; `waits`:
    the phase that an agent waited for last, and when."""

    place: int
    arrived: int = 0
    parts: int = 0
    over: int = 0
    known: Clock = field(default_factory=list)
    done: Clock = field(default_factory=list)
    waits: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass
class World:
    """`beside`: places on a place's bytes; `most`: sets of a flag that may be outstanding; `found`: what is wrong."""

    agents: list[Agent] = field(default_factory=list)
    beside: dict[Place, tuple[Place, ...]] = field(default_factory=dict)
    most: int = 1
    uses: dict[Place, dict[Place, Use]] = field(default_factory=dict)
    meetings: dict[Place, Meeting] = field(default_factory=dict)
    phases: dict[Place, Phase] = field(default_factory=dict)
    flags: dict[Place, list[Clock]] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)

    def says(self, a: Agent, what: str) -> None:
        self.found.append(f"{a.name} {what}".strip())

    def use(self, a: Agent, x: Use, shown: Callable[[Place], str], own: bool = False, kept: bool = True) -> Use:
        """An access begins. `own`: threads write only what they read themselves; not `kept`: who comes later needs not know of it."""
        for place in (x.place, *self.beside.get(x.place, ())):
            for y in self.uses.get(place, {}).values():
                if (x.write or y.write) and not (own and not y.write) and (why := self._unordered(a, x, y)):
                    where = shown(place) if place == x.place else f"{shown(x.place)} on the bytes of {shown(place)}"
                    who = y.who if y.by in WHO or y.agent == a.number else self.agents[y.agent].name
                    does = ("write" if y.write else "read") + ("" if who in ("others", *WHO.values()) else "s")
                    self.says(a, f"{'writes' if x.write else 'reads'} {where} which {who} {does}, and {why}")
        if kept:
            self.uses.setdefault(x.place, {})[x.agent, x.write, x.by, x.parts, x.box] = x
            if x.over is None:
                a.pending.append(x)
        return x

    def _unordered(self, a: Agent, x: Use, y: Use) -> str:
        """Why nothing orders an access behind an earlier one; "" where something does, or nothing must."""
        kinds, mine = (x.by, y.by), y.agent == a.number
        if (x.parts is not None and x.parts == y.parts) or (None not in (x.box, y.box) and x.box != y.box) or kinds == (BOX, BOX):
            return ""
        if mine and (y.by == ONE or kinds == (PRODUCT, PRODUCT) or (x.by == ONE and y.by not in (BOX, FILL))):
            return ""  # in the agent's order
        if mine and y.over is not None and (y.over == a.now or y.by == PRODUCT or (x.by in (ENGINE, FILL) and y.by == ENGINE)):
            return ""  # of one operation, or waited for by who goes on
        if not mine and BOX in kinds and FILL not in kinds and not (x.level or y.level):
            return ""  # each role has boxes of its own
        if y.over is None and y.open:
            return "no fence stands between" if y.by in (ONE, BOX) else "it is under way"
        return "" if knows(a.clock, y) else "nothing orders the two"

    def phase(self, key: Place) -> Phase:
        """An mbarrier's."""
        if key not in self.phases:
            self.phases[key] = Phase(len(self.agents) + len(self.phases))
            for a in self.agents:
                a.clock.append(0)
        return self.phases[key]

    def comes(self, key: Place, of: int, a: Agent, half: str = "", waits: bool = True) -> bool:
        """A barrier of `of` agents: an agent comes (`half`: arrive), waits (wait) or both (""); False while others have yet to come. Not
        `waits`: it comes and does not wait later."""
        m, kind = self.meetings.setdefault(key, Meeting()), key[0]
        if half != "wait" and key not in a.come:
            if a.number in m.come:
                self.says(a, f"comes to a {kind} barrier twice before others do")
            if waits:
                a.come[key] = len(m.over)
            m.come.add(a.number)
            m.known = joined(m.known, a.says)
            if len(m.come) == of:
                m.over.append(m.known)
                m.come, m.known = set(), []
        elif half == "arrive":
            self.says(a, f"comes to a {kind} barrier again that it has not waited at")
        if half == "arrive":
            return True
        if key not in a.come:
            self.says(a, f"waits at a {kind} barrier that it has not come to")
        elif a.come[key] >= len(m.over):
            return False
        else:
            a.learns(m.over[a.come.pop(key)])
        return True

    def arrives(self, key: Place, a: Agent, what: str, arrivals: int, parts: int, of: int, of_parts: int) -> None:
        """Arrivals at an mbarrier, or bytes that land; its phase is over when there are so many."""
        x = self.phase(key)
        x.arrived, x.parts, x.known = x.arrived + arrivals, x.parts + parts, joined(x.known, a.says)
        if x.arrived > of:
            self.says(a, f"arrives at {what} before its phase has ended")
        if x.arrived == of and x.parts == of_parts:
            for b, (wanted, when) in x.waits.items():
                if wanted == x.over and x.known[b] < when:
                    self.says(self.agents[b], f"passes a wait for {what} by a phase that is not its own")
            x.over += 1
            x.known[x.place] = x.over
            x.done = joined(x.done, x.known)
            x.arrived, x.parts, x.known = 0, 0, []

    def awaits(self, key: Place, a: Agent, what: str, phases: int) -> bool:
        """A wait until so many phases of an mbarrier are over, which tells their parity alone; False if the agent must wait."""
        x = self.phase(key)
        if x.over % 2 != phases % 2:
            return False
        if x.over != phases or a.clock[x.place] < phases - 1:
            self.says(a, f"passes a wait for {what} by a phase that is not its own")
        x.waits[a.number] = phases, a.now
        a.learns(x.done)
        return True

    def sets(self, key: Place, a: Agent, what: str) -> None:
        """A flag."""
        flags = self.flags.setdefault(key, [])
        flags.append(a.says)
        if len(flags) > self.most:
            self.says(a, f"sets {what} that is set")

    def takes(self, key: Place, a: Agent) -> bool:
        """Waits for a flag and clears it; False while it is not set."""
        flags = self.flags.get(key)
        if not flags:
            return False
        a.learns(flags.pop(0))
        return True

    def run(self, programs: list[Iterator[E]], step: Callable[[E, Agent], bool],
            ended: Callable[[Agent], object] = id) -> list[tuple[Agent, E]]:  # fmt: skip
        """Runs the agents until none can go on; who is stuck, and where."""
        waiting = [next(p, None) for p in programs]
        moved = True
        while moved:
            moved = False
            for i, a in enumerate(self.agents):
                while (event := waiting[i]) is not None and step(event, a):
                    a.now += 1
                    waiting[i] = next(programs[i], None)
                    moved = True
                    if waiting[i] is None:
                        ended(a)
        return [(a, x) for a, x in zip(self.agents, waiting) if x is not None]


def knows(clock: Clock, x: Use) -> bool:
    """Whether an access is known to be over; a clock may be older than an mbarrier's place in it."""
    return x.over is not None and x.agent < len(clock) and clock[x.agent] >= x.over


def joined(a: Clock, b: Clock) -> Clock:
    """What who knows of both knows; one of them may be older, of fewer mbarriers."""
    if len(a) < len(b):
        a, b = b, a
    return [x if x > y else y for x, y in zip(a, b)] + a[len(b) :]
