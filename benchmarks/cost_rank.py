"""Does the cost model order schedules as the machine does? Predicted against measured time, and Spearman's rank correlation.

For each kernel the kernel e-graph's schedules are put in order of their predicted time; `--schedules` of them, evenly spaced from the
best to the worst, are printed, built and timed (two that print the same code count once; one that fails to build is counted and
skipped). On a CPU: one thread, the calling thread's CPU time, least of the runs, so that other work on the machine does not count.
On a GPU as the tuner does: results checked against the float64 meaning, then shuffled rounds with a cold cache, median of the launches.

    python benchmarks/cost_rank.py [--target cpu|cuda|cuda:h200] [--kernels NAME..] [--schedules N] [--json] [--details]

rho is 1 where both orders agree. `overall` ranks all schedules of all kernels together, which sizes alone order well; the mean over
kernels is the harder figure (a flat kernel, whose schedules all measure alike, has no order to find and is left out of it). `loss`
is the time of the schedule that the model likes best over the best measured one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autocomp.targets import Target, load_target

from autocomp import pipeline, rewrite
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import estimate, pricer
from autocomp.cost.host import usable_cores
from autocomp.egraph.choose import Joins, candidates
from autocomp.egraph.parts import merged, split_calls
from autocomp.errors import AutocompError
from autocomp.ir.kernel import Kernel, KernelGraph
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import show
from autocomp.options import Options
from autocomp.runtime.codec import encode
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.program import Program, build_program
from autocomp.trace import Trace
from autocomp.tune.benches import measure as race
from autocomp.tune.measure import Built, Job, build
from autocomp.workers import Pool
from benchmarks.cost_kernels import CPU, GPU

BUILDING = 60.0  # seconds for one schedule
FLAT = 1.15  # slowest over fastest, below which runs of one schedule differ as much


@dataclass(frozen=True)
class Point:
    """One schedule of one kernel; seconds."""

    kernel: str
    schedule: str
    rule: str
    predicted: float
    bound: str
    measured: float


def ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 0; equal values share the mean of theirs."""
    x = np.asarray(values)
    _, group, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count + 1) / 2)[group]


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rho: the correlation of the ranks; NaN where one side does not vary."""
    x, y = (r - r.mean() for r in map(ranks, (a, b)))
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else float("nan")


def sample(calls: KernelGraph, target: Target, options: Options, n: int) -> tuple[list[tuple[float, str, str, Schedule]], int]:
    """(predicted, bound, rule, schedule) of n schedules with different code, evenly spaced in the predicted order; how many there are."""
    (kernel,) = {c.kernel.signature: c.kernel for c in calls.calls}.values()
    chip = target.chip.with_cores(1) if target.runtime == "host" else target.chip
    demand, rules = demand_of(kernel), rewrite.load_rules()
    price, joins = pricer(demand, chip, kernel), Joins(kernel, rules, chip, options)
    priced = []
    for c in candidates(kernel, rules, chip, options, demand):
        cost = price(c.schedule)
        priced.append((cost.seconds, cost.bound, c.rule, c.schedule))
    priced.sort(key=lambda p: (p[0], str(p[3])))
    taken: list[tuple[float, str, str, Schedule]] = []
    texts: set[str] = set()
    for i in _spaced(len(priced), n):
        for p in (*priced[i:], *reversed(priced[:i])):  # the nearest after it, else before it, that the target prints as other code
            try:
                p = (*p[:3], joins.complete(p[3]))
                text = "".join(target.emit(k, s).text.partition("*/")[2] for k, s in pieces(kernel, p[3]))
            except AutocompError:
                continue
            if text not in texts:
                texts.add(text)
                taken.append(p)
                break
    return taken, len(priced)


def _spaced(total: int, n: int) -> list[int]:
    return sorted({round(i * (total - 1) / max(1, n - 1)) for i in range(n)})


def cpu_seconds(program: Program, feed: Mapping[str, Any], budget: float = 0.25) -> float:
    """Least CPU time of the calling thread for one call; about `budget` seconds of runs, three at least."""
    program.run(feed)
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 3 or (spent < budget and runs < 50):
        at = time.thread_time()
        program.run(feed)
        took = time.thread_time() - at
        best, spent, runs = min(best, took), spent + took, runs + 1
    return best


@contextmanager
def builders() -> Iterator[Pool]:
    """Processes that build; they start when they are first asked, and end with the block."""
    pool = Pool(usable_cores())
    try:
        yield pool
    finally:
        pool.stop()


class Races:
    """Schedules of kernels on a device: built side by side, checked, then raced with cold caches."""

    def __init__(self, target: Target, folder: str, pool: Pool) -> None:
        self.target, self.folder, self.pool = target, Path(folder), pool

    def times(self, name: str, kernel: Kernel, schedules: Sequence[Schedule]) -> list[float | str]:
        """Seconds of each, or why it has none."""
        job = Job(encode(kernel), self.target, str(self.folder / name), 0)
        Path(job.folder).mkdir()
        built: list[Any] = [None] * len(schedules)
        for i, b in self.pool.each(build, [(job, s, str(i)) for i, s in enumerate(schedules)], BUILDING):
            built[i] = b
        whole = [i for i, b in enumerate(built) if isinstance(b, Built)]
        found = dict(zip(whole, race(job, [built[i] for i in whole], float("inf"), False)))
        outcome = lambda i: found[i].wrong or found[i].seconds if i in found else f"build: {built[i].reason}"
        return [outcome(i) for i in range(len(built))]


def host_times(calls: KernelGraph, target: Target, options: Options, schedules: Sequence[Schedule]) -> list[float | str]:
    """Seconds of each schedule on this machine's CPU, or why it has none."""
    out: list[float | str] = []
    kernel, feed = calls.calls[0].kernel, random_inputs(calls.source, 0)
    for s in schedules:
        try:
            chosen = {kernel.signature: (s, estimate(kernel, s, target.chip))}
            out.append(cpu_seconds(build_program(*split_calls(calls, chosen, target.chip), target, options, Trace()), feed))
        except (AutocompError, RuntimeError) as e:
            out.append(str(e))
    return out


