"""Calls of a CPU program by addresses: for callers that have made the outputs and know that shapes and types are right."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from autocomp.errors import UnsupportedOp
from autocomp.ir.sizes import with_computed
from autocomp.ir.types import Sym
from autocomp.runtime.frames import Frame
from autocomp.runtime.host import HostExecutor
from autocomp.runtime.plan import on_host, size_of

KEPT = 16  # sets of sizes whose free frames are kept


class Addressed:
    """For any thread. Raises UnsupportedOp for a program of which an op runs through its reference."""

    def __init__(self, executor: HostExecutor) -> None:
        calls, index = executor.calls, executor.slots.index
        views = executor.slots.views
        if opaque := on_host(calls, views):
            raise UnsupportedOp(f"'{opaque}' runs through its reference", where=calls.source.name, hint="call the program itself")
        self._executor = executor
        self._last = len(calls.calls)
        inputs = [n.attrs["name"] for n in calls.source.inputs]
        self._given = [(k, index[name]) for k, name in enumerate(inputs) if name in index]
        head = [slot for _, slot in self._given] == list(range(len(inputs)))  # one write for all of them
        self._pack = struct.Struct(f"{len(inputs)}N").pack_into if head else None
        fixed = {*inputs, *calls.params, *calls.constants}
        written: set[str] = set()
        self._made: list[tuple[int, int]] = []  # (output, slot) that kernels write,
        self._copied: list[tuple[int, int, str]] = []  # (output, slot, tensor) that are copied from what is there
        for k, (_, t) in enumerate(calls.outputs):
            if t in fixed or t in written:
                self._copied.append((k, index[t], t))
            else:
                written.add(t)
                self._made.append((k, index[t]))
        given = {*inputs, *written}
        self._views = [(index[t], index[of]) for t, of in views.items() if of in given]  # of others the frame knows where they lie
        self._said = sorted({d.name for n in calls.source.inputs for d in n.type.shape if isinstance(d, Sym) and not d.is_computed})
        self._free: dict[tuple[int, ...], list[Frame]] = {}

    def __call__(self, key: tuple[int, ...], inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """key: the values of the symbols, by name in order. inputs, outputs: addresses of dense arrays in the program's order.

        Raises AutocompError where memory or the caller's stack is too small."""
        executor = self._executor
        try:
            frame = self._free[key].pop()
        except (KeyError, IndexError):
            frame = self._frame(key)
        table = frame.table
        if self._pack is not None:
            self._pack(table, 0, *inputs)
        else:
            for k, slot in self._given:
                table[slot] = inputs[k]
        for k, slot in self._made:
            table[slot] = outputs[k]
        for slot, of in self._views:
            table[slot] = table[of]
        executor.run_frame(frame)
        for k, slot, t in self._copied:
            ctypes.memmove(outputs[k], table[slot], size_of(executor.calls.tensors[t], executor.values(frame.key)))
        free = self._free.get(key)
        if free is not None:
            free.append(frame)

    def _frame(self, key: tuple[int, ...]) -> Frame:
        if key not in self._free:
            while len(self._free) >= KEPT:
                self._free.pop(next(iter(self._free)), None)
            self._free[key] = []
        return self._executor.frame(self._sizes(key))

    def _sizes(self, key: tuple[int, ...]) -> tuple[int, ...]:
        """The values that the executor asks for: also sizes of inputs that are computed from others."""
        executor = self._executor
        if self._said == executor.open:
            return key
        values = with_computed(dict(zip(self._said, key)), executor.calls.computed)
        return tuple([values[s] for s in executor.open])
