"""Runs the programs of pipes round by round and reports what their signals do not order (`happens_before`).

A set carries what its agent knows, a wait takes it over. A read must find what its own round wrote. Buffers whose bytes are known (`Span`)
are one where they have bytes in common: their uses are ordered, and neither is read where the other was written since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from autocomp.errors import AutocompError
from autocomp.quick import quick
from autocomp.tile.agents import Again, Body, Once, Parts, Queue, Signal, Skewed, Span, Work, accesses, common_loop
from autocomp.tile.happens_before import THREADS, Agent, Place, Use, World
from autocomp.tile.plan import Barrier


@quick
@dataclass(frozen=True)
class Item:
    """A node of an agent's unrolled program, with the round of every loop around it (counted on over re-entries)."""

    node: Work | Signal | Barrier
    rounds: Mapping[str, int]

    @property
    def agent(self) -> str:
        return self.node.agents if isinstance(self.node, Barrier) else self.node.agent


def problems(parts: Parts, depth: Mapping[str, int], trips: int = 4, most: int = 1, lies: Mapping[str, Span] | None = None) -> list[str]:
    """What is wrong with programs that have their signals; [] if nothing is.

    Loops are run `trips` times, and once more with one round of every inner loop: what many rounds order, one may not.
    `most`: sets of one signal that may be outstanding. `lies`: where buffers lie; others are apart from all.
    """
    found = []
    beside = _beside(lies or {}, depth)
    loops = {b: common_loop(uses) for b, uses in accesses(parts).items()}
    for inner in (trips, 1):
        found += _run(parts, loops, depth, (trips, inner), most, beside)
    return list(dict.fromkeys(found))


def _beside(lies: Mapping[str, Span], depth: Mapping[str, int]) -> dict[Place, tuple[Place, ...]]:
    """A slot -> slots of other buffers that lie on some of its bytes."""
    slots = [(s.memory, s.at + k * s.bytes, s.at + (k + 1) * s.bytes, (b, k)) for b, s in lies.items() for k in range(depth.get(b, 1))]
    out: dict[Place, tuple[Place, ...]] = {}
    open_: list[tuple[str, int, int, tuple[str, int]]] = []
    for slot in sorted(slots):
        memory, begin, _, key = slot
        open_ = [x for x in open_ if x[0] == memory and x[2] > begin]
        for *_, other in open_:
            if other[0] != key[0]:
                out[key] = (*out.get(key, ()), other)
                out[other] = (*out.get(other, ()), key)
        open_.append(slot)
    return out


def _run(parts: Parts, loops: Mapping[str, str], depth: Mapping[str, int], trips: tuple[int, int], most: int,
         beside: dict[Place, tuple[Place, ...]]) -> list[str]:  # fmt: skip
    """One run; `trips` of outermost and of inner loops. `loops`: around all uses of a buffer."""
    programs: dict[str, list[Item]] = {}
    for body in parts.values():
        for item in _unroll(body, trips, {}, {}):
            programs.setdefault(item.agent, []).append(item)
    w = World([Agent(i, name, [0] * len(programs)) for i, name in enumerate(programs)], beside, most)
    touched: dict[int, list[tuple[str, str, bool]]] = {}  # by a work, which many rounds have: buffer, value, whether it is written
    content: dict[Place, tuple[int, str]] = {}  # the round and the value that were written last, "" where another buffer's was

    def step(item: Item, a: Agent) -> bool:
        n = item.node
        if isinstance(n, Barrier):
            a.meets(0)
        elif isinstance(n, Signal):
            key = (n.what, _named(n.queue), n.slot if n.slot is not None else item.rounds.get(n.queue.loop, 0) % n.queue.depth)
            if n.do == "wait":
                return w.takes(key, a)
            w.sets(key, a, _show(n))
        else:
            work(n, item.rounds, a)
        return True

    def work(n: Work, rounds: Mapping[str, int], a: Agent) -> None:
        if (uses := touched.get(id(n))) is None:
            all_ = (*n.reads, *n.writes)
            uses = touched[id(n)] = [(b, v, i >= len(n.reads)) for i, (b, v) in enumerate(zip(all_, n.values or all_, strict=True))]
        for b, value, write in uses:
            turn = rounds.get(loops[b], 0)
            place = (b, turn % depth.get(b, 1))
            w.use(a, Use(place, a.number, write, THREADS, a.now, parts=(place, turn) if write and b in n.apart else None), _say)
            if write:
                for k in beside.get(place, ()):
                    content[k] = 0, ""
                content[place] = turn, value
            elif value and content.get(place, (turn, value)) != (turn, value):
                lost = content[place][1] != value
                w.found.append(f"overwritten: {a.name} reads {value} behind another value on its bytes" if lost else
                               f"stale: {a.name} reads {b} of another round")  # fmt: skip

    if stuck := w.run([iter(programs[a.name]) for a in w.agents], step):
        return [*w.found, "stuck: " + "; ".join(f"{a.name} waits for {_show(x.node)}" for a, x in stuck)]
    return w.found + [f"left set: {key[0]} of {key[1]}" for key, sets in w.flags.items() if sets]


