"""Printed CUDA programs against the float64 reference: odd sizes, tails, fresh inputs, outputs poisoned first."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.frontends.text import parse
from autocomp.runtime.cuda import started_early
from autocomp.runtime.inputs import random_inputs
from tests.helpers import fresh
from tests.helpers.device_graphs import GOLDEN, GRAPHS
from tests.helpers.device_runs import poison
from tests.helpers.split_depth import PROGRAMS, on_device
from tests.targets.test_sums_at import CASES, TURNS, drawn_sums


@pytest.mark.parametrize("name", GRAPHS)
def test_program_matches_the_float64_reference(name):
    program = autocomp.optimize(GRAPHS[name], target="cuda")
    poison(program)
    program.run(random_inputs(program.graph, 0))
    for _ in range(2):
        seed = fresh.seed()
        try:
            assert program.verify(seed=seed).ratio <= 1
        except autocomp.VerificationError as e:
            raise AssertionError(f"seed {seed}: {e}") from None


@pytest.mark.parametrize("name", GOLDEN["a100"])
def test_what_is_printed_for_an_older_chip_runs_too(name):
    program = autocomp.optimize(GRAPHS[name], target="cuda:a100")
    poison(program)
    assert program.verify(seed=fresh.seed()).ratio <= 1


@pytest.mark.parametrize(("kind", "name"), PROGRAMS)
def test_depth_that_blocks_share_out_adds_up(kind, name):
    program = on_device(kind, name)
    poison(program)
    feed = random_inputs(program.graph, 0)
    first = program.run(feed)["out"]
    for _ in range(5):
        assert program.verify(seed=fresh.seed()).ratio <= 1
        np.testing.assert_array_equal(first, program.run(feed)["out"])


@pytest.mark.parametrize("negated", ["neg(a)", "sub(const(0, i32), a)", "mul(a, const(-1, i32))"])
@pytest.mark.parametrize(("reduce", "want"), [("reduce_max", np.max), ("reduce_min", np.min)])
def test_extremes_of_negated_integers(negated, reduce, want):
    """ptxas joins two maxima to one instruction and loses a sign."""
    text = f"graph g\ninput a: i32[64, 65]\n%0 = {negated}\n%1 = {reduce}(%0, axes=[0], keepdims=False)\noutput y = %1\n"
    a = np.random.default_rng(0).integers(-50, 50, (64, 65)).astype("i4")
    np.testing.assert_array_equal(autocomp.optimize(parse(text), target="cuda")(a), want(-a, axis=0))


def test_runs_of_one_input_are_equal_bit_by_bit():
    program = autocomp.optimize(GRAPHS["gemm_bias_gelu"], target="cuda")
    feed = random_inputs(program.graph, 3)
    first = program.run(feed)["out"]
    for _ in range(5):
        np.testing.assert_array_equal(first, program.run(feed)["out"])


def test_launches_that_overlap_change_no_byte(monkeypatch):
    """A chain of products and softmaxes whose intermediates take each other's places in memory: overlapping and one after another."""
    layers = "".join(f"%{3 * i} = matmul({f'%{3 * i - 1}' if i else 'x'}, w{i})\n%{3 * i + 1} = softmax(%{3 * i}, axes=[1])\n"
                     f"%{3 * i + 2} = add(%{3 * i + 1}, x)\n" for i in range(6))  # fmt: skip
    weights = "".join(f"param w{i}: f16[512, 512] = random({i})\n" for i in range(6))
    program = autocomp.optimize(f"graph g\ninput x: f16[640, 512]\n{weights}{layers}output out = %17\n", target="cuda")
    feed = random_inputs(program.graph, 1)
    runs = [program.run(feed)["out"] for _ in range(20)]
    starts, _ = started_early(program.calls.calls, program.printed, {})
    assert starts.count(True) == (len(starts) - 1) * all(s.launch.overlaps for s in program.printed.values())
    monkeypatch.setattr("autocomp.runtime.cuda.started_early", lambda calls, *_: ([False] * len(calls), False))
    program.executor.lanes.main.ready.clear()
    want = program.run(feed)["out"]
    for got in runs:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("text", "dtype", "size"), CASES)
def test_sums_at_indices(text, dtype, size):
    """By atomics; twice, so that what the first call left is cleared."""
    program = autocomp.optimize(text, target="cuda", without=TURNS)
    poison(program)
    for _ in range(2):
        inputs, want, bound = drawn_sums(program, text, dtype, size)
        np.testing.assert_allclose(program.run(inputs)["y"].astype(want.dtype), want, rtol=0, atol=bound)
