"""Tensor data of an ONNX model: bytes are counted before anything is allocated, files outside the folder are refused.

A declared shape is only a claim. An array is made from bytes that are there (in the model or in an external file below
the model's folder), so a few bytes that declare a huge tensor cost nothing and end in a ModelError with both numbers.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.types import BF16, BOOL, F8E4M3, F8E5M2, F16, F32, F64, FLOATS_8, I8, I16, I32, I64, U8, U16, U32, U64, DType

TP = onnx.TensorProto

DTYPE_OF_ONNX: dict[int, DType] = {
    TP.FLOAT: F32,
    TP.DOUBLE: F64,
    TP.FLOAT16: F16,
    TP.BFLOAT16: BF16,
    TP.FLOAT8E4M3FN: F8E4M3,
    TP.FLOAT8E5M2: F8E5M2,
    TP.INT8: I8,
    TP.INT16: I16,
    TP.INT32: I32,
    TP.INT64: I64,
    TP.UINT8: U8,
    TP.UINT16: U16,
    TP.UINT32: U32,
    TP.UINT64: U64,
    TP.BOOL: BOOL,
}


@dataclass(frozen=True)
class Codes:
    """An element type of ONNX that the op table does not have, and the type `held` of its codes, one an element: of integers the numbers
    themselves, of floats their bits."""

    name: str
    number: int  # ONNX's
    numpy: np.dtype
    bits: int
    held: DType

    @property
    def is_float(self) -> bool:
        return self.name.startswith("float")

    def of(self, array: np.ndarray) -> np.ndarray:
        """An array of this type as its codes."""
        return array.view(np.uint8) if self.is_float else array.astype(self.held.numpy)

    def array(self, codes: np.ndarray) -> np.ndarray:
        """The array that has these codes."""
        return codes.view(self.numpy) if self.is_float else codes.astype(self.numpy)


_CODED = {"INT4": ("int4", 4, I8), "UINT4": ("uint4", 4, U8), "INT2": ("int2", 2, I8), "UINT2": ("uint2", 2, U8),
          "FLOAT4E2M1": ("float4_e2m1fn", 4, U8), "FLOAT8E4M3FNUZ": ("float8_e4m3fnuz", 8, U8),
          "FLOAT8E5M2FNUZ": ("float8_e5m2fnuz", 8, U8), "FLOAT8E8M0": ("float8_e8m0fnu", 8, U8)}  # fmt: skip
CODED = {getattr(TP, n): Codes(n.lower(), getattr(TP, n), np.dtype(getattr(ml_dtypes, as_numpy)), bits, held)
         for n, (as_numpy, bits, held) in _CODED.items() if hasattr(TP, n) and hasattr(ml_dtypes, as_numpy)}  # fmt: skip
"""By ONNX's number; those that the installed onnx and ml_dtypes have."""
ONNX_OF_DTYPE = {d: code for code, d in DTYPE_OF_ONNX.items()}

_TYPED_FIELD = {
    TP.FLOAT: "float_data",
    TP.DOUBLE: "double_data",
    TP.INT64: "int64_data",
    TP.UINT32: "uint64_data",
    TP.UINT64: "uint64_data",
}
"""Where a tensor keeps its elements when not in raw_data; all other types use int32_data (onnx.proto)."""

_AS_BITS = {TP.FLOAT16: np.uint16, TP.BFLOAT16: np.uint16, TP.FLOAT8E4M3FN: np.uint8, TP.FLOAT8E5M2: np.uint8}

MAX_GENERATED_BYTES = 2**33
"""The most that a tensor may take whose elements the model generates (ConstantOfShape) instead of carrying them."""


def dtype_named(code: int, where: str) -> DType:
    """The element type of an ONNX code. Raises UnsupportedOp for types that we do not compute with."""
    if code in DTYPE_OF_ONNX:
        return DTYPE_OF_ONNX[code]
    known = {v.number: v.name for v in TP.DESCRIPTOR.enum_types_by_name["DataType"].values}
    if code not in known or code == TP.UNDEFINED:
        raise ModelError(f"element type code {code} is none of ONNX's", where=where, hint="the file is damaged; export it again")
    raise UnsupportedOp(
        f"element type {known[code].lower()} is not supported",
        where=where,
        hint=f"convert to one of {', '.join(str(d) for d in DTYPE_OF_ONNX.values())}",
    )


def declared_shape(t: onnx.TensorProto, where: str) -> tuple[int, ...]:
    """The shape that a tensor declares. Raises ModelError on a negative dimension."""
    shape = tuple(int(d) for d in t.dims)
    if any(d < 0 for d in shape):
        raise ModelError(f"declares the shape {list(shape)}; a dimension is negative", where=where)
    return shape


@dataclass(frozen=True)
class Raw:
    """Data of a tensor that lies elsewhere: its length in bytes, and what reads it."""

    length: int
    read: Callable[[], bytes | memoryview]


