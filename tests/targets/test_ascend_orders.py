"""Orders longer than 16 elements and of 64 bits where no unit sorts: ranks by pairs, printed for every type, right on the model."""

from __future__ import annotations

import random

import numpy as np
import pytest

import autocomp
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
