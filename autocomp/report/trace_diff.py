"""Two records of runs beside each other: what a model became on another machine, by another version, or for another target.

    runs: A autocomp 0.1.0, cuda:h200; B autocomp 0.1.0, cuda:a100
    rules: fusion/epilogue fired 12 times in A and 10 times in B; 2 rules fired in A alone: ..
    kernels: 7 of 9 are in both with one schedule; matmul_gelu is tile .. in A and tile .. in B
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from autocomp.report.record import about, load_trace
from autocomp.report.tables import plural, seconds_text
from autocomp.trace import Trace

Pairs = dict[str, tuple[Any, Any]]  # a name -> what A has of it, and B; None of a side that has not
SHOWN = 8  # of a kind that are named
FAR = 1.5  # times of stages that differ by more are told


def trace_difference(a: str | Path, b: str | Path) -> tuple[list[str], dict[str, Any]]:
    """(lines, data) of two files that `save_trace` wrote. Raises AutocompError where one is no trace."""
    left, right = load_trace(a), load_trace(b)
    runs = tuple({k: v for k, v in about(x).items() if k != "recording"} for x in (a, b))
    pairs = {"stages": _pairs(_stages(left), _stages(right)), "rules": _pairs(_rules(left), _rules(right)),
             "kernels": _pairs(_kernels(left), _kernels(right)), "cover": _pairs(_cover(left), _cover(right))}  # fmt: skip
    said = [", ".join(f"{k} {v}" for k, v in r.items()) or "does not say where it was made" for r in runs]
    lines = [f"runs: A {said[0]}; B {said[1]}"]
    slow = [f"{n} {seconds_text(x)} in A and {seconds_text(y)} in B" for n, (x, y) in pairs["stages"].items()
            if x and y and max(x, y) > FAR * min(x, y)]  # fmt: skip
    lines += [f"stages: {'; '.join(slow[:SHOWN])}"] if slow else []
    lines += _told("rules", pairs["rules"], lambda n, x, y: f"{n} fired {plural(x, 'time')} in A and {plural(y, 'time')} in B", "fired in")
    lines += _told("cover", pairs["cover"], lambda n, x, y: f"{n} {x:g} in A and {y:g} in B", "in")
    lines += _told("kernels", pairs["kernels"], lambda n, x, y: f"{n} is {x} in A and {y} in B", "in")
    return lines, {"runs": list(runs), **pairs}


def _told(what: str, pairs: Pairs, both: Callable[[str, Any, Any], str], alone: str) -> list[str]:
    """One line: how many are the same, those that differ, and those of one side alone."""
    same = sum(x == y for x, y in pairs.values())
    parts = [f"{same} of {len(pairs)} are the same"]
    other = [both(n, x, y) for n, (x, y) in pairs.items() if x is not None and y is not None and x != y]
    parts += other[:SHOWN] + ([f"and {len(other) - SHOWN} more that differ"] if len(other) > SHOWN else [])
    for letter, i in (("A", 1), ("B", 0)):
        if mine := [n for n, p in pairs.items() if p[i] is None]:
            more = f" and {len(mine) - SHOWN} more" if len(mine) > SHOWN else ""
            parts.append(f"{alone} {letter} alone: {', '.join(mine[:SHOWN])}{more}")
    return [f"{what}: {'; '.join(parts)}"] if pairs else []


def _pairs(a: dict[str, Any], b: dict[str, Any]) -> Pairs:
    return {n: (a.get(n), b.get(n)) for n in {**a, **b}}


def _stages(t: Trace) -> dict[str, float]:
    return {e.name: e.seconds for e in t.of("stage")}


def _rules(t: Trace) -> dict[str, int]:
    out: dict[str, int] = {}
    for e in t.of("rule"):
        out[e.name] = out.get(e.name, 0) + int(e.data.get("count", 1))
    return out


def _cover(t: Trace) -> dict[str, float]:
    """Numbers of the last cover."""
    last = t.of("cut")[-1:]
    return {k: v for e in last for k, v in e.data.items() if isinstance(v, (int, float))}


def _kernels(t: Trace) -> dict[str, str]:
    """A kernel's name -> the cheapest schedule of the rule that made it, with its price."""
    return {e.name: str(e.data["made"][e.data["rule"]]["best"]) for e in t.of("schedule") if e.data.get("rule") in e.data.get("made", ())}
