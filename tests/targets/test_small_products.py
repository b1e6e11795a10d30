"""Products with few rows and few columns whose depth does not fit on chip as a whole: there is a schedule for each, and it is right."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import conv, gemm, graph
from tests.helpers.repeats import GPUS

SMALL = {
    "10x20": gemm(10, 20, 4001),
    "20x20": gemm(20, 20, 3333),
    "27x3": gemm(27, 3, 4100),
    "16x16": gemm(16, 16, 2040, "f32"),
    "conv": conv("f16[3, 65, 7, 19]", "f16[3, 65, 5, 7]", stride=2, pad=2),
}


def linear(batch: int, depth: int, columns: int) -> str:
    """A layer over five steps, with weights that lie along the depth."""
    tensors = {"x": f"f32[{batch}, 5, {depth}]", "w": f"f32[{columns}, {depth}]", "b": f"f32[{columns}]"}
    body = "%0 = transpose(x, perm=[1, 0, 2])\n%1 = transpose(w, perm=[1, 0])\n%2 = matmul(%0, %1)\n%3 = add(%2, b)"
    return graph(tensors, body)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", GPUS)
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


@pytest.mark.parametrize("target", GPUS)
def test_any_tile_of_few_elements_is_copied(target):
    """Also one of fewer chunks than a wave has lanes, or of a number that waves do not share evenly."""
    rng = fresh.rng()
    for k in range(24):
        m, n, depth = (int(x) for x in rng.integers(1, 41, 3))
        assert autocomp.optimize(gemm(m, n, depth, ("f32", "f16", "f64")[k % 3]), target=target).kernels, (m, n, depth)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("text", [gemm(40, 12, 23, "f32"), gemm(32, 16, 5, "i8"), linear(2, 8, 64)], ids=["96 chunks", "16", "32"])
def test_waves_count_the_copies_of_a_padded_tile(text, model, tmp_path):
    program = autocomp.optimize(text, target="maca:c500")
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify(seed=fresh.seed()).ratio <= 1
