"""One ONNX node being lowered: its operands, its attributes, and the ways to build, to refuse and to complain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
import onnx

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.onnx.constants import Constants
from autocomp.frontends.onnx.data import tensor_array
from autocomp.frontends.onnx.model import Model
from autocomp.frontends.onnx.scope import Coded, Scope, Value
from autocomp.ir.builder import Builder
from autocomp.ir.node import Node
from autocomp.ir.types import Dim, DType, Sym, TensorType

AP = onnx.AttributeProto


class Importing(Protocol):
    """The import that a call is part of, as lowerings see it (`importer.Importer`)."""

    model: Model
    builder: Builder
    constants: Constants
    round_steps: bool

    def node(self, op: str, operands: list[Node], attrs: Mapping[str, Any]) -> Node: ...
    def fresh(self, name: str) -> str: ...
    def subgraph(self, call: Call, graph: onnx.GraphProto, inputs: list[Value], label: str) -> list[Value]: ...
    def function(self, call: Call, nodes: Any, scope: Scope, attrs: Mapping[str, onnx.AttributeProto]) -> None: ...


@dataclass
class Call:
    """A node of the model with its operands' values. `where` names it in error texts; `opset` is its domain's version."""

    importer: Importing
    scope: Scope
    proto: onnx.NodeProto
    attrs: dict[str, onnx.AttributeProto]
    inputs: list[Value]
    opset: int
    where: str

    @property
    def op_type(self) -> str:
        return str(self.proto.op_type)

    @property
    def n_outputs(self) -> int:
        """Number of outputs the node names, trailing empty names not counted."""
        names = list(self.proto.output)
        while names and not names[-1]:
            names.pop()
        return len(names)

    # ---- operands
    def has(self, i: int) -> bool:
        """Whether operand i is given."""
        return i < len(self.inputs) and self.inputs[i] is not None

    def x(self, i: int = 0) -> Node:
        """Operand i as a tensor. Raises ModelError if it is absent or no tensor."""
        v = self.inputs[i] if i < len(self.inputs) else None
        if v is None:
            self.broken(f"has no operand {i}; it has {len(self.inputs)}")
        if isinstance(v, list):
            self.broken(f"operand {i} is a sequence where a tensor is needed")
        if isinstance(v, Coded):
            self.refuse(f"element type {v.codes.name} of operand {i} is not computed with", hint="cast it before, or dequantise it")
        return v

    def coded(self, i: int) -> Coded | None:
        """Operand i where its element type is one that the op table does not have."""
        v = self.inputs[i] if i < len(self.inputs) else None
        return v if isinstance(v, Coded) else None

    def maybe(self, i: int) -> Node | None:
        """Operand i as a tensor, None if it is absent."""
        return self.x(i) if self.has(i) else None

    def tensors(self) -> list[Node]:
        """All operands, each of which must be a tensor."""
        return [self.x(i) for i in range(len(self.inputs))]

    def sequence(self, i: int) -> list[Value]:
        """Operand i as a sequence of known length."""
        v = self.inputs[i] if i < len(self.inputs) else None
        if not isinstance(v, list):
            self.broken(f"operand {i} is no sequence")
        return v

    # ---- values known while compiling
    def static(self, i: int) -> np.ndarray:
        """The value of operand i, which must not depend on the data of graph inputs. Raises UnsupportedOp."""
        return self.importer.constants.value(self.x(i), f"operand {i}", self.where)

    def static_ints(self, i: int) -> tuple[int, ...]:
        """`static` as a tuple of ints (a scalar gives one)."""
        a = self.static(i)
        if a.dtype.kind not in "iub" or a.ndim > 1:
            self.broken(f"operand {i} must be a list of integers, but is {a.dtype}{list(a.shape)}")
        return tuple(int(v) for v in a.reshape(-1))

    def static_int(self, i: int) -> int:
        """`static` as one int."""
        v = self.static_ints(i)
        if len(v) != 1:
            self.broken(f"operand {i} must be one integer, but has {len(v)}")
        return v[0]

    def static_sizes(self, i: int) -> tuple[Dim, ...]:
        """`static_ints`, of which some may be sizes that are known when it runs."""
        a = self.static(i)
        if a.dtype != object or a.ndim > 1:
            return self.static_ints(i)
        return tuple(v if isinstance(v, Sym) else int(v) for v in a.reshape(-1))

    def ints_at(self, name: str, i: int) -> tuple[int, ...] | None:
        """Integers that older opsets give as attribute `name` and newer ones as operand i; None where neither is there."""
        return self.static_ints(i) if self.has(i) else self.ints_attr(name)

    # ---- attributes
    def _attr(self, name: str, kind: int) -> onnx.AttributeProto | None:
        a = self.attrs.get(name)
        if a is not None and a.type != kind:
            self.broken(f"attribute '{name}' has type {AP.AttributeType.Name(a.type)}, expected {AP.AttributeType.Name(kind)}")
        return a

    def int_attr(self, name: str, default: int | None = None) -> int:
        a = self._attr(name, AP.INT)
        return int(a.i) if a is not None else self._default(name, default)

    def flag(self, name: str, default: int) -> bool:
        """An integer attribute that is 0 or 1. Raises ModelError for others: the standard gives them no meaning."""
        v = self.int_attr(name, default)
        if v not in (0, 1):
            self.broken(f"attribute '{name}' is {v}, which is neither 0 nor 1")
        return bool(v)

    def float_attr(self, name: str, default: float | None = None) -> float:
        a = self._attr(name, AP.FLOAT)
        return float(a.f) if a is not None else self._default(name, default)

    def str_attr(self, name: str, default: str | None = None) -> str:
        a = self._attr(name, AP.STRING)
        return a.s.decode("utf-8", "replace") if a is not None else self._default(name, default)

    def ints_attr(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        a = self._attr(name, AP.INTS)
        return tuple(int(v) for v in a.ints) if a is not None else default

    def floats_attr(self, name: str, default: tuple[float, ...] | None = None) -> tuple[float, ...] | None:
        a = self._attr(name, AP.FLOATS)
        return tuple(float(v) for v in a.floats) if a is not None else default

    def strs_attr(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...] | None:
        a = self._attr(name, AP.STRINGS)
        return tuple(s.decode("utf-8", "replace") for s in a.strings) if a is not None else default

    def tensor_attr(self, name: str) -> np.ndarray | None:
        a = self._attr(name, AP.TENSOR)
        return tensor_array(a.t, self.importer.model.folder, f"{self.where} attribute '{name}'") if a is not None else None

    def graph_attr(self, name: str) -> onnx.GraphProto:
        a = self._attr(name, AP.GRAPH)
        return a.g if a is not None else self._default(name, None)

    def _default(self, name: str, default: Any) -> Any:
        if default is None:
            self.broken(f"has no attribute '{name}'")
        return default

    # ---- building
    def op(self, name: str, *operands: Node | float | bool, **attrs: Any) -> Node:
        """A node of the op table. Python numbers become constants of the tensor operands' dtype."""
        tensors = [o for o in operands if isinstance(o, Node)]
        like = tensors[-1 if name == "where" else 0]
        nodes = [o if isinstance(o, Node) else self.const(o, like.type.dtype) for o in operands]
        return self.importer.node(name, nodes, attrs)

    def const(self, value: float | bool, dtype: DType) -> Node:
        """A scalar constant."""
        return self.importer.builder.const(value, dtype)

    def array(self, values: Any, dtype: DType) -> Node:
        """A constant tensor that the lowering makes up (a scalar becomes `const`)."""
        return self.importer.constants.node(np.asarray(values).astype(dtype.numpy), self.fresh())

    def fresh(self) -> str:
        """A parameter name after the node's first output that is not yet in use."""
        return self.importer.fresh(next((o for o in self.proto.output if o), self.op_type))

    def type(self, i: int = 0) -> TensorType:
        return self.x(i).type

    def shape(self, x: Node) -> tuple[int, ...]:
        """The static shape of x. Raises UnsupportedOp naming the dimension to fix."""
        for d in x.type.shape:
            if not isinstance(d, int):
                self.refuse(f"needs the size of dimension '{d}' of {x.type} while compiling", hint=f"fix it: dims={{'{d}': 1}}")
        return tuple(d for d in x.type.shape if isinstance(d, int))

    def axis(self, value: int, rank: int) -> int:
        """An axis in [0, rank). Raises ModelError when out of range."""
        if not -rank <= value < rank:
            self.broken(f"axis {value} is out of range for rank {rank}")
        return value % rank if rank else 0

    def axes(self, values: tuple[int, ...], rank: int) -> tuple[int, ...]:
        """Axes in [0, rank), each once."""
        out = tuple(self.axis(v, rank) for v in values)
        if len(set(out)) != len(out):
            self.broken(f"axes {list(values)} name a dimension twice (rank {rank})")
        return out

    # ---- refusing
    def refuse(self, what: str, hint: str | None = None) -> NoReturn:
        """Valid ONNX that this package does not do."""
        raise UnsupportedOp(what, where=self.where, hint=hint or "change the model, or the exporter's options")

    def broken(self, what: str, hint: str | None = None) -> NoReturn:
        """A model that contradicts itself or the ONNX standard."""
        raise ModelError(what, where=self.where, hint=hint)
