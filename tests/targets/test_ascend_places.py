"""Where the largest and smallest of a row or a column stand: vector cores choose among indices that single precision holds."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers import fresh

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
FALL_BACK = "tiling/npu-scalar-*"


def places(shape, axis, dtype="f32"):
    text = f"graph g\ninput x: {dtype}{list(shape)}\n%0 = reduce_argmax(x, axes=[{axis}])\n%1 = reduce_argmin(x, axes=[{axis}])\n"
    return autocomp.optimize(text + "output most = %0\noutput least = %1\n", target="ascend:910b", without=[FALL_BACK])


@needs_compiler
@pytest.mark.parametrize(("shape", "axis", "dtype"), [((37, 65), 1, "f32"), ((65, 130), 0, "f16"), ((3, 1100), 1, "f32")])
def test_first_of_equal_ones_and_infinities(shape, axis, dtype, tmp_path):
    program = places(shape, axis, dtype)
    program.executor = AscendExecutor(program, tmp_path)
    rng = np.random.default_rng(3)
    x = np.moveaxis(rng.integers(-9, 9, shape).astype(dtype.replace("f32", "f4").replace("f16", "f2")), axis, 0)
    x[:, 0], x[:, 1], x[:, 2] = -np.inf, np.inf, 0
    x = np.moveaxis(x, 0, axis)
    got = program.run({"x": x})
    np.testing.assert_array_equal(got["most"], x.argmax(axis))
    np.testing.assert_array_equal(got["least"], x.argmin(axis))


@needs_compiler
def test_no_number_is_first(tmp_path):
    program = places((5, 70), 1)
    program.executor = AscendExecutor(program, tmp_path)
    x = np.random.default_rng(3).standard_normal((5, 70)).astype("f4")
    x[1, 40] = x[1, 66] = x[3, 0] = np.nan
    got = program.run({"x": x})
    np.testing.assert_array_equal(got["most"], x.argmax(1))
    np.testing.assert_array_equal(got["least"], x.argmin(1))


@needs_compiler
def test_rows_that_pass_by_in_chunks_the_last_of_which_ends_within(tmp_path):
    """Past the end stands what counts least, and where nothing counts more the row's first element is the one."""
    program = places((4, 40003), 1)
    program.executor = AscendExecutor(program, tmp_path)
    x = np.random.default_rng(3).standard_normal((4, 40003)).astype("f4")
    x[0, -1], x[0, 9000], x[1], x[2], x[3, 40002] = 9, -9, -np.inf, np.inf, np.nan
    got = program.run({"x": x})
    np.testing.assert_array_equal(got["most"], x.argmax(1))
    np.testing.assert_array_equal(got["least"], x.argmin(1))


@needs_compiler
def test_an_end_that_may_be_the_result_is_two_words(tmp_path):
    """The first index where a truth value is set, or the type's largest number: that number is none of single precision."""
    text = ("graph g\ninput m: bool[5, 70]\n%0 = iota(shape=[5, 70], axis=1)\n%1 = where(m, %0, const(9223372036854775807, i64))\n"
            "%2 = reduce_min(%1, axes=[1])\noutput first = %2\n")  # fmt: skip
    program = autocomp.optimize(text, target="ascend:910b")
    assert "ac_joined(" in program.source() and not any("ac_run<" in s.text for s in program.printed.values())
    m = np.random.default_rng(fresh.seed()).random((5, 70)) < 0.02
    m[0] = False
    program.executor = AscendExecutor(program, tmp_path)
    np.testing.assert_array_equal(program.run({"m": m})["first"], np.where(m.any(1), m.argmax(1), 2**63 - 1))


def test_rows_of_more_elements_than_single_precision_counts():
    with pytest.raises(UnsupportedOp, match=r"up to 16777217, vector cores hold|bytes"):
        places((1, 2**24 + 2), 1)
