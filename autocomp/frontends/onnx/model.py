"""Reading a model: path, bytes or ModelProto -> a checked ModelProto and the folder for its external data."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.onnx.data import Raw
from autocomp.frontends.onnx.wire import LARGE, Buffer, NotPlain, lean

ONNX_DOMAINS = ("", "ai.onnx")
MAX_GRAPH_DEPTH = 32
"""How deep graphs may nest in attributes of control-flow nodes; deeper files are attacks on the stack."""


@dataclass(frozen=True)
class Model:
    """proto: the parsed model. folder: where external data may lie (None: nowhere). name: for texts. raw: index of an initializer
    whose data is not in `proto` -> its length and what reads its bytes (see `wire`)."""

    proto: onnx.ModelProto
    folder: Path | None
    name: str
    opset: int
    opsets: dict[str, int]
    raw: dict[int, Raw] = field(default_factory=dict)


def read_model(model: str | os.PathLike[str] | bytes | onnx.ModelProto, name: str | None = None) -> Model:
    """Parse and check the envelope: opsets known and in range, a graph present.

    Raises ModelError (unreadable, truncated, not ONNX) and UnsupportedOp (opset too old or newer than the onnx package).
    """
    folder: Path | None = None
    raw: dict[int, Raw] = {}
    if isinstance(model, onnx.ModelProto):
        proto, label = model, name or model.graph.name or "model"
    elif isinstance(model, (bytes, bytearray, memoryview)):
        label = name or "model"
        data = bytes(model)
        proto, where = _parse_lean(data, f"<{label}: {len(data)} bytes>")
        raw = {i: Raw(at[1], partial(_piece, data, *at)) for i, at in where.items()}
    else:
        path = Path(model)
        try:
            proto, where = _parse_file(path)
        except OSError as e:
            raise ModelError(
                f"cannot be read: {e.strerror}", where=str(path), hint="check the path and its permissions"
            ) from None
        raw = {i: Raw(at[1], partial(_read_piece, path, *at)) for i, at in where.items()}
        folder, label = path.parent, name or path.stem
    opsets = _opsets(proto, f"model '{label}'")
    if not proto.HasField("graph"):
        raise ModelError("has no graph", where=f"model '{label}'", hint="the file is truncated or no ONNX model; export it again")
    return Model(proto, folder, label, opsets[""], opsets, raw)


def _parse_file(path: Path) -> tuple[onnx.ModelProto, dict[int, tuple[int, int]]]:
    """The model of a file without the data of its large initializers, which lie at these offsets. Raises OSError, ModelError."""
    with open(path, "rb") as f:
        if os.fstat(f.fileno()).st_size < LARGE:
            return _parse(f.read(), str(path)), {}
        with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            return _parse_lean(view, str(path))


def _parse_lean(data: Buffer, where: str) -> tuple[onnx.ModelProto, dict[int, tuple[int, int]]]:
    try:
        small, found = lean(data)
    except NotPlain:
        return _parse(bytes(data), where), {}
    return _parse(small, where, len(data)), found


def _piece(data: bytes, offset: int, length: int) -> Buffer:
    return memoryview(data)[offset : offset + length]


def _read_piece(path: Path, offset: int, length: int) -> Buffer:
    """Bytes of a file. Raises ModelError if it is not what it was."""
    try:
        with open(path, "rb") as f:
            f.seek(offset)
            data = f.read(length)
    except OSError as e:
        raise ModelError(f"cannot be read again: {e.strerror}", where=str(path), hint="keep the file while its program is in use") from None
    if len(data) != length:
        raise ModelError(f"gave {len(data)} of {length} bytes at {offset}", where=str(path), hint="the file changed; load it again")
    return data


def _parse(raw: bytes, where: str, length: int = 0) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(raw)
    except (DecodeError, RecursionError):
        raise ModelError(
            f"is no ONNX model: the {length or len(raw)} bytes do not parse",
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
