"""What runs a program: on the host (`runtime.host`) or on a device (`runtime.cuda`); and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.node import Graph
from autocomp.ir.reference import evaluate
from autocomp.ir.types import Sym, TensorType


@dataclass(frozen=True)
class Timing:
    """Medians in seconds: a whole call, and one launch of each kernel by name."""

    total: float
    by_kernel: Mapping[str, float]


class Executor(Protocol):
    """`run` gives the outputs by name, as arrays of the kind that the place of execution has (NumPy on the host)."""

    def run(self, feed: Mapping[str, Any]) -> dict[str, Any]: ...
    def profile(self, feed: Mapping[str, Any], repeat: int = 10) -> Timing: ...


def shape_of(t: TensorType, values: Mapping[str, int]) -> tuple[int, ...]:
    """The shape with its symbols' values."""
    return tuple(values[d.name] if isinstance(d, Sym) else d for d in t.shape)


def symbol_values(graph: Graph, arrays: Mapping[str, Any]) -> dict[str, int]:
    """Values of the named dimensions, from the arrays' shapes. `arrays` have dtype (NumPy's), ndim and shape.

    Raises ModelError on a missing input, a wrong dtype or shape, a symbol out of its bounds.
    """
    values: dict[str, int] = {}
    for n in graph.inputs:
        name, t = n.attrs["name"], n.type
        if name not in arrays:
            raise ModelError(f"input '{name}' is missing", where=graph.name, hint=f"it wants {t}")
        x = arrays[name]
        fits = x.dtype == t.dtype.numpy and x.ndim == t.rank
        for d, s in zip(t.shape, x.shape):
            if isinstance(d, Sym):
                fits = fits and values.setdefault(d.name, s) == s and d.lo <= s <= d.hi and s % d.multiple == 0
            else:
                fits = fits and d == s
        if not fits:
            raise ModelError(f"input '{name}' wants {t}, got {x.dtype}{list(x.shape)}", where=graph.name)
    return values


def host_array(x: Any) -> np.ndarray:
    """A NumPy view of anything that offers DLPack or the array interface, without a copy where they allow it."""
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return np.asarray(x)
    return np.from_dlpack(x)


def constants_of(calls: KernelGraph) -> dict[str, np.ndarray]:
    """Parameters and the tensors folded from them, by tensor name, contiguous."""
    fixed = {p: np.ascontiguousarray(calls.source.param(p)) for p in calls.params}
    for name, g in calls.constants.items():
        fixed[name] = np.ascontiguousarray(evaluate(g, {}, float64=False)["value"])
    return fixed
