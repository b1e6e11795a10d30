"""Factors of products that maps make: how they reach shared memory, which way they lie there, and depths that blocks share out."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.schedules import by_hand
from tests.targets.test_on_cpu_model import check, specialised

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


def product(m: int, n: int, k: int, turned: bool = True, dtype: str = "f16", batch: int = 2) -> str:
    """elu(a) + 1 times b; `turned`: a lies as [k, m]."""
    a = f"{dtype}[{batch}, {k}, {m}]" if turned else f"{dtype}[{batch}, {m}, {k}]"
    feature = f"%g = gt(a, const(0.0, {dtype}))\n%e = expm1(a)\n%w = where(%g, a, %e)\n%f = add(%w, const(1.0, {dtype}))\n"
    turn = "%t = transpose(%f, perm=[0, 2, 1])\n" if turned else ""
    return graph({"a": a, "b": f"{dtype}[{batch}, {k}, {n}]"}, f"{feature}{turn}%p = matmul({'%t' if turned else '%f'}, b)")


CASES = {
    "turned": (product(40, 72, 168), {"i0": 1, "i1": 32, "i2": 32, "r0": 64}, "ac_ldmatrix4_t(fa"),
    "along the depth": (product(40, 72, 168, turned=False), {"i0": 1, "i1": 32, "i2": 32, "r0": 64}, "ac_ldmatrix4(fa"),
    "no whole vectors": (product(37, 35, 101), {"i0": 1, "i1": 32, "i2": 32, "r0": 32}, "ac_ldmatrix4_t(fa"),
    "a short tile": (product(24, 16, 104), {"i0": 1, "i1": 24, "i2": 16, "r0": 56}, "ac_ldmatrix4_t(fa"),
    "bf16": (product(48, 40, 136, dtype="bf16"), {"i0": 1, "i1": 16, "i2": 32, "r0": 32}, "ac_ldmatrix4_t(fa"),
}


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_a_made_factor_lies_as_threads_make_it(name, model, tmp_path):
    """Neighbours of a thread go to shared memory in one store, and the product turns them round as it reads them."""
    text, tile, read = CASES[name]
    program = specialised(text, by_hand(tile, threads=64, stages=2))
    source = program.source()
    assert read in source
    assert ("ac_store<8>((f16 *)(smem" in source or "ac_store<8>((bf16 *)(smem" in source) == (name != "no whole vectors")
    check(program, model, tmp_path)


@needs_compiler
def test_single_precision_and_other_chips_keep_the_depth_inside(model, tmp_path):
    """Their products read runs of depth."""
    for i, (text, target) in enumerate(((product(40, 72, 168, dtype="f32"), "cuda:h200"), (product(40, 72, 168), "maca:c500"))):
        program = autocomp.optimize(text, target=target)
        assert "matmul" in program.source() and "ac_ldmatrix4_t(fa" not in program.source()
        (folder := tmp_path / str(i)).mkdir()
        check(program, model, folder)


@needs_compiler
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_expm1_of_every_half(dtype, model, tmp_path):
    """The cheap form is right to the last bits of its type, also where e^x - 1 loses its digits."""
    program = autocomp.optimize(graph({"x": f"{dtype}[65536]"}, "%0 = expm1(x)"), target="cuda:h200")
    assert "ac_expm1_half(" in program.source()
    program.executor = ModelExecutor(program, tmp_path, model)
    bits = np.arange(65536, dtype=np.uint16)
    if dtype == "bf16":
        x = (bits.astype(np.uint32) << 16).view(np.float32)
        import ml_dtypes

        given = bits.view(ml_dtypes.bfloat16)
    else:
        given = bits.view(np.float16)
        x = given.astype(np.float32)
    with np.errstate(all="ignore"):
        got, want = program.run({"x": given})["out"].astype(np.float64), np.expm1(x.astype(np.float64))
        step = np.abs(want) * (2.0**-10 if dtype == "f16" else 2.0**-7) + (2.0**-24 if dtype == "f16" else 1e-38)
        most = 65504 if dtype == "f16" else 3.38e38
        here = np.isfinite(want) & (np.abs(want) < most)
    assert (np.abs(got[here] - want[here]) <= 0.51 * step[here]).all()
    assert np.isnan(got[np.isnan(x)]).all() and np.isinf(got[x == np.inf]).all() and (got[x == -np.inf] == -1).all()


# ---- depths in parts
DEEP = product(64, 64, 4096, batch=64)


def test_few_small_results_of_a_great_depth_are_summed_in_parts():
    program = autocomp.optimize(DEEP, target="cuda:h200")
    assert [k.name.rpartition("_")[2] for k in program.kernels] == ["part", "join"]
    whole = autocomp.optimize(DEEP, target="cuda:h200", without=["scheduling/gpu-split-depth"])
    assert len(whole.kernels) == 1 and whole.predicted > 1.2 * program.predicted
    many = autocomp.optimize(product(2048, 64, 1024, batch=64), target="cuda:h200")
    assert not any(k.name.endswith("_join") for k in many.kernels)


@needs_compiler
def test_a_made_factor_in_parts_is_right(model, tmp_path):
    program = autocomp.optimize(product(33, 24, 2056, batch=3), target="cuda:a100")
    assert any(k.name.endswith("_join") for k in program.kernels)
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify(seed=fresh.seed()).ratio <= 1
