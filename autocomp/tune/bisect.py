"""Which rules make a program wrong or slow: rules are switched off by halves until the smallest sets that matter are left.

A rule that is right may only make what a wrong one matches: without either the program is right. So all minimal sets are looked for, and
those of rules that nobody checked stand first, then those that were tested, then those that were proved. Every trial compiles and runs
the program in a child process, so a program that crashes or hangs is a trial that failed. What is slow is timed in pairs, one program
after the other in one process; what noise could have done is not blamed on a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from autocomp.errors import AutocompError, VerificationError
from autocomp.frontends import load
from autocomp.ir.kernel import Kernel
from autocomp.ir.tolerance import coarseness
from autocomp.options import Options
from autocomp.rewrite.check import check_rule
from autocomp.rewrite.load import load_rules
from autocomp.rewrite.vocabulary import GRAPH_PHASES
from autocomp.runtime.codec import decode, encode
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.program import executor_of, files_of
from autocomp.targets import Target, load_target
from autocomp.targets.source import KernelSource
from autocomp.trace import Trace
from autocomp.tune.check import deviation, expected, inputs_of, sizes_of
from autocomp.tune.measure import constants_in, graph_of
from autocomp.tune.minimal import Sets, all_smallest
from autocomp.tune.race import SAME, Race, race_of
from autocomp.workers import Failure, Worker

if TYPE_CHECKING:
    from autocomp.runtime.program import Program

TUNED = "measured schedules"  # stands among the rules where the program uses some
REPEAT = 5  # timed calls, of which the fastest counts
ROUNDS = 3
LIMIT = 600.0  # seconds of one trial
PAIRS, SURE_PAIRS = 11, 21  # timings of two programs in turn: in the search, and of what it found
CHECKED = 4  # samples with which a rule's standing is found
SETS, TRIALS = 6, 80  # minimal sets that are listed, programs that are tried for them


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
    """What was found. `sets`: every minimal set of rules without which the program is right (or fast), the likeliest first, and `more`
    whether the search ended before all were found; `culprits`: the first of them; `kernels`: kernels at fault, with what is wrong with
    them; `standing`: rule -> assumed, tested, proved; `text`: the outcome in one line."""

    text: str
    culprits: tuple[str, ...] = ()
    sets: tuple[tuple[str, ...], ...] = ()
    more: bool = False
    standing: dict[str, str] = field(default_factory=dict)
    kernels: tuple[tuple[str, str], ...] = ()
    trials: int = 0
    fired: tuple[str, ...] = ()


class Bisection:
    """The search for one program. `say` gets a line a trial."""

    def __init__(self, request: Request, say: Callable[[str], None] = lambda text: None) -> None:
        self.request, self.say = request, say
        self.worker = Worker("autocomp.tune.bisect")
        self.known: dict[frozenset[str], Trial] = {}
        self.raced: dict[tuple[frozenset[str], int], Race] = {}

    def wrong(self) -> Finding:
        """The rules that make the result wrong, and the kernels whose generated code differs from their own meaning."""
        try:
            first = self._trial(())
            if not first.wrong:
                return Finding("the program is right: there is nothing to find", trials=1)
            rules = self._suspects()
            kernels = self._kernels()
            standing = self._standing(rules)
            sets = self._sets(rules, standing, lambda off: not self._trial(off).wrong)
            unsteady = bool(sets.found) and self._unsteady(sets.found[0])
        finally:
            self.worker.stop()
        known = Finding("", sets.found[0] if sets.found else (), sets.found, sets.more, standing, kernels, len(self.known), rules)
        if unsteady:
            text = "cannot tell: the same program is right in one run and wrong in another"
            return replace(known, text=text, culprits=(), sets=())
        if sets.found:
            return replace(known, text=_mended(known, f"with {'it' if len(known.culprits) == 1 else 'them'}: {first.wrong}"))
        if kernels:
            text = f"{kernels[0][0]} computes something else than its body, whichever rules are on: its schedule or its code is at fault"
        else:
            text = f"the program is wrong whichever of its {len(rules)} rules are off: {first.wrong}"
        return replace(known, text=text)

    def slow(self, factor: float) -> Finding:
        """The rules without which the program is at least `factor` times faster, and the kernel furthest above its prediction."""
        unsure: list[tuple[str, ...]] = []

        def quick(off: tuple[str, ...]) -> bool:
            if self._trial(off).wrong:
                return False
            answer = self._race(off, PAIRS).faster(factor)
            if answer is None:
                unsure.append(off)
            return bool(answer)

        try:
            first = self._trial(())
            if first.wrong:
                raise AutocompError(f"the program cannot be timed: {first.wrong}", where="bisect", hint="`autocomp bisect` without --slow")
            rules = self._fired(())
            standing = self._standing(rules)
            sets = self._sets(rules, standing, quick)
            races = {s: self._race(s, SURE_PAIRS) for s in sets.found}
        finally:
            self.worker.stop()
        far = [(n, s / p) for n, _, s, p in sorted(first.kernels, key=lambda k: k[1] * (k[3] - k[2])) if p][:1]
        kernels = tuple((n, f"takes {r:.1f} times its predicted time") for n, r in far if r > 1)
        kept = tuple(s for s, r in races.items() if r.faster(factor))
        known = Finding("", kept[0] if kept else (), kept, sets.more, standing, kernels, len(self.known), rules)
        if kept:
            r = races[kept[0]]
            text = f"without {_listed(kept[0])} the program is {r.text} ({r.second:.3g} s instead of {r.first:.3g} s)"
            return replace(known, text=text + _others(kept[1:], standing))
        if races or unsure:
            off = next(iter(races), unsure[0] if unsure else ())
            r = races.get(off) or self.raced[frozenset(off), PAIRS]
            return replace(known, text=f"cannot tell: without {_listed(off)} the program is {r.text}, which noise may be")
        return replace(known, text=f"no rule makes the program {factor:g} times slower ({first.seconds:.3g} s)")

    def _sets(self, rules: Sequence[str], standing: Mapping[str, str], good: Callable[[tuple[str, ...]], bool]) -> Sets:
        """Minimal sets, the likeliest first; the least checked rules are tried first."""
        rank = {n: RANKS.index(standing.get(n, "")) for n in rules}
        ordered = sorted(rules, key=lambda n: rank[n])
        sets = all_smallest(ordered, good, SETS, lambda: len(self.known) >= TRIALS)
        return replace(sets, found=tuple(sorted(sets.found, key=lambda s: (min(rank[n] for n in s), len(s), sum(rank[n] for n in s)))))

    def _standing(self, rules: Sequence[str]) -> dict[str, str]:
        """What is known of each rule: assumed, tested, proved; "" for rules that move no values and for schedules."""
        found = self.worker.run(standing_of, self.request, tuple(rules), limit=LIMIT)
        return {} if isinstance(found, Failure) else found

    def _unsteady(self, off: tuple[str, ...]) -> bool:
        """Do the first program and the mended one say something else when they are run again?"""
        again = [self.worker.run(trial, self.request.without(o), limit=LIMIT) for o in ((), off)]
        return [isinstance(t, Failure) or bool(t.wrong) for t in again] != [True, False]

    def _race(self, off: tuple[str, ...], pairs: int) -> Race:
        """The program as it is against the one without some rules, in turn."""
        key = (frozenset(off), pairs)
        if key not in self.raced:
            found = self.worker.run(race, self.request, self.request.without(off), pairs, limit=LIMIT)
            self.raced[key] = r = found if isinstance(found, Race) else Race(0.0, 1.0, float("inf"))
            self.say(f"without {len(off)} rule{'' if len(off) == 1 else 's'}: {'the same code' if r.same else r.text}")
        return self.raced[key]

    def _trial(self, off: tuple[str, ...]) -> Trial:
        """The program without some rules; each set is tried once."""
        key = frozenset(off)
        if key not in self.known:
            found = self.worker.run(trial, self.request.without(off), limit=LIMIT)
            self.known[key] = t = found if isinstance(found, Trial) else Trial(found.reason)
            state = f"wrong ({t.wrong})" if t.wrong else f"right, {t.seconds:.3g} s"
            self.say(f"without {len(off)} rule{'' if len(off) == 1 else 's'}: {state}")
        return self.known[key]

    def _suspects(self) -> tuple[str, ...]:
        """The rules that had a part in the program; where it is wrong without all of them too, also those that then took their places."""
        rules = self._fired(())
        while rules and len(self.known) < TRIALS and self._trial(rules).wrong:
            more = tuple(n for n in self._fired(rules) if n not in rules)
            if not more:
                break
            rules += more
        return rules

    def _fired(self, off: tuple[str, ...]) -> tuple[str, ...]:
        """The rules that had a part in the program without some."""
        found = self.worker.run(fired, self.request.without(off), limit=LIMIT)
        return () if isinstance(found, Failure) else found

    def _kernels(self) -> tuple[tuple[str, str], ...]:
        """Kernels whose generated code differs from the meaning of their bodies."""
        made = self.worker.run(printed, self.request, limit=LIMIT)
        out = []
        for target, text, source, coarse in () if isinstance(made, Failure) else made:
            why = self.worker.run(check_kernel, target, text, source, coarse, limit=LIMIT)
            if why:
                out.append((source.name, why.reason if isinstance(why, Failure) else why))
        return tuple(out)


def _listed(names: tuple[str, ...]) -> str:
    return f"rule {names[0]}" if len(names) == 1 else f"rules {', '.join(names)}"


def _mended(f: Finding, but: str) -> str:
    """The outcome for a program that is right without some rules."""
    standing = ", ".join(dict.fromkeys(f.standing[n] for n in f.culprits if f.standing.get(n)))
    text = f"without {_listed(f.culprits)}{f' ({standing})' if standing else ''} the program is right; {but}"
    return text + _others(f.sets[1:], f.standing) + ("; there may be more sets: the search ended at its bound" if f.more else "")


def _others(sets: Sequence[tuple[str, ...]], standing: Mapping[str, str]) -> str:
    one = lambda names: " and ".join(f"{n} ({standing[n]})" if standing.get(n) else n for n in names)
    return f"; as well without {', or without '.join(map(one, sets))}" if sets else ""


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
    names |= {e.name for e in trace.of("directive") if e.data["used"]}
    used = (TUNED,) if any(e.data["used"] for e in trace.of("tuned")) else ()
    return (*(n for n in program.rule_names if n in names), *used)


RANKS = ("assumed", "tested", "", "proved")  # whom to suspect first; "": it moves no values, or is a schedule


def standing_of(request: Request, names: tuple[str, ...]) -> dict[str, str]:
    """What a quick check says of each rule of the graph phases."""
    out: dict[str, str] = {}
    for rule in load_rules(request.options.rules):
        if rule.name in names and rule.phase in GRAPH_PHASES:
            status = check_rule(rule, CHECKED).status.partition("-")[0]
            out[rule.name] = "assumed" if rule.assumed or status == "refuted" else status
    return out


def race(first: Request, second: Request, pairs: int) -> Race:
    """Time two programs in turn; the one that goes first changes from pair to pair."""
    a, b = _program(first), _program(second)
    if a.source() == b.source():
        return SAME
    feed = random_inputs(a.graph)
    took = [[p.profile(feed, REPEAT).total for p in ((a, b) if k % 2 == 0 else (b, a))] for k in range(pairs)]
    return race_of([(x, y) if k % 2 == 0 else (y, x) for k, (x, y) in enumerate(took)])


def printed(request: Request) -> list[tuple[Target, str, KernelSource, float]]:
    """Target, stored form and source of every generated kernel, and how coarse its factors may be."""
    program = _program(request)
    kernels = {c.kernel.name: c.kernel for c in program.calls.calls}
    coarse = {k.name: coarseness([k.schedule]) for k in program.kernels}
    return [(program.target, encode(kernels[n]), s, coarse[n]) for n, s in program.printed.items()]


def check_kernel(target: Target, text: str, source: KernelSource, coarse: float = 0.0) -> str:
    """Why a kernel's code differs from its body's float64 meaning on random inputs, "" if it does not."""
    kernel: Kernel = decode(text, {})
    sizes = sizes_of(kernel)
    arrays = inputs_of(kernel, sizes, 0)
    calls = graph_of(kernel, {n: arrays[n] for n in constants_in(kernel)})
    sources = {kernel.name: source}
    executor: Any = executor_of(calls, sources, files_of(calls, sources, target), target, Options(), Trace())
    feed = {n: x for n, x in arrays.items() if n not in calls.params}
    return deviation(expected(kernel, arrays, sizes, coarse=coarse), executor.run(feed))
