"""Rows that a mask chooses by data: what is computed of them, and what would see how many there are."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.ir.reference import evaluate

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from torch import nn  # noqa: E402

from autocomp.frontends.torch.export import load_torch  # noqa: E402
from tests.helpers.torch_modules import Apply  # noqa: E402

pytestmark = pytest.mark.torch
F = nn.functional


def replaced(x, y, m):
    x = x.clone()
    x[m] = x[m] * 2 + y[m].exp()
    x[:, m[:4]] = y[:, m[:4]]
    x[m] += 1
    return x


def distances(x, y, m):
    return F.mse_loss(x[m], y[m]), F.l1_loss(x[m], y[m], reduction="sum"), F.binary_cross_entropy_with_logits(x[m], y[m].sigmoid())


def reduced(x, y, m):
    r = x[m]
    return (r.sum(), r.mean(), r.mean(0), r.prod(0), (r > 0).any(0), r.norm(), r.numel() * y[0], r.sum() / r.shape[0], x[:, m[:4]].sum(-1),
            torch.masked_select(x, x > 0).mean(), x[x > 0].sum())  # fmt: skip


def classified(x, y, m):
    """Labels of what is not chosen are of no class."""
    of = torch.where(m, (y[:, 0].abs() * 2).long().clamp(max=3), -1)
    return F.cross_entropy(x[m], of[m], reduction="sum"), F.embedding(of[m], y).sum(0), (F.linear(x[m], y[:4]).relu() @ y[:4]).sum(0)


def expert(x, y, m):
    """One expert of a mixture: the rows that come to it, by their places."""
    i, (j, k) = torch.where(m)[0], torch.where(x > 0)
    z, at = x.clone(), m.nonzero()[:, 0]
    z[j, k] = y[j, k] * 3
    z[at] = z[at].tanh()
    return torch.zeros_like(x).index_add(0, i, F.layer_norm(x[i], (4,)) * 2), z, x.new_zeros(5).index_put((i,), x[i, 1], accumulate=True)


TAKEN = [replaced, distances, reduced, classified, expert]


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    return tuple(torch.from_numpy(rng.standard_normal((5, 4)).astype("f4")) for _ in range(2))


@pytest.mark.parametrize("f", TAKEN, ids=lambda f: f.__name__)
def test_rows_that_are_chosen_by_data(f):
    x, y = drawn()
    graph = load_torch(Apply(f).eval(), (x, y, torch.tensor([True, False, True, True, False])))
    for bits in (0b01101, 0b10010, 0b11111, 0):
        m = torch.tensor([bits >> k & 1 for k in range(5)]).bool()
        with np.errstate(all="ignore"):
            got = evaluate(graph, {n.attrs["name"]: v.numpy() for n, v in zip(graph.inputs, (x, y, m))})
        want = f(x.double(), y.double(), m)
        for g, w in zip(got.values(), want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_allclose(g, w.numpy(), rtol=1e-5, atol=1e-6)


def test_extremes_and_variances_of_chosen_rows():
    f = lambda x, y, m: (x[m].amax(0), x[x > 0].min(), (x[m] * 3).long().max(), x[m].var(), x[m].var(0, correction=0))
    x, y = drawn(1)
    m = torch.tensor([False, True, True, False, True])
    graph = load_torch(Apply(f).eval(), (x, y, ~m))
    got = evaluate(graph, {n.attrs["name"]: v.numpy() for n, v in zip(graph.inputs, (x, y, m))})
    for g, w in zip(got.values(), f(x.double(), y.double(), m), strict=True):
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-5)


def test_a_program_of_chosen_rows():
    """A sampler of farthest points writes distances where they fell; the program is one without a mask's rows."""

    def farthest(x, far):
        distance, out = torch.full((x.shape[0], x.shape[1]), 1e10), []
        for _ in range(3):
            out.append(far)
            new = ((x - x[torch.arange(len(x)), far][:, None]) ** 2).sum(-1)
            nearer = new < distance
            distance[nearer] = new[nearer]
            far = distance.max(-1)[1]
        return torch.stack(out, 1), distance

    x, far = torch.from_numpy(np.random.default_rng(2).standard_normal((2, 7, 3)).astype("f4")), torch.tensor([3, 0])
    program = autocomp.optimize(Apply(farthest).eval(), target="cpu", example_inputs=(x, far))
    for got, want in zip(program(x, far), farthest(x, far), strict=True):
        torch.testing.assert_close(got, want)


REFUSED = {
    "result": (lambda x, y, m: x[m], "how many rows output 0 has depends on data"),
    "two masks": (lambda x, y, m: (x[m] + y[~m]).sum(), "joins rows that two masks choose"),
    "of the chosen": (lambda x, y, m: x[m][x[m][:, 0] > 0].sum(), "chooses among rows that are chosen"),
    "an order": (lambda x, y, m: x[m].sort(0)[0][0], "sees how many rows"),
    "running": (lambda x, y, m: x[m].cumsum(0).sum(), "sees how many rows"),
    "normalised": (lambda x, y, m: x[m].softmax(0).square().sum(), "sees how many rows"),
    "pairs": (lambda x, y, m: (x[m] @ x[m].T).sum(), "sees how many rows"),
    "windows": (lambda x, y, m: F.avg_pool1d(x[m].T[None], 3, 1, 1).sum(), "sees how many rows"),
    "joined": (lambda x, y, m: torch.cat((x[m], y)).sum(0), "sees how many rows"),
    "among them": (lambda x, y, m: x[m][(y[m][:, 0] > 0).long()].sum(), "sees how many rows"),
    "whose": (lambda x, y, m: x[m].argmax(0), "sees which rows"),
    "their greatest": (lambda x, y, m: x[m].max(0)[1], "sees which rows"),
    "to elsewhere": (lambda x, y, m: y.clone().index_put(((y[m][:, 0] > 0).long(),), x[m]), "writes rows that a mask chooses"),
    "beside others": (lambda x, y, m: y.gather(1, (x[m] > 0).long()).sum(), "sees how many rows"),
    "numbered": (lambda x, y, m: (x[m] * torch.arange(x[m].shape[0])[:, None]).sum(), "is given how many rows"),
    "rolled": (lambda x, y, m: x.roll(x[m].shape[0], 0), "is given how many rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_sees_how_many_rows_there_are_is_refused(name):
    f, why = REFUSED[name]
    with pytest.raises(UnsupportedOp, match=why):
        load_torch(Apply(f).eval(), (*drawn(), torch.tensor([True, False, True, True, False])))
