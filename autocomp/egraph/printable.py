"""Kernels that the target can print: a cover, a schedule for each of its kernels, and another cover where some kernel has none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from autocomp.budget import Effort, cover_effort
from autocomp.cost.chip import Chip
from autocomp.cost.floors import least_of
from autocomp.cost.roles import roles_of
from autocomp.cost.scalar import SCALAR
from autocomp.cost.work import Cost
from autocomp.deadline import current
from autocomp.egraph import choose
from autocomp.egraph import cover as covers
from autocomp.egraph.alike import form_of
from autocomp.egraph.cut import Known
from autocomp.egraph.cut_prices import Prices
from autocomp.egraph.frozen import Frozen
from autocomp.egraph.kernel_egraph import Made
from autocomp.errors import AutocompError, UnsupportedOp
from autocomp.ir.body import Contract, Load, Map, postorder
from autocomp.ir.checks import check_kernel_graph
from autocomp.ir.kernel import Call, Kernel, KernelGraph
from autocomp.ir.scalar import SCALAR as SCALARS
from autocomp.ir.schedule import Schedule
from autocomp.loops.bounds import check_kernel_graph_accesses
from autocomp.options import Options
from autocomp.rewrite.rule import RuleSet
from autocomp.trace import Trace

if TYPE_CHECKING:
    from autocomp.egraph.kernel_memo import ScheduleMemo

COVERS, MORE = 12, 12  # that are tried; and beside them while element after element takes a good part of the best one's time
LIKELY = 1.05  # times the cheapest one's seconds that a cover without what was dear is expected to take at most
KNOWN = 4  # covers that may have, at what their schedules take, bodies that others did without; where one is a reduction or a fall-back
ABOVE = 1.2  # times the cheapest one's seconds that such a cover is expected to take at most: it finds bodies that the last one may have
GAIN = 0.97  # of the cheapest one's seconds that such a cover takes at most, or half a launch less: the model tells no less apart
DEARER = 0.1  # of a program's seconds that its schedules take more than its cover counted, beyond which covers are tried by what is known
MANY = 8  # kernels that such a program has at least: of fewer, covers by what is known took others for no gain that was measured
PROMISED = 0.9  # the same where nothing is left out: schedules take more than is expected once more
DEAR = 2.0  # times a body's price in the cover beyond which its schedules refute it
DEAR_CHAIN = 1.25  # the same of a chain: what it spares is a part of the time of products, and a cover knows neither tiles nor panels
AT_ONCE = 16  # kernels of a cover, the dearest first, that are scheduled before the next look at whether it can still be the cheapest
WORTH = 0.1  # of the program's seconds that such a body takes at least, or all bodies that are dear together


@dataclass
class Shared:
    """What all covers of one e-graph for one chip have in common: schedules by signature, to which each cover adds its own, what rules made
    of kernels that are alike, and the prices of bodies."""

    schedules: dict[str, tuple[Schedule, Cost]] = field(default_factory=dict)
    prices: Prices | None = None
    made: Made = field(default_factory=Made)


def cover(frozen: Frozen, rules: RuleSet, chip: Chip, options: Options, trace: Trace, admit: choose.Admit,
          memo: ScheduleMemo | None = None, issued: choose.Issues | None = None,
          without: frozenset[frozenset[int]] = frozenset(),
          shared: Shared | None = None) -> tuple[KernelGraph, dict[str, tuple[Schedule, Cost]]]:  # fmt: skip
    """The kernels, and by signature a schedule with its predicted cost. `without`: sets of nodes that no kernel computes together;
    `shared`: what covers of the e-graph before this call found.

    `admit` raises UnsupportedOp or DoesNotFit for a schedule that the target cannot print. Where it does so for all of a kernel's, the
    next cover computes no such body in one kernel: first it stores what feeds the body's reductions. It also looks for one where a body
    of several operations, or a product (a convolution whose channels come first), has only the form of element after element, makes a
    product's factor at some cost, or is much dearer by its best schedule than the cover took it for (columns too long for a core, whose
    second pass reads memory again; a product that turns its result, beside which transpositions are kernels of their own), or where copies
    of what products store take a good part of the program; on GPUs, in programs of MANY kernels, also by what schedules of the cheapest
    cover take, where that is much more than it counted. The cheapest of the covers is taken. Raises the first kernel's refusal where none
    is left.
    """
    shared = shared or Shared()
    found = _Found(rules, chip, options, trace, admit, memo, issued, shared.schedules, shared.made)
    effort = cover_effort(len(frozen.graph.nodes()))
    others, by_dear = _Others(chip), False
    for tried in range(COVERS + MORE):
        if found.late() or (tried >= COVERS and not (found.best and _by_elements(found.best[1], found.schedules))):
            break
        refused: set[frozenset[int]] = set()
        avoided: set[frozenset[int]] = set()
        try:
            calls = _kernels(frozen, rules, chip, options, trace, without, effort, shared)
        except UnsupportedOp as e:
            if found.best is None:
                raise found.first or e from None
            if not others.asked:
                break
            without = others.taken_back()
        else:
            before, certain = found.best, by_dear and found.certain()
            if not (certain and before and found.likely(calls) > LIKELY * before[0]):
                refused = found.take(calls)
                avoided = refused | (found.dear(calls) if refused or found.may_gain(calls) else set())
            if certain and found.best is before and not refused:
                without |= avoided
        by_dear = not refused
        if not refused and avoided <= without and found.best:
            by_dear = False
            avoided = _copied_on(found.best[1], found.schedules)  # the last, since there may be no other form
            if avoided <= without:
                avoided = others.next(found.best[1], found.schedules, without)
        if not refused and avoided <= without:
            break
        without |= avoided
    again = found.left_out(without)
    if dearer := not again and found.dearer():
        found.known.typical = found.typical()
    for _ in range(KNOWN if again or dearer else 0):
        if effort.spent or found.late():
            break
        try:
            calls = _kernels(frozen, rules, chip, options, trace, without, effort, shared, found.known)
        except UnsupportedOp:
            break
        settled = all(c.cut[0] in found.known.seconds for c in calls.calls if not c.kernel.opaque)
        before = found.best
        if (settled and not again) or (before and found.likely(calls, known=True) > (ABOVE if again else PROMISED) * before[0]):
            break
        without |= found.take(calls, GAIN, part=not again)  # else the next cover asks for its other bodies
        if settled or (not again and found.best is before):
            break
    if found.best and KNOWN and (again or dearer) and found.others() and not found.late():
        # each of those tried some bodies that looked cheap and were not
        found.known.settled = True
        last = cover_effort(len(frozen.graph.nodes()))
        with suppress(UnsupportedOp):
            found.take(_kernels(frozen, rules, chip, options, trace, without, last, shared, found.known), GAIN, part=True)
    if found.best is None:
        assert found.first is not None
        raise found.first
    calls = replace(found.best[1], calls=tuple(replace(c, cut=()) for c in found.best[1].calls))  # which nobody asks for behind this
    return calls, {s: found.schedules[s] for s in dict.fromkeys(c.kernel.signature for c in calls.calls if not c.kernel.opaque)}


def waiting(calls: KernelGraph, schedules: dict[str, tuple[Schedule, Cost]]) -> frozenset[frozenset[int]]:
    """Reductions without which (`cover`) a tensor may be read once for them and for what they wait for, in kernels that take a good part of
    the program."""
    return frozenset(frozenset((h,)) for c, _ in _worth(calls, schedules) for h in c.waits)


def seconds(calls: KernelGraph, schedules: dict[str, tuple[Schedule, Cost]]) -> float:
    """What a program takes by its schedules, and where it has opaque kernels by their prices."""
    return sum(c.expected if c.kernel.opaque else schedules[c.kernel.signature][1].seconds for c in calls.calls)


@dataclass
class _Found:
    """What covers so far have shown. `best`: the cheapest whose kernels all have schedules, with its seconds; `known`:
    what their cuts take by schedule; `folds`: those of reductions, and of what goes element after element; `first`: the first refusal."""

    rules: RuleSet
    chip: Chip
    options: Options
    trace: Trace
    admit: choose.Admit
    memo: ScheduleMemo | None
    issued: choose.Issues | None
    schedules: dict[str, tuple[Schedule, Cost]] = field(default_factory=dict)
    made: Made = field(default_factory=Made)
    known: Known = field(default_factory=Known)
    folds: set[tuple[object, ...]] = field(default_factory=set)
    best: tuple[float, KernelGraph] | None = None
    first: AutocompError | None = None

    def take(self, calls: KernelGraph, gain: float = 1.0, part: bool = False) -> set[frozenset[int]]:
        """Schedule a cover's kernels, keep it if it takes less than `gain` times the cheapest; what no body may have together where some
        have no schedule. `part`: only as long as the least that it may take is less; what is scheduled by then is known."""
        kernels = {c.kernel.signature: c.kernel for c in calls.calls if not c.kernel.opaque}
        refused: dict[str, AutocompError] = {}
        most = self._most(gain)
        with self.trace.stage("schedule") as note:
            new = [k for s, k in kernels.items() if s not in self.schedules]
            rest = _Rest(calls, new, self.chip) if part and self.best and self.chip.runs_blocks else None  # each kernel is a launch
            for some in rest.turns() if rest else [new]:
                if rest and rest.least(self.schedules) > most:
                    break
                self.schedules |= choose.choose_schedules(
                    some, self.rules, self.chip, self.options, self.trace, self.admit, self.memo, refused, self.issued, self.made
                )
            for signature, why in refused.items():
                self.first = self.first or why
                self.trace.add("reject", "target", phase="cover", kernel=kernels[signature].name, reason=why.what, count=1)
            left = [k for s, k in kernels.items() if s not in self.schedules and s not in refused]
            note.update(schedules=len(self.schedules), **({"left": len(left)} if left else {}))
        for c in calls.calls:
            if c.cut and c.kernel.signature in self.schedules:
                key, alike = c.cut
                if roles_of(c.kernel).form == "reduce" or self.schedules[c.kernel.signature][0].instruction == SCALAR:
                    self.folds.add(key)
                self.known.add(key, alike, self.schedules[c.kernel.signature][1].seconds, c.expected)
        if not refused and not left:
            taken = seconds(calls, self.schedules)
            if taken < most:
                self.best = taken, calls
        return {w for c in calls.calls if c.kernel.signature in refused for w in _avoided(c)}

    def _most(self, gain: float) -> float:
        """Seconds below which a cover is kept."""
        if self.best is None:
            return inf
        return max(gain * self.best[0], self.best[0] - self.chip.launch / 2 if gain < 1 else 0.0)

    def dear(self, calls: KernelGraph) -> set[frozenset[int]]:
        """What no body of the next cover has together, since this one's takes long by its schedule."""
        slow = {c.kernel.signature for c in calls.calls
                if (found := self.schedules.get(c.kernel.signature)) and found[0].instruction == SCALAR}  # fmt: skip
        avoided = {w for c in calls.calls if c.kernel.signature in slow and (c.feeds or len(c.body) > 1 or _several(c.kernel))
                   for w in _avoided(c)}  # fmt: skip
        avoided |= {frozenset(w) for c in calls.calls if c.kernel.signature in slow and roles_of(c.kernel).form == "contract"
                    for w in c.apart}  # fmt: skip
        avoided |= {w for c in _dear(calls, self.schedules, self.chip.launch) for w in [frozenset(t) for t in c.turned] or _avoided(c)}
        return avoided | {frozenset(w) for c in calls.calls if c.factors and _makes_factors(c.kernel) for w in c.factors}

    def may_gain(self, calls: KernelGraph) -> bool:
        """Whether a cover would be the cheapest if its bodies that go element after element, or take long, took no more than a launch."""
        assert self.best is not None
        launch = self.chip.launch
        slow = [c for c in calls.calls if (f := self.schedules.get(c.kernel.signature)) and f[0].instruction == SCALAR]
        slow += [c for c in calls.calls if c.factors]
        of = {id(c): c for c in (*slow, *_dear(calls, self.schedules, launch))}
        spared = sum(max(0.0, self.schedules[c.kernel.signature][1].seconds - launch) for c in of.values() if not c.kernel.opaque)
        return seconds(calls, self.schedules) - spared <= self.best[0]

    def told(self) -> list[tuple[float, float]]:
        """Of each kernel of the cheapest cover what its schedule takes, and what the cover said, which is no more."""
        assert self.best is not None
        return [(s, max(min(c.expected, s), 1e-12)) for c, s in _worth(self.best[1], self.schedules, 0.0)]

    def certain(self) -> bool:
        """Whether a cover without what was dear ends the search where it is not cheaper, and is scheduled only where it is expected to be
        (`likely`, within a tenth of what schedules take on 20 networks for an H200). For programs of MANY kernels on GPUs: NPUs' bodies
        take other times of their prices, and few kernels are soon scheduled. Not where element after element takes a good part of the
        program: any other form is cheaper."""
        if self.best is None or not self.chip.runs_blocks:
            return False
        return len(self.told()) >= MANY and not _by_elements(self.best[1], self.schedules)

    def late(self) -> bool:
        """Whether the time is over and there is a cover to take: others would have a kernel for each operation of the model."""
        return self.best is not None and current().passed("cover", "other covers")

    def likely(self, calls: KernelGraph, known: bool = False) -> float:
        """Seconds that a cover is expected to take: bodies that are not known take as many times what their prices say as those alike, or
        as all of the cheapest cover's. `known`: what its bodies are expected to take has what is known of those alike in it."""
        rest, own = self.typical(), self.known

        def of(c: Call) -> float:
            if not c.cut or c.kernel.opaque:
                return c.expected
            more = own.times.get(c.cut[1], rest)
            counted = 1.0 if not known else more if c.cut[1] in own.times else own.typical
            return own.seconds.get(c.cut[0], c.expected * more / counted)

        return sum(of(c) for c in calls.calls)

    def dearer(self) -> bool:
        """Whether schedules take much longer than the cheapest cover counted: another may be cheaper by what is known now."""
        if self.best is None or not self.chip.runs_blocks:  # NPUs have `_Others`; a CPU's schedules take what covers count
            return False
        told = self.told()
        return len(told) >= MANY and sum(s - said for s, said in told if s - said > self.chip.launch / 2) > DEARER * self.best[0]

    def typical(self) -> float:
        """How many times what they say bodies take of which MANY are known: those without a schedule are expected to, so that not all of
        them look cheap. The worst one is left out, which may be the fault."""
        rest = sorted(self.told(), key=lambda x: x[0] - x[1])[:-1]
        return sum(s for s, _ in rest) / sum(said for _, said in rest) if rest else 1.0

    def others(self) -> bool:
        """Whether bodies have schedules that the cheapest cover does without."""
        assert self.best is not None
        return not self.known.seconds.keys() - self.known.roofs <= {c.cut[0] for c in self.best[1].calls if c.cut}

    def left_out(self, without: frozenset[frozenset[int]]) -> bool:
        """Whether some reduction, or body that goes element after element, that has a schedule is one that covers do without."""
        return any(w <= key[2] for key in self.folds for w in without)  # type: ignore[operator]


