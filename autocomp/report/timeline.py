"""The timeline picture of a simulated program: one HTML file, a lane for each pipe of each kernel, stalls hatched with their causes."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from autocomp.files import write_atomic
from autocomp.report.tables import seconds_text
from autocomp.report.templates import render
from autocomp.simulate.timeline import Picture

WIDTH, LEFT, ROW = 1100, 120, 22
COLOURS = ("#3572b0", "#4a9d5b", "#b0593f", "#7d5ba6", "#a8863b", "#3e9aa3", "#8a8f98")


def lanes_svg(p: Picture) -> str:
    """One kernel: time to the right, a row a lane, a box a work, a hatched box a stall; a title says what."""
    end = max((b.end for b in p.bars), default=0.0) or 1.0
    height = ROW * len(p.lanes) + 24
    x = lambda seconds: LEFT + seconds / end * (WIDTH - LEFT - 10)
    row = {lane: i for i, lane in enumerate(p.lanes)}
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
           f'aria-label="pipes of {escape(p.kernel)}" font-family="Helvetica,Arial,sans-serif" font-size="11">']  # fmt: skip
    for lane, i in row.items():
        out.append(f'<text x="4" y="{i * ROW + 15}">{escape(lane)}</text>'
                   f'<line x1="{LEFT}" y1="{i * ROW + 20}" x2="{WIDTH - 10}" y2="{i * ROW + 20}" stroke="#dde"/>')  # fmt: skip
    for b in p.bars:
        kind = 'class="stall" fill="url(#stall)"' if b.stall else f'class="work" fill="{COLOURS[row[b.lane] % len(COLOURS)]}"'
        told = f"waits for {b.what}" if b.stall else b.what
        out.append(f'<rect {kind} x="{x(b.start):.2f}" y="{row[b.lane] * ROW + 4}" width="{max(0.3, x(b.end) - x(b.start)):.2f}" '
                   f'height="{ROW - 8}"><title>{escape(told)}, {(b.end - b.start) * 1e9:.0f} ns from {b.start * 1e9:.0f}</title></rect>')
    for i in range(6):
        side, said = "end" if i == 5 else "middle", escape(seconds_text(end * i / 5))
        out.append(f'<text x="{x(end * i / 5):.0f}" y="{height - 6}" text-anchor="{side}">{said}</text>')
    return "".join([*out, "</svg>"])


def timeline_page(program: Any, pictures: list[Picture], path: Path) -> Path:
    """Write the page of a program."""
    infos = {k.name: k for k in program.kernels}
    kernels = [(p, infos[p.kernel], lanes_svg(p)) for p in pictures]
    write_atomic(path, render("timeline.html", p=program, kernels=kernels, seconds=seconds_text, stalls=6))
    return path
