"""Reading a model: path, bytes or ModelProto -> a checked ModelProto and the folder for its external data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from autocomp.errors import ModelError, UnsupportedOp

MIN_OPSET = 9
ONNX_DOMAINS = ("", "ai.onnx")
MAX_GRAPH_DEPTH = 32
"""How deep graphs may nest in attributes of control-flow nodes; deeper files are attacks on the stack."""


@dataclass(frozen=True)
class Model:
    """proto: the parsed model. folder: where external data may lie (None: nowhere). name: for texts."""

    proto: onnx.ModelProto
    folder: Path | None
    name: str
    opset: int
    opsets: dict[str, int]


def read_model(model: str | os.PathLike[str] | bytes | onnx.ModelProto, name: str | None = None) -> Model:
    """Parse and check the envelope: opsets known and in range, a graph present.

    Raises ModelError (unreadable, truncated, not ONNX) and UnsupportedOp (opset too old or newer than the onnx package).
    """
    folder: Path | None = None
    if isinstance(model, onnx.ModelProto):
        proto, label = model, name or model.graph.name or "model"
    elif isinstance(model, (bytes, bytearray, memoryview)):
        label = name or "model"
        proto = _parse(bytes(model), f"<{label}: {len(model)} bytes>")
    else:
        path = Path(model)
        try:
            raw = path.read_bytes()
        except OSError as e:
            raise ModelError(
                f"cannot be read: {e.strerror}", where=str(path), hint="check the path and its permissions"
            ) from None
        proto, folder, label = _parse(raw, str(path)), path.parent, name or path.stem
    where = f"model '{label}'"
    opsets = _opsets(proto, where)
    if not proto.HasField("graph"):
        raise ModelError("has no graph", where=where, hint="the file is truncated or no ONNX model; export it again")
    return Model(proto, folder, label, opsets[""], opsets)


def _parse(raw: bytes, where: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(raw)
    except (DecodeError, RecursionError):
        raise ModelError(
            f"is no ONNX model: the {len(raw)} bytes do not parse",
            where=where,
            hint="the file is truncated, damaged or of another format; export it again",
        ) from None
    return proto


def _opsets(proto: onnx.ModelProto, where: str) -> dict[str, int]:
    opsets = {"": 1} if proto.ir_version and proto.ir_version < 3 else {}
    for o in proto.opset_import:
        opsets["" if o.domain in ONNX_DOMAINS else o.domain] = int(o.version)
    if "" not in opsets:
        if opsets or proto.functions:
            opsets[""] = onnx.defs.onnx_opset_version()
        else:
            raise ModelError("names no operator set", where=where, hint="the file is truncated or no ONNX model; export it again")
    newest = onnx.defs.onnx_opset_version()
    if opsets[""] > newest:
        raise UnsupportedOp(
            f"uses operator set {opsets['']}; the installed onnx package knows up to {newest}",
            where=where,
            hint="upgrade the onnx package, or export with an older opset",
        )
    return opsets
