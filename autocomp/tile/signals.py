"""The inference of what roles say to each other of rings, and of when one waits for its products, from what its statements touch.

    reads q                      wait until q's slot is full
    begin acc += q, group        begin acc += q, group
    count q               ->     count q
    touch acc                    wait for the product; q's slot of the turn before is empty
                                 touch acc

A slot is awaited once a turn, in front of the first statement that reads it; where turns are counted, a producer awaits the one that it
fills. A slot goes back when the last product that reads it is over, at the latest before the ring's next turn; of turns before, where the
ring has a further one. A product is awaited where its values are touched, or when it has been under way for a turn.

Sums in tensor memory are a ring as well: who multiplies into a slot fills it, who loads from it reads it, each from the first such
statement of a turn to the next turn. A slot that threads read themselves goes back behind the last of their reads, where their warp meets;
one that bulk stores read, when the thread that started them has waited for them. Teams that take tiles by turns begin a tile's products one
behind the other. Fences of that memory stand in front of what tells others of a load or of where it lies, and behind
what a role was told, before it works there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from autocomp.tile.plan import Barrier, Began, Block, Box, Count, Done, Group, Node, Reach, Reads, Signal, TensorMemory, Touch, walk

Body = tuple[Node, ...]
Rings = dict[str, Signal]
Names = frozenset[str]
SPEAKS = Began | Reads | Touch | Count | Signal | TensorMemory


@dataclass(frozen=True)
class Flight:
    """A product under way; `passed`: rings that have had another turn since; `since`: the loop in whose first turn there is none."""

    began: Began
    passed: tuple[str, ...] = ()
    since: str = ""


@dataclass
class State:
    """`full`: rings whose slot of this turn is known to be; `held`: those of whose slot a product has read, which is not given back;
    `number`: how statements call a ring's turn, where not by the role's count; `told`, `did`: what needs a fence of tensor memory behind or
    in front of what tells others; `known`: rings that go over turns again which have been awaited, `filled`: all of whose slots have been
    filled by a role's first copies."""

    full: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    flights: tuple[Flight, ...] = ()
    number: dict[str, str] = field(default_factory=dict)
    told: bool = False
    did: bool = False
    known: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)

    def copy(self) -> State:
        return replace(self, full={*self.full}, held={*self.held}, number=dict(self.number), known={*self.known}, filled={*self.filled})

    def again(self, end: State, loop: str) -> State:
        """In front of a loop's turn, which is the first one or follows one that ends so."""
        flights = self.flights or tuple(replace(f, since=loop) for f in end.flights)
        told, did, known = self.told or end.told, self.did or end.did, self.known & end.known
        return State(self.full & end.full, self.held | end.held, flights, self.number, told, did, known, self.filled | end.filled)


def place_signals(body: Body) -> Body:
    """A plan whose roles wait for slots and products, and give slots back."""
    rings = {n.queue: n for n in walk(body) if isinstance(n, Signal) and n.do == "fill" and n.what == "full"}
    rings |= {n.ring: Signal("fill", "full", n.ring, n.depth) for n in walk(body) if isinstance(n, TensorMemory) and n.do == "multiply"}
    return _Role(rings, body, "").all(body) if rings else body


