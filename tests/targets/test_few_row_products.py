"""Products of two to eight rows as sums over a weight's rows: what is chosen, and C++ on the CPU model at odd sizes."""

from __future__ import annotations

from random import Random

import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeats

RULE = "algebra/few-rows-times-matrix"


def product(dtype: str, m: int, n: int, k: int, left: bool = False, right: bool = False) -> str:
    """`left`, `right`: the factors lie transposed in memory."""
    a, b = ((k, m) if left else (m, k)), ((n, k) if right else (k, n))
    lines = [f"%{x} = transpose({x}, perm=[1, 0])" for x, turned in (("a", left), ("b", right)) if turned]
    lines.append(f"%y = matmul({'%a' if left else 'a'}, {'%b' if right else 'b'})")
    return graph({"a": f"{dtype}{list(a)}", "b": f"{dtype}{list(b)}"}, "\n".join(lines))


@pytest.mark.parametrize("case", [("f32", 2, 4096, 8192), ("f32", 7, 4097, 8191, False, True), ("f16", 3, 4097, 8192, True),
                                  repeats(("bf16", 2, 4096, 8191, False, True), of="f32")])  # fmt: skip
def test_the_weight_is_read_once_as_it_lies(case):
    """Before: products of f32 at a third of memory's rate, and odd weights of halves copied to padded rows."""
    ours = autocomp.optimize(product(*case), target="cuda:h200")
    before = autocomp.optimize(product(*case), target="cuda:h200", without=[RULE, "scheduling/gpu-split-depth"])
    assert ours.predicted < 0.6 * before.predicted
    assert not any("pad" in k.name or "matmul" in k.name for k in ours.kernels)
    weights = case[2] * case[3] * (4 if case[0] == "f32" else 2)
    assert ours.predicted < 2.3 * weights / 4.3e12


@pytest.mark.parametrize(("dtype", "a", "b", "n"), [("bf16", 1, 1, 1024), ("f32", 2, 1, 4096), ("f32", 1, 7, 4096)])
def test_rows_in_batches_are_few_rows(dtype, a, b, n):
    """A language model's step has a row a sequence; as a tile of matrix units one by 4096 x 1024 took 15 us for 8."""
    batched = graph({"x": f"{dtype}[{a}, {b}, 4096]", "w": f"{dtype}[4096, {n}]"}, "%y = matmul(x, w)")
    plain = graph({"x": f"{dtype}[{a * b}, 4096]", "w": f"{dtype}[4096, {n}]"}, "%y = matmul(x, w)")
    ours, alone = (autocomp.optimize(t, target="cuda:h200") for t in (batched, plain))
    assert any("reduce_sum" in k.name for k in ours.kernels) and ours.predicted <= 1.05 * alone.predicted


def test_many_rows_of_halves_stay_with_matrix_units():
    program = autocomp.optimize(product("f16", 5, 4096, 8192), target="cuda:h200")
    assert all(k.name.startswith("matmul") for k in program.kernels)


def drawn(seed: int) -> str:
    r = Random(seed)
    dtype = r.choice(("f32", "f16", "bf16"))
    m = r.randint(2, 8 if dtype == "f32" else 4)
    return product(dtype, m, r.choice((1, 33, 64, 129, 201)), r.choice((17, 64, 255, 300)), r.random() < 0.5, r.random() < 0.5)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_drawn_products_on_the_cpu_model(model, tmp_path):
    summed = 0
    for seed in range(5):
        program = autocomp.optimize(drawn(seed), target=("cuda:h200", "cuda:a100")[seed % 2])
        summed += any("reduce_sum" in k.name for k in program.kernels)
        (folder := tmp_path / str(seed)).mkdir()
        program.executor = ModelExecutor(program, folder, model)
        assert program.verify(seed=seed).ratio <= 1, (seed, drawn(seed))
    assert summed > 2
