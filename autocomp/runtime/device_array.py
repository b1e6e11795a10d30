"""Arrays on a CUDA device: inputs of any library seen as pointers, outputs that any library can take, without copies."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.orders import Order, inverse
from autocomp.ir.types import Sym, dtype_of
from autocomp.runtime.given import of_torch, plain, short_float
from autocomp.targets.source import TensorMap


class DeviceArray:
    """A dense array in device memory. Takes part in DLPack and the CUDA array interface; `numpy()` copies it to the host.

    `stream` is where it is written: consumers of DLPack wait for it. `order`: its axes from the outermost in memory to the innermost,
    where they do not lie as they are named (`ir.orders`).
    """

    def __init__(self, buffer: Any, shape: tuple[int, ...], dtype: np.dtype[Any], stream: Any, order: Order | None = None) -> None:
        self.buffer, self.shape, self.dtype, self.stream, self.order = buffer, shape, dtype, stream, order

    def transpose(self, axes: Order) -> DeviceArray:
        """The same memory with axis axes[k] as axis k."""
        lies = self.order or tuple(range(self.ndim))
        order = tuple(axes.index(k) for k in lies)
        shape = tuple(self.shape[k] for k in axes)
        return DeviceArray(self.buffer, shape, self.dtype, self.stream, None if order == tuple(range(self.ndim)) else order)

    @property
    def strides(self) -> tuple[int, ...] | None:
        """In elements; None where the axes lie as they are named."""
        if self.order is None:
            return None
        steps = {k: prod(self.shape[j] for j in self.order[i + 1 :]) for i, k in enumerate(self.order)}
        return tuple(steps[k] for k in range(self.ndim))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def pointer(self) -> int:
        return int(self.buffer.handle)

    @property
    def device(self) -> int:
        return int(self.buffer.device_id)

    def before(self, stream: Any) -> None:
        """`stream` goes on behind what writes this array,"""
        if stream is not self.stream:
            stream.wait(self.stream.record())

    def behind(self, stream: Any) -> None:
        """and what writes or frees it later comes behind what `stream` has queued."""
        if stream is not self.stream:
            self.stream.wait(stream.record())

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": np.dtype(self.dtype).str,
            "data": (self.pointer, False),
            "strides": None if self.strides is None else tuple(s * np.dtype(self.dtype).itemsize for s in self.strides),
            "version": 3,
            "stream": int(self.stream.handle) or 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.buffer.device_id  # 2: kDLCUDA

    def __dlpack__(self, *, stream: int | None = None, **rest: Any) -> Any:
        from cuda.core import Stream
        from cuda.core.utils import StridedMemoryView

        if stream is not None and stream != -1:  # 1, 2: the legacy and the per-thread default stream
            Stream.from_handle(stream).wait(self.stream.record())
        else:
            self.stream.sync()
        own = np.dtype(self.dtype)
        known = own if own.kind != "V" and not _is_float8(own) else np.dtype(f"u{own.itemsize}")  # 8-bit floats go out as bytes
        capsule = StridedMemoryView.from_buffer(self.buffer, self.shape, self.strides, dtype=known).__dlpack__(**rest)
        if own.name == "bfloat16":
            _call_bfloat16(capsule)
        return capsule

    def numpy(self) -> np.ndarray:
        """A copy on the host, after what writes it has finished."""
        from cuda.bindings import driver
        from cuda.core import Device

        Device(self.device).set_current()  # the caller's thread may be one that has no device yet
        self.stream.sync()
        order = self.order or tuple(range(self.ndim))
        out = np.empty(tuple(self.shape[k] for k in order), self.dtype)
        if self.nbytes:
            check(driver.cuMemcpyDtoH(out.ctypes.data, self.pointer, self.nbytes), "copy to the host")
        return out.transpose(inverse(order))


def _call_bfloat16(capsule: Any) -> None:
    """Set the type code of a DLPack capsule (made for 16-bit integers) to bfloat16.

    Layout of the structures: dlpack.h 1.0. A DLTensor has its type code behind data, device and ndim, at byte 20; it stands first
    in a DLManagedTensor and at byte 32 of a DLManagedTensorVersioned.
    """
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    at = api.PyCapsule_GetPointer(capsule, name) + (32 if name == b"dltensor_versioned" else 0) + 20
    ctypes.c_uint8.from_address(at).value = 4  # kDLBfloat


class Borrowed:
    """Somebody else's device array, as pointer, shape and dtype; keeps its owner alive. `stream` goes on behind what writes it.

    Raises ModelError on strides, and on tensors whose memory is not all that they are: those that record gradients, or are sparse.
    """

    def __init__(self, name: str, x: Any, stream: Any) -> None:
        from cuda.core.utils import StridedMemoryView

        if (why := withheld(x)) is not None:
            raise ModelError(f"input '{name}' {why[0]}", where="inputs", hint=f"give {why[1]}")
        own, x = _short_float(x), plain(x)
        view = StridedMemoryView.from_any_interface(_as_bytes(x) if own is not None else x, stream_ptr=int(stream.handle))
        self.owner, self.view, self.stream = x, view, stream
        self.pointer, self.shape = int(view.ptr), tuple(view.shape)
        self.dtype = own or np.dtype(view.dtype if view.dtype is not None else _dtype_of(x))
        self.ndim, self.device = len(view.shape), int(view.device_id)
        self.nbytes = prod(self.shape) * self.dtype.itemsize
        dense = 1
        for extent, step in zip(reversed(self.shape), reversed(view.strides or ())):
            if self.nbytes and extent != 1 and step != dense:
                raise _not_dense(name, tuple(view.strides), self.shape)
            dense *= extent


def dense_array(name: str, x: DeviceArray) -> DeviceArray:
    """Raises ModelError where the axes of an input do not lie as they are named."""
    if x.order is not None:
        raise _not_dense(name, x.strides, x.shape)
    return x


def _not_dense(name: str, strides: object, shape: tuple[int, ...]) -> ModelError:
    return ModelError(f"input '{name}' has strides {strides} for shape {shape}: rows must lie dense",
                      hint="pass x.contiguous() (torch) or ascontiguousarray(x) (CuPy), or compile for examples that lie so")


def withheld(x: Any) -> tuple[str, str] | None:
    """Why a tensor of torch is not its memory alone, and what to give instead; None where it is."""
    if not of_torch(x):
        return None
    if x.layout != sys.modules["torch"].strided:
        return f"is stored as {x.layout}", "x.to_dense()"
    return ("records gradients, which are not computed", "x.detach()") if x.requires_grad else None


def _short_float(x: Any) -> np.dtype[Any] | None:
    """The dtype of a torch tensor of 8-bit floats, which it hands out as bytes only; None for others."""
    short = short_float(getattr(x, "dtype", ""))
    return short if short is not None and short.itemsize == 1 and hasattr(x, "view") else None


def _as_bytes(x: Any) -> Any:
    """A torch tensor's memory as bytes, its strides kept."""
    return x.view(sys.modules["torch"].uint8)


