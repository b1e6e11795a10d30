"""One graph through the whole compiler, against the float64 reference (`python -m benchmarks.fuzz.harness graphs` draws them).

Each graph is compiled and run twice (the second time over an arena filled with 0xFF bytes, so that a value which is read
before it is written shows), every output compared with the float64 reference. A graph fails if an error is larger than its
tolerance and than `NOISE` times the error that NumPy makes in the graph's own types: random graphs may be ill-conditioned.

With another target (cuda:h200, maca:c500, ascend:910b1) sizes are those at which its kernels change their form. Where its device is here,
programs run on it, every buffer filled with 0xFF bytes first; elsewhere the printed kernels run on the model of their machine
(autocomp/simulate), a GPU's with asynchronous work done as late and as early as the plan allows. Graphs that the target refuses with a
reason are counted apart.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from autocomp.targets import load_target

import autocomp
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.node import Graph
from autocomp.ir.reference import evaluate
from autocomp.ir.tolerance import deviation, shaken
from autocomp.runtime.inputs import random_inputs
from tests.helpers.device_runs import poisoned_runs

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
    from autocomp.simulate.simt_model import compile_model

    folder = tempfile.TemporaryDirectory(prefix="autocomp-model-")
    return compile_model(Path(folder.name)), folder


def on_the_model(program: Any, feed: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Printed kernels on the model of their machine; a GPU's with asynchronous work late, then early."""
    from autocomp.simulate.ascend_model import AscendExecutor
    from autocomp.simulate.simt_model import ModelExecutor

    if any(c.kernel.opaque for c in program.calls.calls):
        raise Refused("a kernel has no generated code")
    if not program.calls.calls:
        return []
    with tempfile.TemporaryDirectory() as folder:
        if program.target.name == "ascend":
            return [AscendExecutor(program, Path(folder)).run(feed)]
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
    """A graph's inputs, its outputs in float64, in its own types and with inputs an ulp away, and how far these are (in tolerances)."""

    feed: dict[str, np.ndarray]
    want: dict[str, np.ndarray]
    own: dict[str, np.ndarray]
    near: list[dict[str, np.ndarray]]
    natural: float

    @staticmethod
    def of(graph: Graph) -> Expected:
        feed = random_inputs(graph, 1)
        with np.errstate(all="ignore"):
            want, own = evaluate(graph, feed), evaluate(graph, feed, float64=False)
            moved = [evaluate(graph, shaken(feed, k)) for k in range(4)]
        ratios = (deviation(graph, want, x, own).ratio for x in (own, *moved))
        return Expected(feed, want, own, moved, max((r for r in ratios if np.isfinite(r)), default=1.0))


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
        d = deviation(graph, known.want, got, known.own, near=known.near)
        if not (d.ratio <= max(1.0, NOISE * known.natural) or abs(d.got - d.want) <= NOTHING):
            raise Failure(f"{d.output}{list(d.index)} is {d.got!r}, float64 says {d.want!r}: {d.ratio:.3g} times the tolerance "
                          f"(NumPy in these types, or with inputs an ulp away: {known.natural:.3g})")  # fmt: skip


def has_device(target: str) -> bool:
    """Whether programs for a GPU's target run on its device here."""
    return target != "cpu" and not load_target(target).why_not_runnable()
