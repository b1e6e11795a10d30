"""Epilogue operands into registers before the mainloop (directive `prefetch_epilogue`), packed two half values a register: for operands
whose rows TMA cannot copy.

The loads' latency passes during the product; and the registers that the epilogue needs at once are those of the product and half as many
for each operand beside it, so that residuals do not force smaller tiles.

    before   serial r0                 after   loads of c start, packed
               ..                              serial r0
             c = copy r                          ..
                                               c = copy r
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.load_c import LoadC
from autocomp.targets.simt.access import access_width
from autocomp.targets.simt.expressions import every

from autocomp.tile.program import Loop, Stmt
from autocomp.tile.steps import Act, Over, Scheme, Step, Steps, bodies, by, stmt_of

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


@dataclass(frozen=True)
class Ask(Scheme):
    """The loads of a copy are started; its values come in registers, packed."""

    copy: Stmt

    says = "loads of {0.copy.dst} start, packed"


def prefetch_epilogue(steps: Steps, facts: Facts) -> Steps:
    """Starts the loads of copies that follow a product's loop in front of it."""
    if facts.parts or facts.stream or facts.order:
        return steps

    def change(body: Steps) -> Steps:
        out: list[Step] = []
        for k, n in enumerate(body):
            if isinstance(n, Over) and n.loop and facts.rings(n.loop):
                behind = takewhile(lambda m: not (isinstance(m, Over) and m.loop), body[k + 1 :])
                out += [Act(Ask(s)) for m in behind if (s := stmt_of(m)) and not by(m, LoadC) and _waits_packed(facts, s, n.loop)]
            out.append(n)
        return tuple(out)

    return bodies(steps, change)


def _waits_packed(at: Facts, s: Stmt, loop: Loop) -> bool:
    t = at.p.tensor(s.srcs[0]) if s.op == "copy" else None
    elsewhere = s.dst in at.place.shared or s.dst in at.place.staged or at.queue(s.dst) or s.dst not in at.place.layouts
    if t is None or elsewhere or t.dtype.bytes != 2 or set(t.axes) & set(loop.axes) or (t.guard and t.fill):
        return False
    return access_width(at.p, at.place.layouts[s.dst], t) % 2 == 0


def ask(at: WarpSpecialisedPrinter, s: Stmt) -> None:
    """Prints the loads of a copy; its values are in `at.asked`."""
    t = at.p.tensor(s.srcs[0])
    assert t is not None
    layout, name = at.place.layouts[s.dst], at.names.fresh(f"{at.names.of(s.dst)}_packed")
    v = at.vector(layout, t)
    at.put(f"unsigned {name}[{layout.registers // 2}];")
    with at.registers(layout, "q", v):
        there, guards, address = at.reached(layout, t, f"(q * {v})")
        ok, read = there + guards, f"ac_load_packed<{v}>(&{name}[q * {v // 2}], {address});"
        at.put(*([f"if ({every(ok)}) {read}", f"else ac_fill<{v // 2}>(&{name}[q * {v // 2}], 0u);"] if ok else [read]))
    at.put(f"ac_keep({name});")
    at.asked[s.dst] = name


def held_back(at: WarpSpecialisedPrinter) -> dict[str, int]:
    """Operands of the epilogue that are not in registers one by one before it: how many of their values share one."""
    out = dict.fromkeys(at.asked, 2)
    if at.load_c:
        out[at.load_c.copy.dst] = 4 if at.load_c.halves else 2  # half of them packed, half in shared memory
    return out
