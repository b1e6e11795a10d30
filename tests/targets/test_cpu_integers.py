"""Integers on the CPU target at their ends: arithmetic wraps as in NumPy, also where C leaves it open; no division stops the process."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.types import I8, I16, I32, I64, U8, U16, U32, U64, TensorType

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")

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
