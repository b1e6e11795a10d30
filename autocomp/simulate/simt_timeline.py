"""A GPU block's pipes over time, by the phases of its plan: what it issues between two barriers, and what its warps wait for there.

In each turn of a phase the warps first wait for what they need, then keep the pipes busy; the fullest one says how long. Kernels that
are not counted (roles of warps, rows in slots, factors straight from memory) have the units of their price, each from the beginning.
"""

from __future__ import annotations

from autocomp.cost.chip import Chip
from autocomp.cost.issue import Issued
from autocomp.cost.printed import life
from autocomp.cost.work import Cost
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.simulate.timeline import Bar, Picture, picture
from autocomp.targets.maca.target import MacaTarget, instructions
from autocomp.targets.simt.count import count
from autocomp.tile.derive import derive

TURNS = 12  # of a phase that are drawn one by one; the rest are one bar
WAITS = {"load": "a load", "shared": "shared memory", "special": "a special function or product", "arithmetic": "arithmetic",
         "exchange": "an exchange between lanes", "barrier": "the barrier", "branch": "a branch"}  # fmt: skip


def issued_of(target: object, kernel: Kernel, s: Schedule) -> Issued | None:
    """What a block issues, None where that is not counted."""
    try:
        if isinstance(target, MacaTarget):
            matrix, plain = instructions()
            counted = count(derive(kernel, s, short=True), s, target.chip, matrix, plain)
            return counted.issued(s.stages, target.chip.memory("shared").capacity) if counted else None
        found: Issued | None = target.issued(kernel, s)  # type: ignore[attr-defined]
        return found
    except (UnsupportedOp, DoesNotFit):
        return None


def timeline(kernel: str, work: Issued | None, cost: Cost, chip: Chip) -> Picture:
    """The picture of a block's life, or of the price where its phases are not known."""
    if work is None:
        return of_price(kernel, cost)
    bars: list[Bar] = []
    at = 0.0
    phases = life(work, chip)
    lanes = dict.fromkeys(n for _, pipes, _ in phases for n in sorted(pipes))
    for i, (turns, pipes, waits) in enumerate(phases):
        alone = min(turns, float(TURNS))
        whole = int(alone)
        for times in [1.0] * whole + [x for x in (alone - whole, turns - alone) if x > 1e-9]:
            at = _turn(f"phase {i + 1}", times, pipes, waits, chip.clock, at, bars, lanes)
    note = f"a block of {work.blocks:.0f}, {len(phases)} phases between barriers"
    return picture(kernel, lanes, bars, note)


def _turn(name: str, times: float, pipes: dict[str, float], waits: dict[str, float], clock: float, at: float, bars: list[Bar],
          lanes: dict[str, None]) -> float:  # fmt: skip
    """The bars of one bar's turns; where they end."""
    said = name if times == 1 else f"{name}, {times:g} turns"
    busy = at + sum(waits.values()) * times / clock
    end = busy + max(pipes.values(), default=0.0) * times / clock
    fullest = max(pipes, key=lambda n: pipes[n], default="")
    for lane in lanes:
        begun = at
        for kind, clocks in waits.items():
            bars.append(Bar(lane, begun, begun + clocks * times / clock, WAITS[kind], stall=True))
            begun += clocks * times / clock
        if mine := pipes.get(lane, 0.0) * times / clock:
            bars.append(Bar(lane, busy, busy + mine, said))
        if fullest and busy + mine < end:
            bars.append(Bar(lane, busy + mine, end, f"{fullest}, the fullest pipe", stall=True))
    return end


def of_price(kernel: str, cost: Cost) -> Picture:
    """A kernel whose phases are not counted: each unit that its price names, busy from the beginning, and what binds it."""
    parts = [(n, s) for n, s in cost.parts if s > 0]
    bars = [Bar(n, 0.0, s, f"{n}: {s * 1e6:.2f} us of the price") for n, s in parts]
    bars += [Bar(n, s, cost.seconds, f"bound by {cost.bound}", stall=True) for n, s in parts if s < cost.seconds]
    return picture(kernel, [n for n, _ in parts], bars, "the units of its price, whose order is not known")
