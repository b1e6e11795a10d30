"""What `compare` does with two texts: finds the sides, runs both in turns where they run here, and puts them beside each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from autocomp.report.compare import Comparison, of_given
from autocomp.report.sides import Given, resolve
from autocomp.report.trial import tried
from autocomp.rewrite import load_rules
from autocomp.runtime.inputs import random_inputs


def two_sides(a: str, b: str, build: Callable[[str, str, Any], Any], model: str | None, options: Any, target: str,
              rounds: int, run_folders: bool = False, ceilings: bool = False) -> Comparison:  # fmt: skip
    """`build(model, target, options)` compiles; `ceilings`: measure those of what ran. Raises AutocompError where a text names no side, or
    one that cannot be run as asked."""
    for x in (a, b):
        if Path(x).suffix in (".yaml", ".yml"):  # what is wrong in it is said before a program is built
            load_rules((x,))
    sides = [resolve(x, build, model, options, target, run_folders) for x in (a, b)]
    graph = next((s.program.graph for s in sides if s.program is not None), None)
    if graph is None and model is not None and (run_folders or not all(s.folder for s in sides)):
        graph = build(model, target, options).graph
    trial = tried(sides[0], sides[1], graph, rounds, ceilings=ceilings) if graph is not None else None
    timed = trial is not None and trial.comparable
    feed = random_inputs(graph, seed=0) if timed and graph is not None and not any(s.folder for s in sides) else None
    medians = (median(trial.rounds.a), median(trial.rounds.b)) if trial is not None and timed else (None, None)
    left, right = (of_given(s, feed, m) for s, m in zip(sides, medians, strict=True))
    return Comparison(left, right, trial, "" if trial is not None else _unmeasured(sides, run_folders, graph is None))


def _unmeasured(sides: list[Given], run_folders: bool, no_model: bool) -> str:
    """Why two sides did not run in turns, and what would make them."""
    if any(s.folder for s in sides) and not run_folders:
        return "saved folders run with --run-folders --model MODEL, which makes their sources code of this process"
    if no_model:
        return "no side says what the inputs are; give the model that both compute: --model MODEL"
    still = [f"{s.name} does not run here ({s.program.target.why_not_runnable()})" for s in sides if s.prepare is None and s.program]
    return "; ".join(still)
