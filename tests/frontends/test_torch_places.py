"""Places that are read from a tensor of one element: x[i], x.narrow(0, i, k), x[i] = y."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")

import autocomp  # noqa: E402
from autocomp.errors import UnsupportedOp  # noqa: E402
from autocomp.frontends.torch.export import load_torch  # noqa: E402
from autocomp.ir.reference import evaluate  # noqa: E402
from tests.helpers.torch_modules import Apply  # noqa: E402

pytestmark = pytest.mark.torch


def written(x, i):
    x = x.clone()
    x[i] = x[0] * 2
    x[..., i, None] = 0.5
    x[i, 1] += 3
    x[1:, i].mul_(2)
    x.narrow(1, i, 2).copy_(x[:, :2] - 1)
    return x


CASES = {
    "read": lambda x, i: (x[i] * 2, x[:, i], x[..., i, None], x[1:, i], x[i, :2], x[i, i], x.select(0, i * 2 - 2), x.take(i), 
                          x[:1, :1].take(i * 0)),
    "some of them": lambda x, i: (x.narrow(0, i, 2).exp(), torch.narrow(x, 1, i, 1), x.index_select(0, i % 3)),
    "written": written,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_places_from_both_ends(name):
    x = torch.from_numpy(np.random.default_rng(5).standard_normal((6, 5)).astype(np.float32))
    graph = load_torch(Apply(CASES[name]).eval(), (x, torch.tensor(2)))
    for at in (2, 0, 3, -2):
        i = torch.tensor(at)
        want = CASES[name](x, i)
        got = evaluate(graph, {n.attrs["name"]: t.numpy() for n, t in zip(graph.inputs, (x, i))})
        for g, w in zip(got.values(), want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_allclose(g, w.numpy(), rtol=1e-6)
            assert g.shape == tuple(w.shape)


def test_places_of_a_program():
    x = torch.randn(6, 5)
    program = autocomp.optimize(Apply(written).eval(), example_inputs=(x, torch.tensor(2)))
    for at in (3, -2):
        np.testing.assert_allclose(program(x.numpy(), np.array(at)), written(x, torch.tensor(at)).numpy(), rtol=1e-5)


def test_a_slice_that_may_be_cut_short_is_refused():
    for f in (lambda x, i: x[i : i + 2], lambda x, i: x[:i].sum()):
        with pytest.raises(UnsupportedOp, match="a number that is read from a tensor, stands for a size"):
            load_torch(Apply(f).eval(), (torch.zeros(6, 5), torch.tensor(2)))
