"""Writes at indices on NPUs: how a vector core takes a chunk of the tensor, and what that costs (`targets/ascend/scatters.py` prints it).

    y = x with u at i   ->   for each chunk of x: into unified buffer; of all indices those that name it write there; out again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autocomp.cost.chip import F32, Chip
from autocomp.cost.derived import constant
from autocomp.cost.pipes import BLOCK
from autocomp.ir.node import Attrs
from autocomp.ir.types import TensorType, dim_hint

BYTES = int(BLOCK)


@dataclass(frozen=True)
class Chunks:
    """`places` that indices name, of `width` elements each, `each` a chunk. wide: rows of blocks, `pitch` elements apart on chip, which
    vector instructions take; else elements side by side, which the scalar unit takes. halves: computed in single precision. columns:
    a chunk is so many rows of `each` columns, `pitch` apart, and looks at the indices of its own columns alone."""

    places: int
    width: int
    each: int
    wide: bool
    pitch: int
    halves: bool
    columns: int = 0

    @property
    def count(self) -> int:
        return -(-self.places // self.each)


def chunks(op: str, attrs: Attrs, operands: Sequence[TensorType], chip: Chip) -> Chunks:
    """How a scatter's tensor is shared out."""
    x, index = operands[:2]
    many = dim_hint(index.shape[-1]) if op == "scatter_nd" else x.rank
    sizes = [dim_hint(d) for d in x.shape]
    places, width, size = prod(sizes[:many]), prod(sizes[many:]), x.dtype.bytes
    halves = attrs["reduction"] != "none" and size < F32
    wide = width >= constant("scatter_wide") and width * size >= BYTES
    pitch = -(-width * size // BYTES) * BYTES // size if wide else width
    bytes_ = int(pitch * (size + F32 * halves))
    room = int(chip.memory("ub").capacity - wide * constant("scatter_staged") * pitch * F32 - constant("scatter_spare"))
    if room < bytes_ and wide:  # a row is longer than what a core holds
        wide, pitch = False, width
    cores = int(chip.cores * chip.limits["vector_cores"])
    most = max(1, min(room // bytes_, -(-places // cores), int(constant("scatter_rows")) if wide else places))
    least = -(-BYTES // (width * size))  # no two cores write to one block
    if op == "scatter_elements" and (found := _columns(attrs["axis"], operands, room, cores, halves, "whole_blocks" in chip.features)):
        return found
    return Chunks(places, width, _even(places, max(most, least), least), wide, pitch, halves)


def _columns(axis: int, operands: Sequence[TensorType], room: int, cores: int, halves: bool, ends: bool) -> Chunks | None:
    """Chunks of columns, where nothing stands in front of the axis that indices count, each column has indices, and one copy has all rows.
    ends: of whole blocks, as each row's end would be put together by the scalar unit."""
    x, index = ([dim_hint(d) for d in t.shape] for t in operands[:2])
    size, length, inner = operands[0].dtype.bytes, x[axis], prod(x[axis + 1 :])
    block = BYTES // size
    if prod(x[:axis]) > 1 or index[axis + 1 :] != x[axis + 1 :] or inner < 2 * block or length > constant("scatter_rows"):
        return None
    most = int(room / (length * (size + F32 * halves))) // block * block
    fits = lambda n: not (left := inner % n) or (left * size % BYTES == 0 if ends else left >= block)  # no two cores write to one block
    each = next((n for n in range(-(-inner // (block * cores)) * block, most + 1, block) if fits(n)), 0)
    return Chunks(inner, 1, each, False, each, halves, length) if each else None


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
    if c.columns:
        seen *= c.each / c.places
    elif op == "scatter_elements":
        axis = attrs["axis"]
        outer = prod(map(dim_hint, x.shape[:axis]))
        seen *= min(1.0, (c.each * outer / c.places + 1) / outer)
    mine = updates * c.each / c.places
    clocks = seen * (of["scalar_read"] + constant("scatter_steps") * of["scalar_step"])
    if c.wide:
        seconds = clocks / chip.clock + mine * _row(c, attrs["reduction"], x.dtype.bytes, chip)
    else:
        seconds = (clocks + mine * c.width * (of["scalar_read"] + of["scalar_write"] + of["scalar_step"])) / chip.clock
    return turns * (seconds + lim["ub_start"] + 2 * lim["flag"])


def _row(c: Chunks, how: str, size: int, chip: Chip) -> float:
    """Seconds of a row's update: it comes, and is computed with before the next one comes."""
    lim, cores = chip.limits, chip.cores * chip.limits["vector_cores"]
    comes = lim["ub_start"] + c.width * size * cores / lim["ub_in"]
    if how == "none":
        return comes
    calls = 1 + c.halves + (chip.numbers["word_product"] * chip.numbers["word_steps"] if size == F32 and how in ("add", "mul") else 0)
    repeats = c.pitch * calls / (chip.vector["f32"] / cores)
    return comes + lim["flag"] + calls * lim["vector_start"] + repeats
