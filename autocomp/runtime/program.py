"""The compiled program: callable, and open about what it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import share_of_roofline
from autocomp.cost.reference import coded_cost, reference_seconds
from autocomp.deadline import current
from autocomp.errors import AutocompError, BuildError, ModelError
from autocomp.ir.directives import complete
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.places import labels_of
from autocomp.ir.schedule_text import show
from autocomp.limits import memory_told
from autocomp.options import Options
from autocomp.runtime.build import build_library, build_objects
from autocomp.runtime.cuda import CudaExecutor
from autocomp.runtime.executor import Executor, Timing, constants_of
from autocomp.runtime.given import check_copied
from autocomp.runtime.host import HostExecutor
from autocomp.runtime.later import Later
from autocomp.runtime.library import source_files
from autocomp.runtime.plain import Plain
from autocomp.runtime.plain_cuda import PlainCuda
from autocomp.runtime.plan import runs_on_host, slots, views
from autocomp.runtime.verify import Verification, verify
from autocomp.targets.source import KernelSource
from autocomp.trace import Trace

if TYPE_CHECKING:
    from autocomp.cost.work import Cost
    from autocomp.ir.schedule import Schedule
    from autocomp.targets import Target


@dataclass(frozen=True)
class KernelInfo:
    """One distinct kernel: `calls` how often it is launched; times in seconds for one launch; `rules` the reasons.

    at_full_rate: the time that its busiest unit needs at its full rate, which no schedule goes below. `terms`: what the price is made of,
    (unit, seconds); `operations` and `moved`: of one launch, the bytes those of main memory that cannot be saved.
    """

    name: str
    ops: tuple[str, ...]
    calls: int
    schedule: str
    predicted: float
    bound: str
    rules: tuple[str, ...]
    signature: str
    source: str
    at_full_rate: float = 0.0
    terms: tuple[tuple[str, float], ...] = ()
    operations: float = 0.0
    moved: float = 0.0
    matrix: str = ""  # the element type of its products, "" where it has none


def _copy(new: Any, into: Any) -> None:
    """The elements of one tensor into another, of NumPy or torch."""
    if isinstance(into, np.ndarray):
        into[...] = new
    else:
        into.detach().copy_(new)


class Program:
    """`program(x, ...)` takes inputs in order, or by name, and gives the output, or a tuple of them.

    Anything with DLPack or the array interface goes in; arrays of torch or CuPy come out where such went in, else NumPy's.
    """

    def __init__(self, calls: KernelGraph, kernels: list[KernelInfo], files: dict[str, str],
                 target: Target,
                 trace: Trace, options: Options, rule_names: tuple[str, ...], executor: Executor | Later | None,
                 printed: Mapping[str, KernelSource] | None = None) -> None:  # fmt: skip
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
        self._executor = executor
        self.printed = dict(printed or {})  # what the target printed for each kernel, by kernel name
        self._folded: dict[str, np.ndarray] | None = None
        self.modelled = ""  # what a run on the model of the chip's machine has shown, for the folder's README
        self._inputs = tuple(n.attrs["name"] for n in self.graph.inputs)
        self._copied = {w.output: w.input for w in self.graph.written if w.copied}
        silent = {w.output for w in self.graph.written if not w.returned}
        self._returned = tuple(name for name, _ in self.graph.outputs if name not in silent)

    def __repr__(self) -> str:
        n = len(self.calls.calls)
        return f"<Program {self.name} on {self.target.name} ({self.target.chip.name}): {n} kernel{'s' if n != 1 else ''}>"

    def __copy__(self) -> Program:
        return self

    def __deepcopy__(self, memo: Any) -> Program:
        """Itself: calls leave nothing behind, and kernels are loaded once a process."""
        return self

    def __reduce__(self) -> Any:
        raise AutocompError("a program cannot be pickled: its kernels are loaded in this process", where=f"program {self.name}",
                            hint="call `optimize` there, which finds it in the cache; `save` leaves a folder")  # fmt: skip

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
        return self._executor is not None

    @property
    def executor(self) -> Executor | None:
        """What runs it; None where its target cannot run here. Compiles what a deadline left. Raises BuildError."""
        later = self._executor  # another thread may replace it meanwhile
        if isinstance(later, Later):
            self._executor = later.made()
            return self._executor
        return later

    @executor.setter
    def executor(self, executor: Executor | None) -> None:
        self._executor = executor

    @property
    def postponed(self) -> bool:
        """Whether a deadline left its kernels to be compiled by `prepare`, or by the first call."""
        return isinstance(self._executor, Later)

    def prepare(self) -> None:
        """Compile now what a deadline left for the first call; nothing where all is compiled. Raises BuildError from the compiler,
        AutocompError where the target cannot run here."""
        self._running()

    def source(self, kernel: str | None = None) -> str:
        """The printed source of a kernel, or of all of them."""
        if kernel is None:
            return "\n".join(self.sources[f] for f in sorted(self.sources))
        found = next((k for k in self.kernels if k.name == kernel), None)
        if found is None:
            raise AutocompError(f"there is no kernel '{kernel}'", hint=f"kernels: {', '.join(k.name for k in self.kernels)}")
        return found.source

    def makes(self, signature: str) -> list[str]:
        """The nodes of the model that a kernel's calls compute, in words that another compilation of the same model has too."""
        mine = (c.computes for c in self.calls.calls if c.kernel.signature == signature)
        return list(labels_of(self.calls.source, {i for computes in mine for i in computes}))

    def explain(self, why: str | None = None, why_not: str | None = None, at: str | None = None) -> str:
        """Why the program is as it is (see `autocomp explain`): the whole, a kernel, or why a rule did not fire (`at` a node)."""
        from importlib import import_module

        return str(import_module("autocomp.report.explain").explain(self, why, why_not, at)[0])

    def report(self, path: str | Path, timing: Timing | None = None) -> Path:
        """Write one HTML file with kernels, reasons and sources."""
        from importlib import import_module

        return Path(import_module("autocomp.report.html").program_report(self, path, timing))

    def tune(self, seconds: float = 0.0, configurations: int | None = None, quiet: bool = False) -> Any:
        """Measure schedules of its kernels here and keep the fastest (see `autocomp tune`); `optimize` uses them from then on.

        seconds: for the whole search, 0 for no limit; configurations: schedules a kernel at most. What comes back prints as a table
        and has `rows`, a dict a kernel. Raises AutocompError where the target cannot run here. Interrupted, it goes on where it was.
        """
        from importlib import import_module

        return import_module("autocomp.report.tuning").tune(self, seconds, configurations, quiet)

    def save(self, folder: str | Path) -> Path:
        """Write sources, build script, weights and manifest."""
        from autocomp.runtime.saving import save

        return save(self, Path(folder))

    def build(self) -> dict[str, bytes]:
        """Device code of each kernel, by name: compiled here whether or not a device is (CUDA). Raises BuildError with the compiler's
        first error, or with what to install."""
        toolchain = self.target.toolchain
        if self.target.runtime != "cuda":
            raise BuildError(f"kernels for {self.target.name} are not compiled one by one here", where=self.name,
                             hint="save(folder) writes sources with what builds them")  # fmt: skip
        return build_objects({PurePath(f).stem: text for f, text in self.sources.items()}, toolchain, self.trace)

    def verify(self, feed: Mapping[str, np.ndarray] | None = None, seed: int = 0) -> Verification:
        """Compare with the float64 reference; raises VerificationError, AutocompError where memory ends."""
        with memory_told("the float64 reference", self.name):
            return verify(self, feed, seed)

    # ---- running
    def __call__(self, *args: Any, **named: Any) -> Any:
        """The output, a tuple of them, or what a torch module makes of them (a dict); a donated input has the new value afterwards.
        Raises ModelError on a missing or unknown input, a wrong dtype, shape or structure."""
        structure = self.graph.structure
        if structure is not None and not self._one_by_one(args, named):
            args, named = (), structure.inputs(args, named)
        out = self._called(args, named)
        if structure is not None and structure.result is not None:
            return structure.results(out)
        return out[0] if len(out) == 1 else tuple(out)

    def _one_by_one(self, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether arguments are the inputs themselves, though the model takes them in a structure. By the names that the model's arguments
        have they are its arguments: one that is left out may be a number, with another value by default."""
        if named and self.graph.structure is not None and set(named) <= self.graph.structure.names:
            return False
        given = (*args, *named.values())
        arrays = all(hasattr(x, "__dlpack__") or hasattr(x, "__array_interface__") for x in given)
        return arrays and len(given) == len(self._inputs)

    def _called(self, args: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        """The outputs in order. Raises ModelError as a call does."""
        plain = None if named or self._copied else getattr(self._executor, "plain", None)
        if plain is not None and (made := plain(self._executor, args)) is not None:
            return made  # type: ignore[no-any-return]
        names = self._inputs
        feed = dict(zip(names, args))
        if len(args) + len(named) != len(names) or len({*feed, *named}) != len(names) or not set(named) <= set(names):
            got = ", ".join([str(len(args)), *named]) if named else str(len(args))
            raise ModelError(f"takes {len(names)} inputs ({', '.join(names)}), got {got}", where=self.name)
        found = self.run(feed | dict(named))
        return [found[name] for name in self._returned]

    def run(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name, for names that are no identifiers too; of a donated input the array that was given. Raises ModelError on a
        missing or unknown input, a wrong dtype or shape."""
        if len(feed) > len(self._inputs):
            unknown = next(name for name in feed if name not in self._inputs)
            raise ModelError(f"has no input '{unknown}'", where=self.name, hint=f"inputs: {', '.join(self._inputs)}")
        if not self._copied:
            return self._running().run(feed)
        check_copied(self._copied.values(), feed)
        found = self._running().run(feed)
        for made, name in self._copied.items():
            _copy(found[made], feed[name])
        return found

    def profile(self, feed: Mapping[str, Any], repeat: int = 10) -> Timing:
        """Time whole calls, and each kernel's launches inside a call (median over `repeat`)."""
        return self._running().profile(feed, repeat)

    def _running(self) -> Executor:
        executor = self.executor
        if executor is None:
            raise AutocompError(
                f"target {self.target.name} cannot run here: {self.not_runnable}",
                where=self.name,
                hint="save(folder) writes what builds on the device's machine",
            )
        return executor

    def folded(self) -> dict[str, np.ndarray]:
        """Constants computed from parameters, by tensor name."""
        if self._folded is None:
            fixed = constants_of(self.calls)
            self._folded = {n: fixed[n] for n in self.calls.constants}
        return self._folded


def _priced(cost: Cost) -> str:
    """The line of a kernel's comment that says what it is thought to take."""
    return f"predicted: {cost.seconds * 1e6:.2f} us, bound by {cost.bound}"


def build_program(calls: KernelGraph, schedules: Mapping[str, tuple[Schedule, Cost]], target: Target, options: Options, trace: Trace,
                  rule_names: tuple[str, ...] = ()) -> Program:  # fmt: skip
    """Print every distinct kernel, build the sources where the toolchain is here, and wrap it all as a Program."""
    count: dict[str, int] = {}
    for c in calls.calls:
        times = calls.loops[c.loop].expected if c.loop else 1
        count[c.kernel.name] = count.get(c.kernel.name, 0) + times
    measured = {e.data["signature"]: e.data["text"] for e in trace.of("tuned") if e.data["used"] and "signature" in e.data}
    tiled = {e.data["signature"]: (f"{e.data['rule']}: the schedule",) for e in trace.of("schedule") if "/" in e.data.get("rule", "")}
    sources: dict[str, KernelSource] = {}
    infos: dict[str, KernelInfo] = {}
    for c in calls.calls:
        k = c.kernel
        if k.name in infos:
            continue
        if k.coded:
            from autocomp.ir.schedule import Schedule

            cost = coded_cost(k, target.chip)
            sources[k.name] = target.emit(k, Schedule(), (f"{k.name}: {' '.join(c.ops)}", _priced(cost), *(f"rule: {r}" for r in c.rules)))
            infos[k.name] = KernelInfo(k.name, c.ops, count[k.name], "is the target's own function", cost.seconds, cost.bound, c.rules,
                                       k.signature, sources[k.name].text, cost.seconds, tuple(cost.parts))  # fmt: skip
            continue
        if k.opaque:
            host = reference_seconds([a.type for a in k.inputs], target.chip)
            view = target.name in ("cpu", "cuda") and not runs_on_host(c, views(calls))
            said, host = ("is a view: nothing runs", 0.0) if view else ("runs through its reference", host)
            infos[k.name] = KernelInfo(k.name, c.ops, count[k.name], said, host, "opaque", c.rules, k.signature, "")
            continue
        schedule, cost = schedules[k.signature]
        schedule = beside_others(schedule, calls)
        share = share_of_roofline(k, cost, target.chip)
        header = (
            f"{k.name}: {' '.join(c.ops)}",
            f"schedule: {show(schedule)}",
            *([f"tuned: {measured[k.signature]}"] if k.signature in measured else []),
            f"{_priced(cost)}, {share:.0%} of the roofline",
            *(f"rule: {r}" for r in (*c.rules, *tiled.get(k.signature, ()))),
        )
        sources[k.name] = target.emit(k, schedule, header)
        w = demand_of(k).work
        infos[k.name] = KernelInfo(
            k.name, c.ops, count[k.name], show(schedule), cost.seconds, cost.bound, c.rules, k.signature, sources[k.name].text,
            share * cost.seconds, tuple(cost.parts), w.matrix + w.vector + w.special, w.read + w.written,
            w.matrix_dtype if w.matrix else "",
        )  # fmt: skip
    files = files_of(calls, sources, target)
    executor = soon_or_later(calls, sources, files, target, options, trace)
    return Program(calls, list(infos.values()), files, target, trace, options, rule_names, executor, sources)


def beside_others(schedule: Schedule, calls: KernelGraph) -> Schedule:
    """A kernel that is a program's only one meets no other launch: it need not wait for one."""
    if len(calls.calls) > 1 or calls.loops or "pdl" not in schedule.directives:
        return schedule
    return replace(schedule, directives=complete(set(schedule.directives) - {"pdl"}))


def files_of(calls: KernelGraph, sources: Mapping[str, KernelSource], target: Target) -> dict[str, str]:
    """The files of a program: name -> text."""
    if target.runtime == "host":
        return source_files(calls, slots(calls), sources, target.preamble)
    return {f"{n}.{s.language}": f"{target.preamble([s])}\n{s.text}" for n, s in sources.items()}


def executor_of(calls: KernelGraph, sources: Mapping[str, KernelSource], files: Mapping[str, str], target: Target, options: Options,
                trace: Trace) -> Executor | None:  # fmt: skip
    """What runs a program where its toolchain and its device are here (builds its files), else None. Raises BuildError."""
    if target.runtime not in ("host", "cuda") or target.why_not_runnable():
        return None
    places = slots(calls)
    if target.runtime == "host":
        library = build_library(files, target.toolchain, trace)
        executor = HostExecutor(calls, places, sources, library, options, trace)
        executor.plain = Plain.of(executor)
        return executor
    texts = {n: files[f"{n}.{s.language}"] for n, s in sources.items()}
    on_device = CudaExecutor(calls, places, sources, build_objects(texts, target.toolchain.here(), trace), options)
    on_device.plain = PlainCuda.of(on_device)
    return on_device


def soon_or_later(calls: KernelGraph, sources: Mapping[str, KernelSource], files: Mapping[str, str], target: Target, options: Options,
                  trace: Trace) -> Executor | Later | None:  # fmt: skip
    """`executor_of`, or what makes it when it is first asked for, where the deadline ends the compiler. Raises BuildError."""
    deadline = current()

    def build() -> Executor | None:
        return executor_of(calls, sources, files, target, options, trace)

    try:
        with deadline.postponing():
            return build()
    except BuildError as e:
        left = "1 kernel" if len(sources) == 1 else f"{len(sources)} kernels"
        if not (e.late and deadline.passed("build", f"the compiler: the first call, or prepare(), compiles {left}")):
            raise
    return Later(build, calls, target, trace)
