"""Reading a model without its weights: the raw data of large initializers stays where it lies until somebody asks for it.

A ModelProto is walked at three levels of its wire format (model, graph, initializer); what comes out is the same message less
those bytes, and where they are. Wire format: protobuf.dev/programming-guides/encoding; field numbers: onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9  # fields of ModelProto, GraphProto and TensorProto
LARGE = 1 << 16  # bytes from which an initializer's data is left out
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Buffer = bytes | memoryview


class NotPlain(Exception):
    """The bytes are not in the form that this reader walks; the full parser decides what they are."""


@dataclass(frozen=True)
class Field:
    """One field: `start` of its tag, its value in [value, end)."""

    number: int
    kind: int
    start: int
    value: int
    end: int


def lean(buffer: Buffer) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """(the message without the raw data of large initializers, index of an initializer -> offset and length of its data).

    Raises NotPlain where the message is not one graph in the plain encoding.
    """
    graphs = [f for f in _fields(buffer, 0, len(buffer)) if f.number == GRAPH]
    if len(graphs) != 1 or graphs[0].kind != BYTES:
        raise NotPlain("not one graph")
    g = graphs[0]
    parts: list[bytes] = []
    found: dict[int, tuple[int, int]] = {}
    copied, count = g.value, 0
    for f in _fields(buffer, g.value, g.end):
        if f.number != INITIALIZER:
            continue
        if f.kind != BYTES:
            raise NotPlain("an initializer that is no message")
        raw = _raw_data(buffer, f)
        if raw is not None:
            tensor = bytes(buffer[f.value : raw.start]) + bytes(buffer[raw.end : f.end])
            parts += [bytes(buffer[copied : f.start]), _length_delimited(INITIALIZER, tensor)]
            found[count] = (raw.value, raw.end - raw.value)
            copied = f.end
        count += 1
    parts.append(bytes(buffer[copied : g.end]))
    return bytes(buffer[: g.start]) + _length_delimited(GRAPH, b"".join(parts)) + bytes(buffer[g.end :]), found


def _raw_data(buffer: Buffer, tensor: Field) -> Field | None:
    """The one raw_data field of a tensor, if it is large."""
    if tensor.kind != BYTES or tensor.end - tensor.value < LARGE:
        return None
    raw = [f for f in _fields(buffer, tensor.value, tensor.end) if f.number == RAW_DATA]
    return raw[0] if len(raw) == 1 and raw[0].kind == BYTES and raw[0].end - raw[0].value >= LARGE else None


def _fields(buffer: Buffer, at: int, end: int) -> Iterator[Field]:
    """The fields of the message in [at, end)."""
    while at < end:
        start = at
        tag, at = _varint(buffer, at, end)
        kind = tag & 7
        if kind == VARINT:
            value, (_, at) = at, _varint(buffer, at, end)
        elif kind == BYTES:
            length, value = _varint(buffer, at, end)
            at = value + length
        elif kind in (FIXED64, FIXED32):
            value, at = at, at + (8 if kind == FIXED64 else 4)
        else:
            raise NotPlain(f"wire type {kind}")
        if at > end:
            raise NotPlain("a field passes the end of its message")
        yield Field(tag >> 3, kind, start, value, at)


def _varint(buffer: Buffer, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = buffer[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise NotPlain("a number passes the end of its message")


def _length_delimited(number: int, content: bytes) -> bytes:
    out = bytearray([number << 3 | BYTES])
    n = len(content)
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out) + content
