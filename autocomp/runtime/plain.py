"""Calls whose inputs are just as the program reads them: nothing is made, copied or looked up that the call before had already.

What is asked of an input is what `given`, `input_sizes` and `dense` ask of it: its library, element type, shape, place and address. An
input that is anything else (another library's, a subclass, a view with gaps, the wrong shape) and whatever fails on the way are left to
`HostExecutor.run`, which reads it or says why not.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from ctypes import addressof, c_char
from itertools import repeat
from math import prod
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from autocomp.errors import AutocompError
from autocomp.ir.reference import input_sizes
from autocomp.ir.types import Sym
from autocomp.runtime.executor import of_numpy, shape_of
from autocomp.runtime.frames import LAYOUTS, Frame, Sizes
from autocomp.runtime.host import HostExecutor
from autocomp.runtime.library import FEWER
from autocomp.runtime.pages import SMALL

OWN = 1 << 20  # bytes of a frame up to which these calls keep frames of their own; larger ones are those of all calls
MIDDLE = 1 << 20  # bytes of a result up to which allocators keep memory mapped that is asked for again and again
DENSE, IN_PLACE = 0x101, 0x501  # NumPy's flags of an array that is dense and aligned, and of one that is writable too
Shape = tuple[int, ...]
from_buffer: Any = c_char.from_buffer


class _Output(NamedTuple):
    slot: int
    shape: Shape
    dtype: np.dtype[Any]
    small: bool  # comes from NumPy's allocator, or from torch's for a caller of torch,
    middle: bool  # or from torch's alone: half of the pool's time, which spares pages that these sizes keep mapped


class _Ready(NamedTuple):
    """What calls of one set of sizes share. `free`: frames of their own, None where they take those of all calls; `like`: tensors of
    torch such as its results are, which copy in half the time of one that is described; None for those that have other memory."""

    key: Sizes
    outputs: tuple[_Output, ...]
    free: list[Frame] | None
    like: list[Any]


class _Short(NamedTuple):
    """What calls need of a `_Ready` whose frames are its own and whose results are all torch's: slots of outputs with such tensors."""

    key: Sizes
    outputs: tuple[tuple[int, Any], ...]
    free: list[Frame]


