"""Programs for all sizes: sizes that are halved, steps, images, first and last rows, masks up to a size; conditions on inputs."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.reference import evaluate

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from torch import nn  # noqa: E402

from autocomp.frontends.torch.export import load_torch  # noqa: E402
from tests.helpers.torch_modules import Apply  # noqa: E402

pytestmark = pytest.mark.torch
OPEN = torch.export.Dim.AUTO


def half(x):
    n = x.shape[1] // 2
    return x[:, :n] * 2, x[:, :n].sum(1)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.Conv2d(4, 4, 3, padding=1, stride=2)

    def forward(self, x):
        x = self.b(self.a(x).relu())
        return x, x.mean((2, 3))


CASES = {
    "steps": (lambda x: (x[:, ::2] + 1, x[:, 1::3].exp(), x[:, 1:-1:2].sum(1)), (2, 9), (6, 8, 33)),
    "half": (half, (2, 9), (6, 7, 33)),
    "first and last": (lambda x: (x[:, 0], x[:, -1], x[:, -2], x[:, 2]), (2, 9), (6, 7, 33)),
    "a table up to a size": (lambda x: x + torch.arange(40.0)[: x.shape[1]], (2, 9), (6, 7, 33)),
}


def compare(module, program, *xs):
    got, want = program(*xs), module(*xs)
    for g, w in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True):
        assert tuple(g.shape) == tuple(w.shape)
        np.testing.assert_allclose(np.asarray(g), w.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_sizes_along_a_row(name):
    f, shape, sizes = CASES[name]
    module = Apply(f).eval()
    exported = torch.export.export(module, (torch.randn(shape),), dynamic_shapes=(({1: torch.export.Dim("n", min=6, max=40)},),)
                                   if name != "half" else (({1: OPEN},),))  # fmt: skip
    graph = load_torch(exported)
    for n in sizes:
        x = torch.randn(shape[0], n)
        compare(module, lambda x: tuple(evaluate(graph, {g.attrs["name"]: x.numpy() for g in graph.inputs}).values()), x)


def test_images_of_any_size_are_one_program():
    torch.manual_seed(1)
    module = Images().eval()
    exported = torch.export.export(module, (torch.randn(1, 3, 19, 22),), dynamic_shapes=({2: OPEN, 3: OPEN},))
    program = autocomp.optimize(exported, target="cpu")
    for size in ((10, 10), (11, 13), (37, 16)):
        compare(module, program, torch.randn(1, 3, *size))


def test_both_branches_of_a_condition():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, y):
            a, b = torch.cond(x.sum() > 0, lambda x, y: (self.layer(x).sin(), y + 1), lambda x, y: (x.sqrt(), y * 2), (x, y))
            return a + 1, b

    module = Gate().eval()
    x, y = torch.rand(3, 4), torch.randn(3, 4)
    program = autocomp.optimize(torch.export.export(module, (x, y)), target="cpu")
    compare(module, program, x, y)  # the roots of the other branch are NaN, and stay there
    compare(module, program, -x, y)


def test_a_loop_on_tensors_is_refused_by_name():
    class Loop(nn.Module):
        def forward(self, n, x):
            return torch.while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x + 1), (n, x))

    with pytest.raises((UnsupportedOp, ModelError), match="while_loop"):
        load_torch(Loop().eval(), (torch.tensor(3), torch.randn(2)))
