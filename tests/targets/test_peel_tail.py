"""Whole tiles of a map move vectors, the tile that an end cuts moves elements; of rows that threads keep, only elements that the end may
cut are compared with it (directive `peel_tail`): odd lengths."""

from __future__ import annotations

import re

import numpy as np
import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import GPUS

RULE = "directives/peel-tail"
BODY = "%a = tanh(x)\n%out = mul(%a, y)"


def widths(text: str) -> set[int]:
    """Elements of a printed kernel's accesses to memory."""
    return {int(n) for n in re.findall(r"\bac_(?:load|store)(?:_\w+)?<(\d+)>", text.partition("*/")[2])}


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize(("shape", "other", "dtype", "wide"), [
    ((4097,), (4097,), "f16", 8), ((1,), (1,), "f16", 0), ((7,), (7,), "f16", 0), ((17, 301), (17, 301), "f16", 8),
    ((5003,), (1,), "f16", 8), ((2055,), (2055,), "f32", 4),
    ((64, 301), (301,), "f16", 1),  # rows of 602 bytes begin anywhere
])  # fmt: skip
def test_every_length_is_right(target, shape, other, dtype, wide, model, tmp_path):
    by_hand = {"tanh_mul": f"tile i0 {128 * wide} | threads 128 | peel_tail"} if wide > 1 else {}
    program = autocomp.optimize(graph({"x": f"{dtype}{list(shape)}", "y": f"{dtype}{list(other)}"}, BODY), target=target, schedule=by_hand)
    (text,) = program.sources.values()
    assert ("peel_tail" in program.kernels[0].schedule) == (wide > 1) and (not wide or max(widths(text)) == wide)
    program.executor = ModelExecutor(program, tmp_path, model)
    x, y = (fresh.rng().standard_normal(s).astype({"f16": "f2", "f32": "f4"}[dtype]) for s in (shape, other))
    got = program.run({"x": x, "y": y})["out"].astype("f8")
    np.testing.assert_allclose(got, np.tanh(x.astype("f8")) * y.astype("f8"), rtol=4e-3 if dtype == "f16" else 1e-5, atol=1e-6)


def test_no_vector_is_cut_where_the_length_is_whole_or_the_rule_is_left_out():
    whole = autocomp.optimize(graph({"x": "f16[16271032]", "y": "f16[16271032]"}, BODY), target="cuda:h200")
    assert "peel_tail" not in whole.kernels[0].schedule and widths(*whole.sources.values()) == {8}
    text = graph({"x": "f16[16271027]", "y": "f16[16271027]"}, BODY)
    odd, apart = (autocomp.optimize(text, target="cuda:h200", cache=False, without=w) for w in ((), (RULE,)))
    assert widths(*odd.sources.values()) == {1, 8} and widths(*apart.sources.values()) == {1}
    assert "if (i0_b + " in next(iter(odd.sources.values()))


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize(("dtype", "elements", "peeled"), [("f32", 1024, True), ("f16", 1024, True), ("f32", 512, False)])
def test_rows_that_begin_anywhere_are_peeled_where_a_thread_has_more_elements_than_conditions(
    target, dtype, elements, peeled, model, tmp_path
):
    """A channel's factor and rows of 2501: no vectors, and seven loads at a time where each is compared for itself."""
    text = graph({"x": f"{dtype}[3, 5, 2501]", "y": f"{dtype}[5, 1]"}, "%out = mul(x, y)")
    program = autocomp.optimize(
        text, target=target, schedule={"mul": f"tile i0 1, i1 1, i2 {elements} | threads 128 | peel_tail"}, cache=False
    )
    (printed,) = program.sources.values()
    assert (f"+ {elements} <= 2501)" in printed) == peeled and widths(printed) == {1}
    program.executor = ModelExecutor(program, tmp_path, model)
    x, y = (fresh.rng().standard_normal(s).astype({"f16": "f2", "f32": "f4"}[dtype]) for s in ((3, 5, 2501), (5, 1)))
    np.testing.assert_allclose(program.run({"x": x, "y": y})["out"], x * y, rtol=1e-6)


def test_lengths_that_only_a_call_knows_are_peeled(model, tmp_path):
    if not COMPILER:
        pytest.skip("no C++ compiler (g++ or clang++)")
    program = autocomp.optimize("graph g\ndim n in 1..100000\n" + graph({"x": "f16[n]", "y": "f16[n]"}, BODY).partition("\n")[2],
                                target="cuda:h200")  # fmt: skip
    assert 8 in widths(*program.sources.values())
    program.executor = ModelExecutor(program, tmp_path, model)
    for n in (1, 8, 4099):
        x, y = (fresh.rng().standard_normal(n).astype("f2") for _ in "xy")
        got = program.run({"x": x, "y": y})["out"].astype("f8")
        np.testing.assert_allclose(got, np.tanh(x.astype("f8")) * y.astype("f8"), rtol=4e-3, atol=1e-6)


