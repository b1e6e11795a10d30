"""Reductions over columns of CPU kernels: vectors of columns side by side (directive `jam_columns`)."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.frontends.text import parse
from autocomp.ir.reference import evaluate
from tests.helpers import fresh
from tests.helpers.hosts import price_for, this_machine
from tests.helpers.repeats import by_turns

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip
ROWS = "tiling/columns"  # a few rows at a time where a tensor leaves the second cache: no walk is left
POOL = "%0 = maxpool(x, window=[3, 3], strides=[2, 2], lo=[1, 1], hi=[1, 1], dilations=[1, 1], layout=\"nchw\")"
FORMS = {  # what is computed of x; its shape; whether a walk down a column leaves the first cache, and several vectors of columns are there
    "sum, two vectors and a part": ("%0 = reduce_sum(x, axes=[0], keepdims=0)", (700, 41), True),
    "maximum, whole vectors": ("%0 = reduce_max(x, axes=[0], keepdims=0)", (601, 160), True),
    "of maps": ("%1 = mul(x, x)\n%2 = reduce_sum(%1, axes=[0], keepdims=0)\n%0 = sqrt(%2)", (530, 70), True),
    "in the middle": ("%0 = reduce_sum(x, axes=[1], keepdims=0)", (3, 400, 83), True),
    "a walk that stays near": ("%0 = reduce_sum(x, axes=[0], keepdims=0)", (90, 41), False),
    "one vector": ("%0 = reduce_sum(x, axes=[0], keepdims=0)", (12000, 3), False),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_results_are_as_one_vector_at_a_time(form, kind):
    lines, shape, there = FORMS[form]
    g = parse(f"graph g\ninput x: {kind}{list(shape)}\n{lines}\noutput y = %0\n")
    feed = {"x": fresh.rng().standard_normal(shape).astype({"f32": "f4", "f16": "f2"}[kind])}
    want, found = evaluate(g, feed)["y"], []
    for threads, without in ((1, ()), (2, ()), (1, ("directives/jam-columns",))):
        program = autocomp.optimize(g, target="cpu", cache=False, threads=threads, without=(*without, ROWS))
        program.run(feed)["y"][...] = 55  # what is not written next time shows
        found.append(program.run(feed)["y"])
        applied = "jam_columns" in program.kernels[0].schedule
        if threads == 1:  # parts of columns that two threads take need not be whole vectors
            assert applied == (there and not without and not (kind == "f16" and "max" in lines))  # maxima of halves are folded one by one
        assert applied == ("_row1" in program.source()) or "unroll_and_jam" in program.kernels[0].schedule
        np.testing.assert_allclose(found[-1].astype("f8"), want, rtol=2e-3 if kind == "f16" else 1e-5, atol=1e-4)
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


def small_caches(monkeypatch):
    price_for(monkeypatch, this_machine(cores=2, l1=32 << 10, l2=512 << 10, l3=32 << 20))


@pytest.mark.parametrize(("columns", "kind"), by_turns([333, 515, 1001, 777], ["reduce_sum", "reduce_max"]))
def test_a_last_tile_of_fewer_columns_runs_side_by_side_too(columns, kind, monkeypatch):
    """Tiles that two threads take need not divide the columns: the last one has vectors of its own number, and a part of one."""
    small_caches(monkeypatch)
    g = parse(f"graph g\ninput x: f32[1500, {columns}]\n%0 = {kind}(x, axes=[0], keepdims=0)\noutput y = %0\n")
    feed = {"x": fresh.rng().standard_normal((1500, columns)).astype("f4")}
    feed["x"][7, columns - 1] = np.nan  # of the last column alone
    two, one = (autocomp.optimize(g, target="cpu", cache=False, threads=n, without=(ROWS,)) for n in (2, 1))
    two.run(feed)["y"][...] = 55
    got = two.run(feed)["y"]
    tile = int(two.kernels[0].schedule.split("i0 ")[1].split()[0].strip(","))
    assert "jam_columns" in two.kernels[0].schedule and "_row1" in two.source() and columns % tile
    assert got.tobytes() == one.run(feed)["y"].tobytes() and np.isnan(got[-1]) and not np.isnan(got[:-1]).any()
    np.testing.assert_allclose(got, evaluate(g, feed)["y"], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("lines", "kind", "shape"), [
    ("%0 = reduce_sum(x, axes=[0], keepdims=0)", "f32", (1001, 333)),
    ("%0 = reduce_max(x, axes=[0], keepdims=0)", "f32", (999, 514)),
    ("%1 = abs(x)\n%2 = reduce_sum(%1, axes=[0], keepdims=0)\n%0 = sqrt(%2)", "f16", (1500, 427)),
    ("%0 = reduce_sum(x, axes=[1], keepdims=0)", "f32", (3, 257, 983)),
    ("%0 = reduce_min(x, axes=[0], keepdims=0)", "i32", (803, 401)),
    ("%0 = reduce_argmax(x, axes=[0], keepdims=0)", "f32", (803, 401)),
    ("%0 = reduce_sum(x, axes=[0], keepdims=0)", "f32", (17003, 19)),
])  # fmt: skip
def test_tensors_that_leave_the_second_cache_are_read_a_few_rows_at_a_time(lines, kind, shape, monkeypatch):
    small_caches(monkeypatch)
    g = parse(f"graph g\ninput x: {kind}{list(shape)}\n{lines}\noutput y = %0\n")
    feed = {"x": (fresh.rng().standard_normal(shape) * (1 if kind == "f16" else 100)).astype({"f32": "f4", "f16": "f2", "i32": "i4"}[kind])}
    if kind == "f32":
        feed["x"][(*(0 for _ in shape[:-1]), 5)] = np.nan
    want, found = evaluate(g, feed)["y"], []
    for threads in (1, 2):
        program = autocomp.optimize(g, target="cpu", cache=False, threads=threads)
        program.run(feed)["y"][...] = 55
        found.append(program.run(feed)["y"])
        np.testing.assert_allclose(found[-1].astype("f8"), want, rtol=2e-3 if kind == "f16" else 1e-5, atol=1e-2)
    assert found[0].tobytes() == found[1].tobytes()
    if "arg" not in lines:
        less = autocomp.optimize(g, target="cpu", cache=False, threads=2, without=(ROWS,))
        assert ", r0 " in program.kernels[0].schedule and ", r0 " not in less.kernels[0].schedule
        assert program.predicted < less.predicted


def test_columns_that_stay_near_are_walked(monkeypatch):
    small_caches(monkeypatch)
    program = autocomp.optimize("graph g\ninput x: f32[300, 41]\n%0 = reduce_sum(x, axes=[0], keepdims=0)\noutput y = %0\n", threads=1)
    assert ", r0 " not in program.kernels[0].schedule


def test_the_directive_has_a_rule_that_explain_tells():
    program = autocomp.optimize("graph g\ninput x: f32[700, 41]\n%0 = reduce_sum(x, axes=[0], keepdims=0)\noutput y = %0\n", threads=1)
    assert "jam_columns: directives/jam-columns (not priced" in program.explain(why=program.kernels[0].name)


@pytest.mark.parametrize(("lines", "shape", "rule"), [
    ("%0 = reduce_sum(x, axes=[1], keepdims=0)", (5, 700), "expand-accumulators"),
    ("%0 = reduce_sum(x, axes=[1], keepdims=0)", (3, 20_011), "expand-accumulators"),
    ("%0 = reduce_max(x, axes=[1], keepdims=0)", (3, 90, 17), "expand-accumulators"),
    (POOL, (1, 2, 40, 41), "unmask-interior"),
])  # fmt: skip
def test_partial_results_and_windows_without_masks_are_left_out_by_their_rules(lines, shape, rule):
    g = parse(f"graph g\ninput x: f32{list(shape)}\n{lines}\noutput y = %0\n")
    feed = {"x": fresh.rng().standard_normal(shape).astype("f4")}
    whole, less = (autocomp.optimize(g, target="cpu", cache=False, threads=1, without=w) for w in ((), (f"directives/{rule}",)))
    name = rule.replace("-", "_")
    assert name in whole.kernels[0].schedule and name not in less.kernels[0].schedule and whole.source() != less.source()
    for program in (whole, less):  # sums of 20,011 are in parts either way
        np.testing.assert_allclose(program.run(feed)["y"], evaluate(g, feed)["y"], rtol=1e-5, atol=1e-5)
    assert f"{name}: directives/{rule} (not priced" in whole.explain(why=whole.kernels[0].name)
