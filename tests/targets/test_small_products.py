"""Products with few rows and few columns whose depth does not fit on chip as a whole: there is a schedule for each, and it is right."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import conv, gemm

SMALL = {
    "10x20": gemm(10, 20, 4001),
    "20x20": gemm(20, 20, 3333),
    "27x3": gemm(27, 3, 4100),
    "16x16": gemm(16, 16, 2040, "f32"),
    "conv": conv("f16[3, 65, 7, 19]", "f16[3, 65, 5, 7]", stride=2, pad=2),
}


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", ["cuda:h200", "maca:c500"])
def test_small_products_of_any_depth_are_printed_and_right(target, model, tmp_path):
    for name, text in SMALL.items():
        program = autocomp.optimize(text, target=target)
        (folder := tmp_path / name).mkdir()
        program.executor = ModelExecutor(program, folder, model)
        assert program.verify(seed=fresh.seed()).ratio <= 1


@pytest.mark.parametrize("target", ["cuda:a100", "maca:c500"])
def test_every_small_size_has_a_schedule(target):
    for m, n in ((2, 16), (15, 31), (16, 3), (31, 16), (31, 31), (20, 15)):
        assert autocomp.optimize(gemm(m, n, 40000), target=target).kernels
