"""A body that every schedule refutes, much dearer than the cover took it for, gives way to a cover without it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import autocomp
from autocomp import deadline
from autocomp.cost.scalar import SCALAR
from autocomp.cost.work import Cost
from autocomp.egraph import printable
from autocomp.egraph.cut import Cut, Known
from autocomp.egraph.grammar import LOADED
from autocomp.ir.schedule import Schedule
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeating


@pytest.mark.parametrize(("rows", "columns"), repeating([(22522, 1776), (138888, 72)], {(22522, 1776): "longer columns"}))
def test_columns_too_long_for_a_core_are_normalised_apart(rows, columns, monkeypatch):
    """One body would read each column twice, a core a column; a body that fits stays one (below)."""
    text = graph({"x": f"f32[{rows}, {columns}]"}, "%0 = softmax(x, axes=[0])")
    program = autocomp.optimize(text, target="cuda:h200")
    assert len(program.kernels) > 1
    monkeypatch.setattr(printable, "DEAR", 1e9)
    whole = autocomp.optimize(text, target="cuda:h200", cache=False)
    bodies = {k.name.removesuffix("_part").removesuffix("_join") for k in whole.kernels}  # one, done in parts or not
    assert len(bodies) == 1 and program.predicted < 0.85 * whole.predicted


def test_a_body_that_was_refuted_beside_others_may_come_back(monkeypatch):
    """A maximum of f16 that casts as it reads took longer than its cover said; without it the cast is stored."""
    body = "%0 = cast(x, to=\"f32\")\n%1 = softmax(%0, axes=[0])\n%2 = cast(%1, to=\"f16\")"
    text = graph({"x": "f16[39062, 256]"}, body)
    monkeypatch.setattr(printable, "waiting", lambda *_: frozenset())  # one kernel for both statistics would hide it
    program = autocomp.optimize(text, target="cuda:h200", cache=False)
    assert all(k.ops != ("cast",) for k in program.kernels)
    monkeypatch.setattr(printable, "KNOWN", 0)
    before = autocomp.optimize(text, target="cuda:h200", cache=False)
    assert any(k.ops == ("cast",) for k in before.kernels) and program.predicted < 0.8 * before.predicted


def test_the_last_cover_is_made_of_bodies_that_have_schedules(monkeypatch):
    """Covers by known times take a body without a schedule at its price, which is a bound."""
    known, done = [], []
    cover = printable.covers.cover

    def counted(*x):
        before = x[6].done
        found = cover(*x)
        known.append((x[7], x[7] is not None and x[7].settled))
        done.append(x[6].done - before)
        return found

    monkeypatch.setattr(printable.covers, "cover", counted)
    text = graph({"x": "f16[39062, 256]"}, "%0 = cast(x, to=\"f32\")\n%1 = softmax(%0, axes=[0])\n%2 = cast(%1, to=\"f16\")")
    monkeypatch.setattr(printable, "waiting", lambda *_: frozenset())
    autocomp.optimize(text, target="cuda:h200", cache=False)
    assert [settled for _, settled in known] == [False] * (len(known) - 1) + [True]
    assert done[-1] < 0.9 * done[0]  # parts of other bodies are not joined


def test_no_other_cover_is_tried_once_the_time_is_over(monkeypatch):
    """It would have a kernel for each operation, which it takes long to schedule and which the first does without."""
    tried, now = [], [0.0]
    cover, choose = printable.covers.cover, printable.choose.choose_schedules
    monkeypatch.setattr(printable.covers, "cover", lambda *x: tried.append(x) or cover(*x))
    monkeypatch.setattr(printable, "waiting", lambda *_: frozenset())
    text = graph({"x": "f16[39062, 256]"}, "%0 = cast(x, to=\"f32\")\n%1 = softmax(%0, axes=[0])\n%2 = cast(%1, to=\"f16\")")
    autocomp.optimize(text, target="cuda:h200", cache=False, deadline=60)
    assert len(tried) > 2
    monkeypatch.setattr(deadline, "clock", lambda: now[0])
    for scheduled in range(1, len(tried)):
        tried.clear()
        now[0] = 0.0

        def until(*x, scheduled=scheduled):
            found = choose(*x)
            now[0] = 100.0 if len(tried) >= scheduled else 0.0
            return found

        monkeypatch.setattr(printable.choose, "choose_schedules", until)
        program = autocomp.optimize(text, target="cuda:h200", cache=False, deadline=60)
        assert len(tried) == scheduled
        assert "the deadline of 60 s ended cover, which left out other covers" in program.explain()


def test_what_is_known_is_taken_before_what_looks_cheaper():
    cut = Cut(1, frozenset({2}), frozenset({3}), frozenset({1}), LOADED, 1, {}, frozenset(), frozenset(), frozenset())
    other = cut._replace(leaves=frozenset({4}))
    known = Known()
    known.add(cut.key(), cut.alike(), 5.0, 1.0)
    known.times.clear()
    assert known.of(other, (), 1.0) < known.of(cut, (), 1.0) == 5.0
    known.settled = True
    assert known.of(other, (), 1.0) > known.of(cut, (), 1.0) == 5.0


def test_a_norm_in_front_of_a_wide_product_is_a_kernel_of_its_own(monkeypatch):
    """One kernel for both was counted at little more than the product and takes nearly twice as long: each of its tiles norms the row. Of a
    program of few kernels no other cover is tried so."""
    others = {f"z{k}": f"f32[{100 + k}, {50 + k}]" for k in range(8)}
    text = graph({"x": "bf16[1, 4096]", "g": "bf16[4096]", "w": "bf16[4096, 128256]"} | others, """%0 = cast(x, to="f32")
        %1 = mul(%0, %0)
        %2 = reduce_mean(%1, axes=[1], keepdims=True)
        %3 = rsqrt(%2)
        %4 = mul(%0, %3)
        %5 = cast(%4, to="bf16")
        %6 = mul(g, %5)
        %y = matmul(%6, w)""") + "".join(f"%e{k} = exp({z})\noutput {z}e = %e{k}\n" for k, z in enumerate(others))
    program = autocomp.optimize(text, target="cuda:h200", cache=False)
    monkeypatch.setattr(printable, "DEARER", 1e9)
    before = autocomp.optimize(text, target="cuda:h200", cache=False)
    assert len(before.kernels) < len(program.kernels) and program.predicted < 0.7 * before.predicted


@pytest.mark.parametrize(("dear", "others", "refuted"), [(1, 0, 1), (11, 0, 11), (3, 20, 3), (1, 20, 0)])
def test_dear_bodies_are_counted_together(dear, others, refuted):
    """Bodies each of which takes less than a tenth of the program are refuted where all of them take more."""
    program = autocomp.optimize(graph({"x": "f32[60, 70]"}, "%0 = softmax(x, axes=[1])"), target="cuda:h200")
    (call,) = program.calls.calls
    call = replace(call, body=(1, 2))
    kernels = [replace(call.kernel, signature=f"{i}") for i in range(dear + others)]
    calls = [replace(call, kernel=k, expected=1e-4 if i < dear else 3e-4) for i, k in enumerate(kernels)]
    taken = {k.signature: (Schedule(), Cost(3e-4, "memory", ())) for k in kernels}
    found = printable._dear(replace(program.calls, calls=tuple(calls)), taken, 1e-6)
    assert found == calls[:refuted]


def test_columns_that_fit_stay_in_one_body():
    program = autocomp.optimize(graph({"x": "f32[3000, 3000]"}, "%0 = softmax(x, axes=[0])"), target="cuda:h200")
    assert len(program.kernels) == 1


@pytest.mark.parametrize(("keys", "head"), repeating([(77, 256), (80, 256), (77, 192), (128, 256)], {(80, 256): "77 and 128 keys"}))
def test_scores_of_few_keys_are_not_stored(keys, head):
    """What reads scores from memory multiplies by single waves; at the rate of warpgroups it looked cheaper than one body of both."""
    body = """%0 = transpose(k, perm=[0, 2, 1])
        %1 = matmul(q, %0)
        %2 = softmax_weighted_sum(%1, v)"""
    text = graph({"q": f"f16[34, 2048, {head}]", "k": f"f16[34, {keys}, {head}]", "v": f"f16[34, {keys}, {head}]"}, body)
    assert len(autocomp.optimize(text, target="cuda:h200").kernels) == 1


def test_a_row_by_a_tall_matrix_is_a_sum_of_products():
    """As a product it fills a 16th of a wave's rows: 1174 us, 155 as a sum (H200, 2026-11-28)."""
    program = autocomp.optimize(graph({"x": "f32[1, 143744]", "y": "f32[143744, 1024]"}, "%0 = matmul(x, y)"), target="cuda:h200")
    assert program.predicted < 200e-6 and all("reduce_sum" in k.ops for k in program.kernels)


