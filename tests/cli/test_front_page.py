"""The first page of `optimize --report`: five lines and the roofline plot."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import autocomp
from autocomp.report.front import front_page
from autocomp.report.html import bars
from autocomp.report.roofline import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Series, _placed, points, roofline, types_of
from autocomp.report.tables import kernel_rows
from tests.helpers.browser import browser

TEXT = """graph g
input x: f32[64, 128]
param w: f32[128, 256] = random(1)
%0 = matmul(x, w)
%1 = gelu(%0)
%2 = softmax(%1, axes=[1])
output y = %2
"""


@pytest.fixture(scope="module", params=["cpu", "cuda:h200", "ascend:910b"])
def program(request):
    return autocomp.optimize(TEXT, target=request.param)


def test_the_front_page_has_five_lines_with_figures(program, tmp_path):
    lines = front_page(program)
    assert len(lines) == 5 and all(len(x) < 300 for x in lines)
    assert re.match(r"\d+ nodes of the model became \d+ kernels?, \d+ distinct: predicted ", lines[0])
    shares = [int(x) for x in re.findall(r"(\d+)%", lines[2])]
    assert lines[2].startswith("Bound by ") and 90 <= sum(shares) <= 102
    assert lines[4].startswith("Try next: ") and "bound by" in lines[4]
    page = program.report(tmp_path / "r.html").read_text()
    assert page.count("<li>") >= 5 and 'aria-label="roofline"' in page


def plot(program, measured):
    rows = kernel_rows(program)
    if measured:
        rows = [{**r, "measured": 1e-3} for r in rows]
    return ElementTree.fromstring(roofline(program.target.chip, [Series("", "#3f7fc4", points(rows))], types_of(rows)))


def tags(picture, name):
    return [e for e in picture.iter() if e.tag.endswith(name)]


def test_every_dot_of_the_roofline_lies_in_the_plot_below_its_roof(program):
    found = points(kernel_rows(program))
    picture = plot(program, measured=True)
    dots = [e for e in tags(picture, "circle") if e.get("class")]
    assert len(dots) == 2 * len(found) > 0  # predicted and measured
    for e in dots:
        assert LEFT <= float(e.get("cx")) <= WIDTH - RIGHT and TOP <= float(e.get("cy")) <= HEIGHT - BOTTOM
    slopes = [e for e in tags(picture, "polyline") if e.get("class") == "slope"]
    roofs = [e for e in tags(picture, "polyline") if e.get("class") == "roof"]
    assert slopes and len(roofs) >= 1 and not slopes[0].get("stroke-dasharray") and all(e.get("stroke-dasharray") for e in slopes[1:])
    for e in (*slopes, *roofs):
        (x0, y0), (x1, y1) = (tuple(map(float, p.split(","))) for p in e.get("points").split())
        assert all(LEFT - 1 <= x <= WIDTH - RIGHT + 1 for x in (x0, x1)) and all(TOP - 1 <= y <= HEIGHT - BOTTOM + 1 for y in (y0, y1))
        assert x0 < x1 and (y0 == y1 if e in roofs else y0 > y1)
    top = max(*program.target.chip.matrix.values(), program.target.chip.vector["f32"])
    assert all(p.predicted <= top * 1.01 for p in found)


def test_the_plot_names_its_ceilings_and_the_kernels_that_take_most(program):
    said = [e.text for e in tags(plot(program, measured=False), "text")]
    assert {"operations a byte of main memory", "operations a second", "predicted"} <= set(said) and "measured" not in said
    assert any(t.startswith("vector f32 ") for t in said) and any(t.startswith(f"{program.target.chip.memories[0].name} ") for t in said)
    assert any(k.name in said for k in program.kernels)


def test_labels_take_free_places_only():
    taken = [(100.0, 100.0, 110.0, 110.0)]
    ways = [(104.0, 108.0, "start"), (120.0, 108.0, "start"), (300.0, 300.0, "start")]
    assert 'x="120.0"' in _placed("gemm", ways, taken) and len(taken) == 2
    assert 'x="300.0"' in _placed("gemm", ways, taken) and _placed("gemm", ways, taken) == ""


def test_the_report_says_where_the_time_of_a_kernel_goes_and_what_lost(program, tmp_path):
    page = program.report(tmp_path / "r.html").read_text()
    assert bars([["dram", 1e-6], ["vector unit", 2e-6], ["launch", 0.0]]) == [("vector unit", 1.0, "2 us"), ("dram", 0.5, "1 us")]
    for k in program.kernels:
        assert k.terms and all(name in page for name, s in k.terms if s > 0)
    assert "Schedules that lost:" in page and "Correctness and environment" in page and "prefers-color-scheme:dark" in page


def test_a_report_looks_right_in_a_browser(tmp_path):
    """No text of the plots leaves them, nothing is wider than the window."""
    with browser(width=1200) as b:
        b.open(autocomp.optimize(TEXT).report(tmp_path / "r.html"))
        assert b.run("return document.documentElement.scrollWidth <= window.innerWidth") and b.log() == []
        outside = """return [...document.querySelectorAll("svg.plot")].flatMap((s) => { const r = s.getBoundingClientRect();
          return [...s.querySelectorAll("text")].filter((t) => { const q = t.getBoundingClientRect();
            return q.left < r.left || q.right > r.right + 1 || q.top < r.top || q.bottom > r.bottom + 1; })
            .map((t) => t.textContent); });"""
        assert b.run(outside) == []