class _Rest:
    """What a cover takes at least while some of its kernels have no schedule yet. `new`: those that had none before."""

    def __init__(self, calls: KernelGraph, new: list[Kernel], chip: Chip) -> None:
        self.calls, self.new = calls, new
        self._least = {k.signature: least_of(k, chip) for k in new}

    def turns(self) -> list[list[Kernel]]:
        """The new kernels, those first that are expected to be furthest above the least that they take; kernels for which one schedule is
        chosen (`form_of`) together."""
        forms: dict[str, list[Kernel]] = {}
        above: dict[str, float] = {}
        form = {k.signature: form_of(k) for k in self.new}
        for k in self.new:
            forms.setdefault(form[k.signature], []).append(k)
        for c in self.calls.calls:
            if (s := c.kernel.signature) in form:
                above[form[s]] = above.get(form[s], 0.0) + c.expected - self._least[s]
        out: list[list[Kernel]] = [[]]
        for name in sorted(forms, key=lambda x: -above[x]):
            if len(out[-1]) >= AT_ONCE:
                out.append([])
            out[-1] += forms[name]
        return out

    def least(self, schedules: dict[str, tuple[Schedule, Cost]]) -> float:
        """Seconds of all of them by what is known."""
        own = ((c, c.kernel.signature) for c in self.calls.calls)
        return sum(c.expected if c.kernel.opaque else schedules[s][1].seconds if s in schedules else self._least.get(s, 0.0)
                   for c, s in own)  # fmt: skip


