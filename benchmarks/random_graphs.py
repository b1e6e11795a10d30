"""Random graphs through the whole compiler, against the float64 reference; what fails is shrunk and kept as a text graph.

    python benchmarks/random_graphs.py --count 2000 [--seed 0] [--jobs 2] [--keep random_graph_failures] [--target cpu]
    python benchmarks/random_graphs.py --target cuda:h200 --count 100

Each graph is compiled and run twice (the second time over an arena filled with 0xFF bytes, so that a value which is read
before it is written shows), every output compared with the float64 reference. A graph fails if an error is larger than its
tolerance and than `NOISE` times the error that NumPy makes in the graph's own types: random graphs may be ill-conditioned.

With a GPU's target (cuda:h200, maca:c500) sizes are those at which its kernels change their form. Where its device is here, programs run
on it, every buffer filled with 0xFF bytes first; elsewhere the printed kernels run on the CPU model of tests/helpers/simt_model.py, with
asynchronous work done as late and as early as the plan allows. Graphs that the target refuses with a reason are counted apart.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from autocomp.targets import load_target
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

import autocomp
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.files import write_atomic
from autocomp.frontends.text import show
from autocomp.ir.node import Graph
from autocomp.ir.reference import evaluate
from autocomp.ir.tolerance import deviation, shaken
from autocomp.runtime.cuda import WATCHDOG
from autocomp.runtime.inputs import random_inputs, save_npz
from benchmarks.drawn_graphs import graphs
from tests.helpers.device_runs import lost, poisoned_runs

NOTHING = 1e-6  # an error this small is none in values of order 1: what cancels exactly in float64 need not in float32
NOISE = 32.0  # times NumPy's own error in the graph's types, or what an ulp in the inputs does


class Failure(AssertionError):
    """A wrong result or a crash of one graph."""


class Refused(Exception):
    """The target does not take the graph, and says why."""


def on_this_cpu(program: Any, feed: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    program.executor.poison = True
    return [program.run(feed)]


@cache
def model_object() -> tuple[Path, Any]:
    """The CPU model as an object file, compiled once a process; its folder goes when the process ends."""
    from tests.helpers.simt_model import compile_model

    folder = tempfile.TemporaryDirectory(prefix="autocomp-model-")
    return compile_model(Path(folder.name)), folder


def on_the_model(program: Any, feed: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """A GPU's printed kernels on the CPU model, with asynchronous work late, then early."""
    from tests.helpers.simt_model import ModelExecutor

    if any(c.kernel.opaque for c in program.calls.calls):
        raise Refused("a kernel has no generated code")
    if not program.calls.calls:
        return []
    with tempfile.TemporaryDirectory() as folder:
        executor = ModelExecutor(program, Path(folder), model_object()[0])
        out = []
        for executor.late in (True, False):
            out.append(executor.run(feed))
        return out


