"""Runs the agents of several blocks side by side, with vector clocks, and reports what nothing orders.

Agents are the producer of a block and its teams (warpgroups, waves, or threads that stand for the others of a block), of all blocks of a
cluster, or of blocks that share out a row of tiles. Each has a clock; barriers, mbarriers and flags hand clocks on, and of two accesses to
one place, one of them a write, the first must be known to who makes the second. What is followed:

    mbarriers       made by one thread, fenced, and known to all blocks before any of them uses them
    slots of rings  of a block or, by multicast, of all blocks of a cluster; each phase has the arrivals it was made for
    inboxes         of shared memory of another block, with the mbarrier that counts what comes
    named barriers  two teams each: one waits, or goes on
    flags           of global memory, behind a fence of each thread whose writes they stand for; all are clear at the end
    the end         a block's shared memory is not touched by others behind it

Stricter than PTX in two points: all threads of a cluster come to each of its barriers (PTX counts those that have ended as come), and a
thread fences what it wrote to global memory before the threads meet and one sets a flag (PTX's release hands on what that one knows).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from autocomp.tile.boxes import MBARRIERS
from autocomp.tile.check_roles import MOST, place_of, skipped
from autocomp.tile.plan import (
    Agents,
    Barrier,
    Block,
    Box,
    ClusterBarrier,
    Count,
    Fence,
    Flag,
    Inbox,
    NamedBarrier,
    Node,
    Reach,
    Signal,
    walk,
)

Event = Signal | Count | Barrier | Box | Fence | ClusterBarrier | NamedBarrier | Inbox | Flag | Reach
Place = tuple[str, int, int]  # what, the block that has it, its slot
TILES = 3  # of a block that stays
ROWS = (1, 2)  # tiles of a row that blocks share out
Clock = list[int]


@dataclass
class Use:
    """An access. `over`: its agent's time behind which it is done (None: a fence must follow first); `parts`: each of these has its own."""

    agent: int
    block: int
    write: bool
    over: int | None
    parts: str = ""  # "" | threads | blocks


@dataclass
class Meeting:
    """A barrier's turn that agents come to: who has, what they know; `over`: turns that are over, with what all knew."""

    come: set[int] = field(default_factory=set)
    known: Clock = field(default_factory=list)
    over: list[Clock] = field(default_factory=list)

    def comes(self, agent: int, clock: Clock, of: int) -> int:
        """The number of the turn that an agent has come to; it is over when `of` of them have."""
        turn = len(self.over)
        self.come.add(agent)
        self.known = _joined(self.known, clock)
        if len(self.come) == of:
            self.over.append(self.known)
            self.come, self.known = set(), []
        return turn


@dataclass
class Phase:
    """An mbarrier: arrivals and parts of its phase so far, phases that are over, what who ended them knew."""

    arrived: int = 0
    parts: int = 0
    over: int = 0
    known: Clock = field(default_factory=list)
    done: Clock = field(default_factory=list)


@dataclass
class Agent:
    """`number`: among all; `team`: in its block, -1 for the producer; `turn`: of each ring; `come`: the turn of a barrier it waits at;
    `open`: its accesses that a fence has yet to follow."""

    number: int
    block: int
    team: int
    clock: Clock
    turn: dict[str, int] = field(default_factory=dict)
    come: dict[tuple[str, int, int], int] = field(default_factory=dict)
    open: list[tuple[str, Use]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{'the producer' if self.team < 0 else f'team {self.team}'} of block {self.block}"


@dataclass
class World:
    """`private`: rings that each team fills for itself; `apart`: a slot filled by all is brought by one block alone."""

    of: Agents
    agents: list[Agent]
    private: frozenset[str]
    apart: bool
    uses: dict[Place, list[Use]] = field(default_factory=dict)
    phases: dict[tuple[str, str, int, int, int], Phase] = field(default_factory=dict)
    meetings: dict[tuple[str, int, int], Meeting] = field(default_factory=dict)
    flags: dict[int, Clock | None] = field(default_factory=dict)
    ended: dict[int, list[Clock]] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)

    def use(self, a: Agent, place: Place, write: bool, parts: str = "", fenced: bool = False) -> None:
        """An access begins."""
        mine = self.uses.setdefault(place, [])
        for x in mine:
            apart = x.parts == parts and (parts == "blocks" or (parts == "threads" and x.block == a.block))
            if not (write or x.write) or x.agent == a.number or apart:
                continue
            if x.over is None:
                self.found.append(f"{a.name} {_does(write)} {_say(place)} which others {_do(x.write)}, and no fence stands between")
            elif a.clock[x.agent] < x.over:
                self.found.append(f"{a.name} {_does(write)} {_say(place)} which others {_do(x.write)}, and nothing orders the two")
        mine[:] = [x for x in mine if x.agent != a.number or x.write != write or x.over is None]
        mine.append(Use(a.number, a.block, write, None if fenced else a.clock[a.number], parts))
        if fenced:
            a.open.append((place[0], mine[-1]))

    def ends(self) -> None:
        """What is left behind when all agents have ended."""
        for place, uses in self.uses.items():
            for x in uses if place[0] not in ("sums", "turn") else ():
                known = [c for c in self.ended.get(place[1], ()) if x.over is not None and c[x.agent] >= x.over]
                if x.block != place[1] and not known:
                    self.found.append(f"block {place[1]} may end while others {_do(x.write)} {_say(place)}")
        for (kind, _, _), m in self.meetings.items():
            if m.come:
                self.found.append(f"a {kind} barrier is left that not all have come to")
        for a in self.agents:
            if any(kind == "cluster" for kind, _, _ in a.come):
                self.found.append(f"{a.name} ends between the halves of a cluster's barrier")
        if any(x is not None for x in self.flags.values()):
            self.found.append("a flag is left set, for the next launch")