def _by_elements(calls: KernelGraph, schedules: dict[str, tuple[Schedule, Cost]]) -> bool:
    """Whether a kernel that computes element after element takes a good part of the program."""
    return any(schedules[c.kernel.signature][0].instruction == SCALAR for c, _ in _worth(calls, schedules))


@dataclass
class _Others:
    """Single operations that go element after element, or on an NPU take much longer than the cover counted, of whose values the graph has
    other forms, perhaps of several kernels, each of which looks no cheaper. Covers do without all of them, and where there is no such
    cover without one after the other, the dearest first. `asked`: those that the last cover does without; `before`: what it did without
    else."""

    chip: Chip
    tried: set[frozenset[int]] = field(default_factory=set)
    asked: set[frozenset[int]] = field(default_factory=set)
    before: frozenset[frozenset[int]] = frozenset()
    single: bool = False

    def next(self, calls: KernelGraph, schedules: dict[str, tuple[Schedule, Cost]],
             without: frozenset[frozenset[int]]) -> set[frozenset[int]]:  # fmt: skip
        """What the next cover does without, too."""
        dearest = sorted(_worth(calls, schedules, 0.0), key=lambda x: -x[1])
        most = DEAR if "vector_cores" in self.chip.limits else inf
        slow = [frozenset((n,)) for c, s in dearest for n in c.forms
                if schedules[c.kernel.signature][0].instruction == SCALAR or s - self.chip.launch > most * c.expected]  # fmt: skip
        new = [w for w in slow if w not in self.tried]
        self.asked = set(new[:1] if self.single else new)
        self.tried |= self.asked
        self.before = without
        return self.asked

    def taken_back(self) -> frozenset[frozenset[int]]:
        """Some of the last ones' values have no other form that is printed."""
        if len(self.asked) > 1:
            self.single = True
            self.tried -= self.asked
        self.asked = set()
        return self.before


