"""Shapes that nobody chose are priced like their neighbours, or a mechanism says why not (neighbourhoods.yaml)."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest
import yaml

from benchmarks.neighbourhoods import LINES, LISTED, Point, drawn, off_line, outlying, table, walked, written
from tests.helpers.repeats import repeating

TARGET = "cuda:h200"
LISTS = yaml.safe_load(LISTED.read_text(encoding="utf-8"))
LINES_DRAWN = {line.name: line for _, line in drawn([0])}
REFRESH = "python benchmarks/neighbourhoods.py --write, then state the mechanism in place of '?'"


@pytest.mark.parametrize("name", repeating(LINES_DRAWN, {
    "products/depth": "products/columns", "row sums/width": "row softmax/width", "convolutions/stride": "convolutions/channels",
    "convolutions/dilation": "convolutions/channels", "convolutions/groups": "convolutions/channels",
    "depthwise/window": "depthwise/channels", "column variance/columns": "column maxima/columns",
}))  # fmt: skip
def test_a_shape_is_priced_like_its_neighbours_or_has_a_reason(name: str) -> None:
    listed = {e["at"]: e["times"] for e in LISTS["shapes"] if e["line"] == name}
    points = walked(LINES_DRAWN[name], TARGET)
    new = [p for p in points if outlying(p) and not (p.value in listed and outlying_alike(p.off, listed[p.value]))]
    assert not new, f"\n{table(new, True)}\n{REFRESH}"
    mended = [p for p in points if p.value in listed and not outlying(p, 1.25)]
    assert not mended, f"\n{table(mended, True)}\nlisted, but no longer times: {REFRESH}"


def outlying_alike(times: float, listed: float) -> bool:
    """The same way as it is listed, and at most 1.3 times further."""
    return (times > 1) == (listed > 1) and abs(log(times)) <= abs(log(listed)) + log(1.3)


def test_every_entry_is_a_shape_of_a_line_with_a_stated_mechanism() -> None:
    for e in LISTS["shapes"]:
        assert e["at"] in LINES_DRAWN[e["line"]].values, f"{e} is no shape of today's lines: {REFRESH}"
        assert len(LISTS["reasons"].get(e["why"], "")) > 40, f"{e} has no reason: {REFRESH}"
    assert {e["why"] for e in LISTS["shapes"]} == set(LISTS["reasons"])


def test_the_lines_are_of_all_families() -> None:
    families = {"products", "attention", "row softmax", "row sums", "column maxima", "column variance", "scans", "convolutions",
                "depthwise", "pointwise", "transposes", "gathers", "few rows"}  # fmt: skip
    assert {x.family for x in LINES_DRAWN.values()} == families and len(LINES_DRAWN) == len(LINES)


def test_one_bad_shape_is_one_outlier(tmp_path: Path) -> None:
    """Of shares .5 .5 .1 .5 .5 the third is off by 5, and its neighbours by it; the written list keeps the reasons that it had."""
    points = [Point("a/b", 2**i, 1e-6, 0.1 if i == 2 else 0.5, "") for i in range(5)]
    offs = [round(p.off, 2) for p in off_line(points)]
    assert offs == [0.0, 0.45, 5.0, 0.45, 0.0]
    path = tmp_path / "list.yaml"
    path.write_text("# head\nreasons:\n  old: because of it\n  gone: no more\nshapes:\n  - {line: a/b, at: 4, times: 3.00, why: old}\n")
    found = [p for p in off_line(points) if outlying(p)]
    assert written(found, path).splitlines() == [
        "# head", "reasons:", "  old: because of it", "shapes:", "  - {line: a/b, at: 2, times: 0.45, why: '?'}",
        "  - {line: a/b, at: 4, times: 5.00, why: old}", "  - {line: a/b, at: 8, times: 0.45, why: '?'}",
    ]  # fmt: skip
