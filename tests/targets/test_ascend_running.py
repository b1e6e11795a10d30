"""Running sums, products and extremes on an NPU: rows become lanes where they run along one; scalar units have no part."""

from __future__ import annotations

from random import Random

import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER
from autocomp.simulate.program import simulated
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeats

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
TURNED = ["running/*-of-rows-as-lanes"]


def running(fn: str, dtype: str, shape: tuple[int, int], axis: int, more: str = "") -> str:
    return graph({"x": f"{dtype}[{shape[0]}, {shape[1]}]"}, f"%0 = {fn}(x, axis={axis}{more})")


@pytest.mark.parametrize("fn", ["cumsum", "cumprod", "cummax"])
@needs_compiler
def test_drawn_families_are_right_on_the_model(fn: str) -> None:
    """Each type, each axis; of the functions together each pair of them."""
    r = Random(f"running {fn}")
    first = ("cumsum", "cumprod", "cummax").index(fn) % 2
    for k, dtype in enumerate(("f32", "f16", "i32")):
        shape = r.randint(3, 90), r.randint(20, 150)
        more = r.choice(("", ", exclusive=True", ", reverse=True"))
        program = autocomp.optimize(running(fn, dtype, shape, (first + k) % 2, more), target="ascend:910b1", cache=False)
        with simulated(program):
            program.verify(seed=1)


@pytest.mark.parametrize("dtype", ["f32", repeats("f16", of="f32"), "i32"])
def test_long_rows_have_no_kernel_of_the_scalar_units(dtype: str) -> None:
    text = running("cumsum", dtype, (1500, 700), 1)
    program = autocomp.optimize(text, target="ascend:910b1", cache=False)
    assert not [k.name for k in program.kernels if "scalar" in k.schedule]
    without = autocomp.optimize(text, target="ascend:910b1", without=TURNED, cache=False)
    assert program.predicted < without.predicted / 10


@needs_compiler
def test_products_of_words_down_columns_fold_by_halves() -> None:
    program = autocomp.optimize(graph({"x": "i32[37, 90]"}, "%0 = reduce_prod(x, axes=[0])"), target="ascend:910b1",
                                without=["tiling/npu-scalar-*"], cache=False)  # fmt: skip
    assert "ac_halves_mul" in "".join(p.text for p in program.printed.values())
    with simulated(program):
        program.verify(seed=1)


@needs_compiler
@pytest.mark.parametrize("fn", ["cummax", repeats("cummin", of="cummax")])
def test_extremes_of_words_are_of_parts(fn: str) -> None:
    parts = [f"running/{fn}-of-words-in-parts-*"]
    text = running(fn, "i32", (900, 260), 0)
    with_parts, without = (autocomp.optimize(text, target="ascend:910b1", without=w, cache=False) for w in ([], parts))
    assert with_parts.predicted < without.predicted / 4
    small = autocomp.optimize(running(fn, "i32", (330, 40), 0, ", exclusive=True"), target="ascend:310p", cache=False)
    assert len(small.kernels) > 1
    with simulated(small):
        small.verify(seed=1)


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", repeats("f16", of="f32"), "i32"])
def test_extremes_of_a_single_row_are_of_parts(dtype: str) -> None:
    """One row has no others to be lanes: its parts are the rows."""
    r = Random(f"one row {dtype}")
    fn, n = r.choice(("cummax", "cummin")), r.randint(9000, 30000)
    text, parts = running(fn, dtype, (1, n), 1), [f"running/{fn}-*in-parts-*"]
    with_parts, without = (autocomp.optimize(text, target="ascend:910b1", without=w, cache=False) for w in ([], parts))
    assert with_parts.predicted < without.predicted / 4
    small = autocomp.optimize(running(fn, dtype, (1, r.randint(1800, 2500)), 1, ", reverse=True"), target="ascend:950pr", cache=False)
    assert len(small.kernels) > 1
    with simulated(small):
        small.verify(seed=1)
