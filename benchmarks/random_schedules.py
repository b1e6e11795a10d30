"""Legal schedules drawn from a kernel's space, not only the chosen one, built and run against float64: tuning may pick any of them.

    python benchmarks/random_schedules.py [--target cuda:h200] [--count 30] [--seed 0] [--jobs 2] [--only gemm_bias_gelu,softmax]

Graphs are those of tests/helpers/device_graphs.py. A program runs on the target's device where that is here, over memory filled with
0xFF bytes, else on the CPU model of autocomp/simulate/simt_model.py. Schedules that the target cannot print are drawn again.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import autocomp
from autocomp import rewrite
from autocomp.errors import AutocompError
from autocomp.frontends.text import parse
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import show
from autocomp.options import Options
from autocomp.runtime.cuda import WATCHDOG
from autocomp.runtime.program import executor_of, files_of
from autocomp.tune.space import legal_points
from benchmarks.random_graphs import Expected, Failure, Refused, check, has_device
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.device_runs import lost

SHARE = 15  # schedules that one process runs
NAMES = ("gemm_bias_gelu", "gemm_odd", "gemm_i8_scaled", "gemm_batched", "gemm_tt", "conv", "conv_norm_add", "depthwise",
         "attention_f16", "attention_causal_128", "attention_step_groups", "latent_step", "layer_norm_odd", "softmax_wide", "sum_columns",
         "transpose", "few_rows", "four_bits")  # fmt: skip


def drawn(kernel: Any, program: Any, count: int, random: Random) -> Iterator[Schedule]:
    """Up to `count` schedules that the target prints, in random order."""
    points = legal_points(kernel, rewrite.load_rules(), program.target.chip, Options(), Schedule())
    points = [p for p in points if p.rule != "untuned"]
    for p in random.sample(points, len(points)):
        try:
            program.target.admit(kernel, p.schedule)
        except AutocompError:
            continue
        yield p.schedule
        count -= 1
        if not count:
            return


def use(program: Any, schedules: dict[str, Schedule]) -> None:
    """Let kernels run under these very schedules, by kernel name."""
    for c in program.calls.calls:
        if c.kernel.name in schedules:
            program.printed[c.kernel.name] = program.target.emit(c.kernel, schedules[c.kernel.name])
    files = files_of(program.calls, program.printed, program.target)
    program.executor = executor_of(program.calls, program.printed, files, program.target, program.options, program.trace)


def draws(name: str, target: str, count: int, seed: int) -> list[dict[str, Schedule]]:
    """Schedules for every kernel of a graph's program, `count` times; kernels with fewer take theirs in turn."""
    program = autocomp.optimize(GRAPHS[name], target=target)
    random = Random(f"{name} {seed}")
    each = {}
    for k in {c.kernel.name: c.kernel for c in program.calls.calls if not c.kernel.opaque}.values():
        each[k.name] = list(drawn(k, program, count, random))
    return [{k: s[i % len(s)] for k, s in each.items() if s} for i in range(max(map(len, each.values()), default=0))]


def _share(args: tuple[str, str, list[dict[str, Schedule]]]) -> list[str]:
    """What failed of one graph's draws; after a fault of the device the rest of the share is named as not run."""
    name, target, schedules = args
    os.environ.setdefault(WATCHDOG, "20")
    found = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["AUTOCOMP_CACHE"] = cache
        graph = parse(GRAPHS[name])
        known = Expected.of(graph)
        for i, s in enumerate(schedules):
            text = "; ".join(f"{k}: {show(v)}" for k, v in s.items())
            try:
                check(graph, target, partial(use, schedules=s), known)
            except Refused as e:
                found.append(f"REFUSED {name}, {text}\n  {e}")
            except Failure as e:
                found.append(f"FAILED {name}, {text}\n  {s}\n  {e}")
                if has_device(target) and lost():
                    found.append(f"NOT RUN: {len(schedules) - 1 - i} schedules of {name}")
                    break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda:h200")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default=",".join(NAMES))
    a = parser.parse_args()
    start, bad, every = time.perf_counter(), 0, 0
    work = []
    for name in a.only.split(","):
        found = draws(name, a.target, a.count, a.seed)
        every += len(found)
        work += [(name, a.target, found[i : i + SHARE]) for i in range(0, len(found), SHARE)]
    print(f"{every} schedules of {len(a.only.split(','))} graphs drawn in {time.perf_counter() - start:.0f} s", flush=True)
    alone = 1 if has_device(a.target) else None  # a fault of the device ends one share
    with ProcessPoolExecutor(a.jobs, mp_context=get_context("spawn"), max_tasks_per_child=alone) as pool:
        for (name, _, share), messages in zip(work, pool.map(_share, work)):
            bad += sum(m.startswith("FAILED") for m in messages)
            print(f"{name}: {len(share)} schedules, {time.perf_counter() - start:.0f} s", flush=True)
            for m in messages:
                print(m, flush=True)
    print(f"{every} schedules, {bad} failures, {time.perf_counter() - start:.0f} s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
