"""Rules about schedules, checked: every schedule that one makes of drawn kernels is asked four questions (`check.schedules`). A rule with a
schedule that fails one is refuted by it; else its status is checked-N, for N kernels of which the target printed a schedule of the rule's
(one in which it takes effect, where the rule gives a directive: on most kernels a pass finds nothing to do).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice
from math import prod
from random import Random

from autocomp.check.dependent import dependent
from autocomp.check.families import RECURRENCES, USES
from autocomp.check.kernels import Drawn, drawn, kernels_of, with_form
from autocomp.check.schedules import Checked, check_schedule, order, too_large
from autocomp.check.shrink import Fault, shrunk
from autocomp.cost.chip import load_chip
from autocomp.cost.demand import demand_of
from autocomp.cost.roles import Roles
from autocomp.deadline import current
from autocomp.egraph.choose import Joins, directives_of, found_together
from autocomp.egraph.examples import features_of
from autocomp.egraph.kernel_egraph import UNTILED, Found
from autocomp.egraph.kernel_terms import is_legal
from autocomp.egraph.room import levels
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import show
from autocomp.loops.recurrences import recurrence_of
from autocomp.loops.search import of_recurrences, recurrence_schedules, unasked_schedules
from autocomp.options import Options
from autocomp.rewrite.check import CheckResult
from autocomp.rewrite.pattern import Apply
from autocomp.rewrite.rule import Rule, RuleSet
from autocomp.rewrite.vocabulary import ROLE
from autocomp.rewrite.where import asks_isl
from autocomp.targets import Target, load_target, manifests

OPTIONS = Options(cache=False, allow_tf32=True)  # with it, rules that ask for it fire too
LOOKED = 8  # schedules of a kernel that are looked at,
FINDING = 16  # and until a directive has changed some of them
PRINTED = 2  # of these, until how many the target has printed it is asked
LARGEST = 48  # kernels of each target whose largest schedule must fit; a quarter of them where one sample is asked for
MORE = 4  # kernels that are tried for one of those wanted: the target prints no schedule of some
AT_ONCE = 32  # kernels in one e-graph at most
KEPT = 512  # kernels whose schedules by the same rules are kept
ROUNDS = 6  # graphs of each family that are drawn at most,
USED = 12  # and of each family that a directive is for, in front of all others,
DEPENDENT = 96  # kernels in which order matters that a rule is tried on which does not ask isl,
FEW = 4  # and of each form one that changes schedules, which takes those of all others;
FIRST = 36  # they are made of so many drawn ones
ENOUGH = 20  # and kernels for one of those wanted, of rules that match schedules or tiles, which most kernels have

Made = Iterator[tuple[Kernel, list[Schedule]]]
Say = Callable[[str], None]
_KNOWN: dict[tuple[object, ...], CheckResult] = {}


def _found(kernels: tuple[Kernel, ...], rules: tuple[Rule, ...], machine: Target, exact: bool = False) -> tuple[Found, ...]:
    """What rules make of kernels, asked once of each: rules that change schedules, or give directives, are tried on those of the same
    others. Where a limit ended them, it depends on which kernels were asked together, and is asked again."""
    known = _schedules_of(rules, machine, exact)
    out = {k: known[k] for k in kernels if k in known}
    if new := tuple(k for k in kernels if k not in out):
        options = replace(OPTIONS, exact=exact)
        fresh = dict(zip(new, found_together(new, [_roles(k) for k in new], RuleSet(rules), machine.chip, options)))
        if len(known) + len(fresh) > KEPT:
            known.clear()
        known.update((k, f) for k, f in fresh.items() if not f.budget)
        out |= fresh
    return tuple(out[k] for k in kernels)


@lru_cache(maxsize=4)
def _schedules_of(rules: tuple[Rule, ...], machine: Target, exact: bool) -> dict[Kernel, Found]:
    return {}


def check_kernel_rule(
    rule: Rule, in_force: Iterable[Rule], samples: int = 20, seed: int = 0, small: bool = False, say: Say | None = None
) -> CheckResult:
    """Check a rule of the phases tiling, scheduling and directives on up to `samples` drawn kernels of each of its targets. `in_force`: the
    rules that make the schedules which it changes. `seed`: which kernels. `small`: a fault is looked for in a smaller graph too. `say` is
    told how far it is. The same rule is checked to its end once in a process."""
    others = tuple(r for r in in_force if r.name != rule.name)
    bases = others if speaks_of_schedules(rule) or of_recurrences(rule) else ()
    key = (rule.name, rule.text, rule.exact, rule.targets, samples, seed, small, *((r.name, r.text) for r in bases))
    if key not in _KNOWN:
        machines = tuple(for_rule(rule, _machine(t)) for t in rule.targets or manifests())
        found = _Check(rule, others, samples, seed, say=say).result(machines, small)
        if found.cut:
            return found
        _KNOWN[key] = found
    return _KNOWN[key]


def check_on_graph(rule: Rule, in_force: Iterable[Rule], graph: Drawn, machine: Target) -> CheckResult:
    """The same on the kernels of one graph, and on those in which order matters. Raises AutocompError where the graph is wrong."""
    return _on_graph(rule, tuple(r for r in in_force if r.name != rule.name), graph, machine).result((machine,))


def _on_graph(rule: Rule, others: Sequence[Rule], graph: Drawn, machine: Target) -> _Check:
    kernels = kernels_of(graph, machine, _machine("cpu"))
    return _Check(rule, others, max(len(kernels), 1), 0, given=kernels)


def speaks_of_schedules(rule: Rule) -> bool:
    """Does a rule match schedules that others made (rather than a form of kernel)?"""
    return isinstance(rule.match, Apply) and rule.match.op == "tile"


def asks(rule: Rule) -> bool:
    """Does a rule ask isl about all that it cuts: `legal(tile)` for tiles, `legal(split)` for parts of a reduction, each as a condition of
    its own? Then the e-graph makes none of its schedules that is out of order."""
    assert isinstance(rule.rhs, Apply)
    given = {k for k, _ in rule.rhs.attrs}
    splits = [asks_isl(c) and not is_legal(c) for c in rule.where]
    return (not given & {*ROLE, "time", "space"} or any(map(is_legal, rule.where))) and ("split" not in given or any(splits))


def _has_form(kernel: Kernel, form: str) -> bool:
    roles = _roles(kernel)
    return roles.form == form or (form == "scan" and roles.scan is not None)


@lru_cache(maxsize=8)
def _machine(name: str) -> Target:
    """A target with its first chip, whatever stands in this machine."""
    return load_target(f"{name}:{manifests()[name]['chips'][0]}", OPTIONS)


def for_rule(rule: Rule, first: Target) -> Target:
    """A target with a chip that has the features which a rule asks for, the first one where it has them or none has."""
    having = lambda chip: {*features_of(rule)} <= {*chip.features}
    chips = () if having(first.chip) else manifests()[first.name]["chips"]
    chip = next((c for c in chips if having(load_chip(c))), "")
    return load_target(f"{first.name}:{chip}", OPTIONS) if chip else first


@lru_cache(maxsize=4096)
def _roles(kernel: Kernel) -> Roles:
    return demand_of(kernel).roles


@dataclass
class _Check:
    rule: Rule
    others: Sequence[Rule]
    samples: int
    seed: int
    kernels: int = 0
    looked: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    bases: list[Schedule] = field(default_factory=list)  # what the rule changed into the schedules that `made` gave last
    made_of: dict[Kernel, Kernel] = field(default_factory=dict)  # kernels in which order matters, and the drawn ones
    given: tuple[Kernel, ...] | None = None  # instead of drawn ones
    say: Say | None = None

    def result(self, machines: Sequence[Target], small: bool = False) -> CheckResult:
        names = [m.name for m in machines]
        for machine in machines:
            if wrong := self.on(machine):
                if small:
                    wrong = shrunk(wrong, lambda g, m=machine: _on_graph(self.rule, self.others, g, m).on(m))  # type: ignore[misc]
                return CheckResult("refuted", wrong.text, self.looked, self.kernels, again=wrong.again)
            if current().over:
                return CheckResult("unchecked", f"the deadline came after {self.kernels} kernels", self.looked, self.kernels, cut=True)
        if not self.looked:
            return CheckResult("assumed", f"it makes no schedule of any drawn kernel ({', '.join(names)})")
        why, times = self.refused.most_common(1)[0] if self.refused else ("", 0)
        refusals = f"; {self.refused.total()} not printed by the target, {times} as: {why}" if why else ""
        if not self.kernels:
            return CheckResult("assumed", f"the target prints none of its schedules{refusals}", self.looked)
        said = f"{self.looked} schedules of {self.kernels} kernels{refusals}"
        return CheckResult(f"checked-{self.kernels}", said, self.looked, self.kernels)

    def on(self, machine: Target) -> Fault | None:
        """A kernel of one target with the schedule that is wrong, if one is."""
        if self.lacks_room(machine):
            return None
        if wrong := self.out_of_order(machine) or self.too_large(machine):
            return wrong
        printed = 0
        joins: dict[str, Joins] = {}
        rules = RuleSet((*self.others, self.rule))
        for tried, (kernel, schedules) in enumerate(self.made(machine)):
            if printed >= self.samples or tried >= MORE * self.samples or current().over:
                break
            own = joins.setdefault(kernel.signature, Joins(kernel, rules, machine.chip, OPTIONS, machine.admit))
            some = 0
            most = FINDING if self.rule.phase == "directives" else LOOKED
            for n, s in enumerate(_some(schedules, f"{self.rule.name} {kernel.signature}", most)):
                if n >= LOOKED and some >= PRINTED:
                    break
                self.looked += 1
                try:
                    whole = own.complete(s)
                except (UnsupportedOp, DoesNotFit) as e:
                    self.refused[e.what] += 1
                    continue
                ask = some < PRINTED
                found = check_schedule(kernel, whole, machine, ask)
                if found.fault and self.inherited(kernel, whole, machine):
                    self.refused[found.fault] += 1
                    continue
                if found.fault:
                    return Fault(kernel, kernel, whole, machine, found.fault)
                why = found.refused or (ask and self.without_effect(found)) or ""
                if why:
                    self.refused[why] += 1
                some += ask and not why
            printed += bool(some)
            if self.say is not None:
                self.say(f"{self.rule.name}: {printed} of {self.samples} kernels on {machine.name}")
        self.kernels += printed
        return None

    def without_effect(self, found: Checked) -> str:
        """Why a printed schedule says nothing about a rule that gives a directive, "" if it does."""
        assert isinstance(self.rule.rhs, Apply)
        nothing = self.rule.phase == "directives" and self.rule.rhs.op not in found.applied
        return f"{self.rule.rhs.op} changes nothing of it" if nothing else ""

    def lacks_room(self, machine: Target) -> bool:
        """Whether a rule that makes tiles asks for room in a memory that the chip has not: then it makes none of any kernel."""
        if self.rule.phase != "tiling" or of_recurrences(self.rule) or not isinstance(self.rule.match, Apply):
            return False
        return not levels(self.rule, self.rule.match.op) <= {m.name for m in machine.chip.memories}

    def out_of_order(self, machine: Target) -> Fault | None:
        """Of a rule that does not ask isl: a kernel in which order matters, with a schedule that breaks it."""
        if self.rule.phase == "directives" or of_recurrences(self.rule) or asks(self.rule):
            return None
        for exact in (False, True) if self.rule.exact and not speaks_of_schedules(self.rule) else (False,):
            for kernel, schedules in self.of_kernels(self.dependents(machine), machine, exact):
                for s in sorted({(s.tile, s.order, s.parallel, s.split): s for s in schedules}.values(), key=_size):
                    why = order(kernel, s, exact)
                    bases = self.likely_bases(s) if why else []
                    if why and not (bases and all(order(kernel, b, exact) for b in bases)):
                        said = "order, where sums stay as they are written" if exact else "order"
                        return Fault(kernel, self.made_of.get(kernel, kernel), s, machine, f"{said}: {why}")
        return None

    def too_large(self, machine: Target) -> Fault | None:
        """Of a rule that makes tiles: a kernel with the largest schedule that it makes of it, where that does not fit."""
        if self.rule.phase != "tiling" or of_recurrences(self.rule):
            return None
        most = LARGEST if self.samples > 1 else LARGEST // 4
        for kernel, schedules in self.of_kernels(islice(filter(self.may_match, self.pool(machine)), most), machine):
            if whole := [s for s in schedules if s.split is None]:
                s = _largest(whole)
                if why := too_large(kernel, s, machine.chip):
                    return Fault(kernel, kernel, s, machine, f"capacity: {why}")
        return None

    def dependents(self, machine: Target) -> Iterator[Kernel]:
        """Kernels in which order matters, of those that the rule is about: none of them is element-wise."""
        if isinstance(self.rule.match, Apply) and self.rule.match.op == "map":
            return iter(())
        changes = speaks_of_schedules(self.rule)
        parts = isinstance(self.rule.rhs, Apply) and any(name == "split" for name, _ in self.rule.rhs.attrs)
        pool = islice(self.pool(machine), (FIRST if parts else FIRST // 3) if changes else None)
        made = (d for k in pool if self.may_match(k) for d in self.of_one(k, parts) if self.may_match(d))
        return iter(_some_of_each(made)) if changes else islice(made, DEPENDENT)

    def of_one(self, kernel: Kernel, parts: bool) -> Iterator[Kernel]:
        for d in dependent(kernel, parts):
            self.made_of[d] = kernel
            yield d

    def pool(self, machine: Target) -> Iterable[Kernel]:
        """Drawn kernels of a target; for a form of which its own cover makes none, also those of a CPU's."""
        if self.given is not None:
            return self.given
        if speaks_of_schedules(self.rule) or not isinstance(self.rule.match, Apply):
            every = drawn(machine, ROUNDS, self.seed)
            first = USES.get(self.rule.rhs.op, ()) if self.rule.phase == "directives" and isinstance(self.rule.rhs, Apply) else ()
            return _each_once(chain(drawn(machine, USED, self.seed, first), every)) if first else every
        families = with_form(self.rule.match.op)
        own = drawn(machine, ROUNDS, self.seed, families)
        return own if any(map(self.may_match, own)) else chain(own, drawn(_machine("cpu"), ROUNDS, self.seed, families))

    def may_match(self, kernel: Kernel) -> bool:
        """Is a kernel of the form that the rule is about? One that is about schedules takes any."""
        if recurrence_of(kernel) is not None:
            return False
        return speaks_of_schedules(self.rule) or not isinstance(self.rule.match, Apply) or _has_form(kernel, self.rule.match.op)

    def made(self, machine: Target) -> Made:
        """Kernels with the schedules that the rule makes of each, those that have none left out."""
        if of_recurrences(self.rule):
            pool = self.given if self.given is not None else drawn(machine, ROUNDS, self.seed, RECURRENCES)
            yield from self.recurrences(k for k in pool if recurrence_of(k) is not None)
            return
        yield from self.of_kernels(filter(self.may_match, self.pool(machine)), machine)

    def of_kernels(self, kernels: Iterator[Kernel], machine: Target, exact: bool = False) -> Made:
        """Those of these kernels of which the rule makes schedules, with these. `exact`: sums stay as they are written."""
        rules: tuple[Rule, ...] = (self.rule,)
        if speaks_of_schedules(self.rule):
            makes = [r for r in self.others if r.phase in ("tiling", "scheduling")]
            rules = tuple(sorted((*makes, *(rules if self.rule.phase == "scheduling" else ())), key=lambda r: r.name))
        tried = 0
        while some := tuple(islice(kernels, min(AT_ONCE, 4 * self.samples))):
            if (tried := tried + len(some)) > ENOUGH * self.samples and (speaks_of_schedules(self.rule) or self.rule.phase == "directives"):
                return
            for k, f in zip(some, _found(some, rules, machine, exact)):
                if self.rule.phase == "directives":
                    given = directives_of(k, _roles(k), RuleSet((*self.others, self.rule)), machine.chip, OPTIONS)
                    mine = [s.told(given.of(s)) for s, by in f.schedules if by != UNTILED and self.gives(given.by(s))]
                    self.bases = [s.told(()) for s in mine]
                else:
                    mine = [s for s, by in f.schedules if by == self.rule.name]
                    self.bases = [s for s, by in f.schedules if by not in (self.rule.name, UNTILED)]
                if mine:
                    yield k, mine

    def gives(self, by: Mapping[str, str]) -> bool:
        return self.rule.name in by.values()

    def inherited(self, kernel: Kernel, schedule: Schedule, machine: Target) -> bool:
        """Had the schedules from which the rule made this one a fault already, all of them?"""
        bases = self.likely_bases(schedule)[:LOOKED]
        return speaks_of_schedules(self.rule) and all(check_schedule(kernel, b, machine).fault for b in bases)

    def likely_bases(self, schedule: Schedule) -> list[Schedule]:
        """The schedules of others that the rule may have changed into this one; none, where it makes its own."""
        if not speaks_of_schedules(self.rule) or not isinstance(self.rule.rhs, Apply):
            return []
        changed = {k: getattr(Schedule(), k) for k, _ in self.rule.rhs.attrs if hasattr(Schedule(), k)} | {"directives": (), "join": ()}
        tiled = any(not hasattr(Schedule(), k) for k, _ in self.rule.rhs.attrs)
        like = lambda s: replace(s, tile=() if tiled else s.tile, **changed)
        return [b for b in self.bases if like(b) == like(schedule)]

    def recurrences(self, pool: Iterable[Kernel]) -> Made:
        """A move makes no schedule by itself: those that tiles have with it and not without it."""
        others = [r for r in self.others if r.phase == "tiling"] if self.rule.phase == "scheduling" else list(self.others)
        for k in pool:
            without = set(recurrence_schedules(k, others)[0])
            mine = [s for s in recurrence_schedules(k, (*others, self.rule))[0] if s not in without]
            if self.rule.phase == "tiling" and not asks(self.rule):
                mine = [*unasked_schedules(k, self.rule), *mine]
            if mine:
                yield k, mine


