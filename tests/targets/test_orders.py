"""The largest or smallest of a row in order: found in turn where they are few, counted by ranks on devices with many lanes, else by the
reference. Equal numbers keep their places, NaN stands last, zeros of either sign are equal."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import autocomp
from autocomp.ir.ops.data import IN_TURN
from autocomp.simulate.ascend_model import AscendExecutor
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.repeats import repeating

TYPES = {"f32": "f4", "f16": "f2", "bf16": ml_dtypes.bfloat16, "i32": "i4", "i8": "i1", "u8": "u1"}
needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


def text(dtype, shape, k, axis, largest):
    parts = "".join(f'%{p[0]} = topk(x, k={k}, axis={axis}, largest={largest}, part="{p}")\n' for p in ("values", "indices"))
    return f"graph g\ninput x: {dtype}[{', '.join(map(str, shape))}]\n{parts}output values = %v\noutput indices = %i\n"


def drawn(dtype, shape, axis):
    """Ties, both ends of the type; of floats NaN, infinities and both zeros."""
    rng = fresh.rng()
    if dtype[0] in "iu":
        info = np.iinfo(TYPES[dtype])
        x = rng.integers(-4 if dtype[0] == "i" else 0, 4, shape)
        return np.where(rng.random(shape) < 0.2, rng.choice([info.min, info.max], shape), x).astype(TYPES[dtype])
    x = rng.integers(-9, 9, shape) / 4
    x = np.where(rng.random(shape) < 0.3, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape), x)
    return x.astype(TYPES[dtype])


def expected(x, k, axis, largest):
    """By Python's own stable sort."""
    rows = np.moveaxis(x.astype("f8"), axis, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    sign = -1 if largest else 1
    order = [sorted(range(len(r)), key=lambda i: ((r[i] == r[i]) != (not largest), sign * r[i] if r[i] == r[i] else 0))[:k] for r in flat]
    return np.moveaxis(np.array(order).reshape(*rows.shape[:-1], k), -1, axis)


def check(program, x, k, axis, largest):
    got = program.run({"x": x})
    places = expected(x, k, axis, largest)
    np.testing.assert_array_equal(got["indices"], places)
    np.testing.assert_array_equal(got["values"].astype("f8"), np.take_along_axis(x, places, axis).astype("f8"))


ROWS = ((5, 37), 4, 1), ((40, 3), 9, 0), ((2, 21, 2), 3, 1), ((6, 18), 18, 1), ((3, 9), 1, 1), ((30, 2), 20, 0)  # shape, k, axis
CASES = [(t, largest, *rest) for t, rest in zip(TYPES, ROWS) for largest in (True, False)]


@pytest.mark.parametrize(("dtype", "largest", "shape", "k", "axis"), CASES)
def test_orders_on_cpus(dtype, largest, shape, k, axis):
    program = autocomp.optimize(text(dtype, shape, k, axis, largest))
    assert any(c.kernel.coded for c in program.calls.calls)
    check(program, drawn(dtype, shape, axis), k, axis, largest)


FRONT = [("f32", True, (3, 700), 4, 1), ("i32", False, (900, 2), 16, 0), ("i8", True, (2, 400), 1, 1), ("f16", False, (300,), 5, 0)]


@pytest.mark.parametrize(("dtype", "largest", "shape", "k", "axis"), FRONT)
def test_a_few_of_long_rows_on_cpus(dtype, largest, shape, k, axis):
    """The best so far stay in order; a row is compared with the last of them."""
    program = autocomp.optimize(text(dtype, shape, k, axis, largest))
    assert "_kept(p, row, n, inner)" in program.kernels[0].source
    for _ in range(4):
        check(program, drawn(dtype, shape, axis), k, axis, largest)


LONG = [("i32", True, (3, 700), 20, 1), ("f32", False, (900, 2), 100, 0), ("i8", True, (2, 400), 17, 1), ("f16", True, (300,), 40, 0)]


@pytest.mark.parametrize(("dtype", "largest", "shape", "k", "axis"), LONG)
def test_the_first_of_long_rows_on_cpus(dtype, largest, shape, k, axis):
    """What lies behind the last of them by its first digits is not put in order."""
    program = autocomp.optimize(text(dtype, shape, k, axis, largest))
    assert "_first(held, n)" in program.kernels[0].source
    check(program, drawn(dtype, shape, axis), k, axis, largest)


@needs_compiler
@pytest.mark.parametrize(("dtype", "largest", "shape", "k", "axis"), repeating(
    CASES, {c: "the other end of the same type" for k, c in enumerate(CASES) if k % 4 in (1, 2)}))  # fmt: skip
def test_orders_on_gpus(dtype, largest, shape, k, axis, model, tmp_path):
    """All are in generated code; without the rules the longer ones are not."""
    graph = text(dtype, shape, k, axis, largest)
    program = autocomp.optimize(graph, target="cuda:h200", without=["ordering/radix-select"])
    assert not any(c.kernel.opaque for c in program.calls.calls)
    if k > IN_TURN:
        host = autocomp.optimize(graph, target="cuda:h200", without=["ordering/ra*"])
        assert any(c.kernel.by_reference for c in host.calls.calls)
    program.executor = ModelExecutor(program, tmp_path, model)
    check(program, drawn(dtype, shape, axis), k, axis, largest)


@needs_compiler
def test_the_first_few_on_an_npu(tmp_path):
    program = autocomp.optimize(text("f16", (3, 20), 3, 1, True), target="ascend")
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    check(program, drawn("f16", (3, 20), 1), 3, 1, True)


def test_an_order_of_a_narrow_result_is_that_of_what_is_stored():
    """Numbers that halves hold alike are equal, wherever they are computed in more bits."""
    graph = 'graph g\ninput x: f16[1, 8]\n%0 = mul(x, const(0.333, f16))\n%1 = topk(%0, k=3, axis=1, part="indices")\noutput y = %1\n'
    x = (1000 + np.arange(8)[None, ::-1] * 0.5).astype("f2")
    want = expected(x * np.float16(0.333), 3, 1, True)
    np.testing.assert_array_equal(autocomp.optimize(graph).run({"x": x})["y"], want)


def test_what_the_host_orders_has_a_price():
    program = autocomp.optimize(text("f32", (64, 1000), 1000, 1, True), target="ascend", without=("ordering/pairs-of-*",))
    assert program.predicted > 64_000 * 50e-9, "0 would hide it in every table"
