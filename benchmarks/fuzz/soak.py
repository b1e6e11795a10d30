"""All nets for hours: `make soak HOURS=1`, or

    python -m benchmarks.fuzz.soak --hours 1 [--jobs 2] [--limit 20] [--folder fuzz_failures] [--only graphs,rule_files]

Seeds that ever failed run first; then every net gets an equal share of the time, with seeds that no version has seen; then processes are
killed for a tenth of the time (`kills.py`, unless --only leaves it out). It may be stopped and started again at any time. At the end: cases
by net for this version of the code, and what failed. Exit 1 where anything did.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.fuzz import kills
from benchmarks.fuzz.harness import Run, generators
from benchmarks.fuzz.record import BAD, Record, version


def due(names: list[str], record: Record) -> Iterator[tuple[str, int]]:
    """(generator, seed): failures of before, then new seeds, of the net that had the least time so far."""
    stamp = version()
    for name in names:
        yield from ((name, seed) for seed in sorted(record.failed(name) - record.seeds(name, stamp)))
    following = {name: max(record.seeds(name), default=-1) + 1 for name in names}
    while True:
        took = record.seconds(stamp)
        name = min(names, key=lambda n: (took.get(n, 0.0), n))
        yield name, following[name]
        following[name] += 1


def killed(seconds: float) -> int:
    """Rounds of kills, one at least, with seeds of the clock; how many failed."""
    end, bad = time.time() + seconds, 0
    while True:
        seed = int(time.time())
        print(f"kills: --count {kills.ROUND} --seed {seed}", flush=True)
        bad += kills.main(["--count", str(kills.ROUND), "--seed", str(seed)])
        if time.time() >= end:
            return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a case may take")
    parser.add_argument("--folder", type=Path, default=Path("fuzz_failures"))
    parser.add_argument("--only", default="", help=f"some of {', '.join(generators())}, kills")
    a = parser.parse_args()
    names = [n for n in a.only.split(",") if n and n != "kills"] or ([] if a.only else generators())
    if unknown := [n for n in names if n not in generators()]:
        parser.error(f"there is no net {', '.join(unknown)}; there are {', '.join(generators())}")
    record, stamp = Record(a.folder / "record.sqlite"), version()
    print(f"version {stamp}, {a.hours:g} hours over {', '.join(names)}", flush=True)
    run = Run(a.folder, "", a.jobs, a.limit, lambda s: print(s, flush=True))
    killing = not a.only or "kills" in a.only.split(",")
    run.cases(due(names, record), until=time.time() + 3600 * a.hours * (0.9 if killing else 1.0)) if names else None
    lost = killed(3600 * a.hours * 0.1) if killing else 0
    print(record.table(stamp))
    failed = [(n, k, c) for n, counts in record.counts(stamp).items() for k, c in counts.items() if k in BAD]
    for name, kind, count in failed:
        print(f"{name}: {count} {kind}; the texts lie in {a.folder}")
    sys.exit(1 if failed or lost else 0)


if __name__ == "__main__":
    main()
