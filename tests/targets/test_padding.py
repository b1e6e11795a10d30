"""What fills a tile beyond its tensor stays out of results: beside infinities, where functions make zero infinite, of empty tensors."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.ir.reference import evaluate
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import conv, gemm, graph, turned
from tests.helpers.schedules import by_hand
from tests.helpers.split_depth import split

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


def check(text, model, folder, change=lambda name, x: x):
    """Every element is a number, an infinity or NaN where the reference in the graph's own types has one, and near it."""
    program = autocomp.optimize(text, target="cuda:h200")
    program.executor = ModelExecutor(program, folder, model)
    rng = fresh.rng()
    feed = {}
    for n in program.graph.inputs:
        x = rng.standard_normal(n.type.shape)
        feed[n.attrs["name"]] = change(n.attrs["name"], x).astype(n.type.dtype.numpy)
    want = evaluate(program.graph, feed, float64=False)
    for name, got in program.run(feed).items():
        np.testing.assert_allclose(got.astype("f8"), want[name].astype("f8"), rtol=0.02, atol=0.05)


def with_infinities(name, x):
    """NaN and infinities in the first factor, its last element among them."""
    if name in "ax":
        x.flat[fresh.rng().integers(0, x.size, 3)] = np.inf, -np.inf, np.nan
        x.flat[-1] = np.inf
    return x


@pytest.mark.parametrize("name", ["gemm", "turned", "conv"])
def test_infinities_stay_in_their_rows(name, model, tmp_path):
    text = {"gemm": gemm(130, 101, 133), "turned": turned(120, 135, 151, True, True),
            "conv": conv("f16[2, 5, 9, 11]", "f16[9, 5, 3, 3]", pad=1)}  # fmt: skip
    check(text[name], model, tmp_path, with_infinities)


@pytest.mark.parametrize("fn", ["div(const(1, f16), x)", "log(x)", "rsqrt(x)"])
def test_functions_that_make_zero_infinite_see_the_tensor_alone(fn, model, tmp_path):
    text = graph({"x": "f16[101, 99]", "w": "f16[99, 75]"}, f"%0 = {fn}\n%1 = matmul(%0, w)\n%2 = reduce_sum(%0, axes=[1], keepdims=True)\n"
                 "%3 = add(%1, %2)")  # fmt: skip
    check(text, model, tmp_path, lambda name, x: 1 + np.abs(x) if name == "x" else x * 0.1)


@pytest.mark.parametrize("text", [
    graph({"x": "f16[5, 0]"}, "%0 = softmax(x, axes=[1])"),
    graph({"x": "f32[5, 0]"}, "%0 = reduce_max(x, axes=[1])"),
    graph({"a": "f16[40, 0]", "b": "f16[0, 50]", "c": "f16[50]"}, "%0 = matmul(a, b)\n%1 = add(%0, c)"),
    graph({"q": "f16[2, 30, 64]", "k": "f16[2, 64, 0]", "v": "f16[2, 0, 64]"},
          "%s = matmul(q, k)\n%p = softmax(%s, axes=[2])\n%o = matmul(%p, v)"),
], ids=["softmax", "max", "product", "attention"])  # fmt: skip
def test_nothing_is_reduced_to_the_identity(text, model, tmp_path):
    check(text, model, tmp_path)


def test_zeros_behind_a_factors_rows_are_the_bulk_engines(model, tmp_path):
    """A depth of 333 padded to whole copies: the other factor's rows end there, and what lies behind them is filled in as it arrives."""
    body = "%0 = pad(w, lo=[0, 0], hi=[3, 0], value=0.0)\n%1 = matmul(x, %0)"
    schedule = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2)
    program = split(graph({"x": "f16[136, 336]", "w": "f16[333, 264]"}, body), schedule)
    assert [c.kernel.kind for c in program.calls.calls] == ["C"]  # no kernel pads
    executor = program.executor = ModelExecutor(program, tmp_path, model)
    for executor.late in (True, False):
        program.verify()