def measure(name: str, text: str, target: Target, n: int, out: Callable[[str], None],
            races: Races | None) -> tuple[list[Point], dict[str, Any]]:  # fmt: skip
    """Points of one kernel, and its row of the table."""
    options, trace = Options(cache=False, threads=1 if target.runtime == "host" else 0), Trace()
    calls = merged(pipeline.extract(pipeline.import_model(text, trace), target, rewrite.load_rules(), options, trace)[0])
    if len(calls.calls) != 1:
        raise SystemExit(f"{name} became {len(calls.calls)} kernels; the benchmark wants one")
    picked, total = sample(calls, target, options, n)
    schedules = [s for *_, s in picked]
    times = races.times(name, calls.calls[0].kernel, schedules) if races else host_times(calls, target, options, schedules)
    points, failed = [], []
    for (seconds, bound, rule, schedule), found in zip(picked, times, strict=True):
        if isinstance(found, str):
            failed.append(f"{show(schedule)}: {found}")
            out(f"{name:14} {failed[-1]}")
            continue
        points.append(Point(name, show(schedule), rule, seconds, bound, found))
        out(f"{name:14} {show(schedule):60.60} predicted {seconds * 1e6:9.1f} us ({bound}), measured {found * 1e6:9.1f} us")
    rho = spearman([p.predicted for p in points], [p.measured for p in points])
    best = min(points, key=lambda p: p.measured)
    liked = min(points, key=lambda p: p.predicted)
    ratio = float(np.exp(np.mean([np.log(p.measured / p.predicted) for p in points])))
    return points, {"kernel": name, "candidates": total, "measured": len(points), "failed": failed, "rho": rho,
                    "spread": max(p.measured for p in points) / best.measured, "measured_over_predicted": ratio,
                    "loss": liked.measured / best.measured}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--kernels", nargs="*", help="some of the kernels")
    parser.add_argument("--schedules", type=int, help="a kernel (6 on a CPU, 24 on a GPU)")
    parser.add_argument("--json", action="store_true", help="everything as JSON on stdout")
    parser.add_argument("--details", action="store_true", help="a line a schedule")
    args = parser.parse_args()
    target = load_target(args.target)
    if target.why_not_runnable():
        parser.exit(1, f"{args.target} cannot run here: {target.why_not_runnable()}\n")
    host = target.runtime == "host"
    kernels = {k: v for k, v in (CPU if host else GPU).items() if not args.kernels or k in args.kernels}
    out = print if args.details and not args.json else lambda _: None
    points, rows, begun = [], [], time.time()
    with TemporaryDirectory() as folder, builders() as pool:
        races = None if host else Races(target, folder, pool)
        for name, text in kernels.items():
            found, row = measure(name, text, target, args.schedules or (6 if host else 24), out, races)
            points += found
            rows.append(row)
            if not args.json:
                print(line(row), flush=True)
    overall = spearman([p.predicted for p in points], [p.measured for p in points])
    varied = [r["rho"] for r in rows if r["spread"] >= FLAT]
    mean = float(np.mean(varied)) if varied else float("nan")
    summary = {"target": args.target, "chip": target.chip.title, "points": len(points), "failed": sum(len(r["failed"]) for r in rows),
               "rho_overall": overall, "rho_mean_of_kernels": mean, "flat": len(rows) - len(varied),
               "seconds": time.time() - begun}  # fmt: skip
    if args.json:
        print(json.dumps({**summary, "kernels": rows, "schedules": [vars(p) for p in points]}, indent=1))
    else:
        print(f"{target.chip.title}: {len(points)} schedules of {len(rows)} kernels, {summary['failed']} failed; Spearman's rho overall "
              f"{overall:.2f}, mean of kernels {mean:.2f} ({summary['seconds']:.0f} s)")  # fmt: skip


def line(r: Mapping[str, Any]) -> str:
    """A kernel's row of the table."""
    flat = " (flat)" if r["spread"] < FLAT else "       "
    return (f"{r['kernel']:14} {r['candidates']:5} candidates, {r['measured']:3} measured, {len(r['failed'])} failed  "
            f"rho {r['rho']:5.2f}{flat}  slowest/fastest {r['spread']:5.1f}  measured/predicted {r['measured_over_predicted']:5.2f}  "
            f"loss {r['loss']:4.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
