"""Timing candidates on a CUDA device: cold caches, device time by events, figures of the compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autocomp.options import Options
from autocomp.runtime.cuda import CudaExecutor
from autocomp.runtime.device_array import check
from autocomp.runtime.plan import slots
from autocomp.tune.measure import LAUNCHES, Bench, Built, Job, graph_of

FLUSHED = 4  # times the capacity of the level-2 cache that is overwritten before a timed launch


class CudaLoaded:
    """A candidate's executor, bound to inputs that lie on the device."""

    def __init__(self, executor: CudaExecutor, name: str, feed: Mapping[str, Any]) -> None:
        self.executor, self.name = executor, name
        self.start, self.arrays = executor.bind(feed)

    def outputs(self) -> Mapping[str, np.ndarray]:
        for a in self.arrays.values():
            a.buffer.fill(b"\xff", stream=self.executor.stream)
        self.start(self.executor.stream)
        return {n: a.numpy() for n, a in self.arrays.items()}

    def monitors(self) -> tuple[tuple[str, float], ...]:
        """Registers and local bytes a thread (what does not fit in registers), shared bytes and threads a block."""
        kernel, launch = self.executor.kernels[self.name].attributes, self.executor.sources[self.name].launch
        assert launch is not None
        return (("registers", float(kernel.num_regs)), ("local", float(kernel.local_size_bytes)),
                ("shared", float(kernel.shared_size_bytes + launch.shared)), ("threads", float(launch.block)))  # fmt: skip


class CudaBench(Bench):
    """On the current CUDA device."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.feed: dict[str, Any] = {}
        self.stream: Any = None  # of all candidates: one on another stream could run at the same time
        self.scratch: Any = None

    def load(self, b: Built) -> CudaLoaded:
        calls, sources = graph_of(self.kernel, {}, b.schedule), {s.name: s for s in b.sources}
        objects = {n: (Path(b.path).parent / f"{n}.cubin").read_bytes() for n in sources}
        executor = CudaExecutor(calls, slots(calls), sources, objects, Options())
        if not self.feed:
            self.stream = executor.stream
            self.feed = {n: executor._upload(np.ascontiguousarray(x)) for n, x in self.arrays.items()}
        return CudaLoaded(executor, b.source.name, self.feed)

    def race(self, loaded: Sequence[CudaLoaded], limit: float, rounds: int) -> list[float]:
        """Every launch between two events, the level-2 cache overwritten before it."""
        from cuda.core import EventOptions

        timed = EventOptions(timing_enabled=True)
        seen: list[list[float]] = [[] for _ in loaded]
        for _ in range(1 + rounds * LAUNCHES):
            order = [i for i, t in enumerate(seen) if len(t) < 2 or t[1] <= limit]
            self.random.shuffle(order)
            marks = []
            for i in order:
                self._flush(loaded[i].executor)
                a = self.stream.record(options=timed)
                loaded[i].start(self.stream)
                marks.append((i, a, self.stream.record(options=timed)))
            for i, a, b in marks:
                b.sync()
                seen[i].append((b - a) / 1e3)
        return [float(np.median(t[1:])) for t in seen]  # the first launch may load the module

    def _flush(self, executor: CudaExecutor) -> None:
        """Overwrite the level-2 cache."""
        from cuda.bindings import driver

        bytes_ = int(FLUSHED * self.job.target.chip.memory("l2").capacity)
        if self.scratch is None:
            self.scratch = executor.memory.allocate(bytes_, stream=self.stream)
            self.stream.sync()
        check(driver.cuMemsetD8Async(int(self.scratch.handle), 0, bytes_, self.stream.handle), "overwrite the cache")