def _worth(calls: KernelGraph, schedules: dict[str, tuple[Schedule, Cost]], part: float = WORTH) -> list[tuple[Call, float]]:
    """Calls whose schedules take a good part of what all that have some take, and their seconds."""
    own = [(c, schedules[c.kernel.signature][1].seconds) for c in calls.calls if c.kernel.signature in schedules]
    total = sum(s for _, s in own)
    return [(c, s) for c, s in own if s >= part * total]


def _dear(calls: KernelGraph, schedules: dict[str, tuple[Schedule, Cost]], launch: float) -> list[Call]:
    """Reductions and products of several operations whose schedules all take much longer than the cover counted (by more than a launch),
    and together a good part of the program (a product that stores turned what follows it); chains of contractions that take longer than the
    products which they spare would. Products alone are not refuted."""
    times = {"reduce": DEAR, "contract": DEAR, "chain": DEAR_CHAIN}
    every = _worth(calls, schedules, 0.0)
    many = [(c, s, roles_of(c.kernel).form) for c, s in every if len(c.body) > 1]
    dear = [(c, s) for c, s, form in many if form in times and s - launch > times[form] * c.expected]
    return [c for c, _ in dear] if sum(s for _, s in dear) >= WORTH * sum(s for _, s in every) else []


def _copied_on(calls: KernelGraph, schedules: dict[str, tuple[Schedule, Cost]]) -> set[frozenset[int]]:
    """Products whose results a kernel that computes nothing copies on (columns cut off that filled up a vector) for a good part of the
    program: a cover takes products that need no such columns for dearer than they are where the depth is short."""
    own = {c.kernel.signature: schedules[c.kernel.signature][1].seconds for c in calls.calls if c.kernel.signature in schedules}
    total = seconds(calls, schedules)
    makers = {c.args[t.name]: c for c in calls.calls if c.contracts for t in c.kernel.outputs}
    copies = [c for c in calls.calls if own.get(c.kernel.signature, 0.0) >= WORTH * total
              and all(isinstance(s.value, Load) for s in c.kernel.stores)]  # fmt: skip
    found = [makers[t] for c in copies for t in c.args.values() if t in makers and makers[t] is not c]
    return {frozenset((n,)) for c in found for n in c.contracts}


