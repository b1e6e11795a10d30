"""A contraction with its place: what placement decides and printers read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.tile.instruction import Instruction
from autocomp.tile.layout import Layout
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.simt.placement import Shared


@dataclass(frozen=True)
class Product:
    """A contraction placed: its instruction, its axes as (axis, size) innermost first, and how often it repeats in a wave;
    parts: waves that share its depth."""

    stmt: Stmt
    instruction: Instruction
    m: tuple[tuple[str, int], ...]
    n: tuple[tuple[str, int], ...]
    k: tuple[tuple[str, int], ...]
    repeat: tuple[int, int]
    waves: tuple[int, int]
    steps: int
    layout: Layout
    a: str
    b: str
    parts: int = 1

    def deep(self, x: Shared) -> bool:
        """Whether a factor lies along this product's reduced axes: one buffer may be a factor of two products."""
        return x.inner[0][0] in [a for a, _ in self.k] if x.inner else x.deep
