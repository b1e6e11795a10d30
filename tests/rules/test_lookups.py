"""What is looked up is computed behind the lookup where fewer elements are looked up: losses store no row of their softmax."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from tests.helpers import fresh
from tests.helpers.device_graphs import graph

LOSS = graph(
    {"x": "f16[40, 700]", "t": "i64[40, 1]"},
    '%0 = cast(x, to="f32")\n%1 = log_softmax(%0, axes=[1])\n%2 = cast(%1, to="f16")\n%3 = gather_elements(%2, t, axis=1)\n%4 = neg(%3)',
)


@pytest.mark.parametrize("target", ["cpu", "cuda:h200", "maca:c500"])
def test_a_loss_stores_no_softmax(target):
    program = autocomp.optimize(LOSS, target=target)
    whole = {n for n, t in program.calls.tensors.items() if t.shape == (40, 700)}
    assert whole == {"x"}
    stored = autocomp.optimize(LOSS, target=target, without=["algebra/lookup*"])
    assert {n for n, t in stored.calls.tensors.items() if t.shape == (40, 700)} > {"x"}
    assert program.predicted < stored.predicted


def test_a_loss_is_right():
    """Indices from the end among them."""
    x, t = fresh.rng().standard_normal((40, 700)).astype("f2"), fresh.rng().integers(-700, 700, (40, 1))
    (got,) = autocomp.optimize(LOSS).run({"x": x, "t": t}).values()
    wide = x.astype("f8")
    want = np.log(np.exp(wide).sum(1, keepdims=True)) - np.take_along_axis(wide, t, 1)
    np.testing.assert_allclose(got, want, rtol=2e-3)
