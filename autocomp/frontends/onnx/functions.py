"""Operators that ONNX defines as functions of others: expanded where we have no lowering of our own."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from autocomp.errors import ModelError
from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.data import ONNX_OF_DTYPE
from autocomp.frontends.onnx.scope import Coded, Scope, Value
from autocomp.ir.node import Node

AP = onnx.AttributeProto


def attributes(proto: onnx.NodeProto, outer: Mapping[str, onnx.AttributeProto]) -> dict[str, onnx.AttributeProto]:
    """A node's attributes by name; a reference to an attribute of the enclosing function is replaced by its value."""
    out = {}
    for a in proto.attribute:
        if not a.ref_attr_name:
            out[a.name] = a
        elif a.ref_attr_name in outer:
            out[a.name] = _renamed(outer[a.ref_attr_name], a.name)
    return out


def _renamed(a: onnx.AttributeProto, name: str) -> onnx.AttributeProto:
    out = AP()
    out.CopyFrom(a)
    out.name = name
    return out


def standard_body(call: Call, domain: str) -> onnx.FunctionProto | None:
    """The body that the ONNX standard gives an operator at this opset and these operand types, or None."""
    try:
        schema = onnx.defs.get_schema(call.op_type, call.opset, domain)
    except onnx.defs.SchemaError:
        return None
    if call.op_type == "Attention" and not (softcap := call.float_attr("softcap", 0.0)) >= 0:
        call.refuse(f"softcap is {softcap}, which the standard's text and its evaluator take in two ways", "give 0 or more")
    body = onnx.FunctionProto()
    if schema.function_opset_versions:  # type: ignore[attr-defined]
        version = max((v for v in schema.function_opset_versions if v <= call.opset), default=None)  # type: ignore[attr-defined]
        raw = schema.get_function_with_opset_version(call.opset) if version is not None else b""  # type: ignore[attr-defined]
    elif schema.context_dependent_function_opset_versions:  # type: ignore[attr-defined]
        raw = schema.get_context_dependent_function(_resolved(call).SerializeToString(), _types(call))  # type: ignore[attr-defined]
    else:
        return None
    if not raw:
        return None
    body.ParseFromString(raw)
    given = {a.name for a in body.attribute_proto}
    for name, attr in schema.attributes.items():
        if name not in given and attr.default_value.type != AP.UNDEFINED:
            body.attribute_proto.append(_renamed(attr.default_value, name))
    return body


def _resolved(call: Call) -> onnx.NodeProto:
    """The node with references to attributes of an enclosing function replaced by their values."""
    out = onnx.NodeProto()
    out.CopyFrom(call.proto)
    out.ClearField("attribute")
    out.attribute.extend(call.attrs.values())
    return out


def _types(call: Call) -> list[bytes]:
    """The operands' types as ONNX TypeProtos, for bodies that depend on them (an absent operand is an empty one)."""
    out = []
    for v in call.inputs:
        t = onnx.TypeProto()
        if isinstance(v, (Node, Coded)):
            _describe(t.tensor_type, v)
        elif isinstance(v, list):
            if not v or not isinstance(v[0], (Node, Coded)):
                call.refuse("works on a sequence that has no tensors", hint="export the model without it")
            _describe(t.sequence_type.elem_type.tensor_type, v[0])
        out.append(t.SerializeToString())
    return out


def _describe(t: onnx.TypeProto.Tensor, v: Node | Coded) -> None:
    """Write a tensor's type into an ONNX tensor type."""
    t.elem_type, x = (v.codes.number, v.node) if isinstance(v, Coded) else (ONNX_OF_DTYPE[v.type.dtype], v)
    for d in x.type.shape:
        dim = t.shape.dim.add()
        if isinstance(d, int):
            dim.dim_value = d
        else:
            dim.dim_param = d.name


def expand(call: Call, body: onnx.FunctionProto, key: tuple[str, str]) -> tuple[Value, ...]:
    """The outputs of a function's body applied to the call's operands."""
    if len(call.inputs) > len(body.input):
        call.broken(f"has {len(call.inputs)} operands, but function {key[1]} takes {len(body.input)}")
    opsets = dict(call.scope.opsets) | {("" if o.domain == "ai.onnx" else o.domain): int(o.version) for o in body.opset_import}
    scope = Scope(opsets, f"{call.where} in function {key[1]}: ", None, depth=call.scope.depth + 1)
    scope.values = dict(zip(body.input, [*call.inputs, *[None] * (len(body.input) - len(call.inputs))], strict=True))
    attrs = {a.name: a for a in body.attribute_proto} | call.attrs
    call.importer.function(call, body.node, scope, attrs)
    out: list[Value] = []
    for k, name in enumerate(body.output):
        found, value = scope.find(name)
        if not found and k < len(call.proto.output) and call.proto.output[k]:
            raise ModelError(f"output '{name}' of function {key[1]} is made by no node", where=call.where)
        out.append(value)
    return tuple(out)
