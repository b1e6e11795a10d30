"""Quotients by one value a row: right where the divisor's own reciprocal is an infinity, by one product where the graph says it is none."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import autocomp
from autocomp.frontends.text import parse
from autocomp.ir.away_from_zero import bounds, normal
from autocomp.ir.types import DTYPES
from autocomp.simulate.simt_model import COMPILER, ModelExecutor

NUMPY = {"f32": np.float32, "f64": np.float64, "bf16": bfloat16, "f16": np.float16}
GPUS = ["cuda:h200", "maca:c500"]


def rows(d: str) -> tuple[str, dict[str, np.ndarray], np.ndarray]:
    """x / y of rows whose divisors are each type's ends: the least numbers, the largest ones, zeros, infinities."""
    f = np.float32 if d in ("f16", "bf16") else NUMPY[d]
    tiny, most = float(np.finfo(f).smallest_subnormal), float(np.finfo(f).max)
    ends = np.array([tiny, -3 * tiny, 2.0**-64, float(np.finfo(f).tiny), most, -most / 3, 0.0, -0.0, np.inf, np.nan, 3.0, 1e-20], f)
    with np.errstate(all="ignore"):
        y = ends.astype(NUMPY[d])[:, None]
        many = np.concatenate([ends * 1.5, ends, np.linspace(-3, 3, 9).astype(f)])
        x = np.broadcast_to(many, (len(ends), len(many))).astype(NUMPY[d])
        want = (x.astype(f) / y.astype(f)).astype(NUMPY[d])
    text = f"graph g\ninput x: {d}[{x.shape[0]}, {x.shape[1]}]\ninput y: {d}[{len(ends)}, 1]\n%0 = div(x, y)\noutput z = %0\n"
    return text, {"x": x, "y": y}, want


def agree(got: np.ndarray, want: np.ndarray, d: str) -> None:
    least = 0 if d in ("f16", "bf16") else float(np.finfo(NUMPY[d]).tiny)  # a few of the last subnormal steps
    eps = {"f32": 4e-7, "f64": 1e-15, "bf16": 8e-3, "f16": 1e-3}[d]
    np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=eps, atol=least * eps)


@pytest.mark.parametrize("d", ["f32", "f64"])
def test_rows_divided_by_the_ends_of_their_type_on_cpus(d):
    text, feed, want = rows(d)
    program = autocomp.optimize(text, cache=False)
    assert "idioms/divide-by-any-row" in program.explain()
    agree(program.run(feed)["z"], want, d)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("d", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("target", GPUS)
def test_rows_divided_by_the_ends_of_their_type_on_gpus(target, d, model, tmp_path):
    text, feed, want = rows(d)
    program = autocomp.optimize(text, target=target, cache=False)
    assert ("idioms/divide-halves-by-row" in program.explain()) == (d == "f16")  # whose least number is 2^-24
    program.executor = ModelExecutor(program, tmp_path, model)
    agree(program.run(feed)["z"], want, d)


DIVISORS = {
    "%0 = softmax(x, axes=[1])": True,
    "%1 = exp(x)\n%2 = reduce_sum(%1, axes=[1], keepdims=True)\n%0 = div(%1, %2)": False,
    "%1 = mul(x, x)\n%2 = reduce_sum(%1, axes=[1], keepdims=True)\n%3 = sqrt(%2)\n%0 = div(x, %3)": True,
    "%1 = abs(x)\n%2 = reduce_max(%1, axes=[1], keepdims=True)\n%0 = div(x, %2)": False,
    "%1 = abs(x)\n%2 = reduce_max(%1, axes=[1], keepdims=True)\n%3 = max(%2, const(1e-12, f32))\n%0 = div(x, %3)": True,
    "%1 = abs(x)\n%2 = reduce_max(%1, axes=[1], keepdims=True)\n%3 = add(%2, const(1e-44, f32))\n%0 = div(x, %3)": False,
    "%1 = mul(x, x)\n%2 = reduce_mean(%1, axes=[1], keepdims=True)\n%3 = add(%2, const(1e-06, f32))\n%0 = div(x, %3)": True,
    '%1 = cast(x, to="i32")\n%2 = reduce_max(%1, axes=[1], keepdims=True)\n%3 = cast(%2, to="f32")\n%0 = div(x, %3)': True,
    "%1 = reduce_max(x, axes=[1], keepdims=True)\n%2 = max(%1, const(-3.0, f32))\n%0 = div(x, %2)": False,
    "%1 = reduce_min(x, axes=[1], keepdims=True)\n%2 = sub(x, %1)\n%3 = exp(%2)\n%4 = reduce_sum(%3, axes=[0], keepdims=True)\n"
    "%0 = div(%3, %4)": False,
}  # fmt: skip


@pytest.mark.parametrize("text", DIVISORS, ids=range(len(DIVISORS)))
def test_one_product_where_the_graph_says_that_a_divisor_is_not_tiny(text):
    said = autocomp.optimize(f"graph g\ninput x: f32[16, 32]\n{text}\noutput y = %0\n", target="cuda:h200", cache=False).explain()
    assert ("idioms/divide-by-row" in said, "idioms/divide-by-any-row" in said) == (DIVISORS[text], not DIVISORS[text])


def test_bounds_of_short_floats_are_those_of_what_computes_them():
    """x * x of f16 is 2^-48 in f32 as long as it is not stored."""
    g = parse("graph g\ninput x: f16[4]\ninput w: bf16[4]\n%0 = mul(x, x)\n%1 = mul(%0, %0)\n%2 = add(%1, const(1e-05, f16))\n%3 = exp(w)\n"
              "output y = %0\noutput z = %1\noutput u = %2\noutput v = %3\n")  # fmt: skip
    found = {name: bounds(g)[n] for name, n in g.outputs}
    assert (found["y"].least, found["z"].least) == (2.0**-48, 2.0**-96)
    assert found["u"].low == 0 and found["v"].low == 0 and found["v"].least < normal(DTYPES["bf16"])
