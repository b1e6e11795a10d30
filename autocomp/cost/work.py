"""What a kernel asks of a chip, as numbers: the common currency of cut selection and schedule selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from autocomp.quick import quick


class Work(NamedTuple):
    """Totals of one kernel launch.

    read, written   bytes moved from and to main memory (each distinct leaf once, times the passes over it)
    read_eff        share of each fetched line or vector that is used, in (0, 1]: 1 when the innermost axis is contiguous
    matrix          floating point operations of contractions (a multiply-add counts two), of type `matrix_dtype`
    vector          element-wise and reduction operations (one each)
    special         exp, log, erf, tanh, sqrt, division and the like
    m, n, k         the contraction's rows, columns, depth: tails and tile quantisation (0: without one, or counted in matrix_eff)
    matrix_eff      share of the unit's lanes that the contraction's vector axis fills, in (0, 1]
    copies          copies of less than 16 bytes by which factors of contractions come to the unit (see `cost.copies`)
    tiles           independent units of work that can run at once (0: unknown)
    words           of the vector operations, sums, differences and products of integers of 32 bits
    apart           a factor of the contraction does not lie in memory as a unit takes it: it is computed, has a border or a depth in pieces
    stays           bytes by which the cache is chosen that the traffic comes from (0: all that moves)
    """

    read: float = 0.0
    written: float = 0.0
    read_eff: float = 1.0
    matrix: float = 0.0
    matrix_dtype: str = "f32"
    vector: float = 0.0
    special: float = 0.0
    m: int = 0
    n: int = 0
    k: int = 0
    matrix_eff: float = 1.0
    tiles: int = 0
    copies: float = 0.0
    stays: float = 0.0
    words: float = 0.0
    apart: bool = False


@quick
@dataclass(frozen=True)
class Cost:
    """Predicted time. `bound` names the binding resource; `parts` has the seconds of every resource."""

    seconds: float
    bound: str
    parts: tuple[tuple[str, float], ...] = ()
