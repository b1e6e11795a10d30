"""What the child processes do: build one candidate, and time built candidates of one kernel after checking their results."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from autocomp.egraph.parts import expand
from autocomp.ir.kernel import Call, Kernel, KernelGraph
from autocomp.ir.node import Graph, make
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.runtime.codec import decode
from autocomp.runtime.host import HostExecutor
from autocomp.runtime.library import source_files
from autocomp.runtime.plan import slots
from autocomp.targets import Target
from autocomp.targets.source import KernelSource
from autocomp.tune.check import Part, deviation, difference, expected, inputs_of, sizes_of, widened

SPAN = 0.03  # seconds of timed runs of one host candidate while searching
BUSY = 10  # times as long is tried where other processes disturb the runs
RUNS = (4, 400)  # fewest and most of them
QUIET = 10  # percentile of host times that counts: other processes can only add to them
LAUNCHES = 10  # timed launches of one device candidate while searching
ROUNDS = 5  # times as many in the last race


@dataclass(frozen=True)
class Job:
    """One kernel to tune. `kernel`: its stored form; `folder`: of the session; `seed` of its inputs; `coarse`: distance from 1 to the next
    number of a type to which products may round their factors (0: of none)."""

    kernel: str
    target: Target
    folder: str
    seed: int
    threads: int = 0
    coarse: float = 0.0


@dataclass(frozen=True)
class Built:
    """A candidate: what was printed for it (several kernels where its reduction is done in parts), in the order of their calls, and
    the path of what was built: a library, or the first kernel's object beside the others'."""

    schedule: Schedule
    sources: tuple[KernelSource, ...]
    path: str

    @property
    def source(self) -> KernelSource:
        """Of the first kernel."""
        return self.sources[0]


@dataclass(frozen=True)
class Outcome:
    """`wrong`: why the result is not right, else "" and `seconds` of one launch; `monitors`: registers, local bytes, ..."""

    wrong: str
    seconds: float = 0.0
    monitors: tuple[tuple[str, float], ...] = ()


def build(job: Job, schedule: Schedule, name: str) -> Built:
    """Print and compile a candidate into `folder/name`. Raises DoesNotFit, UnsupportedOp, BuildError."""
    kernel: Kernel = decode(job.kernel, {})
    target, folder = job.target, Path(job.folder) / name
    sources = tuple(target.emit(k, s) for k, s in pieces(kernel, schedule))
    folder.mkdir()
    if target.runtime == "host":
        calls = graph_of(kernel, dict.fromkeys(constants_in(kernel), np.empty(0)), schedule)
        files = source_files(calls, slots(calls), {s.name: s for s in sources}, target.preamble)
        for n, text in files.items():
            (folder / n).write_text(text, encoding="utf-8")
        target.toolchain.compile(folder, [n for n in sorted(files) if n.endswith(".c")], folder / "kernels.so")
        return Built(schedule, sources, str(folder / "kernels.so"))
    for s in sources:
        code = target.toolchain.here().compile_object(s.name, f"{target.preamble([s])}\n{s.text}")
        (folder / f"{s.name}.cubin").write_bytes(code)
    return Built(schedule, sources, str(folder / f"{sources[0].name}.cubin"))


class Loaded(Protocol):
    """A candidate that is ready to run."""

    def outputs(self) -> Mapping[str, np.ndarray]:
        """Results of one run into poisoned memory."""

    def monitors(self) -> tuple[tuple[str, float], ...]: ...


def graph_of(kernel: Kernel, constants: Mapping[str, np.ndarray], schedule: Schedule | None = None) -> KernelGraph:
    """A program of this one kernel (of its pieces under a schedule that splits its reduction), whose tensors have the kernel's argument
    names; `constants` are its parameters."""
    inputs = tuple(make("input", (), a.type, {"name": a.name}) for a in kernel.inputs if a.name not in constants)
    tensors = {a.name: a.type for a in (*kernel.inputs, *kernel.outputs)}
    whole = KernelGraph(Graph(kernel.name, inputs, (), constants), (Call(kernel, {n: n for n in tensors}),), tensors,
                        tuple(a.name for a in kernel.inputs if a.name not in constants), tuple(constants),
                        tuple((a.name, a.name) for a in kernel.outputs))  # fmt: skip
    return whole if schedule is None or schedule.split is None else expand(whole, lambda _: pieces(kernel, schedule))


def constants_in(kernel: Kernel) -> tuple[str, ...]:
    """Arguments whose data is known before the first run: a host program may reorder it once, when it is loaded."""
    return tuple(a.name for a in kernel.inputs if a.constant)


class Bench(ABC):
    """A kernel's inputs and expected values in this process."""

    def __init__(self, job: Job) -> None:
        self.job, self.kernel = job, decode(job.kernel, {})
        self.sizes = sizes_of(self.kernel)
        self.arrays = inputs_of(self.kernel, self.sizes, job.seed)
        self.parts = self._parts(Path(job.folder) / "expected.npz")
        self.widened = False  # whether it is known how far results move by themselves, which takes the reference twice more
        self.first: Mapping[str, np.ndarray] | None = None
        self.random = random.Random(job.seed)

    def _parts(self, path: Path) -> list[Part]:
        """The expected values; kept in the session's folder for the process that replaces this one."""
        if path.exists():
            with np.load(path) as data:
                n = int(data["count"])
                return [Part(str(data[f"{i} output"]), tuple(data[f"{i} index {j}"] for j in range(int(data[f"{i} rank"]))),
                             data[f"{i} value"], data[f"{i} skip"], float(data[f"{i} relative"])) for i in range(n)]  # fmt: skip
        parts = expected(self.kernel, self.arrays, self.sizes, coarse=self.job.coarse)
        kept: dict[str, Any] = {"count": len(parts)}
        for i, p in enumerate(parts):
            kept |= {f"{i} output": p.output, f"{i} rank": len(p.index), f"{i} value": p.value, f"{i} skip": p.skip,
                     f"{i} relative": p.relative, **{f"{i} index {j}": x for j, x in enumerate(p.index)}}  # fmt: skip
        new = path.with_suffix(".new.npz")
        np.savez(new, **kept)
        new.rename(path)
        return parts

    def check(self, x: Loaded, whole: bool) -> str:
        """Why a candidate's result is wrong, "" if it is right: by the reference, and by the first right result; while searching by samples
        of that alone, as the last race compares every element of what it keeps."""
        got = x.outputs()
        text = deviation(self.parts, got) if whole or self.first is None else ""
        if text and not self.widened:
            self.parts, self.widened = widened(self.kernel, self.arrays, self.sizes, self.parts), True
            text = deviation(self.parts, got)
        if not text and self.first is not None:
            text = difference(self.first, got, self.parts, whole)
        if not text and self.first is None:
            self.first = {n: np.array(v) for n, v in got.items()}
        return text

    @abstractmethod
    def load(self, b: Built) -> Any:
        """The candidate, ready to run."""

    @abstractmethod
    def race(self, loaded: Sequence[Any], limit: float, rounds: int) -> list[float]:
        """Seconds of one launch of each, from rounds in shuffled order; one that first takes longer than `limit` has no further runs."""