def _several(k: Kernel) -> bool:
    """Whether a body that is one operation to the cover has a product behind another reduction, each of which can be a kernel."""
    return roles_of(k).form in ("online", "chain")


def _makes_factors(k: Kernel) -> bool:
    """Whether a product's factor is computed with special functions (exponentials, roots, quotients) where it is multiplied: each tile
    that reads it computes it, on the wave that multiplies, so that its schedule costs more than a cover counts."""
    products = [e for s in k.stores for e in postorder(s.value) if isinstance(e, Contract)]
    return any(isinstance(x, Map) and SCALARS[x.fn].unit == "special" for e in products for x in postorder(e.a, e.b))


def _avoided(c: Call) -> list[frozenset[int]]:
    """What no body has together after a target refused this one: its reductions with any of what feeds them, which may be stored; where
    nothing feeds them, the reductions."""
    return [frozenset((*c.body, n)) for n in c.feeds] or [frozenset(c.body)]


def _kernels(frozen: Frozen, rules: RuleSet, chip: Chip, options: Options, trace: Trace, without: frozenset[frozenset[int]],
             effort: Effort, shared: Shared, known: Known | None = None) -> KernelGraph:  # fmt: skip
    """One cover, checked."""
    with trace.stage("cover") as note:
        shared.prices = shared.prices or covers.prices_of(frozen, chip, options)
        calls = covers.cover(frozen, rules, chip, options, trace, without, effort, known, shared.prices)
        check_kernel_graph(calls)
        check_kernel_graph_accesses(calls)
        note.update(kernels=len(calls.calls), distinct=len({c.kernel.signature for c in calls.calls}))
    return calls
