"""Compilation ends: fixpoints end for every number, and what grows is stopped by counts, with a usable program and a note."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.budget import Deadline
from autocomp.errors import AutocompError
from autocomp.options import Options
from autocomp.trace import Trace
from tests.helpers.time_limits import within

NAN = {
    "a product with it": "%0 = mul(x, const(nan, f32))\n%1 = add(%0, const(0.0, f32))",
    "a choice of it": "%0 = div(x, const(1.0, f32))\n%c = gt(x, const(0.5, f32))\n%1 = where(%c, const(nan, f32), %0)",
    "spread": "%n = broadcast(const(nan, f32), shape=[3])\n%0 = mul(x, const(1.0, f32))\n%1 = add(%n, %0)",
    "cast": "%n = cast(const(nan, f64), to=\"f32\")\n%0 = mul(x, const(1.0, f32))\n%1 = add(%n, %0)",
}


@pytest.mark.parametrize("body", NAN.values(), ids=NAN)
def test_facts_about_a_constant_that_is_no_number_are_settled(body):
    """NaN differs from itself, and yet facts of classes come to an end once a rule has united two of them."""
    with within(30):
        program = autocomp.optimize(f"graph g\ninput x: f32[3]\n{body}\noutput y = %1\n", cache=False)
    x = np.array([0.25, 0.5, 0.75], np.float32)
    want = {"a choice of it": np.where(x > 0.5, np.nan, x)}
    np.testing.assert_array_equal(program(x), want.get(next(k for k, v in NAN.items() if v == body), np.full(3, np.nan)))


LAYERS = "\n".join(["graph g", "input x: f32[8, 32]", "param w: f32[32, 32] = random(1)", *(
    f"%m{k} = matmul({f'%a{k - 1}' if k else 'x'}, w)\n%r{k} = relu(%m{k})\n%a{k} = add(%r{k}, x)" for k in range(6)),
    "%s = softmax(%a5, axes=[1])", "%t = reduce_sum(%r2, axes=[0])", "output y = %s", "output z = %t"]) + "\n"  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "cuda:h200", "maca:c500"])
def test_a_deadline_that_is_over_leaves_a_program_of_unfused_kernels(target):
    """Each stage goes on with what it has; the trace and the explanation say what was left undone."""
    program = autocomp.optimize(LAYERS, target=target, cache=False, deadline=1e-9)
    assert {e.name for e in program.trace.of("budget")} >= {"saturate", "cover", "schedule"}
    assert "deadline" in program.explain()
    assert len(program.kernels) > len(autocomp.optimize(LAYERS, target=target, cache=False).kernels)
    if target == "cpu":
        program.verify()


def test_what_a_deadline_cut_is_not_kept(monkeypatch):
    kept: list[str] = []
    monkeypatch.setattr("autocomp.pipeline.store_program", lambda key, program: kept.append(key))
    monkeypatch.setattr("autocomp.egraph.kernel_memo.ScheduleMemo.put", lambda *a: kept.append("schedule"))
    autocomp.optimize(LAYERS, deadline=1e-9)
    assert kept == []
    autocomp.optimize(LAYERS)
    assert "schedule" in kept
    assert len(kept) > 1


def test_a_deadline_grows_with_the_graph_and_zero_is_none():
    assert Deadline.of(Options(deadline=10.0), 3000, Trace()).seconds == 40.0
    assert not Deadline.of(Options(deadline=0.0), 3000, Trace()).passed("cover", "all of it")
    with pytest.raises(AutocompError, match=r"deadline is -1.0, no less than 0"):
        Options(deadline=-1.0)


def test_constants_are_folded_however_long_their_chain_is():
    steps = "\n".join(f"%{k} = {('neg', 'abs')[k % 2]}({f'%{k - 1}' if k else 'w'})" for k in range(3000))
    with within(60):
        text = f"graph g\ninput x: f32[3]\nparam w: f32[3] = ones\n{steps}\n%z = add(x, %2999)\noutput y = %z\n"
        program = autocomp.optimize(text, cache=False)
    np.testing.assert_array_equal(program(np.zeros(3, np.float32)), np.ones(3))
