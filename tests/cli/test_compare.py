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
