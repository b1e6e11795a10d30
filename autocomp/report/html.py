"""Reports as one offline HTML file: kernels, roofline plot, rules, stages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from autocomp.files import write_atomic
from autocomp.report.front import front_page
from autocomp.report.graphview import choice_text, kernel_network, svg
from autocomp.report.roofline import Series, points, roofline, types_of
from autocomp.report.tables import kernel_rows, remarks, runners_up, seconds_text
from autocomp.report.templates import asset, render
from autocomp.report.trial import environment


def share_plot(rows: list[dict[str, Any]]) -> str:
    """Predicted against measured seconds on logarithmic axes, one dot a kernel; on the diagonal they are the same."""
    points = [(r["kernel"], r["predicted"], r["measured"]) for r in rows if r["measured"] and r["predicted"]]
    if not points:
        return ""
    values = [v for _, p, m in points for v in (p, m)]
    lo, hi = floor(log10(min(values)) - 0.05), ceil(log10(max(values)) + 0.05)
    size, left, top = 350, 72, 34
    at = lambda v: (log10(v) - lo) / (hi - lo) * size
    x, y = (lambda v: left + at(v)), (lambda v: top + size - at(v))
    p = [f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" width="{size + 100}" height="{size + 80}" role="img" '
         'aria-label="predicted against measured" font-family="Helvetica,Arial,sans-serif" font-size="11" fill="currentColor">',
         f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none" stroke="currentColor" stroke-opacity="0.4"/>',
         f'<line x1="{left}" y1="{top + size}" x2="{left + size}" y2="{top}" stroke-dasharray="4 3" '
         'style="stroke:var(--roof)"/>']  # fmt: skip
    for e in range(lo, hi + 1):
        text = seconds_text(10.0**e)
        p.append(f'<text x="{x(10.0**e):.1f}" y="{top + size + 16}" text-anchor="middle">{text}</text>')
        p.append(f'<text x="{left - 6}" y="{y(10.0**e) + 4:.1f}" text-anchor="end">{text}</text>')
    for name, predicted, measured in points:
        tip = escape(f"{name}: predicted {seconds_text(predicted)}, measured {seconds_text(measured)}")
        place = f'cx="{x(predicted):.1f}" cy="{y(measured):.1f}"'
        p.append(f'<circle {place} r="4" fill="#3f7fc4" fill-opacity="0.8"><title>{tip}</title></circle>')
    p.append(f'<text x="{left + size / 2}" y="{top + size + 38}" text-anchor="middle">predicted</text>'
             f'<text x="14" y="{top + size / 2}" transform="rotate(-90 14 {top + size / 2})" text-anchor="middle">measured</text></svg>')
    return "".join(p)


def bars(terms: Sequence[Sequence[Any]]) -> list[tuple[str, float, str]]:
    """What a price is made of, the most first: (unit, share of the longest, time)."""
    some = [(str(n), float(s)) for n, s in terms if s > 0]
    most = max((s for _, s in some), default=1.0)
    return [(n, s / most, seconds_text(s)) for n, s in sorted(some, key=lambda t: -t[1])]


def correctness(program: Any) -> str:
    """What verification found, off the trace; "" where it was not run."""
    for e in reversed(program.trace.of("stage")):
        if e.name == "verify":
            return ", ".join(f"{k} {v}" for k, v in e.data.items())
    return ""


def program_report(program: Any, path: str | Path, timing: Any = None) -> Path:
    """Write the report of one program. `timing` is what `Program.profile` returned, if it was run."""
    rows = kernel_rows(program, timing)
    text = render(
        "program.html",
        p=program,
        rows=rows,
        remarks=remarks(program),
        lost=_lost(program),
        bars=bars,
        correct=correctness(program),
        environment=environment(),
        style=asset("report.css"),
        timing=timing,
        seconds=seconds_text,
        stages=program.trace.of("stage"),
        plot=share_plot(rows),
        front=front_page(program, timing),
        roofline=roofline(program.target.chip, [Series("", "#3f7fc4", points(rows))], types_of(rows)),
        choice=choice_text(program),
        graph=svg(kernel_network(program)),
        kernels=program.kernels,
    )
    write_atomic(Path(path), text)
    return Path(path)


def _lost(program: Any) -> dict[str, list[str]]:
    """By kernel, the schedules that lost, with their prices."""
    tried = {e.data["signature"]: e.data for e in program.trace.of("schedule") if "candidates" in e.data}
    return {k.name: runners_up(k.schedule, tried.get(k.signature, {})) for k in program.kernels}
