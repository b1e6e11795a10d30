"""Quotients by what several elements of a thread share (directive `shared_divisors`): rows by their scale, softmax by its sum."""

from __future__ import annotations

import numpy as np
import pytest
from autocomp.targets.source import KernelSource

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.schedules import by_hand

RULE = "directives/shared-divisors"
ON = ("shared_divisors",)


def rows(kind: str, divisors: int = 1) -> str:
    """Rows over their divisors, and what of it is the less: what decides keeps its division."""
    inputs = f"input x: {kind}[12, 70]\ninput s: {kind}[12, {divisors}]"
    return f"graph g\n{inputs}\n%0 = div(x, s)\n%1 = lt(%0, x)\noutput out = %0\noutput less = %1\n"


INF, NAN, LARGE, LEAST = np.inf, np.nan, 3.4028235e38, 1e-45
SCALES = np.array([3, -7.25, 0, -0.0, INF, -INF, NAN, LARGE, -1.2e-38, LEAST, 1e-30, 1e30], "f4")[:, None]


def run(
    text: str, feed: dict[str, np.ndarray], directives: tuple[str, ...], model, folder, threads: int = 32
) -> tuple[KernelSource, np.ndarray]:
    """(kernel, what came out) of a graph of rows under a schedule by hand."""
    program = autocomp.optimize(text, target="cuda:h200")
    (kernel,) = (x.kernel for x in program.calls.calls)
    source = program.printed[kernel.name] = program.target.emit(
        kernel, by_hand({"i0": 1, "i1": 128}, threads=threads, directives=directives)
    )
    program.executor = ModelExecutor(program, folder, model)
    return source, program.run(feed)["out"]


def numbers() -> np.ndarray:
    """70 numbers a row, ends of the type among them."""
    rng = fresh.rng()
    x = (rng.standard_normal((12, 70)) * 10.0 ** rng.integers(-38, 38, (12, 70))).astype("f4")
    x[:, :9] = [0, -0.0, INF, -INF, NAN, LARGE, -LARGE, LEAST, 1.2e-38]
    return x


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_quotients_are_those_of_a_division(model, tmp_path):
    """Within a unit in the last place, below the normal numbers within two of their steps; zeros keep their sign, ends are as they are."""
    x = numbers()
    source, got = run(rows("f32"), {"x": x, "s": SCALES}, ON, model, tmp_path)
    assert "ac_divide(" in source.text and "shared_divisors" in source.applied
    with np.errstate(all="ignore"):
        want = x / SCALES
        exact = x.astype("f8") / SCALES.astype("f8")
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    ends = ~np.isfinite(want) | (want == 0) & (x == 0)
    np.testing.assert_array_equal(got[ends], want[ends])
    np.testing.assert_array_equal(np.signbit(got[ends & ~np.isnan(want)]), np.signbit(want[ends & ~np.isnan(want)]))
    step = np.maximum(np.spacing(np.abs(want[~ends])), 2.8e-45).astype("f8")
    assert (np.abs(got[~ends] - exact[~ends]) <= step).all()


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_without_it_each_element_divides(model, tmp_path):
    x = numbers()
    source, got = run(rows("f32"), {"x": x, "s": SCALES}, (), model, tmp_path)
    assert "ac_divide(" not in source.text and "shared_divisors" not in source.applied
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, x / SCALES)


@pytest.mark.parametrize(
    ("kind", "divisors"),
    [("f32", 70), ("f64", 1), ("f16", 1)],  # each element has its divisor; no f32; a cheaper form
)
def test_other_quotients_stay(kind, divisors):
    program = autocomp.optimize(rows(kind, divisors), target="cuda:h200")
    (kernel,) = (x.kernel for x in program.calls.calls)
    source = program.target.emit(kernel, by_hand({"i0": 1, "i1": 128}, threads=32, directives=ON))
    assert "shared_divisors" not in source.applied and "ac_divide(" not in source.text


def test_without_the_rule_a_quantised_row_takes_longer():
    text = graph({"x": "f32[4464, 8960]", "s": "f32[4464, 1]"}, '%0 = div(x, s)\n%1 = round(%0)\n%2 = cast(%1, to="i8")')
    whole, less = (autocomp.optimize(text, target="cuda:h200", cache=False, tuned=False, without=w) for w in ((), (RULE,)))
    assert ["ac_divide(" in p.source().partition("__global__")[2] for p in (whole, less)] == [True, False]
    (said,) = [e for e in whole.trace.of("directive") if e.data["directive"] == "shared_divisors"]
    assert said.name == RULE and said.data["used"] and said.data["saves"] > 0
