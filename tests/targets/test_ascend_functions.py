"""Functions that the interface has no instruction for, as vector cores compute them: waves over their whole range, small differences."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.ir.scalar import SCALAR
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers.device_graphs import graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
FALL_BACK = "tiling/npu-scalar-*"
FUNCTIONS = ("sin", "cos", "tan", "expm1")
LIMIT = 2.0**23  # waves beyond it are no numbers


@needs_compiler
def test_waves_and_small_differences(tmp_path):
    lines = "\n".join(f"%{i} = {fn}(x)" for i, fn in enumerate(FUNCTIONS))
    text = graph({"x": "f32[3, 333]"}, lines)
    text = text[: text.index("output")] + "".join(f"output {fn} = %{i}\n" for i, fn in enumerate(FUNCTIONS))
    program = autocomp.optimize(text, target="ascend:910b", without=[FALL_BACK])
    program.executor = AscendExecutor(program, tmp_path)
    rng = np.random.default_rng(7)
    x = np.concatenate([rng.uniform(-4, 4, 300), rng.uniform(-1e4, 1e4, 300), rng.uniform(-LIMIT, LIMIT, 300), rng.normal(0, 1e-5, 90),
                        [0.0, LIMIT, -LIMIT, 2 * LIMIT, -1e30, np.inf, -np.inf, np.nan, 1e-30]]).astype("f4").reshape(3, 333)  # fmt: skip
    got = program.run({"x": x})
    near = np.abs(x) <= LIMIT
    for fn in ("sin", "cos"):
        np.testing.assert_allclose(got[fn][near], getattr(np, fn)(x[near].astype("f8")), rtol=0, atol=4e-7, err_msg=fn)
        assert np.isnan(got[fn][~near]).all(), fn
    with np.errstate(invalid="ignore"):
        steep = near & (np.abs(np.cos(x.astype("f8"))) > 0.1)
    np.testing.assert_allclose(got["tan"][steep], np.tan(x[steep].astype("f8")), rtol=1e-5, atol=1e-6)
    some = np.abs(x) < 80
    np.testing.assert_allclose(got["expm1"][some], np.expm1(x[some].astype("f8")), rtol=2e-6)
    np.testing.assert_array_equal(got["expm1"][np.isinf(x)], np.expm1(x[np.isinf(x)]))
    assert np.isnan(got["expm1"][np.isnan(x)]).all()


DIVIDED = ("mod", "floordiv", "pow")


def divided(dtype, tmp_path):
    lines = "\n".join(f"%{i} = {fn}(x, y)" for i, fn in enumerate(DIVIDED))
    text = graph({"x": f"{dtype}[4, 333]", "y": f"{dtype}[4, 333]"}, lines)
    text = text[: text.index("output")] + "".join(f"output {fn} = %{i}\n" for i, fn in enumerate(DIVIDED))
    program = autocomp.optimize(text, target="ascend:910b", without=[FALL_BACK])
    program.executor = AscendExecutor(program, tmp_path)
    return program


@needs_compiler
def test_remainders_quotients_and_powers(tmp_path):
    """Quotients near whole numbers, remainders of large quotients, bases of either sign; what has no number is NaN."""
    rng = np.random.default_rng(7)
    y = np.concatenate([rng.uniform(-3, 3, 600), rng.integers(-9, 9, 300) * 0.1, rng.uniform(1e-3, 1e-2, 423), np.ones(9)]).astype("f4")
    x = np.concatenate([rng.uniform(-50, 50, 600), rng.integers(-900, 900, 300) * 0.1, rng.uniform(-1e4, 1e4, 423), np.ones(9)])
    x = x.astype("f4")
    x[-9:], y[-9:] = [np.inf, 5, 0, np.nan, 0, 1, 2.0**40, -2, -2], [2, 0, 0, 1, 3, np.nan, 1, 3, 0.5]
    got = divided("f32", tmp_path).run({"x": x.reshape(4, 333), "y": y.reshape(4, 333)})
    with np.errstate(all="ignore"):
        want = {fn: f(x.astype("f8"), y.astype("f8")).reshape(4, 333) for fn, f in zip(DIVIDED, (np.mod, np.floor_divide, np.power))}
        far = (np.abs(x / y) >= 2.0**22).reshape(4, 333)
    assert np.isnan(got["mod"][far]).all()
    np.testing.assert_allclose(got["mod"][~far], want["mod"][~far], rtol=2e-7, atol=1e-12)
    np.testing.assert_array_equal(got["floordiv"], want["floordiv"].astype("f4"))
    np.testing.assert_allclose(got["pow"], want["pow"], rtol=2e-5, atol=1e-37)


@needs_compiler
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_remainders_quotients_and_powers_of_bytes(dtype, tmp_path):
    """Every divisor and exponent, with ends and zeros: exact, and wrapped."""
    low, high = (-128, 127) if dtype == "i8" else (0, 255)
    y = np.resize(np.arange(low, high + 1), (4, 333)).astype(dtype[0] + "1")
    x = np.resize(np.array([low, low + 1, -1 % 256 if low == 0 else -1, 0, 1, 2, 3, 7, 100, high]), (4, 333)).astype(y.dtype)
    got = divided(dtype, tmp_path).run({"x": x, "y": y})
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got["mod"], np.mod(x, y))
        np.testing.assert_array_equal(got["floordiv"], np.floor_divide(x, y))
        np.testing.assert_array_equal(got["pow"], SCALAR["pow"].numpy(x, y))


@needs_compiler
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_bits_of_bytes(dtype, tmp_path):
    """Both factors by their bits, masks of low bits as a remainder, shifts by a number and by values: exact, and wrapped."""
    low, high = (-128, 127) if dtype == "i8" else (0, 255)
    made = {"bitand": "x, y", "bitor": "x, y", "bitxor": f"x, const(90, {dtype})", "bitnot": "x", "shl": "x, %s", "shr": "x, %s"}
    lines = [f"%s = bitand(y, const(7, {dtype}))", f"%n = shr(x, const(4, {dtype}))", *(f"%{fn} = {fn}({a})" for fn, a in made.items())]
    text = f"graph g\ninput x: {dtype}[4, 333]\ninput y: {dtype}[4, 333]\n" + "\n".join(lines)
    text += "".join(f"\noutput {n}_ = %{n}" for n in ("s", "n", *made)) + "\n"
    program = autocomp.optimize(text, target="ascend:910b", without=[FALL_BACK])
    program.executor = AscendExecutor(program, tmp_path)
    y = np.resize(np.arange(low, high + 1), (4, 333)).astype(dtype[0] + "1")
    x = np.resize(np.array([low, low + 1, 0, 1, 2, 7, 85, 100, high - 1, high]), (4, 333)).astype(y.dtype)
    got, s = program.run({"x": x, "y": y}), y & y.dtype.type(7)
    want = {"s": s, "n": x >> 4, "bitand": x & y, "bitor": x | y, "bitxor": x ^ y.dtype.type(90), "bitnot": ~x}
    want |= {"shl": x << s, "shr": x >> s}
    for name, values in want.items():
        np.testing.assert_array_equal(got[f"{name}_"], values, err_msg=name)


@needs_compiler
def test_weights_of_four_bits_are_no_fall_back(tmp_path):
    """Two weights a byte: low and high halves as rows of one factor."""
    text = graph({"x": "f16[37, 64]", "q": "u8[32, 48]", "s": "f16[48]"},
                 "%0 = bitand(q, const(15, u8))\n%1 = shr(q, const(4, u8))\n%2 = concat(%0, %1, axis=0)\n%3 = cast(%2, to=\"f16\")\n"
                 "%4 = sub(%3, const(8, f16))\n%5 = mul(%4, s)\n%6 = matmul(x, %5)")  # fmt: skip
    program = autocomp.optimize(text, target="ascend:910b")
    assert not any("instruction scalar" in k.schedule for k in program.kernels)
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=2)
