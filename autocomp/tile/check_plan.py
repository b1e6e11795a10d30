"""Runs the agents' programs round by round and reports what their signals do not order.

Every agent has a clock of finished works of every agent that it knows of. A set carries its agent's clock, a wait takes it over. Two
uses of a slot, one of them a write, must be ordered by these clocks; a read must find what its own round wrote. Buffers whose bytes are
known (`Span`) are one where they have bytes in common: their uses are ordered, and neither is read where the other was written since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from autocomp.errors import AutocompError
from autocomp.tile.agents import Again, Barrier, Body, Once, Parts, Signal, Skewed, Span, Work, accesses, common_loop


@dataclass(frozen=True)
class Item:
    """A node of an agent's unrolled program, with the round of every loop around it (counted on over re-entries)."""

    node: Work | Signal | Barrier
    rounds: Mapping[str, int]


@dataclass
class State:
    """clocks[a][b]: works of b that a knows to be finished. flags: sets not waited for. uses: (agent, time, write, the
    round of a write of other bytes than its agent's in that round, else -1) of a slot. content: the
    round and the value that were written last, "" where another buffer's was. beside: slots of others on a slot's bytes."""

    clocks: dict[str, dict[str, int]] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    flags: dict[tuple[object, ...], list[dict[str, int]]] = field(default_factory=dict)
    uses: dict[tuple[str, int], list[tuple[str, int, bool, int]]] = field(default_factory=dict)
    content: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    beside: Mapping[tuple[str, int], tuple[tuple[str, int], ...]] = field(default_factory=dict)


def problems(parts: Parts, depth: Mapping[str, int], trips: int = 4, most: int = 1, lies: Mapping[str, Span] | None = None) -> list[str]:
    """What is wrong with programs that have their signals; [] if nothing is.

    Loops are run `trips` times, and once more with one round of every inner loop: what many rounds order, one may not.
    `most`: sets of one signal that may be outstanding. `lies`: where buffers lie; others are apart from all.
    """
    found = []
    beside = _beside(lies or {}, depth)
    for inner in (trips, 1):
        found += _run(parts, depth, (trips, inner), most, beside)
    return list(dict.fromkeys(found))


def _beside(lies: Mapping[str, Span], depth: Mapping[str, int]) -> dict[tuple[str, int], tuple[tuple[str, int], ...]]:
    """A slot -> slots of other buffers that lie on some of its bytes."""
    slots = [(s.memory, s.at + k * s.bytes, s.at + (k + 1) * s.bytes, (b, k)) for b, s in lies.items() for k in range(depth.get(b, 1))]
    out: dict[tuple[str, int], tuple[tuple[str, int], ...]] = {}
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


def _run(parts: Parts, depth: Mapping[str, int], trips: tuple[int, int], most: int,
         beside: Mapping[tuple[str, int], tuple[tuple[str, int], ...]]) -> list[str]:  # fmt: skip
    """One run; `trips` of outermost and of inner loops."""
    loops = {b: common_loop(uses) for b, uses in accesses(parts).items()}
    programs: dict[str, list[Item]] = {}
    for body in parts.values():
        for item in _unroll(body, trips, {}, {}):
            programs.setdefault(item.node.agent, []).append(item)
    state = State(beside=beside)
    found: list[str] = []
    at = dict.fromkeys(programs, 0)
    moved = True
    while moved:
        moved = False
        for agent, items in programs.items():
            while at[agent] < len(items) and _step(agent, items[at[agent]], state, loops, depth, most, found):
                at[agent] += 1
                moved = True
    stuck = [f"{a} waits for {_show(programs[a][i].node)}" for a, i in at.items() if i < len(programs[a])]
    if stuck:
        found.append("stuck: " + "; ".join(stuck))
    else:
        found += [f"left set: {key[0]} of {key[1]}" for key, sets in state.flags.items() if sets]
    return found


def waits_before_sets(parts: Parts, trips: int = 4) -> list[str]:
    """Waits that a part issues before the set that they wait for, where the same part issues that too.

    A part is one stream of instructions: what its agents have not been given yet, they cannot do.
    """
    found = []
    for body in parts.values():
        issued: dict[tuple[object, ...], int] = {}
        agents = {i.node.agent for i in _unroll(body, (1, 1), {}, {})}
        for item in _unroll(body, (trips, trips), {}, {}):
            n = item.node
            if isinstance(n, Signal) and {n.queue.writer, n.queue.reader} <= agents:
                slot = n.slot if n.slot is not None else item.rounds.get(n.queue.loop, 0) % n.queue.depth
                key = (n.what, n.queue, slot)
                issued[key] = issued.get(key, 0) + (1 if n.do == "set" else -1)
                if issued[key] < 0:
                    found.append(f"waits before it is set: {_show(n)}")
    return list(dict.fromkeys(found))


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


def _step(agent: str, item: Item, s: State, loops: Mapping[str, str], depth: Mapping[str, int], most: int, found: list[str]) -> bool:
    """Runs one item; False if it must wait."""
    n = item.node
    clock = s.clocks.setdefault(agent, {})
    if isinstance(n, Barrier):
        clock[agent] = s.started.get(agent, 0)
        return True
    if isinstance(n, Signal):
        q = n.queue
        slot = n.slot if n.slot is not None else item.rounds.get(q.loop, 0) % q.depth
        sets = s.flags.setdefault((n.what, f"{q.writer} -> {q.reader} [{', '.join(q.buffers)}]", slot), [])
        if n.do == "set":
            sets.append({**clock, agent: s.started.get(agent, 0)})
            if len(sets) > most:
                found.append(f"set twice: {_show(n)}")
            return True
        if not sets:
            return False
        for a, t in sets.pop(0).items():
            clock[a] = max(clock.get(a, 0), t)
        return True
    time = s.started[agent] = s.started.get(agent, 0) + 1
    for i, (b, value) in enumerate(zip((*n.reads, *n.writes), n.values or (*n.reads, *n.writes), strict=True)):
        rounds = item.rounds.get(loops[b], 0)
        write = i >= len(n.reads)
        piece = rounds if write and b in n.apart else -1
        _use(agent, time, write, (b, rounds % depth.get(b, 1)), (rounds, value), piece, s, clock, found)
    return True


def _use(agent: str, time: int, write: bool, key: tuple[str, int], what: tuple[int, str], piece: int, s: State, clock: dict[str, int],
         found: list[str]) -> None:  # fmt: skip
    beside = s.beside.get(key, ())
    for k in (key, *beside):
        for other, then, wrote, part in s.uses.get(k, ()):
            if other == agent and k == key and piece >= 0 and part == piece:
                continue
            if (write or wrote) and then > clock.get(other, 0) and (other, then) != (agent, time):
                how = ("writes" if wrote else "reads", "writes" if write else "reads")
                its = "it" if k == key else f"{key[0]} on the same bytes"
                found.append(f"not ordered: {other} {how[0]} {k[0]}, {agent} {how[1]} {its}")
    if write:
        s.content[key] = what
        s.content.update((k, (0, "")) for k in beside)
    elif key in s.content and s.content[key] != what:
        lost = s.content[key][1] != what[1]
        found.append(f"overwritten: {agent} reads {what[1]} behind another value on its bytes" if lost else
                     f"stale: {agent} reads {key[0]} of another round")  # fmt: skip
    s.uses.setdefault(key, []).append((agent, time, write, piece))


def _show(n: object) -> str:
    if isinstance(n, Signal):
        return f"{n.what} of {n.queue.writer} -> {n.queue.reader} [{', '.join(n.queue.buffers)}]"
    return type(n).__name__
