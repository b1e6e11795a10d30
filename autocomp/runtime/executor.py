"""What runs a program: on the host (`runtime.host`) or on a device (`runtime.cuda`); and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.kernel import KernelGraph
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


def host_array(x: Any) -> np.ndarray:
    """A NumPy view of anything that offers DLPack or the array interface, without a copy where they allow it.

    Raises ModelError where its owner or NumPy refuses: a tensor that records gradients, a type that NumPy lacks, another device.
    """
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return np.asarray(x)
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise ModelError(f"NumPy cannot read a {type(x).__module__}.{type(x).__qualname__}: {e}", where="inputs",
                         hint="give a NumPy array, e.g. x.detach().cpu().numpy()") from None  # fmt: skip


def constants_of(calls: KernelGraph) -> dict[str, np.ndarray]:
    """Parameters and the tensors folded from them, by tensor name, contiguous."""
    fixed = {p: np.ascontiguousarray(calls.source.param(p)) for p in calls.params}
    for name, g in calls.constants.items():
        fixed[name] = np.ascontiguousarray(evaluate(g, {}, float64=False)["value"])
    return fixed
