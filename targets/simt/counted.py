"""A counted plan, and what schedules that issue the same statements share of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autocomp.targets.simt.capacity import check_shared
from autocomp.targets.simt.phases import Phases
from autocomp.targets.simt.placed import Placement

from autocomp.cost.issue import Issued
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.tile.plan import Node
from autocomp.tile.program import TileProgram

FEW_STAGES = 2  # of the rings that stand for deeper ones


@dataclass(frozen=True)
class Counted:
    """A counted plan, of which a schedule with deeper rings, or with its blocks in another order, has the same statements. `parts`: what
    its values take of shared memory; `warps` of a block; `spilt` registers of a thread; `own_depth`: the statements are those of its own
    rings' depth alone."""

    program: TileProgram
    plan: tuple[Node, ...]
    place: Placement
    parts: int
    work: Issued
    warps: float
    spilt: float
    own_depth: bool

    def issued(self, stages: int, shared: float) -> Issued:
        """With rings of so many stages. Raises DoesNotFit where blocks have no more than `shared` bytes of shared memory and need more."""
        check_shared(self.program, self.place.bytes_of(stages, self.parts), shared)
        phases = Phases(self.warps, stages)
        phases.visit(self.plan, 1.0)
        phases.close(1.0)
        phases.spill(self.spilt)
        return replace(self.work, shared=float(self.place.bytes_of(stages)), phases=tuple(phases.found))


class CountedOnce:
    """Counts of a target's schedules by all that their statements depend on."""

    MOST = 128  # plans; of what they came to, a record of a few hundred bytes, as many as a program asks for
    FOUND = 1 << 14

    def __init__(self) -> None:
        self._known: dict[tuple[str, Schedule], Counted | None] = {}
        self._found: dict[tuple[str, Schedule], Issued | None] = {}

    def __reduce__(self) -> tuple[type[CountedOnce], tuple[()]]:
        """Another process counts for itself."""
        return CountedOnce, ()

    def issued(self, kernel: Kernel, schedule: Schedule, shared: float, count: Callable[[Schedule], Counted | None]) -> Issued | None:
        """What a schedule issues, None where that is not counted; `count` counts one. Raises what it does."""
        key = kernel.signature, schedule
        try:
            return self._found[key]  # asked once: another thread may clear them
        except KeyError:
            if len(self._found) >= self.FOUND:
                self._found.clear()
        plan = self._plan(kernel.signature, schedule, count)
        out = self._found[key] = plan.issued(schedule.stages, shared) if plan is not None else None
        return out

    def _plan(self, signature: str, schedule: Schedule, count: Callable[[Schedule], Counted | None]) -> Counted | None:
        """The plan of a schedule, or of one whose statements are the same."""
        few = replace(schedule, stages=min(schedule.stages, FEW_STAGES), grouped=0)
        key = signature, few
        try:
            found = self._known[key]
        except KeyError:
            if len(self._known) >= self.MOST:
                self._known.clear()
            found = self._known[key] = count(few)
        return count(schedule) if found is not None and found.own_depth and few.stages != schedule.stages else found
