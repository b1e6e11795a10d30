"""Scattered sums run the turns that a row takes in (directive `skip_neutral`), and no others."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.ir.types import DTYPES
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import GPUS

ATOMICS = ["scattering/*-by-atomics"]
SHAPES = [((7, 300, 150), "f32", "i64"), ((33, 1027, 65), "f16", "i32"), ((5, 40, 2), "bf16", "i64")]


def scattered(rows: int, columns: int, updates: int, dtype: str = "f32", index: str = "i64") -> str:
    inputs = {"x": f"{dtype}[{rows}, {columns}]", "at": f"{index}[{updates}, 1]", "u": f"{dtype}[{updates}, {columns}]"}
    return graph(inputs, '%0 = scatter_nd(x, at, u, reduction="add")\n%1 = relu(%0)')


@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize(("shape", "dtype", "index"), SHAPES, ids=str)
@pytest.mark.parametrize("rows_of_block", [1, 4])
@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_each_row_takes_in_its_updates(rows_of_block, shape, dtype, index, target, model, tmp_path):
    """Rows that none names and many name, indices from the end and outside; an infinity and a NaN stay in the rows that take them in."""
    rows, columns, updates = shape
    text = scattered(*shape, dtype, index)
    (name,) = {k.name for k in autocomp.optimize(text, target=target, without=ATOMICS).kernels}
    how = {name: f"tile i0 {rows_of_block}, i1 256, r0 1 | threads 64 | skip_neutral"}
    program = autocomp.optimize(text, target=target, schedule=how, without=ATOMICS)
    assert ("ac_holds" in program.source()) == (rows_of_block == 1 or columns > 64)  # else lanes have rows of their own
    program.executor = ModelExecutor(program, tmp_path, model)
    rng = np.random.default_rng(3)
    x, u = (rng.standard_normal(s).astype(DTYPES[dtype].numpy) for s in ((rows, columns), (updates, columns)))
    at = rng.integers(0, rows // 2 + 1, (updates, 1)).astype(DTYPES[index].numpy)
    at[1::5], at[2::9] = -1, rows + 3
    u[0, 0], u[-1, -1] = np.inf, np.nan
    want = x.astype("f8")
    for k, row in enumerate(at[:, 0]):
        if -rows <= row < rows:
            want[row] += u[k].astype("f8")
    got = program.run({"x": x, "at": at, "u": u})["out"].astype("f8")
    np.testing.assert_allclose(got, np.maximum(want, 0), rtol=2e-2 if dtype != "f32" else 1e-5, atol=2e-2 if dtype != "f32" else 1e-5)


def test_rows_of_many_columns_skip_what_is_not_theirs():
    text = scattered(2176, 3136, 2176)
    program = autocomp.optimize(text, target="cuda:h200", without=ATOMICS)
    assert "skip_neutral" in str(program.kernels[0].schedule)
    assert program.predicted < 1e-4  # 2.3 ms where each row reads each update


def test_rows_of_one_block_ask_the_updates_once():
    """Before: each of 7312 rows asked 7312 updates, 57 us on an H100 where torch's atomic additions took 23. What the rule is worth:
    tests/ablation."""
    few = autocomp.optimize(scattered(7312, 619, 7312, "bf16"), target="cuda:h100", without=ATOMICS)
    assert "i0 1," not in str(few.kernels[0].schedule) and few.predicted < 0.7 * 57e-6


def test_sums_that_every_row_takes_in_are_not_skipped():
    """The condition differs from thread to thread, or nothing is chosen by a row's number."""
    body = """%0 = gt(x, const(0.0, f32))
        %1 = where(%0, x, const(0.0, f32))
        %2 = reduce_sum(%1, axes=[0])"""
    program = autocomp.optimize(graph({"x": "f32[64, 96]"}, body), target="cuda:h200")
    assert "skip_neutral" not in str(program.kernels[0].schedule)
