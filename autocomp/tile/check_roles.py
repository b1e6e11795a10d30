"""Runs the roles of a plan side by side and reports what their signals do not order.

Each role walks its statements with a counter of turns for each ring. A slot has two phases, `full` and `empty`, as an mbarrier has: a wait
names the parity of the phase that must be over, so it may also pass too early, or never, where roles are too far apart. A slot is read by
products that go on until the role has waited for them, and by bulk stores; what a role's threads and engines do in shared memory is
followed by `boxes`. All of that is one role's own, whatever the others do meanwhile, so it is walked once (`_alone`), as if each wait
passed by its own phase. What roles say to each other is left of it: a list of signals each. Those are run side by side (`_together`):
copies land soon, or late in an order that is bad for one of the roles, and of the roles that can go on the first in an order does, for
every order of them. Loops run once, twice, as often as a ring has slots, and two turns more. Plans that differ in what their roles do
between the same signals share the second part, which is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

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


Slot = tuple[str, str, int]  # a ring, full or empty, the slot: what an mbarrier stands for


class Said(NamedTuple):
    """What a role says or asks: wait | order (a wait that tells only parity) until so many `phases` of a slot are over; arrive, which ends
    one; fill, which ends one when the copies land."""

    do: str
    slot: Slot
    phases: int = 0


@dataclass
class Taker:
    """One role: `number` of those that take tiles by turns, -1 for the producer. `turn`: of each ring, which has `depth` slots; `open`,
    `groups`: its products under way, in no group yet and in groups; `full`: the last turn of a ring that it has waited for; `free`: the
    turn for which it knows a slot to be empty; `tiles`: how many it has passed on; `boxes`: its shared memory; `said`: its signals;
    `found`: what is wrong with it."""

    number: int
    turn: dict[str, int] = field(default_factory=dict)
    open: list[Product] = field(default_factory=list)
    groups: list[list[Product]] = field(default_factory=list)
    full: dict[str, int] = field(default_factory=dict)
    free: dict[tuple[str, int], int] = field(default_factory=dict)
    tiles: int = 0
    depth: dict[str, int] = field(default_factory=dict)
    boxes: Boxes = field(default_factory=Boxes)
    said: list[Said] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    @property
    def under_way(self) -> list[Product]:
        return [x for group in self.groups for x in group] + self.open


def problems(body: tuple[Node, ...], takers: int = 1) -> list[str]:
    """What is wrong between the roles of a plan; [] if nothing is. `takers`: how many consumers take tiles by turns."""
    if not any(isinstance(n, Role) for n in walk(body)) or any(isinstance(n, Agents) and not n.producer for n in walk(body)):
        return []
    least = max([0, *(n.least for n in walk(body) if isinstance(n, Block))])
    deep = min(MOST, max([1, *(n.depth for n in walk(body) if isinstance(n, Signal))]))
    parts = max([1, *(n.part[1] for n in walk(body) if isinstance(n, Block))])  # each of which has a turn
    found: list[str] = []
    for turns in sorted({max(parts, least, n) for n in (1, 2, deep, deep + 2, 2 * parts)}):  # a part may have a first turn and another
        roles = [_alone(body, number, turns, takers) for number in range(-1, takers)]
        found += [x for r in roles for x in r.found]
        found += _together(tuple(tuple(r.said) for r in roles))
    return list(dict.fromkeys(found))


def _alone(body: tuple[Node, ...], number: int, turns: int, takers: int) -> Taker:
    """A role that has walked its statements, passing every wait."""
    role = Taker(number)
    for event, at in _events(body, role, turns, takers, {"": turns}):
        _step(event, at, role)
    if role.boxes.groups:
        role.found.append(f"{_name(number)} ends while a bulk store is under way")
    return role


@lru_cache(maxsize=1024)
def _together(said: tuple[tuple[Said, ...], ...]) -> tuple[str, ...]:
    """What is wrong between roles that say this to each other, the producer first."""
    found: list[str] = []
    for order in permutations(range(len(said))):
        for lands in ("soon", "last", "asked"):
            found += _run(said, order, lands)
    return tuple(dict.fromkeys(found))


def _run(said: tuple[tuple[Said, ...], ...], order: tuple[int, ...], lands: str) -> list[str]:
    """`lands`: when copies do. Soon, or when no role can go on: then those that were started last, or what the first role waits for."""
    over: dict[Slot, int] = {}  # phases of a slot's barrier
    landing: list[Slot] = []  # what copies under way will end
    found: list[str] = []
    place = [0] * len(said)
    moved = True
    while moved or landing:
        if landing and (lands == "soon" or not moved):
            waits = [said[i][place[i]].slot for i in order if place[i] < len(said[i])] if lands == "asked" else []
            slot = next((x for x in waits if x in landing), landing[-1 if lands == "last" else 0])
            landing.remove(slot)
            over[slot] = over.get(slot, 0) + 1
        moved = False
        for i in order:
            if place[i] == len(said[i]):
                continue
            do, slot, phases = said[i][place[i]]
            if do == "fill":
                landing.append(slot)
            elif do == "arrive":
                over[slot] = over.get(slot, 0) + 1
            elif (now := over.get(slot, 0)) % 2 != phases % 2:
                continue
            elif now != phases and do == "wait":
                found.append(f"{_name(i - 1)} passes a wait for {slot[1]} of {slot[0]} by a phase that is not its own")
            place[i] += 1
            moved = True
            break
    left = [(i, said[i][place[i]]) for i in order if place[i] < len(said[i])]
    return found + [f"stuck: {_name(i - 1)} waits for {x.slot[1]} of {x.slot[0]}" for i, x in left]


def _events(body: tuple[Node, ...], role: Taker, turns: int, takers: int, at: dict[str, int]) -> Iterator[tuple[Event, dict[str, int]]]:
    """The role's statements with the turn of each loop around."""
    for n in body:
        if isinstance(n, Role | Barrier):
            yield n, at
        elif isinstance(n, Block):
            if (n.role and role.number >= 0) or n.row or place_of(n.since[0], at) < n.since[1]:
                continue
            tiles = n.again in ("tile", "wave_of")
            times = ROUNDS * takers if tiles and role.number < 0 else ROUNDS if tiles else n.turns or turns if n.again else 1
            for turn in range(n.begins + times * n.part[0] // n.part[1], times * (n.part[0] + 1) // n.part[1]):
                yield from _events(n.body, role, turns, takers, {**at, n.again: turn} if n.again else at)
            if n.role:
                return


def _step(n: Event, at: dict[str, int], r: Taker) -> None:
    """Does one statement."""
    if isinstance(n, Box):
        r.found += [f"{_name(r.number)} {x}" for x in _box(n, at, r) if x]
    elif isinstance(n, Signal):
        if n.what == "order":
            _order(n, r)
        else:
            _signal(n, at, r)
    elif isinstance(n, Count):
        by = n.times * (at[""] if n.turns else 1)
        r.turn[n.queue] = by * r.number if n.begin and n.times else 0 if n.begin else r.turn.get(n.queue, 0) + by
    elif isinstance(n, Began):
        r.open.append(Product(n.sums, tuple((q, r.turn.get(q, 0)) for q in n.queues), n.boxes))
        said = [r.boxes.unseen(x) for x in n.boxes]
        for q, turn in r.open[-1].reads:
            said.append(r.boxes.unseen(q, turn % r.depth.get(q, 1)))
            if r.full.get(q, -1) < turn:
                said.append(f"reads a slot of {q} before its bytes have landed")
        r.found += [f"{_name(r.number)} {x}" for x in said if x]
    elif isinstance(n, Group):
        r.groups.append(r.open)
        r.open = []
    elif isinstance(n, Fence):
        r.boxes.fence(n.box)
    elif isinstance(n, Barrier):
        r.boxes.meet(n.agents != "warpgroup")
    elif isinstance(n, Done) and n.of == "stores":
        r.boxes.landed(n.behind)
    elif isinstance(n, Done):
        r.groups = r.groups[max(0, len(r.groups) - n.behind) :] if n.behind else []
    elif isinstance(n, Touch) and any(x.sums in n.names for x in r.under_way):
        r.found.append(f"{_name(r.number)} touches {', '.join(n.names)} while a product is under way")


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


def _order(n: Signal, r: Taker) -> None:
    """Takers begin their products one behind the other."""
    if n.do == "arrive":
        r.said.append(Said("arrive", (n.queue, n.what, (r.number + 1) % n.depth)))
        r.tiles += 1
    else:
        r.said.append(Said("order", (n.queue, n.what, r.number), r.tiles + (r.number != 0)))


def _signal(n: Signal, at: dict[str, int], r: Taker) -> None:
    now = r.turn.get(n.queue, 0)
    turn = now - n.back
    r.depth[n.queue] = n.depth
    name, slot, phase = _name(r.number), turn % n.depth, turn // n.depth
    if r.boxes.unseen(MBARRIERS):
        r.found.append(f"{name} uses mbarriers that others do not know of")
    if n.do == "wait":
        r.said.append(Said("wait", (n.queue, n.what, slot), phase + 1 if n.what == "full" else phase))
        if n.what == "full":
            r.full[n.queue] = turn
            r.boxes.full_again(n.queue, slot)
        else:
            r.free[n.queue, slot] = turn
        return
    if n.do == "fill":
        # what a consumer fills for itself is its own: `Box` says when it may be loaded
        if r.number < 0 and turn >= n.depth and r.free.get((n.queue, slot), -1) != turn:
            r.found.append(f"{name} fills a slot of {n.queue} that it has not waited for")
        r.said.append(Said("fill", (n.queue, n.what, slot)))
        return
    if skipped(n, at, now):
        return
    if any((n.queue, turn) in x.reads for x in r.under_way):
        r.found.append(f"{name} gives back a slot of {n.queue} that a product reads")
    if said := r.boxes.gives_back(n.queue, slot) if n.what == "empty" else "":
        r.found.append(f"{name} {said}")
    r.said.append(Said("arrive", (n.queue, n.what, slot)))


def skipped(n: Signal, at: dict[str, int], turn: int) -> bool:
    first = at.get(n.loop, 0) == 0
    return n.when == "never" or (n.when == "again" and first) or (n.when == "first" and not (first and turn > 0))


def _name(number: int) -> str:
    return "the producer" if number < 0 else f"consumer {number}"
