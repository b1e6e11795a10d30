"""Running a program on this machine's CPU: one arena for intermediates, one library with every kernel and the plan."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

from autocomp.ir.kernel import KernelGraph
from autocomp.ir.ops import OPS
from autocomp.ir.reference import input_sizes
from autocomp.ir.types import TensorType
from autocomp.options import Options
from autocomp.runtime.executor import Timing, constants_of, given_back, host_array, shape_of
from autocomp.runtime.library import Library, packings, symbols_of
from autocomp.runtime.pages import Pool, memory
from autocomp.runtime.plan import Slots, arena, segments, size_of
from autocomp.targets.source import KernelSource


class HostExecutor:
    """An `Executor` over a loaded library. Not for several threads at a time: the arena is one."""

    def __init__(self, calls: KernelGraph, slots: Slots, sources: Mapping[str, KernelSource], library: Path, options: Options) -> None:
        self.calls, self.slots = calls, slots
        self._symbols = symbols_of(sources)
        self._library = Library(library)
        self._threads = options.threads
        self._scratch_bytes = max((s.scratch for s in sources.values()), default=0)
        self._results = Pool()
        self._packings = packings(calls, slots, sources)
        self._packed: np.ndarray | None = None
        self._fixed: dict[str, np.ndarray] | None = None
        self._standing: dict[tuple[int, ...], tuple[dict[str, np.ndarray], Any]] = {}
        self.poison = False  # fill intermediates and outputs with NaN patterns before a run: what is not written shows

    def run(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name: tensors of torch where an input is one, else NumPy arrays.

        Raises ModelError on a missing input, a wrong dtype or shape.
        """
        tensors, table, sizes, scratch = self._prepare(feed)
        for first, last, opaque in segments(self.calls.calls):
            self._segment(first, last, opaque, tensors, table, sizes, scratch)
        out: dict[str, np.ndarray] = {}
        given: set[str] = set()
        for name, t in self.calls.outputs:  # names of one tensor do not share memory: the caller may write to each
            out[name] = tensors[t].copy() if t in given else tensors[t]
            given.add(t)
        return given_back(feed, out)

    def profile(self, feed: Mapping[str, Any], repeat: int = 10) -> Timing:
        """Time whole calls, and each kernel's launches inside a call (median over `repeat`)."""
        tensors, table, sizes, scratch = self._prepare(feed)
        each: dict[str, list[float]] = {}
        for _ in range(repeat):
            for i, c in enumerate(self.calls.calls):
                t = time.perf_counter()
                self._segment(i, i + 1, bool(c.kernel.opaque), tensors, table, sizes, scratch)
                each.setdefault(c.kernel.name, []).append(time.perf_counter() - t)
        return Timing(float(np.median([t for t, _ in self.times(feed, repeat)])), {k: float(np.median(v)) for k, v in each.items()})

    def times(self, feed: Mapping[str, Any], repeat: int) -> list[tuple[float, bool]]:
        """Seconds of whole calls after one that is not counted, and whether a thread lost its core, or slept
        because another one had, meanwhile."""
        tensors, table, sizes, scratch = self._prepare(feed)
        runs = segments(self.calls.calls)
        total: list[tuple[float, bool]] = []
        for _ in range(repeat + 1):
            before, t = _switches(), time.perf_counter()
            for first, last, opaque in runs:
                self._segment(first, last, opaque, tensors, table, sizes, scratch)
            total.append((time.perf_counter() - t, _switches() > before))
        return total[1:]

    def _segment(
        self, first: int, last: int, opaque: bool, tensors: dict[str, np.ndarray], table: Any, sizes: list[int], scratch: Any
    ) -> None:
        if not opaque:
            self._library.run(table, sizes, scratch.ctypes.data if scratch is not None else 0, first, last)
            return
        c = self.calls.calls[first]
        k = c.kernel
        args = tuple(tensors[c.args[a.name]] for a in k.inputs)
        out = tensors[c.args[k.outputs[0].name]]
        out[...] = OPS[k.opaque].reference(args, k.attrs, k.outputs[0].type).reshape(out.shape)

    def _prepare(self, feed: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], Any, list[int], Any]:
        if self._threads:
            self._library.threads(self._threads)
        graph = self.calls.source
        arrays = {n.attrs["name"]: host_array(feed[n.attrs["name"]]) for n in graph.inputs if n.attrs["name"] in feed}
        values = input_sizes(graph, arrays)
        tensors, table = self._stand(values)
        fresh = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
        for _, t in self.calls.outputs:
            if t not in tensors and t not in fresh:
                fresh[t] = self._results.array(shape_of(self.calls.tensors[t], values), self.calls.tensors[t].dtype.numpy)
        if self.poison:
            for t, x in (tensors | fresh).items():
                if t not in arrays and t not in self._constants():
                    x.reshape(-1).view(np.uint8).fill(0xFF)
        for t, x in fresh.items():
            if t in self.slots.index:
                table[self.slots.index[t]] = x.ctypes.data
        scratch = np.empty(self._scratch_bytes, np.uint8) if self._scratch_bytes else None
        return tensors | fresh, table, [values[s] for s in self._symbols], scratch

    def _stand(self, values: Mapping[str, int]) -> tuple[dict[str, np.ndarray], Any]:
        """What stays between calls with these sizes: constants and arena, and a table of pointers with theirs filled in."""
        key = tuple(values[s] for s in sorted(values))
        if key not in self._standing:
            tensors = dict(self._constants())
            offsets, total = arena(self.calls, self.slots, values)
            room = memory(total)
            for t, at in offsets.items():
                tensors[t] = self._view(room[at:], self.calls.tensors[t], values)
            table = (ctypes.c_void_p * max(1, len(self.slots.index) + len(self._packings)))()
            for t, x in tensors.items():
                if t in self.slots.index:
                    table[self.slots.index[t]] = x.ctypes.data
            self._pack(table)
            self._standing[key] = tensors, table
        tensors, table = self._standing[key]
        return tensors, type(table).from_buffer_copy(table)

    def _pack(self, table: Any) -> None:
        """Point the slots of packed constants at their memory; on the first call, fill it."""
        room = lambda size: -(-size // 64) * 64
        first = self._packed is None
        if self._packed is None:
            self._packed = memory(sum(room(x.bytes) for x in self._packings))
        at = self._packed.ctypes.data
        for i, x in enumerate(self._packings):
            table[x.slot] = at
            at += room(x.bytes)
            if first:
                self._library.pack(i, table)

    @staticmethod
    def _view(room: np.ndarray, t: TensorType, values: Mapping[str, int]) -> np.ndarray:
        return room[: size_of(t, values)].view(t.dtype.numpy).reshape(shape_of(t, values))

    def _constants(self) -> dict[str, np.ndarray]:
        if self._fixed is None:
            self._fixed = constants_of(self.calls)
        return self._fixed


def _switches() -> int:
    """How often the threads of this process were taken from a core or gave it up."""
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_nivcsw + usage.ru_nvcsw