def tensor_loader(
    t: onnx.TensorProto, folder: Path | None, where: str, raw: Raw | None = None
) -> tuple[DType, tuple[int, ...], Callable[[], np.ndarray]]:
    """(dtype, shape, loader) of a tensor; its bytes are checked now and read when the loader is called.

    folder: the model's folder for external data, None for a model that did not come from a file. raw: its raw data, if they are
    not in the tensor.
    Raises ModelError (sizes that contradict, files missing or outside the folder) and UnsupportedOp (element type).
    """
    dtype, shape = dtype_named(t.data_type, where), declared_shape(t, where)
    if t.data_location == TP.EXTERNAL:
        return dtype, shape, _external_loader(t, dtype, shape, folder, where)
    count = math.prod(shape)
    field = _TYPED_FIELD.get(t.data_type, "int32_data")  # type: ignore[call-overload]
    inside = raw is None and t.HasField("raw_data")
    length = raw.length if raw is not None else len(t.raw_data) if inside else None
    have = len(getattr(t, field)) if length is None else length // dtype.bytes
    if have != count or (length or 0) % dtype.bytes:
        carried = f"{have} elements" if length is None else f"{length} bytes"
        raise ModelError(
            f"declares {dtype}{list(shape)}, which is {count} elements ({count * dtype.bytes} bytes), but carries {carried}",
            where=where,
            hint="the file is truncated or damaged; export it again",
        )
    if raw is not None:
        return dtype, shape, lambda: _from_bytes(raw.read(), dtype, shape)
    return dtype, shape, lambda: _decode(t, dtype, shape, field)


def coded_loader(
    t: onnx.TensorProto, folder: Path | None, where: str, raw: Raw | None = None
) -> tuple[DType, tuple[int, ...], Callable[[], np.ndarray]]:
    """`tensor_loader` of the codes of a tensor of CODED: bytes hold as many as find room, the first one in the low bits."""
    shape, codes = declared_shape(t, where), CODED[t.data_type]
    count, bits = math.prod(shape), codes.bits
    packed = onnx.TensorProto()
    packed.CopyFrom(t)
    packed.data_type = TP.UINT8
    del packed.dims[:]
    packed.dims.append(-(-count * bits // 8))
    _, _, load = tensor_loader(packed, folder, where, raw)
    unused = 8 - bits

    def numbers() -> np.ndarray:
        high = np.stack([load() >> at << unused for at in range(0, 8, bits)], axis=-1).reshape(-1)[:count].view(codes.held.numpy)
        return (high >> unused).reshape(shape)  # of signed numbers the sign stays

    return codes.held, shape, numbers


def tensor_array(t: onnx.TensorProto, folder: Path | None, where: str) -> np.ndarray:
    """The array of a tensor, after the checks of `tensor_loader`."""
    return tensor_loader(t, folder, where)[2]()


def _decode(t: onnx.TensorProto, dtype: DType, shape: tuple[int, ...], field: str) -> np.ndarray:
    if t.HasField("raw_data"):
        return _from_bytes(t.raw_data, dtype, shape)
    values = getattr(t, field)
    if (bits := _AS_BITS.get(t.data_type)) is not None:  # type: ignore[call-overload]
        return np.asarray(values, np.int64).astype(bits).view(dtype.numpy).reshape(shape)
    return np.asarray(values).astype(dtype.numpy).reshape(shape)


def _from_bytes(data: bytes | memoryview, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Little-endian data as an aligned array; without a copy where they are aligned and this machine is little-endian."""
    little = dtype.numpy.newbyteorder("<") if dtype.numpy.kind in "iuf" and dtype not in (BF16, *FLOATS_8) else dtype.numpy
    array = np.frombuffer(data, dtype=little)
    return (array if array.flags.aligned else array.copy()).astype(dtype.numpy, copy=False).reshape(shape)


def _external_loader(
    t: onnx.TensorProto, dtype: DType, shape: tuple[int, ...], folder: Path | None, where: str
) -> Callable[[], np.ndarray]:
    entries = {e.key: e.value for e in t.external_data}
    path = resolve_external(entries.get("location", ""), folder, where)
    need = math.prod(shape) * dtype.bytes
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", str(need)))
    except ValueError:
        raise ModelError("external data has an offset or length that is no number", where=where) from None
    size = path.stat().st_size
    if length != need or offset < 0 or offset + need > size:
        raise ModelError(
            f"declares {dtype}{list(shape)} ({need} bytes) at offset {offset} of '{path.name}', entry length {length}, "
            f"but the file has {size} bytes",
            where=where,
            hint="the data file is truncated or belongs to another model",
        )

    def load() -> np.ndarray:
        again = resolve_external(entries["location"], folder, where)
        with open(again, "rb") as f:
            f.seek(offset)
            raw = f.read(need)
        if len(raw) != need:
            raise ModelError(f"'{again.name}' gave {len(raw)} of {need} bytes", where=where, hint="the file changed; load again")
        return np.frombuffer(raw, dtype=dtype.numpy).reshape(shape)

    return load


def resolve_external(location: str, folder: Path | None, where: str) -> Path:
    """The regular file of an external tensor, at or below `folder` after resolving links.

    Raises ModelError for absolute paths, `..`, links that leave the folder, missing files and things that are no file.
    """
    hint = "external data must lie in the model's folder"
    if folder is None:
        raise ModelError(
            "has external data, but the model did not come from a file", where=where, hint="load the model by its path"
        )
    if not location or "\0" in location:
        raise ModelError("external data names no file", where=where, hint=hint)
    parts = location.replace("\\", "/").split("/")
    if location.startswith(("/", "\\")) or ":" in parts[0] or ".." in parts:
        raise ModelError(f"external data at '{location}' is outside the model's folder", where=where, hint=hint)
    base = Path(os.path.realpath(folder))
    path = Path(os.path.realpath(base / location))
    if not path.is_relative_to(base):
        raise ModelError(f"external data at '{location}' is a link that leaves the model's folder", where=where, hint=hint)
    try:
        mode = path.stat().st_mode
    except OSError as e:
        raise ModelError(f"external data file '{location}' cannot be opened: {e.strerror}", where=where, hint=hint) from None
    if not stat.S_ISREG(mode):
        raise ModelError(f"external data at '{location}' is no regular file", where=where, hint=hint)
    return path
