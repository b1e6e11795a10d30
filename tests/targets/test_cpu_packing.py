"""Constant factors lie packed before the first run: right numbers under any tiles, once in memory, the same bytes on 1 and 2 threads."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import autocomp
from autocomp.cost.work import Cost
from autocomp.frontends.text import parse as parse_graph
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import F32, TensorType
from autocomp.options import Options
from autocomp.runtime.library import packings
from autocomp.runtime.program import build_program
from autocomp.trace import Trace
from tests.helpers.hosts import cpu_chip, price_for

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip


def matmul(m, k, n, seed=0):
    """relu(x @ w + b) with constant w and b."""
    rng, b = np.random.default_rng(seed), Builder("mm")
    x = b.input("x", TensorType(F32, (m, k)))
    w, bias = (b.param(name, rng.standard_normal(s).astype("f4")) for name, s in (("w", (k, n)), ("b", (n,))))
    b.output("y", b.op("max", b.op("add", b.op("matmul", x, w), bias), b.const(0.0, F32)))
    return b.graph()


def conv(c, o, size, kernel, stride, group=1, seed=0):
    """A convolution with constant weights and padding."""
    rng, b = np.random.default_rng(seed), Builder("cv")
    x = b.input("x", TensorType(F32, (1, c, size, size)))
    w = b.param("w", rng.standard_normal((o, c // group, kernel, kernel)).astype("f4"))
    pad = kernel // 2
    b.output("y", b.op("conv", x, w, strides=(stride, stride), lo=(pad, pad), hi=(pad, pad), dilations=(1, 1), groups=group))
    return b.graph()


def strided(c, o, size):
    """A convolution of 3 x 3 by a stride of 2, without a border."""
    b = Builder("stem")
    w = b.param("w", np.random.default_rng(0).standard_normal((o, c, 3, 3)).astype("f4"))
    b.output("y", b.op("conv", b.input("x", TensorType(F32, (1, c, size, size))), w, strides=(2, 2), lo=(0, 0), hi=(0, 0), dilations=(1, 1),
                       groups=1))  # fmt: skip
    return b.graph()


def checked(program, graph, seed=1):
    """The result against float64; a second call gets memory full of NaN."""
    shape = graph.inputs[0].type.shape
    x = np.random.default_rng(seed).standard_normal(shape).astype("f4")
    want = evaluate(graph, {"x": x})["y"]
    program(x)[...] = np.nan
    got = program(x)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()
    return got


GRAPHS = {
    "odd": lambda: matmul(37, 50, 75), "one row": lambda: matmul(1, 129, 77), "tall": lambda: matmul(131, 64, 48),
    "1x1": lambda: conv(24, 40, 9, 1, 1), "3x3": lambda: conv(20, 33, 7, 3, 1), "strided": lambda: conv(16, 48, 15, 3, 2),
    "groups": lambda: conv(12, 30, 8, 3, 1, group=2), "rows of 4096 bytes": lambda: matmul(61, 1024, 40),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_packed_factors_give_the_reference(name):
    graph = GRAPHS[name]()
    one, two = (autocomp.optimize(graph, threads=t) for t in (1, 2))
    assert [x.argument for s in one.printed.values() for x in s.packings]
    np.testing.assert_array_equal(checked(one, graph), checked(two, graph))


def test_threads_give_the_same_bytes_with_vectors_of_half_a_line(monkeypatch):
    """GCC, tuned for a Zen, would take the multiply-adds of a tile of one row apart."""
    price_for(monkeypatch, cpu_chip("zen3"))
    graph = matmul(37, 50, 75)
    one, two = (rescheduled(graph, Schedule.make(tile)) for tile in ({"i0": 37}, {"i0": 4}))
    np.testing.assert_array_equal(checked(one, graph), checked(two, graph))


def rescheduled(graph, schedule, threads=1):
    """The program of a graph with one kernel, under another schedule with the directives of products."""
    p, schedule = autocomp.optimize(graph), replace(schedule, directives=("prefetch", "pack_constants", "read_in_place"))
    kernel = p.calls.calls[0].kernel
    return build_program(p.calls, {kernel.signature: (schedule, Cost(1.0, "none", ()))}, p.target, Options(threads=threads), Trace())


@pytest.mark.parametrize("tile", [
    {"i0": 16, "i1": 40}, {"i0": 5, "i1": 33, "r0": 7}, {"i0": 37, "i1": 16}, {"i1": 70}, {"i0": 1, "i1": 75}, {"r0": 13},
], ids=str)  # fmt: skip
def test_any_tiles_of_a_product(tile):
    graph = matmul(37, 50, 75)
    program = rescheduled(graph, Schedule.make(tile))
    assert [x.argument for s in program.printed.values() for x in s.packings] == ["in1"]
    checked(program, graph)


@pytest.mark.parametrize("tile", [{"i0": 30, "i1": 48}, {"i0": 70, "i1": 48, "r0": 16}], ids=str)
def test_last_tiles_run_with_the_vectors_and_rows_that_they_need(tile):
    graph = matmul(100, 40, 57)  # a last tile of 9 columns, and of 10 or 30 rows
    program = rescheduled(graph, Schedule.make(tile))
    checked(program, graph)
    assert re.search(r"^ *if \(i1_n > \d+\) \{", program.source(), re.M) and f"== {tile['i0']} ? " in program.source()


@pytest.mark.parametrize("tile", [{"i2": 64}, {"i2": 48}, {"i2": 80}, {"i1": 7, "i2": 64}], ids=str)
def test_the_last_tile_of_a_batch_has_fewer_panels(tile):
    """Several factors lie one after the other: each begins where the one before it ends, whatever the tiles."""
    b = Builder("batches")
    w = b.param("w", np.random.default_rng(2).standard_normal((3, 24, 80)).astype("f4"))
    b.output("y", b.op("matmul", b.input("x", TensorType(F32, (3, 20, 24))), w))
    graph = b.graph()
    program = rescheduled(graph, Schedule.make(tile))
    assert [x.argument for s in program.printed.values() for x in s.packings] == ["in1"]
    checked(program, graph)


@pytest.mark.parametrize("tile", [{"i0": 64}, {"i0": 48}, {"i0": 40}], ids=str)
def test_fewer_products_under_tiles_of_results(tile):
    """Winograd's form of a convolution: its factor has sixteen parts, each in panels of its own."""
    graph = conv(8, 80, 6, 3, 1)
    program = rescheduled(graph, Schedule.make(tile))
    assert "convolution/winograd" in " ".join(program.kernels[0].rules)
    checked(program, graph)


