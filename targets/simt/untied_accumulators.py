"""Sums of products thread by thread that leave by way of other registers (directive `untied_accumulators`).

    before   st.global.v4 [out], {acc0, acc1, acc2, acc3}      from the first to the last turn the four lie side by side
    after    t0 = acc0 ^ 0, .. t3 = acc3 ^ 0                   of a zero that the compiler does not know
             st.global.v4 [out], {t0, t1, t2, t3}

The register file of a scheduler has two banks, even numbers and odd ones, that are read once a clock each. A multiply-add whose three
operands come from one bank takes three clocks, from both two, and one where the operand collector still has one of them (SASS: .reuse)
and the others lie in different banks: 1.2, 1.9 to 2.0 and 2.9 clocks of one warp, loop included (patched SASS, H200, 2026-11-28). Factors
that come four at a time lie side by side as well, so that sums which do leave the compiler no way around half of the conflicts.
"""

from __future__ import annotations

from autocomp.targets.simt.placed import Placement

from autocomp.ir.types import DType
from autocomp.tile.program import Stmt


def pays(s: Stmt, at: Placement, dtype: DType, vector: int) -> bool:
    """Whether a store of `vector` elements at once takes sums of f32 as a product thread by thread left them."""
    return vector > 1 and dtype.name == "f32" and any(p.stmt.dst == s.srcs[0] and not p.instruction.call for p in at.products.values())