class _Role:
    """One role's statements; the others' are their own."""

    def __init__(self, rings: Rings, body: Body, name: str) -> None:
        self.rings, self.producer, self.lone = rings, name == "producer", False
        self.read, self.whole = _read(body), [*_own(body)]
        self.counted = {n.queue for n in self.whole if isinstance(n, Count) and not n.begin}
        self.stored = {n.ring for n in self.whole if isinstance(n, Box) and n.do == "store"}
        self.loop = ""  # the one around what `_body` is at
        self.again: set[str] = set()  # rings whose turns another loop goes over behind what `_last` is at
        self.sums = {n.ring: n.do for n in self.whole if isinstance(n, TensorMemory) and n.ring}

    def all(self, body: Body) -> Body:
        s = State()
        out = self._body(self._last(body, frozenset())[0], s, frozenset())
        return (*out, *self._hands_on([q for q, do in self.sums.items() if do == "multiply" and q not in self.counted], s))

    # ---- backward: the last product of a turn that reads a slot
    def _last(self, body: Body, live: Names) -> tuple[Body, Names]:
        """`live`: rings whose slot is read behind the statements, in the same turn."""
        out: list[Node] = []
        for n in reversed(body):
            if isinstance(n, Count):
                live -= {n.queue}
                self.again |= {n.queue} if n.times < 0 and n.turns else set()
            elif isinstance(n, Box) and n.do == "read" and n.ring in self.counted - self.stored - live - self.again:
                out += [Signal("arrive", "empty", n.ring, n.depth), Barrier("wave")]
                live |= {n.ring}
            elif isinstance(n, Began):
                n = replace(n, last=tuple(sorted(self.counted.intersection(n.queues) - live)))
                live |= {*n.queues}
            elif isinstance(n, TensorMemory) and n.do == "issued":
                out += [Signal("fill", "empty", q, self.rings[q].depth) for q in reversed(n.reads) if q in self.counted - live]
                live |= {*n.reads}
                continue
            elif isinstance(n, Reads):
                live |= {*n.queues}
            elif isinstance(n, Block) and not n.role and (_speaks(n) or any(isinstance(x, Box) and x.ring for x in walk(n.body))):
                inside, head = self._last(n.body, live)
                if n.again:
                    inside, head = self._last(n.body, live | head)
                    self.again -= _turned(n)
                n, live = replace(n, body=inside), head if n.again else head | live
            out.append(n)
        return tuple(reversed(out)), live

    # ---- forward
    def _body(self, body: Body, s: State, later: Names) -> Body:
        """`later`: rings that are read behind the statements, in whatever turn."""
        out: list[Node] = []
        turn = next((n for n in body if isinstance(n, Reach) and n.of), None)
        last = _last_product(body) if turn else -1
        for i, n in enumerate(body):
            if n is turn and turn:
                out += [Signal("wait", "order", "order", turn.of), n]
            elif isinstance(n, Box) and n.do == "over":
                out += self._read_by_stores(n)
            elif isinstance(n, Block) and (n.role or _speaks(n)):
                out += self._block(n, s, later | _read(body[i + 1 :]))
            elif isinstance(n, Count) and not n.begin:
                if not (i and isinstance(body[i - 1], Count)):
                    out += self._hands_on([x.queue for x in takewhile(lambda x: isinstance(x, Count), body[i:])], s)  # type: ignore[union-attr]
                if self._counts(n) and not (i and self._counts(body[i - 1])):
                    out += self._turn(list(takewhile(self._counts, body[i:])), s, later | _read(body[i:]))
                s.full.discard(n.queue)
                s.known |= {n.queue} if n.times < 0 and n.turns else set()
                s.number |= {n.queue: n.number} if n.number else {}
                out.append(n)
            elif isinstance(n, Touch):
                out += [*self._touch(n, s, later | _read(body[i:])), n]
            elif isinstance(n, Reads):
                out += self._landed(n.queues, s)
            elif isinstance(n, TensorMemory):
                out += [*self._in_front(n, s), n]
                s.did |= n.do in ("alloc", "load")
            elif isinstance(n, Barrier) and n.agents != "warpgroup":
                out += [*self._tells(s), n]
                s.told = True
            else:
                if isinstance(n, Began):
                    out += [] if any(f.began.sums[0] == n.sums[0] and not f.passed for f in s.flights) else n.fresh
                    s.flights += (Flight(n),)
                    s.held |= self.counted.intersection(n.queues)
                elif isinstance(n, Signal) and (n.do, n.what) == ("fill", "full") and self._again(n.queue, s):
                    out.append(replace(self._said("wait", "empty", n.queue, s), back=n.back))
                out.append(n)
            if turn and i == last:
                out.append(Signal("arrive", "order", "order", turn.of))
        return tuple(out)

    def _block(self, n: Block, s: State, later: Names) -> list[Node]:
        if n.role:
            return [replace(n, body=_Role(self.rings, n.body, n.role).all(n.body))]
        before, outer, lone, loop = [*self._in_front(n, s)], s.number, self.lone, self.loop
        s.number, self.lone, self.loop = {**outer, **dict(n.numbers)}, n.lone, n.again or loop
        if n.again:
            later |= _read(n.body)
            end = self._end(n.body, s, later)
            if s.flights and s.flights != end.flights:
                before += self._over(len(s.flights), s, later, "")
                end = self._end(n.body, s, later)
            head = s.again(end, n.again)
            head = s.again(self._end(n.body, head, later), n.again)
            s.full, s.held, s.flights, s.told, s.did, s.known = head.full, head.held, head.flights, head.told, head.did, head.known
        body = self._body(n.body, s, later)
        s.number, self.lone, self.loop = outer, lone, loop
        if n.again:
            s.known -= _turned(n)
            s.filled |= {x.queue for x in _own(n.body) if isinstance(x, Signal) and x.do == "fill" and x.depth == n.turns}
        return [*before, replace(n, body=body)]

    def _end(self, body: Body, s: State, later: Names) -> State:
        end = s.copy()
        self._body(body, end, later)
        return end

    def _touch(self, n: Touch, s: State, later: Names) -> list[Node]:
        """In front of statements that use these values: their products, and all before them, are over."""
        hit = [i for i, f in enumerate(s.flights, 1) if {*n.names} & {*f.began.sums, *f.began.boxes}]
        return self._over(hit[-1], s, later, n.lent) if hit else []

    def _over(self, count: int, s: State, later: Names, lent: str) -> list[Node]:
        """The first products under way are awaited."""
        done, s.flights = s.flights[:count], s.flights[count:]
        given = [x for f in done for x in self._given_back(f, s, later, lent)]
        return [Done(len(s.flights)), *given, *dict.fromkeys(x for f in done for x in f.began.over)]

    def _turn(self, counts: list[Any], s: State, later: Names) -> list[Node]:
        """In front of the next turn of rings: what has been under way for one is over, and what products have read goes back."""
        queues = [n.queue for n in counts]
        old = [f for f in s.flights if f.passed]
        s.flights = s.flights[len(old) :]
        out: list[Node] = [Done(len(s.flights), whole=self.lone)] if old else []
        out += [x for f in old for x in self._given_back(f, s, later, "")]
        under_way = {q for f in s.flights for q in f.began.queues}
        out += [self._said("arrive", "empty", q, s) for q in queues if q in s.held - under_way]
        s.held -= {*queues}
        s.flights = tuple(replace(f, passed=(*f.passed, *queues)) for f in s.flights)
        return out

    def _given_back(self, f: Flight, s: State, later: Names, lent: str) -> Iterator[Node]:
        """Slots that a product was the last to read. `lent`: what of this ring is used on, another statement gives back."""
        for q in f.began.last:
            back = f.passed.count(q)
            s.held -= {q} if not back else set()
            if not back or q in later:
                when = "never" if q == lent else "again" if f.since else ""
                yield replace(self._said("arrive", "empty", q, s), back=back, when=when, loop=f.since)

    def _read_by_stores(self, n: Box) -> list[Node]:
        """A thread has started the stores of a tile: the slot that they read goes back, or where the ring has another, that of the tile
        before, for which nobody waits long; in the next tile's first turn, where it has been lent."""
        if n.ring not in self.counted:
            return []
        takers = next(x.times for x in self.whole if isinstance(x, Count) and x.queue == n.ring and not x.begin)
        behind, back, when = (0, n.back, "first") if n.lent is not None else (n.places, takers, "again") if n.depth > takers else (0, 0, "")
        return [Done(behind, of="stores"), Signal("arrive", "empty", n.ring, n.depth, back=back, when=when, loop=self.loop if when else "")]

    # ---- sums in tensor memory
    def _in_front(self, n: TensorMemory | Block, s: State) -> Iterator[Node]:
        """In front of what works in tensor memory, or of a block of it in which its rings take no turn: their slots are free, or filled;
        then the fence, where no more is told in the block."""
        inside = [*_own((n,))]
        works, turns = [x for x in inside if isinstance(x, TensorMemory)], {x.queue for x in inside if isinstance(x, Count)}
        for x in works:
            if x.ring and x.ring not in s.full | turns:
                s.full.add(x.ring)
                if x.do == "load" or x.ring in self.counted:
                    s.told = True
                    yield self._said("wait", "full" if x.do == "load" else "empty", x.ring, s)
        if isinstance(n, TensorMemory):
            yield from self._landed(n.reads, s)
        elif any(x.reads for x in works) or any(isinstance(x, Barrier) and x.agents != "warpgroup" for x in inside):
            return
        if works and s.told:
            s.told = False
            yield TensorMemory("after")

    def _tells(self, s: State) -> list[Node]:
        """In front of what tells others."""
        did, s.did = s.did, False
        return [TensorMemory("before")] if did else []

    def _hands_on(self, queues: list[str], s: State) -> Iterator[Node]:
        """In front of the next turn of rings of sums: their slots are full, or empty."""
        for q in queues:
            if q in self.sums and q in s.full:
                fills = self.sums[q] == "multiply"
                yield from () if fills else self._tells(s)
                yield self._said(*(("fill", "full") if fills else ("arrive", "empty")), q, s)

    def _landed(self, queues: tuple[str, ...], s: State) -> list[Node]:
        """In front of what reads the slots of rings."""
        out: list[Node] = [self._said("wait", "full", q, s) for q in dict.fromkeys(queues) if q not in s.full | s.known]
        s.full.update(queues)
        s.told |= bool(out)
        return out

    def _again(self, queue: str, s: State) -> bool:
        """Whether a slot that is filled may have been before."""
        return (self.producer and queue in self.counted) or queue in s.filled

    def _counts(self, n: Node) -> bool:
        """Whether the next turn begins of a ring that products read."""
        return isinstance(n, Count) and not n.begin and n.queue in self.read

    def _said(self, do: str, what: str, queue: str, s: State) -> Signal:
        ring = self.rings[queue]
        return Signal(do, what, queue, ring.depth, far=ring.far and what == "empty" and do == "arrive", number=s.number.get(queue, ""))


def _own(body: Body) -> Iterator[Node]:
    """A role's statements."""
    for n in body:
        yield n
        if isinstance(n, Block) and not n.role:
            yield from _own(n.body)


def _turned(n: Block) -> set[str]:
    """Rings whose turns a loop's are."""
    return {x.queue for x in _own(n.body) if isinstance(x, Count) and not x.begin}


def _speaks(n: Block) -> bool:
    """Whether a block has what is of matter here."""
    return any(isinstance(x, SPEAKS) or (isinstance(x, Block) and x.role) or (isinstance(x, Box) and x.do == "over") for x in walk(n.body))


def _last_product(body: Body) -> int:
    """The place of the statement with which the last product of all has begun."""
    last = max(i for i, n in enumerate(body) if any(isinstance(x, Began) for x in walk((n,))))
    return last if isinstance(body[last], Block) else next(i for i, n in enumerate(body) if i > last and isinstance(n, Group))


def _read(body: Body) -> Names:
    """Rings that products read."""
    return frozenset(q for n in _own(body) if isinstance(n, Began) for q in n.queues)
