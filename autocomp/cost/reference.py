"""What has no body: through its reference, on one core of the host, or by a function of the target's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import log
from typing import TYPE_CHECKING

from autocomp.cost.roofline import time_of
from autocomp.cost.scatters import scatter_seconds
from autocomp.cost.selection import selection_seconds
from autocomp.cost.sums_at import sums_seconds
from autocomp.cost.work import Cost, Work
from autocomp.ir.coded import CHUNKED
from autocomp.ir.types import dim_hint

if TYPE_CHECKING:
    from autocomp.cost.chip import Chip
    from autocomp.ir.kernel import Kernel
    from autocomp.ir.node import Attrs
    from autocomp.ir.types import TensorType


NAMES = {"sum_at": "atomics", "scatter_nd": "updates", "scatter_elements": "updates"}


def reference_seconds(operands: Iterable[TensorType], chip: Chip) -> float:
    """Seconds of an op that has no generated code; symbols at their hints. A host's clock is taken to be the chip's."""
    n = chip.numbers
    return (n["reference_call"] + sum(t.elements for t in operands) * n["reference_element"]) / chip.clock


def coded_cost(kernel: Kernel, chip: Chip) -> Cost:
    """The cost of a target's own function: each operand and the result pass once, and what is put in order takes its time."""
    read, written = (float(sum(a.type.bytes for a in args)) for args in (kernel.inputs, kernel.outputs))
    cost = time_of(Work(read=read, written=written, vector=float(kernel.inputs[-1].type.elements)), chip)
    more = own_seconds(kernel.opaque, kernel.attrs, [a.type for a in kernel.inputs], kernel.outputs[0].type, chip)
    if not more:
        return cost
    name = NAMES.get(kernel.opaque, "order")
    bound = name if more > cost.seconds else cost.bound
    return replace(cost, seconds=cost.seconds + more, bound=bound, parts=(*cost.parts, (name, more)))


def own_seconds(op: str, attrs: Attrs, operands: Sequence[TensorType], made: TensorType, chip: Chip) -> float:
    """What an order of rows, or sums at indices, take beside their bytes, 0 for other ops. Functions of CPUs keep the first few of a row
    in order while it passes by, or sort it, what is certainly behind left out before (`targets/cpu/orders.py`); cores share the rows."""
    if op == "radix_topk":
        return selection_seconds(attrs, operands[0], chip)
    if op == "sum_at":
        return sums_seconds(attrs, operands, made, chip)
    if CHUNKED in chip.features and op in ("scatter_nd", "scatter_elements"):
        return scatter_seconds(op, attrs, operands, chip)
    if op != "topk":
        return 0.0
    of, x = chip.numbers, operands[0]
    n = dim_hint(x.shape[attrs["axis"]])
    rows = x.elements // max(n, 1)
    k = made.elements // max(rows, 1)
    if 0 < k <= of["order_in_front"] and n >= of["order_few"] * k:  # of elements in any order the j-th is among the first k by k / j
        clocks = n * of["order_passed"] + k * (1 + log(n / k)) * of["order_kept"]
    else:
        cut = n >= of["order_few"] * max(k, of["order_short"])
        clocks = of["order_row"] + (k if cut else n) * of["order_sorted"] + cut * n * of["order_counted"]
    return -(-rows // chip.cores) * clocks / chip.clock
