"""Factors that are unpacked from fields of bytes, two bf16 in a register: each is the bf16 that the graph says, to the last bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph

DEPTH, COLUMNS = 2048, 1032


def layer(shift: int, mask: int, zero: float, dtype: str = "bf16") -> str:
    """Element 2k of a row is the low half of byte k, element 2k + 1 a field of it: less `zero`, times a scale of the row."""
    tensors = {"x": f"{dtype}[1, {DEPTH}]", "q": f"u8[{COLUMNS}, {DEPTH // 2}]", "s": f"{dtype}[{COLUMNS}, 1]"}
    return graph(tensors, f"""%0 = bitand(q, const(15, u8))
        %a = shr(q, const({shift}, u8))
        %1 = bitand(%a, const({mask}, u8))
        %2 = cast(%0, to="{dtype}")
        %3 = cast(%1, to="{dtype}")
        %4 = sub(%2, const({zero}, {dtype}))
        %5 = sub(%3, const({zero}, {dtype}))
        %6 = reshape(%4, shape=[{COLUMNS}, {DEPTH // 2}, 1])
        %7 = reshape(%5, shape=[{COLUMNS}, {DEPTH // 2}, 1])
        %8 = concat(%6, %7, axis=2)
        %9 = reshape(%8, shape=[{COLUMNS}, {DEPTH}])
        %10 = mul(%9, s)
        %11 = transpose(%10, perm=[1, 0])
        %y = matmul(x, %11)""")  # fmt: skip


def each_weight_is_that_of_the_graph(program, shift: int, mask: int, zero: float) -> None:
    """By rows of one 1, whose products are columns of the weights."""
    draw = np.random.default_rng(5)
    q, s = draw.integers(0, 256, (COLUMNS, DEPTH // 2), np.uint8), draw.normal(size=(COLUMNS, 1)).astype(ml_dtypes.bfloat16)
    for at in (0, 1, 777, DEPTH - 1):
        x = np.zeros((1, DEPTH), ml_dtypes.bfloat16)
        x[0, at] = 1
        n = (q[:, at // 2] >> shift & mask if at % 2 else q[:, at // 2] & 15).astype(np.float32) - np.float32(zero)
        want = (n * s[:, 0].astype(np.float32)).astype(ml_dtypes.bfloat16)
        (got,) = program.run({"x": x, "q": q, "s": s}).values()
        assert np.array_equal(got[0].astype(np.float32), want.astype(np.float32))


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("shift", "mask", "zero"), [(4, 15, 8.0), (4, 7, 0.0), (1, 127, 64.0), (3, 15, -5.0), (4, 15, 200.0)])
def test_each_weight_is_the_one_that_the_graph_says(shift, mask, zero, tmp_path, model):
    program = autocomp.optimize(layer(shift, mask, zero), target="cuda:h200", cache=False)
    (source,) = program.printed.values()
    assert "ac_pair_fields_bf16(" in source.text and "ac_pair_mul_bf16(" in source.text
    program.executor = ModelExecutor(program, tmp_path, model)
    each_weight_is_that_of_the_graph(program, shift, mask, zero)


def test_what_a_mantissa_does_not_hold_is_computed_apart():
    """Eight bits beside seven of a bf16."""
    program = autocomp.optimize(layer(0, 255, 8.0), target="cuda:h200", cache=False)
    assert not any("ac_pair_fields_bf16(" in s.text for s in program.printed.values())
