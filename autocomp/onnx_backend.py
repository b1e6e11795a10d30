"""The standard `onnx.backend.base.Backend`, so that ONNX's own test suite (and any user of it) runs against us."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from autocomp import optimize
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.onnx import ValueNeeded, load_onnx
from autocomp.ir.node import Graph
from autocomp.ir.types import TensorType, dtype_of
from autocomp.runtime.program import Program


def compiled(graph: Graph) -> Program:
    """The graph for this CPU. The one place that says what computes it."""
    return optimize(graph, target="cpu")


class AutocompRep(BackendRep):
    """A model ready to run. It is imported for the shapes of the arrays it is given, once for each set of shapes.

    `opaque`: data-dependent operators that ran through their references. Inputs that a shape depends on (the target of a
    Reshape) are compiled in; other values of them import again. Rounding is the standard's (`load_onnx(round_steps=True)`),
    since the suite's expected values are.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        initial = {t.name for t in model.graph.initializer}
        self.names = [v.name for v in model.graph.input if v.name not in initial]
        self.graphs: dict[Any, tuple[tuple[str, ...], Graph]] = {}
        self.programs: dict[Graph, Program] = {}
        self.opaque: set[str] = set()

    def run(self, inputs: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        given = inputs if isinstance(inputs, Sequence) else [inputs]
        if len(given) != len(self.names):
            raise ModelError(f"takes {len(self.names)} inputs, got {len(given)}", where=self.model.graph.name)
        arrays = {}
        for name, value in zip(self.names, given, strict=True):
            if not isinstance(value, (np.ndarray, np.generic)):
                raise UnsupportedOp(
                    f"input '{name}' is a {type(value).__name__}; inputs must be arrays",
                    where=self.model.graph.name,
                    hint="pass its tensors one by one",
                )
            arrays[name] = np.asarray(value)
        fixed, graph = self._graph(arrays)
        if graph not in self.programs:
            self.programs[graph] = compiled(graph)
        program = self.programs[graph]
        self.opaque |= {c.kernel.opaque for c in program.calls.calls if c.kernel.opaque}
        out = program.run({n: a for n, a in arrays.items() if n not in fixed})
        return tuple(out[o.name] for o in self.model.graph.output)

    def _graph(self, arrays: dict[str, np.ndarray]) -> tuple[tuple[str, ...], Graph]:
        shapes = tuple((n, str(a.dtype), a.shape) for n, a in arrays.items())
        for fixed in {f for (s, f, _) in self.graphs if s == shapes}:
            key = (shapes, fixed, tuple(arrays[n].tobytes() for n in fixed))
            if key in self.graphs:
                return self.graphs[key]
        fixed = ()
        while True:
            try:
                graph = load_onnx(self.model, self._bindings(arrays, fixed), round_steps=True)
            except ValueNeeded as e:
                if set(e.inputs) <= set(fixed):
                    raise
                fixed = tuple(sorted({*fixed, *e.inputs}))
                continue
            key = (shapes, fixed, tuple(arrays[n].tobytes() for n in fixed))  # type: ignore[var-annotated]
            self.graphs[key] = fixed, graph
            return fixed, graph

    @staticmethod
    def _bindings(arrays: dict[str, np.ndarray], fixed: tuple[str, ...]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, a in arrays.items():
            if name in fixed:
                out[name] = a
            elif a.dtype != object:
                try:
                    out[name] = TensorType(dtype_of(a), a.shape)
                except KeyError:
                    continue
        return out


class AutocompBackend(Backend):
    """prepare, run_model and supports_device of the standard interface."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> AutocompRep:
        return AutocompRep(model)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


prepare = AutocompBackend.prepare
run_model = AutocompBackend.run_model
supports_device = AutocompBackend.supports_device
