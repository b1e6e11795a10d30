"""A against B: which times are compared, and what is shown of them."""

from __future__ import annotations

import json

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


def test_a_rule_that_took_no_part_is_said(programs, tmp_path):
    """Two equal programs measured against each other look like a result."""
    again = autocomp.optimize(TEXT, without=["monoids/welford"])
    same = autocomp.compare(programs[0].save(tmp_path / "a"), again.save(tmp_path / "b"))
    assert any("both sides are the same program" in line for line in same.summary())
    assert "both sides are the same program" in same.report(tmp_path / "ab.html").read_text()
    other = autocomp.compare(programs[0].save(tmp_path / "c"), programs[1].save(tmp_path / "d"))
    assert not any("the same program" in line for line in other.summary())


def test_measured_times_where_both_sides_have_them(programs, tmp_path):
    fused, apart = programs
    result = autocomp.compare(fused, apart, inputs=random_inputs(fused.graph))
    assert result.kind == "measured"
    assert result.seconds(result.a) == result.a.measured
    assert beside(result) == [(["matmul_relu"], ["matmul", "relu"])]
    assert all(r["measured"] > 0 for r in (*result.a.rows, *result.b.rows))
    assert "matmul_relu" in dict(result.diffs())["plan.c"]
    page = result.report(tmp_path / "ab.html").read_text()
    assert "measured A" in page and page.count(" predicted)") == 2  # below the measured times


def beside(result):
    return [tuple([r["kernel"] for r in side] for side in pair) for pair in result.pairs]


def test_a_fused_kernel_stands_beside_those_that_it_replaced(programs, tmp_path):
    """In saved folders too, and with the times of all of them; folders that do not say what kernels compute are matched by name."""
    fused, apart = (p.save(tmp_path / n) for p, n in zip(programs, ("fused", "apart")))
    result = autocomp.compare(fused, apart)
    assert beside(result) == [(["matmul_relu"], ["matmul", "relu"])]
    ((x, y),) = result.pairs
    assert result.seconds(y) == pytest.approx(sum(r["predicted"] for r in y)) and result.seconds(x) == x[0]["predicted"]
    (first, *_) = result.table().columns[0].cells
    assert first == "matmul_relu\nB: matmul + relu"
    assert "B: matmul + relu" in result.report(tmp_path / "ab.html").read_text()
    for folder in (fused, apart):
        rows = json.loads((folder / "manifest.json").read_text())["kernels"]
        changed(folder, kernels=[{k: v for k, v in r.items() if k != "makes"} for r in rows])
    assert beside(autocomp.compare(fused, apart)) == [(["matmul_relu"], []), ([], ["matmul"]), ([], ["relu"])]


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


def changed(folder, **values):
    import json

    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return folder


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "link", "sub/plan.c", ".", "..", "", 7, None])
def test_a_saved_program_from_elsewhere_names_no_file_outside_of_its_folder(programs, tmp_path, name):
    (tmp_path / "secret").write_text("a secret")
    folder = programs[0].save(tmp_path / "out")
    (folder / "link").symlink_to(tmp_path / "secret")
    changed(folder, sources=[name])
    with pytest.raises(AutocompError, match=r"cannot read the saved program: ValueError '.*' is no file of this folder"):
        autocomp.compare(folder, folder)


@pytest.mark.parametrize("values", [
    {"kernels": 3}, {"kernels": [3]}, {"kernels": [{}]}, {"kernels": [{"kernel": "a"}]}, {"sources": 3}, {"predicted": "soon"},
    {"kernels": [{"kernel": "k", "calls": [], "schedule": "", "predicted": 1, "measured": None}]}, {"measured": {}}, {"predicted": None},
])  # fmt: skip
def test_a_manifest_with_anything_in_it_is_an_error_of_ours(programs, tmp_path, values):
    folder = changed(programs[0].save(tmp_path / "out"), **values)
    with pytest.raises(AutocompError, match="cannot read the saved program"):
        autocomp.compare(folder, folder).table()


def test_saving_over_a_saved_program_that_fails_midway_leaves_none(programs, tmp_path, monkeypatch):
    from autocomp.runtime import saving

    folder = programs[1].save(tmp_path / "out")
    real = saving.write_atomic

    def fails(path, data, mode=0o666):
        if path.name == "build.sh":
            raise AutocompError("cannot write: No space left on device")
        real(path, data, mode)

    monkeypatch.setattr(saving, "write_atomic", fails)
    with pytest.raises(AutocompError, match="No space"):
        programs[0].save(folder)
    with pytest.raises(AutocompError, match=r"no manifest\.json in this folder"):
        autocomp.compare(folder, folder)
