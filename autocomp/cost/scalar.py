"""What a kernel costs that scalar units compute, element by element: the fall-back of chips whose cores have vector and matrix units."""

from __future__ import annotations

from autocomp.cost.chip import Chip
from autocomp.cost.demand import Demand
from autocomp.cost.work import Cost, Work
from autocomp.ir.scalar import SCALAR as FUNCTIONS

EXPONENTIAL = FUNCTIONS["exp"]
SCALAR = "scalar"  # a schedule's instruction
FALLBACK = "scalar unit, the fall-back"  # what binds it


def scalar_time(d: Demand, chip: Chip) -> Cost:
    """Seconds: each core's elements in turn, every operation, read and write by itself; nothing overlaps.

    A multiply-add reads both factors; an operand of anything else is read once for each of its elements, or for each element of the result
    where that has more. Elementary functions are polynomials in single steps.
    One core makes results in another order than memory's where copies are of whole blocks.
    """
    n = chip.numbers
    w = d.work
    items = max(1, d.tiles({a: 1 for a in d.extent}))
    cores = 1 if "whole_blocks" in chip.features and not d.in_order else min(items, chip.cores * int(chip.limits["vector_cores"]))
    reads = w.matrix + max([w.vector / 2, *(a.bytes / a.element for a in d.operands)])
    clocks = reads * n["scalar_read"] + (w.matrix / 2 + w.vector + w.special * d.steps * EXPONENTIAL.steps) * n["scalar_step"]
    clocks += items * n["scalar_write"]
    seconds = clocks / cores / chip.clock
    start = chip.limits["tile"]
    return Cost(seconds + start + chip.launch, FALLBACK, (("scalar unit", seconds), ("tiles", start), ("launch", chip.launch)))


def product_seconds(work: Work, chip: Chip) -> float:
    """Seconds of a product's operations where no kernel of the cube unit is printed for it, so that scalar units multiply; 0 elsewhere: on
    cores whose L0A holds fractals by columns any, of types that the unit lacks, on cores of one kind those of other factors than halves or
    of a depth that is no multiple of a fractal, or with borders (`targets/ascend/coupled.py`)."""
    one = "one_core_kind" in chip.features and (work.matrix_dtype != "f16" or work.k % chip.granule[2] > 0 or work.apart)
    lacks = f"no_products_of_{work.matrix_dtype}" in chip.features and "vector_cores" in chip.limits
    if not work.matrix or not (one or lacks or "l0a_by_columns" in chip.features):
        return 0.0
    clocks = work.matrix * (chip.numbers["scalar_read"] + chip.numbers["scalar_step"] / 2)
    return clocks / (chip.cores * chip.limits["vector_cores"] * chip.clock)
