"""Functions that the interface has no instruction for, as vector cores compute them: waves over their whole range, small differences."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers.device_graphs import graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
FALL_BACK = "tiling/npu-scalar-*"
FUNCTIONS = ("sin", "cos", "tan", "expm1")
LIMIT = 2.0**23  # waves beyond it are no numbers


@needs_compiler
def test_waves_and_small_differences(tmp_path):
    lines = "\n".join(f"%{i} = {fn}(x)" for i, fn in enumerate(FUNCTIONS))
    text = graph({"x": "f32[3, 333]"}, lines)
    text = text[: text.index("output")] + "".join(f"output {fn} = %{i}\n" for i, fn in enumerate(FUNCTIONS))
    program = autocomp.optimize(text, target="ascend:910b", without=[FALL_BACK])
    program.executor = AscendExecutor(program, tmp_path)
    rng = np.random.default_rng(7)
    x = np.concatenate([rng.uniform(-4, 4, 300), rng.uniform(-1e4, 1e4, 300), rng.uniform(-LIMIT, LIMIT, 300), rng.normal(0, 1e-5, 90),
                        [0.0, LIMIT, -LIMIT, 2 * LIMIT, -1e30, np.inf, -np.inf, np.nan, 1e-30]]).astype("f4").reshape(3, 333)  # fmt: skip
    got = program.run({"x": x})
    near = np.abs(x) <= LIMIT
    for fn in ("sin", "cos"):
        np.testing.assert_allclose(got[fn][near], getattr(np, fn)(x[near].astype("f8")), rtol=0, atol=4e-7, err_msg=fn)
        assert np.isnan(got[fn][~near]).all(), fn
    with np.errstate(invalid="ignore"):
        steep = near & (np.abs(np.cos(x.astype("f8"))) > 0.1)
    np.testing.assert_allclose(got["tan"][steep], np.tan(x[steep].astype("f8")), rtol=1e-5, atol=1e-6)
    some = np.abs(x) < 80
    np.testing.assert_allclose(got["expm1"][some], np.expm1(x[some].astype("f8")), rtol=2e-6)
    np.testing.assert_array_equal(got["expm1"][np.isinf(x)], np.expm1(x[np.isinf(x)]))
    assert np.isnan(got["expm1"][np.isnan(x)]).all()
