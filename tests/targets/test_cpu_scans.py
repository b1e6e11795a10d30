"""Running sums, products and extrema on CPUs: a loop down the row that carries what came before, in vectors along another axis."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.frontends.text import parse
from autocomp.ir.reference import evaluate
from tests.helpers import fresh
from tests.helpers.repeats import by_turns

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip
KINDS = {"f32": "f4", "f64": "f8", "f16": "f2", "i32": "i4", "i64": "i8", "u8": "u1", "i8": "i1"}


@pytest.mark.parametrize(("scan", "axis"), by_turns([
    ("cumsum", "f32"), ("cumsum", "i64"), ("cumsum", "f64"), ("cumsum", "i32"), ("cumprod", "f32"), ("cummax", "f32"), ("cummax", "f16"),
    ("cummax", "i64"), ("cummin", "f32"), ("cummin", "u8"), ("cummin", "i8"),
], [0, 1, 2]), ids=str)  # fmt: skip
def test_every_scan_along_every_axis(scan, axis):
    """From either end, with and without the element itself, and with a map on both sides."""
    op, kind = scan
    rng = fresh.rng()
    for exclusive, reverse in ((0, 0), (1, 0), (0, 1), (1, 1)):
        how = f"axis={axis}, exclusive={bool(exclusive)}, reverse={bool(reverse)}"
        g = parse(f"graph g\ninput x: {kind}[3, 37, 21]\n%0 = max(x, x)\n%1 = {op}(%0, {how})\n%2 = min(%1, %1)\noutput y = %2\n")
        low, high = (0, 9) if kind == "u8" else (-9, 9)
        x = rng.integers(low, high, (3, 37, 21)).astype(KINDS[kind])
        if op == "cumprod":
            x = (rng.random((3, 37, 21)) + 0.5).astype("f4")
        if kind == "f32" and op in ("cummax", "cummin"):
            x[0, 5, 7], x[1, 2, 3], x[2, 9, 9] = np.nan, np.inf, -np.inf
        program = autocomp.optimize(g, target="cpu", cache=False, threads=1)
        program.run({"x": x})["y"][...] = 7
        np.testing.assert_allclose(program.run({"x": x})["y"].astype("f8"), evaluate(g, {"x": x})["y"], rtol=2e-6, atol=1e-5)
        if axis < 2:  # a short row of neighbours may be folded anew for each, in vectors
            assert "scan" in "".join(k.schedule for k in program.kernels) and "_so_far" in program.source(), how


def test_it_is_chosen_and_its_time_grows_with_the_length():
    """One kernel without parts; along the row where elements lie side by side each waits for the one before it."""
    time = {}
    for n, axis in ((1000, 0), (4000, 0), (1000, 1), (4000, 1)):
        shape = (n, 64) if axis == 0 else (64, n)
        text = f"graph g\ninput x: f32{list(shape)}\n%0 = cumsum(x, axis={axis})\noutput y = %0\n"
        (k,) = autocomp.optimize(text, target="cpu", threads=1).kernels
        assert "scan" in k.schedule
        time[n, axis] = k.predicted
    assert 3 < time[4000, 1] / time[1000, 1] < 5 and time[4000, 1] > 2 * time[4000, 0]


def test_sums_down_a_row_are_as_near_as_those_of_doubles():
    x = fresh.rng().standard_normal((3, 20000)).astype("f4")
    program = autocomp.optimize("graph g\ninput x: f32[3, 20000]\n%0 = cumsum(x, axis=1)\noutput y = %0\n", target="cpu", cache=False)
    np.testing.assert_array_equal(program(x), np.cumsum(x.astype("f8"), 1).astype("f4"))


def test_scans_that_go_both_ways_are_two_loops_or_two_kernels():
    both = "%0 = cumsum(x, axis=1)\n%1 = cumsum(x, axis=1, reverse=True)\n%2 = sub(%0, %1)"
    g = parse(f"graph g\ninput x: f32[9, 50]\n{both}\noutput y = %2\n")
    x = fresh.rng().standard_normal((9, 50)).astype("f4")
    program = autocomp.optimize(g, target="cpu", cache=False)
    np.testing.assert_allclose(program(x), evaluate(g, {"x": x})["y"], atol=2e-5)
    with pytest.raises(autocomp.AutocompError, match="both ways"):
        kernel = next((c.kernel for c in program.calls.calls if len(c.kernel.outputs) == 1 and c.kernel.name.count("cumsum") == 2), None)
        if kernel is None:
            raise autocomp.AutocompError("scans go both ways in kernels of their own")
        from autocomp.ir.schedule import Schedule

        program.target.emit(kernel, Schedule(scan=True))


def test_without_its_rule_sums_go_in_parts():
    text = "graph g\ninput x: f32[64, 500]\n%0 = cumsum(x, axis=1)\noutput y = %0\n"
    with_scan, without = autocomp.optimize(text, target="cpu"), autocomp.optimize(text, target="cpu", without=("tiling/scan",))
    assert not any("scan" in k.schedule for k in without.kernels) and without.predicted > with_scan.predicted


@pytest.mark.parametrize("target", ["cpu", "cuda:h200"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_a_running_sum_of_one_number(target, exclusive):
    """Nothing varies along the row: there is no scan of it, which would lack the axis."""
    text = f"graph g\ninput a: i32[]\n%1 = broadcast(a, shape=[4])\n%2 = cumsum(%1, axis=0, exclusive={exclusive})\noutput y = %2\n"
    program = autocomp.optimize(text, target=target, cache=False)
    assert not any("scan" in k.schedule for k in program.kernels)
    if target == "cpu":
        np.testing.assert_array_equal(program(np.array(3, "i4")), np.arange(4) * 3 + (0 if exclusive else 3))
