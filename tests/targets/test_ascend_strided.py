"""Slices and windows with steps on Ascend: rows are copied whole, and a look-up by byte offsets leaves out what lies between."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from autocomp.simulate.program import simulated
from tests.helpers import fresh

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
FALL_BACK = "tiling/npu-scalar-*"


def every(step, shape, dtype, rows=1):
    """The differences of neighbours, a number from each `step`: rows of odd length, elements of the first and of the last place."""
    first, last = ", ".join("0" for _ in shape[:-1]), ", ".join(str(n) for n in shape[:-1])
    steps = ", ".join([str(rows), *("1" for _ in shape[2:]), str(step)])
    cut = lambda at: f"slice(x, starts=[{first}, {at}], limits=[{last}, {shape[-1] - step + 1 + at}], steps=[{steps}])"
    return f"graph g\ninput x: {dtype}{list(shape)}\n%0 = {cut(0)}\n%1 = {cut(step - 1)}\n%2 = sub(%1, %0)\noutput out = %2\n"


def pool(shape, window, strides, lo, hi, dtype="f16"):
    """Windows whose first and last places lie outside."""
    sizes = f"window={window}, strides={strides}, lo={lo}, hi={hi}, dilations=[1, 1]"
    return f"graph g\ninput x: {dtype}{list(shape)}\n%0 = maxpool(x, {sizes})\noutput out = %0\n"


def program_of(text, folder, **options):
    program = autocomp.optimize(text, target="ascend:910b", without=[FALL_BACK])
    program.executor = AscendExecutor(program, folder, **options)
    return program


@needs_compiler
@pytest.mark.parametrize(("step", "shape", "dtype", "rows"),
                         [(2, (5, 333), "f16", 1), (3, (90, 50), "f32", 2), (2, (3, 7, 130), "bf16", 1)])  # fmt: skip
def test_slices_with_steps(step, shape, dtype, rows, tmp_path):
    program_of(every(step, shape, dtype, rows), tmp_path).verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize(("shape", "sizes", "dtype"), [((1, 3, 17, 21), ([3, 3], [2, 2], [1, 1], [1, 1]), "f16"),
                                                      ((2, 2, 30, 37), ([3, 3], [2, 3], [1, 0], [0, 2]), "f32")])  # fmt: skip
def test_pools_with_steps_and_borders(shape, sizes, dtype, tmp_path):
    program_of(pool(shape, *sizes, dtype), tmp_path).verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize(("was", "by"), [("_lo_i2 * 2)", "_lo_i2 * 2 + 1)"), ("_hi_i2 - 1) * 2 + 1)", "_hi_i2 - 1) * 2 - 1)")])
def test_a_wrong_border_of_a_step_is_seen(was, by, tmp_path):
    program = program_of(pool((1, 16, 33, 64), [3, 3], [2, 2], [1, 1], [1, 1]), tmp_path, edit=lambda text: text.replace(was, by))
    assert was in next(iter(program.printed.values())).text
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)


def test_a_pool_of_a_network_is_no_fall_back():
    """Each place of the window is a look-up of its own and is priced as one; the scalar units would take 419 us."""
    kernel = autocomp.optimize(pool((1, 64, 112, 112), [3, 3], [2, 2], [1, 1], [1, 1]), target="ascend:910b").kernels[0]
    assert "scalar" not in kernel.schedule and 3e-5 < kernel.predicted < 6e-5  # 46 us on the model


@needs_compiler
def test_a_wrong_offset_is_seen(tmp_path):
    program = program_of(every(2, (5, 333), "f32"), tmp_path, edit=lambda text: text.replace(", 2, 166);", ", 3, 166);"))
    assert ", 2, 166);" in next(iter(program.printed.values())).text
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)


def test_elements_far_apart_are_refused_with_their_distance():
    with pytest.raises(UnsupportedOp, match="lie 40 apart"):
        autocomp.optimize(every(40, (5, 400), "f32"), target="ascend:910b", without=[FALL_BACK])


@pytest.mark.skipif(not COMPILER, reason="no g++")
def test_columns_of_a_sum_that_lie_apart_do_not_leave_straight():
    """A group of four channels, one of them a tile: the product's columns are places of the image, whose results lie four apart."""
    text = "graph g\ninput x: bf16[1, 16, 8, 200]\nparam w: bf16[4, 4, 2, 1] = random(0)\n"
    text += '%0 = conv(x, w, strides=[1, 2], lo=[1, 1], hi=[1, 0], dilations=[1, 2], groups=4, layout="nchw")\noutput y = %0\n'
    program = autocomp.optimize(text, target="ascend:910b1")
    with simulated(program):
        program.verify(seed=fresh.seed())
