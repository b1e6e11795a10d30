"""Measuring candidates on the bench of their target: one is open at a time, with a kernel's inputs and expected values."""

from __future__ import annotations

from collections.abc import Sequence

from autocomp.tune.device import CudaBench
from autocomp.tune.measure import ROUNDS, Bench, Built, HostBench, Job, Outcome

_OPEN: list[Bench] = []


def _bench(job: Job) -> Bench:
    """The bench of a job; the one of another kernel is dropped."""
    if not _OPEN or _OPEN[0].job.kernel != job.kernel or _OPEN[0].job.folder != job.folder:
        _OPEN.clear()
        _OPEN.append(CudaBench(job) if job.target.runtime == "cuda" else HostBench(job))
    return _OPEN[0]


def prepare(job: Job) -> None:
    """Make the kernel's inputs and expected values before the first candidate, whose time limit would not cover them."""
    _bench(job)


def measure(job: Job, built: Sequence[Built], limit: float, whole: bool) -> list[Outcome]:
    """Check and time candidates, in shuffled rounds where there are several.

    A candidate whose first run takes longer than `limit` seconds is not run again. `whole`: compare every element.
    """
    bench = _bench(job)
    loaded = [bench.load(b) for b in built]
    wrong = [bench.check(x, whole) for x in loaded]
    right = [x for x, w in zip(loaded, wrong) if not w]
    times = iter(bench.race(right, limit, ROUNDS if whole else 1))
    return [Outcome(w) if w else Outcome("", next(times), x.monitors()) for x, w in zip(loaded, wrong)]


def race_again(job: Job, built: Sequence[Built]) -> list[float]:
    """Seconds of candidates that gave right results before, from ROUNDS times the rounds."""
    bench = _bench(job)
    return bench.race([bench.load(b) for b in built], float("inf"), ROUNDS)
