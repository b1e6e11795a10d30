"""The schedule record: everything that a scheduling rule may say. None of it names a kind of kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """How one kernel runs. Axis names are the kernel's.

    tile       (axis, size) pairs: an axis whose tile is its extent lies whole inside the tile; an output axis with a
               smaller tile is a grid axis; a reduced axis with a smaller tile becomes a loop. Axes not named are whole.
    vector     (axis, lanes): the axis that runs across vector lanes, and how many.
    order      grid axes from outermost to innermost; () = as in the output. `grouped` walks that many rows of tiles first.
    parallel   grid axes whose iterations may run at once.
    skew       rows of a unimodular matrix over the loop axes, () = identity.
    stages     ring depth of copies in the reduction's loop; roles/workers/threads/cluster/persistent/overlap: who
               runs what on a GPU or NPU (docs/architecture.md).
    resident   blocks that share a core: each has that part of its registers and shared memory.
    apart      each consuming warpgroup has tiles of its own; their products take turns.
    lazy       a base under which other states are kept (the maximum of a softmax) moves only where a step's weights would sum to more
               than 2^lazy; 0: in every step.
    deep       blocks of a cluster that each compute a part of the depth of one tile; then the cluster is as large.
    stream     blocks that stay share out the steps of the last tiles evenly; who begins a tile adds the others' sums.
    split      (axis, parts): the reduction over axis is done in parts that a second kernel combines (`ir.parts`);
    join       that kernel's tile as (axis, size) pairs, and ("threads", n).
    """

    tile: tuple[tuple[str, int], ...] = ()
    vector: tuple[str, int] | None = None
    order: tuple[str, ...] = ()
    grouped: int = 0
    parallel: tuple[str, ...] = ()
    skew: tuple[tuple[int, ...], ...] = ()
    stages: int = 1
    roles: str = "single"
    workers: int = 1
    resident: int = 1
    threads: int = 256
    cluster: int = 1
    deep: int = 1
    persistent: bool = False
    apart: bool = False
    stream: bool = False
    overlap: int = 0
    lazy: int = 0
    split: tuple[str, int] | None = None
    join: tuple[tuple[str, int], ...] = ()
    instruction: str = ""

    def tiled(self, tile: tuple[tuple[str, int], ...]) -> Schedule:
        """The same with another tile: `dataclasses.replace` in a twentieth of its time, as a kernel has thousands of such schedules."""
        out = object.__new__(Schedule)
        out.__dict__.update(self.__dict__, tile=tile)
        return out

    @staticmethod
    def make(tile: Mapping[str, int], **rest: object) -> Schedule:
        return Schedule(tile=tuple(sorted(tile.items())), **rest)  # type: ignore[arg-type]
