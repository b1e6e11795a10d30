"""Epilogue operands into registers before the mainloop (directive `prefetch_epilogue`), packed two half values a register: for operands
whose rows TMA cannot copy.

The loads' latency passes during the product; and the registers that the epilogue needs at once are those of the product and half as many
for each operand beside it, so that residuals do not force smaller tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autocomp.targets.simt.expressions import STORED

from autocomp.tile.program import Loop, Stmt, Tensor

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


def ask(at: WarpSpecialisedPrinter, loop: Loop, behind: Sequence[Loop | Stmt]) -> None:
    """Prints the loads of copies that follow a product's loop; their values are `at.early`."""
    if at.parts or at.stream or not any(q.loop is loop for q in at.queues):
        return
    for s in behind:
        if isinstance(s, Loop):
            break
        t = at.p.tensor(s.srcs[0]) if s.op == "copy" and s.dst not in at.early and not (at.load_c and at.load_c.copy is s) else None
        if t is not None and at.wants("prefetch_epilogue", _waits_packed(at, s, t, loop)):
            _load(at, s, t)


def _waits_packed(at: WarpSpecialisedPrinter, s: Stmt, t: Tensor, loop: Loop) -> bool:
    elsewhere = s.dst in at.place.shared or s.dst in at.place.staged or s.dst in at.of
    if elsewhere or s.dst not in at.place.layouts or t.dtype.bytes != 2 or set(t.axes) & set(loop.axes) or (t.guard and t.fill):
        return False
    return at.vector(at.place.layouts[s.dst], t) % 2 == 0


def _load(at: WarpSpecialisedPrinter, s: Stmt, t: Tensor) -> None:
    layout, name = at.place.layouts[s.dst], at.names.fresh(f"{at.names.of(s.dst)}_packed")
    v = at.vector(layout, t)
    at.put(f"unsigned {name}[{layout.registers // 2}];")
    with at.registers(layout, "q", v):
        there, guards, address = at.reached(layout, t, f"(q * {v})")
        ok, read = there + guards, f"ac_load_packed<{v}>(&{name}[q * {v // 2}], {address});"
        at.put(*([f"if ({' && '.join(ok)}) {read}", f"else ac_fill<{v // 2}>(&{name}[q * {v // 2}], 0u);"] if ok else [read]))
    at.put(f"ac_keep({name});")
    at.early[s.dst] = name


def unpack(at: WarpSpecialisedPrinter, s: Stmt, t: Tensor) -> None:
    """Prints the values of a copy that was asked for early."""
    layout, name = at.place.layouts[s.dst], at.names.of(s.dst)
    v = at.vector(layout, t)
    with at.registers(layout, "q", v):
        at.put(f"ac_unpack<{STORED[t.dtype.name]}, {v}>(&{name}[q * {v}], &{at.early[s.dst]}[q * {v // 2}]);")


def held_back(at: WarpSpecialisedPrinter) -> dict[str, int]:
    """Operands of the epilogue that are not in registers one by one before it: how many of their values share one."""
    out = dict.fromkeys(at.early, 2)
    if at.load_c:
        out[at.load_c.copy.dst] = 4 if at.load_c.halves else 2  # half of them packed, half in shared memory
    return out