def _each_once(kernels: Iterable[Kernel]) -> Iterator[Kernel]:
    seen: set[Kernel] = set()
    for k in kernels:
        if k not in seen:
            seen.add(k)
            yield k


def _some_of_each(kernels: Iterable[Kernel]) -> list[Kernel]:
    """FEW of each form, those with the longest reductions."""
    out: dict[str, list[Kernel]] = {}
    for k in sorted(kernels, key=lambda k: -_roles(k).extent("depth")):
        if len(mine := out.setdefault(_roles(k).form, [])) < FEW:
            mine.append(k)
    return [k for mine in out.values() for k in mine]


def _some(schedules: Sequence[Schedule], seed: str, most: int) -> list[Schedule]:
    """The largest, which is what capacity is about, and some at random."""
    largest = _largest(schedules)
    rest = [s for s in schedules if s is not largest]
    chosen = Random(seed).sample(rest, min(most - 1, len(rest)))
    return [*chosen[:1], largest, *chosen[1:]]


def _largest(schedules: Sequence[Schedule]) -> Schedule:
    """The greatest by `_size`: texts are written of those alone that are as large as it."""
    sizes = [_elements(s) for s in schedules]
    most = max(sizes)
    return max((s for s, n in zip(schedules, sizes) if n == most), key=_size)


def _size(s: Schedule) -> tuple[int, str]:
    return _elements(s), show(s.told(()))


def _elements(s: Schedule) -> int:
    return prod([n for _, n in s.tile]) * s.stages * s.resident
