"""The standard `onnx.backend.base.Backend`, so that ONNX's own test suite (and any user of it) runs against us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from autocomp import optimize
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.onnx import ValueNeeded, load_onnx
from autocomp.frontends.onnx.data import CODED
from autocomp.ir.node import Graph
from autocomp.ir.types import TensorType, dtype_of
from autocomp.runtime.program import Program


def compiled(graph: Graph) -> Program:
    """The graph for this CPU. The one place that says what computes it."""
    return optimize(graph, target="cpu")


Value = np.ndarray | list[np.ndarray] | None
"""What the interface passes: a tensor, a sequence of tensors, or an optional that is absent."""


class AutocompRep(BackendRep):
    """A model ready to run. It is imported for the shapes of the arrays it is given, once for each set of shapes.

    `opaque`: data-dependent operators that ran through their references. Inputs that a shape depends on (the target of a
    Reshape) are compiled in; other values of them import again, and so do sequences of another length. Rounding is the
    standard's (`load_onnx(round_steps=True)`), since the suite's expected values are.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        initial = {t.name for t in model.graph.initializer}
        self.names = [v.name for v in model.graph.input if v.name not in initial]
        self.graphs: dict[Any, tuple[tuple[str, ...], Graph]] = {}
        self.programs: dict[Graph, Program] = {}
        self.opaque: set[str] = set()

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Value, ...]:
        given = inputs if isinstance(inputs, Sequence) else [inputs]
        if len(given) != len(self.names):
            raise ModelError(f"takes {len(self.names)} inputs, got {len(given)}", where=self.model.graph.name)
        values = {name: self._value(name, v) for name, v in zip(self.names, given, strict=True)}
        arrays: dict[str, np.ndarray] = {}
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                codes = next((c for c in CODED.values() if c.numpy == value.dtype), None)
                arrays[name] = value if codes is None else codes.of(value)
            for k, element in enumerate(value if isinstance(value, list) else ()):
                arrays[f"{name}[{k}]"] = element
        fixed, graph = self._graph(values, arrays)
        if graph not in self.programs:
            self.programs[graph] = compiled(graph)
        program = self.programs[graph]
        self.opaque |= {c.kernel.opaque for c in program.calls.calls if c.kernel.opaque}
        out = program.run({n: a for n, a in arrays.items() if n not in fixed})
        return tuple(_collected(out, o) for o in self.model.graph.output)

    def _value(self, name: str, value: Any) -> Value:
        if value is None or isinstance(value, list):
            return value if value is None else [np.asarray(e) for e in value]
        if not isinstance(value, (np.ndarray, np.generic)):
            raise UnsupportedOp(
                f"input '{name}' is a {type(value).__name__}; inputs must be arrays or lists of them",
                where=self.model.graph.name,
                hint="pass its tensors one by one",
            )
        return np.asarray(value)

    def _graph(self, values: dict[str, Value], arrays: dict[str, np.ndarray]) -> tuple[tuple[str, ...], Graph]:
        absent = tuple(n for n, v in values.items() if v is None or (isinstance(v, list) and not v))
        shapes = (absent, *((n, str(a.dtype), a.shape) for n, a in arrays.items()))
        for fixed in {f for (s, f, _) in self.graphs if s == shapes}:
            key = (shapes, fixed, tuple(arrays[n].tobytes() for n in fixed))
            if key in self.graphs:
                return self.graphs[key]
        fixed = ()
        while True:
            try:
                graph = load_onnx(self.model, self._bindings(values, fixed), round_steps=True)
            except ValueNeeded as e:
                if set(e.inputs) <= set(fixed):
                    raise
                fixed = tuple(sorted({*fixed, *e.inputs}))
                continue
            key = (shapes, fixed, tuple(arrays[n].tobytes() for n in fixed))  # type: ignore[var-annotated]
            self.graphs[key] = fixed, graph
            return fixed, graph

    @staticmethod
    def _bindings(values: dict[str, Value], fixed: tuple[str, ...]) -> dict[str, Any]:
        """What `load_onnx` takes: an array for a value that is compiled in, else its type (types we lack are left out)."""

        def bound(name: str, a: np.ndarray) -> Any:
            return a if name in fixed else TensorType(dtype_of(a), a.shape)

        out: dict[str, Any] = {}
        for name, value in values.items():
            try:
                if isinstance(value, list):
                    out[name] = [bound(f"{name}[{k}]", a) for k, a in enumerate(value)]
                else:
                    out[name] = None if value is None else bound(name, value)
            except KeyError:
                continue
        return out


def _collected(out: Mapping[str, np.ndarray], declared: onnx.ValueInfoProto) -> Value:
    """An output as the model declares it: a tensor, its elements as a list, or nothing."""
    name = declared.name
    if name in out:
        codes = CODED.get(declared.type.tensor_type.elem_type)
        return out[name] if codes is None else codes.array(out[name])
    elements: list[np.ndarray] = []
    while f"{name}[{len(elements)}]" in out:
        elements.append(out[f"{name}[{len(elements)}]"])
    return elements if elements or declared.type.HasField("sequence_type") else None


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
