"""Writes at indices on NPUs: how a vector core takes a chunk of the tensor, and what that costs (`targets/ascend/scatters.py` prints it).

    y = x with u at i   ->   for each chunk of x: into unified buffer; of all indices those that name it write there; out again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autocomp.cost.chip import F32, Chip
from autocomp.cost.pipes import BLOCK
from autocomp.ir.node import Attrs
from autocomp.ir.types import TensorType

ROWS = 4095  # that one copy brings, Ascend C documentation
WIDE = 8  # elements of a row from which on vector instructions take it
STAGED = 8  # rows beside a chunk: an update as it lies and as it is computed with, and words that their functions need


@dataclass(frozen=True)
class Chunks:
    """`places` that indices name, of `width` elements each, `each` a chunk. wide: rows of blocks, `pitch` elements apart on chip, which
    vector instructions take; else elements side by side, which the scalar unit takes. halves: computed in single precision."""

    places: int
    width: int
    each: int
    wide: bool
    pitch: int
    halves: bool

    @property
    def count(self) -> int:
        return -(-self.places // self.each)


def chunks(op: str, attrs: Attrs, operands: Sequence[TensorType], chip: Chip) -> Chunks:
    """How a scatter's tensor is shared out."""
    x, index = operands[:2]
    many = int(index.shape[-1]) if op == "scatter_nd" else x.rank  # type: ignore[arg-type]
    sizes = [int(d) for d in x.shape]  # type: ignore[arg-type]
    places, width, size = prod(sizes[:many]), prod(sizes[many:]), x.dtype.bytes
    halves = attrs["reduction"] != "none" and size < F32
    wide = width >= WIDE and width * size >= BLOCK
    pitch = -(-width * size // BLOCK) * BLOCK // size if wide else width
    bytes_ = pitch * (size + (F32 if halves else 0))
    room = int(chip.memory("ub").capacity) - STAGED * pitch * F32 * wide - 4 * BLOCK
    if room < bytes_ and wide:  # a row is longer than what a core holds
        wide, pitch = False, width
    cores = chip.cores * int(chip.limits["vector_cores"])
    most = max(1, min(room // bytes_, -(-places // cores), ROWS if wide else places))
    least = -(-BLOCK // (width * size))  # no two cores write to one block
    return Chunks(places, width, _even(places, max(most, least), least), wide, pitch, halves)


def _even(places: int, most: int, least: int) -> int:
    """Places of a chunk, of which the last is no shorter than `least`."""
    n = -(-places // most)
    while n > 1 and places - (n - 1) * -(-places // n) < least:
        n -= 1
    return -(-places // n)


def scatter_seconds(op: str, attrs: Attrs, operands: Sequence[TensorType], chip: Chip) -> float:
    """Seconds of the indices that a core looks at and of what it writes, beside the bytes of all tensors."""
    of, lim = chip.numbers, chip.limits
    x, index, new = operands
    c = chunks(op, attrs, operands, chip)
    turns = -(-c.count // (chip.cores * int(lim["vector_cores"])))
    updates = new.elements / c.width
    seen = float(index.elements)
    if op == "scatter_elements":
        axis = attrs["axis"]
        outer = prod(int(d) for d in x.shape[:axis])  # type: ignore[arg-type]
        seen *= min(1.0, (c.each * outer / c.places + 1) / outer)
    mine = updates * c.each / c.places
    clocks = seen * (of["scalar_read"] + 4 * of["scalar_step"])
    if c.wide:
        seconds = clocks / chip.clock + mine * _row(c, attrs["reduction"], x.dtype.bytes, chip)
    else:
        seconds = (clocks + mine * c.width * (of["scalar_read"] + of["scalar_write"] + of["scalar_step"])) / chip.clock
    return turns * (seconds + 2 * lim["ub_start"] + 4 * lim["flag"])


def _row(c: Chunks, how: str, size: int, chip: Chip) -> float:
    """Seconds of a row's update: it comes, and is computed with before the next one comes."""
    lim, cores = chip.limits, chip.cores * chip.limits["vector_cores"]
    comes = lim["ub_start"] + c.width * size * cores / lim["ub_in"]
    if how == "none":
        return comes
    calls = 1 + c.halves + (chip.numbers["word_product"] * chip.numbers["word_steps"] if size == F32 and how in ("add", "mul") else 0)
    repeats = c.pitch * calls / (chip.vector["f32"] / cores)
    return comes + 2 * lim["flag"] + calls * lim["vector_start"] + repeats
