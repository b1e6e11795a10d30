"""What runs a program: on the host (`runtime.host`) or on a device (`runtime.cuda`); and what they share."""

from __future__ import annotations

import sys
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
    """`run` gives the outputs by name, as arrays of the library that the inputs are of: NumPy's, torch's, CuPy's."""

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
    x, short = plain(x), _short_float(x)
    try:
        return np.from_dlpack(x) if short is None else np.from_dlpack(x.view(_bits(short))).view(short)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise ModelError(f"NumPy cannot read a {type(x).__module__}.{type(x).__qualname__}: {e}", where="inputs",
                         hint="give x.detach().cpu()") from None  # fmt: skip


def plain(x: Any) -> Any:
    """A tensor of torch that is the negative of what its memory holds (the imaginary part of a conjugate), computed; others as they are.

    DLPack hands out the memory and does not say so.
    """
    return x.resolve_neg() if of_torch(x) and x.is_neg() else x


def given_back(feed: Mapping[str, Any], outputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Outputs as torch tensors on the same memory where an input is one; else as they are."""
    if not any(map(of_torch, feed.values())):
        return outputs
    return {name: _tensor(x) for name, x in outputs.items()}


def of_torch(x: Any) -> bool:
    """Whether x is a tensor of torch, which is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _tensor(x: np.ndarray) -> Any:
    torch = sys.modules["torch"]
    if x.dtype.isbuiltin == 1:
        return torch.from_numpy(x)
    return torch.from_numpy(x.view(f"i{x.dtype.itemsize}")).view(getattr(torch, x.dtype.name))


def _short_float(x: Any) -> np.dtype[Any] | None:
    """The dtype of a torch tensor that NumPy knows by ml_dtypes alone (bfloat16, 8-bit floats); None for others."""
    import ml_dtypes

    name = str(x.dtype).rpartition(".")[2] if of_torch(x) else ""
    return np.dtype(getattr(ml_dtypes, name)) if name == "bfloat16" or name.startswith("float8_") else None


def _bits(dtype: np.dtype[Any]) -> Any:
    """torch's integer of the same size."""
    return getattr(sys.modules["torch"], f"int{8 * dtype.itemsize}")


def constants_of(calls: KernelGraph) -> dict[str, np.ndarray]:
    """Parameters and the tensors folded from them, by tensor name, contiguous."""
    fixed = {p: np.ascontiguousarray(calls.source.param(p)) for p in calls.params}
    for name, g in calls.constants.items():
        fixed[name] = np.ascontiguousarray(evaluate(g, {}, float64=False)["value"])
    return fixed
