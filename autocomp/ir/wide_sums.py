"""Sums of f32 products kept in f64, for matrix units that multiply f64 (a schedule's instruction `f64`).

    contract f32 (x, y)   ->   cast f32 (contract f64 (x, y))

Every product of two f32 is exact in f64, and so is each factor: what differs from sums in f32 is that their rounding is left out.
"""

from __future__ import annotations

from dataclasses import replace

from autocomp.ir.body import Contract, Expr, Map, rewrite
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import F32, F64

WIDE_SUMS = "f64"  # the word of a schedule


def with_wide_sums(k: Kernel) -> Kernel:
    """The kernel whose contractions of f32 factors are summed in f64 and rounded once."""
    return replace(k, stores=tuple(replace(s, value=rewrite(s.value, _widened)) for s in k.stores))


def _widened(e: Expr) -> Expr:
    if isinstance(e, Contract) and e.dtype == e.a.dtype == e.b.dtype == F32:
        return Map(F32, "cast", (replace(e, dtype=F64),))
    return e
