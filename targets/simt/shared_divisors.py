"""Quotients by what several elements of a thread share (directive `shared_divisors`): products with its reciprocal, corrected.

    before   for r in 0..24: q[r] = x[r] / s[0]
    after    for r in 0..24: q[r] = ac_divide(x[r], s[0])

A quotient of f32 takes a reciprocal, a check and a jump to a slow path each; of `ac_divide` what the divisor alone decides is computed once
for all elements, as compilers take pure expressions that are equal for one, and nothing jumps. Two corrections leave what a division
leaves: this is for quotients that are rounded or compared. Others are a plain product with the reciprocal (rules/idioms.yaml,
divide-by-row).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autocomp.ir.body import Const, Expr, Map, postorder
from autocomp.tile.layout import Layout
from autocomp.tile.program import Value

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer


def shared(at: Printer, layout: Layout, divisor: Expr) -> bool:
    """Whether elements of a thread, which lie as `layout` says, divide by the same value, and the schedule asks for it."""
    values = [x for x in postorder(divisor) if not isinstance(x, (Map, Const))]
    if at.exact or not values or not all(isinstance(x, Value) and x.name in at.place.layouts for x in values):
        return False
    most = max(at.place.layouts[x.name].registers for x in values if isinstance(x, Value))
    return at.wants("shared_divisors", 2 * most <= layout.registers)