def test_a_product_whose_columns_cost_more_to_cut_than_to_store_apart_is_not_filled_up(monkeypatch):
    """bf16 512 x 190 x 32 x 929: 212 us with a copy that cuts off 7 columns, 121 without (H200, 2026-11-28)."""
    text = graph({"x": "bf16[512, 190, 32]", "y": "bf16[512, 32, 929]"}, "%0 = matmul(x, y)")
    program = autocomp.optimize(text, target="cuda:h200")
    assert [k.ops for k in program.kernels] == [("matmul",)]
    monkeypatch.setattr(printable, "_copied_on", lambda *_: frozenset())
    filled = autocomp.optimize(text, target="cuda:h200", cache=False)
    assert len(filled.kernels) == 3 and program.predicted < 0.7 * filled.predicted


def test_columns_of_a_deep_product_are_filled_up():
    program = autocomp.optimize(graph({"x": "f16[4048, 1856]", "y": "f16[1856, 995]"}, "%0 = matmul(x, y)"), target="cuda:h200")
    assert {"pad", "slice"} <= {op for k in program.kernels for op in k.ops}


def recursion(steps: int) -> str:
    """Sums of exponentials over few states, step by step (a conditional random field): bodies so small that they go element by element."""
    step = ("%s{0} = add(%b{1}, t)\n%m{0} = reduce_max(%s{0}, axes=[1], keepdims=True)\n%d{0} = sub(%s{0}, %m{0})\n%e{0} = exp(%d{0})\n"
            "%r{0} = reduce_sum(%e{0}, axes=[1], keepdims=True)\n%l{0} = log(%r{0})\n%u{0} = add(%l{0}, %m{0})\n"
            "%y{0} = slice(y, starts=[0, {0}, 0], limits=[2, {2}, 9], steps=[1, 1, 1])\n%v{0} = add(%u{0}, %y{0})\n"
            "%b{0} = reshape(%v{0}, shape=[2, 9, 1])")  # fmt: skip
    first = "%a = slice(y, starts=[0, 0, 0], limits=[2, 1, 9], steps=[1, 1, 1])\n%b0 = reshape(%a, shape=[2, 9, 1])"
    lines = [first, *(step.format(i, i - 1, i + 1) for i in range(1, steps)), f"%0 = neg(%b{steps - 1})"]
    return graph({"y": f"f32[2, {steps}, 9]", "t": "f32[9, 9]"}, "\n".join(lines))


