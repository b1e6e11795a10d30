"""The measured search for one kernel: build side by side, measure one at a time, commit every outcome at once."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autocomp.deadline import current
from autocomp.errors import AutocompError
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import show
from autocomp.ir.tolerance import TF32
from autocomp.options import Options
from autocomp.runtime.codec import encode
from autocomp.targets import Target
from autocomp.tune.benches import measure, prepare
from autocomp.tune.database import Database, Kept, Measurement, Tuned
from autocomp.tune.key import Place, kernel_key, may_round, schedule_of, schedule_text
from autocomp.tune.measure import Built, Job, build
from autocomp.tune.search import Search
from autocomp.tune.space import Point, Space, legal_points
from autocomp.workers import Failure, Pool, Worker

if TYPE_CHECKING:
    from autocomp.rewrite.rule import RuleSet

PATIENCE = 50  # configurations without an improvement that every search goes on for; large ones for a quarter of their limit
SLOW = 4.0  # a candidate whose first run takes this many times the best one's is not run again


@dataclass(frozen=True)
class Limits:
    """seconds: for the whole search, 0 for none. build, run: seconds that one candidate may take to build, and to be checked and
    timed. prepare: to compute the reference. jobs: builds side by side, 0 for one a core. overlap: build while something is measured;
    None: where the device is not the processor that builds."""

    seconds: float = 0.0
    build: float = 120.0
    run: float = 30.0
    prepare: float = 300.0
    jobs: int = 0
    overlap: bool | None = None


@dataclass(frozen=True)
class KernelResult:
    """What came out for one kernel: `untuned` the schedule chosen without measuring, `tuned` the fastest one, in one race;
    `schedule`: its stored text.

    `tried` counts measured or failed schedules (this run and earlier ones), `fresh` those of this run. `pairs`: predicted and measured
    seconds of every right one. `note`: why there is no result, or why the search is not over.
    """

    name: str
    calls: int
    space: int = 0
    tried: int = 0
    fresh: int = 0
    untuned: str = ""
    tuned: str = ""
    schedule: str = ""
    untuned_seconds: float = 0.0
    tuned_seconds: float = 0.0
    predicted: float = 0.0
    note: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    pairs: tuple[tuple[float, float], ...] = ()
    failures: Mapping[str, int] = field(default_factory=dict)
    kernel: Kernel | None = None


@dataclass(frozen=True)
class Session:
    """What the searches of a program share."""

    target: Target
    rules: RuleSet
    options: Options
    database: Database
    at: Place
    pool: Pool
    worker: Worker
    limits: Limits


class KernelTuning:
    """The search for one kernel. `tried`, `failed`, `best`, `untuned` are what progress is told from (seconds; 0: not yet known)."""

    def __init__(self, kernel: Kernel, session: Session, untuned: Schedule, folder: Path) -> None:
        self.kernel, self.session, self.folder, self.choice = kernel, session, folder, untuned
        self.key = kernel_key(kernel, session.options)
        self.job = Job(encode(kernel), session.target, str(folder), int(self.key[:8], 16), session.options.threads,
                       coarse=TF32 if may_round(kernel, session.options) else 0.0)  # fmt: skip
        limit = session.options.search_configurations
        self.space = Space(legal_points(kernel, session.rules, session.target.chip, session.options, untuned))
        self.whole = not current().cut  # or there are schedules that nobody made
        self.search = Search(self.space, self.key, limit, max(PATIENCE, limit // 4))
        self.first = self.space.number[untuned]
        self.outcomes: dict[int, Measurement] = {}
        self.built: dict[int, Built] = {}
        self.builds = 0
        self._recall()
        self.recalled = self.search.tried

    @property
    def limit(self) -> int:
        """Configurations that will be tried at most."""
        return min(len(self.space), self.search.limit)

    @property
    def failed(self) -> int:
        return sum(m.status == "failed" for m in self.outcomes.values())

    @property
    def untuned(self) -> float:
        return self.search.seconds.get(self.first, 0.0)

    @property
    def best(self) -> float:
        return min(self.search.seconds.values(), default=0.0)

    def run(self, calls: int, end: float, report: Callable[[KernelTuning], None]) -> KernelResult:
        """Search until the limit of configurations, the patience or the time (`end`, monotonic) is reached; then race the best."""
        base = KernelResult(self.kernel.name, calls, len(self.space), untuned=show(self.choice), kernel=self.kernel)
        stored = next((t for t in self.session.database.tuned(self.session.at) if t.kernel == self.key), None)
        if stored is not None and stored.done and self.search.over and stored.untuned == schedule_text(self.choice):
            return self._told(base, stored)
        try:
            self.folder.mkdir(parents=True)
        except OSError as e:
            _not_the_machines(Failure(f"{e.strerror} ({e.filename})", machine=True))
        try:
            self.session.pool.wake(len(self.session.pool.workers))  # they come up while the reference is computed
            if why := self._prepare(True):
                return replace(base, note=f"no reference: {why}")
            if stored is None:
                self._record(())
            if self.first not in self.search.known:
                within = time.monotonic() + current().within(self.session.limits.build)  # without it there is nothing to compare with
                self._measure([self.first], self._build([self.first], within), float("inf"), report)
            self._generations(end, report)
            return self._told(base, self._finish())
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- generations
    def _generations(self, end: float, report: Callable[[KernelTuning], None]) -> None:
        """Ask, build side by side, measure one by one; with `overlap` the next ones are built while these are measured.

        On a CPU nothing is built meanwhile: it would take the cores away from what is measured.
        """
        pool, overlap = self.session.pool, self.session.limits.overlap
        if overlap is None:
            overlap = self.job.target.runtime != "host"
        if not overlap:
            took = 0.0
            while not self.search.over and time.monotonic() + took < end:  # a generation that would not end in time is not begun
                begun, asked = time.monotonic(), self.search.ask(2 * len(pool.workers))
                self._measure(asked, self._build(asked, end), end, report)
                took = time.monotonic() - begun
            return
        asked = self._begin((), end)
        while asked:
            built = {p: b for p, b in zip(asked, pool.collect(end)) if b is not None}
            following = self._begin(asked, end)
            self._measure(asked, built, end, report)
            asked = following or self._begin((), end)  # what was refused did not count

    def _begin(self, pending: Sequence[int], end: float) -> list[int]:
        """Start building what the search asks for next."""
        asked = self.search.ask(len(self.session.pool.workers), pending) if time.monotonic() < end else []
        if asked:
            self.session.pool.begin(build, self._tasks(asked), self.session.limits.build)
        return asked

    def _build(self, asked: Sequence[int], end: float) -> dict[int, Any]:
        """What became of each point's build that came back before `end`: Built or Failure."""
        return {asked[i]: value for i, value in self.session.pool.each(build, self._tasks(asked), self.session.limits.build, end)}

    def _tasks(self, asked: Sequence[int]) -> list[tuple[Job, Schedule, str]]:
        """Arguments of `build`, each with a folder's name of its own."""
        self.builds += len(asked)
        return [(self.job, self.space.points[p].schedule, str(self.builds - i)) for i, p in enumerate(asked)]

    def _measure(self, asked: Sequence[int], built: Mapping[int, Any], end: float, report: Callable[[KernelTuning], None]) -> None:
        """Measure points that were built in time, one by one; each outcome is committed before the next measurement begins."""
        for p in (p for p in asked if p in built):
            if time.monotonic() > end:
                return
            m = self._outcome(self.space.points[p], built[p])
            if m.seconds is not None:
                self.built[p] = built[p]
            elif isinstance(built[p], Built):
                shutil.rmtree(Path(built[p].path).parent, ignore_errors=True)
            self.session.database.add(self.key, self.session.at, m)
            self._know(p, m)
            report(self)

    def _outcome(self, point: Point, built: Any) -> Measurement:
        """The measurement of a built candidate, or why there is none."""
        made = Measurement(schedule_text(point.schedule), "failed", None, point.predicted, "", point.rule)
        if isinstance(built, Failure):
            _not_the_machines(built)
            return replace(made, status="refused" if built.refused else "failed", reason=f"build: {built.reason}")
        limit = SLOW * self.best or float("inf")
        if why := self._prepare():
            return replace(made, reason=f"run: {why}")
        found = self.session.worker.run(measure, self.job, [built], limit, False, limit=self.session.limits.run)
        if isinstance(found, Failure):
            _not_the_machines(found)
            self.session.worker.stop()  # a device that has seen a fault gives the next candidate nothing but errors
            return replace(made, reason=f"run: {found.reason}")
        if found[0].wrong:
            return replace(made, reason=f"run: {found[0].wrong}")
        return replace(made, status="ok", seconds=found[0].seconds, monitors=dict(found[0].monitors))

    def _prepare(self, always: bool = False) -> str:
        """Have the measuring process compute (or read) inputs and expected values, if it is a fresh one; why that failed."""
        if self.session.worker.alive and not always:
            return ""
        limit = self.session.limits.prepare  # what fails later on is kept as a candidate's fault: the clock has no part in that
        done = self.session.worker.run(prepare, self.job, limit=current().within(limit) if always else limit)
        if isinstance(done, Failure):
            _not_the_machines(done)
            return done.reason
        return ""

    def _know(self, p: int, m: Measurement) -> None:
        self.search.tell(p, m.seconds, m.status == "refused")
        self.outcomes[p] = m

    def _recall(self) -> None:
        """Outcomes of earlier runs, for the schedules that are still legal."""
        stored = {m.schedule: m for m in self.session.database.measurements(self.key, self.session.at)}
        for p, point in enumerate(self.space.points):
            m = stored.get(schedule_text(point.schedule))
            if m is not None:
                self._know(p, m)

    # ---- the end
    def _finish(self) -> Tuned:
        """Race the best schedules and the untuned one, every element checked, and record the order that comes out."""
        front = self.search.ranked()[: self.session.options.search_keep]
        racers = [*front, *([self.first] if self.first in self.search.seconds and self.first not in front else [])]
        if racers == [self.first]:
            m = self.outcomes[self.first]
            return self._record((Kept(m.schedule, self.untuned, m.monitors),), self.untuned, self.search.over)
        end = time.monotonic() + max(0.0, current().left)
        built = self.built | {p: b for p, b in self._build([p for p in racers if p not in self.built], end).items() if isinstance(b, Built)}
        built = {p: built[p] for p in racers if p in built}
        limit = current().within(self.session.limits.run * max(1, len(built)))
        self._prepare()
        found = self.session.worker.run(measure, self.job, list(built.values()), float("inf"), True, limit=limit)
        if isinstance(found, Failure):
            self.session.worker.stop()
            seconds = {p: self.search.seconds[p] for p in built}
        else:
            for p, o in zip(built, found):
                if o.wrong:
                    m = replace(self.outcomes[p], status="failed", seconds=None, reason=f"race: {o.wrong}")
                    self.session.database.add(self.key, self.session.at, m)
                    self.outcomes[p] = m
                    del self.search.seconds[p]
            seconds = {p: o.seconds for p, o in zip(built, found) if not o.wrong}
        order = sorted(seconds, key=lambda p: (seconds[p], p))[: self.session.options.search_keep]
        kept = tuple(Kept(self.outcomes[p].schedule, seconds[p], self.outcomes[p].monitors) for p in order)
        return self._record(kept, seconds.get(self.first, 0.0), self.search.over)

    def _record(self, kept: tuple[Kept, ...], untuned: float = 0.0, done: bool = False) -> Tuned:
        """Commit the state of the search."""
        t = Tuned(self.key, self.session.at, self.kernel.name, self.job.kernel, schedule_text(self.choice), untuned, len(self.space),
                  self.search.tried, done and self.whole, kept)  # fmt: skip
        self.session.database.record(t)
        return t

    def _told(self, base: KernelResult, t: Tuned) -> KernelResult:
        """The result that a search's record makes."""
        failures: dict[str, int] = {}
        for m in self.outcomes.values():
            if m.status == "failed":
                failures[m.reason] = failures.get(m.reason, 0) + 1
        note = "" if self.search.over else f"{self.limit - self.search.tried} schedules are left: the time is over"
        if not t.kept and self.search.tried:
            note = "no schedule gave a right result"
        best = t.kept[0] if t.kept else Kept("{}", 0.0)
        schedule = schedule_of(best.schedule)
        pairs = tuple((self.space.points[i].predicted, s) for i, s in sorted(self.search.seconds.items()))
        return replace(base, tried=self.search.tried, fresh=self.search.tried - self.recalled, tuned=show(schedule),
                       schedule=best.schedule, untuned_seconds=t.untuned_seconds, tuned_seconds=best.seconds,
                       predicted=self.space.points[self.first].predicted, note=note, figures=best.monitors, pairs=pairs,
                       failures=failures)  # fmt: skip


def _not_the_machines(f: Failure) -> None:
    """Raises AutocompError for a failure that says nothing of the schedule: as its outcome it would be believed for ever."""
    if f.machine:
        raise AutocompError(f"this machine cannot go on: {f.reason}", where="tune",
                            hint="mend that; every measurement so far is kept, and the same command goes on from there")  # fmt: skip
