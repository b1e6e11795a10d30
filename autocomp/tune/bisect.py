"""Which rules make a program wrong or slow: rules are switched off by halves until the smallest set that matters is left.

Every trial compiles and runs the program in a child process, so a program that crashes or hangs is a trial that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from autocomp.errors import AutocompError, VerificationError
from autocomp.frontends import load
from autocomp.ir.kernel import Kernel
from autocomp.options import Options
from autocomp.runtime.codec import decode, encode
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.program import executor_of, files_of
from autocomp.targets import Target, load_target
from autocomp.targets.source import KernelSource
from autocomp.trace import Trace
from autocomp.tune.check import deviation, expected, inputs_of, sizes_of
from autocomp.tune.measure import constants_in, graph_of
from autocomp.tune.process import Failure, Worker

if TYPE_CHECKING:
    from autocomp.runtime.program import Program

TUNED = "measured schedules"  # stands among the rules where the program uses some
REPEAT = 5  # timed calls, of which the fastest counts
ROUNDS = 3
LIMIT = 600.0  # seconds of one trial


@dataclass(frozen=True)
class Request:
    """What is bisected: a model's path, a target, options, fixed dimensions."""

    model: str
    target: str
    options: Options
    dims: dict[str, int] | None = None

    def require(self) -> None:
        """Raises AutocompError where no rule can be at fault: the model cannot be read, or the target cannot run here."""
        load(self.model, dims=self.dims)
        target = load_target(self.target)
        if target.why_not_runnable():
            raise AutocompError(f"target {target.name} cannot run here: {target.why_not_runnable()}", where="bisect",
                                hint="run the same command on a machine with the device")  # fmt: skip

    def without(self, off: Sequence[str]) -> Request:
        """The same with some rules off."""
        names = tuple(n for n in off if n != TUNED)
        return replace(self, options=replace(self.options, without=(*self.options.without, *names),
                                             tuned=self.options.tuned and TUNED not in off))  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """`wrong`: why the result is not right, "" if it is; `seconds` of one call; `kernels`: name, launches, measured and predicted
    seconds of one."""

    wrong: str
    seconds: float = 0.0
    kernels: tuple[tuple[str, int, float, float], ...] = ()


@dataclass(frozen=True)
class Finding:
    """What was found. `culprits`: the smallest set of rules that were switched off together to make the program right (or fast); `kernels`:
    kernels at fault, with what is wrong with them; `text`: the outcome in one line."""

    text: str
    culprits: tuple[str, ...] = ()
    kernels: tuple[tuple[str, str], ...] = ()
    trials: int = 0
    fired: tuple[str, ...] = ()


