"""`autocomp run --simulate`: numbers of a chip that is not here, held against the reference; refusals say what is missing."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError, BuildError
from autocomp.simulate.program import check_target
from autocomp.simulate.simt_model import COMPILER
from tests.helpers.command_line import call
from tests.helpers.device_graphs import graph

TEXT = graph({"x": "f32[9, 40]", "y": "f32[40]"}, "%0 = add(x, y)\n%1 = softmax(%0, axes=[1])")


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
@pytest.mark.parametrize("target", ["ascend:910b", "maca:c500", "cuda:h200"])
def test_a_model_runs_without_its_chip(target, tmp_path):
    (tmp_path / "m.txt").write_text(TEXT)
    code, out, err = call("run", str(tmp_path / "m.txt"), "--target", target, "--simulate", "-o", str(tmp_path / "y.npz"))
    assert code == 0 and "no chip was used" in out and "verified: largest error" in out + err
    (got,) = np.load(tmp_path / "y.npz").values()
    np.testing.assert_allclose(got.sum(1), 1, rtol=1e-5)


def test_refusals_say_what_is_missing(monkeypatch):
    with pytest.raises(AutocompError, match="no model of target cpu"):
        check_target("cpu")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match=r"\$CXX names 'no-such-compiler'"):
        check_target(autocomp.optimize(TEXT, target="ascend:910b").target.name)
