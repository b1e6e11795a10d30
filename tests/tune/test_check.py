"""Which results count as right: whole kernels, large ones in windows, packed constants, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from autocomp.targets import load_target

from autocomp.frontends.text import parse
from autocomp.ir.body_meaning import evaluate
from autocomp.ir.schedule import Schedule
from autocomp.ir.tolerance import TF32
from autocomp.runtime.codec import encode
from autocomp.tune import check
from autocomp.tune.bisect import check_kernel
from autocomp.tune.check import deviation, difference, expected, inputs_of, relative_error, sizes_of
from autocomp.tune.measure import HostBench, Job, build, constants_in
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.tune_targets import FaultyCpu


def kernel_of(text):
    return cover_of(parse(text), "cpu").calls[-1].kernel


def setting(text):
    """(kernel, its inputs, a right result in the outputs' types, what is expected)."""
    k = kernel_of(text)
    sizes = sizes_of(k)
    arrays = inputs_of(k, sizes, 7)
    with np.errstate(all="ignore"):
        right = {a.name: v.astype(a.type.dtype.numpy) for a, v in zip(k.outputs, evaluate(k, arrays, sizes).values())}
    return k, arrays, right, expected(k, arrays, sizes)


GEMM = "graph g\ninput a: f16[70, 90]\ninput b: f16[90, 50]\n%0 = matmul(a, b)\n%1 = gelu(%0)\noutput y = %1\n"


@pytest.mark.parametrize("where", [(0, 0), (69, 49), (33, 7)])
def test_one_wrong_element_is_found(where):
    _, _, right, parts = setting(GEMM)
    assert deviation(parts, right) == ""
    right["out0"][where] += 2
    assert "wrong: out0 has" in deviation(parts, right)
    right["out0"][where] = np.nan
    assert "wrong: out0 has nan where" in deviation(parts, right)


def test_a_large_kernel_is_compared_in_windows_with_its_tails(monkeypatch):
    monkeypatch.setattr(check, "OPERATIONS", 20 * 20 * 90)
    _, _, right, parts = setting(GEMM)
    assert len(parts) == 2
    sizes = [p.value.size for p in parts]
    assert sizes[0] == sizes[1] < 70 * 50 / 4
    assert deviation(parts, right) == ""
    for where, seen in (((0, 0), True), ((69, 49), True), ((35, 25), False)):
        spoiled = {"out0": right["out0"].copy()}
        spoiled["out0"][where] += 2
        assert bool(deviation(parts, spoiled)) == seen
        assert "(the first right result)" in difference(right, spoiled, parts, whole=True)
    assert difference(right, right, parts, whole=True) == ""


def test_samples_of_a_large_output_are_in_no_step_with_tiles(monkeypatch):
    monkeypatch.setattr(check, "SAMPLES", 64 * 64 // 16)
    _, _, right, parts = setting("graph g\ninput a: f32[64, 64]\n%0 = exp(a)\noutput y = %0\n")
    for i in range(0, 64, 8):  # every wrong tile of 8 x 8 is noticed
        for j in range(0, 64, 8):
            spoiled = {"out0": right["out0"].reshape(64, 64).copy()}
            spoiled["out0"][i : i + 8, j : j + 8] = 0
            assert difference(right, spoiled, parts, whole=False)


def test_rounding_is_allowed_and_more_is_not():
    _, _, right, parts = setting("graph g\ninput a: f32[40, 300]\n%0 = softmax(a, axes=[1])\noutput y = %0\n")
    assert deviation(parts, {"out0": right["out0"] * np.float32(1 + 4e-7)}) == ""
    assert deviation(parts, {"out0": right["out0"] * np.float32(1 + 1e-3)})


def test_errors_grow_with_the_root_of_a_sums_length():
    of = lambda n: relative_error(tuple(s.value for s in kernel_of(f"graph g\ninput a: f32[4, {n}]\n%0 = reduce_sum(a, axes=[1])\n"
                                                                   "output y = %0\n").stores))  # fmt: skip
    assert of(40_000) == pytest.approx(20 * of(100), rel=0.01)


def test_what_the_types_cannot_hold_is_not_compared():
    k, _, right, parts = setting("graph g\ninput a: f16[50]\n%0 = mul(a, const(100, f16))\n%1 = exp(%0)\noutput y = %1\n")
    assert k.outputs[0].type.dtype.name == "f16"
    assert np.isinf(right["out0"]).any()
    assert deviation(parts, right) == ""


@pytest.mark.parametrize("name", ["softmax_odd", "gemm_bf16", "maxpool", "integers", "argmax", "gathered", "unpack"])
def test_every_kind_of_value_is_compared(name):
    _, _, right, parts = setting(GRAPHS[name])
    assert deviation(parts, right) == ""
    (output,) = right
    flat = right[output].reshape(-1)
    flat[-1] = flat[-1] + 100
    assert deviation(parts, right)


def test_constants_are_packed_at_load_as_in_a_program(tmp_path):
    text = "graph g\ninput a: f32[64, 128]\nparam w: f32[128, 256] = random(1)\n%0 = matmul(a, w)\noutput y = %0\n"
    k, target = kernel_of(text), FaultyCpu(load_target("cpu").chip)
    assert constants_in(k)
    job = Job(encode(k), target, str(tmp_path), 3)
    built = build(job, replace(Schedule.make({"i0": 16, "i1": 64, "r0": 128}), directives=("pack_constants",)), "one")
    assert built.source.packings
    bench = HostBench(job)
    assert bench.check(bench.load(built), whole=True) == ""
    assert check_kernel(target, job.kernel, built.source) == ""


def test_while_searching_samples_of_the_first_right_result_are_enough(tmp_path, monkeypatch):
    """The reference is asked for the first candidate and in the last race, which compares every element."""
    asked = []
    monkeypatch.setattr("autocomp.tune.measure.deviation", lambda parts, got: asked.append(1) or "")
    job = Job(encode(kernel_of(GRAPHS["softmax_odd"])), FaultyCpu(load_target("cpu").chip), str(tmp_path), 3)
    bench = HostBench(job)
    good = bench.load(build(job, Schedule.make({"i0": 4}), "one"))
    assert [bench.check(good, whole=w) for w in (False, False, True)] == ["", "", ""]
    assert len(asked) == 2
    right = dict(bench.first)
    bench.first = {n: x + 1 for n, x in right.items()}
    assert "(the first right result)" in bench.check(good, whole=False)


def test_what_the_inputs_hardly_determine_has_room():
    """Rows divided by their sum, one of which cancels: an ulp of an input moves the quotients by more than roundings alone explain."""
    text = "graph g\ninput x: f32[256, 200]\n%0 = reduce_sum(x, axes=[1], keepdims=True)\n%1 = div(x, %0)\noutput y = %1\n"
    k, arrays, _, parts = setting(text)
    x = arrays["in0"]
    x[3, -1] -= x[3].astype(np.float64).sum() - 1e-4  # what is left of the sum
    with np.errstate(all="ignore"):
        folded = np.zeros(256, np.float32)
        for j in range(200):
            folded += x[:, j]
        got = {"out0": (x / folded[:, None]).astype(np.float32)}
    parts = expected(k, arrays, sizes_of(k))
    assert "wrong: out0 has" in deviation(parts, got)
    wide = check.widened(k, arrays, sizes_of(k), parts)
    assert deviation(wide, got) == ""
    got["out0"][3, 7] += 3 * np.abs(got["out0"]).max()
    assert "wrong: out0 has" in deviation(wide, got)
    k, arrays, _, parts = setting(GEMM)
    assert [p.relative for p in check.widened(k, arrays, {}, parts)] == [p.relative for p in parts]  # and nothing else has


def test_indices_lie_anywhere_in_what_they_index():
    """Else a lookup is measured on the few rows that caches hold."""
    k = kernel_of("graph g\ninput t: f16[1000, 64]\ninput i: i64[5000]\ninput n: i32[5000, 1]\n"
                  "%0 = gather(t, i, axis=0)\n%1 = cast(n, to=\"f16\")\n%2 = mul(%0, %1)\noutput y = %2\n")  # fmt: skip
    arrays = inputs_of(k, {}, 7)
    by_type = {a.type.dtype.name: arrays[a.name] for a in k.inputs}
    assert 900 < by_type["i64"].max() < 1000 and by_type["i64"].min() >= 0 and by_type["i32"].max() < check.INTEGERS


def test_factors_of_tf32_are_right_where_they_may_be_rounded():
    k, arrays, right, parts = setting("graph g\ninput a: f32[40, 300]\ninput b: f32[300, 24]\n%0 = matmul(a, b)\noutput y = %0\n")
    rounded = {n: (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for n, x in arrays.items()}
    got = {a.name: v.astype(np.float32) for a, v in zip(k.outputs, evaluate(k, rounded, sizes_of(k)).values())}
    assert deviation(parts, got).startswith("wrong")
    coarse = expected(k, arrays, sizes_of(k), coarse=TF32)
    assert deviation(coarse, got) == deviation(coarse, right) == ""
    got["out0"][3, 3] += 2
    assert deviation(coarse, got).startswith("wrong")