@pytest.mark.parametrize(("m", "k", "tile"), [
    (37, 4100, {"i0": 37}), (61, 4096, {"i1": 33}), (130, 2816, {"i0": 64, "i1": 20}), (70, 2061, {"i0": 68, "i1": 40}),
], ids=str)  # fmt: skip
def test_sums_of_long_rows_are_put_aside_after_a_part_of_the_depth(m, k, tile):
    graph = matmul(m, k, 40)
    one, two = (rescheduled(graph, Schedule.make(tile), threads) for threads in (1, 2))
    assert "vf_store(aside" in one.source()
    np.testing.assert_array_equal(checked(one, graph), checked(two, graph))


def test_the_depth_runs_in_one_go_where_rows_stay_near():
    for m, k, tile in ((37, 3000, {"i0": 37}), (61, 4096, {"i0": 16}), (200, 1500, {"i0": 200})):
        assert "vf_store(aside" not in rescheduled(matmul(m, k, 40), Schedule.make(tile)).source()


def test_a_weight_is_packed_once_for_all_calls_that_read_it_alike():
    b = Builder("twice")
    w = b.param("w", np.random.default_rng(3).standard_normal((32, 32)).astype("f4"))
    x = b.input("x", TensorType(F32, (8, 32)))
    y = b.op("matmul", b.op("tanh", b.op("matmul", x, w)), w)
    b.output("y", b.op("matmul", b.op("tanh", y), w))
    graph = b.graph()
    program = autocomp.optimize(graph)
    calls = [c for c in program.calls.calls if program.printed[c.kernel.name].packings]
    assert len(packings(program.calls, program.slots, program.printed)) < len(calls)
    checked(program, graph)


def test_what_changes_between_runs_is_not_packed_ahead():
    program = autocomp.optimize(lambda x, w: x @ w, example_inputs=(np.zeros((9, 20), "f4"), np.zeros((20, 33), "f4")))
    assert all(not s.packings for s in program.printed.values())


@pytest.mark.parametrize(("rule", "text"), [
    ("directives/pack-constants", "void k_matmul_add_max_pack_in1("), ("directives/prefetch", "__builtin_prefetch("),
], ids=str)  # fmt: skip
def test_without_its_rule_a_product_packs_in_each_run_and_asks_for_nothing_ahead(rule, text):
    graph = matmul(37, 50, 75)
    whole, less = (autocomp.optimize(graph, threads=1, without=w) for w in ((), [rule]))
    assert text in whole.source() and text not in less.source()
    assert rule in whole.explain(why=whole.kernels[0].name) and rule not in less.explain(why=less.kernels[0].name)
    np.testing.assert_array_equal(checked(whole, graph), checked(less, graph))


