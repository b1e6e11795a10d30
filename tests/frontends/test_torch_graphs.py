"""torch's operators over graphs in what torch.compile gives: attention with functions of its scores, choices, recurrences."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.frontends import load
from autocomp.ir.reference import evaluate

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402

from autocomp.torch_compile import autocomp as backend  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("fresh_dynamo")]


class Flexible(torch.nn.Module):
    """Scores with a cap, a bias by head and places, a mask of documents; the first query of each has no key."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(4, 9, 9))
        self.mask = create_block_mask(lambda b, h, i, j: (i > j) & (i // 5 == j // 5), None, None, 9, 9, device="cpu")

    def forward(self, q, k, v):
        score = lambda s, b, h, i, j: torch.tanh(s / 2) * 2 + self.bias[h, i, j] - 0.1 * (i - j)
        y, sums = flex_attention(q, k, v, score, self.mask, scale=0.7, enable_gqa=True, return_lse=True)
        return y, sums[..., 1:5]


def test_attention_whose_scores_functions_change():
    q, k, v = (torch.randn(2, heads, 9, 8) for heads in (4, 2, 2))
    module = Flexible().eval()
    graph = load(module, example_inputs=(q, k, v))
    for got, want in zip(evaluate(graph, {"q": q.numpy(), "k": k.numpy(), "v": v.numpy()}).values(), module(q, k, v)):
        np.testing.assert_allclose(got, want.detach().numpy(), atol=2e-6)


def test_choices_and_recurrences_are_in_programs():
    from torch._higher_order_ops.while_loop import while_loop

    def f(x):
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x,))
        return while_loop(lambda i, z: (i < 9) & (z.sum() < 50), lambda i, z: (i + 1, z * 1.5 + y), (torch.tensor(0), y.abs()))

    before = len(autocomp.report())
    compiled = torch.compile(f, backend=backend)
    for x in (torch.rand(3), -torch.rand(3)):
        torch.testing.assert_close(compiled(x), f(x))
    (graph,) = autocomp.report()[before:]
    assert not graph.stayed and graph.programs == 1, graph


def test_what_draws_numbers_in_a_branch_stays_with_torch():
    f = lambda x: torch.cond(x.sum() > 0, lambda x: x + torch.rand(3), lambda x: x * 2.0, (x,))
    before = len(autocomp.report())
    x = -torch.rand(3)
    torch.testing.assert_close(torch.compile(f, backend=backend)(x), x * 2)
    assert [s.why for g in autocomp.report()[before:] for s in g.stayed] == ["in its graph it draws random numbers"]
