"""The plan of a block: a placed tile program as what its agents do, before anything is spelt.

A plan is a tree of statements. Lines are text of one thread that no pass reads; what memory they touch that others see is said beside
them (`Access`), and what orders such accesses is a statement of its own: barriers, asynchronous copies that have landed. `synchronise`
places these, `check_plan` runs the result and says what is not ordered, `spell` prints it by a target's words.

    access write "tile of x"           access write "tile of x"
    | x[..] = ..                  ->   | x[..] = ..
    access read "tile of x"            barrier block
    | y = x[..]                        access read "tile of x"
                                       | y = x[..]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Line:
    """Text of one thread."""

    text: str


@dataclass(frozen=True)
class Slots:
    """Which slot of a ring of `depth` an access touches: that of turn `turn + ahead` of the loop whose turns the variable counts."""

    turn: str
    ahead: int
    depth: int


@dataclass(frozen=True)
class Access:
    """The lines that follow read or write a buffer that other threads see.

    far        the threads of all blocks of a cluster see it, not those of the block alone
    lands      written by copies that the thread starts and that are under way until it has waited for them
    own        a thread touches only what it read before, behind the same barrier
    slots      of a ring; None where there is one
    halves     a tile's accesses touch the other half than those of the tile before
    """

    buffer: str
    write: bool
    far: bool = False
    lands: bool = False
    own: bool = False
    slots: Slots | None = None
    halves: bool = False


@dataclass(frozen=True)
class Barrier:
    """The threads of `agents` (block | cluster | consumers | warpgroup | wave: what a role's threads say to each other) meet. `text`: where
    the meeting has a result, or a spelling of its own."""

    agents: str
    text: str = ""


@dataclass(frozen=True)
class Commit:
    """The copies that a thread has started since its last one are a group."""


@dataclass(frozen=True)
class Landed:
    """A thread waits until at most the last `behind` groups of its copies are under way; `copies` in a group, where they are counted."""

    behind: int
    copies: int | None = None


@dataclass(frozen=True)
class Turn:
    """A turn of a loop begins that reads a slot of a ring: its copies have landed, `behind` groups are still under way. `alone`: each
    thread reads what it copied itself."""

    buffers: tuple[str, ...]
    behind: int
    copies: int | None = None
    alone: bool = False


@dataclass(frozen=True)
class Claim:
    """Buffers are written from here on as a whole: who read them before has done so."""

    buffers: tuple[str, ...]


@dataclass(frozen=True)
class Signal:
    """What roles say to each other of a ring's slot of `depth`: `full` (its bytes have landed) or `empty` (its readers are done).

    do      wait | arrive, or fill: copies are started that make the slot full when they land
    back    how many turns of the role before this one (fewer than 0: ahead)
    when    "" always; "never": one warp says it later; "again": not in the loop's first turn; "first": in the loop's first turn, but
            not in the role's first of all
    loop    the variable that counts the loop's turns, for `when`
    number  how the turn is called; "": by the role's count
    far     said to all blocks of a cluster: each fills its part of the slot in all of them, and gives it back to all that fill it
    """

    do: str
    what: str
    queue: str
    depth: int
    back: int = 0
    when: str = ""
    loop: str = ""
    far: bool = False
    number: str = ""


@dataclass(frozen=True)
class Reads:
    """Lines that follow read the slots of these rings: they have landed."""

    queues: tuple[str, ...]


@dataclass(frozen=True)
class Count:
    """A role's number of a ring's turns: where it begins for the first of several takers, and how it goes on. `turns`: as many as a tile
    has in the loop, else one; `begin`: each taker's first is so many of its number; `times`: so many are added; `number`: how the turn that
    begins is called, where not by the role's count."""

    queue: str
    text: str
    begin: bool = False
    times: int = 1
    turns: bool = False
    number: str = ""


@dataclass(frozen=True)
class Box:
    """A role's threads read or write a box of shared memory, or an engine does at the order of one of them: `store` reads it until its
    group has been waited for (each is a group), `load` writes it until the ring's slot is full.

    do      read | write | store | load; over: the thread has started all stores of `places` boxes, which may have read the ring's slot
    place   which of `places` boxes: turns of the loops around, each times a number, added
    ring    the box lies in the slot of this ring of `depth`, that of `back` turns before; `lent`: only the box of that number does
    far     threads of all roles write it
    """

    name: str
    do: str
    place: tuple[tuple[str, int], ...] = ()
    places: int = 1
    ring: str = ""
    depth: int = 1
    back: int = 0
    lent: int | None = None
    far: bool = False
    text: str = ""


@dataclass(frozen=True)
class Fence:
    """A thread's accesses to shared memory come before what engines do from here on; of mbarriers, that it has made them (`box`)."""

    text: str
    box: str = ""


@dataclass(frozen=True)
class Began:
    """Lines that follow start a matrix product: it writes `sums` and reads these rings' slots, and boxes that threads wrote, until the role
    has waited for its group. `fresh`: statements in front of it, where it does not go on with what one under way began this turn;
    `over`: behind that wait; `last`: rings whose slot no other product of this turn reads later."""

    sums: tuple[str, ...]
    queues: tuple[str, ...]
    boxes: tuple[str, ...] = ()
    fresh: tuple[Node, ...] = ()
    over: tuple[Node, ...] = ()
    last: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """The products that a role has started since its last one are a group."""

    text: str


@dataclass(frozen=True)
class Done:
    """A role waits until at most the last `behind` groups of products are under way; of bulk stores, until no more still read. `whole`: a
    compiler may take the wait for the one that the last group's results need, so it is spelt so."""

    behind: int
    text: str = ""
    of: str = "products"
    whole: bool = False


@dataclass(frozen=True)
class Touch:
    """Lines that follow read or write values that products write, or what these read; `lent`: and the slot of this ring that they read."""

    names: tuple[str, ...]
    text: str = ""
    lent: str = ""


@dataclass(frozen=True)
class Agents:
    """Who runs this plan side by side: `blocks` of a cluster or of a row of stream-K, in each a producer (`producer`) and `teams` that do
    alike. `turns`: of its loops, 0 where that is not known; `row`: the blocks share out the turns of a row of tiles."""

    blocks: int = 1
    teams: int = 2
    producer: bool = True
    turns: int = 0
    row: bool = False


@dataclass(frozen=True)
class ClusterBarrier:
    """The two halves of a cluster's barrier: a thread says that it has come (`arrive`), and waits for all others to (`wait`)."""

    do: str
    text: str


@dataclass(frozen=True)
class NamedBarrier:
    """The barrier of the team so many `further` on, in a ring of the teams: `sync` waits there for the other one, `pass` does not wait.
    `only`: the one team that does so (from the end below 0); None: all."""

    do: str
    text: str
    further: int = 0
    only: int | None = None


@dataclass(frozen=True)
class Inbox:
    """What other blocks of a cluster send to one: `expect` announces their bytes, `send` writes to that of each other one, `wait` is over
    when all have come, `read` uses them."""

    do: str
    text: str = ""


@dataclass(frozen=True)
class Flag:
    """A word of global memory, one a block, that one of its threads sets, and one of another block waits for and clears."""

    do: str
    text: str


@dataclass(frozen=True)
class Reach:
    """Lines that follow write or read what other blocks see (`whose`: of this one, or of the `other`), each thread a part; or start
    what `teams` of a block do one behind the other; `of`: so many, a tile each."""

    what: str
    write: bool
    whose: str = "own"
    of: int = 0


@dataclass(frozen=True)
class TensorMemory:
    """What is done with memory in which products leave their sums (PTX: tcgen05): a warp takes it (`alloc`) or gives it back (`free`),
    `name`: its address is read; one thread starts products into a slot of a `ring` of `depth` (`multiply`; `reads`: rings that have the
    factors, which go back when they are done: `issued`); a warp loads from a slot (`load`). `before`, `after`: fences of this memory in
    front of what tells others, and behind what they told, which `signals` places.
    """

    do: str
    text: str = ""
    ring: str = ""
    depth: int = 1
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exit:
    """The block ends; no other block touches its memory from here on."""


@dataclass(frozen=True)
class Cost:
    """What the lines here issue, where a plan is counted and not spelt (`targets.simt.count`)."""

    issued: tuple[tuple[str, float], ...] = ()
    slots: float = 0.0
    matrix: float = 0.0
    waits: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Block:
    """Statements under a head. `again`: the variable that counts the turns of a loop; `perhaps`: it may not run at all; `turns`: how
    often it runs, 0 where that is not known; `least`: of the loops in the plan, at least so often; `since`: it runs from that box on
    (places as in `Box`); `begins`: its first turn, where others come before it; `part`: of a loop's turns in several
    parts, the number of this one and theirs; `role`: who alone runs it; `times`: turns in the mean, where they are counted; `alone`:
    one thread of a block runs it; `row`: of a row of tiles, for pieces that do not begin their tile (later) or begin but do not end it
    (first), or for each block that has another piece of the tile (others); `within`: while tiles have that turn of a ring, so many
    before this one; `numbers`: how its statements call turns of rings; `lone`: its one turn stands behind those of other parts."""

    head: str
    body: tuple[Node, ...]
    pragma: str = ""
    again: str = ""
    perhaps: bool = False
    role: str = ""
    begins: int = 0
    part: tuple[int, int] = (0, 1)
    turns: int = 0
    least: int = 0
    since: tuple[tuple[tuple[str, int], ...], int] = ((), 0)
    times: float = 1.0
    alone: bool = False
    row: str = ""
    within: tuple[str, int] | None = None
    numbers: tuple[tuple[str, str], ...] = ()
    lone: bool = False


Order = Barrier | Commit | Landed | Signal | Done | TensorMemory  # what a target has words for, where it has no text
Role = Signal | Count | Began | Group | Done | Touch | Box | Fence | TensorMemory  # what roles do, spelt where it is written
Peer = ClusterBarrier | NamedBarrier | Inbox | Flag | Reach  # what blocks and teams do that others see, spelt where it is written
Node = Line | Access | Reads | Role | Peer | Agents | Barrier | Commit | Landed | Turn | Claim | Exit | Cost | Block



@dataclass
class Draft:
    """Statements being written. A draft inside of another is a place in it where lines may still come (declarations)."""

    nodes: list[Node | Draft | Open] = field(default_factory=list)

    def put(self, *nodes: Node | Draft | Open) -> None:
        self.nodes += nodes

    def first(self, *nodes: Node) -> None:
        """In front of what stands here."""
        self.nodes[:0] = nodes

    def done(self) -> tuple[Node, ...]:
        """The statements, with those of drafts inside in their places."""
        out: list[Node] = []
        for n in self.nodes:
            if isinstance(n, Draft):
                out += n.done()
            elif isinstance(n, Open):
                out.append(replace(n.block, body=n.draft.done()))
            else:
                out.append(n)
        return tuple(out)


@dataclass(frozen=True)
class Open:
    """A block whose body is still being written."""

    block: Block
    draft: Draft


def walk(body: tuple[Any, ...]) -> Iterator[Any]:
    """Every statement, blocks before what is in them."""
    for n in body:
        yield n
        yield from walk(getattr(n, "body", ()))


def spell(body: tuple[Node, ...], words: Callable[[Order], str], depth: int = 1) -> list[str]:
    """The lines of a plan; `words`: how a target says a barrier, a wait and a signal ("": lines beside it do)."""
    out: list[str] = []
    put = lambda text: out.append("  " * depth + text if text else "")
    for n in body:
        if text := getattr(n, "text", ""):
            put(text)
        elif isinstance(n, Order):
            if text := words(n):
                put(text)
        elif isinstance(n, Block):
            if n.pragma:
                put(n.pragma)
            put(f"{n.head} {{".strip())
            out += spell(n.body, words, depth + 1)
            put("}")
    return out
