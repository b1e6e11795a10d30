"""Stream-K (schedule field `stream_k`): persistent blocks share out the depth of the last, incomplete wave of output tiles evenly.

As many tiles as fill whole waves are computed by one block each. The turns of the others stand in one row, tile after tile, and block
after block takes an equal piece of it: the end of one tile, then the beginning of the next. Who begins a tile finishes it: it waits
for the blocks behind it in the row, which stored their sums first, and adds them in the order of the row. Blocks stand in the row in
falling order of their numbers, so that each waits only for blocks that were started before it.

    before   serial r0                 after   serial r0
               ..                                ..
             store out = acc                   where this block begins the tile, behind the sums of the others
                                                 store out = acc

    workspace    a flag for each block, then the sums of each block's first piece, in chunks of 16 bytes a thread
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.team_placer import TEAM

from autocomp.ir.types import F32
from autocomp.tile.plan import Barrier, Fence, Flag, Reach
from autocomp.tile.program import Loop, walk
from autocomp.tile.steps import Over, Scheme, Steps, of_tile

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

CHUNK = 4  # registers that travel together: 16 bytes
SCRATCH = "scratch"


@dataclass(frozen=True)
class StreamK:
    """`loop`: the one whose turns are shared out; `sums`: its accumulators; `blocks`: the most there are; `bytes`: of one block's sums.
    The others are variables: the block's place in the row, a tile's first turn in this block, and their number."""

    loop: Loop
    sums: tuple[str, ...]
    blocks: int
    bytes: int
    place: str
    begin: str
    turns: str

    @property
    def flags(self) -> int:
        """Bytes of the flags."""
        return -(-4 * self.blocks // 128) * 128

    @property
    def workspace(self) -> int:
        """Bytes of the workspace."""
        return self.flags + self.blocks * self.bytes


@dataclass(frozen=True)
class Finishes(Scheme):
    """The end of a tile, which the block does that began it."""

    says = "where this block begins the tile, behind the sums of the others"


def stream_k(steps: Steps, facts: Facts) -> Steps:
    """Leaves what stands behind the loop to one of the blocks that share out its turns."""
    stream = facts.stream
    if stream is None:
        return steps

    def change(body: Steps) -> Steps:
        k = next(k for k, n in enumerate(body) if isinstance(n, Over) and n.loop is stream.loop) + 1
        return (*body[:k], Over(body[k:], None, (Finishes(),)))

    return of_tile(steps, change)


def find_stream_k(at: WarpSpecialisedPrinter, blocks: int) -> StreamK | None:
    """The loop of a program that asks for it. Raises UnsupportedOp where it carries more than products, or a cluster shares tiles."""
    first = at.p.body[0] if at.p.body else None
    if not isinstance(first, Loop) or not first.opt("stream"):
        return None
    loops = [n for n in first.body if isinstance(n, Loop)]
    inside = [s for s, _ in walk(loops)]
    if len(loops) != 1 or not at.persistent or at.together > 1 or any(s.op == "reduce" or (s.acc and s.op != "mma") for s in inside):
        raise at.placer.refuse("the steps of tiles are shared out for one loop of products, in blocks that stay and share nothing else")
    sums = tuple(dict.fromkeys(s.dst for s in inside if s.op == "mma"))
    registers = [at.place.layouts[n].registers for n in sums]
    if any(n % CHUNK or at.bufs[x].dtype != F32 for n, x in zip(registers, sums)):
        raise at.placer.refuse(f"{registers} registers of {at.bufs[sums[0]].dtype} are no chunks of {CHUNK} of f32")
    names = (at.names.fresh(n) for n in ("place", "begin", "turns"))
    return StreamK(loops[0], sums, blocks, 4 * sum(registers) * TEAM * at.workers, *names)


@contextmanager
def pieces(at: WarpSpecialisedPrinter, s: StreamK, first: Loop) -> Iterator[None]:
    """The loop over a block's tiles: whole ones, then its piece of the row of the others' turns."""
    total, each = " * ".join(map(at.count, first.axes)), at.turns(s.loop)
    at.put(
        f"const int waves = {total} / gridDim.x, {s.place} = gridDim.x - 1 - blockIdx.x;",
        f"const long long row = (long long)({total} - waves * gridDim.x) * ({each});",
        f"const int end = int(row * ({s.place} + 1) / gridDim.x);",
    )
    head = f"for (int wave_of = 0, next = int(row * {s.place} / gridDim.x); wave_of < waves || next < end; ++wave_of)"
    with at.block(head, again="wave_of"):
        at.put(f"int tile = wave_of * gridDim.x + blockIdx.x, {s.begin} = 0, {s.turns} = {each};")
        with at.block("if (wave_of >= waves)"):
            at.put(f"tile = waves * gridDim.x + next / ({each});", f"{s.begin} = next % ({each});",
                   f"{s.turns} = ac_min({s.turns} - {s.begin}, end - next);", f"next += {s.turns};")  # fmt: skip
        at.grid(first, "tile")
        yield


def mend(at: WarpSpecialisedPrinter, s: StreamK) -> str:
    """Behind the loop: leaves the sums of a piece that does not begin its tile, adds those of a tile's other pieces to the first's.
    The condition under which this block finishes the tile."""
    at.touch(s.sums)
    each = at.turns(s.loop)
    thread = f"(threadIdx.x - {TEAM})"
    flag = lambda block: f"(unsigned *){SCRATCH} + {block}"
    with at.block(f"if ({s.begin} > 0)", row="later"):
        at.plan(Reach("sums", True))
        _chunks(at, s, s.place, "ac_leave")
        at.plan(Fence("__threadfence();", "sums"), Barrier(at.agents), Flag("set", f"if ({thread} == 0) ac_flag_set({flag(s.place)});"))
    with at.block(f"else if ({s.turns} < {each})", row="first"):
        starts = lambda block: f"row * {block} / gridDim.x"
        reach = f"(long long)(tile - waves * gridDim.x + 1) * ({each})"
        with at.block(f"for (int other = {s.place} + 1; {starts('other')} < {reach}; ++other)", row="others"):
            at.put(f"if ({starts('other')} == {starts('(other + 1)')}) continue;")
            at.plan(Flag("take", f"if ({thread} == 0) ac_flag_take({flag('other')});"), Barrier(at.agents), Reach("sums", False, "other"))
            _chunks(at, s, "other", "ac_add_left")
    return f"{s.begin} == 0"


def _chunks(at: WarpSpecialisedPrinter, s: StreamK, block: str, call: str) -> None:
    """A call for each chunk of a thread's sums and its place in the workspace of a block."""
    threads, before = TEAM * at.workers, 0
    at.put(f"unsigned char *const left = {SCRATCH} + {s.flags} + (long long){block} * {s.bytes} + (threadIdx.x - {TEAM}) * {4 * CHUNK};")
    for name in s.sums:
        chunks = at.place.layouts[name].registers // CHUNK
        with at.over(chunks, "q"):
            at.put(f"{call}(left + (q + {before}) * {4 * CHUNK * threads}, &{at.names.of(name)}[q * {CHUNK}]);")
        before += chunks
