"""The front page of a report: what was done, what binds and what to try next, in five lines."""

from __future__ import annotations

from typing import Any

from autocomp.report.layers import called
from autocomp.report.tables import plural, seconds_text

NEXT = {
    "launch": "fewer launches: raise max_body_ops or leave no fusion rule out, and see --why-not fusion/* for what kept kernels apart",
    "dram": "less traffic: narrower types, or fuse it with its neighbours (--why-not fusion/* says what kept them apart)",
    "matrix unit": "measure its schedules: autocomp tune; or narrower types, which the unit multiplies faster",
    "special functions": "fewer exponentials, roots and quotients: rules of phase algebra, or a cheaper form in the model",
    "vector unit": "less work an element: rules of phase algebra, or narrower types",
}
OTHERWISE = "measure its schedules: autocomp tune"


def front_page(program: Any, timing: Any = None) -> list[str]:
    """Five lines: what was done (two), what binds, how far it is from what the chip can do, what to try next."""
    calls, kernels = len(program.calls.calls), program.kernels
    fired: dict[str, int] = {}
    for e in program.trace.of("rule"):
        fired[e.name] = fired.get(e.name, 0) + int(e.data.get("count", 1))
    most = sorted(fired, key=lambda r: (-fired[r], r))[:3]
    total = program.predicted or 1.0
    by_bound: dict[str, float] = {}
    for k in kernels:
        by_bound[k.bound] = by_bound.get(k.bound, 0.0) + k.predicted * k.calls
    bounds = sorted(by_bound, key=lambda b: -by_bound[b])
    hot = max(kernels, key=lambda k: k.predicted * k.calls, default=None)
    full = sum(k.at_full_rate * k.calls for k in kernels)
    time = f", measured {seconds_text(timing.total)}" if timing else ""
    names = called(program, hot.name) if hot is not None else []
    return [
        f"{plural(len(program.graph.nodes()), 'node')} of the model became {plural(calls, 'kernel')}, {len(kernels)} distinct: "
        f"predicted {seconds_text(program.predicted)}{time} on {program.target.chip.name}.",
        f"{plural(len(fired), 'rule')} fired {plural(sum(fired.values()), 'time')}" + (f", most often {', '.join(most)}." if most else "."),
        "Bound by " + ", ".join(f"{b} {by_bound[b] / total:.0%}" for b in bounds[:3]) + " of the predicted time."
        if bounds else "No kernel is left to run.",
        f"At the full rate of the busiest unit of each kernel it would take {seconds_text(full)}, {full / total:.0%} of the prediction.",
        f"Try next: {hot.name}{f' ({names[0]})' if names else ''}, {hot.predicted * hot.calls / total:.0%} of the time, "
        f"bound by {hot.bound}: {NEXT.get(hot.bound, OTHERWISE)}." if hot is not None else "Nothing to try.",
    ]  # fmt: skip
