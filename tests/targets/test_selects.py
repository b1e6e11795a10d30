"""A choice between values of which one is long is made after both: a jump would keep elements from being computed side by side."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import GPUS

ELU = "%e = expm1(x)\n%g = gt(x, const(0.0, f32))\n%y = where(%g, x, %e)"


@pytest.mark.parametrize(("body", "selects"), [
    (ELU, 1), (ELU.replace("expm1", "neg"), 0), (ELU.replace("expm1", "abs"), 0), (ELU.replace("expm1(x)", "pow(x, x)"), 1),
    ("%a = erf(x)\n%y = pad(%a, lo=[1, 0], hi=[0, 0], value=0)", 0),  # a border is no choice by data
])  # fmt: skip
def test_what_is_chosen_after_both(body, selects):
    source = autocomp.optimize(graph({"x": "f32[64, 300]"}, body), target="cuda:h200").source()
    assert source.count("ac_select(") == selects


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", GPUS)
def test_values_that_are_not_chosen_do_no_harm(target, model, tmp_path):
    program = autocomp.optimize(graph({"x": "f32[3, 37]"}, ELU), target=target)
    program.executor = ModelExecutor(program, tmp_path, model)
    x = np.linspace(-200, 200, 111, dtype="f4").reshape(3, 37)
    x[0, :4] = np.nan, np.inf, -np.inf, -0.0
    np.testing.assert_allclose(program(x), np.where(x > 0, x, np.expm1(np.minimum(x, 0))), rtol=2e-6)
