"""Programs with loops on CPUs: right for any number of steps, open sizes too; one body however many steps; kept, saved and drawn whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.ir.builder import Builder
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.loop_bodies import loop
from autocomp.ir.ops.loops import ENDLESS
from autocomp.ir.types import F32, Sym, TensorType
from autocomp.report.graph_page import page_data
from autocomp.report.graphview import kernel_network
from autocomp.report.saved import prepare_saved
from autocomp.runtime.plan import arena, slots
from tests.helpers.loop_graphs import by_hand, check, feed, network
from tests.helpers.repeats import repeats


@pytest.fixture(scope="module")
def compiled():
    return {trips: autocomp.optimize(network(trips), target="cpu") for trips in (2, 512)}


@pytest.mark.parametrize("trips", [0, 1, 2, 7, repeats(512, of="7")])
def test_any_number_of_steps(trips, compiled):
    program = compiled.get(trips) or autocomp.optimize(network(trips), target="cpu")
    assert len(program.calls.loops) == (0 if trips == 1 else 2)
    assert {x.trips for x in program.calls.loops.values()} <= {trips}
    program.executor.poison = True
    for _ in range(2):
        check(program.run(feed(trips)), by_hand(program.graph, feed(trips)))


def test_a_step_more_is_no_kernel_more(compiled):
    short, long = (compiled[n] for n in (2, 512))
    assert [c.kernel.signature for c in short.calls.calls if c.loop] == [c.kernel.signature for c in long.calls.calls if c.loop]
    assert len(long.calls.calls) == len(short.calls.calls) < 20
    assert max(k.calls for k in long.kernels) == 2 * 512  # the two loops' bodies are one
    assert long.predicted > 100 * 2 * min(k.predicted for k in long.kernels)


def test_one_step_is_unrolled_by_a_rule():
    one = autocomp.optimize(network(1), target="cpu", cache=False)
    assert [e.data["count"] for e in one.trace.of("rule") if e.name == "loop/one-step"] == [2]
    kept = autocomp.optimize(network(1), target="cpu", without=["loop/one-step"], cache=False)
    assert len(kept.calls.loops) == 2
    check(kept.run(feed(1)), by_hand(kept.graph, feed(1)))


def test_open_steps_and_batch():
    program = autocomp.optimize(network(Sym("steps", 1, 600), Sym("batch", 1, 9)), target="cpu")
    for trips, batch in ((1, 3), (2, 1), (70, 9), (512, 2), (3, 3)):
        check(program.run(feed(trips, batch)), by_hand(program.graph, feed(trips, batch)))


def test_threads_at_a_time(compiled):
    program = compiled[512]
    with ThreadPoolExecutor(2) as pool:
        for k, got in enumerate(pool.map(lambda k: program.run(feed(512, seed=k)), range(6))):
            check(got, by_hand(program.graph, feed(512, seed=k)))


def test_two_threads_in_a_team():
    program = autocomp.optimize(network(7, 64), target="cpu", threads=2)
    check(program.run(feed(7, 64)), by_hand(program.graph, feed(7, 64)))


def test_a_saved_folder_runs(compiled, tmp_path):
    compiled[512].save(tmp_path)
    run = prepare_saved(tmp_path)(compiled[512].graph, feed(512))
    check(dict(run()), by_hand(compiled[512].graph, feed(512)))


def test_views_show_loops(compiled, tmp_path):
    program = compiled[512]
    name, (first, last) = next(iter(program.calls.spans.items()))
    assert f"{name}: 512 steps of " in program.explain()
    program.report(tmp_path / "a.html")
    assert program.profile(feed(512), repeat=2).total > 0
    assert program.verify().ratio <= 1
    calls = page_data(program)["calls"]
    assert {c["trips"] for c in calls[first:last]} == {"512"}
    read = {t for c in calls for t, _, _ in c["reads"]} | {t for _, t in program.calls.outputs}
    assert all(read & {t for t, _ in c["stores"]} for c in calls[first:last])  # nothing of the body stands alone in the picture
    drawn = kernel_network(program)
    assert all(drawn.out_degree(f"k{i}") for i in range(len(calls)))
    assert all(drawn.in_degree(f"out:{name}") for name, _ in program.calls.outputs)


def test_memory_of_a_loop_is_kept_for_all_its_steps(compiled):
    g: KernelGraph = compiled[512].calls
    s = slots(g)
    offsets, _ = arena(g, s, {})
    for name, (first, last) in g.spans.items():
        for t in g.loops[name].touched & offsets.keys():
            assert s.first_use[t] <= first
            assert s.last_use[t] >= last - 1


def test_what_others_do_without_loops():
    text = network(3)
    ascend = autocomp.optimize(text, target="ascend:910b", cache=False)
    assert not ascend.calls.loops
    assert [e.data["why"] for e in ascend.trace.of("rule") if e.name == "loop/unroll"] == ["programs for this target are lists of kernels"]
    with pytest.raises(UnsupportedOp, match="a loop of steps steps"):
        autocomp.optimize(network(Sym("steps", 1, 9)), target="ascend:910b", cache=False)
    with pytest.raises(UnsupportedOp, match="a loop of 2000 steps"):
        autocomp.optimize(network(2000), target="ascend:910b", cache=False)


def test_a_body_with_an_op_without_kernel_is_unrolled():
    b = Builder()
    x, h = b.input("x", TensorType(F32, (3, 6))), b.input("h", TensorType(F32, (6,)))
    finals, _ = loop(b, [h], [x], lambda c, s: ([b.op("topk", b.op("add", c[0], s[0]), k=6, axis=0)], []), 3)
    b.output("y", finals[0])
    program, rng = autocomp.optimize(b.graph(), target="cpu"), np.random.default_rng(0)
    given = {"x": rng.standard_normal((3, 6)).astype("f4"), "h": rng.standard_normal(6).astype("f4")}
    want = given["h"]
    for x_t in given["x"]:
        want = np.sort(want + x_t)[::-1]
    np.testing.assert_allclose(program.run(given)["y"], want, rtol=1e-5)


def ended(trips):
    """h + 0.5 until an element is above `stop`."""
    b = Builder("ended")
    h, stop = b.input("h", TensorType(F32, (6,))), b.input("stop", TensorType(F32, ()))
    below = lambda h: b.op("lt", b.op("reduce_max", h, axes=(0,), keepdims=False), stop)

    def body(carries, slices):
        new = b.op("add", carries[1], b.const(0.5, F32))
        return [below(new), new], []

    b.output("y", loop(b, [below(h), h], [], body, trips, condition=0)[0][1])
    return b.graph()


def test_a_loop_that_data_end_is_saved_shown_and_unrolled_by_others(tmp_path):
    program, rng = autocomp.optimize(ended(ENDLESS), target="cpu"), np.random.default_rng(0)
    given = {"h": rng.random(6, np.float32), "stop": np.float32(7)}
    want = given["h"] + 0.5 * np.ceil((7 - given["h"].max()) / 0.5)
    program.save(tmp_path)
    np.testing.assert_allclose(program.run(given)["y"], want, rtol=1e-6)
    np.testing.assert_allclose(dict(prepare_saved(tmp_path)(program.graph, given)())["y"], want, rtol=1e-6)
    assert "loop0: any number of steps of " in program.explain()
    assert "up to 30 steps of " in autocomp.optimize(ended(30), target="cpu").explain()
    assert program.predicted < 1e-3  # a price of some steps, not of all that there might be
    for target in ("ascend:910b", "cuda:h200"):
        with pytest.raises(UnsupportedOp, match=r"a loop of any number of steps: (.|\n)*a bound of at most 1024 steps"):
            autocomp.optimize(ended(ENDLESS), target=target, cache=False)
        assert not autocomp.optimize(ended(3), target=target, cache=False).calls.loops


def test_a_loop_of_many_steps_in_a_loop_is_refused():
    b = Builder()
    h, c = b.input("h", TensorType(F32, (6,))), b.input("c", TensorType(F32, (6,)))
    inner = lambda h: loop(b, [h], [], lambda x, _: ([b.op("mul", x[0], c)], []), 2000)[0]
    b.output("y", loop(b, [h], [], lambda x, _: (inner(x[0]), []), 3)[0][0])
    with pytest.raises(UnsupportedOp, match="a loop of 2000 steps in the body of a loop, where up to 1024 are unrolled"):
        autocomp.optimize(b.graph(), target="cpu", cache=False)


def test_a_donated_input_that_a_loop_makes_is_refused():
    with pytest.raises(UnsupportedOp, match="a loop, makes its new value a step at a time"):
        autocomp.optimize(network(4), target="cpu", donate=["h"])
