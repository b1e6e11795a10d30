"""Where a rounding or a comparison is computed from a quotient, its last bit decides: it is the number that NumPy has."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.frontends.text import parse
from autocomp.ir.decided import decided
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph

DIVISORS = (41.0, 47.0, 61.0, 82.0)
WIDE = np.arange(1, 2049, dtype=np.float32).reshape(32, 64)


def floors(dtype: str) -> str:
    """floor(x / c) for numbers c, and of rows by their first element."""
    lines = ["%first = slice(x, starts=[0, 0], limits=[32, 1], steps=[1, 1])", "%rows = div(x, %first)", "%r = floor(%rows)"]
    outs = ["%r"]
    for n, c in enumerate(DIVISORS):
        lines += [f"%c{n} = broadcast(const({c}, {dtype}), shape=[32, 64])", f"%q{n} = div(x, %c{n})", f"%f{n} = floor(%q{n})"]
        outs.append(f"%f{n}")
    return f"graph g\ninput x: {dtype}[32, 64]\n" + "\n".join(lines) + "\n" + "".join(f"output y{n} = {o}\n" for n, o in enumerate(outs))


def expected(x: np.ndarray) -> list[np.ndarray]:
    return [np.floor(x / x[:, :1]), *(np.floor(x / x.dtype.type(c)) for c in DIVISORS)]


@pytest.mark.parametrize("exact", [False, True])
def test_floors_of_quotients_on_cpus(exact):
    program = autocomp.optimize(floors("f32"), exact=exact)
    for got, want in zip(program.run({"x": WIDE}).values(), expected(WIDE), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_floors_of_quotients_on_the_model_of_a_gpu(dtype, model, tmp_path):
    program = autocomp.optimize(floors(dtype), target="cuda:h200", cache=False)
    program.executor = ModelExecutor(program, tmp_path, model)
    x = WIDE.astype({"f32": np.float32, "f16": np.float16}[dtype])
    for got, want in zip(program.run({"x": x}).values(), expected(x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_halves_are_rounded_before_a_step(model, tmp_path):
    """30 * 0.1 is 3 in f16, and 2.9993 in f32 of the f16 factors."""
    program = autocomp.optimize("graph g\ninput x: f16[64]\n%c = broadcast(const(0.1, f16), shape=[64])\n%0 = mul(x, %c)\n%1 = floor(%0)\n"
                                "output y = %1\n", target="cuda:h200", cache=False)  # fmt: skip
    program.executor = ModelExecutor(program, tmp_path, model)
    x = np.arange(64, dtype=np.float16)
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.floor(x * np.float16(0.1)))


def test_what_decides():
    lines = "%0 = div(x, w)\n%1 = exp(%0)\n%2 = matmul(x, w)\n%3 = add(%1, %2)\n%4 = neg(%3)\n%5 = round(%4)"
    g = parse(graph({"x": "f32[8, 8]", "w": "f32[8, 8]"}, lines))
    assert {n.op for n in decided(g)} == {"neg", "add", "exp", "matmul"}


@pytest.mark.parametrize(("number", "steps"), [("0.0", 0), ("inf", 0), ("-inf", 0), ("0.5", 1)])
def test_comparisons_with_zero_and_infinities_have_no_step(number, steps):
    """A safe softmax asks for rows of -inf, an activation for what is negative: no rounding changes that."""
    lines = f"%c = broadcast(const({number}, f32), shape=[8, 8])\n%0 = mul(x, w)\n%1 = gt(%0, %c)"
    g = parse(graph({"x": "f32[8, 8]", "w": "f32[8, 8]"}, lines))
    assert len([n for n in decided(g) if n.op == "mul"]) == steps
