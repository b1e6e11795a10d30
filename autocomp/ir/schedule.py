"""The schedule record: everything that a scheduling rule may say. None of it names a kind of kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autocomp.quick import quick


@quick
@dataclass(frozen=True)
class Schedule:
    """How one kernel runs. Axis names are the kernel's; `ir.schedule_text` prints and parses it.

    tile        (axis, size) pairs: an axis whose tile is its extent lies whole inside the tile; an output axis with a smaller tile is a
                grid axis; a reduced axis with a smaller tile becomes a loop. Axes not named are whole.
    vector      (axis, lanes): the axis that runs across vector lanes, and how many.
    order       grid axes from outermost to innermost; () = as in the output.
    grouped     rows of tiles that are walked together, column by column, so that blocks which run at once share factors in L2.
    parallel    grid axes whose iterations may run at once.
    skew        rows of a unimodular matrix over the loop axes, () = identity.
    stages      slots of the ring of copies in the reduction's loop (software pipelining).
    threads     threads of a block without roles.
    roles       "single": all warps do the same; "warp_specialise": one producer warpgroup starts copies, `workers` consumer warpgroups
                compute.
    resident    blocks that share a core: each has that part of its registers and shared memory.
    cluster     blocks of a thread block cluster; where they share a factor its copies are multicast.
    persistent  a block computes one tile after another; there are as many as run at once. On NPUs, whose cores always do: the first
                rounds of a tile run beside the late ones of the tile before (`softmax_overlap`).
    ping_pong   each consumer warpgroup has tiles of its own; one's epilogue overlaps another's products.
    scan        a running reduction is made by one scan of the row, which lies whole in the tile, not by a fold for each element.
    stream_k    persistent blocks share out the depth of the last tiles evenly; who begins a tile adds the others' sums.
    cluster_split_k    blocks of a cluster that each sum a part of the depth of one tile; they add up through distributed shared memory.
    split       (axis, parts): the reduction over axis is done in parts that a second kernel combines (`ir.parts`; split-K, split-KV).
    join        that kernel's tile as (axis, size) pairs, and ("threads", n).
    softmax_overlap    1: the second product of attention runs one step late, beside the softmax of the next step; 2: it is waited for
                together with the scores, which takes fewer registers.
    rescale_threshold  n: the base of a running softmax moves only where a step's weights would sum to more than 2^n; 0: in every step.
    instruction the matrix instruction, where not the target's first: "direct" (factors from registers), "tf32", "f64" (sums of f32
                products in f64, `ir.wide_sums`); or, of threads that
                multiply, "square" (pieces of 4 x 4 results) or "narrow" (two threads along a row).
    directives  what its code does beside, names of `ir.directives` in that table's order.
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
    cluster_split_k: int = 1
    persistent: bool = False
    ping_pong: bool = False
    stream_k: bool = False
    scan: bool = False
    softmax_overlap: int = 0
    rescale_threshold: int = 0
    split: tuple[str, int] | None = None
    join: tuple[tuple[str, int], ...] = ()
    instruction: str = ""
    directives: tuple[str, ...] = ()

    def tiled(self, tile: tuple[tuple[str, int], ...]) -> Schedule:
        """The same with another tile."""
        return self._changed(tile=tile)

    def apart(self, tile: tuple[tuple[str, int], ...], order: tuple[str, ...]) -> Schedule:
        """The same of the first piece of a split reduction."""
        return self._changed(tile=tile, order=order, split=None, join=())

    def told(self, directives: tuple[str, ...]) -> Schedule:
        """The same with other directives."""
        return self._changed(directives=directives)

    def _changed(self, **fields: object) -> Schedule:
        """`dataclasses.replace` in a twentieth of its time, as a kernel has thousands of such schedules."""
        out = object.__new__(Schedule)
        out.__dict__.update(self.__dict__, **fields)
        return out

    @staticmethod
    def make(tile: Mapping[str, int], **rest: object) -> Schedule:
        return Schedule(tile=tuple(sorted(tile.items())), **rest)  # type: ignore[arg-type]