def covers_of(text: str, monkeypatch) -> int:
    """How many covers of a graph are looked at."""
    counts = []
    whole = printable._kernels
    monkeypatch.setattr(printable, "_kernels", lambda *a, **k: counts.append(1) or whole(*a, **k))
    autocomp.optimize(text, target="cuda:h200", cache=False)
    return len(counts)


def test_covers_that_are_not_expected_to_be_cheaper_are_not_scheduled(monkeypatch):
    """Convolutions of few channels take twice what covers count, whichever way: 13 covers were scheduled, the first was the cheapest."""
    inputs = {"x": "f16[2, 24, 12, 12]"} | {f"w{i}": "f16[24, 24, 3, 3]" for i in range(9)}
    layer = ("%c{0} = conv({1}, w{0}, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=1)\n"
             "%r{0} = relu(%c{0})\n%a{0} = add(%r{0}, {1})")  # fmt: skip
    assert covers_of(graph(inputs, "\n".join(layer.format(i, f"%a{i - 1}" if i else "x") for i in range(9))), monkeypatch) <= 5


def test_a_cover_whose_bodies_alone_have_schedules_is_the_last(monkeypatch):
    """Small kernels take longer than covers count, but no other cover was seen whose bodies the last one could take."""
    sizes = {f"x{k}": f"f32[{100 + k}, {50 + k}]" for k in range(9)}
    text = graph(sizes, "".join(f"%e{k} = exp(x{k})\noutput x{k}e = %e{k}\n" for k in range(8)) + "%e8 = exp(x8)")
    assert covers_of(text, monkeypatch) == 2  # by prices, and by what is known