def problems(body: tuple[Node, ...]) -> list[str]:
    """What is wrong between blocks, or between teams of one; [] if nothing is, or the plan names no agents."""
    of = next((n for n in walk(body) if isinstance(n, Agents)), None)
    if of is None:
        return []
    deep = min(MOST, max([1, *(n.depth for n in walk(body) if isinstance(n, Signal))]))
    parts = max([1, *(n.part[1] for n in walk(body) if isinstance(n, Block))])
    least = max([parts, *(n.least for n in walk(body) if isinstance(n, Block))])
    # each piece of a row has as many: how long one is is of no matter to rings
    tried = [of.turns] if of.turns else sorted({max(least, n) for n in (1, 2, deep, deep + 2, 2 * parts)})
    far = any(isinstance(n, Signal) and n.far for n in walk(body))
    found: list[str] = []
    for turns in tried:
        for apart in (False, True) if far else (False,):
            for tiles in ROWS if of.row else (0,):
                for backwards in (False, True):
                    found += _run(body, of, turns, apart, tiles, backwards)
    return list(dict.fromkeys(found))


def _run(body: tuple[Node, ...], of: Agents, turns: int, apart: bool, tiles: int, backwards: bool) -> list[str]:
    teams = range(-1 if of.producer else 0, of.teams)
    agents = [Agent(i, b, t, []) for i, (b, t) in enumerate((b, t) for b in range(of.blocks) for t in teams)]
    for a in agents:
        a.clock = [0] * len(agents)
        a.clock[a.number] = 1
    private = frozenset(n.queue for n in walk(body) if isinstance(n, Signal) and n.do == "fill") - _filled_by_producer(body)
    w = World(of, agents, private if of.producer else frozenset(), apart)
    programs = [_events(body, a, of, turns, tiles, {"": turns}) for a in agents]
    waiting = [next(p, None) for p in programs]
    moved, order = True, range(len(agents))[:: -1 if backwards else 1]
    while moved:
        moved = False
        for i in order:
            while (event := waiting[i]) is not None and _step(event[0], event[1], agents[i], w):
                agents[i].clock[i] += 1
                waiting[i] = next(programs[i], None)
                moved = True
                if waiting[i] is None:
                    w.ended.setdefault(agents[i].block, []).append(list(agents[i].clock))
    stuck = [f"stuck: {a.name} waits at {_show(x[0])}" for a, x in zip(agents, waiting) if x is not None]
    if not stuck:
        w.ends()
    return w.found + stuck


def _filled_by_producer(body: tuple[Node, ...]) -> frozenset[str]:
    inside = [x for n in walk(body) if isinstance(n, Block) and n.role for x in walk(n.body)]
    return frozenset(x.queue for x in inside if isinstance(x, Signal) and x.do == "fill")


def _events(body: tuple[Node, ...], a: Agent, of: Agents, turns: int, tiles: int,
            at: dict[str, int]) -> Iterator[tuple[Event, dict[str, int]]]:  # fmt: skip
    """An agent's statements with the turn of each loop around, and of a row its piece and the other block."""
    for n in body:
        if isinstance(n, Block):
            if (n.role and a.team >= 0) or (n.alone and a.team != (-1 if of.producer else 0)) or place_of(n.since[0], at) < n.since[1]:
                continue
            if n.within and not 0 <= a.turn.get(n.within[0], 0) - n.within[1] < TILES * turns:
                continue
            for here in _turns(n, a, of, turns, tiles, at):
                yield from _events(n.body, a, of, turns, tiles, here)
            if n.role:
                return
        elif isinstance(n, Event):
            yield n, at


