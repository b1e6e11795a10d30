"""Runs the roles of a plan side by side and reports what their signals do not order.

Each role walks its statements with a counter of turns for each ring. A slot has two phases, `full` and `empty`, as an mbarrier has: a wait
names the parity of the phase that must be over, so it may also pass too early, or never, where roles are too far apart. A slot is read by
products that go on until the role has waited for them, and by bulk stores; what a role's threads and engines do in shared memory is
followed by `boxes`. Copies land soon, or late in an order that is bad for one of the roles. Of the
roles that can go on the first in an order does, for every order of them; loops run once, twice, as often as a ring has slots, and two
turns more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations

from autocomp.tile.boxes import MBARRIERS, Boxes, Key
from autocomp.tile.plan import Agents, Barrier, Began, Block, Box, Count, Done, Fence, Group, Node, Role, Signal, Touch, walk

Event = Role | Barrier

MOST = 8  # turns of a loop that are tried, and two more
ROUNDS = 3  # tiles of each taker


@dataclass(frozen=True)
class Product:
    """One under way, with the (ring, turn) of the slots that it reads."""

    sums: str
    reads: tuple[tuple[str, int], ...]
    boxes: tuple[str, ...] = ()


@dataclass
class Taker:
    """One role: `number` of those that take tiles by turns, -1 for the producer. `turn`: of each ring, which has `depth` slots; `open`,
    `groups`: its products under way, in no group yet and in groups; `full`: the last turn of a ring that it has waited for; `tiles`: how
    many it has passed on; `boxes`: its shared memory."""

    number: int
    turn: dict[str, int] = field(default_factory=dict)
    open: list[Product] = field(default_factory=list)
    groups: list[list[Product]] = field(default_factory=list)
    full: dict[str, int] = field(default_factory=dict)
    tiles: int = 0
    depth: dict[str, int] = field(default_factory=dict)
    boxes: Boxes = field(default_factory=Boxes)

    @property
    def under_way(self) -> list[Product]:
        return [x for group in self.groups for x in group] + self.open


@dataclass
class Phases:
    """`over`: phases of a slot's barrier that are over; `free`: the turn for which the producer knows a slot to be empty; `landing`: what
    copies under way will end."""

    over: dict[tuple[str, str, int], int] = field(default_factory=dict)
    free: dict[tuple[str, int], int] = field(default_factory=dict)
    landing: list[tuple[str, str, int]] = field(default_factory=list)

    def lands(self, key: tuple[str, str, int]) -> None:
        """A phase is over."""
        self.over[key] = self.over.get(key, 0) + 1


def problems(body: tuple[Node, ...], takers: int = 1) -> list[str]:
    """What is wrong between the roles of a plan; [] if nothing is. `takers`: how many consumers take tiles by turns."""
    if not any(isinstance(n, Role) for n in walk(body)) or any(isinstance(n, Agents) and not n.producer for n in walk(body)):
        return []
    least = max([0, *(n.least for n in walk(body) if isinstance(n, Block))])
    deep = min(MOST, max([1, *(n.depth for n in walk(body) if isinstance(n, Signal))]))
    parts = max([1, *(n.part[1] for n in walk(body) if isinstance(n, Block))])  # each of which has a turn
    found: list[str] = []
    for turns in sorted({max(parts, least, n) for n in (1, 2, deep, deep + 2, 2 * parts)}):  # a part may have a first turn and another
        for order in permutations(range(-1, takers)):
            for lands in ("soon", "last", "asked"):
                found += _run(body, turns, order, takers, lands)
    return list(dict.fromkeys(found))


def _run(body: tuple[Node, ...], turns: int, order: tuple[int, ...], takers: int, lands: str) -> list[str]:
    """`lands`: when copies do. Soon, or when no role can go on: then those that were started last, or what the first role waits for."""
    roles = [Taker(n) for n in order]
    shared, found = Phases(), list[str]()
    programs = [_events(body, r, turns, takers, {}) for r in roles]
    waiting: list[tuple[Event, dict[str, int]] | None] = [next(p, None) for p in programs]
    moved = True
    while moved or shared.landing:
        if shared.landing and (lands == "soon" or not moved):
            asked = [key for r, w in zip(roles, waiting) if w and (key := _asks(w[0], r)) in shared.landing] if lands == "asked" else []
            key = asked[0] if asked else shared.landing[-1 if lands == "last" else 0]
            shared.landing.remove(key)
            shared.lands(key)
        moved = False
        for i, (role, program) in enumerate(zip(roles, programs)):
            if (event := waiting[i]) is not None and _step(event[0], event[1], role, shared, found):
                waiting[i] = next(program, None)
                moved = True
                break
    found += [f"stuck: {_name(r)} waits for {_show(w[0])}" for r, w in zip(roles, waiting) if w is not None]
    found += [f"{_name(r)} ends while a bulk store is under way" for r in roles if r.boxes.groups]
    return found


def _events(body: tuple[Node, ...], role: Taker, turns: int, takers: int, at: dict[str, int]) -> Iterator[tuple[Event, dict[str, int]]]:
    """The role's statements with the turn of each loop around."""
    for n in body:
        if isinstance(n, Role | Barrier):
            yield n, {**at, "": turns}
        elif isinstance(n, Block):
            if (n.role and role.number >= 0) or n.row or place_of(n.since[0], at) < n.since[1]:
                continue
            tiles = n.again in ("tile", "wave_of")
            times = ROUNDS * takers if tiles and role.number < 0 else ROUNDS if tiles else n.turns or turns if n.again else 1
            for turn in range(n.begins + times * n.part[0] // n.part[1], times * (n.part[0] + 1) // n.part[1]):
                yield from _events(n.body, role, turns, takers, {**at, n.again: turn} if n.again else at)
            if n.role:
                return


def _step(n: Event, at: dict[str, int], r: Taker, s: Phases, found: list[str]) -> bool:
    """Does one statement; False where the role must wait."""
    if isinstance(n, Count):
        by = n.times * (at[""] if n.turns else 1)
        r.turn[n.queue] = by * r.number if n.begin and n.times else 0 if n.begin else r.turn.get(n.queue, 0) + by
    elif isinstance(n, Signal):
        return _order(n, r, s) if n.what == "order" else _signal(n, at, r, s, found)
    elif isinstance(n, Began):
        r.open.append(Product(n.sums, tuple((q, r.turn.get(q, 0)) for q in n.queues), n.boxes))
        said = [r.boxes.unseen(x) for x in n.boxes]
        for q, turn in r.open[-1].reads:
            said.append(r.boxes.unseen(q, turn % r.depth.get(q, 1)))
            if r.full.get(q, -1) < turn:
                said.append(f"reads a slot of {q} before its bytes have landed")
        found += [f"{_name(r)} {x}" for x in said if x]
    elif isinstance(n, Group):
        r.groups.append(r.open)
        r.open = []
    elif isinstance(n, Box):
        found += [f"{_name(r)} {x}" for x in _box(n, at, r) if x]
    elif isinstance(n, Fence):
        r.boxes.fence(n.box)
    elif isinstance(n, Barrier):
        r.boxes.meet(n.agents != "warpgroup")
    elif isinstance(n, Done) and n.of == "stores":
        r.boxes.landed(n.behind)
    elif isinstance(n, Done):
        r.groups = r.groups[max(0, len(r.groups) - n.behind) :] if n.behind else []
    elif isinstance(n, Touch) and any(x.sums in n.names for x in r.under_way):
        found.append(f"{_name(r)} touches {', '.join(n.names)} while a product is under way")
    return True


def place_of(place: tuple[tuple[str, int], ...], at: dict[str, int]) -> int:
    return sum(at.get(loop, 0) * times for loop, times in place)


def _box(n: Box, at: dict[str, int], r: Taker) -> Iterator[str]:
    """An access to a box; what is wrong with it."""
    number = place_of(n.place, at) % n.places
    if n.ring and n.lent in (None, number):
        turn = r.turn.get(n.ring, 0) - n.back
        slot = turn % n.depth
        if n.do in ("read", "write") and r.full.get(n.ring, -1) < turn:
            yield f"{n.do}s a slot of {n.ring} before its bytes have landed"
        if n.do == "write" and any(q == n.ring and t % n.depth == slot for x in r.under_way for q, t in x.reads):
            yield f"overwrites a slot of {n.ring} that a product reads"
        key: Key = (n.ring, slot, number)
    else:
        key = (n.name, 0, number)
    if n.do == "write" and any(n.name in x.boxes for x in r.under_way):
        yield f"overwrites {n.name} that a product reads"
    yield r.boxes.access(key, n.do, n.far)


def _order(n: Signal, r: Taker, s: Phases) -> bool:
    """Takers begin their products one behind the other."""
    if n.do == "arrive":
        s.lands((n.queue, n.what, (r.number + 1) % n.depth))
        r.tiles += 1
        return True
    return s.over.get((n.queue, n.what, r.number), 0) % 2 != (r.tiles + (r.number == 0)) % 2


def _signal(n: Signal, at: dict[str, int], r: Taker, s: Phases, found: list[str]) -> bool:
    now = r.turn.get(n.queue, 0)
    turn = now - n.back
    r.depth[n.queue] = n.depth
    if r.boxes.unseen(MBARRIERS):
        found.append(f"{_name(r)} uses mbarriers that others do not know of")
    slot, phase = turn % n.depth, turn // n.depth
    key = (n.queue, n.what, slot)
    over = s.over.get(key, 0)
    if n.do == "wait":
        wanted = phase + 1 if n.what == "full" else phase  # phases that must be over
        if over % 2 != wanted % 2:
            return False
        if over != wanted:
            found.append(f"{_name(r)} passes a wait for {n.what} of {n.queue} by a phase that is not its own")
        if n.what == "full":
            r.full[n.queue] = turn
            r.boxes.full_again(n.queue, slot)
        else:
            s.free[n.queue, slot] = turn  # the producer knows
        return True
    if n.do == "fill":
        # what a consumer fills for itself is its own: `Box` says when it may be loaded
        if r.number < 0 and turn >= n.depth and s.free.get((n.queue, slot), -1) != turn:
            found.append(f"{_name(r)} fills a slot of {n.queue} that it has not waited for")
        s.landing.append(key)
        return True
    if skipped(n, at, now):
        return True
    if any((n.queue, turn) in x.reads for x in r.under_way):
        found.append(f"{_name(r)} gives back a slot of {n.queue} that a product reads")
    if said := r.boxes.gives_back(n.queue, slot) if n.what == "empty" else "":
        found.append(f"{_name(r)} {said}")
    s.lands(key)
    return True


def _asks(n: Event, r: Taker) -> tuple[str, str, int]:
    """The phase that a role waits for."""
    if not isinstance(n, Signal):
        return "", "", 0
    return n.queue, n.what, (r.turn.get(n.queue, 0) - n.back) % n.depth


def skipped(n: Signal, at: dict[str, int], turn: int) -> bool:
    first = at.get(n.loop, 0) == 0
    return n.when == "never" or (n.when == "again" and first) or (n.when == "first" and not (first and turn > 0))


def _name(r: Taker) -> str:
    return "the producer" if r.number < 0 else f"consumer {r.number}"


def _show(n: Event) -> str:
    return f"{n.what} of {n.queue}" if isinstance(n, Signal) else type(n).__name__