@pytest.mark.parametrize("rows", [1, 3, 4, 7, 8])
def test_weights_that_a_few_rows_read_in_passing_are_asked_for_pages_ahead(rows):
    """Eight rows of 512 x 2048 read 12 GB/s of weights without, 25 with; fewer than four leave no time for it."""
    graph = matmul(rows, 50, 75)
    program = rescheduled(graph, Schedule.make({}))
    one_tile = rows < 7 or program.target.chip.registers.count > 16
    assert ("__builtin_prefetch(b0 + 2048, 0, 3);" in program.source()) == (rows >= 4 and one_tile)
    checked(program, graph)


def test_without_its_rule_no_factor_is_read_where_it_lies():
    graph = product_of(("x", "w"), 61, 33, 64)
    whole, less = (autocomp.optimize(graph, threads=1, without=w) for w in ((), ["directives/read-in-place"]))
    assert "read_in_place" in whole.kernels[0].schedule or whole.target.lanes != 16
    assert "panels = ac_alloc" in less.source() and "read_in_place" not in less.kernels[0].schedule and less.verify().ratio <= 1


def product_of(inputs, m, k, n, heads=1):
    b = Builder("inputs")
    x, w = (b.input(name, TensorType(F32, shape)) for name, shape in zip(inputs, ((heads, m, k), (heads, k, n))))
    b.output("y", b.op("matmul", x, w))
    return b.graph()


@pytest.mark.parametrize(("m", "k", "n", "in_place"), [
    (61, 33, 64, True), (61, 33, 112, True), (30, 17, 16, True), (61, 33, 60, True), (400, 33, 60, False),
    (400, 33, 64, True), (5, 33, 1040, True), (61, 33, 1040, False),
], ids=str)  # fmt: skip
def test_a_factor_is_read_where_it_lies_when_its_rows_lie_as_a_panels_do(m, k, n, in_place):
    graph = product_of(("x", "w"), m, k, n, heads=3)
    feed = {x.attrs["name"]: np.random.default_rng(n).standard_normal(x.type.shape).astype("f4") for x in graph.inputs}
    program = autocomp.optimize(graph)
    program.executor.poison = True
    want = evaluate(graph, feed)["y"]
    assert np.abs(program.run(feed)["y"] - want).max() <= 2e-5 * np.abs(want).max()
    if program.target.lanes == 16:  # sizes are whole vectors of 16
        assert ("panels = ac_alloc" not in program.source()) == in_place


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_a_computed_factor_of_one_element_is_no_array(dtype):
    """Attention of one query over one key."""
    program = autocomp.optimize(
        f"graph g\ninput q: {dtype}[1, 1, 64]\ninput k: {dtype}[1, 64, 1]\ninput v: {dtype}[1, 1, 64]\n"
        "%0 = matmul(q, k)\n%1 = softmax(%0, axes=[2])\n%2 = matmul(%1, v)\noutput y = %2\n"
    )
    assert program.verify().ratio <= 1


def test_without_its_rule_few_taps_by_a_stride_of_two_are_transposed():
    graph = strided(3, 32, 29)
    whole, less = (autocomp.optimize(graph, threads=1, without=w) for w in ((), ["directives/strided-taps"]))
    assert "strided_taps" in whole.kernels[0].schedule and "vf_transpose(" not in whole.source()
    assert "strided_taps" not in less.kernels[0].schedule and "vf_transpose(" in less.source()
    assert "directives/strided-taps (not priced" in whole.explain(why=whole.kernels[0].name)
    np.testing.assert_array_equal(checked(whole, graph), checked(less, graph))


@pytest.mark.parametrize(("m", "n", "in_place"), [(24, 203, True), (9, 1000, True), (200, 203, False), (24, 1500, False)])
def test_small_factors_of_few_rows_are_read_where_they_lie(m, n, in_place):
    """The last vector of columns under a mask, so that nothing behind the tensor is read. 24 x 312 x 120 took 23 us packed, 17 in place;
    with 256 rows it is 130 and 138 (Xeon, AVX-512). Vectors of 4 lanes have no masks."""
    graph = parse_graph(f"graph g\ninput x: f32[{m}, 21]\ninput w: f32[21, {n}]\n%0 = matmul(x, w)\noutput y = %0\n")
    program = autocomp.optimize(graph, target="cpu", threads=1)
    assert "autocomp_cpu" in program.source()
    if program.target.lanes > 4:
        assert ("read_in_place" in str(program.kernels[0].schedule)) == in_place
        assert (f"ac_min({program.target.lanes}, " in program.source()) == (in_place and n % program.target.lanes > 0)
    rng = np.random.default_rng(n)
    edge = np.full(21 * n + 64, np.nan, "f4")  # what lies behind the factor
    edge[: 21 * n] = rng.standard_normal(21 * n)
    feed = {"x": rng.standard_normal((m, 21)).astype("f4"), "w": edge[: 21 * n].reshape(21, n)}
    np.testing.assert_allclose(program.run(feed)["y"], evaluate(graph, feed)["y"], rtol=1e-4, atol=1e-4)
