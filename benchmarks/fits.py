"""Whether `fits` admits what printing then refuses: schedules that rules make, and others around them, of kernels of 12 families.

    python -m benchmarks.fits                                   cuda:h200, cuda:a100, maca:c500 and ascend:910b, some 5,000 schedules
    python -m benchmarks.fits --targets cuda:h200 --each 5 --seed 3 --only product,scan

`admitted`: by both; `refused`: by both, for bytes or registers, with the same numbers; `form`: by both, for what has no text on the chip,
whatever its size; `broken`: they differ. Each kind of difference is shown with its first schedule. Times are of the processor, a schedule.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autocomp.targets import load_target

from autocomp.egraph.choose import candidates
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.frontends.text import parse
from autocomp.ir.kernel import Kernel
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.rewrite import load_rules
from tests.helpers.covers import cover_of
from tests.helpers.families import FAMILIES

TARGETS = ("cuda:h200", "cuda:a100", "maca:c500", "ascend:910b")
FORM = "form"


def said(ask: Callable[[Kernel, Schedule], Any], kernel: Kernel, schedule: Schedule) -> str:
    """What a schedule is refused for: "" for nothing, FORM where it has no text at all, else what is short, with its numbers."""
    try:
        ask(kernel, schedule)
    except DoesNotFit as e:
        return e.what
    except UnsupportedOp:
        return FORM
    return ""


def around(kernel: Kernel, s: Schedule) -> Iterator[tuple[Kernel, Schedule]]:
    """A schedule and its neighbours: deeper rings, more blocks on a core, larger tiles, more and fewer threads, more consumers."""
    k, s = pieces(kernel, s)[0] if s.split else (kernel, s)
    yield k, s
    yield k, replace(s, stages=s.stages + 1)
    yield k, replace(s, stages=2 * s.stages)
    yield k, replace(s, resident=s.resident + 1)
    yield k, replace(s, tile=tuple((a, 2 * n) for a, n in s.tile))
    for i, (a, n) in enumerate(s.tile):
        yield k, replace(s, tile=(*s.tile[:i], (a, 2 * n), *s.tile[i + 1 :]))
    yield k, replace(s, threads=s.threads // 2)
    yield k, replace(s, threads=min(2 * s.threads, 1024))
    if s.roles != "single":
        yield k, replace(s, workers=s.workers + 1)
        yield k, replace(s, workers=max(1, s.workers - 1))


def drawn(spec: str, family: str, seed: int, each: int) -> Iterator[tuple[Kernel, Schedule]]:
    """Distinct schedules of a family's kernel and those around them."""
    rng, chip, seen = Random(f"{seed} {family}"), load_target(spec).chip, set()
    for call in cover_of(parse(FAMILIES[family](rng)), chip.name).calls:
        if call.kernel.opaque:
            continue
        found = candidates(call.kernel, load_rules(), chip, Options())
        for c in rng.sample(found, min(each, len(found))):
            for k, s in around(call.kernel, c.schedule):
                if (k.signature, s) not in seen:
                    seen.add((k.signature, s))
                    yield k, s


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--targets", default=",".join(TARGETS))
    p.add_argument("--only", default=",".join(FAMILIES), help="names of families, separated by commas")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--draws", type=int, default=2, help="graphs of a family")
    p.add_argument("--each", type=int, default=12, help="schedules of a kernel that rules make, drawn")
    args = p.parse_args()
    totals: Counter[str] = Counter()
    print(f"{'target':12} {'family':18} {'schedules':>9} {'admitted':>9} {'refused':>8} {'form':>6} {'broken':>7}"
          f" {'fits ms':>8} {'print ms':>9}")  # fmt: skip
    for spec in args.targets.split(","):
        target = load_target(spec)
        for family in args.only.split(","):
            row, shown, spent = Counter[str](), dict[str, Schedule](), [0.0, 0.0]
            for k, s in (x for i in range(args.draws) for x in drawn(spec, family, args.seed + i, args.each)):
                t0 = time.process_time()
                mine = said(target.fits, k, s)
                t1 = time.process_time()
                text = said(target.emit, k, s)
                spent[0] += t1 - t0
                spent[1] += time.process_time() - t1
                broken = text != mine
                row.update(("n", "broken" if broken else "form" if text == FORM else "refused" if mine else "admitted"))
                if broken:
                    shown.setdefault(f"fits says '{mine.partition(':')[0]}', printing '{text.partition(':')[0]}'", s)
            n = max(row["n"], 1)
            print(f"{spec:12} {family:18} {row['n']:9} {row['admitted']:9} {row['refused']:8} {row['form']:6} {row['broken']:7}"
                  f" {spent[0] / n * 1e3:8.2f} {spent[1] / n * 1e3:9.2f}", flush=True)  # fmt: skip
            for what, s in shown.items():
                print(f"    {what}: {s}", flush=True)
            totals.update(row)
    print(f"{totals['n']} schedules, {totals['broken']} on which `fits` and printing differ")


if __name__ == "__main__":
    main()
