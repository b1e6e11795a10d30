"""A first operand of wgmma that the consumer warpgroups compute: written to shared memory by stmatrix, swizzled in rows of 128 bytes as
the instruction reads it, with a proxy fence (fence.proxy.async) between writing and reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autocomp.targets.simt.expressions import STORED

from autocomp.tile.layout import weights
from autocomp.tile.plan import Box, Fence

if TYPE_CHECKING:
    from autocomp.targets.cuda.team_placer import Laid
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

TEAM_WARPS = 4


def lay_down(at: WarpSpecialisedPrinter, x: Laid) -> None:
    """Registers to rows of 128 bytes, swizzled as matrix instructions read them, and the fence between the two. Raises UnsupportedOp
    where the registers do not lie as an accumulator."""
    layout, kind = at.place.layouts[x.buf.name], STORED[x.buf.dtype.name]
    reg = layout.reg
    form = [(d.axis, d.stride, d.count) for d in reg[:2]]
    if form != [(x.column, 1, 2), (x.row, 8, 2)] or len(reg) != 3 or (reg[2].axis, reg[2].stride) != (x.column, 8) or reg[2].count % 2:
        raise at.placer.refuse(f"{x.buf.name} does not lie as an accumulator: {layout}")
    teams = {d.axis: (d.stride, d.count, w) for d, w in weights(layout.wave) if w >= TEAM_WARPS}
    part = lambda a: f" + wave / {teams[a][2]} % {teams[a][1]} * {teams[a][0]}" if a in teams else ""
    box = f"{at.memory} + {x.offset} + column / 64 * {x.box_bytes}"
    with at.over(reg[2].count // 2, "q"):
        at.put("unsigned part[4];", f"ac_pack<{kind}, 8>(part, &{at.names.of(x.buf.name)}[q * 8]);",
               f"const int row = wave % 4 * 16 + lane % 16{part(x.row)}, column = q * 16{part(x.column)};",
               f"ac_stmatrix4({box} + ac_swizzle<128>(row, column % 64 * 2 + lane / 16 * 16), part);")  # fmt: skip
    at.plan(Box(x.buf.name, "write", far=True), Fence("ac_async_fence();"))
