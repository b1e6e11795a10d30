"""The roofline plot: ceilings of a chip, and kernels of one or two programs below them, as inline SVG that follows the page's colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Any

from autocomp.cost.chip import Chip
from autocomp.report.tables import seconds_text

WIDTH, HEIGHT = 760, 430
LEFT, TOP, RIGHT, BOTTOM = 72, 34, 16, 46  # margins
CHAR, LINE = 6.0, 13  # of a label, with some room
NAMED = 6  # kernels that are named in the plot: those that take most of the time
DASHED = ' stroke-dasharray="5 4"'
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Point:
    """A kernel: operations a byte of main memory, operations a second as predicted, and as measured, where it was; `seconds`: its part of
    the time of its program."""

    name: str
    intensity: float
    predicted: float | None
    measured: float | None
    seconds: float = 0.0


@dataclass(frozen=True)
class Series:
    """Points of one colour; `name` for the legend, "" where there is only one."""

    name: str
    colour: str
    points: tuple[Point, ...]


def points(rows: Iterable[Mapping[str, Any]]) -> tuple[Point, ...]:
    """Of each row of `tables.kernel_rows`, or of a saved folder, that computes and moves something."""
    out = []
    for r in rows:
        ops, moved, predicted, measured = r.get("operations"), r.get("bytes"), r.get("predicted"), r.get("measured")
        if ops and moved and (predicted or measured):
            seconds = float(measured or predicted or 0.0) * int(r["calls"])
            out.append(Point(str(r["kernel"]), ops / moved, ops / predicted if predicted else None, ops / measured if measured else None,
                             seconds))  # fmt: skip
    return tuple(out)


def rate_text(v: float) -> str:
    """3.2e11 -> '320 G'."""
    for unit, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if v >= scale:
            return f"{v / scale:.3g} {unit}"
    return f"{v:.3g} "


def roofline(chip: Chip, series: Sequence[Series], types: Iterable[str] = (), measured: tuple[float, float] | None = None) -> str:
    """Inline SVG on logarithmic axes: the ceilings of the chip's memories (main memory drawn through, nearer ones dashed: what lies in them
    is above the first), of its matrix units for `types` and of its vector unit, as its file has them; a dot a kernel (filled: predicted, a
    ring: measured). `measured`: the same run's own ceilings, operations/s and bytes/s. "" where no kernel can be placed."""
    every = [p for s in series for p in s.points]
    if not every:
        return ""
    slopes = [(m.name, m.bandwidth) for m in chip.memories if m.bandwidth]
    roofs = [(f"matrix {d}", chip.matrix[d]) for d in sorted(set(types) & chip.matrix.keys())] + [("vector f32", chip.vector["f32"])]
    main, top = slopes[0][1], max(rate for _, rate in roofs)
    slopes = [slopes[0], *((n, b) for n, b in slopes[1:] if main * 1.5 < b)][:3]
    xs = [p.intensity for p in every] + [top / main]
    ys = [y for p in every for y in (p.predicted, p.measured) if y] + [rate for _, rate in roofs] + ([measured[0]] if measured else [])
    x0, x1, y0, y1 = floor(log10(min(xs)) - 0.3), ceil(log10(max(xs)) + 0.3), floor(log10(min(ys)) - 0.1), ceil(log10(max(ys)) + 0.1)
    x = lambda v: LEFT + (log10(v) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
    y = lambda v: HEIGHT - BOTTOM - (log10(v) - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)
    s = [f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
         'role="img" aria-label="roofline" font-family="Helvetica,Arial,sans-serif" font-size="11" fill="currentColor">',
         f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}" fill="none" stroke="currentColor" '
         'stroke-opacity="0.4"/>']  # fmt: skip
    for e in range(x0, x1 + 1):
        s.append(_text(x(10.0**e), HEIGHT - BOTTOM + 16, f"{10.0**e:g}", "middle"))
    for e in range(y0, y1 + 1):
        s.append(_text(LEFT - 6, y(10.0**e) + 4, rate_text(10.0**e).strip(), "end"))
    taken: list[Box] = [_around(x(p.intensity), y(v)) for p in every for v in (p.predicted, p.measured) if v]
    for n, (name, bandwidth) in enumerate(slopes):
        low, knee = max(10.0**x0, 10.0**y0 / bandwidth), min(top / bandwidth, 10.0**x1)
        if low >= knee:
            continue
        ends = f"{x(low):.1f},{y(low * bandwidth):.1f} {x(knee):.1f},{y(knee * bandwidth):.1f}"
        s.append(f'<polyline class="slope" points="{ends}" fill="none" style="stroke:var(--roof)"{DASHED if n else ""}/>')  # fmt: skip
        along = [low * (knee / low) ** t for t in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)]
        label = f"{name} {rate_text(bandwidth)}B/s"
        s.append(_placed(label, [(x(v) + 5, y(v * bandwidth) + 13, "start") if not n else (x(v) - 4, y(v * bandwidth) - 3, "end")
                                  for v in along], taken, "var(--roof)"))
    for name, rate in roofs:
        knee = max(rate / slopes[-1][1], 10.0**x0)
        line = f"{x(knee):.1f},{y(rate):.1f} {x(10.0**x1):.1f},{y(rate):.1f}"
        s.append(f'<polyline class="roof" points="{line}" fill="none" style="stroke:var(--roof)"/>')
        ways = [(WIDTH - RIGHT - 4.0 - k * 40, y(rate) + dy, "end") for k in range(8) for dy in (-4, 13)]
        s.append(_placed(f"{name} {rate_text(rate)}op/s", ways, taken, "var(--roof)"))
    if measured:
        rate, bandwidth = measured
        low, knee, high = max(10.0**x0, 10.0**y0 / bandwidth), rate / bandwidth, 10.0**x1
        if low < high:  # the knee may lie beside the plot: on a busy machine a copy is slow
            turns = [v for v in (low, knee, high) if low <= v <= high]
            line = " ".join(f"{x(v):.1f},{y(min(rate, v * bandwidth)):.1f}" for v in turns)
            s.append(f'<polyline class="measured-roof" points="{line}" fill="none" style="stroke:var(--ran)" stroke-width="1.6"/>')
            label = f"of this run: {rate_text(rate)}op/s, {rate_text(bandwidth)}B/s copied"
            top = y(min(rate, high * bandwidth))
            ways = [(WIDTH - RIGHT - 4.0 - k * 40, top + dy, "end") for k in range(8) for dy in (-4, 13)]
            s.append(_placed(label, ways, taken, "var(--ran)"))
    named = sorted(every, key=lambda p: -p.seconds)[:NAMED]
    for one in series:
        s += [_dots(p, one, x, y) for p in one.points]
    for p in named:
        v = p.measured or p.predicted or 0.0
        beside = [(x(p.intensity) + 8, "start"), (x(p.intensity) - 8, "end")]
        ways = [(at, y(v) + 4 + dy, a) for dy in (0, -LINE, LINE, -2 * LINE, 2 * LINE) for at, a in beside]
        s.append(_placed(p.name, ways, taken))
    s.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "operations a byte of main memory", "middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    s.append(f'<text x="14" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 14 {middle:.0f})">operations a second</text>')
    return "".join([*s, _legend(series), "</svg>"])


