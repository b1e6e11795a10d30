"""Agents and queues: who works when, on machines whose engines run by themselves.

An agent is an in-order worker (a pipe of a core, a core). Its works start in order, but a later one may start before an earlier one
has finished. A queue is a buffer that one agent writes and another reads; it needs two signals: full (written, may be read) and
empty (read, may be written again, `depth` rounds later). `find_queues` finds them (of CUDA's roles too), `with_signals` writes them into
the programs, `synchronise` orders an agent's own works, `check_pipes.problems` runs the result and says what is not ordered. Nothing here
knows a chip: a target says how a signal is spelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from autocomp.errors import UnsupportedOp
from autocomp.tile.plan import Barrier


@dataclass(frozen=True)
class Span:
    """Where a buffer lies: `bytes` of a memory from `at` on, its slots one behind the other."""

    memory: str
    at: int
    bytes: int


@dataclass(frozen=True)
class Work:
    """One operation of an agent on buffers; `lines` is its text, which no pass reads. `values`: what the bytes of `reads` and then of
    `writes` stand for, where a buffer holds one value after another; "" of one that it does not read, but holds the place of. `apart`:
    buffers of `writes` of which each turn of an inner loop writes other bytes."""

    agent: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    lines: tuple[str, ...]
    values: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


@dataclass(frozen=True)
class Again:
    """A loop named `name` over `body`; loops of one name in several parts run the same rounds. `head` and `foot` are its text.

    `over`: the name of a loop around it that it runs as well, all of its rounds one behind the other. Its parts are skewed, and what
    belongs to a round of the outer loop is in `Once`.
    """

    name: str
    head: tuple[str, ...]
    body: tuple[Node, ...]
    foot: tuple[str, ...] = ()
    over: str = ""
    turns, perhaps = 0, False

    @property
    def again(self) -> str:
        return self.name


@dataclass(frozen=True)
class Skewed:
    """A part of a loop's body that works on the round `by` rounds before. A loop with such parts runs as many rounds more as its latest
    one is behind; a part is left out where its round is none."""

    by: int
    head: tuple[str, ...]
    body: tuple[Node, ...]
    foot: tuple[str, ...] = ()
    again, turns, perhaps = "", 0, True


@dataclass(frozen=True)
class Once:
    """What a loop `over` another one does in the first round of each of that one's rounds, or (not `first`) in the last."""

    first: bool
    body: tuple[Node, ...]
    again, turns, perhaps = "", 0, True


@dataclass(frozen=True)
class Queue:
    """Buffers that `writer` hands to `reader` once a round of `loop` ("": once), through `depth` slots."""

    writer: str
    reader: str
    loop: str
    buffers: tuple[str, ...]
    depth: int


@dataclass(frozen=True)
class Signal:
    """do: set | wait. what: full | empty. slot: of this round where None, else that slot (priming and draining)."""

    do: str
    what: str
    queue: Queue
    slot: int | None = None

    @property
    def agent(self) -> str:
        """Whom it concerns: a set comes behind the works of one end, a wait holds up those of the other."""
        return self.queue.writer if (self.do == "set") == (self.what == "full") else self.queue.reader


Node = Work | Again | Skewed | Once | Signal | Barrier
Body = tuple[Node, ...]
Parts = Mapping[str, Body]


@dataclass(frozen=True)
class Access:
    """A work's use of a buffer; `path` has (loop, position in it) from the outermost on. Skewed parts count on: within a round of
    theirs they follow one another."""

    agent: str
    write: bool
    path: tuple[tuple[str, int], ...]
    part: str


def flat(body: Body, once: bool = False) -> Iterator[tuple[Node, bool]]:
    """The nodes of a round, its skewed parts one behind the other, and whether they are in `Once`."""
    for n in body:
        if isinstance(n, (Skewed, Once)):
            yield from flat(n.body, isinstance(n, Once))
        else:
            yield n, once


def accesses(parts: Parts) -> dict[str, list[Access]]:
    """buffer -> its uses in program order."""
    found: dict[str, list[Access]] = {}

    def visit(body: Body, part: str, loops: tuple[str, ...], path: tuple[tuple[str, int], ...]) -> None:
        for at, (n, once) in enumerate(flat(body)):
            here = (*path, *((loop, at) for loop in (loops[:1] if once else loops)))
            if isinstance(n, Again):
                visit(n.body, part, around(n), here)
            elif isinstance(n, Work):
                for names, write in ((n.reads, False), (n.writes, True)):
                    for b in names:
                        found.setdefault(b, []).append(Access(n.agent, write, here, part))

    for part, body in parts.items():
        visit(body, part, ("",), ())
    return found


def around(n: Again) -> tuple[str, ...]:
    """The loops that a node runs, the outer one first."""
    return (n.over, n.name) if n.over else (n.name,)