def waits_before_sets(parts: Parts, trips: int = 4) -> list[str]:
    """Waits that a part issues before the set that they wait for, where the same part issues that too.

    A part is one stream of instructions: what its agents have not been given yet, they cannot do.
    """
    found = []
    for body in parts.values():
        issued: dict[tuple[object, ...], int] = {}
        agents = _agents(body)
        for item in _unroll(_signals(body), (trips, trips), {}, {}):
            n = item.node
            if isinstance(n, Signal) and {n.queue.writer, n.queue.reader} <= agents:
                slot = n.slot if n.slot is not None else item.rounds.get(n.queue.loop, 0) % n.queue.depth
                key = (n.what, n.queue, slot)
                issued[key] = issued.get(key, 0) + (1 if n.do == "set" else -1)
                if issued[key] < 0:
                    found.append(f"waits before it is set: {_show(n)}")
    return list(dict.fromkeys(found))


def _agents(body: Body) -> set[str]:
    """Who works in a program, or is waited for."""
    inner = (_agents(n.body) if isinstance(n, (Again, Skewed, Once)) else {Item(n, {}).agent} for n in body)
    return set[str]().union(*inner)


def _signals(body: Body) -> Body:
    """A program's loops and signals alone."""
    return tuple(n if isinstance(n, Signal) else replace(n, body=_signals(n.body)) for n in body if not isinstance(n, (Work, Barrier)))


def _unroll(body: Body, trips: tuple[int, int], rounds: dict[str, int], counters: dict[str, int],
            edge: tuple[bool, bool] = (True, True)) -> Iterator[Item]:  # fmt: skip
    """`edge`: whether this round is the first and whether it is the last one of the loop that its loop runs as well."""
    for n in body:
        if isinstance(n, Again):
            inner = trips[1] if n.over else 1
            turns = trips[bool(rounds)] * inner
            first = counters.get(n.name, 0)
            counters[n.name] = first + turns
            for turn in range(turns + max((x.by for x in n.body if isinstance(x, Skewed)), default=0)):
                for x in n.body if any(isinstance(x, Skewed) for x in n.body) else (Skewed(0, (), n.body),):
                    if not isinstance(x, Skewed):
                        raise AutocompError(f"loop {n.name} has skewed parts and others", where="plan")
                    if 0 <= (now := turn - x.by) < turns:
                        mine = {**rounds, n.name: first + now} | ({n.over: now // inner} if n.over else {})
                        yield from _unroll(x.body, trips, mine, counters, (now % inner == 0, (now + 1) % inner == 0))
        elif isinstance(n, Once):
            if edge[0 if n.first else 1]:
                yield from _unroll(n.body, trips, rounds, counters)
        elif isinstance(n, Skewed):
            raise AutocompError("a skewed part is no loop's", where="plan")
        else:
            yield Item(n, rounds)


def _say(place: Place) -> str:
    return str(place[0])


def _show(n: object) -> str:
    return f"{n.what} of {_named(n.queue)}" if isinstance(n, Signal) else type(n).__name__


def _named(q: Queue) -> str:
    return f"{q.writer} -> {q.reader} [{', '.join(q.buffers)}]"
