"""Reports as one offline HTML file: kernels, roofline plot, rules, stages."""

from __future__ import annotations

from html import escape
from math import log10
from pathlib import Path
from typing import Any

from autocomp.files import write_atomic
from autocomp.report.graphview import choice_text, kernel_network, svg
from autocomp.report.roofline import front_page, roofline
from autocomp.report.tables import kernel_rows, remarks, seconds_text
from autocomp.report.templates import render


def share_plot(rows: list[dict[str, Any]]) -> str:
    """Predicted against measured seconds on logarithmic axes, one dot a kernel; on the diagonal they are the same."""
    points = [(r["kernel"], r["predicted"], r["measured"]) for r in rows if r["measured"] and r["predicted"]]
    if not points:
        return ""
    lo = log10(min(min(p, m) for _, p, m in points)) - 0.2
    hi = log10(max(max(p, m) for _, p, m in points)) + 0.2
    size = 420
    at = lambda v: 50 + (log10(v) - lo) / (hi - lo) * size
    p = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size + 80}" height="{size + 80}" '
        'font-family="Helvetica,Arial,sans-serif" font-size="11">',
        f'<rect x="50" y="20" width="{size}" height="{size}" fill="#fbfcfd" stroke="#99a"/>',
        f'<line x1="50" y1="{20 + size}" x2="{50 + size}" y2="20" stroke="#c66" stroke-dasharray="4 3"/>',
    ]
    for name, predicted, measured in points:
        tip = escape(f"{name}: predicted {seconds_text(predicted)}, measured {seconds_text(measured)}")
        place = f'cx="{at(predicted):.1f}" cy="{size + 70 - at(measured):.1f}"'
        p.append(f'<circle {place} r="4" fill="#3572b0" fill-opacity="0.7"><title>{tip}</title></circle>')
    p.append(
        f'<text x="{50 + size / 2}" y="{size + 50}" text-anchor="middle">predicted (log)</text>'
        f'<text x="16" y="{20 + size / 2}" transform="rotate(-90 16 {20 + size / 2})" text-anchor="middle">measured (log)</text>'
        "</svg>"
    )
    return "".join(p)


def program_report(program: Any, path: str | Path, timing: Any = None) -> Path:
    """Write the report of one program. `timing` is what `Program.profile` returned, if it was run."""
    rows = kernel_rows(program, timing)
    text = render(
        "program.html",
        p=program,
        rows=rows,
        remarks=remarks(program),
        timing=timing,
        seconds=seconds_text,
        stages=program.trace.of("stage"),
        plot=share_plot(rows),
        front=front_page(program, timing),
        roofline=roofline(program, timing.by_kernel if timing else None),
        choice=choice_text(program),
        graph=svg(kernel_network(program)),
        kernels=program.kernels,
    )
    write_atomic(Path(path), text)
    return Path(path)
