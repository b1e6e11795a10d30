"""Running a program on an NVIDIA GPU: kernels by name from their cubins, one arena, a CUDA graph for repeated calls."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autocomp.errors import AutocompError
from autocomp.ir.kernel import Call, KernelGraph
from autocomp.ir.ops import OPS
from autocomp.ir.reference import input_sizes
from autocomp.options import Options
from autocomp.runtime.device_array import Borrowed, DeviceArray, check, like, on_device, tensor_map
from autocomp.runtime.executor import Timing, constants_of, host_array, shape_of
from autocomp.runtime.plan import Slots, arena, size_of
from autocomp.targets.source import KernelSource, TensorMap

WATCHDOG = "AUTOCOMP_WATCHDOG"  # seconds that a kernel may run; set: every launch is waited for, a hung one is named


@dataclass
class _Launch:
    """One call, ready to start: all but the pointers is fixed by the sizes."""

    call: Call
    config: Any
    kernel: Any
    arguments: tuple[str, ...]
    sizes: tuple[int, ...]
    zeroed: tuple[tuple[str, int], ...]
    workspace: int
    maps: tuple[tuple[TensorMap, str], ...]
    values: Mapping[str, int]


@dataclass(frozen=True)
class _OnHost:
    """A call without generated code: it runs through its reference."""

    call: Call
    values: Mapping[str, int]


class CudaExecutor:
    """An `Executor` on the current CUDA device. `objects`: kernel name -> cubin.

    Work is queued on `stream`, which is ordered with the legacy default stream (torch's and CuPy's own). NumPy inputs give
    NumPy outputs; an input in device memory makes the outputs device arrays of its library, not waited for.
    """

    def __init__(self, calls: KernelGraph, slots: Slots, sources: Mapping[str, KernelSource], objects: Mapping[str, bytes],
                 options: Options) -> None:  # fmt: skip
        from cuda.core import Device, ObjectCode, StreamOptions

        self.calls, self.slots, self.sources, self.options = calls, slots, sources, options
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream(options=StreamOptions(nonblocking=False))
        self.memory = self.device.memory_resource
        self.kernels = {n: ObjectCode.from_cubin(code, name=n).get_kernel(sources[n].entry) for n, code in objects.items()}
        for n, k in self.kernels.items():
            _allow_shared(n, k, sources[n])
        self._fixed: dict[str, Any] | None = None
        self._ready: dict[tuple[int, ...], tuple[dict[str, int], Any, list[_Launch | _OnHost]]] = {}
        self._kept: list[DeviceArray] = []
        self._descriptors: dict[Any, Any] = {}

    # ---- the contract
    def run(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name. Raises ModelError on a missing input, a wrong dtype or shape."""
        pointers, values, keep, first = self._inputs(feed)
        outputs = {t: self._new(t, values) for _, t in self.calls.outputs if t not in pointers}
        offsets, memory, launches = self._prepared(values)
        pointers |= {t: int(memory.handle) + at for t, at in offsets.items()}
        self._start(launches, pointers | {t: o.pointer for t, o in outputs.items()})
        named = {name: outputs.get(t) for name, t in self.calls.outputs}
        if first is None:
            result: dict[str, Any] = {n: o.numpy() if o is not None else host_array(feed[self._input_of(n)]) for n, o in named.items()}
        else:
            result = {n: like(first, o) if o is not None else feed[self._input_of(n)] for n, o in named.items()}
        del keep
        return result

    def profile(self, feed: Mapping[str, Any], repeat: int = 10) -> Timing:
        """Device time of whole calls and of each kernel's launches, by events (warm caches; median over `repeat`)."""
        from cuda.core import EventOptions

        pointers, values, keep, _ = self._inputs(feed)
        outputs = {t: self._new(t, values) for _, t in self.calls.outputs if t not in pointers}
        offsets, memory, launches = self._prepared(values)
        pointers |= {t: int(memory.handle) + at for t, at in offsets.items()} | {t: o.pointer for t, o in outputs.items()}
        timed = EventOptions(timing_enabled=True)
        total: list[float] = []
        each: dict[str, list[float]] = {}
        for i in range(2 * repeat + 1):
            marks = [self.stream.record(options=timed)]
            for one in launches:
                self._start([one], pointers)
                if i > repeat:
                    marks.append(self.stream.record(options=timed))
            marks.append(self.stream.record(options=timed))
            marks[-1].sync()
            if 0 < i <= repeat:
                total.append((marks[-1] - marks[0]) / 1e3)
            for one, a, b in zip(launches, marks, marks[1:]) if i > repeat else ():
                each.setdefault(one.call.kernel.name, []).append((b - a) / 1e3)
        del keep
        return Timing(float(np.median(total)), {k: float(np.median(v)) for k, v in each.items()})

    def bind(self, feed: Mapping[str, Any]) -> tuple[Callable[[Any], None], dict[str, DeviceArray]]:
        """(start, outputs): `start(stream)` queues one call over these very inputs, which rewrites the outputs.

        Several kernels become one CUDA graph. Raises AutocompError where an op runs through its reference.
        """
        opaque = next((c.kernel.opaque for c in self.calls.calls if c.kernel.opaque), "")
        if opaque:
            raise AutocompError(f"'{opaque}' runs on the host, so the program cannot be queued as a whole", where=self.calls.source.name)
        pointers, values, keep, _ = self._inputs(feed)
        outputs = {t: self._new(t, values) for _, t in self.calls.outputs if t not in pointers}
        offsets, memory, launches = self._prepared(values)
        pointers |= {t: int(memory.handle) + at for t, at in offsets.items()} | {t: o.pointer for t, o in outputs.items()}
        named = {name: outputs[t] for name, t in self.calls.outputs if t in outputs}
        self.stream.sync()
        if len(launches) == 1 and not launches[0].zeroed:  # type: ignore[union-attr]
            return lambda stream, alive=keep: self._start(launches, pointers, stream), named
        builder = self.stream.create_graph_builder()
        builder.begin_building()
        self._start(launches, pointers, builder)
        builder.end_building()
        graph = builder.complete()
        return lambda stream, alive=(keep, memory): graph.launch(stream), named

    # ---- preparing
    def _inputs(self, feed: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int], list[Any], Any]:
        """Pointers by tensor name, symbols' values, what must stay alive, and the first input that lay on the device."""
        keep: dict[str, Any] = {}
        first = None
        for n in self.calls.source.inputs:
            name = n.attrs["name"]
            if name in feed and on_device(feed[name]):
                x = feed[name]
                first = x if first is None else first
                keep[name] = x if isinstance(x, DeviceArray) else Borrowed(name, x, self.stream)
            elif name in feed:
                keep[name] = np.asarray(host_array(feed[name]), order="C")
        values = input_sizes(self.calls.source, keep)
        for name, x in keep.items():
            if isinstance(x, np.ndarray):
                keep[name] = self._upload(x)
        if self._fixed is None:
            self._fixed = {n: self._upload(x) for n, x in constants_of(self.calls).items()}
        return {n: x.pointer for n, x in (*keep.items(), *self._fixed.items())}, values, list(keep.values()), first

    def _upload(self, x: np.ndarray) -> DeviceArray:
        from cuda.bindings import driver

        out = DeviceArray(self.memory.allocate(max(1, x.nbytes), stream=self.stream), x.shape, x.dtype, self.stream)
        self.stream.sync()
        if x.nbytes:
            check(driver.cuMemcpyHtoD(out.pointer, x.ctypes.data, x.nbytes), "copy to the device")
        return out

    def _new(self, tensor: str, values: Mapping[str, int]) -> DeviceArray:
        t = self.calls.tensors[tensor]
        buffer = self.memory.allocate(max(1, size_of(t, values)), stream=self.stream)
        return DeviceArray(buffer, shape_of(t, values), t.dtype.numpy, self.stream)

    def _prepared(self, values: Mapping[str, int]) -> tuple[dict[str, int], Any, list[_Launch | _OnHost]]:
        """Offsets in the arena, the arena, and the launches for these sizes."""
        key = tuple(values[s] for s in sorted(values))
        if key not in self._ready:
            offsets, total = arena(self.calls, self.slots, values)
            memory = self.memory.allocate(max(1, total), stream=self.stream)
            self._ready[key] = (
                offsets,
                memory,
                [_OnHost(c, values) if c.kernel.opaque else self._launch(c, values) for c in self.calls.calls],
            )
        return self._ready[key]

    def _launch(self, call: Call, values: Mapping[str, int]) -> _Launch:
        from cuda.core import LaunchConfig

        src = self.sources[call.kernel.name]
        assert src.launch is not None
        blocks = src.launch.blocks(values)
        extra: dict[str, Any] = {}
        if src.launch.cluster > 1:
            blocks = (blocks[0] // src.launch.cluster, *blocks[1:])
            extra["cluster"] = (src.launch.cluster, 1, 1)
        config = LaunchConfig(grid=blocks, block=src.launch.block, shmem_size=src.launch.shared, **extra)
        sizes = {t: size_of(self.calls.tensors[t], values) for t in call.args.values()}
        return _Launch(
            call,
            config,
            self.kernels[call.kernel.name],
            tuple(call.args[a] for a in (*src.inputs, *src.outputs)),
            tuple(values[s] for s in src.sizes),
            tuple((call.args[z], sizes[call.args[z]]) for z in src.launch.zeroed),
            self._workspace(src.launch.workspace) if src.launch.workspace else 0,
            tuple((m, call.args[m.argument]) for m in src.launch.maps),
            values,
        )

    def _descriptor(self, m: TensorMap, pointer: int, values: Mapping[str, int]) -> Any:
        """The descriptor of a bulk copy from (or to) a buffer, made once for each address."""
        key = (m, pointer, tuple(sorted(values.items())))
        if key not in self._descriptors:
            self._descriptors[key] = tensor_map(m, pointer, values)
        return self._descriptors[key]

    def _workspace(self, bytes_: int) -> int:
        """A zero-filled scratch buffer that lives as long as the program."""
        array = self._upload(np.zeros(bytes_, np.uint8))
        self._kept.append(array)
        return array.pointer

    # ---- starting
    def _start(self, launches: Sequence[_Launch | _OnHost], pointers: Mapping[str, int], into: Any = None) -> None:
        """Queue calls on the executor's stream, or `into` another stream or a graph builder."""
        from cuda.bindings import driver
        from cuda.core import launch

        stream = self.stream if into is None else into
        limit = float(os.environ.get(WATCHDOG) or 0)
        for one in launches:
            if not isinstance(one, _Launch):
                self._reference(one.call, one.values, pointers)
                continue
            for tensor, bytes_ in one.zeroed:
                handle = getattr(stream, "stream", stream).handle
                check(driver.cuMemsetD8Async(pointers[tensor], 0, bytes_, handle), "clear an output")
            arguments = [*(pointers[t] for t in one.arguments), *one.sizes, *((one.workspace,) if one.workspace else ()),
                         *(self._descriptor(m, pointers[t], one.values) for m, t in one.maps)]  # fmt: skip
            try:
                launch(stream, one.config, one.kernel, *arguments)
            except Exception as e:
                raise AutocompError(f"the launch was refused: {e}", where=f"kernel {one.call.kernel.name}",
                                    hint="its launch sizes are in program.source()") from e  # fmt: skip
            if limit and into is None:
                self._watch(one.call.kernel.name, limit)

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
            t = self.calls.tensors[call.args[a.name]]
            x = np.empty(shape_of(t, values), t.dtype.numpy)
            check(driver.cuMemcpyDtoH(x.ctypes.data, pointers[call.args[a.name]], x.nbytes), "copy to the host")
            args.append(x)
        out = np.ascontiguousarray(OPS[k.opaque].reference(tuple(args), k.attrs, k.outputs[0].type))
        check(driver.cuMemcpyHtoD(pointers[call.args[k.outputs[0].name]], out.ctypes.data, out.nbytes), "copy to the device")

    def _input_of(self, output: str) -> str:
        return dict(self.calls.outputs)[output]


def _allow_shared(name: str, kernel: Any, source: KernelSource) -> None:
    """Ask the driver for the dynamic shared memory that a kernel needs, beyond the default 48 KB."""
    assert source.launch is not None
    if source.launch.shared > 48 * 1024:
        from cuda.bindings import driver

        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(driver.cuKernelSetAttribute(attribute, source.launch.shared, kernel.handle, 0), f"shared memory of kernel {name}")