class Plain:
    """For any thread: a call has a frame that no other has meanwhile."""

    def __init__(self, executor: HostExecutor) -> None:
        calls, index = executor.calls, executor.slots.index
        self._names = [n.attrs["name"] for n in calls.source.inputs]
        types = [n.type for n in calls.source.inputs]
        self._arrays: list[tuple[np.dtype[Any], Shape | None]]
        self._arrays = [(t.dtype.numpy, None if any(isinstance(d, Sym) for d in t.shape) else shape_of(t, {})) for t in types]
        self._made = [calls.tensors[t].dtype.numpy for _, t in calls.outputs]
        self._tensors: list[tuple[Any, Shape | None, int]] = []  # the same of torch's,
        self._results: list[Any] = []  # and its element types of the outputs
        self._empty_like: Any = None
        self._tensor: Any = None
        self._slots = [(k, index[name]) for k, name in enumerate(self._names) if name in index]
        in_front = [slot for _, slot in self._slots] == list(range(len(types)))  # one write for all of them
        self._pack = struct.Struct(f"{len(types)}N").pack_into if in_front else None
        others = {*self._names, *(t for _, t in calls.outputs)}
        self._views = [(index[t], index[of]) for t, of in executor.slots.views.items() if of in others]
        self._ready: dict[tuple[Shape, ...], _Ready] = {}  # by the shapes of inputs with open sizes
        self._short: dict[tuple[Shape, ...], _Short] = {}  # those of them that `_for_torch` calls

    @staticmethod
    def of(executor: HostExecutor) -> Plain | None:
        """None where calls have more to do: references to run, donated inputs, axes in another order, outputs that are copies."""
        calls, runs = executor.calls, executor.runs
        outputs = [t for _, t in calls.outputs]
        others = {*calls.inputs, *calls.params, *calls.constants, *executor.slots.views, *executor.slots.temporary}
        copies = len(set(outputs)) < len(outputs) or not others.isdisjoint(outputs)
        orders = calls.source.input_orders or calls.source.output_orders
        if len(runs) != 1 or runs[0][2] or calls.donated or copies or orders or not calls.source.inputs:
            return None
        return Plain(executor)

    def __call__(self, executor: HostExecutor, args: tuple[Any, ...]) -> list[Any] | None:
        """The outputs in order: tensors of torch where the inputs are, else NumPy's. None: nothing was computed, `run` is to be called."""
        if len(args) != len(self._arrays) or executor.poison:
            return None
        of_torch = type(args[0]) is not np.ndarray
        try:
            found = self._of_torch(args) if of_torch else self._of_numpy(args)
        except Exception:  # whatever a tensor without memory raises
            return None
        if found is None:
            return None
        pointers, shapes = found
        ready = self._ready.get(shapes) or self._made_ready(executor, args, shapes)
        if ready is None:
            return None
        free = ready.free
        try:
            if free is None:
                frame = executor.taken(ready.key)
            else:
                try:
                    frame = free.pop()
                except IndexError:
                    frame = executor.frame(ready.key)
            table = frame.table
            try:
                if self._pack is not None:
                    self._pack(table, 0, *pointers)
                else:
                    for k, slot in self._slots:
                        table[slot] = pointers[k]
                out: list[Any] = []
                if of_torch and not ready.like:
                    self._make_like(ready)
                for (slot, shape, dtype, small, _), like in zip(ready.outputs, ready.like if of_torch else repeat(None)):
                    if like is not None:
                        tensor = self._empty_like(like)
                        out.append(tensor)
                        table[slot] = at = tensor.data_ptr()
                        if not at:
                            return None
                        continue
                    x = np.empty(shape, dtype) if small else executor.results.array(shape, dtype)
                    table[slot] = addressof(from_buffer(x)) if dtype.isbuiltin == 1 else x.ctypes.data
                    out.append(of_numpy(x) if of_torch else x)
                for slot, of in self._views:
                    table[slot] = table[of]
                status = executor.library.start(frame.entry)
                if status == FEWER:
                    executor.say(executor.library.ended(status, frame))
            finally:
                if free is None:
                    executor.frames.give(frame)
                else:
                    free.append(frame)
        except (MemoryError, RuntimeError):  # of torch: no memory, or a mode in which tensors have none
            return None
        if of_torch and status == 0 and free is not None and self._pack is not None and None not in ready.like:
            self._short[shapes] = _Short(ready.key, tuple((o.slot, x) for o, x in zip(ready.outputs, ready.like)), free)
            if executor.plain is self:
                executor.plain = self._for_torch(executor)
        return out if status in (0, FEWER) else None

    def _for_torch(self, executor: HostExecutor) -> Callable[[HostExecutor, tuple[Any, ...]], list[Any] | None]:
        """`__call__` for torch's tensors of sizes that were called before, with all that it would look up in variables: three quarters of
        its time. What is not so goes there."""
        tensors, tensor, empty_like, pack, views = tuple(self._tensors), self._tensor, self._empty_like, self._pack, tuple(self._views)
        start, short = executor.library.start, self._short
        assert pack is not None

        def call(executor: HostExecutor, args: tuple[Any, ...]) -> list[Any] | None:
            if len(args) != len(tensors) or executor.poison:
                return self(executor, args)
            pointers: list[int] = []
            shapes: tuple[Shape, ...] = ()
            try:
                for x, (dtype, shape, within) in zip(args, tensors):
                    if type(x) is not tensor or x.dtype is not dtype or not x.is_cpu or not x.is_contiguous():
                        return self(executor, args)
                    if shape is None:
                        shapes = (*shapes, x.shape)
                    elif x.shape != shape:
                        return self(executor, args)
                    if x.requires_grad or x.is_neg() or not (at := x.data_ptr()) or at & within:
                        return self(executor, args)
                    pointers.append(at)
            except Exception:  # whatever a tensor without memory raises
                return None
            known = short.get(shapes)
            if known is None:
                return self(executor, args)
            key, outputs, free = known
            try:
                frame = free.pop()
            except IndexError:
                frame = executor.frame(key)
            try:
                table = frame.table
                pack(table, 0, *pointers)
                out: list[Any] = []
                for slot, like in outputs:
                    made = empty_like(like)
                    table[slot] = at = made.data_ptr()
                    if not at:
                        return None
                    out.append(made)
                for slot, of in views:
                    table[slot] = table[of]
                status = start(frame.entry)
                if status == FEWER:
                    executor.say(executor.library.ended(status, frame))
            except (MemoryError, RuntimeError):  # of torch: no memory, or a mode in which tensors have none
                return None
            finally:
                free.append(frame)
            return out if status in (0, FEWER) else None

        return call

    def _of_numpy(self, args: tuple[Any, ...]) -> tuple[list[int], tuple[Shape, ...]] | None:
        """Addresses, and shapes where sizes are open; None where an argument is no plain array of NumPy as it is wanted."""
        pointers: list[int] = []
        shapes: tuple[Shape, ...] = ()
        plain = np.ndarray
        for x, (dtype, shape) in zip(args, self._arrays):
            if type(x) is not plain or x.dtype != dtype:
                return None
            if x.shape != shape:
                if shape is not None:
                    return None
                shapes = (*shapes, x.shape)
            flags = x.flags.num
            if flags & IN_PLACE == IN_PLACE and dtype.isbuiltin == 1:
                pointers.append(addressof(from_buffer(x)))  # a quarter of the time of the next
            elif flags & DENSE == DENSE:
                pointers.append(x.ctypes.data)
            else:
                return None
        return pointers, shapes

    def _of_torch(self, args: tuple[Any, ...]) -> tuple[list[int], tuple[Shape, ...]] | None:
        """The same of tensors of torch: on the CPU, dense, recording nothing, themselves (not what a flag makes of their memory)."""
        if not self._tensors:
            torch = sys.modules.get("torch")
            if torch is None:
                return None
            self._results = [getattr(torch, dtype.name, None) for dtype in self._made]  # first: another thread asks for the last
            self._empty_like, self._tensor = torch.empty_like, torch.Tensor
            self._tensors = [(getattr(torch, dtype.name, None), shape, dtype.itemsize - 1) for dtype, shape in self._arrays]
        pointers: list[int] = []
        shapes: tuple[Shape, ...] = ()
        plain = self._tensor
        for x, (dtype, shape, within) in zip(args, self._tensors):
            if type(x) is not plain or x.dtype is not dtype or not x.is_cpu or not x.is_contiguous() or x.requires_grad or x.is_neg():
                return None
            if x.shape != shape:
                if shape is not None:
                    return None
                shapes = (*shapes, x.shape)
            at = x.data_ptr()
            if not at or at & within:  # no elements, or not at a multiple of their size
                return None
            pointers.append(at)
        return pointers, shapes

    def _make_like(self, ready: _Ready) -> None:
        torch = sys.modules["torch"]
        made: list[Any]
        made = [torch.empty(o.shape, dtype=dtype, device="cpu") if dtype is not None and (o.small or o.middle) else None
                for o, dtype in zip(ready.outputs, self._results)]  # fmt: skip
        ready.like[:] = [x if type(x) is torch.Tensor and x.is_cpu and x.data_ptr() else None for x in made]

    def _made_ready(self, executor: HostExecutor, args: tuple[Any, ...], shapes: tuple[Shape, ...]) -> _Ready | None:
        """None where sizes are refused, or an output is empty."""
        calls = executor.calls
        like = {name: SimpleNamespace(dtype=dtype, shape=tuple(x.shape)) for name, x, (dtype, _) in zip(self._names, args, self._arrays)}
        try:
            values = input_sizes(calls.source, like)
        except AutocompError:
            return None
        types = [calls.tensors[t] for _, t in calls.outputs]
        sizes = [shape_of(t, values) for t in types]
        if not all(map(prod, sizes)):
            return None
        slots = [executor.slots.index[t] for _, t in calls.outputs]
        bytes_ = [prod(n) * t.dtype.bytes for n, t in zip(sizes, types)]
        outputs = (_Output(slot, n, t.dtype.numpy, b <= SMALL, SMALL < b <= MIDDLE) for slot, n, t, b in zip(slots, sizes, types, bytes_))
        key = executor.key(values)
        own = executor.need(key) <= OWN
        if len(self._ready) >= LAYOUTS:
            self._ready.clear()
            self._short.clear()
        ready = self._ready[shapes] = _Ready(key, tuple(outputs), [] if own else None, [])
        return ready