def test_what_is_not_peeled_moves_no_vector_that_an_end_may_cut(model, tmp_path):
    """The threads' share of a tile of 1000 sticks out of it, so no condition about the tile holds for all of them."""
    text, schedule = graph({"x": "f16[4099]"}, "%out = exp(x)"), {"exp": "tile i0 1000 | threads 64 | peel_tail"}
    program = autocomp.optimize(text, target="cuda:h200", schedule=schedule, cache=False)
    assert widths(*program.sources.values()) == {1}
    if COMPILER:
        program.executor = ModelExecutor(program, tmp_path, model)
        program.verify()


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize(("rows", "width", "schedule", "first"), [
    (3, 1003, "tile i0 1 | threads 128", 7), (5, 2999, "tile i0 1 | threads 128", 23), (4, 127, "tile i0 2 | threads 128", 1),
    (3, 1003, "tile i0 2 | threads 128", 15), (2, 1022, "tile i0 1 | threads 128", 6), (3, 100, "tile i0 1 | threads 128", 0),
])  # fmt: skip
def test_only_elements_that_the_end_may_cut_are_compared(target, rows, width, schedule, first, model, tmp_path):
    """A softmax and its logarithm's sum: a maximum and two sums of one row, of numbers below and above 0."""
    body = "%a = softmax(x, axes=[1])\n%b = mul(%a, %a)\n%out = reduce_sum(%b, axes=[1], keepdims=False)"
    text = graph({"x": f"f32[{rows}, {width}]"}, body)
    (name,) = (k.name for k in autocomp.optimize(text, target=target).kernels)
    by_hand, without = ({name: f"{schedule}{more}"} for more in (" | peel_tail", ""))
    peeled, plain = (autocomp.optimize(text, target=target, schedule=s, cache=False) for s in (by_hand, without))
    found = {int(n) for n in re.findall(r"\((?:q|r|\(?q \* \d+\)?) < (\d+) \|\| ", next(iter(peeled.sources.values())))}
    assert found == ({first} if first else set()), found
    assert "||" not in next(iter(plain.sources.values())).partition("*/")[2]
    peeled.executor = ModelExecutor(peeled, tmp_path, model)
    x = fresh.rng().standard_normal((rows, width)).astype("f4") - 3
    e = np.exp(x.astype("f8") - x.max(axis=1, keepdims=True))
    want = ((e / e.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
    np.testing.assert_allclose(peeled.run({"x": x})["out"], want, rtol=2e-5)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize(("op", "width", "first"), [("cumprod", 301, 4), ("cumsum", 319, 4), ("cumsum", 256, 0)])
def test_a_scan_compares_its_last_elements_alone(target, op, width, first, model, tmp_path):
    """Where each element is compared, compilers load it behind the one before: one load of 29 was under way (93.8 us for 37.7)."""
    text = graph({"x": f"f32[3, {width}]"}, f"%a = mul(x, const(0.01, f32))\n%b = add(%a, const(1.0, f32))\n%out = {op}(%b, axis=1)")
    (name,) = (k.name for k in autocomp.optimize(text, target=target).kernels)
    program, plain = (autocomp.optimize(text, target=target, schedule={name: f"tile i0 1 | threads 64 | scan{more}"}, cache=False)
                      for more in (" | peel_tail", ""))  # fmt: skip
    found = re.findall(r"\((?:q|r) < (\d+) \|\| ", next(iter(program.sources.values())))
    assert set(found) == ({str(first)} if first else set()) and len(found) == (3 if first else 0), found
    assert "||" not in next(iter(plain.sources.values())).partition("*/")[2]
    program.executor = ModelExecutor(program, tmp_path, model)
    x = fresh.rng().standard_normal((3, width)).astype("f4")
    np.testing.assert_allclose(program.run({"x": x})["out"], getattr(np, op)(x.astype("f8") * 0.01 + 1, axis=1), rtol=1e-5)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize(("op", "axis", "reverse", "shape"), [
    ("cumprod", 1, False, (5, 1433)), ("cumsum", 1, True, (3, 1025)), ("cumsum", 0, False, (777, 9)), ("cumsum", 1, False, (4, 1024)),
])  # fmt: skip
def test_turns_of_a_scan_that_no_end_cuts_compare_nothing(target, op, axis, reverse, shape, model, tmp_path):
    """One of 16 loads of a thread was under way: 243 x 16433 took 54 us where 22 were priced (H200, 2026-11-30)."""
    turn = f"tile i{axis} 512, i{1 - axis} {1 if axis else 4} | threads 128 | scan"
    text = graph({"x": f"f32{list(shape)}"}, f"%o = {op}(x, axis={axis}, reverse={reverse}, exclusive=False)")
    program = autocomp.optimize(text, target=target, schedule={op: f"{turn} | peel_tail"})
    (printed,) = program.sources.values()
    assert (f"<= {shape[axis]})" in printed) == (shape[axis] % 512 > 0)
    program.executor = ModelExecutor(program, tmp_path, model)
    x = 1 + 0.01 * fresh.rng().standard_normal(shape).astype("f4")
    turned = np.flip(x, axis) if reverse else x
    want = getattr(np, op)(turned.astype("f8"), axis=axis)
    np.testing.assert_allclose(program.run({"x": x})["out"], np.flip(want, axis) if reverse else want, rtol=1e-4)
