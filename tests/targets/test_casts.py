"""Casts that a program asks for give the value of the type that they name, on every target and between all pairs of types."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.frontends.text import parse
from autocomp.ir.reference import evaluate
from autocomp.ir.rounding import round_casts
from autocomp.ir.scalar import convert
from autocomp.ir.types import DTYPES, DType
from autocomp.simulate.ascend_model import AscendExecutor
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import GPUS

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
TARGETS = ["cpu", *GPUS]
CPU_HAS = [d for d in DTYPES.values() if not (d.is_float and d.bits == 8)]  # fp8 is for GPUs


def run(text, feed, target, model, folder):
    program = autocomp.optimize(text, target=target)
    if target == "ascend":
        program.executor = AscendExecutor(program, folder)
    elif model is not None and target != "cpu":
        program.executor = ModelExecutor(program, folder, model)
    return program.run(feed)


def values(d: DType) -> np.ndarray:
    """Numbers at the ends of a type, beside its powers of two, and between; infinities, NaN, both zeros, subnormal numbers."""
    if d.kind == "b":
        return np.array([False, True] * 32)
    if d.is_int:
        info = np.iinfo(d.numpy)
        ends = [info.max, info.max - 1, info.min, info.min + 1, info.max // 2 + 1, info.max // 3]
        near = [s * (2**p + k) for p in range(d.bits - 1) for k in (-1, 0, 1) for s in (1, -1)]
        return np.array([*ends, *(x for x in near if info.min <= x <= info.max)], d.numpy)
    rng = np.random.default_rng(7)
    with np.errstate(all="ignore"):
        plain = np.concatenate([rng.standard_normal(40) * s for s in (1e-9, 0.01, 1, 100, 3e4, 1e6, 1e20)])
        ties = np.array([2049.0, 2051, 257, 259, 65519.99, 65520, 3e38, 3.4e38, 1e-40, 6e-8, 3e-8, 1e-45, 464, 448, 57344, 61440])
        odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 127, -128, 255, 0.5, -0.5, 1.5, 2.5])
        middle = np.concatenate([1 + 2.0 ** -np.arange(2, 13), np.array([3, 5, 1001]) * 2.0**-25])  # between two numbers of a short float
        beside = [np.nextafter(middle, np.inf), np.nextafter(middle, 0)]  # which a float does not tell from it
        return np.concatenate([plain, ties, -ties, odd, middle, *beside]).astype(d.numpy)


def defined(x: np.ndarray, b: DType) -> np.ndarray:
    """Where a value has a number of the type (docs/differences.md: floats beyond an integer's range have none)."""
    if x.dtype.kind in "iub" or not b.is_int:
        return np.ones(x.shape, bool)
    info, wide = np.iinfo(b.numpy), x.astype("f8")
    return np.isfinite(wide) & (np.trunc(wide) >= info.min) & (wide <= float(info.max) * (1 - 2.0**-53))


def same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    assert got.dtype == want.dtype
    if want.dtype.kind in "iub":
        return got == want
    g, w = got.astype("f8"), want.astype("f8")
    return (np.isnan(g) & np.isnan(w)) | ((g == w) & (np.signbit(g) == np.signbit(w)))


@pytest.mark.parametrize("target", TARGETS)
def test_there_and_back_between_all_pairs_of_types(target, model, tmp_path):
    """x -> b -> a in one kernel: what b does not hold is lost."""
    assert there_and_back(target, model, tmp_path) == []


def there_and_back(target, model=None, folder=None) -> list[str]:
    """What is wrong among x -> b -> a."""
    types = CPU_HAS if target == "cpu" else list(DTYPES.values())
    feed, lines, outputs = {}, [], []
    for a in types:
        feed[f"x_{a}"] = values(a)
        for b in types:
            lines += [f'%{a}_{b}_0 = cast(x_{a}, to="{b}")', f'%{a}_{b}_1 = cast(%{a}_{b}_0, to="{a}")',
                      f"%{a}_{b} = reshape(%{a}_{b}_1, shape=[1, {feed[f'x_{a}'].size}])"]  # fmt: skip
        lines.append(f"%{a} = concat({', '.join(f'%{a}_{b}' for b in types)}, axis=0)")
        outputs.append(f"output {a} = %{a}")
    inputs = [f"input {n}: {n[2:]}[{x.size}]" for n, x in feed.items()]
    got = run("\n".join(["graph g", *inputs, *lines, *outputs, ""]), feed, target, model, folder)
    wrong = []
    for a in types:
        x = feed[f"x_{a}"]
        for b, row in zip(types, got[a.name]):
            want = convert(convert(x, b), a)
            bad = np.flatnonzero(defined(x, b) & defined(convert(x, b), a) & ~same(row, want))
            wrong += [f"{a} -> {b} -> {a}: {x[i]!r} gives {row[i]!r}, not {want[i]!r}" for i in bad[:1]]
    return wrong


@pytest.mark.parametrize("short", ["f16", "bf16"])
@pytest.mark.parametrize("target", [*TARGETS, "ascend"])
def test_what_a_cast_cuts_off_is_seen_by_whoever_reads_it(target, short, model, tmp_path):
    """High and low parts of a float, a sum over them, and a product that has both."""
    body = f"""%h = cast(x, to="{short}")
    %w = cast(%h, to="f32")
    %l = sub(x, %w)
    %m = cast(%l, to="{short}")
    %v = cast(%m, to="f32")
    %s = mul(%w, %w)
    %r = reduce_sum(%s, axes=[1])"""
    text = graph({"x": "f32[16, 64]"}, body) + "output low = %v\n"
    x = np.random.default_rng(3).standard_normal((16, 64)).astype("f4")
    got = run(text, {"x": x}, target, model, tmp_path)
    kind = DTYPES[short].numpy
    high = x.astype(kind).astype("f4")
    np.testing.assert_array_equal(got["low"], (x - high).astype(kind).astype("f4"))
    np.testing.assert_allclose(got["out"], (high.astype("f8") ** 2).sum(1), rtol=2e-6)


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("target", TARGETS)
def test_factors_of_products_are_rounded_once(target, rows, model, tmp_path):
    """By the matrix unit's own type where there is one, before the multiplication where one row is a sum of products."""
    text = graph({"x": f"f32[{rows}, 64]", "w": "f16[64, 48]"}, '%h = cast(x, to="f16")\n%p = matmul(%h, w)')
    rng = np.random.default_rng(5)
    x = (rng.integers(-8, 8, (rows, 64)) + rng.choice([0, 2.0**-13, -(2.0**-13)], (rows, 64))).astype("f4")
    w = rng.integers(-3, 4, (64, 48))  # sums of products are exact
    feed = {"x": x, "w": w.astype("f2")}
    want = (x.astype("f2").astype("f8") @ w).astype("f2")
    np.testing.assert_array_equal(run(text, feed, target, model, tmp_path)["out"], want)
    source = autocomp.optimize(text, target=target).source()
    if rows > 1 and target != "cpu":
        assert "ac_round" not in source


def test_casts_are_rounded_for_those_readers_that_do_not_round_themselves():
    chain = lambda body: [n.op for n in round_casts(parse(graph({"x": "f32[8, 8]", "h": "f16[8, 8]", "i": "u8[8, 8]"}, body))).nodes()]
    assert "as_stored" not in chain('%0 = cast(x, to="f16")')
    assert "as_stored" not in chain('%0 = cast(x, to="f16")\n%1 = transpose(%0, perm=[1, 0])\n%2 = matmul(%1, h)')
    assert "as_stored" not in chain('%0 = cast(h, to="f32")\n%1 = exp(%0)')
    assert "as_stored" not in chain('%0 = cast(i, to="f16")\n%1 = mul(%0, h)')  # f16 has all numbers of 8 bits
    assert chain('%0 = cast(x, to="f16")\n%1 = exp(%0)').count("as_stored") == 1
    assert chain('%0 = cast(h, to="bf16")\n%1 = transpose(%0, perm=[1, 0])\n%2 = exp(%1)').count("as_stored") == 1
    assert "as_stored" not in chain("%0 = softmax(h, axes=[1])\n%1 = exp(%0)")  # the casts of its decomposition come later


@pytest.mark.parametrize("target", ["cuda:h200", "maca:c500"])
def test_operations_of_short_floats_keep_their_excess_precision(target):
    """Only a cast that the program has asks for a rounding."""
    body = ("%0 = layer_norm(x, g, b, axes=[1])\n%1 = gelu(%0)\n%2 = matmul(%1, w)\n%3 = add(%2, x)\n"
            "%4 = softmax(%3, axes=[1])\n%5 = mul(%4, x)")  # fmt: skip
    kinds = {"x": "f16[64, 64]", "g": "f16[64]", "b": "f16[64]", "w": "f16[64, 64]"}
    assert "ac_round" not in autocomp.optimize(graph(kinds, body), target=target).source()


@pytest.mark.parametrize("target", [*TARGETS, "ascend"])
def test_casts_are_not_lost_where_factors_move_or_accumulators_join(target, model, tmp_path):
    """Scores scaled behind a cast, and two products that are cast before they are added."""
    body = """%h = cast(s, to="f16")
    %m = mul(%h, const(0.125, f16))
    %w = cast(%m, to="f32")
    %p = softmax(%w, axes=[1])
    %o = matmul(%p, v)
    %a = matmul(x, v)
    %b = matmul(y, v)
    %c = cast(%a, to="f16")
    %d = cast(%b, to="f16")
    %f = cast(%c, to="f32")
    %g = cast(%d, to="f32")
    %r = add(%f, %g)"""
    text = graph({"s": "f32[40, 48]", "v": "f32[48, 64]", "x": "f32[40, 48]", "y": "f32[40, 48]"}, body) + "output scores = %o\n"
    rng = np.random.default_rng(11)
    sizes = (("v", 9, (48, 64)), ("x", 99, (40, 48)), ("y", 99, (40, 48)))
    feed = {n: rng.integers(-k, k + 1, shape).astype("f4") for n, k, shape in sizes}
    assert (np.abs(feed["x"] @ feed["v"]) > 2048).any()  # odd ones are no halves
    feed["s"] = rng.standard_normal((40, 48)).astype("f4") * 30
    got, want = run(text, feed, target, model, tmp_path), evaluate(parse(text), feed, float64=False)
    np.testing.assert_allclose(got["scores"], want["scores"], rtol=3e-5, atol=3e-5)
    np.testing.assert_array_equal(got["out"], want["out"])
