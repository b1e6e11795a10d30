"""Cluster split-K (schedule field `cluster_split_k`): the blocks of a thread block cluster share out the depth of one output
tile and add their partial sums through distributed shared memory (PTX: st.async.shared::cluster with mbarrier complete_tx).

    before   serial r0                 after   serial r0                       (block p of n: its part of the turns)
               ..                                ..
             store out = acc                   send the n blocks their shares     (share s to block s, for all s but p; waits until its
                                                                                   own inbox is full; adds share p over all blocks)
                                               store out = acc                    (share p)

Every block adds in the order of the blocks' ranks, so a result does not depend on timing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.team_placer import TEAM

from autocomp.ir.types import F32
from autocomp.tile.layout import Layout
from autocomp.tile.plan import ClusterBarrier, Inbox
from autocomp.tile.program import Loop, walk
from autocomp.tile.steps import Act, Over, Scheme, Steps, bodies

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

CHUNK = 4  # registers that travel together: 16 bytes


@dataclass(frozen=True)
class ClusterSplitK:
    """`count` blocks share `loop`; `sums`: its accumulators with the offset of their inbox in shared memory; `barrier`: offset of what
    counts the inboxes' `bytes`; `rank`, `piece`: the variables with the block's number in its cluster and with that of a share."""

    count: int
    loop: Loop
    sums: tuple[tuple[str, int], ...]
    barrier: int
    bytes: int
    rank: str
    piece: str


@dataclass(frozen=True)
class AddUp(Scheme):
    """Blocks send each other their shares of a tile's sums and add them."""

    count: int

    says = "send the {0.count} blocks their shares of the sums, add up the own one; what follows is done for this share"


def cluster_split_k(steps: Steps, facts: Facts) -> Steps:
    """Puts the exchange behind the loop whose turns blocks share out."""
    parts = facts.parts
    if parts is None:
        return steps

    def change(body: Steps) -> Steps:
        behind = lambda n: (n, Act(AddUp(parts.count))) if isinstance(n, Over) and n.loop is parts.loop else (n,)
        return tuple(x for n in body for x in behind(n))

    return bodies(steps, change)


def find_cluster_split_k(at: WarpSpecialisedPrinter) -> ClusterSplitK | None:
    """The loop whose turns a cluster shares out, with room for what its blocks send each other; None where there is none.

    Raises UnsupportedOp where the blocks stay for several tiles, where the loop carries more than products, and where registers
    cannot be shared out in chunks.
    """
    loops = [x for x in _loops(at.p.body) if x.opt("parts")]
    if not loops:
        return None
    loop, count = loops[0], int(loops[0].opt("parts"))
    inside = [s for s, _ in walk(loop.body)]
    carried = list(dict.fromkeys(s.dst for s in inside if s.op == "mma"))
    if at.persistent or any(s.op == "reduce" for s, _ in walk(at.p.body)) or any(s.acc and s.op != "mma" for s in inside):
        raise at.placer.refuse("a cluster shares out the depth of one tile of products, in blocks that do not stay for another")
    sums, bytes_ = [], 0
    for name in carried:
        registers = at.place.layouts[name].registers
        if at.bufs[name].dtype != F32:
            raise at.placer.refuse(f"sums of {at.bufs[name].dtype} are not sent between blocks")
        if registers % (CHUNK * count):
            raise at.placer.refuse(f"{registers} registers of {name} are not shared evenly by {count} blocks in chunks of {CHUNK}")
        room = (count - 1) * registers // count * 4 * TEAM * at.workers
        sums.append((name, at.place.reserve(room, 16)))
        bytes_ += room
    return ClusterSplitK(count, loop, tuple(sums), at.place.reserve(8, 8), bytes_, at.names.fresh("rank"), at.names.fresh("piece"))


def _loops(body: tuple[object, ...]) -> list[Loop]:
    found = [n for n in body if isinstance(n, Loop)]
    return found + [x for n in found for x in _loops(n.body)]


def own_turns(at: WarpSpecialisedPrinter, parts: ClusterSplitK, total: str) -> tuple[str, str]:
    """(first turn, number of turns) of this block, of `total`; later blocks have fewer where they are not shared evenly."""
    begin, turns = at.names.fresh("begin"), at.names.fresh("turns")
    each = f"({total} + {parts.count - 1}) / {parts.count}"
    at.put(f"const int {begin} = {parts.rank} * ({each}), {turns} = ac_min({each}, {total} - {begin});")
    return begin, turns


def add_up(at: WarpSpecialisedPrinter) -> None:
    """Sends what other blocks finish and adds what they sent to what this block does."""
    parts = at.parts
    assert parts is not None
    at.touch({name for name, _ in parts.sums})
    def each(own: str, call: Callable[[str, str, str], str]) -> None:
        """`call` for each chunk of this block's share (==) or of the others' (!=): it, its sum's inbox, the bytes of a share."""
        for name, inbox in parts.sums:
            share = at.place.layouts[name].registers // parts.count
            with at.over(parts.count, parts.piece), at.block(f"if ({parts.piece} {own} {parts.rank})"), at.over(share // CHUNK, "q"):
                x = f"&{at.names.of(name)}[{parts.piece} * {share} + q * {CHUNK}]"
                at.put(call(x, f"{memory} + {inbox}", f"{share // CHUNK * step}"))

    thread, memory, barrier = f"(threadIdx.x - {TEAM})", at.memory, f"{at.memory} + {parts.barrier}"
    step = 4 * CHUNK * TEAM * at.workers  # bytes from a thread's chunk to its next
    here = f"q * {step} + {thread} * {4 * CHUNK}"
    at.plan(ClusterBarrier("wait", "ac_cluster_wait();"), Inbox("send"))
    mine = lambda share: f"({parts.rank} - ({parts.piece} < {parts.rank})) * {share}"
    each("!=", lambda x, inbox, share: f"ac_send({inbox} + {mine(share)} + {here}, {parts.piece}, {x}, {barrier});")
    at.plan(Inbox("wait", f"ac_barrier_wait_far({barrier}, 0);"), Inbox("read"))
    each("==", lambda x, inbox, share: f"ac_add_parts<{parts.count}>({x}, {inbox} + {here}, {share}, {parts.piece});")
    at.added = True


@contextmanager
def own_share(at: WarpSpecialisedPrinter, parts: ClusterSplitK, layout: Layout, var: str, step: int) -> Iterator[None]:
    """An unrolled loop over this block's share of the registers of a layout, `step` at a time."""
    share = layout.registers // step // parts.count
    first = f"{parts.piece} * {share}"
    head = f"for (int {var} = {first}; {var} < {first} + {share}; ++{var})"
    with (at.over(parts.count, parts.piece), at.block(f"if ({parts.piece} == {parts.rank})"),
          at.block(head, unroll=share > 1, again=var, turns=share)):  # fmt: skip
        yield
