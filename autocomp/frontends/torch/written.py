"""Functions of torch's that ask elements for what has no place in a program, while they are traced: written with operators that do not.

torch.cov(x)          asks whether rows less the correction are more than 0, for a warning    ->    a mean, a product and a quotient
x[i] = y, x.narrow(0, i, k), x.take(i)    ask for i, a tensor of one element    ->    with its number, or a vector of one
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


def is_place(i: Any) -> bool:
    """Whether an index is a tensor of one integer."""
    return isinstance(i, torch.Tensor) and i.dim() == 0 and not i.is_floating_point() and i.dtype != torch.bool


def setitem(x: Any, key: Any, value: Any) -> None:
    """x[key] = value, which is written into a view of one element along each dimension whose index is a tensor of one integer."""
    keys, rest = key if isinstance(key, tuple) else (key,), []
    if all(is_place(k) or k is None or k is ... or type(k) in (int, slice) for k in keys) and any(map(is_place, keys)):
        at = 0
        for k in keys:
            rest.append(0 if is_place(k) else k)
            if k is ...:
                at = x.dim() - sum(later is not None for later in keys[len(rest) :])
            elif k is not None:
                x, at = narrow(x, at, k, 1) if is_place(k) else x, at + 1
        key = tuple(rest)
    x[key] = value


def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    first: Any = start.item() if isinstance(start, torch.Tensor) else start
    return torch.narrow(input, dim, first, length)


def take(input: Any, index: Any) -> Any:
    return torch.take(input, index) if index.dim() else torch.take(input, index.reshape(1)).reshape(())


WRITTEN: dict[Any, Callable[..., Any]] = {torch.Tensor.__setitem__: setitem, torch.narrow: narrow, torch.Tensor.narrow: narrow,
                                          torch.take: take, torch.Tensor.take: take, torch.cov: cov, torch.Tensor.cov: cov,
                                          torch.corrcoef: corrcoef, torch.Tensor.corrcoef: corrcoef}