class HostLoaded:
    """A library that is loaded in this process."""

    def __init__(self, executor: HostExecutor, feed: Mapping[str, np.ndarray]) -> None:
        self.executor, self.feed = executor, feed
        self.disturbed = 0.0

    def outputs(self) -> Mapping[str, np.ndarray]:
        self.executor.poison = True
        result = self.executor.run(self.feed)
        self.executor.poison = False
        return result

    def monitors(self) -> tuple[tuple[str, float], ...]:
        """The share of the timed runs that other processes disturbed."""
        return (("disturbed", self.disturbed),)

    def times(self, repeat: int) -> list[tuple[float, bool]]:
        return self.executor.times(self.feed, repeat)


class HostBench(Bench):
    """On this machine's CPU, with warm caches."""

    def load(self, b: Built) -> HostLoaded:
        constants = {n: self.arrays[n] for n in constants_in(self.kernel)}
        calls, sources = graph_of(self.kernel, constants, b.schedule), {s.name: s for s in b.sources}
        executor = HostExecutor(calls, slots(calls), sources, Path(b.path), Options(threads=self.job.threads))
        return HostLoaded(executor, {n: x for n, x in self.arrays.items() if n not in constants})

    def race(self, loaded: Sequence[HostLoaded], limit: float, rounds: int) -> list[float]:
        seen = [x.times(2) for x in loaded]
        quick = [i for i, runs in enumerate(seen) if min(runs)[0] <= limit]
        for _ in range(rounds):
            self.random.shuffle(quick)
            for i in quick:
                seen[i] += _span(loaded[i])
        for x, runs in zip(loaded, seen):
            x.disturbed = sum(disturbed for _, disturbed in runs) / len(runs)
        return [_typical(runs) for runs in seen]


def _span(x: HostLoaded) -> list[tuple[float, bool]]:
    """As many runs as `SPAN` seconds hold; more of them where too few were left alone by other processes."""
    begun, out = time.perf_counter(), x.times(RUNS[0])
    while len(out) < RUNS[1]:
        left_alone = sum(not disturbed for _, disturbed in out)
        if time.perf_counter() - begun > SPAN * (1 if left_alone >= RUNS[0] else BUSY):
            break
        out += x.times(RUNS[0])
    return out


def _typical(runs: list[tuple[float, bool]]) -> float:
    """The time that counts: of the runs that no other process disturbed, where there are some."""
    quiet = [t for t, disturbed in runs if not disturbed]
    return float(np.percentile(quiet or [t for t, _ in runs], QUIET))
