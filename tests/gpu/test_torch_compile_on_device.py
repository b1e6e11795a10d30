"""torch.compile(.., backend="autocomp") on a CUDA device: values, gradients, streams, CUDA graphs, symbols, views at odd addresses."""

from __future__ import annotations

import copy

import pytest

import autocomp

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from torch import nn  # noqa: E402

from autocomp.torch_compile import autocomp as backend  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def anew():
    torch.manual_seed(0)
    torch._dynamo.reset()


def compiled(f, **how):
    return torch.compile(f, backend=backend, **how)


def near(a, b):
    torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def mlp():
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 32)).cuda()


def test_a_module_and_its_gradients():
    a = mlp()
    b = copy.deepcopy(a)
    x = torch.randn(48, 64, device="cuda")
    before = len(autocomp.report())
    near(compiled(a)(x), b(x))
    compiled(a)(x).pow(2).sum().backward()
    b(x).pow(2).sum().backward()
    for p, q in zip(a.parameters(), b.parameters()):
        near(p.grad, q.grad)
    assert all(g.target == "cuda" and g.programs for g in autocomp.report()[before:])


def test_streams_and_graphs_of_torch():
    m, x = mlp().eval(), torch.randn(48, 64, device="cuda")
    c = compiled(m)
    with torch.no_grad():
        want = m(x)
        near(c(x), want)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                y = c(x)
        torch.cuda.current_stream().wait_stream(side)
        near(y, want)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            out = c(x)
        x.copy_(torch.randn_like(x))
        graph.replay()
        near(out, m(x))


def test_views_symbols_and_parts_with_torch():
    f = lambda x: (torch.linalg.eigvalsh(x[:, 1:] @ x[:, 1:].t() + torch.eye(x.shape[0], device="cuda")) * 2, x[1:].t() + 1)
    c = compiled(f, dynamic=True)
    for n in (5, 7, 9):
        x = torch.randn(n * 6 + 1, device="cuda")[1:].view(n, 6)
        for a, b in zip(c(x), f(x)):
            near(a, b)
