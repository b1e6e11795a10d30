"""Two sides run in turns on the same inputs: their times, what the times allow to say, and how far each is from the float64 reference."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from autocomp.cost.calibrate import measure_ceilings
from autocomp.cost.host import usable_cores
from autocomp.errors import AutocompError
from autocomp.ir.node import Graph
from autocomp.ir.reference import input_sizes
from autocomp.ir.sizes import with_computed
from autocomp.report.device_facts import clock_rate, device_ceilings, float_type
from autocomp.report.device_sides import timer, to_host, torch_on_device
from autocomp.report.roofline import rate_text
from autocomp.report.sides import Given, Run
from autocomp.report.tables import seconds_text
from autocomp.runtime.executor import shape_of
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.rounds import METHOD, ROUNDS, Rounds, in_turns
from autocomp.runtime.verify import compare as against_reference
from autocomp.version import __version__

BUSY = 2.0  # load for one core from which on others are at work: the threads of a measurement are a load of one a core themselves


def _number(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdigit() else 0.0


@dataclass(frozen=True)
class Trial:
    """`errors`: of A and B, the element furthest from the reference, as text; `right`: whether each is within what is allowed."""

    rounds: Rounds
    errors: tuple[str, str]
    right: tuple[bool, bool]
    environment: dict[str, str]
    ceilings: tuple[float, float] | None = None  # of this machine in this run: operations/s, and bytes/s of a copy
    multiplied: str = "f32 multiply-adds"  # whose operations/s the first is

    def lines(self) -> list[str]:
        """For people: what was measured, the verdict, correctness, environment. Where a side computes something else, no times."""
        a, b = (seconds_text(median(side)) for side in (self.rounds.a, self.rounds.b))
        said = [f"verdict: {self.verdict}"]
        if self.comparable:
            said = [f"measured: A {a}, B {b} (medians of {len(self.rounds.a)} rounds in turns, cold caches)",
                    f"A / B: {self.rounds.ratio.text}, {self.rounds.ratio.chance:.1%} sure: {METHOD}", *said]  # fmt: skip
        said += [f"correctness of {side}: {text}" for side, text in zip("AB", self.errors, strict=True)]
        if self.ceilings and self.comparable:
            rate, copied = map(rate_text, self.ceilings)
            said.append(f"ceilings of this run: {rate}op/s of {self.multiplied}, {copied}B/s copied")
        return [*said, *self.cautions(), "environment: " + ", ".join(f"{k} {v}" for k, v in self.environment.items())]

    def cautions(self) -> list[str]:
        """That other programs were running: threads that wait for each other then wait for cores too."""
        load, cores = (_number(self.environment.get(k, "")) for k in ("load", "cores"))
        if not self.comparable or "device" in self.environment or load < BUSY * cores or not cores:
            return []
        return [f"caution: a load of {load:g} on {cores:g} cores: other programs take time from both sides, and most from the one with "
                "more threads; measure again on an idle machine"]  # fmt: skip

    @property
    def comparable(self) -> bool:
        """Whether both sides compute what the model says, so that their times say something."""
        return all(self.right)

    @property
    def verdict(self) -> str:
        """About times, where both sides are right."""
        wrong = [side for side, right in zip("AB", self.right, strict=True) if not right]
        return f"{' and '.join(wrong)} computes something else: no verdict about times" if wrong else self.rounds.verdict

    def data(self) -> dict[str, Any]:
        """For machines; without times where a side computes something else."""
        if not self.comparable:
            return {"verdict": self.verdict, "errors": list(self.errors), "right": list(self.right), "environment": self.environment}
        return {**self.rounds.data(), "verdict": self.verdict, "errors": list(self.errors), "right": list(self.right),
                "seconds": [list(self.rounds.a), list(self.rounds.b)], "ceilings": list(self.ceilings) if self.ceilings else None,
                "environment": self.environment}  # fmt: skip


def tried(a: Given, b: Given, graph: Graph, rounds: int = ROUNDS, seed: int = 0, ceilings: bool = False) -> Trial | None:
    """Run both sides in turns on seeded inputs; None where one of them cannot run here. `ceilings`: measure those of the
    CPU, or the device, behind it.
    Raises AutocompError where one of them fails or gives an output of another shape."""
    if a.prepare is None or b.prepare is None:
        return None
    feed = random_inputs(graph, seed=seed)
    calls = a.prepare(graph, feed), b.prepare(graph, feed)
    checked = [_checked(graph, feed, _arrays(side.name, call(), graph, feed)) for side, call in zip((a, b), calls, strict=True)]
    (left, sure), (right, also) = checked
    torch = torch_on_device() if a.device and b.device else None
    before = clock_rate(torch) if torch else 0.0
    measured = _measured(a, b, *calls, rounds)
    if torch:
        clocks = f"{before / 1e6:.0f} MHz before the rounds and {clock_rate(torch) / 1e6:.0f} MHz behind them"
        found = {**environment(), "clock of the cores": clocks}
        kind = float_type(graph)
        return Trial(measured, (left, right), (sure, also), found, device_ceilings(torch, kind) if ceilings else None,
                     f"{kind} products by torch")  # fmt: skip
    limits = measure_ceilings(_threads()) if ceilings and not (a.device or b.device) else None
    return Trial(measured, (left, right), (sure, also), environment(), limits)


def times_of(a: Given, b: Given, graph: Graph) -> Rounds | None:
    """Both sides timed in turns as `tried` does it, without a look at what they compute; None where one of them cannot run here, or where a
    program for a device could only be timed with copies to it and back (torch holds its tensors)."""
    if a.prepare is None or b.prepare is None or any(s.program and s.program.target.name == "cuda" and not s.device for s in (a, b)):
        return None
    feed = random_inputs(graph, seed=0)
    return _measured(a, b, a.prepare(graph, feed), b.prepare(graph, feed), ROUNDS)


def _measured(a: Given, b: Given, run_a: Run, run_b: Run, rounds: int) -> Rounds:
    """By the device's events where both sides are on it, else by the host's clock."""
    torch = torch_on_device() if a.device and b.device else None
    return in_turns(run_a, run_b, rounds=rounds, timed=timer(torch) if torch else None)


def _arrays(name: str, made: Mapping[str, Any], graph: Graph, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    out = {}
    sizes = with_computed(input_sizes(graph, feed), graph.computed)
    for output, n in graph.outputs:
        x = np.array(to_host(made[output]))  # of its own: the next call may write over it
        if x.shape != (shape := shape_of(n.type, sizes)):
            raise AutocompError(f"makes '{output}' of shape {list(x.shape)}, the model says {list(shape)}", where=f"compare: {name}",
                                hint="a side computes what the model computes")  # fmt: skip
        out[output] = x
    return out


def _checked(graph: Graph, feed: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> tuple[str, bool]:
    c = against_reference(graph, feed, got)
    d = c.worst
    at = f"worst element {d.output}{list(d.index)} is {d.got:.6g}, float64 says {d.want:.6g}, {d.ratio:.2g} of what is allowed"
    return at, bool(d.ratio <= 1.0)


def environment() -> dict[str, str]:
    """What figures depend on: the machine, its load, versions, threads."""
    from autocomp.cost.host import facts

    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?"
    return {"autocomp": __version__, "python": platform.python_version(), "numpy": np.__version__, "system": platform.platform(),
            "processor": facts().model or platform.machine(), "cores": str(os.cpu_count()), "load": load,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"), **_device()}  # fmt: skip


def _threads() -> int:
    """Of a program's calls: what OMP_NUM_THREADS says, else all cores."""
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(said) if said.isdecimal() and int(said) > 0 else usable_cores()


def _device() -> dict[str, str]:
    torch = torch_on_device() if "torch" in sys.modules else None  # importing it takes seconds
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "CUDA of torch": str(torch.version.cuda)} if torch else {}
