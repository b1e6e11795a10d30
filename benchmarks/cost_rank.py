"""How good is the choice that is made without measuring? Kernels of 14 families, shapes drawn by a seed, predicted and measured.

Of each program the kernel that takes longest is taken. `--schedules` of its space are drawn, those that print the same code once,
beside the schedule that is chosen without measuring; the tuner's search goes on from them for `--generations`. At last the best three
that were found and the choice run in one race. Results are checked against the float64 meaning; rounds are shuffled, caches cold, times
medians of launches.

    python -m benchmarks.cost_rank --target cuda:h200 --budget 280 --out cost_rank.json --goal
    python -m benchmarks.cost_rank --table cost_rank.json          the table of what was measured, without a device
    python -m benchmarks.cost_rank --reprice cost_rank.json --goal the table of its times beside today's prices, without a device
    python -m benchmarks.cost_rank --list                          what is drawn
    python -m benchmarks.cost_rank --target cpu                    ten kernels by name, one thread

Kernels that `--out` has already (of the same seed and chip) are not measured again; after `--budget` seconds no kernel is begun and no
search goes on. Children print and compile side by side, while one kernel at a time has the device. `--goal`: exit code 1 where a goal of
cost_table.py is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Protocol

from autocomp.targets import Target, load_target

from autocomp.cost.host import usable_cores
from autocomp.errors import AutocompError
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import show
from autocomp.tune.benches import measure, prepare, race_again
from autocomp.tune.measure import Built, Job, build
from autocomp.tune.search import Search
from autocomp.tune.space import Space
from autocomp.workers import Failure, Shared, Worker
from benchmarks.cost_draw import Drawn, draw
from benchmarks.cost_kernels import CPU, Case, drawn
from benchmarks.cost_reprice import repriced
from benchmarks.cost_table import missed, row, table

BUILDING, MEASURING, PRICING = 60.0, 60.0, 120.0  # seconds for a schedule, for a race, for a kernel's prices
SLOW = 5e-3  # seconds of a launch from which a schedule runs once
FIRST, LAST = 8, 3  # of the space in predicted order that are measured first, of the fastest ones that are raced last


class Device(Protocol):
    """What builds and times the schedules of one kernel: here the children of `Bench`, in tests a table."""

    def build(self, schedules: Sequence[Schedule]) -> list[Any]:
        """Built or Failure, in their order."""

    def race(self, built: Sequence[Built]) -> list[Any]:
        """Outcome or Failure, in their order."""

    def again(self, built: Sequence[Built]) -> list[float]:
        """Seconds, from more rounds; none where the race failed."""


def ranked(d: Drawn, device: Device, generations: int, children: int, left: Callable[[], float]) -> dict[str, Any]:
    """The record of one kernel: its schedules with their times, the choice's and the best one's from the last race."""
    space = Space(d.points)
    search = Search(space, d.name, sys.maxsize, sys.maxsize)  # it ends with its generations
    first = space.number[d.choice]
    predicted = {i: (s, b) for i, s, b in d.sample} | {first: (d.predicted, d.bound)}
    sample = {i for i, *_ in d.sample}
    texts: dict[str, int] = {}
    built: dict[int, Built] = {}
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    asked = list(dict.fromkeys([first, *sorted(sample), *range(min(FIRST, len(space)))]))
    for generation in range(generations + 1):
        fresh: dict[int, Built] = {}
        for p, b in zip(asked, device.build([space.points[p].schedule for p in asked]), strict=True):
            text = "".join(s.text.partition("*/")[2] for s in b.sources) if isinstance(b, Built) else ""
            if isinstance(b, Built) and text not in texts:
                texts[text], fresh[p] = p, b
            else:
                search.tell(p, None, True)
                if isinstance(b, Failure) and not b.refused:
                    failed.append(f"{show(space.points[p].schedule)}: build: {b.reason}")
        for p, o in zip(fresh, device.race(list(fresh.values())), strict=True):
            wrong = o.reason if isinstance(o, Failure) else o.wrong
            search.tell(p, None if wrong else o.seconds)
            point = space.points[p]
            if wrong:
                failed.append(f"{show(point.schedule)}: {wrong}")
                continue
            built[p] = fresh[p]
            seconds, bound = predicted.get(p, (point.predicted, ""))
            rows.append({"schedule": show(point.schedule), "rule": point.rule, "predicted": seconds, "bound": bound, "measured": o.seconds,
                         "drawn": p in sample or p == first, "generation": generation, **dict(o.monitors)})  # fmt: skip
        if left() <= 0 or generation == generations:
            break
        asked = search.ask(children)
        if not asked:
            break
    finalists = [p for p in search.ranked()[:LAST] if p != first]
    finalists = ([first] if first in built else []) + finalists
    last = dict(zip(finalists, device.again([built[p] for p in finalists])))
    best = min(last, key=lambda p: last[p], default=None)
    return {
        "space": len(space),
        "distinct": len(sample) + 1,
        "choice": show(d.choice),
        "predicted": d.predicted,
        "bound": d.bound,
        "pricing": d.pricing,
        "best": None if best is None else show(space.points[best].schedule),
        "best_seconds": None if best is None else last[best],
        "choice_seconds": last.get(first),
        "searched": generation,
        "schedules": rows,
        "failed": failed,
    }


@dataclass
class Bench:
    """Children that build for all kernels, and the device, which one kernel at a time has."""

    target: Target
    folder: Path
    threads: int
    jobs: int
    children: Shared = field(default_factory=Shared)
    device: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.builders = ThreadPoolExecutor(self.jobs)

    def run(self, task: Callable[..., Any], *args: Any, limit: float) -> Any:
        return self.builders.submit(self.children.run, task, *args, limit=limit)

    def stop(self) -> None:
        self.builders.shutdown(wait=False, cancel_futures=True)
        self.children.stop()


class Children:
    """The schedules of one kernel: built by the bench's children, checked and timed in a child of its own, which a fault may cost."""

    def __init__(self, bench: Bench, kernel: str) -> None:
        self.bench, self.built = bench, 0
        self.job = Job(kernel, bench.target, mkdtemp(dir=bench.folder), 0, bench.threads)
        self.worker = Worker()
        self.worker.start(prepare, self.job, limit=PRICING)
        self.prepared: Any = None
        self.waits = True

    def build(self, schedules: Sequence[Schedule]) -> list[Any]:
        first, self.built = self.built, self.built + len(schedules)
        asked = [self.bench.run(build, self.job, s, str(first + i), limit=BUILDING) for i, s in enumerate(schedules)]
        return [x.result() for x in asked]

    def race(self, built: Sequence[Built]) -> list[Any]:
        if self.waits:
            self.prepared, self.waits = self.worker.result(), False
        if isinstance(self.prepared, Failure):
            raise AutocompError(f"no reference: {self.prepared.reason}", where="cost_rank")
        found = self._timed(built)
        if isinstance(found, Failure) and len(built) > 1:  # one of them broke the child
            return [x if isinstance(x, Failure) else x[0] for x in (self._timed([b]) for b in built)]
        return [found] if isinstance(found, Failure) else found

    def _timed(self, built: Sequence[Built]) -> Any:
        with self.bench.device:
            found = self.worker.run(measure, self.job, list(built), SLOW, False, limit=MEASURING)
        if isinstance(found, Failure):
            self.worker.stop()
        return found

    def again(self, built: Sequence[Built]) -> list[float]:
        with self.bench.device:
            found = self.worker.run(race_again, self.job, list(built), limit=MEASURING)
        return [] if isinstance(found, Failure) else list(found)

    def stop(self) -> None:
        self.worker.stop()


