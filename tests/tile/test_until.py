"""Loops that a mask ends early: the same result, and fewer iterations."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.ir.schedule import Schedule
from autocomp.tile import meaning
from autocomp.tile.derive import derive
from autocomp.tile.text import parse, show

N, D = 37, 8


def masked(comparison: str) -> str:
    lines = ["graph g", *(f"input {a}: f32[{N}, {D}]" for a in "qkv"), "%0 = transpose(k, perm=[1, 0])", "%1 = matmul(q, %0)",
             f"%r = iota(shape=[{N}, {N}], axis=0)", f"%c = iota(shape=[{N}, {N}], axis=1)", f"%m = {comparison}",
             "%2 = where(%m, %1, const(-inf, f32))", "%3 = softmax(%2, axes=[1])", "%4 = matmul(%3, v)", "output y = %4"]  # fmt: skip
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("comparison", "until"), [("ge(%r, %c)", "+0"), ("le(%c, %r)", "+0"), ("gt(%r, %c)", "+-1")])
def test_a_causal_mask_ends_the_loop(comparison, until):
    kernel = autocomp.optimize(masked(comparison), target="cpu").calls.calls[0].kernel
    rows, keys = kernel.axes[0].name, "r1"
    program = derive(kernel, Schedule.make({rows: 8, keys: 4}))
    text = show(program)
    assert f"until={rows}{until}" in text
    assert show(parse(text)) == text
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((N, D)) for _ in range(3))
    got = meaning.run(program, dict(zip([a.name for a in kernel.inputs], (q, k, v))))["out0"]
    i, j = np.indices((N, N))
    keep = i > j if until == "+-1" else i >= j
    with np.errstate(invalid="ignore"):
        s = np.where(keep, q @ k.T, -np.inf)
        e = np.exp(s - s.max(1, keepdims=True))
        want = e / e.sum(1, keepdims=True) @ v
    np.testing.assert_allclose(got[1:], want[1:], rtol=1e-9)


def test_other_masks_do_not():
    kernel = autocomp.optimize(masked("le(%r, %c)"), target="cpu").calls.calls[0].kernel
    assert "until" not in show(derive(kernel, Schedule.make({kernel.axes[0].name: 8, "r1": 4})))
