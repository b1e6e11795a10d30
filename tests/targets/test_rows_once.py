"""Reductions that read their rows once: a maximum with its place, variances over columns, quotients by a row's number; on the CPU model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.schedules import by_hand

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


def places(dtype: str, rows: int, width: int, w: str = "max", axis: int = 1, kept: int = 0) -> str:
    of = f"axes=[{axis}], keepdims={kept}"
    return (
        f"graph g\ninput x: {dtype}[{rows}, {width}]\n%m = reduce_{w}(x, {of})\n%i = reduce_arg{w}(x, {of})\noutput m = %m\noutput i = %i\n"
    )


VARIANCE = """%s = reduce_sum(x, axes=[0], keepdims=1)
%m = mul(%s, const({n}, f32))
%d = sub(x, %m)
%q = mul(%d, %d)
%v = reduce_sum(%q, axes=[0], keepdims=0)
%y = mul(%v, const({c}, f32))"""


def variance(rows: int, width: int) -> str:
    return f"graph g\ninput x: f32[{rows}, {width}]\n{VARIANCE.format(n=1 / rows, c=1 / (rows - 1))}\noutput y = %y\n"


@pytest.mark.parametrize(("dtype", "rows", "width"), [("f32", 19531, 1024), ("f16", 50000, 400), ("f32", 7001, 2855)])
def test_a_maximum_and_its_place_are_one_pass(dtype, rows, width):
    program = autocomp.optimize(places(dtype, rows, width), target="cuda:h200")
    assert len(program.kernels) == 1
    assert program.predicted < 1.6 * rows * width * (4 if dtype == "f32" else 2) / 4.2e12 + 4e-6
    apart = autocomp.optimize(places(dtype, rows, width), target="cuda:h200", without=["ordering/place-of-the-max", "fusion/siblings"])
    assert len(apart.kernels) == 2


@needs_compiler
@pytest.mark.parametrize(("dtype", "rows", "width", "w", "axis", "kept"), [
    ("f32", 5, 601, "max", 1, 0), ("f16", 3, 97, "min", 1, 1), ("f32", 130, 7, "max", 0, 0), ("f32", 4, 1, "max", 1, 0),
])  # fmt: skip
def test_places_are_right_on_the_cpu_model(model, tmp_path, dtype, rows, width, w, axis, kept):
    program = autocomp.optimize(places(dtype, rows, width, w, axis, kept), target="cuda:h200")
    program.executor = ModelExecutor(program, tmp_path, model)
    rng = np.random.default_rng(width)
    x = rng.integers(-3, 3, (rows, width)).astype(np.float32 if dtype == "f32" else np.float16)  # many ties
    x[0] = -np.inf if w == "max" else np.inf
    if width > 2:
        x[1, width // 2 :] = np.nan
    m, i = (np.asarray(v) for v in program(x))
    fold, place = (np.max, np.argmax) if w == "max" else (np.min, np.argmin)
    np.testing.assert_array_equal(m, fold(x, axis=axis, keepdims=bool(kept)))
    np.testing.assert_array_equal(i, place(x, axis=axis, keepdims=bool(kept)))


@needs_compiler
@pytest.mark.parametrize("schedule", [
    by_hand({"i0": 1}, threads=128), by_hand({"i0": 1}, threads=128, cluster=2), by_hand({"i0": 1, "r0": 256}, threads=64),
    by_hand({"i0": 8}, threads=128),
], ids=["whole", "cluster", "chunks", "rows"])  # fmt: skip
def test_places_are_compared_in_32_bits(model, tmp_path, schedule):
    """64-bit comparisons, selections and exchanges are two instructions and more: 44 elements of a thread took 808 for 640."""
    x = np.random.default_rng(7).integers(-3, 3, (5, 1203)).astype(np.float32)
    x[0], x[1, 600:], x[2, 1200:] = -np.inf, np.nan, 9
    program = autocomp.optimize("graph g\ninput x: f32[5, 1203]\n%y = reduce_argmax(x, axes=[1])\noutput y = %y\n", target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    program.printed[kernel.name] = program.target.emit(kernel, schedule)
    code = program.source().partition("*/")[2]
    assert code.count("long long") <= 3, "the result and what it is stored as"
    program.executor = ModelExecutor(program, tmp_path, model)
    np.testing.assert_array_equal(np.asarray(program(x)), x.argmax(1))


def test_places_that_need_64_bits_have_them():
    """A row of 2^31 elements, and places that are read from memory."""
    program = autocomp.optimize("graph g\ninput x: i8[1, 2147483647]\n%y = reduce_argmax(x, axes=[1])\noutput y = %y\n", target="cuda:h200")
    assert "9223372036854775807ll" in program.source() and "2147483647)" not in program.source().partition("*/")[2]


def test_variances_of_long_columns_read_them_once():
    program = autocomp.optimize(variance(11160, 3584), target="cuda:h200")
    assert program.predicted < 1.5 * 11160 * 3584 * 4 / 4.2e12
    twice = autocomp.optimize(variance(11160, 3584), target="cuda:h200", without=["monoids/welford-scaled"])
    assert twice.predicted > 1.5 * program.predicted


@needs_compiler
@pytest.mark.parametrize(("schedule", "quotients"), [
    (by_hand({"i0": 1}, threads=128, cluster=8), (1, 2)), (by_hand({"i0": 4, "r0": 512}, threads=64), (4, 10)),
], ids=["whole", "chunks"])  # fmt: skip
def test_variances_are_right_on_the_cpu_model(model, tmp_path, schedule, quotients):
    """In either form the mean is divided once where it changes, not where each element needs it; in chunks once more where threads meet."""
    program = autocomp.optimize(variance(40011, 7), target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    assert "welford" in kernel.name
    each = replace(schedule, directives=tuple(d for d in schedule.directives if d != "common_values"))
    printed = [program.target.emit(kernel, s) for s in (schedule, each)]
    divided = [s.text.partition("*/")[2] for s in printed]
    assert tuple(code.count(" / ac_max(") + code.count("ac_divide(") for code in divided) == quotients
    assert [("common_values" in s.applied) for s in printed] == [True, False]
    program.printed[kernel.name] = printed[0]
    program.executor = ModelExecutor(program, tmp_path, model)
    x = (np.random.default_rng(7).standard_normal((40011, 7)) + 30).astype(np.float32)
    np.testing.assert_allclose(np.asarray(program(x)), x.astype(np.float64).var(0, ddof=1), rtol=1e-4)


@needs_compiler
def test_the_rows_of_a_variance_are_counted_once_for_all_columns(model, tmp_path):
    """A count that each column had of its own made each quotient one of its own, with a slow path: 16 of 64 elements a turn."""
    program = autocomp.optimize(variance(20011, 24), target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    schedule = by_hand({"i0": 8, "r0": 256}, threads=128)
    program.printed[kernel.name] = program.target.emit(kernel, schedule)
    code = program.source().partition("*/")[2]
    assert code.count("ac_divide(") >= 2 and " / ac_max(" not in code.partition("for (int it")[2].partition("own_base")[0]
    program.executor = ModelExecutor(program, tmp_path, model)
    x = (np.random.default_rng(7).standard_normal((20011, 24)) + 30).astype(np.float32)
    np.testing.assert_allclose(np.asarray(program(x)), x.astype(np.float64).var(0, ddof=1), rtol=1e-4)


GROUPS = """%r = reshape(x, shape=[2, 3, 4, 40])
%s = reduce_sum(%r, axes=[2, 3], keepdims=1)
%m = mul(%s, const(0.00625, f32))
%d = sub(%r, %m)
%q = mul(%d, %d)
%v = reduce_sum(%q, axes=[2, 3], keepdims=1)
%i = rsqrt(%v)
%y = mul(%d, %i)"""


@needs_compiler
def test_rows_over_two_axes_are_loaded_once(model, tmp_path):
    """A group's channels and pixels are two axes of the mean, two of the variance, two of the result: each had a copy of its own."""
    text = f"graph g\ninput x: f32[2, 12, 40]\n{GROUPS}\noutput y = %y\n"
    program = autocomp.optimize(text, target="cuda:h200")
    assert len(program.kernels) == 1 and program.source().count("= copy in0") == 1
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify().ratio <= 1 and autocomp.optimize(text).verify().ratio <= 1


def test_a_row_is_divided_by_one_reciprocal():
    text = "graph g\ninput x: f32[512, 2048]\n%m = reduce_max(x, axes=[1], keepdims=1)\n%y = div(x, %m)\noutput y = %y\n"
    without = ["idioms/divide-by-*row", "directives/shared-divisors"]
    once, each = (autocomp.optimize(text, target="cuda:h200", without=w) for w in ([], without))
    quotients = [sum(line.count(" / ") for line in p.source().splitlines() if "_t[r] =" in line and "in0_t" in line) for p in (once, each)]
    assert quotients == [0, 1]


def test_an_open_size_that_is_computed_with_is_no_axis():
    torch = pytest.importorskip("torch")
    from tests.helpers.torch_modules import Apply

    def placed(e):
        n = e.shape[1]
        i, k = torch.arange(1, n + 1)[:, None], torch.arange(1, 9)
        return (e * (1 - i / n - k / 8 * (1 - 2 * i / n))).sum(1)

    example, open_ = torch.randn(3, 6, 8), {1: torch.export.Dim.AUTO}
    exported = torch.export.export(Apply(placed), (example,), dynamic_shapes=((open_,),))
    assert "extern \"C\"" in autocomp.optimize(exported, target="cuda:h200").source()
