"""The first page of `optimize --report`: five lines and the roofline plot."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import autocomp
from autocomp.report.roofline import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, front_page, points, roofline

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


def test_every_dot_of_the_roofline_lies_in_the_plot_below_its_roof(program):
    found = points(program)
    picture = ElementTree.fromstring(roofline(program, {p.name: 1e-3 for p in found}))
    dots = [e for e in picture.iter() if e.tag.endswith("circle")]
    assert len(dots) == 2 * len(found) > 0  # predicted and measured
    for e in picture.iter():
        if e.tag.endswith("circle"):
            assert LEFT <= float(e.get("cx")) <= WIDTH - RIGHT and TOP <= float(e.get("cy")) <= HEIGHT - BOTTOM
        if e.tag.endswith("polyline"):
            xy = [tuple(map(float, p.split(","))) for p in e.get("points").split()]
            assert all(LEFT - 1 <= x <= WIDTH - RIGHT + 1 and TOP <= y <= HEIGHT - BOTTOM + 1 for x, y in xy)
            assert xy[0][0] <= xy[1][0] <= xy[2][0] and xy[0][1] >= xy[1][1] == xy[2][1]
    roofs = max(*program.target.chip.matrix.values(), program.target.chip.vector["f32"])
    assert all(p.predicted <= roofs * 1.01 for p in found)
