"""Large tensors that are read once (directive `evict_first`): the loads that say so, lest their lines displace what others left in L2."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.simt.access import read_once

from autocomp.tile.program import Tensor

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

LEFT = 8  # times what a kernel stores that it reads at least, where little of what it moves is stored


def once(at: Printer, t: Tensor, v: int) -> str:
    """"_once" for whole copies of the one large tensor that streams through a product of few rows: the rest of L2 stays.

    Weights of 33 and 134 MB took 0.81 and 0.91 of the time (with L2 full of lines to be written back; benchmarks/gpu.py, H200, 2026-11-21).
    """
    if "evict_first" not in at.directives or v * t.dtype.bytes != 16 or not at.place.products or not _large(at, t):
        return ""
    others = {x.buffer: _bytes(x) for x in at.p.inputs if x.buffer != t.buffer}
    alone = sum(others.values()) < at.streaming[0] and read_once(at.p, t, at.count)
    return "_once" if at.wants("evict_first", alone) else ""


def streamed(at: Printer, t: Tensor, v: int) -> str:
    """"_streamed" for copies of a large tensor of which little is left, as sums and extremes leave it.

    Sums, variances and extremes of 20 to 118 MB by rows, columns and planes took 0.87 to 0.98 of the time, of 420 MB 0.99, of 0.9 to 2.7 GB
    1.03 to 1.11; maps, norms and windows that overlap 1.0 to 1.4 (32 kernels, L2 full of lines to be written back, H200, 2026-12-01).
    """
    if "evict_first" not in at.directives or v * t.dtype.bytes not in (4, 8, 16) or at.place.products or not _large(at, t):
        return ""
    stored = sum({x.buffer: _bytes(x) for x in at.p.outputs}.values())
    return "_streamed" if at.wants("evict_first", LEFT * stored <= _bytes(t) and read_once(at.p, t, at.count)) else ""


def _large(at: Printer, t: Tensor) -> bool:
    """Whether a tensor is large for L2, but not so many times its size that nothing of what others left there lasts anyway."""
    low, high = at.streaming
    return low <= _bytes(t) <= high


def _bytes(t: Tensor) -> int:
    """Bytes of a tensor's buffer; 0 where a size is not known."""
    return prod(t.shape) * t.dtype.bytes if all(isinstance(n, int) for n in t.shape) else 0  # type: ignore[arg-type]
