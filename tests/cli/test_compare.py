"""A against B: which times are compared, and what is shown of them."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError
from autocomp.runtime.inputs import random_inputs

TEXT = "graph g\ninput x: f32[8, 24]\ninput w: f32[24, 32]\n%0 = matmul(x, w)\n%1 = relu(%0)\noutput y = %1\n"


@pytest.fixture(scope="module")
def programs():
    return autocomp.optimize(TEXT), autocomp.optimize(TEXT, without=["fusion/*"])


def test_predicted_times_where_a_side_was_not_measured(programs, tmp_path):
    fused, apart = programs
    result = autocomp.compare(fused, apart.save(tmp_path / "apart"), inputs=random_inputs(fused.graph))
    assert result.a.measured
    assert not result.b.measured
    assert result.kind == "predicted"
    assert result.seconds(result.a) == fused.predicted
    assert [c.header for c in result.table().columns][3:5] == ["predicted A", "predicted B"]
    page = result.report(tmp_path / "ab.html").read_text()
    assert "predicted A" in page
    assert "measured" not in page


def test_the_title_names_the_chips(tmp_path):
    sides = [autocomp.optimize(TEXT, target=f"cuda:{chip}").save(tmp_path / chip) for chip in ("h200", "a100")]
    result = autocomp.compare(*sides)
    assert result.table().title == "A: g on cuda:h200   B: g on cuda:a100"
    assert "g on cuda:a100" in result.report(tmp_path / "ab.html").read_text()
    assert autocomp.compare(autocomp.optimize(TEXT), sides[0]).a.target == "cpu"


def test_measured_times_where_both_sides_have_them(programs, tmp_path):
    fused, apart = programs
    result = autocomp.compare(fused, apart, inputs=random_inputs(fused.graph))
    assert result.kind == "measured"
    assert result.seconds(result.a) == result.a.measured
    assert [tuple(None if r is None else r["kernel"] for r in pair) for pair in result.pairs] == [
        ("matmul_relu", None), (None, "matmul"), (None, "relu")]  # fmt: skip
    assert all(r["measured"] > 0 for r in (*result.a.rows, *result.b.rows))
    assert "matmul_relu" in dict(result.diffs())["plan.c"]
    assert "measured A" in result.report(tmp_path / "ab.html").read_text()


def test_what_is_neither_a_program_nor_a_folder(programs):
    with pytest.raises(AutocompError, match="compares programs and folders of saved programs, got int"):
        autocomp.compare(programs[0], 3)


def test_the_share_of_the_roofline_is_of_the_busiest_unit_at_its_full_rate(programs):
    from autocomp.report.tables import kernel_rows
    from autocomp.runtime.executor import Timing

    program = autocomp.optimize("graph g\ninput x: f32[512, 512]\ninput w: f32[512, 512]\n%0 = matmul(x, w)\noutput y = %0\n")
    (row,) = kernel_rows(program, Timing(1e-3, {"matmul": 1e-3}))
    rate = program.target.chip.with_cores(program.options.threads or program.target.chip.cores).matrix_rate("f32")
    np.testing.assert_allclose(row["roofline"], 2 * 512**3 / rate / 1e-3, rtol=0.02)
    assert row["roofline"] < row["predicted"] / 1e-3
