"""Functions of torch as modules, and what they mean beside torch's own float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from autocomp.frontends.torch.export import load_torch
from autocomp.ir.reference import evaluate


class Apply(torch.nn.Module):
    """A function as a module."""

    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f

    def forward(self, *xs: Any) -> Any:
        return self.f(*xs)


def means_the_same(f: Callable[..., Any], *xs: Any, float64: bool = True, zeros: bool = True, atol: float = 1e-5) -> None:
    """The graph of f computes what f does on float64 (or in its own types); `zeros`: of the same signs too."""
    graph = load_torch(Apply(f).eval(), xs)
    want = f(*(x.double() if float64 and x.is_floating_point() else x for x in xs))
    want = want if isinstance(want, (tuple, list)) else (want,)
    with np.errstate(all="ignore"):
        got = evaluate(graph, {n.attrs["name"]: x.numpy() for n, x in zip(graph.inputs, xs)}, float64=float64)
    for g, w in zip(got.values(), want, strict=True):
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-4, atol=atol)
        assert g.shape == tuple(w.shape)
        assert not zeros or np.array_equal(np.signbit(g)[w.numpy() == 0], np.signbit(w.numpy())[w.numpy() == 0])
