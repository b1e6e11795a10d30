"""Numbers at the ends of their types, computed as NumPy does: infinities, zeros of either sign, the least numbers of masks, truths that
lanes do not share."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import autocomp
from autocomp.frontends.text import parse
from autocomp.ir.reference import evaluate
from autocomp.simulate.ascend_model import AscendExecutor
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import GPUS

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
ON_GPUS = pytest.mark.parametrize("target", GPUS)
BF16 = ml_dtypes.bfloat16
LEAST = float(ml_dtypes.finfo(BF16).min)


def several(inputs: dict[str, str], lines: dict[str, str]) -> str:
    """A graph with one output a line."""
    text = graph(inputs, "\n".join(f"%{n} = {e}" for n, e in lines.items()))
    return text[: text.index("output")] + "".join(f"output {n} = %{n}\n" for n in lines)


def run(text, feed, target, model, folder):
    program = autocomp.optimize(text, target=target)
    if target != "cpu":
        program.executor = ModelExecutor(program, folder, model)
    return program.run(feed)


@ON_GPUS
def test_truths_of_other_lanes_are_always_asked_for(target, model, tmp_path):
    """An exchange behind `||` would be left out by the lanes whose own part is true."""
    text = several({"x": "bool[12, 70]", "y": "bool[3, 5000]"},
                   {f"{f}_{a}{k}": f"reduce_{f}({a}, axes=[{k}])" for f in ("any", "all") for a in "xy" for k in (0, 1)})  # fmt: skip
    rng = fresh.rng()
    feed = {n: rng.random(s) < rng.choice([1 / s[1], 1 - 1 / s[1]], (s[0], 1)) for n, s in (("x", (12, 70)), ("y", (3, 5000)))}
    feed["x"][0], feed["x"][1] = True, False
    for name, got in run(text, feed, target, model, tmp_path).items():
        f, a, k = name.partition("_")[0], name[-2], int(name[-1])
        np.testing.assert_array_equal(got, getattr(np, f)(feed[a], axis=k), err_msg=name)


@pytest.mark.parametrize("target", [*GPUS, "cpu"])
def test_quotients_and_remainders_round_down_as_numpy_s(target, model, tmp_path):
    """1 / 0.1 is rounded to 10, but 0.1 (as it is stored) goes into 1 only 9 times; a zero has the sign of the quotient, or the divisor."""
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 0.5, 2, -3, 7.5, -7.5, 0.1, 0.3, -0.7, 1.1, 1e-7, 65504, 8388609])
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    feed = {f"{n}{b}": v.astype(f"f{b}") for n, v in (("x", x), ("y", y)) for b in (4, 8)}
    text = several({n: f"f{n[1]}[{x.size}]".replace("f4", "f32").replace("f8", "f64") for n in feed},
                   {f"{f}{b}": f"{op}(x{b}, y{b})" for f, op in (("q", "floordiv"), ("r", "mod")) for b in (4, 8)})  # fmt: skip
    for name, got in run(text, feed, target, model, tmp_path).items():
        with np.errstate(all="ignore"):
            want = (np.floor_divide if name[0] == "q" else np.remainder)(feed[f"x{name[1]}"], feed[f"y{name[1]}"])
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))


@ON_GPUS
def test_bf16_divides_where_a_reciprocal_is_no_normal_number(target, model, tmp_path):
    special = np.array([np.inf, 0.0, 1, -3, 1e38, 3e38, -2e38, 1e-39, -9e-40, 2e-38, 100], BF16)
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(special, special))
    kind = f"bf16[{x.size}]"
    got = run(several({"x": kind, "y": kind}, {"d": "div(x, y)", "s": "rsqrt(y)"}), {"x": x, "y": y}, target, model, tmp_path)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got["d"].astype("f4"), (x.astype("f4") / y.astype("f4")).astype(BF16).astype("f4"))
        np.testing.assert_array_equal(got["s"].astype("f4"), (1 / np.sqrt(y.astype("f4"))).astype(BF16).astype("f4"))


@ON_GPUS
def test_activations_of_infinity_and_the_largest_exponents(target, model, tmp_path):
    text = several({"h": "f16[4]", "b": "bf16[4]", "x": "f32[64]"}, {"h1": "gelu(h)", "b1": "gelu(b)", "e": "exp(x)"})
    x = np.linspace(87, 88.7, 64, dtype=np.float32)
    ends = np.array([np.inf, 65504, -65504, np.nan])
    got = run(text, {"h": ends.astype("f2"), "b": ends.astype(BF16), "x": x}, target, model, tmp_path)
    np.testing.assert_array_equal(got["h1"], np.array([np.inf, 65504, 0, np.nan], "f2"))
    np.testing.assert_array_equal(got["b1"].astype("f4"), np.array([np.inf, 65536, 0, np.nan], "f4"))
    np.testing.assert_allclose(got["e"], np.exp(x.astype("f8")), rtol=4e-7)


@ON_GPUS
@pytest.mark.parametrize("masked", ["add(%s, mask)", f"where(mask, %s, const({LEAST}, bf16))"], ids=["added", "chosen"])
def test_rows_whose_scores_are_all_the_least_number_weigh_alike(masked, target, model, tmp_path):
    """Padding as transformers mask it: softmax of equal numbers, however low, is uniform. Beside it -inf weighs nothing."""
    keys, width = 40, 64
    kind = "bool" if "where" in masked else "bf16"
    text = graph({"q": f"bf16[2, 33, {width}]", "k": f"bf16[2, {keys}, {width}]", "v": f"bf16[2, {keys}, {width}]",
                  "mask": f"{kind}[2, 33, {keys}]"},
                 f"%t = transpose(k, perm=[0, 2, 1])\n%s = matmul(q, %t)\n%m = {masked}\n"
                 "%p = softmax(%m, axes=[2])\n%o = matmul(%p, v)")  # fmt: skip
    rng = fresh.rng()
    feed = {n: rng.standard_normal((2, 33 if n == "q" else keys, width)).astype(BF16) for n in "qkv"}
    keep = rng.random((2, 33, keys)) < 0.5
    keep[:, :3] = False
    keep[:, 3:, 0] = True
    feed["mask"] = keep if kind == "bool" else np.where(keep, 0, LEAST).astype(BF16)
    if kind == "bf16":
        feed["mask"][:, 1, : keys // 2] = -np.inf
    got = run(text, feed, target, model, tmp_path)["out"].astype("f8")
    mean = feed["v"].astype("f8").mean(axis=1)
    np.testing.assert_allclose(got[:, 0], mean, atol=0.02)
    if kind == "bf16":
        np.testing.assert_allclose(got[:, 1], feed["v"][:, keys // 2 :].astype("f8").mean(axis=1), atol=0.02)
    assert np.isfinite(got).all()


@ON_GPUS
def test_integers_wrap_where_they_are_compared_too(target, model, tmp_path):
    """A compiler may take x + 1 > x for true where the type is signed, or abs(x) for no negative number."""
    feed, lines = {}, {}
    for kind in ("i32", "i64", "u16"):
        info = np.iinfo(np.dtype(f"{kind[0]}{int(kind[1:]) // 8}"))
        feed[f"x_{kind}"] = np.array([info.max, info.min, info.max - 1, 0, 1, info.max // 2 + 1, info.max // 3 * 2], info.dtype)
        one, zero = f"const(1, {kind})", f"const(0, {kind})"
        lines |= {f"p_{kind}": f"add(x_{kind}, {one})", f"gt_{kind}": f"gt(%p_{kind}, x_{kind})",
                  f"q_{kind}": f"mul(x_{kind}, x_{kind})", f"ge_{kind}": f"ge(%q_{kind}, {zero})"}  # fmt: skip
        if info.min:
            lines |= {f"a_{kind}": f"abs(x_{kind})", f"neg_{kind}": f"lt(%a_{kind}, {zero})"}
    text = several({n: f"{n[2:]}[7]" for n in feed}, lines)
    wanted = evaluate(parse(text), feed)
    for name, got in run(text, feed, target, model, tmp_path).items():
        np.testing.assert_array_equal(got, wanted[name], err_msg=name)


@pytest.mark.parametrize("target", [*GPUS, "cpu"])
def test_powers_are_no_roots(target, model, tmp_path):
    """A compiler may take pow(x, 0.5) in a loop for a root, which -inf has none of."""
    x = np.resize(np.array([-np.inf, -0.0, 0.0, np.inf, -1, 4, np.nan, 2]), 67)
    feed = {"s": x.astype("f4"), "d": x}
    text = several({"s": "f32[67]", "d": "f64[67]"}, {f"{n}{'m' * (e < 0)}{abs(e) > 0.4:d}": f"pow({n}, const({e}, {t}))"
                                                      for n, t in (("s", "f32"), ("d", "f64")) for e in (0.5, -0.5, 0.25)})  # fmt: skip
    own = evaluate(parse(text), feed, float64=False)
    for name, got in run(text, feed, target, model, tmp_path).items():
        exponent = (0.5 if name[-1] == "1" else 0.25) * (-1 if "m" in name else 1)
        power = lambda v, e=exponent: np.nan if v != v or -np.inf < v < 0 else abs(v) ** e if v or e > 0 else np.inf
        want = np.array([power(v) for v in x])
        for y in (got, own[name]):
            np.testing.assert_allclose(y, want, rtol=1e-6, err_msg=name)
            assert not np.signbit(y[~np.isnan(want)]).any()


def test_infinities_and_nan_as_constants_of_vector_cores(tmp_path):
    """Ascend C names neither, and the largest finite number is no infinity."""
    text = several({"x": "f32[3, 40]"}, {f"{f}{k}": f"{f}(x, const({c}, f32))" for f in ("add", "sub", "div", "max", "min")
                                         for k, c in enumerate(("inf", "-inf", "nan"))})  # fmt: skip
    program = autocomp.optimize(text, target="ascend:910b")
    assert "ac_run<" not in program.source()  # on vector cores
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    feed = {"x": fresh.rng().standard_normal((3, 40)).astype("f4")}
    want = evaluate(parse(text), feed)
    for name, got in program.run(feed).items():
        np.testing.assert_array_equal(got, want[name], err_msg=name)