def run_anywhere(program: Any, feed: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Outputs of several runs: on this CPU, on the target's device where it is here, else on the model of it."""
    if program.target.name == "cpu":
        return on_this_cpu(program, feed)
    return poisoned_runs(program, feed) if program.runnable else on_the_model(program, feed)


@dataclass(frozen=True)
class Expected:
    """A graph's inputs, its outputs in float64 and in its own types, and how far float64's move with the inputs (in tolerances)."""

    feed: dict[str, np.ndarray]
    want: dict[str, np.ndarray]
    own: dict[str, np.ndarray]
    natural: float

    @staticmethod
    def of(graph: Graph) -> Expected:
        feed = random_inputs(graph, 1)
        with np.errstate(all="ignore"):
            want, own = evaluate(graph, feed), evaluate(graph, feed, float64=False)
            moved = [evaluate(graph, shaken(feed, k)) for k in range(4)]
        ratios = (deviation(graph, want, x, own).ratio for x in (own, *moved))
        return Expected(feed, want, own, max((r for r in ratios if np.isfinite(r)), default=1.0))


def check(graph: Graph, target: str = "cpu", change: Callable[[Any], None] = lambda program: None, known: Expected | None = None,
          **options: Any) -> None:  # fmt: skip
    """Compile and run; raises Failure on a crash or a wrong result, Refused where the target does not take the graph.

    `change` may alter the program before it runs.
    """
    try:
        program = autocomp.optimize(graph, target=target, **options)
        change(program)
        known = known or Expected.of(graph)
        results = run_anywhere(program, known.feed)
    except (UnsupportedOp, DoesNotFit, Refused) as e:
        if target == "cpu":
            raise Failure(f"{type(e).__name__}: {e}") from e
        raise Refused(str(e)) from e
    except (Exception, AssertionError) as e:
        raise Failure(f"{type(e).__name__}: {e}") from e
    for got in results:
        d = deviation(graph, known.want, got, known.own)
        if not (d.ratio <= max(1.0, NOISE * known.natural) or abs(d.got - d.want) <= NOTHING):
            raise Failure(f"{d.output}{list(d.index)} is {d.got!r}, float64 says {d.want!r}: {d.ratio:.3g} times the tolerance "
                          f"(NumPy in these types, or with inputs an ulp away: {known.natural:.3g})")  # fmt: skip


def keep(graph: Graph, failure: Failure, folder: Path, name: str) -> Path:
    """The failing graph as text with its message, and its parameters as .npz: `parse(text, params=load_npz(..))` is the graph again."""
    path = folder / f"{name}.txt"
    message = "\n".join(f"# {line}" for line in str(failure).splitlines())
    if graph.params:
        save_npz(path.with_suffix(".npz"), {n: graph.param(n) for n in graph.params})
    write_atomic(path, f"{message}\n{show(graph)}")
    return path


def run(count: int, number: int, folder: Path, tries: int = 3, target: str = "cpu",
        refused: list[str] | None = None) -> list[tuple[str, str]]:  # fmt: skip
    """`count` graphs of seed `number`; (path, message) of what failed, shrunk. Goes on after a failure with the next seed.

    `refused` collects the reasons why the target did not take a graph.
    """
    found: list[tuple[str, str]] = []
    done, wide, here = 0, target != "cpu", has_device(target)
    phases = (Phase.generate,) if here else (Phase.generate, Phase.shrink)  # what faults on a device takes the process with it
    for attempt in range(tries):
        last: list[tuple[Graph, Failure]] = []

        @seed(number + 1000 * attempt)
        @settings(max_examples=max(1, count - done), deadline=None, database=None, verbosity=Verbosity.quiet,
                  suppress_health_check=list(HealthCheck), phases=phases, report_multiple_bugs=False)  # fmt: skip
        @given(graphs(wide=wide))
        def one(graph: Graph) -> None:
            nonlocal done
            done += not last  # noqa: B023
            try:
                check(graph, target=target)
            except Refused as e:
                if refused is not None and not last:  # noqa: B023
                    refused.append(str(e))
            except Failure as e:
                last.append((graph, e))  # noqa: B023
                raise

        try:
            one()
        except Failure:
            graph, failure = last[-1]
            found.append((str(keep(graph, failure, folder, f"{target.replace(':', '_')}_seed{number}_{attempt}")), str(failure)))
        if done >= count or (here and found and lost()):
            break
    return found


def has_device(target: str) -> bool:
    """Whether programs for a GPU's target run on its device here."""
    return target != "cpu" and not load_target(target).why_not_runnable()


def _share(args: tuple[int, int, str, str]) -> tuple[list[tuple[str, str]], list[str]]:
    count, number, folder, target = args
    refused: list[str] = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["AUTOCOMP_CACHE"] = cache
        os.environ.setdefault(WATCHDOG, "20")  # a kernel that hangs is named
        return run(count, number, Path(folder), target=target, refused=refused), refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", default="random_graph_failures")
    parser.add_argument("--target", default="cpu", help="cpu, or a GPU's: on its device where it is here, else on the CPU model")
    a = parser.parse_args()
    share = 50 if a.target == "cpu" else 12
    work = [(min(share, a.count - at), a.seed * 10_000 + at, a.keep, a.target) for at in range(0, a.count, share)]
    start, failures, done = time.perf_counter(), 0, 0
    reasons: Counter[str] = Counter()
    print(f"{a.count} random graphs for {a.target}, seed {a.seed}", flush=True)
    alone = 1 if has_device(a.target) else None  # a fault of the device ends one share
    with ProcessPoolExecutor(a.jobs, mp_context=get_context("spawn"), max_tasks_per_child=alone) as pool:
        for (count, number, _, _), (found, refused) in zip(work, pool.map(_share, work)):
            done += count
            failures += len(found)
            reasons.update(refused)
            for path, message in found:
                print(f"FAILED {path}\n  {message}", flush=True)
            print(f"{done} graphs, {failures} failures, {reasons.total()} refused, {time.perf_counter() - start:.0f} s "
                  f"(share of seed {number})", flush=True)  # fmt: skip
    for reason, n in reasons.most_common(10):
        print(f"refused {n}: {reason}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
