"""Sums of tens of terms on CPUs: partial sums take turns, none waits for the one before; the same bytes on all threads."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.types import F32, TensorType

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max"])
@pytest.mark.parametrize("shape", [(5, 230, 99), (3, 16, 40), (2, 17, 5), (2, 1, 33)], ids=str)
def test_partial_sums_take_turns(shape, op):
    b = Builder("middle")
    b.output("y", b.op(op, b.input("x", TensorType(F32, shape)), axes=(1,), keepdims=False))
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    x[0, 0, :4] = np.nan, np.inf, -np.inf, -0.0
    one, two = (autocomp.optimize(b.graph(), target="cpu", cache=False, threads=t) for t in (1, 2))
    got = one.run({"x": x})["y"]
    np.testing.assert_allclose(got, evaluate(b.graph(), {"x": x})["y"], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got, two.run({"x": x})["y"])
    assert bool(re.search(r"vf \w+_r00(_row0)? = .*\w+_r03(_row0)? = ", one.source())) == (shape[1] >= 16)
