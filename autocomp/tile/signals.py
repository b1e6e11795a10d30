"""The inference of what roles say to each other of rings, and of when one waits for its products, from what its statements touch.

    reads q                      wait until q's slot is full
    begin acc += q, group        begin acc += q, group
    count q               ->     count q
    touch acc                    wait for the product; q's slot of the turn before is empty
                                 touch acc

A slot is awaited once a turn, in front of the first statement that reads it; where turns are counted, a producer awaits the one that it
fills. A slot goes back when the last product that reads it is over, at the latest before the ring's next turn; of turns before, where the
ring has a further one. A product is awaited where its values are touched, or when it has been under way for a turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from autocomp.tile.plan import Began, Block, Count, Done, Node, Reads, Signal, TensorMemory, Touch, walk

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
    `number`: how statements call a ring's turn, where not by the role's count."""

    full: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    flights: tuple[Flight, ...] = ()
    number: dict[str, str] = field(default_factory=dict)

    def copy(self) -> State:
        return State(set(self.full), set(self.held), self.flights, dict(self.number))

    def again(self, end: State, loop: str) -> State:
        """In front of a loop's turn, which is the first one or follows one that ends so."""
        flights = self.flights or tuple(replace(f, since=loop) for f in end.flights)
        return State(self.full & end.full, self.held | end.held, flights, self.number)


def place_signals(body: Body) -> Body:
    """A plan whose roles wait for slots and products, and give slots back."""
    rings = {n.queue: n for n in walk(body) if isinstance(n, Signal) and n.do == "fill" and n.what == "full"}
    return _Role(rings, body, "").all(body) if rings else body


class _Role:
    """One role's statements; the others' are their own."""

    def __init__(self, rings: Rings, body: Body, name: str) -> None:
        self.rings, self.producer, self.lone = rings, name == "producer", False
        self.read = _read(body)
        self.counted = {n.queue for n in _own(body) if isinstance(n, Count) and not n.begin}

    def all(self, body: Body) -> Body:
        return self._body(self._last(body, frozenset())[0], State(), frozenset())

    # ---- backward: the last product of a turn that reads a slot
    def _last(self, body: Body, live: Names) -> tuple[Body, Names]:
        """`live`: rings whose slot is read behind the statements, in the same turn."""
        out: list[Node] = []
        for n in reversed(body):
            if isinstance(n, Count):
                live -= {n.queue}
            elif isinstance(n, Began):
                n = replace(n, last=tuple(sorted(self.counted.intersection(n.queues) - live)))
                live |= {*n.queues}
            elif isinstance(n, TensorMemory) and n.do == "issued":
                out += [Signal("fill", "empty", q, self.rings[q].depth) for q in reversed(n.reads) if q in self.counted - live]
                live |= {*n.reads}
                continue
            elif isinstance(n, Reads):
                live |= {*n.queues}
            elif isinstance(n, Block) and not n.role and _speaks(n):
                inside, head = self._last(n.body, live)
                if n.again:
                    inside, head = self._last(n.body, live | head)
                n, live = replace(n, body=inside), head if n.again else head | live
            out.append(n)
        return tuple(reversed(out)), live

    # ---- forward
    def _body(self, body: Body, s: State, later: Names) -> Body:
        """`later`: rings that are read behind the statements, in whatever turn."""
        out: list[Node] = []
        for i, n in enumerate(body):
            if isinstance(n, Block) and (n.role or _speaks(n)):
                out += self._block(n, s, later | _read(body[i + 1 :]))
            elif isinstance(n, Count) and not n.begin:
                if self._counts(n) and not (i and self._counts(body[i - 1])):
                    out += self._turn(list(takewhile(self._counts, body[i:])), s, later | _read(body[i:]))
                s.full.discard(n.queue)
                out.append(n)
            elif isinstance(n, Touch):
                out += [*self._touch(n, s, later | _read(body[i:])), n]
            elif isinstance(n, Reads):
                out += [self._said("wait", "full", q, s) for q in dict.fromkeys(n.queues) if q not in s.full]
                s.full.update(n.queues)
            else:
                if isinstance(n, Began):
                    out += [] if any(f.began.sums[0] == n.sums[0] and not f.passed for f in s.flights) else n.fresh
                    s.flights += (Flight(n),)
                    s.held |= self.counted.intersection(n.queues)
                elif isinstance(n, Signal) and (n.do, n.what) == ("fill", "full") and self.producer and n.queue in self.counted:
                    out.append(self._said("wait", "empty", n.queue, s))
                out.append(n)
        return tuple(out)

    def _block(self, n: Block, s: State, later: Names) -> list[Node]:
        if n.role:
            return [replace(n, body=_Role(self.rings, n.body, n.role).all(n.body))]
        before, outer, lone = [], s.number, self.lone
        s.number, self.lone = {**outer, **dict(n.numbers)}, n.lone
        if n.again:
            later |= _read(n.body)
            end = self._end(n.body, s, later)
            if s.flights and s.flights != end.flights:
                before = self._over(len(s.flights), s, later, "")
                end = self._end(n.body, s, later)
            head = s.again(end, n.again)
            head = s.again(self._end(n.body, head, later), n.again)
            s.full, s.held, s.flights = head.full, head.held, head.flights
        body = self._body(n.body, s, later)
        s.number, self.lone = outer, lone
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


def _speaks(n: Block) -> bool:
    """Whether a block has what is of matter here."""
    return any(isinstance(x, SPEAKS) or (isinstance(x, Block) and x.role) for x in walk(n.body))


def _read(body: Body) -> Names:
    """Rings that products read."""
    return frozenset(q for n in _own(body) if isinstance(n, Began) for q in n.queues)