def smallest(names: Sequence[str], good: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """A set of names for which `good` holds and from which no name can be left out; () where none was found.

    Delta debugging (Zeller, Hildebrandt, Simplifying and isolating failure-inducing input, 2002): halves first, then finer parts.
    """
    have = tuple(names)
    if not good(have):  # too much is off: look for a part that is enough
        parts = 2
        while True:
            found = next((c for c in _parts(have, parts) if good(c)), None)
            if found is not None:
                have = found
                break
            if parts >= len(have):
                return ()
            parts = min(2 * parts, len(have))
    parts = 2
    while len(have) > 1:
        chunks = _parts(have, parts)
        rest = [tuple(n for n in have if n not in c) for c in chunks] if parts > 2 else []
        part = next((c for c in (*chunks, *rest) if good(c)), None)
        if part is not None:
            parts = 2 if part in chunks else max(2, parts - 1)
            have = part
        elif parts >= len(have):
            break
        else:
            parts = min(2 * parts, len(have))
    return have


def _parts(names: tuple[str, ...], n: int) -> list[tuple[str, ...]]:
    """n parts of nearly equal length."""
    at = [len(names) * i // n for i in range(n + 1)]
    return [names[a:b] for a, b in zip(at, at[1:]) if a < b]


class Bisection:
    """The search for one program. `say` gets a line a trial."""

    def __init__(self, request: Request, say: Callable[[str], None] = lambda text: None) -> None:
        self.request, self.say = request, say
        self.worker = Worker("autocomp.tune.bisect")
        self.known: dict[frozenset[str], Trial] = {}

    def wrong(self) -> Finding:
        """The rules that make the result wrong, and the kernels whose generated code differs from their own meaning."""
        try:
            first = self._trial(())
            if not first.wrong:
                return Finding("the program is right: there is nothing to find", trials=1)
            rules = self._fired()
            kernels = self._kernels()
            culprits = smallest(rules, lambda off: not self._trial(off).wrong) if rules else ()
        finally:
            self.worker.stop()
        if culprits:
            text = f"without {_listed(culprits)} the program is right; with {'it' if len(culprits) == 1 else 'them'}: {first.wrong}"
        elif kernels:
            text = f"{kernels[0][0]} computes something else than its body, whichever rules are on: its schedule or its code is at fault"
        else:
            text = f"the program is wrong whichever of its {len(rules)} rules are off: {first.wrong}"
        return Finding(text, culprits, kernels, len(self.known), rules)

    def slow(self, factor: float) -> Finding:
        """The rules without which the program is at least `factor` times faster, and the kernel furthest above its prediction."""
        try:
            first = self._trial(())
            if first.wrong:
                raise AutocompError(f"the program cannot be timed: {first.wrong}", where="bisect", hint="`autocomp bisect` without --slow")
            rules = self._fired()
            quick = lambda off: (t := self._trial(off)).seconds > 0 and t.seconds * factor < first.seconds
            culprits = smallest(rules, quick) if rules else ()
        finally:
            self.worker.stop()
        far = [(n, s / p) for n, _, s, p in sorted(first.kernels, key=lambda k: k[1] * (k[3] - k[2])) if p][:1]
        kernels = tuple((n, f"takes {r:.1f} times its predicted time") for n, r in far if r > 1)
        if culprits:
            best = self._trial(culprits).seconds
            gain = f"{first.seconds / best:.2f} times faster ({best:.3g} s instead of {first.seconds:.3g} s)"
            text = f"without {_listed(culprits)} the program is {gain}"
        else:
            text = f"no rule makes the program {factor:g} times slower ({first.seconds:.3g} s)"
        return Finding(text, culprits, kernels, len(self.known), rules)

    def _trial(self, off: tuple[str, ...]) -> Trial:
        """The program without some rules; each set is tried once."""
        key = frozenset(off)
        if key not in self.known:
            found = self.worker.run(trial, self.request.without(off), limit=LIMIT)
            self.known[key] = t = found if isinstance(found, Trial) else Trial(found.reason)
            state = f"wrong ({t.wrong})" if t.wrong else f"right, {t.seconds:.3g} s"
            self.say(f"without {len(off)} rule{'' if len(off) == 1 else 's'}: {state}")
        return self.known[key]

    def _fired(self) -> tuple[str, ...]:
        """The rules that had a part in the program."""
        found = self.worker.run(fired, self.request, limit=LIMIT)
        return () if isinstance(found, Failure) else found

    def _kernels(self) -> tuple[tuple[str, str], ...]:
        """Kernels whose generated code differs from the meaning of their bodies."""
        made = self.worker.run(printed, self.request, limit=LIMIT)
        out = []
        for target, text, source in () if isinstance(made, Failure) else made:
            why = self.worker.run(check_kernel, target, text, source, limit=LIMIT)
            if why:
                out.append((source.name, why.reason if isinstance(why, Failure) else why))
        return tuple(out)


def _listed(names: tuple[str, ...]) -> str:
    return f"rule {names[0]}" if len(names) == 1 else f"rules {', '.join(names)}"


# ---- in the child process
def _program(request: Request) -> Program:
    """The compiled program; the pipeline comes after this package, so it is looked up when it is needed."""
    compile_model = import_module("autocomp.pipeline").compile_model
    dims = {"dims": request.dims} if request.dims else {}
    program: Program = compile_model(request.model, request.target, request.options, Trace(), **dims)
    return program


def trial(request: Request) -> Trial:
    """Compile, verify and time. A program that cannot be compiled without some rules is a trial that failed."""
    program = _program(request)
    try:
        program.verify()
    except VerificationError as e:
        return Trial(e.what)
    timings = [program.profile(random_inputs(program.graph), REPEAT) for _ in range(ROUNDS)]
    best = min(timings, key=lambda t: t.total)
    kernels = tuple((k.name, k.calls, best.by_kernel.get(k.name, 0.0), k.predicted) for k in program.kernels)
    return Trial("", best.total, kernels)


def fired(request: Request) -> tuple[str, ...]:
    """Rules that had a part in the program, in the order of their files, and `TUNED` where it uses measured schedules."""
    program = _program(request)
    trace = program.trace
    names = {e.name for e in trace.of("rule")} | {e.data["rule"] for e in trace.of("schedule") if "rule" in e.data}
    used = (TUNED,) if any(e.data["used"] for e in trace.of("tuned")) else ()
    return (*(n for n in program.rule_names if n in names), *used)


def printed(request: Request) -> list[tuple[Target, str, KernelSource]]:
    """Target, stored form and source of every generated kernel."""
    program = _program(request)
    kernels = {c.kernel.name: c.kernel for c in program.calls.calls}
    return [(program.target, encode(kernels[n]), s) for n, s in program.printed.items()]


def check_kernel(target: Target, text: str, source: KernelSource) -> str:
    """Why a kernel's code differs from its body's float64 meaning on random inputs, "" if it does not."""
    kernel: Kernel = decode(text, {})
    sizes = sizes_of(kernel)
    arrays = inputs_of(kernel, sizes, 0)
    calls = graph_of(kernel, {n: arrays[n] for n in constants_in(kernel)})
    sources = {kernel.name: source}
    executor: Any = executor_of(calls, sources, files_of(calls, sources, target), target, Options(), Trace())
    feed = {n: x for n, x in arrays.items() if n not in calls.params}
    return deviation(expected(kernel, arrays, sizes), executor.run(feed))
