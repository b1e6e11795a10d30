"""Sums are not made in tiles where a mask takes none of them (directive `skip_masked_sums`), and in all others."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.ir.affine import aff
from autocomp.ir.masks import tiles_inside
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import GPUS

M, N, K = 150, 201, 70


def product(test: str, by: int, tail: str = "%5 = where(%4, %0, const(0.5, f32))", more: str = "") -> str:
    body = f"""%0 = matmul(x, w)
%1 = iota(shape=[{M}, {N}], axis=0)
%2 = iota(shape=[{M}, {N}], axis=1)
%3 = sub(%2, %1)
%4 = {test}(%3, const({by}, i64))
{tail}"""
    return graph({"x": f"f32[{M}, {K}]", "w": f"f32[{K}, {N}]"}, body) + more


OTHERS = "%5 = where(%4, const(0.5, f32), %0)"
SCALED = "%a = gelu(%0)\n%b = mul(%a, const(3, f32))\n%c = where(%4, %b, const(0.5, f32))\n%5 = add(%c, const(1, f32))"


@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize(("test", "by", "tail"), [("ge", 0, "%5 = where(%4, %0, const(0.5, f32))"), ("lt", 3, OTHERS), ("le", -40, SCALED),
                                                  ("gt", 900, SCALED)], ids=str)  # fmt: skip
@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_masked_results_are_right(test, by, tail, target, model, tmp_path):
    """Infinities and NaN of sums that nobody takes stay out, those that are taken come through."""
    text = product(test, by, tail)
    (k,) = autocomp.optimize(text, target=target).kernels
    how = {k.name: "tile i0 32, i1 32, r0 32 | stages 3 | threads 64 | skip_masked_sums"}
    program = autocomp.optimize(text, target=target, schedule=how)
    assert "const int turns" in program.source()
    program.executor = ModelExecutor(program, tmp_path, model)
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((M, K)).astype("f4"), rng.standard_normal((K, N)).astype("f4")
    x[5, 3], w[2, 190] = np.nan, np.inf
    plain = autocomp.optimize(text, target="cpu").run({"x": x, "w": w})["out"]
    got = program.run({"x": x, "w": w})["out"]
    np.testing.assert_allclose(got, plain, rtol=1e-4, atol=1e-4)
    assert np.isfinite(got).mean() > 0.5


BESIDE = "%a = where(%4, %0, const(0.5, f32))\n%5 = add(%a, %0)"
BOTH = "%a = relu(%0)\n%b = where(%4, %0, %a)\n%5 = mul(%b, const(2, f32))"


@pytest.mark.parametrize("tail", [BESIDE, BOTH], ids=["a sum beside", "both sides"])
def test_sums_that_are_read_besides_are_made_everywhere(tail):
    text = product("ge", 0, tail)
    program = autocomp.optimize(text, target="cuda:h200")
    assert all("skip_masked_sums" not in str(k.schedule) for k in program.kernels)


def test_a_triangle_of_a_product_takes_little_more_than_half():
    whole = graph({"x": "f32[2560, 2560]", "w": "f32[2560, 2560]"}, "%0 = matmul(x, w)")
    half = graph({"x": "f32[2560, 2560]", "w": "f32[2560, 2560]"},
                 "%0 = matmul(x, w)\n%1 = iota(shape=[2560, 2560], axis=0)\n%2 = iota(shape=[2560, 2560], axis=1)\n%3 = ge(%2, %1)\n"
                 "%4 = where(%3, %0, const(0.0, f32))")  # fmt: skip
    seconds = [autocomp.optimize(t, target="cuda:h200").predicted for t in (whole, half)]
    assert 0.5 < seconds[1] / seconds[0] < 0.6


def test_the_share_of_tiles_is_counted():
    upper = (aff("i") - "j",)
    assert tiles_inside(upper, {"i": 64, "j": 64}, {"i": 16, "j": 16}) == 10 / 16
    assert tiles_inside((aff("i") - "j" - 64,), {"i": 64, "j": 64}, {"i": 16, "j": 16}) == 0
    assert tiles_inside(upper, {"i": 64, "j": 64}, {}) == 1