def one(case: Case, bench: Bench, args: argparse.Namespace, left: Callable[[], float]) -> dict[str, Any]:
    """A case's record, or why it has none."""
    mine: dict[str, Any] = {"family": case.family, "name": case.name}
    d = bench.run(draw, case.text, bench.target, bench.threads, args.schedules, case.name, limit=PRICING).result()
    if isinstance(d, Failure):
        return mine | {"error": d.reason}
    device = Children(bench, d.kernel)
    try:
        return mine | ranked(d, device, args.generations, args.children, left)
    except Exception as e:  # one kernel's fault costs its own row
        return mine | {"error": f"{type(e).__name__}: {e}"}
    finally:
        device.stop()


def run(cases: Sequence[Case], target: Target, args: argparse.Namespace, known: dict[str, Any], write: Callable[[], None]) -> None:
    """Records of the cases that are not known, as they come, `--at-once` side by side; `write` after each."""
    host = target.runtime == "host"
    ends = time.monotonic() + args.budget if args.budget else float("inf")
    left = lambda: ends - time.monotonic()
    done = {(r["family"], r["name"]) for r in known["kernels"] if "error" not in r}
    todo = [c for c in cases if (c.family, c.name) not in done]
    known["kernels"] = [r for r in known["kernels"] if "error" not in r]
    lock = threading.Lock()
    with TemporaryDirectory() as folder:
        bench = Bench(target, Path(folder), 1 if host else 0, max(1, usable_cores() - (0 if host else 2)))

        def work(case: Case) -> None:
            if left() <= 0:
                return
            record = one(case, bench, args, left)
            with lock:
                known["kernels"].append(record)
                print(row(record), flush=True)
                write()

        try:
            with ThreadPoolExecutor(1 if host else args.at_once) as threads:
                for x in [threads.submit(work, c) for c in todo]:
                    x.result()
        finally:
            bench.stop()