def _legend(series: Sequence[Series]) -> str:
    out, at = [], float(LEFT)
    for s in series:
        for kind, fill in (("predicted", s.colour), ("measured", "none")):
            if any(getattr(p, kind) for p in s.points):
                label = f"{s.name}{': ' if s.name else ''}{kind}"
                out.append(f'<circle cx="{at + 5:.0f}" cy="14" r="4" fill="{fill}" stroke="{s.colour}" stroke-width="1.6"/>')
                out.append(_text(at + 14, 18, label, "start"))
                at += 14 + CHAR * len(label) + 18
    return "".join(out)


def _dots(p: Point, s: Series, x: Any, y: Any) -> str:
    who = f"{s.name}: {p.name}" if s.name else p.name
    tip = escape(f"{who}: {p.intensity:.3g} operations a byte, {seconds_text(p.seconds)} in all" + "".join(
        f", {kind} {rate_text(v)}op/s" for kind, v in (("predicted", p.predicted), ("measured", p.measured)) if v))  # fmt: skip
    out, at = [], f'cx="{x(p.intensity):.1f}"'
    if p.predicted and p.measured:
        out.append(f'<line x1="{x(p.intensity):.1f}" y1="{y(p.predicted):.1f}" x2="{x(p.intensity):.1f}" y2="{y(p.measured):.1f}" '
                   f'stroke="{s.colour}" stroke-opacity="0.35"/>')  # fmt: skip
    if p.predicted:
        out.append(f'<circle class="kernel" {at} cy="{y(p.predicted):.1f}" r="4" fill="{s.colour}" fill-opacity="0.8"><title>{tip}</title>'
                   "</circle>")  # fmt: skip
    if p.measured:
        out.append(f'<circle class="measured" {at} cy="{y(p.measured):.1f}" r="4.5" fill="none" stroke="{s.colour}" stroke-width="1.6">'
                   f"<title>{tip}</title></circle>")  # fmt: skip
    return "".join(out)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "") -> str:
    fill = f' style="fill:{colour}"' if colour else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{fill}>{escape(text)}</text>'


def _around(x: float, y: float) -> Box:
    return x - 5, y - 5, x + 5, y + 5


def _placed(text: str, ways: Sequence[tuple[float, float, str]], taken: list[Box], colour: str = "") -> str:
    """The text at the first of some places where it covers nothing and stays in the plot; "" where there is none."""
    for x, y, anchor in ways:
        left = x - (CHAR * len(text) if anchor == "end" else 0)
        box = left, y - LINE + 3, left + CHAR * len(text), y + 3
        free = all(box[2] <= b[0] or b[2] <= box[0] or box[3] <= b[1] or b[3] <= box[1] for b in taken)
        if free and left >= LEFT and box[2] <= WIDTH - RIGHT + 1 and box[1] >= TOP - 2 and box[3] <= HEIGHT - BOTTOM:
            taken.append(box)
            return _text(x, y, text, anchor, colour)
    return ""


def types_of(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Element types of the rows' products."""
    return {str(r["matrix"]) for r in rows if r.get("matrix")}
