"""Running a program on an NVIDIA GPU: kernels by name from their cubins, a lane for each call under way, a CUDA graph for repeated ones."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from autocomp.errors import AutocompError, ModelError
from autocomp.forks import Lock
from autocomp.ir.kernel import Call, KernelGraph
from autocomp.ir.ops import OPS
from autocomp.ir.orders import as_named, in_memory_order
from autocomp.ir.reference import input_sizes
from autocomp.ir.sizes import with_computed
from autocomp.ir.types import Sym
from autocomp.options import Options
from autocomp.runtime.bound import LEGACY, Bound
from autocomp.runtime.device_array import Borrowed, DeviceArray, capturing, check, dense_array, empty, like, on_device, tensor_map, withheld
from autocomp.runtime.executor import Timing, apart, constants_of, given_back, in_order, shape_of
from autocomp.runtime.gate import MOST, Gate
from autocomp.runtime.given import check_donated, dense, host_array, of_torch
from autocomp.runtime.lanes import Lanes, usable
from autocomp.runtime.plan import Slots, arena, on_host, runs_on_host, size_of
from autocomp.runtime.repeated import Repeated, Rows, repeated
from autocomp.targets.source import KernelSource, TensorMap

if TYPE_CHECKING:
    from autocomp.runtime.plain_cuda import PlainCuda

DESCRIPTORS = 4096  # of bulk copies that are kept: the oldest go first
ALIGNED = 16  # bytes: the widest access of a kernel, and what bulk copies want
STEPS = 8  # of a loop whose launches are timed one by one
GRAPHS = 8  # of a loop, by the memory that it runs over, that are kept
CAPTURED: list[Any] = []  # what CUDA graphs of others may replay at any time: programs, arenas, launches
WATCHDOG = "AUTOCOMP_WATCHDOG"  # seconds that a kernel may run; set: every launch is waited for, a hung one is named


@dataclass
class _Launch:
    """One call, ready to start: all but the pointers is fixed by the sizes. `config` is None where there is nothing to write."""

    call: Call
    config: Any
    kernel: Any
    arguments: tuple[str, ...]
    sizes: tuple[int, ...]
    zeroed: tuple[tuple[str, int], ...]
    workspace: DeviceArray | None
    maps: tuple[tuple[TensorMap, str], ...]
    values: Mapping[str, int]


@dataclass(frozen=True)
class _OnHost:
    """A call without generated code: it runs through its reference."""

    call: Call
    values: Mapping[str, int]


Queued = _Launch | _OnHost | Repeated


class CudaExecutor:
    """An `Executor` on the current CUDA device. `objects`: kernel name -> cubin.

    Work is queued on streams that are ordered with the legacy default stream (torch's and CuPy's own). NumPy inputs give
    NumPy outputs, torch's on the host torch's; an input in device memory makes the outputs device arrays of its library, not waited for.

    For any thread: calls at a time have streams and arenas apart (`lanes`). What `bind` returns has an arena and flags of its own.
    A call may be captured into a CUDA graph of torch; its replays use the arena of the lane that it was captured in, so calls of the
    same thread on other streams must not run beside them.
    """

    def __init__(self, calls: KernelGraph, slots: Slots, sources: Mapping[str, KernelSource], objects: Mapping[str, bytes],
                 options: Options) -> None:  # fmt: skip
        from cuda.core import Device, ObjectCode

        self.calls, self.slots, self.sources, self.options = calls, slots, sources, options
        usable(calls.source.name)
        self.device = device = Device()
        self.lanes = Lanes(lambda: _stream(device), calls.source.name)
        self.memory = self.device.memory_resource
        self.kernels = {n: ObjectCode.from_cubin(code, name=n).get_kernel(sources[n].entry) for n, code in objects.items()}
        for n, k in self.kernels.items():
            _allow_shared(n, k, sources[n])
        self._lock = Lock()
        self._fixed: dict[str, Any] | None = None
        self._descriptors: dict[Any, Any] = {}
        self.plain: PlainCuda | None = None  # where calls are such

    def __del__(self) -> None:
        ends = sys is None or sys.is_finalizing()  # no module is left to wait with
        if (plain := self.__dict__.get("plain")) is not None and not ends:
            plain.leave()

    @property
    def stream(self) -> Any:
        """The stream of the calling thread's call under way; elsewhere, the first one."""
        return self.lanes.current.stream

    # ---- the contract
    def run(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name. Raises ModelError on a missing input, a wrong dtype or shape."""
        feed = in_memory_order(feed, self.calls.source.input_orders)
        captured = capturing(feed.values())
        key = self._sizes(feed) if captured else None
        with self._queue(key):
            if captured and not self._known(key):
                raise AutocompError("the first call with these sizes takes memory, which a CUDA graph cannot capture",
                                    where=self.calls.source.name, hint="call the program once before the capture")  # fmt: skip
            pointers, values, keep, first = self._inputs(feed)
            outputs = {t: self._result(t, values, first) for _, t in self.calls.outputs if t not in self.calls.donated}
            offsets, memory, launches = self._prepared(values)
            pointers |= {t: int(memory.handle) + at for t, at in offsets.items()} | self._donated(feed, keep)
            self._start(launches, pointers | {t: o.pointer for t, o in outputs.items()})
            if captured:
                CAPTURED.append((self, memory, launches))
            for x in keep.values():
                if isinstance(x, DeviceArray):
                    x.behind(self.stream)
            self._taken_home(feed, keep)
            if first is not None:
                made = {name: like(first, outputs[t], again=t in [u for _, u in self.calls.outputs[:i]])
                        for i, (name, t) in enumerate(self.calls.outputs) if t in outputs}  # fmt: skip
                return in_order(self.calls, feed, as_named(made, self.calls.source.output_orders))
            copied = {name: outputs[t].numpy() for name, t in self.calls.outputs if t in outputs}  # type: ignore[union-attr]
        return in_order(self.calls, feed, as_named(given_back(feed, copied), self.calls.source.output_orders))

    def _donated(self, feed: Mapping[str, Any], keep: Mapping[str, Any]) -> dict[str, int]:
        """Where donated tensors lie: where the inputs do (an array of the host gets its new value afterwards). Raises ModelError where
        that is a copy on the device, or another input's memory too."""
        for name in self.calls.donated.values():
            x, own = keep[name], feed[name]
            if on_device(own) and x is not own and (not isinstance(x, Borrowed) or (of_torch(own) and x.owner is not own)):
                raise ModelError(f"it is donated, and does not begin at a multiple of {ALIGNED} bytes, or is a negative that is not "
                                 "computed: the program writes into it where it lies",
                                 where=f"input '{name}'", hint="give a copy of it")  # fmt: skip
            for other, y in keep.items():
                if other != name and x.nbytes and x.pointer < y.pointer + y.nbytes and y.pointer < x.pointer + x.nbytes:
                    raise ModelError(f"it is donated, and input '{other}' lies in the same memory", where=f"input '{name}'",
                                     hint="give one of them as a copy")  # fmt: skip
        return {t: keep[name].pointer for t, name in self.calls.donated.items()}

    def _taken_home(self, feed: Mapping[str, Any], keep: Mapping[str, Any]) -> None:
        """Donated inputs have their new values: arrays of the host by a copy, torch's where its current stream goes on behind ours."""
        for name in self.calls.donated.values():
            if not on_device(feed[name]):
                host_array(feed[name], name)[...] = keep[name].numpy()
            elif of_torch(feed[name]):
                like(feed[name], keep[name])

    def profile(self, feed: Mapping[str, Any], repeat: int = 10) -> Timing:
        """Device time of whole calls and of each kernel's launches, by events (warm caches; median over `repeat`)."""
        with self._queue():
            feed = in_memory_order(apart(self.calls.source, feed), self.calls.source.input_orders)
            pointers, values, keep, _ = self._inputs(feed)
            outputs = {t: self._new(t, values) for _, t in self.calls.outputs if t not in self.calls.donated}
            offsets, memory, launches = self._prepared(values)
            pointers |= {t: int(memory.handle) + at for t, at in offsets.items()} | {t: o.pointer for t, o in outputs.items()}
            pointers |= {t: pointers[name] for t, name in self.calls.donated.items()}
            for _ in range(2):  # a kernel is loaded at its first launch, which may wait for the device; a loop is a graph at its second
                self._start(launches, pointers)
            self.stream.sync()
            total = [sum(self._seconds([(one, pointers) for one in launches], False)) for _ in range(repeat)]
            each: dict[str, list[float]] = {}
            for _ in range(repeat):
                each_one = [*self._one_by_one(launches, pointers)]
                for (one, _), t in zip(each_one, self._seconds(each_one, True)):
                    each.setdefault(one.call.kernel.name, []).append(t)
        del keep
        return Timing(float(np.median(total)), {k: float(np.median(v)) for k, v in each.items()})

    def _seconds(self, launches: Sequence[tuple[Queued, Mapping[str, int]]], apart: bool) -> list[float]:
        """Seconds on the device: of each launch, none of which overlaps another, or of as many as are queued before the device begins."""
        from cuda.core import EventOptions

        timed, out = EventOptions(timing_enabled=True), []
        waits = WATCHDOG in os.environ or any(isinstance(one, _OnHost) for one, _ in launches)
        waits |= any(isinstance(one, Repeated) and one.trips * len(one.later) > MOST for one, _ in launches)  # the host is ahead by itself
        gate = None if waits else Gate()
        try:
            for at in range(0, len(launches), MOST // 2):
                with gate.shut(self.stream) if gate else nullcontext():
                    marks = [self.stream.record(options=timed)]
                    for one, pointers in launches[at : at + MOST // 2]:
                        self._start([one], pointers)
                        if apart:
                            marks.append(self.stream.record(options=timed))
                    marks += [] if apart else [self.stream.record(options=timed)]
                marks[-1].sync()
                out += [(b - a) / 1e3 for a, b in zip(marks, marks[1:])]
        finally:
            if gate:
                gate.close()
        return out

    def bind(self, feed: Mapping[str, Any]) -> tuple[Bound, dict[str, DeviceArray]]:
        """(start, outputs): `start(stream)` queues one call over these very inputs, which rewrites the outputs. A stream of torch, of CuPy
        or of cuda-core; without one, the program's own, which is ordered with the legacy default stream.

        Donated inputs are written where they lie and are none of the outputs. Several kernels become one CUDA graph. Calls on different
        streams run one after another, since they write the same outputs.
        Raises AutocompError where an op runs through its reference, ModelError where an input had to be copied.
        """
        opaque = on_host(self.calls, self.slots.views)
        if opaque:
            raise AutocompError(f"'{opaque}' runs on the host, so the program cannot be queued as a whole", where=self.calls.source.name)
        if copied := next((w.input for w in self.calls.source.written if w.copied), ""):
            raise AutocompError(f"the model writes into '{copied}', where the host copies its new value", where=self.calls.source.name,
                                hint=f"give its memory away: donate=['{copied}']")  # fmt: skip
        feed = in_memory_order(feed, self.calls.source.input_orders)
        with self._queue():
            pointers, values, keep, _ = self._inputs(feed, as_they_lie=True)
            outputs = {t: self._new(t, values) for _, t in self.calls.outputs if t not in self.calls.donated}
            offsets, memory, launches = self._prepare(values)
            pointers |= {t: int(memory.handle) + at for t, at in offsets.items()} | {t: o.pointer for t, o in outputs.items()}
            pointers |= self._donated(feed, keep)
            named = as_named({name: outputs[t] for name, t in self.calls.outputs if t in outputs}, self.calls.source.output_orders)
            self.stream.sync()
            if len(launches) == 1 and isinstance(launches[0], _Launch) and not launches[0].zeroed:
                queue = lambda stream: self._start(launches, pointers, stream)
            else:
                builder = self.stream.create_graph_builder()
                builder.begin_building()
                self._start(launches, pointers, builder)
                builder.end_building()
                queue = builder.complete().launch
        return Bound(self.device, self.stream, queue, tuple(named.values()), (self, keep, memory, launches)), named

    # ---- calls by addresses (`on_stream`)
    def constant_addresses(self) -> Mapping[str, int]:
        """Where the weights lie."""
        return {n: x.pointer for n, x in (self._fixed or self._constants()).items()}

    def launches_for(self, values: Mapping[str, int], handle: int) -> tuple[Any, list[Queued]]:
        """(a stream of another library's as one of ours, launches for these sizes with scratch of their own). Waits for the scratch."""
        from cuda.core import Stream

        with self._queue():
            self._constants()
            made = self._listed(values)
            self.stream.sync()
        return Stream.from_handle(handle or LEGACY), made

    def launch_all(self, launches: Sequence[Queued], pointers: Mapping[str, int], stream: Any) -> None:
        """Queue launches on a stream. Raises AutocompError where one is refused."""
        self._start(launches, pointers, stream)

    # ---- preparing
    @contextmanager
    def _queue(self, key: tuple[int, ...] | None = None) -> Iterator[None]:
        """In a lane (one that knows the sizes `key`), on the program's device (each thread of the host has a current one). Raises
        AutocompError where memory ends, where the caller captures a CUDA graph and something is allocated, and in a forked child."""
        lane = self.lanes.take(key)
        try:
            self.device.set_current()
            yield
        except AutocompError:
            raise
        except Exception as e:
            if "OUT_OF_MEMORY" in str(e):
                raise AutocompError(f"the device has no memory for a call: {e}", where=self.calls.source.name,
                                    hint="free arrays on the device, or call with smaller sizes") from e  # fmt: skip
            if not isinstance(e, RuntimeError) or not _in_capture(self.stream):
                raise
            raise AutocompError("a call cannot be captured in a CUDA graph of another library", where=self.calls.source.name,
                                hint="`start, outputs = program.executor.bind(feed)` makes a graph of the program") from e  # fmt: skip
        finally:
            self.lanes.give(lane)

    def _inputs(self, feed: Mapping[str, Any], as_they_lie: bool = False) -> tuple[dict[str, int], dict[str, int], dict[str, Any], Any]:
        """Pointers by tensor name, symbols' values, what must stay alive, and the first input that lay on the device.

        Raises ModelError on an input of another device, or, where inputs are to stay `as_they_lie`, on one that must be copied.
        """
        keep: dict[str, Any] = {}
        first = None
        for n in self.calls.source.inputs:
            name = n.attrs["name"]
            if name in feed and on_device(feed[name]):
                x = feed[name]
                first = x if first is None else first
                if of_torch(x) and not as_they_lie and name not in self.calls.donated.values() and not withheld(x):
                    x = x.contiguous()  # itself where it is
                keep[name] = dense_array(name, x) if isinstance(x, DeviceArray) else Borrowed(name, x, self.stream)
                if isinstance(x, DeviceArray):
                    x.before(self.stream)
                if keep[name].device != self.device.device_id:
                    raise ModelError(f"input '{name}' lies on CUDA device {keep[name].device}, the program on {self.device.device_id}",
                                     where=self.calls.source.name, hint="copy it there")  # fmt: skip
            elif name in feed:
                keep[name] = dense(host_array(feed[name], name))
        values = with_computed(input_sizes(self.calls.source, keep), self.calls.computed)
        host = {name: x for name, x in keep.items() if isinstance(x, np.ndarray)}
        check_donated([n for n in self.calls.donated.values() if n in host], feed, host)
        for name, x in keep.items():
            if isinstance(x, np.ndarray):
                keep[name] = self._upload(x)
            elif x.pointer % ALIGNED and x.nbytes:
                if as_they_lie:
                    raise ModelError(f"input '{name}' begins at an address that is no multiple of {ALIGNED} bytes",
                                     where=self.calls.source.name, hint="pass a copy of it")  # fmt: skip
                keep[name] = self._aligned(x)
        fixed = self._constants()
        return {n: x.pointer for n, x in (*keep.items(), *fixed.items())}, values, keep, first

    def _constants(self) -> dict[str, Any]:
        """Weights on the device: brought by the first call, while others wait for it."""
        with self._lock.held:
            if self._fixed is None:
                self._fixed = {n: self._upload(x) for n, x in constants_of(self.calls).items()}
            return self._fixed

    def _upload(self, x: np.ndarray) -> DeviceArray:
        from cuda.bindings import driver

        out = DeviceArray(self.memory.allocate(max(1, x.nbytes), stream=self.stream), x.shape, x.dtype, self.stream)
        self.stream.sync()
        if x.nbytes:
            check(driver.cuMemcpyHtoD(out.pointer, x.ctypes.data, x.nbytes), "copy to the device")
        return out

    def _aligned(self, x: Any) -> DeviceArray:
        """A copy of an array on the device that begins where the widest access may."""
        from cuda.bindings import driver

        out = DeviceArray(self.memory.allocate(x.nbytes, stream=self.stream), x.shape, x.dtype, self.stream)
        check(driver.cuMemcpyDtoDAsync(out.pointer, x.pointer, x.nbytes, self.stream.handle), "copy an input")
        return out

    def _new(self, tensor: str, values: Mapping[str, int]) -> DeviceArray:
        t = self.calls.tensors[tensor]
        buffer = self.memory.allocate(max(1, size_of(t, values)), stream=self.stream)
        return DeviceArray(buffer, shape_of(t, values), t.dtype.numpy, self.stream)

    def _result(self, tensor: str, values: Mapping[str, int], first: Any) -> DeviceArray | Borrowed:
        """Memory for an output: torch's where `first` is a tensor of torch."""
        t = self.calls.tensors[tensor]
        return empty(first, shape_of(t, values), t.dtype.numpy, self.stream) or self._new(tensor, values)

    def _sizes(self, feed: Mapping[str, Any]) -> tuple[int, ...]:
        """The key of a call's sizes, as its inputs say them."""
        shapes = {n: getattr(feed.get(n.attrs["name"]), "shape", ()) for n in self.calls.source.inputs}
        sizes = {d.name: int(k) for n, shape in shapes.items() for d, k in zip(n.type.shape, shape) if isinstance(d, Sym)}
        return tuple(sizes[s] for s in sorted(sizes))

    def _known(self, key: tuple[int, ...] | None) -> bool:
        """Whether a call with these sizes finds everything on the device."""
        return self._fixed is not None and key in self.lanes.current.ready

    def _prepared(self, values: Mapping[str, int]) -> tuple[dict[str, int], Any, list[Queued]]:
        """What `_prepare` gives, kept for the lane's calls with the same sizes."""

        def make() -> tuple[Any, int]:
            made = self._prepare(values)
            return made, int(made[1].size)

        key = tuple(values[s] for s in sorted({d.name for n in self.calls.source.inputs for d in n.type.shape if isinstance(d, Sym)}))
        made: tuple[dict[str, int], Any, list[Queued]] = self.lanes.current.prepared(key, make)
        return made

    def _prepare(self, values: Mapping[str, int]) -> tuple[dict[str, int], Any, list[Queued]]:
        """Offsets in the arena, an arena, and the launches for these sizes with their scratch."""
        offsets, total = arena(self.calls, self.slots, values, self.slots.views)
        memory = self.memory.allocate(max(1, total), stream=self.stream)
        return offsets, memory, self._listed(values)

    def _listed(self, values: Mapping[str, int]) -> list[Queued]:
        """Launches for these sizes with their scratch, those of a loop as one; none for views."""
        g, views = self.calls, self.slots.views
        loops = {first: (name, last) for name, (first, last) in g.spans.items()}
        out: list[Queued] = []
        behind, i = False, 0
        while i < len(g.calls):
            name, last = loops.get(i, ("", i + 1))
            mine, i = g.calls[i:last], last
            if not name and mine[0].kernel.by_reference and not runs_on_host(mine[0], views):
                continue
            if not name:
                (early,), behind = started_early(mine, self.sources, values, behind)
                out.append(_OnHost(mine[0], values) if mine[0].kernel.by_reference else self._launch(mine[0], values, early))
                continue
            flags, follows = started_early(mine, self.sources, values)
            first = [self._launch(c, values, e) for c, e in zip(mine, flags)]
            flags, _ = started_early(mine, self.sources, values, follows)
            later = [replace(one, config=self._config(one.call, values, e and one.workspace is None))  # the step before may use it still
                     for one, e in zip(first, flags)]  # fmt: skip
            out.append(repeated(g, name, values, first, later))
            behind = False  # a loop may be a CUDA graph
        return out

    def _config(self, call: Call, values: Mapping[str, int], early: bool) -> Any:
        """Grid, block and attributes of a launch, None where there is nothing to write."""
        from cuda.core import LaunchConfig

        src = self.sources[call.kernel.name]
        assert src.launch is not None
        blocks = src.launch.blocks(values)
        extra: dict[str, Any] = {}
        if src.launch.cluster > 1:
            blocks = (blocks[0] // src.launch.cluster, *blocks[1:])
            extra["cluster"] = (src.launch.cluster, 1, 1)
        if early:
            extra["programmatic_stream_serialization"] = True
        return LaunchConfig(grid=blocks, block=src.launch.block, shmem_size=src.launch.shared, **extra) if prod(blocks) else None

    def _lies_in(self, tensor: str) -> str:
        """The tensor whose memory one is: its own, or for a view its operand's."""
        return self.slots.views.get(tensor, tensor)

    def _launch(self, call: Call, values: Mapping[str, int], early: bool) -> _Launch:
        src = self.sources[call.kernel.name]
        assert src.launch is not None
        sizes = {t: size_of(self.calls.tensors[t], values) for t in call.args.values()}
        return _Launch(
            call,
            self._config(call, values, early),
            self.kernels[call.kernel.name],
            tuple(self._lies_in(call.args[a]) for a in (*src.inputs, *src.outputs)),
            tuple(values[s] for s in src.sizes),
            tuple((call.args[z], sizes[call.args[z]]) for z in src.launch.zeroed),
            self._upload(np.zeros(src.launch.workspace, np.uint8)) if src.launch.workspace else None,
            tuple((m, self._lies_in(call.args[m.argument])) for m in src.launch.maps),
            values,
        )

    def _descriptor(self, m: TensorMap, pointer: int, values: Mapping[str, int]) -> Any:
        """The descriptor of a bulk copy from (or to) a buffer, made once for each address."""
        key = (m, pointer, tuple(sorted(values.items())))
        found = self._descriptors.get(key)
        if found is None:
            with self._lock.held:
                if len(self._descriptors) >= DESCRIPTORS:
                    del self._descriptors[next(iter(self._descriptors))]
                found = self._descriptors[key] = tensor_map(m, pointer, values)
        return found

    # ---- starting
    def _start(self, launches: Sequence[Queued], pointers: Mapping[str, int], into: Any = None) -> None:
        """Queue calls on the executor's stream, or `into` another stream or a graph builder."""
        from cuda.bindings import driver
        from cuda.core import launch

        stream = self.stream if into is None else into
        limit = float(os.environ.get(WATCHDOG) or 0)
        for one in launches:
            if isinstance(one, Repeated):
                self._repeat(one, pointers, into)
                continue
            if isinstance(one, _OnHost):
                self._reference(one.call, one.values, pointers)
                continue
            if one.config is None:
                continue
            for tensor, bytes_ in one.zeroed:
                handle = getattr(stream, "stream", stream).handle
                words, rest = (driver.cuMemsetD32Async, bytes_ // 4) if bytes_ % 4 == 0 else (driver.cuMemsetD8Async, bytes_)
                check(words(pointers[tensor], 0, rest, handle), "clear an output")
            arguments = [*(pointers[t] for t in one.arguments), *one.sizes, *((one.workspace.pointer,) if one.workspace else ()),
                         *(self._descriptor(m, pointers[t], one.values) for m, t in one.maps)]  # fmt: skip
            try:
                launch(stream, one.config, one.kernel, *arguments)
            except Exception as e:
                raise AutocompError(f"the launch was refused: {e}", where=f"kernel {one.call.kernel.name}",
                                    hint="its launch sizes are in program.source()") from e  # fmt: skip
            if limit and (into is None or into is self.stream):
                self._watch(one.call.kernel.name, limit)

    def _repeat(self, loop: Repeated, pointers: Mapping[str, int], into: Any) -> None:
        """Queue a loop: its launches once a step, with what is copied around them; one CUDA graph from the second time on that it runs
        over the same memory."""
        stream = self.stream if into is None else into
        if not hasattr(stream, "begin_building") and not os.environ.get(WATCHDOG) and not _in_capture(stream):
            key = tuple(pointers[t] for t in loop.memory)
            found = loop.graphs.get(key)
            if found is None and key in loop.graphs:
                builder = self.device.create_graph_builder()
                builder.begin_building()
                self._steps(loop, pointers, builder)
                builder.end_building()
                found = loop.graphs[key] = builder.complete()
            elif found is None:
                while len(loop.graphs) >= GRAPHS:
                    del loop.graphs[next(iter(loop.graphs))]
                loop.graphs[key] = None
            if found is not None:
                found.launch(stream)
                return
        self._steps(loop, pointers, stream)

    def _steps(self, loop: Repeated, pointers: Mapping[str, int], into: Any) -> None:
        """Queue each step of a loop."""
        handle = getattr(into, "stream", into).handle
        _copy_rows(loop.begins, pointers, handle)
        at = dict(pointers)
        for step in range(loop.trips):
            at.update(loop.addresses(pointers, step))
            self._start(loop.later if step else loop.first, at, into)
        _copy_rows(loop.ends, pointers, handle)

    def _one_by_one(self, launches: Sequence[Queued], pointers: Mapping[str, int]) -> Iterator[tuple[_Launch | _OnHost, Mapping[str, int]]]:
        """Launches with their pointers; of a loop those of its first steps alone."""
        for one in launches:
            if not isinstance(one, Repeated):
                yield one, pointers
                continue
            for step in range(min(one.trips, STEPS)):
                at = {**pointers, **one.addresses(pointers, step)}
                yield from ((x, at) for x in (one.later if step else one.first))

    def _watch(self, name: str, limit: float) -> None:
        """Wait for the stream, at most `limit` seconds. Raises AutocompError naming the kernel that hangs."""
        done = self.stream.record()
        end = time.monotonic() + limit
        while not done.is_done:
            if time.monotonic() > end:
                raise AutocompError(
                    f"the kernel has not finished after {limit:g} s",
                    where=f"kernel {name}",
                    hint=f"this process cannot use the device any more; raise {WATCHDOG} if the kernel is only slow",
                )
            time.sleep(1e-4)

    def _reference(self, call: Call, values: Mapping[str, int], pointers: Mapping[str, int]) -> None:
        """An op without generated code: its inputs to the host, its NumPy reference, its output back."""
        from cuda.bindings import driver

        self.stream.sync()
        k = call.kernel
        args = []
        for a in k.inputs:
            name = call.args[a.name]
            t = self.calls.tensors[name]
            x = np.empty(shape_of(t, values), t.dtype.numpy)
            check(driver.cuMemcpyDtoH(x.ctypes.data, pointers[self._lies_in(name)], x.nbytes), "copy to the host")
            args.append(x)
        out = np.ascontiguousarray(OPS[k.opaque].reference(tuple(args), k.attrs, k.outputs[0].type))
        check(driver.cuMemcpyHtoD(pointers[call.args[k.outputs[0].name]], out.ctypes.data, out.nbytes), "copy to the device")


def started_early(calls: Sequence[Call], sources: Mapping[str, KernelSource], values: Mapping[str, int],
                  behind_kernel: bool = False) -> tuple[list[bool], bool]:  # fmt: skip
    """Whether each call may start while the one before it ends (known as programmatic dependent launch): its kernel waits by itself,
    and what it would else be ordered behind is a kernel of this program, not a memset, the host or another program's work. A kernel that
    waits ends behind all that came before it, so that waiting for the last one is waiting for all. `behind_kernel`: whether a kernel comes
    before the first; given back: whether one comes before what follows the last."""
    out = []
    for c in calls:
        launch = None if c.kernel.by_reference else sources[c.kernel.name].launch
        out.append(launch is not None and launch.overlaps and behind_kernel and not launch.zeroed)
        nothing = launch is not None and not launch.zeroed and not prod(launch.blocks(values))  # is launched
        behind_kernel = behind_kernel if nothing else launch is not None and prod(launch.blocks(values)) > 0
    return out, behind_kernel


def _in_capture(stream: Any) -> bool:
    """Whether a stream has joined somebody's capture."""
    from cuda.bindings import driver

    status, state = driver.cuStreamIsCapturing(stream.handle)
    return status != driver.CUresult.CUDA_SUCCESS or state != driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE


def _copy_rows(copies: Sequence[Rows], pointers: Mapping[str, int], handle: Any) -> None:
    """Queue copies of rows on the device."""
    from cuda.bindings import driver

    for x in copies:
        if x.rows == 1 and x.width:
            check(driver.cuMemcpyDtoDAsync(pointers[x.to], pointers[x.of] + x.at, x.width, handle), "copy what a loop made")
        elif x.rows and x.width:
            how = driver.CUDA_MEMCPY2D()
            how.srcMemoryType = how.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
            how.srcDevice, how.dstDevice = pointers[x.of] + x.at, pointers[x.to]
            how.srcPitch, how.dstPitch, how.WidthInBytes, how.Height = x.of_apart, x.to_apart, x.width, x.rows
            check(driver.cuMemcpy2DAsync(how, handle), "copy the rows of a loop")


def _stream(device: Any) -> Any:
    """A new stream, ordered with the legacy default stream, for any thread."""
    from cuda.core import StreamOptions

    device.set_current()
    return device.create_stream(options=StreamOptions(nonblocking=False))


def _allow_shared(name: str, kernel: Any, source: KernelSource) -> None:
    """Ask the driver for the dynamic shared memory that a kernel needs, beyond the default 48 KB."""
    assert source.launch is not None
    if source.launch.shared > 48 * 1024:
        from cuda.bindings import driver

        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(driver.cuKernelSetAttribute(attribute, source.launch.shared, kernel.handle, 0), f"shared memory of kernel {name}")
