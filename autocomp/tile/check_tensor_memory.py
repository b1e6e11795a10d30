"""Runs a plan with tensor memory and reports what nothing orders (`happens_before`): a producer, the one thread that issues products, and
the consumers, which do alike.

    slots       bulk copies fill them, products read them until a commit behind has landed: it gives them back, and hands sums on
    sums        products write a slot of their ring, consumers load from it until a fence stands behind the load
    boxes       of results: threads write them, fence and meet, a bulk store reads until it was waited for and the threads have met again
    columns     a warp takes them, all know where they lie behind a barrier between two fences, all have met when they go back

Products and loads see what others did up to the role's last fence `after` alone (PTX: tcgen05.fence), whatever it has been told since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from autocomp.tile.happens_before import BOX, ENGINE, FILL, ONE, PRODUCT, THREADS, Agent, Clock, Place, Use, World
from autocomp.tile.plan import Barrier, Block, Box, Count, Done, Fence, Node, Signal, TensorMemory, walk

ROLES = {"producer": "the producer", "issuer": "the issuing thread", "consumer": "a consumer"}
MOST = 8  # turns of a loop that are tried, and two more
MBARRIERS: Place = ("mbarriers",)
COLUMNS: Place = ("columns",)
Event = Signal | Count | Box | Fence | Done | Barrier | TensorMemory


@dataclass
class Role(Agent):
    """`turn`: of each ring; `heard`: its clock at its last fence `after`; `open`: products behind the last commit; `used`: the last turn of
    a ring in which it did its work; `knows_where`: it has read where the columns lie; `stores`: those under way."""

    turn: dict[str, int] = field(default_factory=dict)
    heard: Clock = field(default_factory=list)
    open: list[Use] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    knows_where: bool = False
    stores: list[Use] = field(default_factory=list)


def problems(body: tuple[Node, ...]) -> list[str]:
    """What is wrong with a plan that has tensor memory; [] if nothing is."""
    deep = min(MOST, max([1, *(n.depth for n in walk(body) if isinstance(n, Signal))]))
    return list(dict.fromkeys(x for turns in sorted({1, 2, deep, deep + 2}) for x in _Run(body, turns).found()))


class _Run:
    """One run, with loops of so many turns."""

    def __init__(self, body: tuple[Node, ...], turns: int) -> None:
        self.body, self.turns, self.w = body, turns, World()
        self.roles = [Role(i, name, [0] * len(ROLES), heard=[0] * len(ROLES)) for i, name in enumerate(ROLES.values())]
        self.w.agents = list(self.roles)
        self.taken = self.freed = False
        self.tiles = 2 + max([1, *(n.depth for n in walk(body) if isinstance(n, TensorMemory))])

    def found(self) -> list[str]:
        """What is wrong."""
        stuck = self.w.run([self._events(self.body, name) for name in ROLES], self._step)
        if not stuck and not self.freed:
            self.w.says(self.roles[-1], "ends without giving tensor memory back")
        if not stuck and self.roles[-1].stores:
            self.w.says(self.roles[-1], "ends while a bulk store is under way")
        return self.w.found + [f"stuck: {a.name} waits at {_show(x[0])}" for a, x in stuck]

    def _events(self, body: tuple[Node, ...], role: str, turn: int = 0) -> Iterator[tuple[Event, int]]:
        """A role's statements, with the turn of the loop around; a block that others run alone is passed by, and behind its own nothing is
        left to it."""
        for n in body:
            if isinstance(n, Event):
                yield n, turn
            elif isinstance(n, Block) and role in (n.role.split() or (("producer",) if n.alone else ROLES)):
                for k in range(self.tiles if n.again == "tile" else n.turns or self.turns if n.again else 1):
                    yield from self._events(n.body, role, k if n.again else turn)
                if n.role:
                    return

    def _step(self, event: tuple[Event, int], agent: Agent) -> bool:
        """Does one statement; False where the role must wait."""
        (n, turn), a = event, self.roles[agent.number]
        if isinstance(n, Signal):
            return self._signal(n, a)
        if isinstance(n, TensorMemory):
            self._tensor(n, a)
        elif isinstance(n, Barrier):
            a.meets(n.agents != "warpgroup")
            return n.agents == "warpgroup" or self.w.comes((n.agents,), 1 if n.agents == "consumers" else len(ROLES), a)
        elif isinstance(n, Count):
            a.turn[n.queue] = 0 if n.begin else a.turn.get(n.queue, 0) + n.times
        elif isinstance(n, Done):
            done = a.stores[: max(0, len(a.stores) - n.behind)]
            a.stores = a.stores[len(done) :]
            a.closes(done, True)
        elif isinstance(n, Box) and (n.name,) != MBARRIERS:
            kind = BOX if n.do == "write" else ENGINE
            x = self._use(a, (n.name,), n.do == "write", kind, box=turn % n.places, open=True)
            a.stores += [x] if n.do == "store" else []
        elif isinstance(n, Box):
            self._use(a, MBARRIERS, True, open=True)
        elif n.box:
            a.closes([x for x in a.pending if x.place == MBARRIERS], True)
        else:
            a.closes([x for x in a.pending if x.by == BOX], False)
        return True

    def _use(self, a: Role, place: Place, write: bool, by: str = ONE, heard: bool = False, **more: object) -> Use:
        """An access; `heard`: of tensor memory, or of its engine."""
        over = None if more.get("open") or by == THREADS else a.now
        now, a.clock = a.clock, a.heard if heard else a.clock
        x = self.w.use(a, Use(place, a.number, write, by, over, **more), _say)  # type: ignore[arg-type]
        a.clock = now
        return x

    def _signal(self, n: Signal, a: Role) -> bool:
        turn = a.turn.get(n.queue, 0)
        slot, what = turn % n.depth, f"{n.what} of {n.queue}"
        key, place = (n.queue, n.what, slot), (n.queue, slot)
        self._use(a, MBARRIERS, False)
        if n.do == "wait":
            return self.w.awaits(key, a, what, turn // n.depth + (n.what == "full"))
        if a is self.roles[0]:  # bulk copies
            self.w.arrives(key, a, what, 1, 0, 1, 1)
            lands = self.w.phase(key)
            self.w.use(a, Use(place, lands.place, True, FILL, lands.over + 1), _say)
            self.w.arrives(key, a, what, 0, 1, 1, 1)
            return True
        if n.do == "fill":  # a commit
            a.closes(a.open, True)
            a.open = []
        if (n.do, n.what) in (("fill", "full"), ("arrive", "empty")) and a.used.get(n.queue) != turn:
            self.w.says(a, f"hands on {_say(place)} in which it has done nothing")
        self.w.arrives(key, a, what, 1, 0, 1, 0)
        return True

    def _tensor(self, n: TensorMemory, a: Role) -> None:
        if n.do == "alloc":
            self.taken = True
            if a is self.roles[-1]:
                self._use(a, COLUMNS, True, THREADS, open=True, level=1)
        elif n.do == "before":
            a.closes([x for x in a.pending if x.by == THREADS], False)
            a.closes([x for x in a.pending if x.by == ONE and x.place != MBARRIERS], True)
        elif n.do == "after":
            a.heard = list(a.clock)
        elif n.do == "name":
            self._use(a, COLUMNS, False, heard=True)
            a.knows_where = self.taken
        elif n.do == "free":
            self.freed = True
            self._use(a, COLUMNS, True, THREADS, heard=True)
            if not a.used:
                self.w.says(a, "frees tensor memory from which it has loaded nothing")
        else:
            self._access(n, a)

    def _access(self, n: TensorMemory, a: Role) -> None:
        """Products begin, or sums are loaded."""
        turn = a.used[n.ring] = a.turn.get(n.ring, 0)
        place = (n.ring, turn % n.depth)
        if not a.knows_where:
            self.w.says(a, "uses tensor memory and does not know where it lies")
        if n.do == "load":
            self._use(a, place, False, heard=True, open=True)
            self._use(a, COLUMNS, False, THREADS, heard=True, open=True, level=1)
            return
        a.open.append(self._use(a, place, True, PRODUCT, heard=True, open=True))
        for q in n.reads:
            depth = next(x.depth for x in walk(self.body) if isinstance(x, Signal) and x.queue == q)
            a.open.append(self._use(a, (q, a.turn.get(q, 0) % depth), False, PRODUCT, heard=True, open=True))


def _say(place: Place) -> str:
    return {MBARRIERS: "mbarriers", COLUMNS: "tensor memory"}.get(place) or (f"a slot of {place[0]}" if len(place) > 1 else str(place[0]))


def _show(n: Event) -> str:
    return f"{n.what} of {n.queue}" if isinstance(n, Signal) else type(n).__name__
