"""The front page of a report: what was done, what binds and what to try next in five lines, and the roofline plot of the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Any

from autocomp.cost.demand import demand_of
from autocomp.report.layers import called
from autocomp.report.tables import plural, seconds_text

WIDTH, HEIGHT = 640, 360
LEFT, TOP, RIGHT, BOTTOM = 64, 16, 16, 44  # margins
NEXT = {
    "launch": "fewer launches: raise max_body_ops or leave no fusion rule out, and see --why-not fusion/* for what kept kernels apart",
    "dram": "less traffic: narrower types, or fuse it with its neighbours (--why-not fusion/* says what kept them apart)",
    "matrix unit": "measure its schedules: autocomp tune; or narrower types, which the unit multiplies faster",
    "special functions": "fewer exponentials, roots and quotients: rules of phase algebra, or a cheaper form in the model",
    "vector unit": "less work an element: rules of phase algebra, or narrower types",
}
OTHERWISE = "measure its schedules: autocomp tune"


@dataclass(frozen=True)
class Point:
    """A kernel: operations a byte of main memory, operations a second as predicted, and as measured where it was."""

    name: str
    intensity: float
    predicted: float
    measured: float | None


def points(program: Any, measured: Mapping[str, float] | None = None) -> list[Point]:
    """Of each distinct kernel that computes and moves something."""
    kernels = {c.kernel.name: c.kernel for c in program.calls.calls}
    out = []
    for k in program.kernels:
        kernel = kernels.get(k.name)
        if kernel is None or kernel.opaque or not k.predicted:
            continue
        w = demand_of(kernel).work
        ops, moved = w.matrix + w.vector + w.special, w.read + w.written
        if ops and moved:
            m = (measured or {}).get(k.name)
            out.append(Point(k.name, ops / moved, ops / k.predicted, ops / m if m else None))
    return out


def roofline(program: Any, measured: Mapping[str, float] | None = None) -> str:
    """Inline SVG on logarithmic axes: the ceilings of the chip's main memory, of its matrix units by type and of its vector unit, as its
    file has them, and a dot a kernel. "" where no kernel can be placed."""
    found, chip = points(program, measured), program.target.chip
    if not found:
        return ""
    memory = chip.memories[0].bandwidth
    used = {demand_of(c.kernel).work.matrix_dtype for c in program.calls.calls if not c.kernel.opaque and demand_of(c.kernel).work.matrix}
    roofs = [(f"matrix {d}", chip.matrix[d]) for d in sorted(used & chip.matrix.keys())] + [("vector f32", chip.vector["f32"])]
    ridge = max(rate for _, rate in roofs) / memory
    xs = [p.intensity for p in found] + [ridge]
    ys = [y for p in found for y in (p.predicted, p.measured) if y] + [rate for _, rate in roofs]
    x0, x1, y0, y1 = floor(log10(min(xs)) - 0.3), ceil(log10(max(xs)) + 0.3), floor(log10(min(ys)) - 0.1), ceil(log10(max(ys)) + 0.1)
    x = lambda v: LEFT + (log10(v) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
    y = lambda v: HEIGHT - BOTTOM - (log10(v) - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)
    s = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
         'aria-label="roofline" font-family="Helvetica,Arial,sans-serif" font-size="11">',
         f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}" '
         'fill="#fbfcfd" stroke="#99a"/>']  # fmt: skip
    for e in range(x0, x1 + 1):
        s.append(f'<text x="{x(10.0**e):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{10.0**e:g}</text>')
    for e in range(y0, y1 + 1):
        s.append(f'<text x="{LEFT - 6}" y="{y(10.0**e) + 4:.1f}" text-anchor="end">1e{e}</text>')
    low = max(10.0**x0, 10.0**y0 / memory)
    for name, rate in roofs:
        knee = rate / memory
        s.append(f'<polyline points="{x(low):.1f},{y(low * memory):.1f} {x(knee):.1f},{y(rate):.1f} {x(10.0**x1):.1f},{y(rate):.1f}" '
                 'fill="none" stroke="#c66"/>'
                 f'<text x="{WIDTH - RIGHT - 4}" y="{y(rate) - 4:.1f}" text-anchor="end" fill="#a44">{escape(name)} {rate:.3g}/s</text>')
    for p in found:
        tip = f"{p.name}: {p.intensity:.3g} operations a byte, predicted {p.predicted:.3g}/s" + (
            f", measured {p.measured:.3g}/s" if p.measured else "")  # fmt: skip
        s.append(f'<circle class="kernel" cx="{x(p.intensity):.1f}" cy="{y(p.predicted):.1f}" r="4" fill="#3572b0" fill-opacity="0.75">'
                 f"<title>{escape(tip)}</title></circle>")
        if p.measured:
            s.append(f'<circle class="measured" cx="{x(p.intensity):.1f}" cy="{y(p.measured):.1f}" r="4" fill="none" stroke="#d9480f">'
                     f"<title>{escape(tip)}</title></circle>")
    s.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">operations a byte of main memory '
             f"({memory:.3g} bytes/s)</text></svg>")
    return "".join(s)


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
