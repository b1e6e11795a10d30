"""The compiled program: callable, and open about what it runs."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autocomp.errors import AutocompError, ModelError
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.ops import OPS
from autocomp.ir.reference import evaluate
from autocomp.ir.types import Sym, TensorType
from autocomp.options import Options
from autocomp.runtime.build import build_library
from autocomp.runtime.library import Library, source_files, symbols_of
from autocomp.runtime.plan import arena, segments, size_of, slots
from autocomp.runtime.verify import Verification, verify
from autocomp.targets.source import KernelSource
from autocomp.trace import Trace

if TYPE_CHECKING:
    from autocomp.cost.work import Cost
    from autocomp.ir.schedule import Schedule
    from autocomp.targets import Target


@dataclass(frozen=True)
class KernelInfo:
    """One distinct kernel: `calls` how often it is launched; times in seconds for one launch; `rules` the reasons."""

    name: str
    ops: tuple[str, ...]
    calls: int
    schedule: str
    predicted: float
    bound: str
    rules: tuple[str, ...]
    signature: str
    source: str


@dataclass(frozen=True)
class Timing:
    """Medians in seconds: a whole call, and one launch of each kernel by name."""

    total: float
    by_kernel: Mapping[str, float]


class Program:
    """`program(x, ...)` takes inputs in order (or by name through `run`) and gives the output, or a tuple of them.

    Anything with DLPack or the array interface goes in; NumPy arrays come out.
    """

    def __init__(self, calls: KernelGraph, kernels: list[KernelInfo], sources: dict[str, KernelSource], files: dict[str, str],
                 target: Target,
                 trace: Trace, options: Options, rule_names: tuple[str, ...], library: Path | None) -> None:  # fmt: skip
        self.calls, self.kernels, self.sources, self.target, self.trace, self.options = (
            calls,
            kernels,
            files,
            target,
            trace,
            options,
        )
        self.rule_names = rule_names
        self.name, self.graph = calls.source.name, calls.source
        self.slots = slots(calls)
        self._symbols = symbols_of(sources)
        self._library = Library(library) if library is not None else None
        self._scratch_bytes = max((s.scratch for s in sources.values()), default=0)
        self._fixed: dict[str, np.ndarray] | None = None
        self._arenas: dict[tuple[int, ...], tuple[dict[str, int], np.ndarray]] = {}

    # ---- what it is
    @property
    def predicted(self) -> float:
        """Seconds of one call by the model."""
        return sum(k.predicted * k.calls for k in self.kernels)

    @property
    def not_runnable(self) -> str:
        return self.target.why_not_runnable()

    @property
    def runnable(self) -> bool:
        return self._library is not None

    def source(self, kernel: str | None = None) -> str:
        """The printed source of a kernel, or of all of them."""
        if kernel is None:
            return "\n".join(self.sources[f] for f in sorted(self.sources))
        found = next((k for k in self.kernels if k.name == kernel), None)
        if found is None:
            raise AutocompError(f"there is no kernel '{kernel}'", hint=f"kernels: {', '.join(k.name for k in self.kernels)}")
        return found.source

    def explain(self, why: str | None = None, why_not: str | None = None) -> str:
        """Why the program is as it is (see `autocomp explain`)."""
        from importlib import import_module

        return str(import_module("autocomp.report.explain").explain(self, why, why_not)[0])

    def report(self, path: str | Path, timing: Timing | None = None) -> Path:
        """Write one HTML file with kernels, reasons and sources."""
        from importlib import import_module

        return Path(import_module("autocomp.report.html").program_report(self, path, timing))

    def save(self, folder: str | Path) -> Path:
        """Write sources, build script, weights and manifest."""
        from autocomp.runtime.saving import save

        return save(self, Path(folder))

    def verify(self, feed: Mapping[str, np.ndarray] | None = None, seed: int = 0) -> Verification:
        """Compare with the float64 reference; raises VerificationError."""
        return verify(self, feed, seed)

    # ---- running
    def __call__(self, *args: Any) -> Any:
        names = [n.attrs["name"] for n in self.graph.inputs]
        if len(args) != len(names):
            raise ModelError(f"takes {len(names)} inputs ({', '.join(names)}), got {len(args)}", where=self.name)
        out = tuple(self.run(dict(zip(names, args))).values())
        return out[0] if len(out) == 1 else out

    def run(self, feed: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Outputs by name. Raises ModelError on a missing input, a wrong dtype or shape."""
        tensors, table, sizes, scratch = self._prepare(feed)
        for first, last, opaque in segments(self.calls.calls):
            self._segment(first, last, opaque, tensors, table, sizes, scratch)
        return {name: tensors[t] for name, t in self.calls.outputs}

    def profile(self, feed: Mapping[str, Any], repeat: int = 10) -> Timing:
        """Time whole calls, and each kernel's launches inside a call (median over `repeat`)."""
        tensors, table, sizes, scratch = self._prepare(feed)
        runs = segments(self.calls.calls)
        total: list[float] = []
        for _ in range(repeat + 1):
            t = time.perf_counter()
            for first, last, opaque in runs:
                self._segment(first, last, opaque, tensors, table, sizes, scratch)
            total.append(time.perf_counter() - t)
        each: dict[str, list[float]] = {}
        for _ in range(repeat):
            for i, c in enumerate(self.calls.calls):
                t = time.perf_counter()
                self._segment(i, i + 1, bool(c.kernel.opaque), tensors, table, sizes, scratch)
                each.setdefault(c.kernel.name, []).append(time.perf_counter() - t)
        return Timing(float(np.median(total[1:])), {k: float(np.median(v)) for k, v in each.items()})

    def _segment(
        self, first: int, last: int, opaque: bool, tensors: dict[str, np.ndarray], table: Any, sizes: list[int], scratch: Any
    ) -> None:
        if not opaque:
            assert self._library is not None
            self._library.run(table, sizes, scratch.ctypes.data if scratch is not None else 0, first, last)
            return
        c = self.calls.calls[first]
        k = c.kernel
        args = tuple(tensors[c.args[a.name]] for a in k.inputs)
        out = tensors[c.args[k.outputs[0].name]]
        out[...] = OPS[k.opaque].reference(args, k.attrs, k.outputs[0].type).reshape(out.shape)

    def _prepare(self, feed: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], Any, list[int], Any]:
        if self._library is None:
            raise AutocompError(
                f"target {self.target.name} cannot run here: {self.not_runnable}",
                where=self.name,
                hint="save(folder) writes what builds on the device's machine",
            )
        if self.options.threads:
            self._library.threads(self.options.threads)
        tensors, values = self._inputs(feed)
        tensors |= self._constants()
        key = tuple(values[s] for s in sorted(values))
        if key not in self._arenas:
            offsets, total = arena(self.calls, self.slots, values)
            self._arenas[key] = offsets, np.empty(total + 64, np.uint8)
        offsets, memory = self._arenas[key]
        start = -memory.ctypes.data % 64
        for t, at in offsets.items():
            tensors[t] = self._view(memory[start + at :], self.calls.tensors[t], values)
        for _, t in self.calls.outputs:
            if t not in tensors:
                shape = self._shape(self.calls.tensors[t], values)
                tensors[t] = np.empty(shape, self.calls.tensors[t].dtype.numpy)
        table = (ctypes.c_void_p * max(1, len(self.slots.index)))()
        for t, i in self.slots.index.items():
            if t in tensors:
                table[i] = tensors[t].ctypes.data
        scratch = np.empty(self._scratch_bytes, np.uint8) if self._scratch_bytes else None
        return tensors, table, [values[s] for s in self._symbols], scratch

    def _shape(self, t: TensorType, values: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(values[d.name] if isinstance(d, Sym) else d for d in t.shape)

    def _view(self, memory: np.ndarray, t: TensorType, values: Mapping[str, int]) -> np.ndarray:
        return memory[: size_of(t, values)].view(t.dtype.numpy).reshape(self._shape(t, values))

    def _inputs(self, feed: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        """Contiguous arrays by name and the values of symbols."""
        tensors: dict[str, np.ndarray] = {}
        values: dict[str, int] = {}
        for n in self.graph.inputs:
            name, t = n.attrs["name"], n.type
            if name not in feed:
                raise ModelError(f"input '{name}' is missing", where=self.name, hint=f"it wants {t}")
            x = _array(feed[name])
            fits = x.dtype == t.dtype.numpy and x.ndim == t.rank
            for d, s in zip(t.shape, x.shape):
                if isinstance(d, Sym):
                    fits = fits and values.setdefault(d.name, s) == s and d.lo <= s <= d.hi and s % d.multiple == 0
                else:
                    fits = fits and d == s
            if not fits:
                raise ModelError(f"input '{name}' wants {t}, got {x.dtype}{list(x.shape)}", where=self.name)
            tensors[name] = np.ascontiguousarray(x)
        return tensors, values

    def folded(self) -> dict[str, np.ndarray]:
        """Constants computed from parameters, by tensor name."""
        return {n: self._constants()[n] for n in self.calls.constants}

    def _constants(self) -> dict[str, np.ndarray]:
        """Parameters and folded constants, computed once."""
        if self._fixed is None:
            fixed = {p: np.ascontiguousarray(self.graph.param(p)) for p in self.calls.params}
            for name, g in self.calls.constants.items():
                fixed[name] = np.ascontiguousarray(evaluate(g, {}, float64=False)["value"])
            self._fixed = fixed
        return self._fixed


def _array(x: Any) -> np.ndarray:
    """A NumPy view of anything that offers DLPack or the array interface, without a copy where they allow it."""
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return np.asarray(x)
    return np.from_dlpack(x)


def build_program(calls: KernelGraph, schedules: Mapping[str, tuple[Schedule, Cost]], target: Target, options: Options, trace: Trace,
                  rule_names: tuple[str, ...] = ()) -> Program:  # fmt: skip
    """Print every distinct kernel, build the sources where the toolchain is here, and wrap it all as a Program."""
    from autocomp.egraph.choose import describe

    count: dict[str, int] = {}
    for c in calls.calls:
        count[c.kernel.name] = count.get(c.kernel.name, 0) + 1
    sources: dict[str, KernelSource] = {}
    infos: dict[str, KernelInfo] = {}
    for c in calls.calls:
        k = c.kernel
        if k.name in infos:
            continue
        if k.opaque:
            infos[k.name] = KernelInfo(
                k.name, c.ops, count[k.name], "runs through its reference", 0.0, "opaque", c.rules, k.signature, ""
            )
            continue
        schedule, cost = schedules[k.signature]
        header = (
            f"{k.name}: {' '.join(c.ops)}",
            f"schedule: {describe(schedule)}",
            f"predicted: {cost.seconds * 1e6:.2f} us, bound by {cost.bound}",
            *(f"rule: {r}" for r in c.rules),
        )
        sources[k.name] = target.emit(k, schedule, header)
        infos[k.name] = KernelInfo(
            k.name, c.ops, count[k.name], describe(schedule), cost.seconds, cost.bound, c.rules, k.signature, sources[k.name].text
        )
    files = source_files(calls, slots(calls), sources, target.preamble)
    library = build_library(files, target.toolchain, trace) if not target.why_not_runnable() else None
    return Program(calls, list(infos.values()), sources, files, target, trace, options, rule_names, library)
