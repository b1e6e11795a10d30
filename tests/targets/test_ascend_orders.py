"""Orders where no unit sorts or has integers of 64 bits: ranks by pairs, the first few of long rows in turn; for every type, right on the
model."""

from __future__ import annotations

import random
from math import isqrt

import numpy as np
import pytest

import autocomp
from autocomp.ir.ops.data import PAIRS
from autocomp.ir.reference import evaluate
from autocomp.ir.scalar import SCALAR
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from autocomp.simulate.simt_model import ModelExecutor, compile_model
from tests.helpers.repeats import repeats
from tests.targets.test_radix_select import drawn, ordered

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
DTYPES = ("f32", "f16", "bf16", "i8", "u8", "bool", "i32", "i64")


def cases(seed):
    """One order a type: shape, axis and k drawn, half of the orders are of all elements."""
    r = random.Random(seed)
    out = {}
    for dtype in DTYPES:
        shape, axis = (r.randint(2, 5), r.randint(17, 37)), 1
        if r.random() < 0.3:
            shape, axis = shape[::-1], 0
        k = shape[axis] if r.random() < 0.5 else r.randint(17, shape[axis])
        out[dtype] = shape, axis, k if dtype != "i64" or r.random() < 0.5 else 2, r.random() < 0.5
    return out


def text(drawn_cases):
    """One graph of all orders, so that they are built at once."""
    lines = [f"input x_{d}: {d}[{', '.join(map(str, s))}]" for d, (s, _, _, _) in drawn_cases.items()]
    for d, (_, axis, k, largest) in drawn_cases.items():
        lines += [f'%{d}_{p} = topk(x_{d}, k={k}, axis={axis}, largest={largest}, part="{p}")' for p in ("values", "indices")]
    return "\n".join(["graph g", *lines, *(f"output {d}_{p} = %{d}_{p}" for d in drawn_cases for p in ("values", "indices")), ""])


def feed_of(drawn_cases, seed):
    rng = np.random.default_rng(seed)
    feed = {f"x_{d}": drawn(rng, d, s, 0.4) for d, (s, _, _, _) in drawn_cases.items()}
    x = feed["x_i64"]  # numbers of which one half alone is the same, and of both signs
    halves = rng.integers(-2, 2, x.shape) * 2**32 + rng.choice([0, 1, 2**31, 2**32 - 1], x.shape)
    feed["x_i64"] = np.where(rng.random(x.shape) < 0.6, halves, x)
    return feed


def checked(got, drawn_cases, feed):
    for d, (_, axis, k, largest) in drawn_cases.items():
        want = ordered(feed[f"x_{d}"], k, axis, largest)
        assert np.array_equal(got[f"{d}_indices"], want), d
        values = np.take_along_axis(feed[f"x_{d}"], want, axis)
        assert np.asarray(got[f"{d}_values"]).tobytes() == values.astype(values.dtype).tobytes() or np.array_equal(
            np.asarray(got[f"{d}_values"]).astype("f8"), values.astype("f8"), equal_nan=True), d  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(("chip", "seed"), [("910b1", 1), ("310p", 2)])
def test_orders_of_all_types_on_ascend(chip, seed, tmp_path):
    these = cases(seed)
    program = autocomp.optimize(text(these), target=f"ascend:{chip}")
    assert not [c.kernel.opaque for c in program.calls.calls if c.kernel.opaque]
    feed = feed_of(these, seed)
    checked(AscendExecutor(program, tmp_path).run(feed), these, feed)


@needs_compiler
@pytest.mark.parametrize("chip", ["c500", repeats("c550", of="c500")])
def test_orders_of_all_types_on_maca(chip, tmp_path):
    these = cases(3)
    program = autocomp.optimize(text(these), target=f"maca:{chip}")
    assert not [c.kernel.opaque for c in program.calls.calls if c.kernel.opaque]
    feed = feed_of(these, 3)
    checked(ModelExecutor(program, tmp_path, compile_model(tmp_path)).run(feed), these, feed)


def test_long_integers_are_compared_by_their_halves():
    graph = 'graph g\ninput x: i64[64, 200]\n%0 = topk(x, k=200, axis=1, largest=False, part="indices")\noutput y = %0\n'
    program = autocomp.optimize(graph, target="ascend:910b1")
    assert program.predicted < 1e-3  # 64 x 200 x 200 comparisons on scalar units take ten times as long
    plain = autocomp.optimize(graph, target="ascend:910b1", without=["ordering/pairs-of-long-integers*"])
    assert [c.kernel.opaque for c in plain.calls.calls if c.kernel.opaque] == ["topk"]


