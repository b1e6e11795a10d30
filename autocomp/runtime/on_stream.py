"""Calls of a CUDA program by addresses, on a stream of the caller's: for callers that have made outputs and an arena by an allocator that
knows their streams, and know that shapes and types are right. Nothing is waited for, and nothing but kernels is queued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.ir.sizes import with_computed
from autocomp.ir.types import Sym
from autocomp.runtime.cuda import CudaExecutor
from autocomp.runtime.device_array import check
from autocomp.runtime.plan import arena, on_host, size_of

KEPT = 32  # sets of sizes and streams whose launches are kept


class OnStream:
    """For any thread. Raises UnsupportedOp for a program of which an op runs through its reference.

    Launches have scratch of their own, so each stream has its own launches."""

    def __init__(self, executor: CudaExecutor) -> None:
        calls = executor.calls
        opaque = on_host(calls, executor.slots.views)
        if opaque:
            raise UnsupportedOp(f"'{opaque}' runs through its reference", where=calls.source.name, hint="call the program itself")
        self._executor = executor
        self._inputs = [n.attrs["name"] for n in calls.source.inputs]
        self._symbols = sorted({d.name for n in calls.source.inputs for d in n.type.shape if isinstance(d, Sym) and not d.is_computed})
        fixed = {*self._inputs, *calls.params, *calls.constants}
        self._written: dict[str, int] = {}
        self._copied: list[tuple[int, str]] = []  # (output, tensor) that are copied from what is there
        for k, (_, t) in enumerate(calls.outputs):
            if t in fixed or t in self._written:
                self._copied.append((k, t))
            else:
                self._written[t] = k
        self._arenas: dict[tuple[int, ...], tuple[dict[str, int], int]] = {}
        self._ready: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def room(self, key: tuple[int, ...]) -> int:
        """Bytes of the arena of a call with these values of the symbols, by name in order."""
        return self._arena(key)[1]

    def __call__(self, key: tuple[int, ...], inputs: Sequence[int], outputs: Sequence[int], room: int, handle: int) -> None:
        """Queue one call on the stream `handle`. Addresses are multiples of `cuda.ALIGNED`; `room` is that of the arena.

        Raises AutocompError where a launch is refused."""
        executor = self._executor
        stream, launches = self._ready.get((handle, *key)) or self._prepared(key, handle)
        pointers: dict[str, int] = dict(zip(self._inputs, inputs))
        pointers.update(executor.constant_addresses())
        for t, at in self._arena(key)[0].items():
            pointers[t] = room + at
        for t, k in self._written.items():
            pointers[t] = outputs[k]
        executor.launch_all(launches, pointers, stream)
        for k, t in self._copied:
            self._copy(outputs[k], pointers[t], t, key, stream)

    def _values(self, key: tuple[int, ...]) -> dict[str, int]:
        return with_computed(dict(zip(self._symbols, key)), self._executor.calls.computed)

    def _arena(self, key: tuple[int, ...]) -> tuple[dict[str, int], int]:
        found = self._arenas.get(key)
        if found is None:
            executor = self._executor
            found = self._arenas[key] = arena(executor.calls, executor.slots, self._values(key), executor.slots.views)
        return found

    def _prepared(self, key: tuple[int, ...], handle: int) -> tuple[Any, Any]:
        while len(self._ready) >= KEPT:
            self._ready.pop(next(iter(self._ready)), None)
        made = self._ready[handle, *key] = self._executor.launches_for(self._values(key), handle)
        return made

    def _copy(self, to: int, source: int, tensor: str, key: tuple[int, ...], stream: Any) -> None:
        from cuda.bindings import driver

        size = size_of(self._executor.calls.tensors[tensor], self._values(key))
        if size:
            check(driver.cuMemcpyDtoDAsync(to, source, size, stream.handle), "copy an output")
