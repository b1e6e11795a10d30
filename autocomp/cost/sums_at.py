"""Sums at indices that data give, by atomics (`sum_at`): what they take beside the bytes of operands and result."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from autocomp.ir.types import dim_hint

if TYPE_CHECKING:
    from autocomp.cost.chip import Chip
    from autocomp.ir.node import Attrs
    from autocomp.ir.types import TensorType


def run_of(index: TensorType, updates: TensorType, axis: int) -> int:
    """Neighbouring elements of the updates that have one index: rows behind the axis where all of a row's have the same, else one."""
    behind = prod(dim_hint(d) for d in updates.shape[axis + 1 :])
    return behind if behind > 1 and index.elements == dim_hint(updates.shape[axis]) else 1


def sums_seconds(attrs: Attrs, operands: Sequence[TensorType], made: TensorType, chip: Chip) -> float:
    """What they take beside their bytes. L2 adds so many sectors a clock on the whole chip, more of single elements, and those of one
    sector one after the other; lanes of a warp that go to one sector are one. Indices are taken to be spread evenly. Zeros are a launch
    of their own, beside which no other one starts."""
    of, (index, updates) = chip.numbers, operands
    each = of["sector"] / made.dtype.bytes
    places = max(1.0, made.elements / each)
    run = run_of(index, updates, attrs["axis"])
    warp = of["warp_rows"] * 2
    apart = warp / min(run, each) if run > 1 else places * (1 - (1 - 1 / places) ** warp)
    asked = updates.elements / warp * apart
    rate = of["atomic_sectors"] if run > 1 else of["atomic_places"]
    busy = max(asked / rate, asked / places * of["atomic_again"]) / chip.clock
    moved = sum(t.bytes for t in (index, updates, made)) / chip.memories[0].bandwidth
    return max(0.0, busy - moved) + 2 * chip.launch