SHORT, LONG_ROWS = (17, 60), (isqrt(6 * PAIRS), isqrt(6 * PAIRS) + 90)  # elements of rows that are ranked, and that are looked through


def few(seed):
    """The first few a type, of short rows by ranks, of long ones in turn."""
    r = random.Random(seed)
    out = {}
    for k, dtype in enumerate(DTYPES):
        shape = (r.randint(1, 4), r.randint(*(SHORT if k % 2 else LONG_ROWS)))
        axis = int(r.random() < 0.7)
        out[dtype] = (shape if axis else shape[::-1]), axis, r.choice([1, 2, r.randint(3, 6)]), r.random() < 0.5
    return out


@needs_compiler
@pytest.mark.parametrize(("chip", "seed"), [("910b1", 21), ("310p", 22), ("910b1", 23), ("950pr", 24)])
def test_the_first_few_of_all_types_are_found_by_words(chip, seed, tmp_path):
    these = {d: c for d, c in few(seed).items() if d != "i64"}
    program = autocomp.optimize(text(these), target=f"ascend:{chip}")
    feed = {f"x_{d}": drawn(np.random.default_rng(seed), d, s, 0.4) for d, (s, _, _, _) in these.items()}
    checked(AscendExecutor(program, tmp_path).run(feed), these, feed)


@pytest.mark.parametrize(("shape", "k", "most"), [((2, 113), 6, 40e-6), ((64, 1000), 5, 100e-6), ((8, 4096), 4, 200e-6)])
def test_the_first_few_take_no_integers_of_64_bits(shape, k, most):
    """Keys of 64 bits are the scalar unit's: 65, 221 and 356 us."""
    graph = f'graph g\ninput x: f32[{shape[0]}, {shape[1]}]\n%0 = topk(x, k={k}, axis=1, largest=True, part="values")\noutput y = %0\n'
    assert autocomp.optimize(graph, target="ascend:910b1").predicted < most


@needs_compiler
@pytest.mark.parametrize("chip", ["910b1", "310p"])
def test_places_of_floats_among_all(chip, tmp_path):
    """Every exponent, both zeros, infinities and NaN of both signs."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**32, 4096, dtype=np.uint32)
    bits[:1024] = np.repeat(np.arange(512, dtype=np.uint32) << 23, 2) + np.tile(np.array([0, 1], np.uint32), 512)
    x = rng.permutation(bits).view(np.float32).reshape(16, 256)
    program = autocomp.optimize("graph g\ninput x: f32[16, 256]\n%0 = ordinal(x)\noutput y = %0\n", target=f"ascend:{chip}")
    assert "ac_ordinal_f32" in program.kernels[0].source
    np.testing.assert_array_equal(AscendExecutor(program, tmp_path).run({"x": x})["y"], SCALAR["ordinal"].numpy(x))


@needs_compiler
@pytest.mark.parametrize(("chip", "seed"), [("ascend:910b1", 31), ("ascend:310p", 32), ("maca:c500", 33)])
def test_places_of_extremes_of_all_types(chip, seed, tmp_path):
    """Truth values have no extreme on any unit, and only floats are folded with their places on an NPU's."""
    r, rng = random.Random(seed), np.random.default_rng(seed)
    shapes = {d: (r.randint(1, 5), r.randint(9, 70)) for d in DTYPES}
    lines = [f"input x_{d}: {d}[{m}, {n}]" for d, (m, n) in shapes.items()]
    lines += [f"%{d} = reduce_arg{r.choice(['max', 'min'])}(x_{d}, axes=[{r.randint(0, 1)}], keepdims=False)" for d in shapes]
    program = autocomp.optimize("\n".join(["graph g", *lines, *(f"output {d} = %{d}" for d in shapes), ""]), target=chip)
    assert not any(c.kernel.by_reference for c in program.calls.calls)
    feed = {f"x_{d}": drawn(rng, d, s, 0.4) for d, s in shapes.items()}
    run = AscendExecutor(program, tmp_path) if "ascend" in chip else ModelExecutor(program, tmp_path, compile_model(tmp_path))
    got = run.run(feed)
    for name, want in evaluate(program.calls.source, feed).items():
        np.testing.assert_array_equal(got[name], want, name)


@pytest.mark.parametrize("dtype", ["i32", "u8", "i8", "bool"])
def test_places_of_extremes_of_long_rows_are_the_vector_units(dtype):
    graph = f"graph g\ninput x: {dtype}[128, 1000]\n%0 = reduce_argmax(x, axes=[1], keepdims=False)\noutput y = %0\n"
    for chip in ("910b1", "310p"):
        assert not [k.schedule for k in autocomp.optimize(graph, target=f"ascend:{chip}").kernels if "scalar" in k.schedule]
