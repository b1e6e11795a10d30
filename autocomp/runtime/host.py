"""Running a program on this machine's CPU: a frame for each call under way, one library with every kernel and the plan."""

from __future__ import annotations

import ctypes
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any, NamedTuple

import numpy as np

from autocomp.errors import AutocompError
from autocomp.forks import Lock
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.ops import OPS
from autocomp.ir.orders import as_named, in_memory_order
from autocomp.ir.reference import input_sizes
from autocomp.ir.sizes import with_computed
from autocomp.ir.types import Sym, TensorType
from autocomp.options import Options
from autocomp.runtime.executor import Timing, apart, constants_of, given_back, in_order, shape_of
from autocomp.runtime.frames import LAYOUTS, Frame, Frames, Sizes
from autocomp.runtime.given import check_donated, dense, host_array
from autocomp.runtime.library import Library, Outside, packings, symbols_of
from autocomp.runtime.pages import Pool, memory
from autocomp.runtime.plan import Slots, arena, segments, size_of
from autocomp.targets.source import KernelSource
from autocomp.trace import Trace


class HostExecutor:
    """An `Executor` over a loaded library. For any thread: each call has a frame of its own, and what all share is written once."""

    def __init__(self, calls: KernelGraph, slots: Slots, sources: Mapping[str, KernelSource], library: Path, options: Options,
                 trace: Trace | None = None) -> None:  # fmt: skip
        self.calls, self.slots, self.trace = calls, slots, trace
        self._symbols = symbols_of(sources, calls)
        self.library = Library(library, [c.kernel.name for c in calls.calls])
        self._threads = options.threads
        self._scratch_bytes = max((s.scratch for s in sources.values()), default=0)
        self._packings = packings(calls, slots, sources)
        self.runs = segments(calls.calls, slots.views)
        self._inputs = tuple(n.attrs["name"] for n in calls.source.inputs)
        self.open = sorted({d.name for n in calls.source.inputs for d in n.type.shape if isinstance(d, Sym)})
        self._lock = Lock()
        self._fixed: _Fixed | None = None
        self._said: set[str] = set()
        self.results = Pool()
        self.frames = Frames()
        self.layouts: OrderedDict[Sizes, tuple[dict[str, int], int]] = OrderedDict()
        self.poison = False  # fill intermediates and outputs with NaN patterns before a run: what is not written shows
        self.plain: Callable[[HostExecutor, tuple[Any, ...]], list[Any] | None] | None = None  # `plain.Plain`, where calls are such

    def run(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name: tensors of torch where an input is one, else NumPy arrays.

        Raises ModelError on a missing input, a wrong dtype or shape, AutocompError where memory or a stack is too small.
        """
        call = self._begin(feed)
        try:
            self._calls(call)
            out = self._outputs(call)
        except MemoryError as e:
            raise self._no_memory(self.values(call.frame.key), e) from None
        finally:
            self._end(call)
        out = given_back(feed, out)
        if orders := self.calls.source.output_orders:
            out = as_named(out, orders)
        return in_order(self.calls, feed, out) if self.calls.donated else out

    def _outputs(self, call: _Call) -> dict[str, np.ndarray]:
        out: dict[str, np.ndarray] = {}
        given: set[str] = set()
        for name, t in self.calls.outputs:  # the caller may write to each: names of one tensor share no memory, nor does an input's
            if t in self.calls.donated:
                continue
            mine = t in call.made and t not in given
            out[name] = call.made[t] if mine else call.tensor(t).copy()
            given.add(t)
        return out

    def profile(self, feed: Mapping[str, Any], repeat: int = 10) -> Timing:
        """Time whole calls, and each kernel's launches inside a call (median over `repeat`)."""
        each: dict[str, list[float]] = {}
        feed = apart(self.calls.source, feed)
        call = self._begin(feed)
        try:
            for _ in range(repeat):
                for i, c in enumerate(self.calls.calls):
                    t = time.perf_counter()
                    self._segment(i, i + 1, c.kernel.by_reference, call)
                    each.setdefault(c.kernel.name, []).append(time.perf_counter() - t)
        finally:
            self._end(call)
        return Timing(float(np.median([t for t, _ in self.times(feed, repeat)])), {k: float(np.median(v)) for k, v in each.items()})

    def times(self, feed: Mapping[str, Any], repeat: int) -> list[tuple[float, bool]]:
        """Seconds of whole calls after one that is not counted, and whether a thread lost its core, or slept
        because another one had, meanwhile."""
        total: list[tuple[float, bool]] = []
        call = self._begin(apart(self.calls.source, feed))
        try:
            for _ in range(repeat + 1):
                before, t = _switches(), time.perf_counter()
                self._calls(call)
                total.append((time.perf_counter() - t, _switches() > before))
        finally:
            self._end(call)
        return total[1:]

    def _segment(self, first: int, last: int, opaque: bool, call: _Call) -> None:
        try:
            self._start(first, last, opaque, call)
        except MemoryError as e:
            raise self._no_memory(self.values(call.frame.key), e) from None

    def _start(self, first: int, last: int, opaque: bool, call: _Call) -> None:
        if not opaque:
            frame = call.frame
            try:
                fewer = self.library.run(frame, first, last, self._threads)
            except Outside as e:
                if not self.calls.loops:  # the reference says which index
                    self._start(e.call, e.call + 1, True, call)
                raise
            if fewer:
                self.say(fewer)
            return
        c = self.calls.calls[first]
        k = c.kernel
        if c.args[k.outputs[0].name] in self.slots.views:  # it is there
            return
        args = tuple(call.tensor(c.args[a.name]) for a in k.inputs)
        out = call.tensor(c.args[k.outputs[0].name])
        out[...] = OPS[k.opaque].reference(args, k.attrs, k.outputs[0].type).reshape(out.shape)

    def say(self, text: str) -> None:
        """A note in the trace, once."""
        with self._lock.held:
            if text not in self._said:
                self._said.add(text)
                if self.trace is not None:
                    self.trace.add("note", "threads", text=text)

    # ---- calls by addresses (`addressed`)
    def frame(self, key: Sizes) -> Frame:
        """A frame for these values of `open`, which nobody else has. Raises AutocompError where there is no memory."""
        try:
            return self._frame(key, None)
        except MemoryError as e:
            raise self._no_memory(self.values(key), e) from None

    def run_frame(self, frame: Frame) -> None:
        """All calls, over the addresses in the frame's table. Raises AutocompError where memory or a stack is too small."""
        try:
            fewer = self.library.run(frame, 0, len(self.calls.calls), self._threads)
        except MemoryError as e:
            raise self._no_memory(self.values(frame.key), e) from None
        if fewer:
            self.say(fewer)

    # ---- a call
    def _begin(self, feed: Mapping[str, Any]) -> _Call:
        """A call over these inputs, ready to run; `_end` is to come. Raises ModelError, and AutocompError where there is no memory."""
        given = {name: host_array(feed[name], name) for name in self._inputs if name in feed}
        if orders := self.calls.source.input_orders:
            given = in_memory_order(given, orders)
        values = input_sizes(self.calls.source, given)
        if self.calls.donated:
            check_donated(self.calls.donated.values(), feed, given)
        try:
            fixed = self._fixed or self._once()
            frame = self.taken(self.key(values))
            try:
                return self._placed(given, values, frame, fixed)
            except BaseException:
                self.frames.give(frame)
                raise
        except MemoryError as e:
            raise self._no_memory(values, e) from None

    def _end(self, call: _Call) -> None:
        self.frames.give(call.frame)

    def _calls(self, call: _Call) -> None:
        """All of the program's calls, in order."""
        for first, last, opaque in self.runs:
            self._segment(first, last, opaque, call)

    def _placed(self, given: dict[str, np.ndarray], values: Mapping[str, int], frame: Frame, fixed: _Fixed) -> _Call:
        given = {name: dense(x) for name, x in given.items()}
        made: dict[str, np.ndarray] = {}
        kept = {t: given[name] for t, name in self.calls.donated.items()}
        for _, t in self.calls.outputs:
            if t not in made and t not in kept and t not in given and t not in fixed.tensors and t not in frame.tensors:
                made[t] = self.results.array(shape_of(self.calls.tensors[t], values), self.calls.tensors[t].dtype.numpy)
        if self.poison:
            for x in (*(x for t, x in frame.tensors.items() if t not in self.slots.views), *made.values()):
                x.reshape(-1).view(np.uint8).fill(0xFF)
        table, index = frame.table, self.slots.index
        for arrays in (given, kept, made):
            for t, x in arrays.items():
                if t in index:
                    table[index[t]] = x.ctypes.data
        for t, of in self.slots.views.items():
            if t not in frame.tensors:
                given[t] = (made[of] if of in made else given[of]).reshape(shape_of(self.calls.tensors[t], values))
                table[index[t]] = given[t].ctypes.data
        return _Call(frame, given | kept, made, fixed.tensors)

    def _no_memory(self, values: Mapping[str, int], e: MemoryError) -> AutocompError:
        """What a call needs, in an error's text."""
        g, mb = self.calls, lambda n: f"{n / 1e6:,.1f} MB"
        arena = self._layout(self.key(values))[1] + self._scratch_bytes
        outputs = sum(size_of(g.tensors[t], values) for t in {t for _, t in g.outputs})
        fixed = sum(size_of(g.tensors[t], values) for t in (*g.params, *g.constants)) + sum(x.bytes for x in self._packings)
        return AutocompError(f"not enough memory for a call: {mb(arena)} of intermediates, {mb(outputs)} of outputs, {mb(fixed)} of weights"
                             + (f" ({e})" if str(e) else ""), where=g.source.name,
                             hint="free memory, raise the limit (`ulimit -v`), or call with smaller sizes")  # fmt: skip

    # ---- what calls share
    def _once(self) -> _Fixed:
        """Constants, and the packed ones in their kernels' order: made by the first call, while others wait for it."""
        with self._lock.held:
            if self._fixed is None:
                tensors = constants_of(self.calls)
                table = self._table(tensors)
                panels = memory(sum(_lines(x.bytes) for x in self._packings))
                at = panels.ctypes.data
                for i, x in enumerate(self._packings):
                    table[x.slot] = at
                    at += _lines(x.bytes)
                    self.library.pack(i, table)
                self._fixed = _Fixed(tensors, table, panels)
            return self._fixed

    def _table(self, tensors: Mapping[str, np.ndarray]) -> Any:
        table = (ctypes.c_void_p * max(1, len(self.slots.index) + len(self._packings)))()
        for t, x in tensors.items():
            if t in self.slots.index:
                table[self.slots.index[t]] = x.ctypes.data
        return table

    def _layout(self, key: Sizes) -> tuple[dict[str, int], int]:
        """Offsets of the intermediates in an arena for these sizes, and its bytes."""
        with self._lock.held:
            found = self.layouts.get(key)
            if found is not None:
                self.layouts.move_to_end(key)
                return found
        found = arena(self.calls, self.slots, self.values(key), self.slots.views)
        with self._lock.held:
            self.layouts[key] = found
            if len(self.layouts) > LAYOUTS:
                self.layouts.popitem(last=False)
        return found

    def need(self, key: Sizes) -> int:
        """Bytes of an arena."""
        return self._layout(key)[1]

    def key(self, values: Mapping[str, int]) -> Sizes:
        """The values of `open`."""
        return tuple([values[s] for s in self.open])

    def values(self, key: Sizes) -> dict[str, int]:
        """Of all symbols, from those of the inputs."""
        values = dict(zip(self.open, key))
        return with_computed(values, self.calls.computed) if self.calls.computed else values

    def taken(self, key: Sizes) -> Frame:
        """A frame of the pool, which `frames.give` takes back. Raises MemoryError."""
        return self.frames.take(key, self.need, self._frame)

    def _frame(self, key: Sizes, room: np.ndarray | None) -> Frame:
        """A new frame, on memory that is there or on its own."""
        values, fixed = self.values(key), self._once()
        offsets, total = self._layout(key)
        if room is None:
            room = memory(total)
        tensors = {t: self._view(room[at:], self.calls.tensors[t], values) for t, at in offsets.items()}
        for t, of in self.slots.views.items():
            if of in tensors or of in fixed.tensors:
                tensors[t] = (tensors[of] if of in tensors else fixed.tensors[of]).reshape(shape_of(self.calls.tensors[t], values))
        table = type(fixed.table).from_buffer_copy(fixed.table)
        for t, x in tensors.items():
            table[self.slots.index[t]] = x.ctypes.data
        z = (ctypes.c_long * max(1, len(self._symbols)))(*(values[s] for s in self._symbols))
        scratch = np.empty(self._scratch_bytes, np.uint8)
        at = scratch.ctypes.data if self._scratch_bytes else 0
        said = (ctypes.c_long * 4)()
        at_all = [ctypes.addressof(table), ctypes.addressof(z), at, ctypes.addressof(said)]
        entry = (ctypes.c_ssize_t * 7)(*at_all, 0, len(self.calls.calls), self._threads)  # one pointer: a third of the time of seven
        return Frame(key, room, tensors, table, z, scratch, at, said, entry)

    @staticmethod
    def _view(room: np.ndarray, t: TensorType, values: Mapping[str, int]) -> np.ndarray:
        return room[: size_of(t, values)].view(t.dtype.numpy).reshape(shape_of(t, values))


class _Fixed(NamedTuple):
    """Constants by name, the table with their pointers, and the memory of the packed ones."""

    tensors: dict[str, np.ndarray]
    table: Any
    panels: np.ndarray


class _Call(NamedTuple):
    """The inputs of a call as they are read, what it makes for its caller, and where the rest lies."""

    frame: Frame
    given: dict[str, np.ndarray]
    made: dict[str, np.ndarray]
    fixed: Mapping[str, np.ndarray]

    def tensor(self, name: str) -> np.ndarray:
        for where in (self.made, self.given, self.frame.tensors):
            if name in where:
                return where[name]
        return self.fixed[name]


def _lines(size: int) -> int:
    """Bytes in whole lines of cache."""
    return -(-size // 64) * 64


def _switches() -> int:
    """How often the threads of this process were taken from a core or gave it up."""
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_nivcsw + usage.ru_nvcsw
