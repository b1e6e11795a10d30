"""The one inference of what orders an agent's own accesses: where a block's threads must meet, where a thread must wait for its copies, and
where a pipe must end its earlier works (`agents`: its loops and parts are blocks, its works lines with their accesses).

Between a write and a read or a write of the same by others threads meet, and between a read and the next write. A read waits first for
the copies that bring what it reads. A turn of a loop may follow any other, so what stands at a turn's end holds at its beginning; slots of
a ring are told apart by how many turns ahead they are used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from autocomp.tile.agents import Again, Once, Skewed, Work
from autocomp.tile.plan import Access, Barrier, Block, Claim, Exit, Landed, Node, Turn
from autocomp.tile.signals import place_signals

Place = tuple[str, int]  # a buffer and its slot, in turns ahead
N = TypeVar("N")  # a statement of a block's plan, or of pipes
ANY = -1  # some slot
BLOCKS = (Block, Again, Skewed, Once)
REPLACED = (Turn, Claim, Exit)  # statements in whose place what orders the others comes


@dataclass
class State:
    """What threads have written and read since they last met, what copies under way write, and what other blocks of a cluster see.
    `rings`: the loop whose turns walk a buffer's slots, and their number."""

    written: set[Place] = field(default_factory=set)
    seen: set[Place] = field(default_factory=set)
    landing: set[Place] = field(default_factory=set)
    far: set[str] = field(default_factory=set)
    rings: dict[str, tuple[str, int]] = field(default_factory=dict)

    def copy(self) -> State:
        return State(set(self.written), set(self.seen), set(self.landing), self.far, self.rings)

    def join(self, other: State) -> State:
        return State(self.written | other.written, self.seen | other.seen, self.landing | other.landing, self.far, self.rings)

    def meet(self, agents: str) -> None:
        """Threads meet. What is still landing has not been seen by who started it, so nobody knows of it."""
        far = lambda places: set() if agents == "cluster" else {x for x in places if x[0] in self.far}
        self.written = far(self.written) | self.written & self.landing
        self.seen = far(self.seen)

    def moved(self, turn: str, by: int) -> State:
        """Slots as they are `by` turns later; `by` 0: behind the loop, when nobody knows which they are."""

        def there(x: Place) -> Place:
            ring, depth = self.rings.get(x[0], ("", 1))
            if ring != turn or x[1] == ANY:
                return x
            return x[0], (x[1] - by) % depth if by else ANY

        all_ = lambda places: {there(x) for x in places}
        return State(all_(self.written), all_(self.seen), all_(self.landing), self.far, self.rings)


def synchronise(body: tuple[N, ...], agents: str = "block") -> tuple[N, ...]:
    """The plan with barriers of `agents`, the threads that share memory or a pipe, and waits for copies."""
    return _placed(place_signals(body), State(), agents)[0]  # type: ignore[arg-type]


def _placed(body: tuple[Any, ...], state: State, agents: str) -> tuple[tuple[Any, ...], State]:
    """The statements with what orders them, and the state behind them; `state` is that in front of them, and is changed."""
    out: list[Any] = []
    for i, n in enumerate(body):
        if isinstance(n, Work) and n.agent != agents:  # another pipe's: most of them, and nothing here is theirs
            out.append(n)
            continue
        if isinstance(n, BLOCKS):
            block, state = _block(n, state, agents)
            out.append(block)
            continue
        reads = _reads(body, i)  # of one statement: all that they wait for comes in front of the first one
        if any(_in(state.landing, a) for a in reads):
            out.append(Landed(0))
            state.landing.clear()
        for far in sorted({a.far for a in reads if _in(state.written, a)}):
            out += _meet(state, "cluster" if far else agents)
        out += _in_front(n, state, agents)
        if not isinstance(n, REPLACED):
            out.append(n)
    return tuple(out), state


def _block(n: Any, state: State, agents: str) -> tuple[Any, State]:
    before = state.copy()
    if n.turns:  # turn by turn, where each needs the same
        bodies = []
        for _ in range(n.turns):
            body, state = _placed(n.body, state, agents)
            state = state.moved(n.again, 1)
            bodies.append(body)
        if len(set(bodies)) == 1:
            return replace(n, body=bodies[0]), state.moved(n.again, -n.turns)
        state = before.copy()
    entry = state
    while n.again:
        after = entry.join(_placed(n.body, entry.copy(), agents)[1].moved(n.again, 1))
        if after == entry:
            break
        entry = after
    body, after = _placed(n.body, entry.copy(), agents)
    if n.again:
        after = after.moved(n.again, 0)
    return replace(n, body=body), after.join(before) if n.perhaps else after


def _in_front(n: Any, s: State, agents: str) -> list[Node]:
    """What must stand in front of a statement (of a turn: in its place)."""
    if isinstance(n, Access):
        return _access(n, s, agents)
    out: list[Node] = []
    if isinstance(n, Work) and n.agent == agents:
        reads, writes = ({(x, ANY) for x in names} for names in (n.reads, n.writes))
        out += _meet(s, agents) if s.written & (reads | writes) or s.seen & writes else []
        s.seen |= reads
        s.written |= writes
    elif isinstance(n, Barrier) and n.agents in ("block", "consumers", "cluster"):
        s.meet(n.agents)
    elif isinstance(n, Landed) and n.behind == 0:
        s.landing.clear()
    elif isinstance(n, Turn):
        out.append(Landed(n.behind, n.copies))
        now = {(b, 0) for b in n.buffers}
        s.landing = {x for x in s.landing if x[0] in n.buffers} - now  # whatever was started before these has landed too
        if not n.alone:
            out += _meet(s, agents)
        s.written -= now
    elif isinstance(n, Claim) and any(b in n.buffers for b, _ in s.seen):
        out += _meet(s, agents)
    elif isinstance(n, Exit) and any(b in s.far for b, _ in s.seen | s.written):
        out += _meet(s, "cluster")
    return out


def _meet(s: State, agents: str) -> list[Node]:
    s.meet(agents)
    return [Barrier(agents)]


def _access(a: Access, s: State, agents: str) -> list[Node]:
    out: list[Node] = []
    if a.slots:
        s.rings[a.buffer] = a.slots.turn, a.slots.depth
    if a.far:
        s.far.add(a.buffer)
    everyone = "cluster" if a.far else agents
    if a.write:
        if _in(s.seen | s.written, a) and not a.own and not a.halves:
            out += _meet(s, everyone)
        s.written.add(_place(a))
        if a.lands:
            s.landing.add(_place(a))
        return out
    s.seen.add(_place(a))
    return out


def _reads(body: tuple[Any, ...], begin: int) -> list[Access]:
    """The reads with which statements from `begin` on begin."""
    out: list[Access] = []
    for n in islice(body, begin, None):
        if not isinstance(n, Access) or n.write:
            break
        out.append(n)
    return out


def _place(a: Access) -> Place:
    return a.buffer, a.slots.ahead % a.slots.depth if a.slots else ANY


def _in(places: set[Place], a: Access) -> bool:
    """Whether an access meets one of them."""
    mine = _place(a)[1]
    return any(b == a.buffer and (slot == mine or ANY in (slot, mine)) for b, slot in places)
