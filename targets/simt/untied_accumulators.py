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

from typing import TYPE_CHECKING

from autocomp.ir.types import DType
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

MANY = 32  # sums of a thread; of 16 compilers hold some apart by themselves, and 1088 cubed took 83 us for 78 (H200, 2026-11-29)


def stored_by(at: Printer, s: Stmt, dtype: DType) -> str:
    """The function that stores registers. The directive pays where these are many sums of f32 as a product thread by thread left them: four
    at once, or one by one into a tile in shared memory (`turned_store`; 875 clocks of 512 multiply-adds to 596 so, SASS of 16 x 8 results
    of a^T b)."""
    own = (p for p in at.place.products.values() if p.stmt.dst == s.srcs[0] and not p.instruction.call)
    pays = dtype.name == "f32" and any(p.layout.registers >= MANY for p in own)
    return "ac_store_untied" if at.wants("untied_accumulators", pays) else "ac_store"
