"""Arrays that callers give, of any library, as NumPy's: read without a copy where they lie well, refused with a reason where they lie."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from autocomp.errors import AutocompError, ModelError

AT_ONCE = 1 << 14  # pages that the system is asked about in one call


def host_array(x: Any, name: str = "") -> np.ndarray:
    """A NumPy view of anything that offers DLPack or the array interface, without a copy where they allow it. `name`: of the input.

    Raises ModelError where its owner or NumPy refuses (a tensor that records gradients, a type that NumPy lacks, another device), where
    what it says of itself contradicts itself, or where it says that it lies in memory that this process does not have.
    """
    if type(x) is np.ndarray:
        return x
    what = f"input '{name}'" if name else "an input"
    try:
        array, foreign = _read(x)
        why = _elsewhere(array, x) if foreign else ""
    except AutocompError:
        raise
    except Exception as e:  # whatever a foreign property or method raises
        raise ModelError(f"{what}: NumPy cannot read a {_kind(x)}: {str(e) or type(e).__name__}", where="inputs",
                         hint="give x.detach().cpu()" if of_torch(x) else "give a NumPy array") from None  # fmt: skip
    if why:
        raise ModelError(f"{what}: a {_kind(x)} says that it has shape {array.shape} and strides {array.strides}, but {why}",
                         where="inputs", hint="give a NumPy array")  # fmt: skip
    return array


def dense(x: np.ndarray) -> np.ndarray:
    """The array, or a copy of it, whose elements lie one after another at addresses that are multiples of their size."""
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else np.array(x, order="C", subok=False)


def check_copied(into: Iterable[str], feed: Mapping[str, Any]) -> None:
    """Raises ModelError where an input that the model writes into cannot take its new value: no array of NumPy or torch, read-only, or in
    the memory of another input (which then would change, too)."""
    for name in into:
        x, where = feed.get(name), f"input '{name}'"
        if not (of_torch(x) or isinstance(x, np.ndarray)):
            raise ModelError(f"a {_kind(x)} cannot be written into, and the model does", where=where,
                             hint=f"give an array of NumPy or torch, or donate=['{name}']")  # fmt: skip
        if isinstance(x, np.ndarray) and not x.flags.writeable:
            raise ModelError("the array is read-only, and the model writes into it", where=where, hint="give x.copy()")
        for other, y in feed.items():
            if isinstance(x, np.ndarray):
                shared = isinstance(y, np.ndarray) and np.may_share_memory(x, y)
            else:
                shared = of_torch(y) and x is not None and x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
            if other != name and shared:
                raise ModelError(f"the model writes into it, and input '{other}' lies in the same memory", where=where,
                                 hint="give one of them as a copy")  # fmt: skip


def check_donated(donated: Iterable[str], feed: Mapping[str, Any], given: Mapping[str, np.ndarray]) -> None:
    """Raises ModelError where a donated input is no memory to write into: no array, not dense, read-only, or shared with another input.
    `given`: the arrays of `feed`, as they lie."""
    for name in donated:
        x, own = given[name], feed[name]
        where = f"input '{name}'"
        if not hasattr(own, "__dlpack__") and not hasattr(own, "__array_interface__"):
            raise ModelError(f"a {_kind(own)} cannot be written in place", where=where, hint="it is donated: give an array")
        if type(own) is np.ndarray and not own.flags.writeable:
            raise ModelError("the array is read-only, and it is donated: the program writes into it", where=where, hint="give x.copy()")
        if dense(x) is not x:
            lies = f"its elements do not lie one after another (strides {x.strides})" if not x.flags.c_contiguous else \
                   f"it begins at an address that is no multiple of {x.dtype.alignment} bytes"  # fmt: skip
            raise ModelError(f"{lies}, and it is donated: the program writes into it where it lies", where=where, hint="give x.copy()")
        for other, y in given.items():
            if other != name and np.may_share_memory(x, y):
                raise ModelError(f"it is donated, and input '{other}' lies in the same memory", where=where,
                                 hint="give one of them as a copy")  # fmt: skip


def plain(x: Any) -> Any:
    """A tensor of torch that is the negative of what its memory holds (the imaginary part of a conjugate), computed; others as they are.

    DLPack hands out the memory and does not say so.
    """
    return x.resolve_neg() if of_torch(x) and x.is_neg() else x


def of_torch(x: Any) -> bool:
    """Whether x is a tensor of torch, which is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _kind(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}"


def _read(x: Any) -> tuple[np.ndarray, bool]:
    """The array, and whether its address is only what a foreign array interface says."""
    if isinstance(x, np.ndarray):
        if isinstance(x, np.ma.MaskedArray) and np.any(x.mask):
            raise ValueError("some of its elements are masked")
        return np.asarray(x), False
    if not hasattr(x, "__dlpack__"):
        return np.asarray(x), hasattr(x, "__array_interface__") and not isinstance(x, np.generic)
    if not of_torch(x):
        return np.from_dlpack(x), False
    x, short = plain(x), short_float(x.dtype)
    if short is not None:
        return np.from_dlpack(x.view(_bits(short))).view(short), False
    return x.numpy() if x.is_cpu else np.from_dlpack(x), False  # a fifth of the protocol's time


def _elsewhere(x: np.ndarray, owner: Any) -> str:
    """Why an array's elements cannot be where `owner` says, "" where they can: the system is asked for its pages."""
    if not x.size:
        return ""
    low = high = x.ctypes.data
    for extent, step in zip(x.shape, x.strides):
        low, high = low + min(0, (extent - 1) * step), high + max(0, (extent - 1) * step)
    high += x.itemsize
    if not mmap.PAGESIZE <= low < high < 1 << 63:
        return f"that would be addresses {low:#x} to {high:#x}"
    data = owner.__array_interface__.get("data")
    if not isinstance(data, tuple):  # NumPy takes a buffer's address and does not ask for its length
        buffer = np.frombuffer(owner if data is None else data, np.uint8)
        begin = buffer.ctypes.data
        return "" if begin <= low and high <= begin + buffer.nbytes else f"its buffer has {buffer.nbytes} bytes"
    if sys.platform != "linux":
        return ""
    libc = ctypes.CDLL(None, use_errno=True)
    held = (ctypes.c_ubyte * AT_ONCE)()
    for at in range(low // mmap.PAGESIZE * mmap.PAGESIZE, high, AT_ONCE * mmap.PAGESIZE):
        if libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(min(high - at, AT_ONCE * mmap.PAGESIZE)), held):
            return f"not all of {low:#x} to {high:#x} is memory of this process"
    return ""


@cache
def short_float(dtype: Any) -> np.dtype[Any] | None:
    """A dtype of torch that NumPy knows by ml_dtypes alone (bfloat16, 8-bit floats); None for others."""
    import ml_dtypes

    name = str(dtype).rpartition(".")[2]
    return np.dtype(getattr(ml_dtypes, name)) if name == "bfloat16" or name.startswith("float8_") else None


def _bits(dtype: np.dtype[Any]) -> Any:
    """torch's integer of the same size."""
    return getattr(sys.modules["torch"], f"int{8 * dtype.itemsize}")
