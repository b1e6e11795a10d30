"""The walk over an ONNX graph: names to values, each node to its lowering, function body or subgraph."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from autocomp.budget import NODES
from autocomp.errors import AutocompError, ModelError, UnsupportedOp
from autocomp.frontends.onnx import functions
from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.codes import laid_out
from autocomp.frontends.onnx.constants import Constants
from autocomp.frontends.onnx.data import CODED, Codes, Raw, coded_loader, dtype_named, tensor_loader
from autocomp.frontends.onnx.model import MAX_GRAPH_DEPTH, ONNX_DOMAINS, Model
from autocomp.frontends.onnx.refused import REFUSED
from autocomp.frontends.onnx.registry import LOWERINGS
from autocomp.frontends.onnx.scope import Coded, Scope, Value
from autocomp.frontends.sizes import unknown_dims
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import Dim, Sym, TensorType, can_be_named

MAX_TENSOR_BYTES = 2**42
"""The most that one tensor of a model may take; beyond it (no machine holds 4 TiB) a declared shape is not believed."""

_MALFORMED = (
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    OverflowError,
    ZeroDivisionError,
    AttributeError,
    MemoryError,
    RecursionError,
    AssertionError,  # of a lowering, about what sound operands give it
)
"""What NumPy and Python raise when a damaged model's numbers make no sense; reported with the node's name."""


class Importer:
    """Imports one model. `dims` fixes or bounds named dimensions; `inputs` gives types or values of graph inputs."""

    def __init__(self, model: Model, inputs: Mapping[str, Any], dims: Mapping[str, Any], round_steps: bool = False) -> None:
        self.model, self.inputs, self.dims, self.round_steps = model, inputs, dims, round_steps
        self.named: set[str] = set()  # dimensions of inputs that are no numbers
        self.symbols: dict[str, str] = {}  # such a dimension -> its identifier
        self.builder = Builder(model.name)
        self.constants = Constants(self.builder)
        self.locations = self.builder.locations
        self.where = ""
        self.count = 0
        self.names: dict[str, int] = {}
        self.functions = {(_domain(f.domain), f.name): f for f in model.proto.functions}

    # ---- the model's graph
    def run(self) -> Graph:
        """The whole graph. Raises ModelError and UnsupportedOp, each naming the node."""
        g = self.model.proto.graph
        scope = Scope(self.model.opsets)
        unknown = sorted(set(self.inputs) - {v.name for v in g.input})
        if unknown:
            raise ModelError(f"has no input '{unknown[0]}'", where=f"model '{self.model.name}'",
                             hint=f"inputs: {', '.join(v.name for v in g.input)}")  # fmt: skip
        self.names.update(dict.fromkeys({v.name for v in g.input} - ({t.name for t in g.initializer} - set(self.inputs)), 1))
        self._initializers(g, scope, self.model.raw)
        for v in g.input:
            if v.name not in scope.values:
                scope.values[v.name] = self._input(v)
        unknown_dims(self.dims, self.named, f"model '{self.model.name}'")
        self._body(g.node, scope)
        if not g.output:
            raise ModelError("has no outputs", where=f"model '{self.model.name}'")
        for o in g.output:
            value = self._output(o, scope)
            elements = [(f"{o.name}[{k}]", e) for k, e in enumerate(value or ())] if isinstance(value, list | None) else [(o.name, value)]
            for name, element in elements:
                node = element.node if isinstance(element, Coded) else element
                if not isinstance(node, Node):
                    raise UnsupportedOp("is a sequence of sequences or of absent values", where=f"output '{o.name}'",
                                        hint="output its tensors one by one")  # fmt: skip
                self.builder.output(name, node)
        graph = self.builder.graph()
        live = set(graph.nodes())
        return replace(graph, locations={n: w for n, w in self.locations.items() if n in live})

    def _initializers(self, g: onnx.GraphProto, scope: Scope, raw: Mapping[int, Raw] | None = None) -> None:
        """Bind initializers to parameters, but those of inputs that the caller gives a type or a value: they are what these default to.
        Large ones, whose data are outside of the message, are read when they are needed."""
        raw = raw or {}
        for i, t in enumerate(g.initializer):
            where = f"initializer '{t.name}'"
            if not t.name:
                raise ModelError("has no name", where="initializer")
            if g is self.model.proto.graph and t.name in self.inputs:
                continue
            codes = CODED.get(t.data_type)
            loader = tensor_loader if codes is None else coded_loader
            dtype, shape, load = loader(t, self.model.folder, where, raw.get(i))
            if shape == ():
                node = self.constants.node(load(), t.name)
            else:
                lazy = t.data_location == onnx.TensorProto.EXTERNAL or i in raw
                node = self.builder.param(self.fresh(t.name), load if lazy else load(), TensorType(dtype, shape))
            self.locations.setdefault(node, where)
            scope.values[t.name] = node if codes is None else Coded(node, codes)
        for s in g.sparse_initializer:
            raise UnsupportedOp(
                "sparse initializers are not supported", where=f"initializer '{s.values.name}'", hint="store the tensor densely"
            )

    def _input(self, v: onnx.ValueInfoProto) -> Value:
        """An input of the graph; a sequence becomes one input an element, `name[0]`, `name[1]`, ..."""
        where = f"input '{v.name}'"
        kind = v.type.WhichOneof("value")
        given = self.inputs.get(v.name)
        if isinstance(given, (list, tuple)):
            return [self._given(f"{v.name}[{k}]", e, where) for k, e in enumerate(given)]
        codes = CODED.get(v.type.tensor_type.elem_type) if kind == "tensor_type" else None
        if isinstance(given, np.ndarray) and codes is not None and given.dtype == codes.numpy:
            return Coded(self._given(v.name, codes.of(given), where), codes)
        if isinstance(given, (np.ndarray, TensorType)):
            return self._given(v.name, given, where)
        if kind == "optional_type" and v.name in self.inputs:
            return None
        if kind is None:
            raise ModelError("declares no type", where=where,
                             hint=f"give it: load_onnx(model, inputs={{'{v.name}': TensorType(F32, (1, 3))}})")  # fmt: skip
        if kind != "tensor_type":
            raise UnsupportedOp(
                f"is a {kind.removesuffix('_type')}, whose length must be known while compiling",
                where=where,
                hint=f"give its elements' types: load_onnx(model, inputs={{'{v.name}': [TensorType(F32, (1, 3)), ...]}})",
            )
        return self._declared(v, where, codes)

    def _given(self, name: str, given: np.ndarray | TensorType, where: str) -> Node:
        """An input whose value or type the caller gave."""
        if isinstance(given, np.ndarray):
            return self.constants.node(given, self.fresh(name))
        node = self.builder.input(name, given)
        self.locations[node] = where
        return node

    def _declared(self, v: onnx.ValueInfoProto, where: str, codes: Codes | None) -> Node | Coded:
        """An input with the type that the model declares; one of `codes` comes as these."""
        t = v.type.tensor_type
        dtype = dtype_named(t.elem_type, where) if codes is None else codes.held
        if not t.HasField("shape"):
            raise UnsupportedOp(
                "declares no shape",
                where=where,
                hint=f"give it: load_onnx(model, inputs={{'{v.name}': TensorType({dtype.name.upper()}, (...))}})",
            )
        shape = tuple(self._dim(d, f"{v.name}_{i}", where) for i, d in enumerate(t.shape.dim))
        node = self.builder.input(v.name, _believed(TensorType(dtype, shape), where))
        self.locations[node] = where
        return node if codes is None else Coded(node, codes)

    def _dim(self, d: Any, unnamed: str, where: str) -> Dim:
        """An int, or a symbol bounded as `dims` says (an int fixes it, a pair bounds it, a Sym is taken as it is)."""
        if d.HasField("dim_value"):
            if d.dim_value < 0:
                raise ModelError(f"declares a dimension of {d.dim_value}", where=where)
            return int(d.dim_value)
        name = d.dim_param or unnamed
        self.named.add(name)
        by = self.dims.get(name)
        if isinstance(by, (int, Sym)):
            return by
        safe = self._symbol(name)
        return Sym(safe, *by) if isinstance(by, tuple) else Sym(safe)

    def _symbol(self, name: str) -> str:
        """The identifier of a named dimension: two names stay two, none is an axis's of a kernel."""
        if name not in self.symbols:
            safe = re.sub(r"\W", "_", name, flags=re.ASCII)
            safe = safe if can_be_named(safe) else f"d_{safe}"
            while safe in self.symbols.values():
                safe += "_"
            self.symbols[name] = safe
        return self.symbols[name]

    def _output(self, o: onnx.ValueInfoProto, scope: Scope) -> Value:
        """A tensor; a sequence becomes one output an element, `name[0]`, ..., an absent optional none at all."""
        found, value = scope.find(o.name)
        if not found:
            raise ModelError("is made by no node", where=f"output '{o.name}'", hint="the model is damaged; export it again")
        return value

    # ---- nodes
    def _body(self, nodes: Any, scope: Scope, attrs: Mapping[str, onnx.AttributeProto] | None = None) -> None:
        made = {o for n in nodes for o in n.output if o}
        named = Counter(n.name for n in nodes)
        for index, proto in enumerate(nodes):
            alone = f" (node {index})" if named[proto.name] > 1 else ""  # a name that several have says which of them it is
            label = f" '{proto.name}{alone}'" if proto.name else ""
            where = f"{scope.label}node {index}{label} ({proto.op_type})"
            inputs = [self._operand(name, scope, made, where) for name in proto.input]
            for o in proto.output:
                if o and o in scope.values:
                    raise ModelError(f"'{o}' is made a second time", where=where, hint="every name may be given a value once")
            for o, v in zip(proto.output, self._node(proto, inputs, scope, where, attrs or {}), strict=False):
                if o:
                    scope.values[o] = v

    def _operand(self, name: str, scope: Scope, made: set[str], where: str) -> Value:
        if not name:
            return None
        found, value = scope.find(name)
        if found:
            return value
        if name in made:
            raise ModelError(
                f"operand '{name}' is made by a later node: the graph has a cycle or is not sorted",
                where=where,
                hint="sort the nodes so that each follows its operands",
            )
        raise ModelError(
            f"operand '{name}' is made by no node, input or initializer",
            where=where,
            hint="the model is damaged; export it again",
        )

    def _node(
        self, proto: onnx.NodeProto, inputs: list[Value], scope: Scope, where: str, outer: Mapping[str, onnx.AttributeProto]
    ) -> tuple[Value, ...]:
        self.count += 1
        if self.count > NODES:
            raise UnsupportedOp(
                f"has more than {NODES} nodes after expanding functions and loops",
                where=where,
                hint="the model is damaged, or too large to unroll",
            )
        domain = _domain(proto.domain)
        if not domain and proto.op_type in ("If", "Loop", "Scan"):
            outer = {}
        call = Call(self, scope, proto, functions.attributes(proto, outer), inputs, scope.opsets.get(domain, 1), where)
        before, self.where = self.where, self.where or where
        try:
            return self._lower(call, domain)
        except AutocompError as e:
            if e.where is not None and " (" in e.where:
                raise
            at = where if e.where is None else f"{where}: {e.where}"
            raise type(e)(e.what, where=at, hint=e.hint) from None
        except _MALFORMED as e:
            raise ModelError(
                f"its operands or attributes make no sense: {type(e).__name__}: {e}",
                where=where,
                hint="the model is damaged, or this is a form we do not know; check it with onnx.checker",
            ) from None
        finally:
            self.where = before

    def _lower(self, call: Call, domain: str) -> tuple[Value, ...]:
        key = (domain, call.op_type)
        if key in self.functions:
            return functions.expand(call, self.functions[key], key)
        if key in LOWERINGS:
            out = laid_out(call, LOWERINGS[key]) if any(isinstance(v, Coded) for v in call.inputs) else LOWERINGS[key](call)
            values = out if isinstance(out, tuple) else (out,)
            if call.n_outputs > len(values):
                call.refuse(f"names {call.n_outputs} outputs; only {len(values)} are supported")
            return tuple(self._fold(v, name) for v, name in zip(values, call.proto.output, strict=False))
        if key in REFUSED:
            call.refuse(REFUSED[key][0], hint=REFUSED[key][1])
        body = functions.standard_body(call, domain)
        if body is not None:
            return functions.expand(call, body, key)
        call.refuse(
            f"operator {domain + '.' if domain else ''}{call.op_type} (opset {call.opset}) is not supported",
            hint="replace it in the exporter, or add its lowering in autocomp/frontends/onnx",
        )

    def _fold(self, v: Value, name: str) -> Value:
        if isinstance(v, Coded):
            return Coded(self.constants.fold(v.node, self.fresh(name)), v.codes) if name else v
        return self.constants.fold(v, self.fresh(name)) if isinstance(v, Node) and name else v

    # ---- services for lowerings
    def node(self, op: str, operands: list[Node], attrs: Mapping[str, Any]) -> Node:
        """A node of the op table, with the model's place noted."""
        out = self.builder.op(op, *operands, **attrs)
        if out not in self.locations:
            _believed(out.type, op)
            self.locations[out] = self.where
        return out

    def fresh(self, name: str) -> str:
        """`name`, or name_2, name_3, ... if it is taken."""
        k = self.names[name] = self.names.get(name, 0) + 1
        return name if k == 1 else self.fresh(f"{name}_{k}")

    def subgraph(self, call: Call, graph: onnx.GraphProto, inputs: list[Value], label: str) -> list[Value]:
        """The outputs of a graph attribute applied to `inputs`; it sees the names around it."""
        scope = Scope(call.scope.opsets, f"{call.where} {label}: ", call.scope, depth=call.scope.depth + 1)
        if scope.depth > MAX_GRAPH_DEPTH:
            call.refuse(f"graphs nest deeper than {MAX_GRAPH_DEPTH}")
        self._initializers(graph, scope)
        formal = [v.name for v in graph.input if v.name not in scope.values]
        if len(formal) != len(inputs):
            call.broken(f"its {label} takes {len(formal)} values but is given {len(inputs)}")
        scope.values.update(zip(formal, inputs, strict=True))
        self._body(graph.node, scope)
        out = []
        for o in graph.output:
            found, value = scope.find(o.name)
            if not found:
                call.broken(f"output '{o.name}' of its {label} is made by no node")
            out.append(value)
        return out

    def function(self, call: Call, nodes: Any, scope: Scope, attrs: Mapping[str, onnx.AttributeProto]) -> None:
        """Lower a function's nodes in their own scope, references to its attributes resolved from `attrs`."""
        if scope.depth > MAX_GRAPH_DEPTH:
            call.refuse(f"functions nest deeper than {MAX_GRAPH_DEPTH}")
        self._body(nodes, scope, attrs)


def _domain(name: str) -> str:
    return "" if name in ONNX_DOMAINS else name


def _believed(t: TensorType, where: str) -> TensorType:
    """The type. Raises UnsupportedOp where it is larger than anything real."""
    if t.bytes > MAX_TENSOR_BYTES:
        raise UnsupportedOp(
            f"{t} takes {t.bytes} bytes; the limit is {MAX_TENSOR_BYTES}",
            where=where,
            hint="a shape this large is likely a damaged file; export it again",
        )
    return t
