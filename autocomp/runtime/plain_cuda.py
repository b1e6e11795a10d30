"""Calls of a CUDA program whose inputs are tensors of torch just as it reads them, on torch's current stream, in memory of torch's.

Nothing is asked of an input but what `CudaExecutor.run` asks of it; an input that is anything else (another library's, a subclass, a view
with gaps, one that records gradients), whatever fails on the way, the first call of a set of shapes, and calls that
torch captures into a CUDA graph are left to `run`.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NamedTuple
from weakref import proxy

import numpy as np

from autocomp.errors import AutocompError
from autocomp.ir.reference import input_sizes
from autocomp.ir.sizes import with_computed
from autocomp.ir.types import Sym
from autocomp.runtime.cuda import ALIGNED, WATCHDOG, CudaExecutor
from autocomp.runtime.executor import shape_of
from autocomp.runtime.lanes import usable
from autocomp.runtime.on_stream import OnStream
from autocomp.runtime.plan import on_host

KEPT = 64  # sets of shapes whose sizes are remembered
LARGE = 1 << 28  # bytes of an arena from which it is worth more to have it once, in a lane, than to save host time
Shape = tuple[int, ...]


class _Ready(NamedTuple):
    """What calls of one set of shapes share: values of the symbols, shapes of outputs, bytes of the arena."""

    key: tuple[int, ...]
    outputs: tuple[Shape, ...]
    room: int


class PlainCuda:
    """For any thread: what a call writes is its own, and scratch of launches is a stream's."""

    def __init__(self, executor: CudaExecutor) -> None:
        calls = executor.calls
        self._run = OnStream(proxy(executor))  # which has this object: it goes with the last program that has it
        self._names = [n.attrs["name"] for n in calls.source.inputs]
        self._numpy = [n.type.dtype.numpy for n in calls.source.inputs]
        self._symbols = sorted({d.name for n in calls.source.inputs for d in n.type.shape if isinstance(d, Sym) and not d.is_computed})
        self._ready: dict[tuple[Shape, ...], _Ready] = {}
        self._device = executor.device.device_id
        self._elsewhere = False  # calls were queued on streams that the default stream is not ordered with
        self._here = threading.local()  # threads of the host in which the device is the current one
        self._torch: Any = None
        self._taken: list[Any] = []  # torch's element types of the inputs,
        self._made: list[Any] = []  # and of the outputs

    @staticmethod
    def of(executor: CudaExecutor) -> PlainCuda | None:
        """None where calls have more to do: references to run on the host, inputs that are
        written, axes in another order."""
        calls = executor.calls
        source = calls.source
        if on_host(calls, executor.slots.views) or calls.donated or source.written or source.input_orders or source.output_orders:
            return None
        return PlainCuda(executor) if source.inputs else None

    def __call__(self, executor: CudaExecutor, args: tuple[Any, ...]) -> list[Any] | None:
        """The outputs in order. None: nothing was queued, `run` is to be called. Raises AutocompError where a launch is refused, and in a
        forked child."""
        torch = self._torch or self._of_torch(executor)
        if torch is None or len(args) != len(self._taken) or WATCHDOG in os.environ:
            return None
        plain, parameter = torch.Tensor, torch.nn.Parameter
        pointers: list[int] = []
        shapes: list[Shape] = []
        try:
            for x, dtype in zip(args, self._taken):
                kind = type(x)
                if (kind is not plain and kind is not parameter) or x.dtype is not dtype or not x.is_cuda or x.requires_grad:
                    return None
                if x.get_device() != self._device or not x.is_contiguous() or x.is_neg():
                    return None
                at = x.data_ptr()
                if at % ALIGNED:
                    return None
                pointers.append(at)
                shapes.append(x.shape)
        except Exception:  # whatever a tensor without memory raises
            return None
        usable(executor.calls.source.name)
        known = tuple(shapes)
        if torch.cuda.is_current_stream_capturing():  # a lane that does not know these shapes learns them from the next call, by `run`
            self._ready.pop(known, None)
            return None
        ready = self._ready.get(known)
        if ready is None:  # the first call is left to `run`, whose lane a capture may use later
            self._sized(executor, known)
            return None
        if ready.room > LARGE or torch.cuda.current_device() != self._device:
            return None
        if not getattr(self._here, "set", False):
            executor.device.set_current()
            self._here.set = True
        try:
            outputs = [torch.empty(shape, dtype=dtype, device=args[0].device) for shape, dtype in zip(ready.outputs, self._made)]
            room = torch.empty(ready.room, dtype=torch.uint8, device=args[0].device) if ready.room else None
        except RuntimeError:  # no memory, which `run` says
            return None
        handle = torch._C._cuda_getCurrentRawStream(self._device)
        self._elsewhere |= handle != 0
        self._run(ready.key, pointers, [x.data_ptr() for x in outputs], room.data_ptr() if room is not None else 0, handle)
        return outputs

    def leave(self) -> None:
        """Wait for what other streams still run: it reads weights and scratch that go with the executor, in its own stream's order."""
        if self._elsewhere:
            with suppress(Exception):  # in a forked child, and where the interpreter ends
                usable("")
                self._torch.cuda.synchronize(self._device)

    def _of_torch(self, executor: CudaExecutor) -> Any:
        """torch, once it is imported and has all of the program's element types."""
        torch = sys.modules.get("torch")
        if torch is None:
            return None
        self._taken = [getattr(torch, np.dtype(t).name, None) for t in self._numpy]
        self._made = [getattr(torch, executor.calls.tensors[t].dtype.numpy.name, None) for _, t in executor.calls.outputs]
        if None in self._taken or None in self._made:
            return None
        self._torch = torch
        return torch

    def _sized(self, executor: CudaExecutor, shapes: tuple[Shape, ...]) -> None:
        """Remember what calls of these shapes share; nothing where they are refused, which `run` says."""
        calls = executor.calls
        given = {name: SimpleNamespace(dtype=t, shape=tuple(s), ndim=len(s)) for name, t, s in zip(self._names, self._numpy, shapes)}
        try:
            values = with_computed(input_sizes(calls.source, given), calls.computed)
        except AutocompError:
            return
        key = tuple(values[s] for s in self._symbols)
        while len(self._ready) >= KEPT:
            self._ready.pop(next(iter(self._ready), ()), None)
        self._ready[shapes] = _Ready(key, tuple(shape_of(calls.tensors[t], values) for _, t in calls.outputs), self._run.room(key))
