"""A body that every schedule refutes, much dearer than the cover took it for, gives way to a cover without it."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.egraph import printable
from tests.helpers.device_graphs import graph


@pytest.mark.parametrize(("rows", "columns"), [(66225, 151), (22522, 1776), (138888, 72)])
def test_columns_too_long_for_a_core_are_normalised_apart(rows, columns, monkeypatch):
    """One body would read each column twice, a core a column; a body that fits stays one (below)."""
    text = graph({"x": f"f32[{rows}, {columns}]"}, "%0 = softmax(x, axes=[0])")
    program = autocomp.optimize(text, target="cuda:h200")
    assert len(program.kernels) > 1
    monkeypatch.setattr(printable, "DEAR", 1e9)
    whole = autocomp.optimize(text, target="cuda:h200", cache=False)
    bodies = {k.name.removesuffix("_part").removesuffix("_join") for k in whole.kernels}  # one, done in parts or not
    assert len(bodies) == 1 and program.predicted < 0.6 * whole.predicted


def test_columns_that_fit_stay_in_one_body():
    program = autocomp.optimize(graph({"x": "f32[3000, 3000]"}, "%0 = softmax(x, axes=[0])"), target="cuda:h200")
    assert len(program.kernels) == 1