def find_queues(parts: Parts, depth: Mapping[str, int]) -> list[Queue]:
    """The queues of all parts, one a buffer and reader. `depth`: slots of a buffer, 1 where not named.

    Raises UnsupportedOp for a buffer that two agents write.
    """
    queues = []
    for buffer, uses in accesses(parts).items():
        writers = sorted({a.agent for a in uses if a.write})
        if len(writers) > 1:
            raise UnsupportedOp(f"buffer {buffer} is written by {' and '.join(writers)}", where="plan",
                                hint="each buffer is filled by one queue: its kernel is taken apart")  # fmt: skip
        for reader in sorted({a.agent for a in uses} - set(writers)) if writers else ():
            queues.append(Queue(writers[0], reader, common_loop(uses), (buffer,), depth.get(buffer, 1)))
    return queues


def common_loop(uses: list[Access]) -> str:
    """The deepest loop around all uses, "" for none."""
    chains = [[loop for loop, _ in a.path] for a in uses]
    shared = [level[0] for level in zip(*chains) if len(set(level)) == 1]
    return shared[-1] if shared else ""


def merged(queues: list[Queue], fine: Callable[[list[Queue]], bool], alone: Callable[[Queue], bool] = lambda one: True) -> list[Queue]:
    """Queues of the same two agents, loop and depth become one, buffer by buffer, where `fine` agrees with the queues that result. `alone`
    is what can be said of the one without the others, which is asked first."""
    done: list[Queue] = []
    for i, q in enumerate(queues):
        key = (q.writer, q.reader, q.loop, q.depth)
        for at, other in enumerate(done):
            if (other.writer, other.reader, other.loop, other.depth) == key:
                one = replace(other, buffers=other.buffers + q.buffers)
                tried = [*done[:at], one, *done[at + 1 :]]
                if alone(one) and fine([*tried, *queues[i + 1 :]]):
                    done = tried
                    break
        else:
            done.append(q)
    return done


def with_signals(parts: Parts, queues: list[Queue], uses: Mapping[str, list[Access]] | None = None) -> dict[str, Body]:
    """The programs with full and empty signals of every queue; what is empty at first is primed in front and drained behind. `uses`: the
    parts' `accesses`, for who tries many queues."""
    uses = accesses(parts) if uses is None else uses
    out = dict(parts)
    for q in queues:
        mine = [a for b in q.buffers for a in uses[b]]
        for agent, before, after in ((q.writer, ("wait", "empty"), ("set", "full")), (q.reader, ("wait", "full"), ("set", "empty"))):
            at = [a for a in mine if a.agent == agent and (a.write or agent == q.reader)]  # a writer reads its own when it likes
            part = at[0].part
            positions = [i for a in at for loop, i in a.path if loop == q.loop]
            signals = {min(positions): Signal(*before, q)}, {max(positions): Signal(*after, q)}
            out[part] = _insert(out[part], ("",), q.loop, *signals)
        if q.loop:
            ends = {a.agent: a.part for a in mine}
            prime = tuple(Signal("set", "empty", q, s) for s in range(q.depth))
            drain = tuple(Signal("wait", "empty", q, s) for s in range(q.depth))
            out[ends[q.reader]] = prime + out[ends[q.reader]]
            out[ends[q.writer]] = out[ends[q.writer]] + drain
    return {p: _drop_useless(b) for p, b in out.items()}


def _insert(body: Body, loops: tuple[str, ...], wanted: str, before: dict[int, Signal], after: dict[int, Signal],
            at: Iterator[int] | None = None, once: bool = True) -> Body:  # fmt: skip
    """Signals around the positions of the loop `wanted`; positions count the nodes of the program without signals. Where a loop runs that
    one as well, they are for its first or last round, if what they are for is not."""
    out: list[Node] = []
    at = at or count()
    for n in body:
        if isinstance(n, (Skewed, Once)):
            out.append(replace(n, body=_insert(n.body, loops, wanted, before, after, at, isinstance(n, Once) or wanted == loops[-1])))
            continue
        if not isinstance(n, (Work, Again)):
            out.append(n)
            continue
        here = next(at)
        if wanted in loops and here in before:
            out.append(before[here] if once else Once(True, (before[here],)))
        if isinstance(n, Again) and wanted not in loops:
            n = replace(n, body=_insert(n.body, around(n), wanted, before, after))
        out.append(n)
        if wanted in loops and here in after:
            out.append(after[here] if once else Once(False, (after[here],)))
    return tuple(out)


def _drop_useless(body: Body) -> Body:
    """Without the empty signals of queues that are used once."""
    return tuple(n for n in body if not (isinstance(n, Signal) and n.what == "empty" and not n.queue.loop))
