"""Runs a block's plan and reports what its barriers, waits, fences and flags do not order (`happens_before`).

Agents are a block, whose threads do the same, or its producer and its teams (warpgroups, waves, or threads that stand for the others), of
all blocks of a cluster, or of blocks that share out a row of tiles. What is followed:

    buffers         that all threads of a block, or of a cluster, write and read; copies that a thread has to wait for before others know
    mbarriers       made by one thread, fenced, and known to all before any uses them; each phase has the arrivals it was made for
    slots of rings  of a block or, by multicast, of all blocks of a cluster, which bulk copies fill and products read
    boxes           of shared memory that threads and engines touch: an engine sees what each thread has fenced before they met (PTX:
                    fence.proxy.async; a barrier alone waits for no matrix load under way), a bulk store reads until it was waited for
    values          that products write until their group was waited for
    inboxes         of shared memory of another block, with the mbarrier that counts what comes
    named barriers  two teams each: one waits, or goes on
    tensor memory   the one thread that issues products is an agent as well (`check_tensor_memory`)
    flags           of global memory, behind a fence of each thread whose writes they stand for; all are clear at the end
    the end         nothing is under way, and a block's shared memory is not touched by others behind it

Stricter than PTX in two points: all threads of a cluster come to each of its barriers (PTX counts those that have ended as come), and a
thread fences what it wrote to global memory before the threads meet and one sets a flag (PTX's release hands on what that one knows).
Loops of unknown length run once, twice, as often as a ring has slots, and two turns more; what may not run is tried both ways.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from autocomp.errors import AutocompError
from autocomp.tile.check_tensor_memory import Columns, commits, does, end
from autocomp.tile.happens_before import BOX, ENGINE, FILL, ONE, PRODUCT, THREADS, Agent, Place, Use, World, knows
from autocomp.tile.plan import (
    Access,
    Agents,
    Barrier,
    Began,
    Block,
    Box,
    ClusterBarrier,
    Commit,
    Count,
    Done,
    Fence,
    Flag,
    Group,
    Inbox,
    Landed,
    NamedBarrier,
    Node,
    Peer,
    Reach,
    Role,
    Signal,
    TensorMemory,
    Touch,
    walk,
)

Order = Access | Barrier | Commit | Landed  # of threads that all do the same
Event = Order | Role | Peer
At = dict[str, int]  # the turn of each loop around
Body = tuple[Node, ...]

MBARRIERS = "mbarriers"  # their memory: no engine is shown it by a fence for data
MOST = 8  # turns of a loop that are tried, and two more
TILES = 3  # of each team that takes tiles
ROWS = (1, 2)  # tiles of a row that blocks share out
ROLES = {-1: "producer", -2: "issuer"}  # agents of a block that are no teams
NAMES = {-1: "the producer", -2: "the issuing thread"}
LENT = "never", "first"  # how the warps of a team give back a slot that one of them uses on: all others, and it
LEVEL = {"wave": 0, "warpgroup": 0, "cluster": 2}  # of a barrier; of others 1


@dataclass
class Team(Agent):
    """An agent of a block. `team`: its number there, below 0 for `ROLES`; `turn`: of each ring; `groups`: products or copies under way, the
    last one not yet a group; `stores`: those that still read; `tiles`: how many it has passed on; `columns`: its work in tensor memory."""

    block: int = 0
    team: int = 0
    turn: dict[str, int] = field(default_factory=dict)
    products: list[list[Use]] = field(default_factory=lambda: [[]])
    copies: list[list[Use]] = field(default_factory=lambda: [[]])
    stores: list[Use] = field(default_factory=list)
    tiles: int = 0
    columns: Columns = field(default_factory=Columns)


@dataclass(frozen=True)
class Try:
    """How a plan is run: the `turns` of its loops, who brings what all blocks need (`apart`: one block alone), `tiles` of a row, whether
    what may not run does."""

    turns: int
    apart: bool = False
    tiles: int = 0
    taken: bool = True


def problems(body: Body, takers: int = 1) -> list[str]:
    """What is wrong with a plan; [] if nothing is. `takers`: how many consumers take tiles by turns."""
    return list(dict.fromkeys(_found(body, takers)))


def problem(body: Body, takers: int = 1) -> str:
    """The first of `problems`, "" if there is none: in a wrong plan most are found by the first of several runs."""
    return next(_found(body, takers), "")


def _found(body: Body, takers: int) -> Iterator[str]:
    """Run by run."""
    nodes = list(walk(body))
    roles = any(isinstance(n, Role) for n in nodes)
    alone = Agents(1, takers, True) if roles else Agents(1, 1, False)
    of = next((n for n in nodes if isinstance(n, Agents)), alone)
    blocks = [n for n in nodes if isinstance(n, Block)]
    depths = {n.queue: n.depth for n in nodes if isinstance(n, Signal)}
    deep = min(MOST, max([1, *depths.values(), *(n.slots.depth for n in nodes if isinstance(n, Access) and n.slots)]))
    parts = max([1, *(n.part[1] for n in blocks)])  # each of which has a turn, may have a first one and another
    least = max([parts, *(n.least for n in blocks)])
    # each piece of a row has as many: how long one is is of no matter to rings
    tried = [of.turns] if of.turns else sorted({max(least, n) for n in (1, 2, deep, deep + 2, 2 * parts)})
    far = any(isinstance(n, Signal) and n.far for n in nodes)
    both = any(_may_be_left(n) for n in blocks)
    ways = [Try(turns, apart, tiles, taken) for turns in tried for apart in ((False, True) if far else (False,))
            for tiles in (ROWS if of.row else (0,)) for taken in ((True, False) if both else (True,))]  # fmt: skip
    filled = frozenset(n.queue for n in nodes if isinstance(n, Signal) and n.do == "fill")
    brought = {x.queue for n in blocks if n.role for x in walk(n.body) if isinstance(x, Signal) and x.do == "fill"}
    private = filled - brought if of.producer else frozenset()
    sums = {n.ring: n.depth for n in nodes if isinstance(n, TensorMemory)}
    for way in ways:
        yield from Run(of, takers, way, private, depths, sums).all(body)


def require(body: Body, kernel: str, takers: int = 1) -> None:
    """Raises AutocompError where a plan's accesses are not ordered: an error of the compiler, found before anything runs. `takers`: how
    many consumers take tiles by turns."""
    if found := problem(body, takers):
        raise AutocompError(f"the plan of a block is wrong: it {found}", where=f"kernel {kernel}",
                            hint="this is an error of the compiler; another schedule may avoid it")  # fmt: skip


def _may_be_left(n: Block) -> bool:
    """Whether leaving a block out is of matter to threads that do the same, and to nobody else."""
    inside = list(walk(n.body)) if n.perhaps else []
    return any(isinstance(x, Order) for x in inside) and not any(isinstance(x, Role | Peer) for x in inside)


class Run:
    """One run of a plan. `private`: rings that each team fills for itself; `sums`: those of tensor memory, where there are."""

    def __init__(self, of: Agents, takers: int, way: Try, private: frozenset[str], depths: dict[str, int], sums: dict[str, int]) -> None:
        self.of, self.takers, self.way, self.private, self.depths, self.sums = of, takers, way, private, depths, sums
        teams = (*((-1,) if of.producer else ()), *((-2,) if sums else ()), *range(of.teams))
        self.first, self.each, self.w = teams[0], len(teams), World()
        self.tiles = max([TILES, *(2 + depth for depth in sums.values())])
        self.teams = [Team(i, self._name(b, t), [0] * (of.blocks * len(teams)), block=b, team=t)
                      for i, (b, t) in enumerate((b, t) for b in range(of.blocks) for t in teams)]  # fmt: skip
        self.w.agents = list(self.teams)
        self.ended: dict[int, list[list[int]]] = {}

    def _name(self, block: int, team: int) -> str:
        if self.of == Agents(1, 1, False):
            return ""
        return NAMES.get(team, f"team {team}") + (f" of block {block}" if self.of.blocks > 1 else "")

    def all(self, body: Body) -> list[str]:
        """What is wrong."""
        stuck = self.w.run([self._events(body, a, {"": self.way.turns}) for a in self.teams], self._step, self._end)
        if not stuck:
            self._ends()
        return self.w.found + [f"stuck: {a.name} waits at {_show(x[0])}" for a, x in stuck]

    # ---- an agent's statements
    def _events(self, body: Body, a: Team, at: At) -> Iterator[tuple[Event, At]]:
        """With the turn of each loop around, and of a row its piece and the other block."""
        for n in body:
            if isinstance(n, Block):
                others = (n.role and ROLES.get(a.team) not in n.role.split()) or (n.alone and a.team != self.first)
                if others or place_of(n.since[0], at) < n.since[1]:
                    continue
                if n.within and not 0 <= a.turn.get(n.within[0], 0) - n.within[1] < self.tiles * self.way.turns:
                    continue
                if not self.way.taken and _may_be_left(n):
                    continue
                for here in self._turns(n, a, at):
                    yield from self._events(n.body, a, here)
                if n.role:
                    return
            elif isinstance(n, Event):
                yield n, at

    def _turns(self, n: Block, a: Team, at: At) -> Iterator[At]:
        """The turns of a loop; of a block that is none, one or none."""
        turns, tiles = self.way.turns, self.way.tiles
        mine = _pieces(a.block, self.of.blocks, turns, tiles) if tiles else []
        if n.row:
            tile, begin, end = mine[at["piece"]] if at.get("piece", -1) >= 0 else (-1, 0, turns)
            if n.row == "others":
                for b in range(a.block + 1, self.of.blocks):
                    if any(x == tile and first > 0 for x, first, _ in _pieces(b, self.of.blocks, turns, tiles)):
                        yield {**at, "other": b}
            elif begin > 0 if n.row == "later" else begin == 0 and end < turns:
                yield at
        elif n.again in ("tile", "wave_of"):
            for turn in range(1 + len(mine) if tiles else self.tiles * self.takers if a.team < 0 else self.tiles):
                yield {**at, n.again: turn, "piece": turn - 1}
        elif n.again:
            times = n.turns or turns
            for turn in range(n.begins + times * n.part[0] // n.part[1], times * (n.part[0] + 1) // n.part[1]):
                yield {**at, n.again: turn}
        else:
            yield at

    # ---- one statement
    def _step(self, event: tuple[Event, At], agent: Agent) -> bool:
        """Does one statement; False where the agent must wait."""
        n, at, a = *event, self.teams[agent.number]
        if isinstance(n, Access):
            self._access(n, at, a)
        elif isinstance(n, Signal):
            return self._order(n, a) if n.what == "order" else self._signal(n, at, a)
        elif isinstance(n, Barrier):
            a.meets(LEVEL.get(n.agents, 1))
            return self._meets(n.agents, a)
        elif isinstance(n, Count):
            by = n.times * (at[""] if n.turns else 1)
            a.turn[n.queue] = by * a.team * (self.takers > 1) if n.begin else a.turn.get(n.queue, 0) + by
        elif isinstance(n, Box):
            self._box(n, at, a)
        elif isinstance(n, Began):
            self._began(n, a)
        elif isinstance(n, Commit | Group):
            (a.copies if isinstance(n, Commit) else a.products).append([])
        elif isinstance(n, Landed):
            a.closes(_done(a.copies, n.behind), False)
        elif isinstance(n, Done):
            a.closes(_taken(a.stores, n.behind) if n.of == "stores" else _done(a.products, n.behind), True)
        elif isinstance(n, Touch):
            if names := [x.place[1] for group in a.products for x in group if x.place[0] == "values" and x.place[1] in n.names]:
                self.w.says(a, f"touches {names[0]} while a product is under way")
        elif isinstance(n, Fence):
            fenced = [x for x in a.pending if (x.place[0] == n.box if n.box else x.by == BOX)]
            a.closes(fenced, bool(n.box))
        elif isinstance(n, ClusterBarrier):
            return self._meets("cluster", a, n.do)
        elif isinstance(n, NamedBarrier):
            if n.only is not None and a.team != n.only % self.of.teams:
                return True
            key, passes = ("named", a.block, (a.team + n.further) % self.of.teams), n.do == "pass"
            return self.w.comes(key, 2, a, "arrive" if passes else "", not passes)
        elif isinstance(n, Inbox):
            return self._inbox(n, a)
        elif isinstance(n, Flag):
            return self._flag(n, at, a)
        elif isinstance(n, TensorMemory):
            does(self, n, a)
        elif isinstance(n, Reach) and n.whose == "teams":
            self.use(a, ("turn", a.block), True)
        elif isinstance(n, Reach):
            block = at["other"] if n.whose == "other" else a.block
            self.use(a, (n.what, block), n.write, parts=("threads", a.block), open=n.write)
        return True

    def slot(self, queue: str, a: Team, back: int = 0) -> Place:
        """The slot of a ring that an agent's turn has, or had so many turns before."""
        name, own = self._ring(queue, a)
        return name, a.block, (a.turn.get(queue, 0) - back) % self.depths.get(queue, self.sums.get(queue, 1)), own

    def use(self, a: Team, place: Place, write: bool, by: str = ONE, own: bool = False, kept: bool = True, **more: object) -> Use:
        over = a.now if by == ONE and not more.get("open") else None
        return self.w.use(a, Use(place, a.number, write, by, over, **more), _say, own, kept)  # type: ignore[arg-type]

    def _access(self, n: Access, at: At, a: Team) -> None:
        """Teams do alike: the first stands for all."""
        if a.team != 0:
            return
        s = n.slots
        slot = at.get("tile", 0) % 2 if n.halves else (at.get(s.turn, 0) + s.ahead) % s.depth if s else 0
        x = self.use(a, _lone(n.buffer, a, slot), n.write, THREADS, n.own, open=n.lands, level=2 if n.far else 1)
        if n.lands:
            a.copies[-1].append(x)

    def _meets(self, who: str, a: Team, half: str = "") -> bool:
        if who in ("warpgroup", "wave"):
            return True  # of one team
        each = self.of.teams // self.takers
        of = each if who == "consumers" else self.each
        own = a.team if who == "consumers" and self.takers > 1 else 0
        return self.w.comes((who, -1 if who == "cluster" else a.block, own), of * (self.of.blocks if who == "cluster" else 1), a, half)

    def _ring(self, queue: str, a: Team) -> tuple[str, int]:
        return queue, a.number if queue in self.private else -1

    def _box(self, n: Box, at: At, a: Team) -> None:
        """An access to a box."""
        if n.name == MBARRIERS:
            if a.team == self.first:
                self.use(a, (MBARRIERS, a.block), True, open=True)
            return
        if n.do == "over":
            return
        number, place = place_of(n.place, at) % n.places, _lone(n.name, a, "box")
        if n.ring and n.lent in (None, number):
            place = self.slot(n.ring, a, n.back)
        if n.do in ("read", "write"):
            if self.of.producer or n.ring:
                self.use(a, place, n.do == "write", BOX, box=number, open=self.of.producer, level=int(n.far))
        else:
            x = self.use(a, place, n.do == "load", ENGINE, kept=n.do == "store", box=number, open=True)
            a.stores += [x] if n.do == "store" else []

    def _began(self, n: Began, a: Team) -> None:
        group = a.products[-1]
        group += [self.use(a, ("values", x, a.number), True, PRODUCT, open=True) for x in n.sums]
        group += [self.use(a, self.slot(q, a), False, PRODUCT, open=True) for q in n.queues]
        group += [self.use(a, _lone(x, a, "box"), False, PRODUCT, open=True) for x in n.boxes]

    def _order(self, n: Signal, a: Team) -> bool:
        """Takers begin their products one behind the other."""
        what, key = f"{n.what} of {n.queue}", (n.queue, n.what, a.block)
        if n.do == "wait":
            return self.w.awaits((*key, a.team), a, what, a.tiles + (a.team != 0))
        self.w.arrives((*key, (a.team + 1) % n.depth), a, what, 1, 0, 1, 0)
        a.tiles += 1
        return True

    def _signal(self, n: Signal, at: At, a: Team) -> bool:
        turn = a.turn.get(n.queue, 0) - n.back
        slot, blocks = turn % n.depth, range(self.of.blocks) if n.far else (a.block,)
        name, own = self._ring(n.queue, a)
        what, far = f"{n.what} of {n.queue}", n.far and not self.way.apart
        key = lambda block: (name, n.what, block, slot, own)
        if n.do != "wait" and n.queue in self.sums and a.columns.used.get(n.queue) != turn:
            self.w.says(a, f"hands on {_say((name, a.block, slot, own))} in which it has done nothing")
        if n.do == "wait":
            self.use(a, (MBARRIERS, a.block), False)
            if not self.w.awaits(key(a.block), a, what, turn // n.depth + (n.what == "full")):
                return False
            if n.what == "full":
                self.use(a, (name, a.block, slot, own), False)
        elif n.do == "fill" and not commits(a):
            parts = self.of.blocks if far else 1
            self.w.arrives(key(a.block), a, what, 1, 0, 1, parts)
            for b in blocks:
                self.use(a, (MBARRIERS, b), False)
                if not n.far or far or turn % self.of.blocks == a.block:
                    lands = self.w.phase(key(b))
                    x = Use((name, b, slot, own), lands.place, True, FILL, lands.over + 1, parts="blocks" if far else None)
                    self.w.use(a, x, _say)
                    self.w.arrives(key(b), a, what, 0, 1, 1, parts)
        elif not _skipped(n, at, a.turn.get(n.queue, 0)):
            place = (name, a.block, slot, own)
            self.use(a, place, False)
            if held := next((x for x in a.pending if x.place == place), None):
                self.w.says(a, f"gives back {_say(place)} that {held.who} {'write' if held.write else 'read'}")
            for b in blocks:
                self.use(a, (MBARRIERS, b), False)
                of = 1 if own >= 0 else self.of.teams // self.takers * len(blocks)
                self.w.arrives(key(b), a, what, 2 - (n.when in LENT), 0, 2 * of, 0)  # of a slot that is lent in two parts
        return True

    def _inbox(self, n: Inbox, a: Team) -> bool:
        parts, what, key = (self.of.blocks - 1) * self.of.teams, _show(n), lambda block: ("inbox", "full", block)
        if n.do == "expect":
            if a.team == self.first:
                self.w.arrives(key(a.block), a, what, 1, 0, 1, parts)
        elif n.do == "send":
            for b in range(self.of.blocks):
                if b != a.block:
                    self.use(a, (MBARRIERS, b), False)
                    self.use(a, ("inbox", b, a.block), True, parts=("threads", a.block))
                    self.w.arrives(key(b), a, what, 0, 1, 1, parts)
        elif n.do == "wait":
            self.use(a, (MBARRIERS, a.block), False)
            return self.w.awaits(key(a.block), a, what, 1)
        else:
            for b in range(self.of.blocks):
                self.use(a, ("inbox", a.block, b), False, parts=("threads", a.block))
        return True

    def _flag(self, n: Flag, at: At, a: Team) -> bool:
        if a.team != 0:
            return True
        if n.do == "set":
            self.w.sets(("flag", a.block), a, "a flag")
            return True
        return self.w.takes(("flag", at["other"]), a)

    # ---- the end
    def _end(self, agent: Agent) -> None:
        a = self.teams[agent.number]
        self.ended.setdefault(a.block, []).append(a.says)
        for x in a.pending:
            if x.by == THREADS and (x.open or x.level == 2):
                under_way = "copies into {} are under way" if x.open else f"other blocks {'write' if x.write else 'read'} {{}}"
                self.w.says(a, f"ends while {under_way.format(x.place[0])}")
            elif x.by == ENGINE:
                self.w.says(a, "ends while a bulk store is under way")
        if self.sums and a.team >= 0:
            end(self, a)

    def _ends(self) -> None:
        """What is left behind when all agents have ended."""
        found = self.w.found
        for place, uses in self.w.uses.items():
            for x in uses.values() if place[0] not in ("sums", "turn", "values") else ():
                if x.by != FILL and self.teams[x.agent].block == place[1]:
                    continue
                if not any(knows(c, x) for c in self.ended.get(place[1], ())):  # type: ignore[call-overload]
                    found.append(f"block {place[1]} may end while {x.who} {'write' if x.write else 'read'} {_say(place)}")
        found += [f"a {key[0]} barrier is left that not all have come to" for key, m in self.w.meetings.items() if m.come]
        found += [f"{a.name} ends between the halves of a cluster's barrier" for a in self.teams if any(k[0] == "cluster" for k in a.come)]
        found += ["a flag is left set, for the next launch" for flags in self.w.flags.values() if flags]


def _done(groups: list[list[Use]], behind: int) -> list[Use]:
    """The accesses of all but the last `behind` groups, which are taken out; the last one may have no end yet."""
    done = groups[: max(0, len(groups) - 1 - behind)]
    del groups[: len(done)]
    return [x for group in done for x in group]


def _taken(stores: list[Use], behind: int) -> list[Use]:
    done = stores[: max(0, len(stores) - behind)]
    del stores[: len(done)]
    return done


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


def place_of(place: tuple[tuple[str, int], ...], at: At) -> int:
    return sum(at.get(loop, 0) * times for loop, times in place)


def _skipped(n: Signal, at: At, turn: int) -> bool:
    first = at.get(n.loop, 0) == 0
    return (n.when == "again" and first) or (n.when == "first" and not (first and turn > 0))


def _lone(name: str, a: Team, slot: Hashable) -> Place:
    """A buffer that is no ring's: its slot, where threads order their accesses by barriers, or what they and engines touch of it."""
    return name, a.block, slot


def _say(place: Place) -> str:
    what = {"turn": "what teams start in turn", "sums": "sums of a block", "inbox": "an inbox", MBARRIERS: MBARRIERS}
    return what.get(str(place[0])) or (str(place[0]) if len(place) == 3 else f"a slot of {place[0]}")


def _show(n: Event) -> str:
    if isinstance(n, Signal):
        return f"{n.what} of {n.queue}"
    return f"{n.do} of {type(n).__name__}" if isinstance(n, ClusterBarrier | NamedBarrier | Inbox | Flag) else type(n).__name__
