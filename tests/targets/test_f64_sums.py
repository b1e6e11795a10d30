"""Products of f32 by matrix units of f64: every product is exact, sums are rounded once (`scheduling/gpu-f64-sums`)."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError
from autocomp.simulate.program import simulated
from autocomp.simulate.simt_model import COMPILER
from tests.helpers import fresh
from tests.helpers.device_graphs import conv, gemm, graph, turned

TILE = "tile i0 32, i1 32, r0 16 | stages 3 | threads 64 | instruction f64"
modelled = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


def instructions(text: str, target: str, **options) -> set[str]:
    program = autocomp.optimize(text, target=target, **options)
    return {word for s in program.sources.values() for word in ("ac_mma_f64(", "ac_mma_f64_m8(") if word in s}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_products_take_the_matrix_units_of_chips_that_have_them(dtype):
    text = gemm(1000, 1000, 1000, dtype)
    assert instructions(text, "cuda:h200") == instructions(text, "cuda:h100") == {"ac_mma_f64("}
    assert instructions(text, "cuda:a100") == ({"ac_mma_f64_m8("} if dtype == "f64" else set()), "its lanes read as much as they multiply"
    assert instructions(text, "cuda:l40s") == set(), "a 64th of the rate"
    assert instructions(text, "cuda:h200", without=["scheduling/gpu-f64-sums"]) == set()
    assert instructions(text, "cuda:h200", exact=True) == set(), "sums in f64 round otherwise than sums in f32"


def test_halves_have_no_such_instruction():
    with pytest.raises(AutocompError, match="no instruction 'f64' for a contraction f16 x f16 -> f32"):
        autocomp.optimize(gemm(64, 64, 64), target="cuda:h200", schedule={"matmul": TILE})


@modelled
@pytest.mark.parametrize("target", ["cuda:h200", "cuda:a100"])
@pytest.mark.parametrize(("m", "n", "k", "a", "b"), [(67, 45, 45, False, False), (33, 70, 7, False, True), (40, 31, 50, True, False),
                                                     (35, 37, 16, True, True)])  # fmt: skip
def test_every_sum_is_rounded_once(target, m, n, k, a, b):
    """Sums of f32 would be off in the last place for one result in three."""
    program = autocomp.optimize(turned(m, n, k, a, b, "f32"), target=target, schedule={"matmul": TILE})
    rng = np.random.default_rng(fresh.seed())
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((k, m) if a else (m, k), (n, k) if b else (k, n)))
    with simulated(program):
        (got,) = program.run({"a": x, "b": y}).values()
    wide = (x.T if a else x).astype(np.float64) @ (y.T if b else y).astype(np.float64)
    assert np.mean(got == wide.astype(np.float32)) > 0.99
    assert np.allclose(got, wide, rtol=1e-6, atol=1e-6)


@modelled
@pytest.mark.parametrize(("m", "n", "k"), [(9, 72, 44), (14, 24, 132), (35, 20, 64)])
def test_few_results_are_cut_as_small_as_an_instruction(m, n, k):
    """`tiling/gpu-small-products`: rows and columns that fill no instruction; a recurrent layer's step of 14 x 256 by 1024 is shared among
    64 cores, not 16."""
    program = autocomp.optimize(gemm(m, n, k, "f32"), target="cuda:h200", tuned=False)
    assert "rule: tiling/gpu-small-products" in program.source() and "ac_mma_f64(" in program.source()
    rng = np.random.default_rng(fresh.seed())
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
    with simulated(program):
        (got,) = program.run({"a": x, "b": y}).values()
    assert np.mean(got == (x.astype(np.float64) @ y.astype(np.float64)).astype(np.float32)) > 0.99


@modelled
def test_what_cancels_in_f32_is_kept_and_what_is_no_number_spreads():
    program = autocomp.optimize(gemm(16, 8, 3, "f32"), target="cuda:h200", schedule={"matmul": TILE})
    x, y = np.zeros((16, 3), np.float32), np.ones((3, 8), np.float32)
    x[0] = 1e8, 1.0, -1e8
    x[1] = 3e38, 3e38, -3e38
    x[2] = np.inf, 1.0, 0.0
    x[3] = 1.0, np.nan, 0.0
    x[4] = 1e-45, 0.0, 0.0
    with simulated(program):
        (got,) = program.run({"a": x, "b": y}).values()
    assert (got[0] == 1).all() and (got[1] == np.float32(3e38)).all() and (got[2] == np.inf).all()
    assert np.isnan(got[3]).all() and (got[4] == np.float32(1e-45)).all() and not got[5:].any()


@modelled
@pytest.mark.parametrize("text", [
    conv("f32[2, 9, 13, 13]", "f32[17, 9, 3, 3]", stride=2, pad=1, after="%r = relu(%c)"),
    graph({"a": "f32[3, 21, 33]", "b": "f32[3, 33, 20]", "c": "f32[20]"}, "%0 = matmul(a, b)\n%1 = add(%0, c)"),
])
def test_other_contractions_are_right(text):
    program = autocomp.optimize(text, target="cuda:h200", without=["scheduling/gpu-*-pieces", "convolution/*"])
    k = next(k for k in program.kernels if "matmul" in k.name or "conv" in k.name)
    base = k.schedule.split(" | ")
    asked = " | ".join([base[0], *(c for c in base[1:] if c.startswith(("stages", "threads"))), "instruction f64"])
    program = autocomp.optimize(text, target="cuda:h200", schedule={k.name: asked}, without=["convolution/*"])
    assert any("ac_mma_f64(" in s for s in program.sources.values())
    with simulated(program):
        assert program.verify(seed=fresh.seed()).ratio <= 1


def test_strided_rows_are_copied_along_the_image():
    """32 lanes that read a channel each asked for 32 sectors: 82 us where 48 are enough (H200, 2026-11-30)."""
    program = autocomp.optimize(conv("f32[32, 256, 56, 56]", "f32[128, 256, 1, 1]", stride=2), target="cuda:h200")
    (text,) = program.sources.values()
    (copy,) = {line.strip() for line in text.splitlines() if "ac_copy<4>" in line and " it *" in line}
    assert "(col)*2" in copy and "(row))*3136" in copy
    assert program.predicted < 45e-6
