"""What runs a program: on the host (`runtime.host`) or on a device (`runtime.cuda`); and what they share."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from autocomp.ir.kernel import KernelGraph
from autocomp.ir.node import Graph
from autocomp.ir.reference import evaluate
from autocomp.ir.types import Sym, TensorType
from autocomp.runtime.given import check_donated, dense, host_array, of_torch
from autocomp.runtime.pack import packed


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


def in_order(calls: KernelGraph, feed: Mapping[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs in the program's order: what was made, and donated inputs as they were given."""
    return {name: made[name] if name in made else feed[calls.donated[t]] for name, t in calls.outputs}


def apart(graph: Graph, feed: Mapping[str, Any]) -> dict[str, Any]:
    """A feed that may be run again and again: copies of what the program writes into."""
    written = {w.input for w in graph.written}
    return {name: x if name not in written else x.clone() if of_torch(x) else getattr(x, "copy", lambda x=x: x)()
            for name, x in feed.items()}  # fmt: skip


def given_back(feed: Mapping[str, Any], outputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Outputs as torch tensors on the same memory where an input is one; else as they are."""
    if not any(map(of_torch, feed.values())):
        return outputs
    return {name: of_numpy(x) for name, x in outputs.items()}


def of_numpy(x: np.ndarray) -> Any:
    """A tensor of torch on an array's memory."""
    torch = sys.modules["torch"]
    if x.dtype.isbuiltin == 1:
        return torch.from_numpy(x)
    return torch.from_numpy(x.view(f"i{x.dtype.itemsize}")).view(getattr(torch, x.dtype.name))


class ReferenceExecutor:
    """An `Executor` without a library: each call computes the graph through its operators' references, in the graph's own types."""

    def __init__(self, calls: KernelGraph) -> None:
        self._calls, self._graph = calls, calls.source
        self._inputs = tuple(n.attrs["name"] for n in calls.source.inputs)

    def run(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name. Raises ModelError on a missing input, a wrong dtype or shape."""
        given = {name: host_array(feed[name], name) for name in self._inputs if name in feed}
        donated = {name: self._calls.donated[t] for name, t in self._calls.outputs if t in self._calls.donated}
        out = evaluate(self._graph, {name: dense(x) for name, x in given.items()}, float64=False)
        check_donated(donated.values(), feed, given)
        for name, source in donated.items():
            given[source][...] = out[name]
        rest = {name: x.copy() for name, x in out.items() if name not in donated}  # an output may be an input
        return in_order(self._calls, feed, given_back(feed, rest))

    def profile(self, feed: Mapping[str, Any], repeat: int = 10) -> Timing:
        """Whole calls; there are no kernels to time."""
        taken = []
        for _ in range(repeat):
            begun = time.perf_counter()
            self.run(feed)
            taken.append(time.perf_counter() - begun)
        return Timing(float(np.median(taken)), {})


def constants_of(calls: KernelGraph) -> dict[str, np.ndarray]:
    """Parameters and the tensors folded from them, by tensor name, contiguous."""
    fixed = {p: packed(calls.source.param(p)) for p in calls.params}
    for name, g in calls.constants.items():
        fixed[name] = packed(evaluate(g, {}, float64=False)["value"])
    return fixed
