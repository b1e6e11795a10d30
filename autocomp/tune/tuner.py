"""The measured search over a program's kernels, those that take longest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from autocomp.cost.host import usable_cores
from autocomp.deadline import Deadline, by_counts, running
from autocomp.egraph.choose import choose_schedule
from autocomp.egraph.parts import merged
from autocomp.errors import AutocompError
from autocomp.ir.kernel import Kernel
from autocomp.loops.recurrences import recurrence_of
from autocomp.options import Options
from autocomp.store import work_folder
from autocomp.targets import Target
from autocomp.trace import Trace
from autocomp.tune.database import Database
from autocomp.tune.kernel import KernelResult, KernelTuning, Limits, Session
from autocomp.tune.key import place_of
from autocomp.workers import Pool, Worker

if TYPE_CHECKING:
    from autocomp.cost.work import Cost
    from autocomp.ir.kernel import KernelGraph
    from autocomp.ir.schedule import Schedule
    from autocomp.rewrite.rule import RuleSet

    Untuned = Mapping[str, tuple[Schedule, Cost]]

SEARCHED = 0.9  # share of a kernel's time that goes to its search; the rest is for the last race
CHILD = "autocomp.tune.measure"  # what child processes run


@dataclass(frozen=True)
class Progress:
    """How far the search is: kernel `number` of `kernels`; times in seconds, 0 where not yet known."""

    kernel: str
    number: int
    kernels: int
    tried: int
    limit: int
    best: float
    untuned: float
    failed: int
    elapsed: float


def tune_program(calls: KernelGraph, target: Target, rules: RuleSet, options: Options, database: Database, limits: Limits,
                 watch: Callable[[Progress], None] = lambda p: None,
                 untuned: Untuned = MappingProxyType({})) -> list[KernelResult]:  # fmt: skip
    """Tune every distinct kernel of a program; results in order of first call.

    Time goes to kernels by their share of the predicted time. Whatever was measured before is known and not measured again. `untuned`: by
    signature, what was chosen without measuring, where it is known. Raises AutocompError where the target cannot run here, or the database
    cannot be written.
    """
    require_device(target)
    with running(Deadline(limits.seconds)) as clock:
        return _tuned(calls, target, rules, options, database, limits, watch, untuned, clock)


def _tuned(calls: KernelGraph, target: Target, rules: RuleSet, options: Options, database: Database, limits: Limits,
           watch: Callable[[Progress], None], untuned: Untuned, clock: Deadline) -> list[KernelResult]:  # fmt: skip
    count: dict[str, int] = {}
    kernels: dict[str, Kernel] = {}
    for c in merged(calls).calls:
        kernels.setdefault(c.kernel.signature, c.kernel)
        count[c.kernel.signature] = count.get(c.kernel.signature, 0) + 1
    results = {s: KernelResult(k.name, count[s], note=_why_not(k)) for s, k in kernels.items()}
    with by_counts():  # what `optimize` chooses
        issued = getattr(target, "issued", None)
        chosen = {s: untuned.get(s) or choose_schedule(k, rules, target.chip, options, Trace(), target.admit, issued=issued)
                  for s, k in kernels.items() if not results[s].note}  # fmt: skip
    share = {s: cost.seconds * count[s] for s, (_, cost) in chosen.items()}
    order = sorted(share, key=lambda s: (-share[s], s))
    with work_folder("tuning") as folder, _workers(limits) as (pool, worker):
        session = Session(target, rules, options, database, place_of(target, rules, options), pool, worker, limits)
        for n, s in enumerate(order):
            left = clock.left
            if n and left <= 0:
                results[s] = replace(results[s], note="not begun: the time is over")
                continue
            end = time.monotonic() + SEARCHED * left * share[s] / sum(share[x] for x in order[n:])

            def report(k: KernelTuning, n: int = n) -> None:
                watch(Progress(k.kernel.name, n + 1, len(order), k.search.tried, k.limit, k.best, k.untuned, k.failed,
                               time.monotonic() - clock.began))  # fmt: skip

            results[s] = KernelTuning(kernels[s], session, chosen[s][0], folder / str(n)).run(count[s], end, report)
    return list(results.values())


def require_device(target: Target) -> None:
    """Raises AutocompError where the target's programs cannot run here: nothing can be measured."""
    if why := target.why_not_runnable():
        raise AutocompError(f"target {target.name} cannot run here: {why}", where="tune",
                            hint="run the same command on a machine with the device; `--export` there and `--import` here carry what it "
                            "finds, and `autocomp optimize` chooses schedules without measuring")  # fmt: skip


def _why_not(k: Kernel) -> str:
    """Why a kernel has no schedules to choose from."""
    if k.opaque:
        return "is the target's own function" if k.coded else "runs through its reference"
    return "a recurrence: its loops are transformed, not tiled" if recurrence_of(k) is not None else ""


@contextmanager
def _workers(limits: Limits) -> Iterator[tuple[Pool, Worker]]:
    """Builders and the one that measures; they end with the block."""
    pool, worker = Pool(limits.jobs or usable_cores(), CHILD), Worker(CHILD)
    try:
        yield pool, worker
    finally:
        pool.stop()
        worker.stop()
