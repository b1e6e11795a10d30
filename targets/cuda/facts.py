"""What passes know of a kernel with roles: where its values lie, its rings, who shares its tiles. None of it changes while passes run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.simt import facts as placed
from autocomp.targets.simt.placed import tile_of

from autocomp.ir.types import DType
from autocomp.tile.layout import Layout
from autocomp.tile.program import Loop, Stmt

if TYPE_CHECKING:
    from autocomp.targets.cuda.cluster_split_k import ClusterSplitK
    from autocomp.targets.cuda.ping_pong import PingPong
    from autocomp.targets.cuda.queues import Queue
    from autocomp.targets.cuda.stream_k import StreamK
    from autocomp.targets.cuda.team_placer import TeamPlacer


@dataclass(frozen=True)
class Facts(placed.Facts):
    """`workers` warpgroups share a tile; blocks of a cluster of `together`, neighbours along `paired`, share a factor; those of `parts`
    share a tile's depth. `persistent`: blocks stay; `free`: bytes of shared memory beside rings and barriers; `narrow`: the graph has
    what it computes, and its products, in half types."""

    placer: TeamPlacer
    queues: tuple[Queue, ...]
    workers: int
    persistent: bool
    together: int
    paired: str
    parts: ClusterSplitK | None
    stream: StreamK | None
    order: PingPong | None
    free: float
    narrow: bool

    def queue(self, name: str) -> Queue | None:
        """The ring through which a value comes."""
        return next((q for q in self.queues if any(s.dst == name for s in q.copies)), None)

    def rings(self, loop: Loop | None) -> list[Queue]:
        """Those whose turns a loop's turns are."""
        return [q for q in self.queues if loop is not None and q.loop is loop]

    def in_shares(self, layout: Layout) -> bool:
        """Whether the blocks of a cluster finish a share each of what lies so."""
        return self.parts is not None and layout.reg == self.place.layouts[self.parts.sums[0][0]].reg

    @property
    def takers(self) -> int:
        """Warpgroups that take tiles by turns; each has slots of its own, so that a wait by parity sees its own turns alone."""
        return self.order.teams if self.order else 1

    @property
    def gridded(self) -> frozenset[str]:
        """Axes whose tiles blocks take."""
        first = self.p.body[0] if self.p.body else None
        return frozenset(first.axes) if isinstance(first, Loop) and first.kind == "grid" else frozenset()

    def turns(self, loop: Loop) -> int:
        """A loop's turns; 0 where the program does not know them."""
        total = 1
        for a in loop.axes:
            n = self.p.extent(a)
            total *= -(-n // tile_of(self.p, a)) if isinstance(n, int) and loop.until is None else 0
        return total

    def dtype(self, name: str) -> DType:
        """Of a value."""
        return next(b.dtype for b in self.p.bufs if b.name == name)

    def crosses_waves(self, s: Stmt) -> bool:
        """Whether warps exchange their parts of a reduction."""
        return any(d.axis in s.axis.split(",") for d in self.place.layouts[s.srcs[0]].wave)

    def comes_in_bulk(self, s: Stmt) -> bool:
        """Whether a statement is a copy through a ring."""
        return s.op == "copy" and self.queue(s.dst) is not None
