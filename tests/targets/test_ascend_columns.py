"""Elements of rows looked up by integers in memory, on the model of Ascend's cores."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest
from autocomp.targets.simt.expressions import _F16

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers import fresh

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
# (table, its type, indices, their type, axis): tails of rows and columns, three axes, a table of integers
CASES = {"f32": ("90, 48", "f32", "7", "i32", 1), "f16": ("37, 130", "f16", "33", "i64", 1), "bf16": ("4, 19, 64", "bf16", "20", "i64", 2),
         "i32": ("30, 65", "i32", "20", "i32", 1), "one row": ("300", "f16", "20", "i64", 0),
         "each": ("3, 37, 130", "f32", "3, 37, 33", "i64", 2)}  # fmt: skip


def looked_up(case):
    """Elements named one by one where there are as many indices as axes."""
    table, of, indices, integers, axis = CASES[case] if isinstance(case, str) else case
    op = "gather_elements" if "," in indices else "gather"
    text = f"graph g\ninput t: {of}[{table}]\ninput i: {integers}[{indices}]\n%0 = {op}(t, i, axis={axis})\noutput out = %0\n"
    return autocomp.optimize(text, target="ascend:910b")


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_columns_are_looked_up_by_the_vector_unit(case, tmp_path):
    program = looked_up(case)
    text = program.source()
    assert "ac_looked_up(" in text and "instruction scalar" not in text
    program.executor = AscendExecutor(program, tmp_path, blocks=3)
    program.verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize(("was", "by"), [("ac_places(", "if (0) ac_places("), (", 47, ", ", 5, "), ("in1_g[48ull", "in1_g[47ull")])
def test_a_wrong_place_is_seen(was, by, tmp_path):
    program = looked_up("f32")
    assert was in program.source()
    program.executor = AscendExecutor(program, tmp_path, edit=lambda text: text.replace(was, by), blocks=3)
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)


@needs_compiler
def test_elements_of_other_rows_are_not_copied_as_rows(tmp_path):
    """The first element's row was taken for all of its row: a wrong result. It is the scalar unit's."""
    program = looked_up(("37, 130", "f16", "33, 130", "i32", 0))
    assert "instruction scalar" in program.source()
    program.executor = AscendExecutor(program, tmp_path, blocks=3)
    program.verify(seed=fresh.seed())


@needs_compiler
def test_looked_up_rows_that_are_a_factor_wait_for_the_cube_core(tmp_path):
    """A row goes to the cube core as it was copied, with no instruction in between: no flag said that it had come or been read."""
    inputs = "input a: f32[50, 40, 264]\ninput i: i64[1]\ninput b: f32[50, 264, 128]"
    text = f"graph g\n{inputs}\n%0 = gather(a, i, axis=1)\n%1 = matmul(%0, b)\noutput out = %1\n"
    program = autocomp.optimize(text, target="ascend:910b1")
    assert "* queue vector.MTE3 -> cube.MTE2 [v_m] each tile" in program.source()
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())


def test_other_integers_are_the_scalar_units():
    text = "graph g\ninput t: i64[30, 65]\ninput i: i32[20]\n%0 = gather(t, i, axis=1)\noutput out = %0\n"
    assert "instruction scalar" in autocomp.optimize(text, target="ascend:910b").source()


@needs_compiler
def test_one_element_of_each_row_is_not_looked_up_in_the_first(tmp_path):
    """x[:, :, [7]]: the rows lie along the lanes, so each lane has a row of its own."""
    text = "graph g\ninput x: f16[6, 1, 17, 264]\ninput i: i64[1]\n%0 = gather(x, i, axis=3)\noutput out = %0\n"
    program = autocomp.optimize(text, target="ascend:910b1")
    program.executor = AscendExecutor(program, tmp_path)
    x = np.random.default_rng(3).standard_normal((6, 1, 17, 264)).astype(np.float16)
    np.testing.assert_array_equal(np.asarray(program.run({"x": x, "i": np.array([-9])})["out"]), x[..., [-9]])


@needs_compiler
def test_words_are_not_combined_with_single_precision(tmp_path):
    """The least of integers that a cast made 64 bits wide: text that no compiler takes. It is the scalar unit's."""
    body = '%0 = cast(x, to="i64")\n%1 = reduce_min(%0, axes=[0, 2], keepdims=False)'
    program = autocomp.optimize(f"graph g\ninput x: i32[6, 1, 10, 24]\n{body}\noutput out = %1\n", target="ascend:910b1")
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=5)


@pytest.mark.parametrize("fn", sorted(_F16))
def test_the_scalar_unit_has_the_functions_of_f16(fn):
    assert f"ac_{fn}_f16(" in files("autocomp.targets").joinpath("ascend", "include", "autocomp_ascend_scalar.h").read_text()


@needs_compiler
def test_values_a_row_of_several_axes_are_refused(tmp_path):
    """Tiles with rows along two axes of which memory has the values in the other order: the first axis alone lies side by side."""
    lines = ("%0 = reshape(x, shape=[64, 6, 64])\n%1 = transpose(%0, perm=[1, 0, 2])\n%2 = softplus(s)\n%3 = transpose(%2, perm=[1, 0])\n"
             "%4 = reshape(%3, shape=[6, 64, 1])\n%5 = mul(%1, %4)\noutput out = %5\n")  # fmt: skip
    program = autocomp.optimize(f"graph g\ninput x: f32[64, 384]\ninput s: f32[64, 6]\n{lines}", target="ascend:910b")
    kernel = program.calls.calls[-1].kernel
    with pytest.raises(UnsupportedOp, match="not copied as one run"):
        program.target.emit(kernel, Schedule.make({a.name: n for a, n in zip(kernel.axes, (2, 64, 64))}))
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())