def _turns(n: Block, a: Agent, of: Agents, turns: int, tiles: int, at: dict[str, int]) -> Iterator[dict[str, int]]:
    """The turns of a loop; of a block that is none, one or none."""
    mine = _pieces(a.block, of.blocks, turns, tiles) if tiles else []
    if n.row:
        tile, begin, end = mine[at["piece"]] if at.get("piece", -1) >= 0 else (-1, 0, turns)
        if n.row == "others":
            for b in range(a.block + 1, of.blocks):
                if any(x == tile and first > 0 for x, first, _ in _pieces(b, of.blocks, turns, tiles)):
                    yield {**at, "other": b}
        elif begin > 0 if n.row == "later" else begin == 0 and end < turns:
            yield at
    elif n.again in ("tile", "wave_of"):
        for turn in range(1 + len(mine) if tiles else TILES):
            yield {**at, n.again: turn, "piece": turn - 1}
    elif n.again:
        times = n.turns or turns
        for turn in range(n.begins + times * n.part[0] // n.part[1], times * (n.part[0] + 1) // n.part[1]):
            yield {**at, n.again: turn}
    else:
        yield at


def _pieces(block: int, blocks: int, turns: int, tiles: int) -> list[tuple[int, int, int]]:
    """(tile, its first turn, its end) of a block's pieces of a row."""
    each = max(turns, blocks)  # enough for every block to have a piece
    begin, end = (tiles * each * b // blocks for b in (block, block + 1))
    out = []
    while begin < end:
        tile = begin // each
        stop = min(end, (tile + 1) * each)
        last = stop == (tile + 1) * each
        out.append((tile, begin % each, turns if last else min(stop - tile * each, turns - 1)))
        begin = stop
    return out


def _step(n: Event, at: dict[str, int], a: Agent, w: World) -> bool:
    """Does one statement; False where the agent must wait."""
    if isinstance(n, Count):
        by = n.times * (at[""] if n.turns else 1)
        a.turn[n.queue] = 0 if n.begin else a.turn.get(n.queue, 0) + by
    elif isinstance(n, Signal):
        return _signal(n, at, a, w)
    elif isinstance(n, Barrier):
        return _meets(n.agents, a, w, "")
    elif isinstance(n, ClusterBarrier):
        return _meets("cluster", a, w, n.do)
    elif isinstance(n, NamedBarrier):
        if n.only is not None and a.team != n.only % w.of.teams:
            return True
        return _come(("named", a.block, (a.team + n.further) % w.of.teams), 2, a, w, "arrive" if n.do == "pass" else "")
    elif isinstance(n, Box):
        if n.name == MBARRIERS:
            w.use(a, (MBARRIERS, a.block, 0), True, fenced=True) if _first(a, w) else None
        elif not w.of.producer and n.ring:
            w.use(a, (n.ring, a.block, (a.turn.get(n.ring, 0) - n.back) % n.depth), n.do == "write")
    elif isinstance(n, Fence):
        for what, x in a.open:
            if what == n.box:
                x.over = a.clock[a.number]
        a.open = [x for x in a.open if x[0] != n.box]
    elif isinstance(n, Inbox):
        return _inbox(n, a, w)
    elif isinstance(n, Flag):
        return _flag(n, at, a, w)
    elif n.whose == "teams":
        w.use(a, ("turn", a.block, 0), True)
    else:
        w.use(a, (n.what, at["other"] if n.whose == "other" else a.block, 0), n.write, parts="threads", fenced=n.write)
    return True


def _first(a: Agent, w: World) -> bool:
    return a.team == (-1 if w.of.producer else 0)


def _meets(who: str, a: Agent, w: World, half: str) -> bool:
    if who == "warpgroup":
        return True  # of one team
    each = w.of.teams + w.of.producer
    of = each * w.of.blocks if who == "cluster" else w.of.teams if who == "consumers" else each
    return _come((who, -1 if who == "cluster" else a.block, 0), of, a, w, half)


def _come(key: tuple[str, int, int], of: int, a: Agent, w: World, half: str) -> bool:
    """A meeting: comes (`half`: arrive), waits (wait), or both (""); False while others have yet to come."""
    m = w.meetings.setdefault(key, Meeting())
    named = key[0] == "named"
    if half != "wait" and key not in a.come:
        if a.number in m.come:
            w.found.append(f"{a.name} comes to a {key[0]} barrier twice before others do")
        turn = m.comes(a.number, a.clock, of)
        if named and half == "arrive":
            return True
        a.come[key] = turn
    elif half == "arrive":
        w.found.append(f"{a.name} comes to a {key[0]} barrier again that it has not waited at")
    if half == "arrive":
        return True
    if key not in a.come:
        w.found.append(f"{a.name} waits at a {key[0]} barrier that it has not come to")
        return True
    if a.come[key] >= len(m.over):
        return False
    a.clock[:] = _joined(a.clock, m.over[a.come.pop(key)])
    return True


def _signal(n: Signal, at: dict[str, int], a: Agent, w: World) -> bool:
    now = a.turn.get(n.queue, 0)
    turn = now - n.back
    slot, blocks = turn % n.depth, range(w.of.blocks) if n.far else (a.block,)
    own = a.number if n.queue in w.private else -1
    ring = f"{n.queue}.{own}" if own >= 0 else n.queue
    phase = lambda what, block: w.phases.setdefault((n.queue, what, block, slot, own), Phase())
    if n.do == "wait":
        w.use(a, (MBARRIERS, a.block, 0), False)
        x = phase(n.what, a.block)
        wanted = turn // n.depth + (n.what == "full")
        if x.over % 2 != wanted % 2:
            return False
        if x.over != wanted:
            w.found.append(f"{a.name} passes a wait for {n.what} of {n.queue} by a phase that is not its own")
        a.clock[:] = _joined(a.clock, x.done)
        if n.what == "full":
            w.use(a, (ring, a.block, slot), False)
    elif n.do == "fill":
        parts = w.of.blocks if n.far and not w.apart else 1
        _arrives(phase("full", a.block), a, w, 1, 0, 1, parts, n)
        for b in blocks:
            w.use(a, (MBARRIERS, b, 0), False)
            if not (n.far and w.apart) or turn % w.of.blocks == a.block:
                w.use(a, (ring, b, slot), True, "blocks" if n.far and not w.apart else "")
                _arrives(phase("full", b), a, w, 0, 1, 1, parts, n)
    elif not skipped(n, at, now):
        w.use(a, (ring, a.block, slot), False)
        for b in blocks:
            w.use(a, (MBARRIERS, b, 0), False)
            _arrives(phase(n.what, b), a, w, 1, 0, 1 if own >= 0 else w.of.teams * len(blocks), 0, n)
    return True


def _arrives(x: Phase, a: Agent, w: World, arrivals: int, parts: int, of: int, of_parts: int, n: Signal | Inbox) -> None:
    """Arrivals at an mbarrier, or bytes that land."""
    x.arrived, x.parts, x.known = x.arrived + arrivals, x.parts + parts, _joined(x.known, a.clock)
    if x.arrived > of:
        w.found.append(f"{a.name} arrives at {_show(n)} before its phase has ended")
    if x.arrived == of and x.parts == of_parts:
        x.over, x.done = x.over + 1, _joined(x.done, x.known)
        x.arrived, x.parts, x.known = 0, 0, []


def _inbox(n: Inbox, a: Agent, w: World) -> bool:
    key, parts = ("inbox", "full", a.block, 0, -1), (w.of.blocks - 1) * w.of.teams
    if n.do == "expect":
        if _first(a, w):
            _arrives(w.phases.setdefault(key, Phase()), a, w, 1, 0, 1, parts, n)
    elif n.do == "send":
        for b in range(w.of.blocks):
            if b != a.block:
                w.use(a, (MBARRIERS, b, 0), False)
                w.use(a, ("inbox", b, a.block), True, parts="threads")
                _arrives(w.phases.setdefault(("inbox", "full", b, 0, -1), Phase()), a, w, 0, 1, 1, parts, n)
    elif n.do == "wait":
        x = w.phases.setdefault(key, Phase())
        w.use(a, (MBARRIERS, a.block, 0), False)
        if x.over == 0:
            return False
        a.clock[:] = _joined(a.clock, x.done)
    else:
        for b in range(w.of.blocks):
            w.use(a, ("inbox", a.block, b), False, parts="threads")
    return True


def _flag(n: Flag, at: dict[str, int], a: Agent, w: World) -> bool:
    if a.team != 0:
        return True
    if n.do == "set":
        if w.flags.get(a.block) is not None:
            w.found.append(f"{a.name} sets a flag that is set")
        w.flags[a.block] = list(a.clock)
        return True
    known = w.flags.get(at["other"])
    if known is None:
        return False
    a.clock[:] = _joined(a.clock, known)
    w.flags[at["other"]] = None
    return True


def _joined(a: Clock, b: Clock) -> Clock:
    return [max(x, y) for x, y in zip(a, b)] if a and b else list(a or b)


def _does(write: bool) -> str:
    return "writes" if write else "reads"


def _do(write: bool) -> str:
    return "write" if write else "read"


def _say(place: Place) -> str:
    what = {"turn": "what teams start in turn", "sums": "sums of a block", "inbox": "an inbox"}
    return what.get(place[0]) or (place[0] if place[0] == MBARRIERS else f"a slot of {place[0]}")


def _show(n: Event) -> str:
    if isinstance(n, Signal):
        return f"{n.what} of {n.queue}"
    return f"{n.do} of {type(n).__name__}" if isinstance(n, ClusterBarrier | NamedBarrier | Inbox | Flag) else type(n).__name__
