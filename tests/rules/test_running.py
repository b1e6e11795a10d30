"""Running sums and products in parts: linear where they were quadratic, and right whatever their flags."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import autocomp
from autocomp.runtime.inputs import random_inputs
from autocomp.simulate.simt_model import COMPILER, ModelExecutor

FLAGS = list(itertools.product((False, True), repeat=2))


def compiled(op, dtype, shape, axis, exclusive=False, reverse=False, **options):
    text = f"graph g\ninput x: {dtype}[{shape}]\n%0 = {op}(x, axis={axis}, exclusive={exclusive}, reverse={reverse})\noutput y = %0\n"
    return autocomp.optimize(text, cache=False, **options)


def in_parts(program):
    parts = tuple(f"running/{op}-in-{which}" for op in ("cumsum", "cumprod") for which in ("parts", "long-parts"))
    return any(r.startswith(parts) for k in program.kernels for r in k.rules)


def linear(program):
    """In parts, or scanned."""
    return in_parts(program) or any("scan" in k.schedule for k in program.kernels)


@pytest.mark.parametrize(("shape", "axis"), [("{n}, 512", 0), ("64, {n}", 1), ("{n}", 0)])
def test_four_times_as_long_takes_about_four_times_as_long(shape, axis):
    short, long = (compiled("cumsum", "f32", shape.format(n=n), axis, deadline=0) for n in (20_000, 80_000))
    assert linear(long)
    assert long.predicted < 8 * short.predicted, "a cache may hold the short one alone; as a fold it takes 16 times as long"
    assert short.predicted < 0.02, "a hundred seconds for 512 columns"


@pytest.mark.parametrize(("op", "dtype", "shape", "axis", "flags"), [
    (op, dtype, *(("41, 1003", 1) if k % 2 else ("1003, 41", 0)), FLAGS[k % 4])
    for k, (op, dtype) in enumerate(itertools.product(("cumsum", "cumprod"), ("f32", "f64", "f16", "bf16", "i64", "u8", "i8")))
])  # fmt: skip
def test_every_kind_of_running_fold_is_right(op, dtype, shape, axis, flags):
    program = compiled(op, dtype, shape, axis, *flags)
    assert linear(program)
    assert program.verify().ratio <= 1


@pytest.mark.parametrize(("exclusive", "reverse"), FLAGS)
def test_sums_and_products_are_numpys(exclusive, reverse):
    """A length that fills no whole number of parts, and parts of parts."""
    x = np.random.default_rng(3).integers(-9, 9, (3, 5003)).astype("f4")
    got = compiled("cumsum", "f32", "3, 5003", 1, exclusive, reverse)(x)
    wide = np.flip(x, 1).astype("f8") if reverse else x.astype("f8")
    want = np.cumsum(wide, 1) - (wide if exclusive else 0)
    np.testing.assert_array_equal(got, np.flip(want, 1) if reverse else want)  # whole numbers: nothing is rounded


def test_open_sizes_beside_the_axis_stay_open():
    program = autocomp.optimize("graph g\ndim b in 1..50\ninput x: f32[b, 3000]\n%0 = cumsum(x, axis=1)\noutput y = %0\n", cache=False)
    assert linear(program)
    assert program.verify().ratio <= 1


OPEN = {  # length, shape, axis, other sizes, the fold
    "one row, parts of parts": ("1..2147483647", "n", 0, {}, "cumsum", "f32", FLAGS[0]),
    "columns": ("1..5000", "n, 3", 0, {}, "cumprod", "i32", FLAGS[3]),
    "an open batch": ("1..5000", "b, n", 1, {"b": 2}, "cumsum", "f16", FLAGS[2]),
}


@pytest.mark.parametrize("name", OPEN)
def test_an_open_length_is_done_in_parts(name):
    length, shape, axis, others, op, dtype, (exclusive, reverse) = OPEN[name]
    sizes = f"dim n in {length}\n" + ("dim b in 1..9\n" if others else "")
    text = f"graph g\n{sizes}input x: {dtype}[{shape}]\n%0 = {op}(x, axis={axis}, exclusive={exclusive}, reverse={reverse})\n"
    program = autocomp.optimize(f"{text}output y = %0\n", cache=False, threads=1)
    assert in_parts(program)
    for n in (1, 63, 64, 65, *([4100] if dtype != "f16" else [])):
        program.verify(random_inputs(program.graph, n, {"n": n, **others}))


def test_a_short_open_length_is_not():
    text = "graph g\ndim n in 1..300\ninput x: f32[n]\n%0 = cumsum(x, axis=0)\noutput y = %0\n"
    assert not in_parts(autocomp.optimize(text, cache=False, threads=1)), "three kernels more"


def test_exact_leaves_the_order_of_a_sum():
    assert not in_parts(compiled("cumsum", "f32", "64, 3000", 1, exact=True))


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", ["cuda:a100", "maca:c500"])
def test_on_the_model_of_a_gpu(target, model, tmp_path):
    program = compiled("cumsum", "f32", "2, 100003", 1, target=target)
    assert in_parts(program)
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify().ratio <= 1


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", ["cuda:h200", "maca:c500"])
def test_open_lengths_on_the_model_of_a_gpu(target, model, tmp_path):
    text = "graph g\ndim n in 1..2147483647\ninput x: f32[2, n]\n%0 = cumsum(x, axis=1)\noutput y = %0\n"
    program = autocomp.optimize(text, target=target, cache=False)
    assert in_parts(program)
    program.executor = ModelExecutor(program, tmp_path, model)
    for n in (1, 65, 4200):
        program.verify(random_inputs(program.graph, n, {"n": n}))