def _dtype_of(x: Any) -> str:
    """The name of a dtype that NumPy itself does not have (bfloat16 of torch)."""
    import ml_dtypes

    name = str(x.dtype).rpartition(".")[2]
    return getattr(ml_dtypes, name, None) or name


def on_device(x: Any) -> bool:
    """Whether an array says that it lies in CUDA memory."""
    if hasattr(x, "__dlpack_device__"):  # asked first: torch's other interface fails on types that NumPy lacks
        try:
            return int(x.__dlpack_device__()[0]) == 2
        except (BufferError, RuntimeError, ValueError):  # a tensor without memory
            return False
    return hasattr(x, "__cuda_array_interface__")


def capturing(arrays: Iterable[Any]) -> bool:
    """Whether torch is capturing what is queued on its current stream, where one of the arrays is a tensor of torch on a device."""
    return any(of_torch(x) and x.is_cuda for x in arrays) and bool(sys.modules["torch"].cuda.is_current_stream_capturing())


def empty(x: Any, shape: tuple[int, ...], dtype: np.dtype[Any], stream: Any) -> Borrowed | None:
    """Memory for a result that `stream` will write, from the library of the input x where that is torch, else None.

    torch's allocator hands memory that is given back on to work on the stream that it was taken for; ours would to work on `stream`,
    while a stream of torch may still read.
    """
    if not of_torch(x):
        return None
    torch = sys.modules["torch"]
    return Borrowed("", torch.empty(shape, dtype=getattr(torch, np.dtype(dtype).name), device=x.device), stream)


def like(x: Any, out: DeviceArray | Borrowed, again: bool = False) -> Any:
    """`out` as an array of the library that `x` belongs to, sharing memory; a tensor of torch that is given `again` is a copy, since
    its owner may write to it. The library's current stream goes on behind the one that writes `out`."""
    if isinstance(out, Borrowed):
        current = sys.modules["torch"].cuda.current_stream(x.device).cuda_stream
        if current:  # the default stream is ordered with all of ours
            from cuda.core import Stream

            Stream.from_handle(current).wait(out.stream.record())
        return out.owner.clone() if again else out.owner
    library = sys.modules.get("cupy")
    return library.from_dlpack(out) if library is not None and type(x).__module__.partition(".")[0] == "cupy" else out


def _is_float8(dtype: np.dtype[Any]) -> bool:
    return dtype.name.startswith("float8_")


def tensor_map(m: TensorMap, pointer: int, values: Mapping[str, int]) -> Any:
    """The driver's descriptor of a bulk copy. `values` are those of symbolic dimensions."""
    from cuda.core import Buffer
    from cuda.core._tensor_map import TensorMapL2Promotion, TensorMapSwizzle
    from cuda.core.utils import StridedMemoryView

    number = lambda d: values[d.name] if isinstance(d, Sym) else d
    dtype = dtype_of(m.dtype)
    shape = tuple(number(d) for d in reversed(m.dims))
    strides = (*(number(s) // dtype.bytes for s in reversed(m.strides)), 1)
    size = sum((n - 1) * s for n, s in zip(shape, strides)) * dtype.bytes + dtype.bytes
    view = StridedMemoryView.from_buffer(Buffer.from_handle(pointer, size), shape, strides, dtype=np.dtype(f"u{dtype.bytes}"))
    steps = m.steps or (1,) * len(m.box)  # the driver wants what a box spans, and how far its elements are apart
    span = tuple(b * s for b, s in zip(reversed(m.box), reversed(steps)))
    kind = np.dtype(np.uint8) if dtype.bytes == 1 else dtype.numpy  # the engine knows bytes; it only copies them
    return view.as_tensor_map(span, element_strides=tuple(reversed(steps)), data_type=kind,
                              swizzle=getattr(TensorMapSwizzle, f"SWIZZLE_{m.swizzle}B" if m.swizzle else "NONE"),
                              l2_promotion=getattr(TensorMapL2Promotion, f"L2_{m.widened}B" if m.widened else "NONE"))  # fmt: skip


def check(result: Any, what: str) -> Any:
    """The value of a driver call. Raises AutocompError with CUDA's own text."""
    from cuda.bindings import driver

    from autocomp.errors import AutocompError

    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        _, text = driver.cuGetErrorString(status)
        raise AutocompError(f"{what}: {text.decode() if text else status}", where="CUDA")
    return values[0] if values else None