def test_known_bodies_are_found_by_each_node():
    known = Known()
    for leaves, nodes in (({9}, {1, 2}), ({8}, {2, 3}), ({7}, {2, 3})):
        known.add((2, frozenset(leaves), frozenset(nodes), frozenset()), (), 1.0, 1.0)
    bodies = known.bodies()
    assert bodies.keys() == {1, 2, 3} and bodies[1] == [frozenset({1, 2})] and set(bodies[2]) == {frozenset({1, 2}), frozenset({2, 3})}


def test_a_body_takes_no_more_without_its_by_products():
    cut = Cut(1, frozenset({2}), frozenset({3}), frozenset({1}), LOADED, 1, {}, frozenset(), frozenset(), frozenset())
    known = Known()
    known.add(cut.key((4,)), cut.alike(), 5.0, 1.0)
    assert known.of(cut, (), 1.0) == 5.0
    known.add(cut.key(), cut.alike(), 3.0, 1.0)
    known.add(cut.key((7,)), cut.alike(), 9.0, 1.0)
    assert known.of(cut, (), 1.0) == 3.0 and known.of(cut, (4,), 1.0) == 5.0


@pytest.mark.parametrize("chip", ["910b1", "310p"])
def test_covers_end_where_none_of_them_may_be_the_cheapest(chip, monkeypatch):
    """A program of bodies that go element by element because they are small was covered once more for each of them."""
    counts = []
    whole = printable._kernels
    monkeypatch.setattr(printable, "_kernels", lambda *a, **k: counts.append(1) or whole(*a, **k))
    text = recursion(5)
    program = autocomp.optimize(text, target=f"ascend:{chip}", cache=False)
    few = len(counts)
    monkeypatch.setattr(printable._Found, "may_gain", lambda *a: True)
    counts.clear()
    every = autocomp.optimize(text, target=f"ascend:{chip}", cache=False)
    assert few + 4 <= len(counts) and program.predicted == every.predicted


@pytest.mark.parametrize("seed", repeating([1, 2, 3], {2: "sizes", 3: "sizes"}))
def test_a_convolution_that_scalar_units_would_sum_is_dear_in_the_first_cover(seed, monkeypatch):
    """A core with both units multiplies factors as they lie in memory: no borders, no taps beside each other, nothing computed.
    A cover that takes others for the cube unit's is refuted layer by layer, which a deadline ends."""
    r = Random(seed)
    channels, size, window = 16 * r.randint(2, 8), r.randint(9, 30), r.choice((3, 5))
    attrs = f"strides=[1, 1], lo=[{window // 2}, 1], hi=[1, {window // 2}], dilations=[1, 1], groups=1"
    lines = f"%0 = conv(x, w, {attrs})\n%1 = relu(%0)\n%2 = conv(%1, v, {attrs})\n%3 = relu(%2)"
    shape = f"f16[{channels}, {channels}, {window}, {window}]"
    for name in ("COVERS", "MORE", "KNOWN"):
        monkeypatch.setattr(printable, name, int(name == "COVERS"))
    program = autocomp.optimize(graph({"x": f"f16[1, {channels}, {size}, {size}]", "w": shape, "v": shape}, lines),
                                target="ascend:310p", cache=False)  # fmt: skip
    products = [k.schedule for k in program.kernels if "matmul" in k.name or "conv" in k.name]
    assert products and not [s for s in products if SCALAR in s]
