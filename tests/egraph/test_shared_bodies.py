"""Equal bodies over other tensors are built once, and only those: what differs in sharing, types or constants has a shape of its own."""

from __future__ import annotations

import numpy as np
import pytest

from autocomp.egraph import bodies
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph
from autocomp.ir.types import F32, TensorType
from tests.helpers import fresh
from tests.helpers.covers import cover_of, run_cover

SQUARE = TensorType(F32, (48, 48))


def chain(layers: int) -> Graph:
    """x -> exp(x @ w) + w', a weight and a bias a layer."""
    b = Builder("chain")
    x = b.input("x", SQUARE)
    for n in range(layers):
        w, v = (b.input(f"{name}{n}", SQUARE) for name in "wv")
        x = b.op("add", b.op("exp", b.op("matmul", x, w)), v)
    b.output("y", x)
    return b.graph()


def test_a_layer_that_repeats_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    real = bodies.build_kernel
    monkeypatch.setattr(bodies, "build_kernel", lambda *args: built.append(args) or real(*args))
    calls = cover_of(chain(5)).calls
    assert len(calls) == 5 and len({c.kernel.signature for c in calls}) == 1
    assert len(built) == 1
    assert [sorted(t for t in c.args.values() if t[0] in "wv") for c in calls] == [[f"v{n}", f"w{n}"] for n in range(5)]


def shared(one: bool) -> Graph:
    """Two products to which a factor is added: the first one to both, or once the first and once the second."""
    b = Builder("shared")
    a, w = (b.input(n, SQUARE) for n in "aw")
    b.output("y", b.op("add", b.op("matmul", a, w), a))
    b.output("z", b.op("add", b.op("matmul", w, a), w if one else a))
    return b.graph()


@pytest.mark.parametrize("one", [True, False])
def test_bodies_that_share_tensors_otherwise_are_kernels_of_their_own(one: bool) -> None:
    cover = cover_of(shared(one))
    assert len({c.kernel.signature for c in cover.calls}) == (1 if one else 2)
    rng = fresh.rng()
    a, w = (rng.standard_normal((48, 48)).astype(np.float32) for _ in "aw")
    got = run_cover(cover, {"a": a, "w": w})
    np.testing.assert_allclose(got["y"], a @ w + a, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got["z"], w @ a + (w if one else a), rtol=1e-4, atol=1e-4)
