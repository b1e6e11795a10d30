"""Integers on the CPU target at their ends: arithmetic wraps as in NumPy, also where C leaves it open; no division stops the process."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.types import F32, I8, I16, I32, I64, U8, U16, U32, U64, TensorType
from tests.helpers.repeats import repeats

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip

TYPES = [I8, I16, I32, I64, U8, U16, U32, U64]


def ends(dtype, n=48):
    """The smallest and largest numbers and those near them, small ones, a few at random."""
    i = np.iinfo(dtype.numpy)
    few = [i.min, i.max, 0, 1, i.max - 1, i.min + 1, 77, i.max // 2, i.max // 3]
    few += np.random.default_rng(0).integers(i.min, i.max, n - len(few), dtype.numpy).tolist()
    return np.array(few, dtype.numpy)


def same(graph, feed):
    got, want = autocomp.optimize(graph).run(feed), evaluate(graph, feed, float64=False)
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_arithmetic_wraps(dtype):
    b = Builder("wrap")
    x, y = (b.input(n, TensorType(dtype, (48,))) for n in "xy")
    one, two = b.const(1, dtype), b.const(2, dtype)
    b.output("next", b.op("gt", b.op("add", x, one), x))  # a compiler that may assume no overflow folds these to one answer
    b.output("before", b.op("lt", b.op("sub", x, one), x))
    b.output("half", b.op("floordiv", b.op("mul", x, two), two))
    b.output("product", b.op("mul", x, y))
    if dtype.kind == "i":
        b.output("negative", b.op("lt", b.op("abs", x), b.const(0, dtype)))
        b.output("itself", b.op("eq", b.op("neg", x), x))
    values = ends(dtype)
    same(b.graph(), {"x": values, "y": np.roll(values, 1)})


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sums_and_products_of_sums_wrap(dtype):
    b = Builder("sums")
    x = b.input("x", TensorType(dtype, (6, 8)))
    b.output("sum", b.op("reduce_sum", x, axes=(1,), keepdims=False))
    b.output("prod", b.op("reduce_prod", x, axes=(0,), keepdims=False))
    b.output("dot", b.op("matmul", x, b.op("transpose", x, perm=(1, 0))))
    same(b.graph(), {"x": ends(dtype).reshape(6, 8)})


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_no_division_stops_the_process(dtype):
    b = Builder("division")
    x, y = (b.input(n, TensorType(dtype, (48,))) for n in "xy")
    for op in ("idiv", "floordiv", "mod", "fmod"):
        b.output(op, b.op(op, x, y))
    least = -1 if dtype.kind == "i" else 1
    values = ends(dtype)
    for by in (np.zeros(48), np.full(48, least), np.arange(48) % 7 - (3 if dtype.kind == "i" else 0), np.roll(values, 5)):
        with np.errstate(all="ignore"):
            same(b.graph(), {"x": values, "y": by.astype(dtype.numpy)})


@pytest.mark.parametrize("left", [I8, U8], ids=str)
@pytest.mark.parametrize("right", [I8, U8], ids=str)
def test_products_of_bytes_at_their_ends(left, right):
    """Sums of the largest products, depths between groups of four, columns between vectors; the factor with the columns comes with a
    call, lies along the depth, or is a constant that is packed once."""
    rng = np.random.default_rng(1)
    b, feed = Builder("bytes"), {}

    def given(name, dtype, *shape, constant=False):
        ends_ = np.iinfo(dtype.numpy)
        data = rng.choice(np.array([ends_.min, ends_.max, 0, 1, 77], dtype.numpy), shape)
        if not constant:
            feed[name] = data
        return b.op("cast", b.param(name, data) if constant else b.input(name, TensorType(dtype, shape)), to="i32")

    for n, (rows, depth, columns) in enumerate([(5, 7, 9), (13, 64, 48), (1, 130, 33), (33, 6, 17), (2, 1, 40)]):
        b.output(f"plain{n}", b.op("matmul", given(f"x{n}", left, rows, depth), given(f"w{n}", right, depth, columns)))
        turned = b.op("transpose", given(f"t{n}", right, columns, depth), perm=[1, 0])
        b.output(f"turned{n}", b.op("matmul", given(f"y{n}", left, 2, rows, depth), turned))
        b.output(f"once{n}", b.op("matmul", given(f"z{n}", left, rows, depth), given(f"c{n}", right, depth, columns, constant=True)))
    same(b.graph(), feed)


def test_windows_of_bytes_with_a_zero_point():
    """Borders hold the zero point, which is not 0: packed with masks, and without where all lanes lie inside."""
    rng = np.random.default_rng(2)
    b, feed = Builder("windows"), {}
    sizes = [(5, 9, 37, 6, 3, 1), (8, 12, 64, 16, 3, 1), (3, 20, 41, 4, 5, 2), (16, 7, 7, 9, 1, 1)]
    for n, (channels, lines, columns, filters, size, stride) in enumerate(sizes):
        feed[f"x{n}"] = rng.integers(0, 256, (1, channels, lines, columns)).astype(np.uint8)
        x = b.op("cast", b.input(f"x{n}", TensorType(U8, feed[f"x{n}"].shape)), to="i32")
        w = b.param(f"w{n}", rng.integers(-128, 128, (filters, channels, size, size)).astype(np.int8))
        edge = [size // 2] * 2
        window = {"strides": [stride] * 2, "lo": edge, "hi": edge, "dilations": [1, 1]}
        y = b.op("conv", b.op("sub", x, b.const(119, I32)), b.op("cast", w, to="i32"), **window)
        b.output(f"y{n}", y)
    same(b.graph(), feed)


def test_products_of_bytes_run_four_at_a_time_and_are_priced_so():
    b = Builder("fast")
    x, w = (b.op("cast", b.input(n, TensorType(I8, (256, 256))), to="i32") for n in "xw")
    b.output("y", b.op("matmul", x, w))
    program = autocomp.optimize(b.graph())
    assert "vi_dot4(" in program.source()
    f = Builder("floats")
    f.output("y", f.op("matmul", *(f.input(n, TensorType(F32, (256, 256))) for n in "xw")))
    assert program.predicted <= autocomp.optimize(f.graph()).predicted


@pytest.mark.parametrize(("dtype", "stride"), [(U8, 1), (I8, 2)])
def test_windows_of_bytes_with_borders_run_four_at_a_time(dtype, stride):
    """Outside of an image is 0 in any type of numbers: bytes need not be widened and chosen first (15 times as slow)."""
    rng, b = np.random.default_rng(0), Builder("border")
    x = b.op("cast", b.input("x", TensorType(dtype, (1, 8, 11, 19))), to="i32")
    w = b.op("cast", b.param("w", rng.integers(-128, 128, (12, 8, 3, 3)).astype("i1")), to="i32")
    b.output("y", b.op("conv", x, w, strides=(stride, stride), lo=(1, 1), hi=(1, 1), dilations=(1, 1), groups=1))
    feed = {"x": rng.integers(np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max + 1, (1, 8, 11, 19)).astype(dtype.numpy)}
    program = autocomp.optimize(b.graph())
    np.testing.assert_array_equal(program.run(feed)["y"], evaluate(b.graph(), feed, float64=False)["y"])
    assert "vi_dot" in program.kernels[0].source


@pytest.mark.parametrize(("lines", "columns", "size", "stride", "point"), [
    (7, 7, 3, 1, 0), repeats(14, 14, 3, 1, 0, of="the first"), repeats(9, 5, 3, 1, 0, of="the first"), (7, 16, 3, 1, 0), (13, 13, 3, 2, 0),
    (3, 2, 2, 1, 0), (7, 7, 3, 1, 119),
])  # fmt: skip
def test_short_lines_of_bytes_lie_side_by_side_in_a_panel(lines, columns, size, stride, point):
    """Lanes that a line of 7 leaves empty are filled by the next lines, and the weights are read once for all of them."""
    rng, b = np.random.default_rng(lines), Builder("lines")
    feed = {"x": rng.integers(0, 256, (1, 12, lines, columns)).astype(np.uint8)}
    x = b.op("cast", b.input("x", TensorType(U8, feed["x"].shape)), to="i32")
    x = b.op("sub", x, b.const(point, I32)) if point else x
    w = b.op("cast", b.param("w", rng.integers(-128, 128, (21, 12, size, size)).astype(np.int8)), to="i32")
    edge = [size // 2] * 2
    y = b.op("conv", x, w, strides=[stride] * 2, lo=edge, hi=edge, dilations=[1, 1])
    z = b.op("max", b.op("mul", b.op("cast", y, to="f32"), b.const(0.01, F32)), b.const(0.0, F32))
    z = b.op("cast", b.op("min", z, b.const(255.0, F32)), to="u8")
    b.output("y", y)
    b.output("z", z)
    program = autocomp.optimize(b.graph(), threads=1)
    got, want = program.run(feed), evaluate(b.graph(), feed, float64=False)
    np.testing.assert_array_equal(got["y"], want["y"])
    np.testing.assert_array_equal(got["z"], want["z"])
    if program.target.chip.lanes() >= 16 and columns > 2:
        assert "runs over both" in program.source()
