"""What runs through its reference, on one core of the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autocomp.cost.chip import Chip
    from autocomp.ir.types import TensorType


def reference_seconds(operands: Iterable[TensorType], chip: Chip) -> float:
    """Seconds of an op that has no generated code; symbols at their hints. A host's clock is taken to be the chip's."""
    n = chip.numbers
    return (n["reference_call"] + sum(t.elements for t in operands) * n["reference_element"]) / chip.clock