def kept(path: Path | None, like: Mapping[str, Any]) -> dict[str, Any]:
    """What a file holds of the same seed, chip and count; else nothing."""
    try:
        found = json.loads(path.read_text()) if path else {}
    except (OSError, ValueError):
        found = {}
    same = all(found.get(k) == v for k, v in like.items())
    return {**like, "kernels": found["kernels"] if same else []}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5, help="kernels of a family")
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--schedules", type=int, default=20, help="drawn of a kernel's space (less where it has less)")
    parser.add_argument("--generations", type=int, default=2, help="of the search behind them")
    parser.add_argument("--children", type=int, default=12, help="schedules of a generation")
    parser.add_argument("--at-once", type=int, default=8, help="kernels that are prepared while one has the device")
    parser.add_argument("--budget", type=float, default=0.0, help="seconds after which nothing is begun (0: none)")
    parser.add_argument("--out", type=Path, help="file of everything, as JSON; kernels that it has are not measured again")
    parser.add_argument("--goal", action="store_true", help="exit code 1 where a goal is missed")
    parser.add_argument("--table", type=Path, help="print the table of such a file")
    parser.add_argument("--reprice", type=Path, help="print the table of such a file with the prices of this tree (--out: write it)")
    parser.add_argument("--list", action="store_true", help="print what is drawn")
    args = parser.parse_args(argv)
    if args.table:
        records = json.loads(args.table.read_text())["kernels"]
        return _told(records, args.goal)
    if args.reprice:
        known = json.loads(args.reprice.read_text())
        known["kernels"] = list(repriced(known))
        if args.out:
            args.out.write_text(json.dumps(known))
        print(*map(row, known["kernels"]), sep="\n")
        return _told(known["kernels"], args.goal)
    named = [Case("named", n, text) for n, text in CPU.items()]
    cases = [c for c in (named if args.target.startswith("cpu") else drawn(args.seed, args.count))
             if not args.only or c.family in args.only.split(",")]  # fmt: skip
    if args.list:
        print(*(f"{c.family:14} {c.name}" for c in cases), sep="\n")
        return 0
    target = load_target(args.target)
    if why := target.why_not_runnable():
        parser.exit(1, f"{args.target} cannot run here: {why}\n")
    known = kept(args.out, {"chip": target.chip.title, "seed": args.seed, "schedules": args.schedules})

    def write() -> None:
        if args.out:
            new = args.out.with_name(args.out.name + ".new")
            new.write_text(json.dumps(known))
            os.replace(new, args.out)

    begun = time.monotonic()
    run(cases, target, args, known, write)
    print(f"{target.chip.title}: {time.monotonic() - begun:.0f} s, {len(cases) - len(known['kernels'])} of {len(cases)} kernels not begun")
    return _told(known["kernels"], args.goal)


def _told(records: Sequence[Mapping[str, Any]], goal: bool) -> int:
    print(*table(records), sep="\n")
    short = missed(records)
    print(*(f"missed: {x}" for x in short), sep="\n", end="\n" if short else "")
    return 1 if goal and short else 0


if __name__ == "__main__":
    raise SystemExit(main())
