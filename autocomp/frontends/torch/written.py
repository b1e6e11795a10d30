"""Functions of torch's that ask elements for what has no place in a program, while they are traced: written with operators that do not.

torch.cov(x)     asks whether rows less the correction are more than 0, for a warning     ->     a mean, a product and a quotient
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Written(TorchFunctionMode):
    """While it is entered, those functions are what is written here."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return WRITTEN.get(func, func)(*args, **kwargs or {})


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Covariances of rows, as ATen's `cov` has them (Correlation.cpp) without its checks of weights."""
    x = input.reshape(1, -1) if input.dim() < 2 else input
    w = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    total = x.shape[1] if w is None else w.sum()
    of = x if w is None else x * w
    far = x - (of.sum(1) / total).unsqueeze(1)
    norm = total - correction * ((w * aweights).sum() / total if aweights is not None and correction != 0 else 1)
    norm = max(norm, 0) if w is None else torch.where(norm > 0, norm, 0)
    other = far if w is None else far * w
    return torch.true_divide(torch.mm(far, other.t().conj()), norm).squeeze()


def corrcoef(input: Any) -> Any:
    c = cov(input)
    if c.dim() == 0:
        return c / c
    deviation = torch.sqrt(c.diag().real if c.is_complex() else c.diag())
    c = c / deviation.view(-1, 1) / deviation.view(1, -1)
    return torch.complex(c.real.clip(-1, 1), c.imag.clip(-1, 1)) if c.is_complex() else c.clip(-1, 1)


WRITTEN: dict[Any, Callable[..., Any]] = {torch.cov: cov, torch.Tensor.cov: cov, torch.corrcoef: corrcoef, torch.Tensor.corrcoef: corrcoef}
