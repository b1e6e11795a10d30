"""Choosing a kernel's schedule: the kernel e-graph holds what the rules make and no condition refuses, the roofline extracts the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import accumulate, groupby, islice
from math import inf, prod
from operator import mul
from typing import Any

from autocomp.budget import LATE
from autocomp.cost.chip import Chip
from autocomp.cost.demand import Demand, demand_of
from autocomp.cost.estimate import pricer
from autocomp.cost.issue import Issued
from autocomp.cost.open_sizes import elsewhere, places, sizes
from autocomp.cost.printed import corrected
from autocomp.cost.printed import time as by_count
from autocomp.cost.recurrence import choose_recurrence
from autocomp.cost.roles import Roles
from autocomp.cost.work import Cost
from autocomp.deadline import current
from autocomp.egraph.alike import form_of
from autocomp.egraph.directives import Directives
from autocomp.egraph.kernel_egraph import FEW, UNTILED, Asked, Found, Made, schedules
from autocomp.egraph.kernel_memo import Choice, ScheduleMemo
from autocomp.egraph.kernel_rules import applies
from autocomp.errors import AutocompError, DoesNotFit, UnsupportedOp
from autocomp.ir.body import Load, Map, bound_axes, postorder
from autocomp.ir.directives import DIRECTIVES, complete
from autocomp.ir.kernel import Kernel
from autocomp.ir.masks import masked_sums
from autocomp.ir.parts import pieces, together
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import show
from autocomp.ir.types import DTYPES, Sym, dim_hint
from autocomp.loops.chosen_turns import chosen_turns
from autocomp.loops.recurrences import recurrence_of
from autocomp.loops.schedules import legal
from autocomp.options import Options
from autocomp.quick import quick
from autocomp.rewrite.functions import tensor_functions
from autocomp.rewrite.rule import RuleSet
from autocomp.rewrite.vocabulary import KERNEL_PHASES, ROLE
from autocomp.rewrite.where import Unanswerable
from autocomp.trace import Trace

Admit = Callable[[Kernel, Schedule], frozenset[str] | None]  # the directives that take effect, None: all of them
Issues = Callable[[Kernel, Schedule], Issued | None]  # what a target prints of a kernel under a schedule, as it is issued

Joined = MutableMapping[Kernel, tuple[tuple[str, int], ...]]  # a combination, whatever its name -> its tile and threads

COUNTED = 256  # schedules of a kernel that are counted at most, in 2 to 6 ms each
SHOWN = 3  # runners-up that the trace keeps
WHOLE = 1024  # elements of an axis of unknown extent that are one tile where no rule makes any


@quick
@dataclass(frozen=True)
class Candidate:
    """A schedule with the rule that made it."""

    schedule: Schedule
    rule: str


def choose_schedule(kernel: Kernel, rules: RuleSet, chip: Chip, options: Options, trace: Trace,
                    admit: Admit | None = None,
                    memo: ScheduleMemo | None = None, issued: Issues | None = None) -> tuple[Schedule, Cost]:  # fmt: skip
    """The fastest legal schedule by the model that the target admits; ties by text. Where no rule matches, one tile.

    `issued` counts what the target prints of a schedule: those that look best are priced once more by it (`recounted`).

    `admit` raises DoesNotFit or UnsupportedOp for a schedule that the target cannot print; the next one is then asked for. Raises
    the nearest refusal where none is left. `memo` knows what was chosen for this kernel before; the trace says the same either way.
    """
    return choose_schedules((kernel,), rules, chip, options, trace, admit, memo, issued=issued)[kernel.signature]


def choose_schedules(kernels: Iterable[Kernel], rules: RuleSet, chip: Chip, options: Options, trace: Trace,
                     admit: Admit | None = None, memo: ScheduleMemo | None = None,
                     refused: dict[str, AutocompError] | None = None,
                     issued: Issues | None = None, made: Made | None = None) -> dict[str, tuple[Schedule, Cost]]:  # fmt: skip
    """`choose_schedule` for each signature; kernels of one form share an e-graph, so that its rules are declared once. A kernel for which
    the target prints no schedule is in `refused`, where that is given. `made`: what rules made of kernels of this graph before. After the
    deadline rules make no more schedules."""
    distinct = list({k.signature: k for k in kernels}.values())
    alone = {k.signature for k in distinct if recurrence_of(k) is not None}
    known = {k.signature: memo.get(k, trace) if memo is not None else None for k in distinct if k.signature not in alone}
    asked = {k.signature: form_of(k) for k in distinct if k.signature in known and known[k.signature] is None}
    first = {form: name for name, form in reversed(asked.items())}
    chosen: dict[str, Choice] = {}  # by form
    asked_for = [k for k in distinct if k.signature in asked and first[asked[k.signature]] == k.signature]
    demands = {k.signature: demand_of(k) for k in asked_for}
    found = dict(zip(demands, found_together(asked_for, [d.roles for d in demands.values()], rules, chip, options, made)))
    joined: Joined = {} if made is None else made.joined
    out: dict[str, tuple[Schedule, Cost]] = {}
    for k in distinct:
        if k.signature in alone:
            out[k.signature] = choose_recurrence(k, rules, chip, trace, machine_functions(chip, options))
            continue
        choice = known[k.signature] or _also_of(k, chosen.get(asked[k.signature]), admit)
        if choice is None:
            try:
                demand = demands.get(k.signature) or demand_of(k)
                mine = found.get(k.signature) or found_together([k], [demand.roles], rules, chip, options, made)[0]
                choice = chosen[asked[k.signature]] = _choose(k, demand, mine, rules, chip, options, trace, admit, issued, joined)
            except (UnsupportedOp, DoesNotFit) as e:
                if refused is None:
                    raise
                refused[k.signature] = e.with_traceback(None)
                continue
        if known[k.signature] is None and memo is not None and not current().cut:
            memo.put(k, choice, trace)
        at = [sizes(k, x) for x in sorted(places(k, options.size_spread))] if issued is None else []
        _tell(k, choice, trace, at if len(at) > 1 else [])
        out[k.signature] = choice.schedule, choice.cost
    return out


def _also_of(kernel: Kernel, choice: Choice | None, admit: Admit | None) -> Choice | None:
    """The choice for a kernel of one form with this one (`form_of`), where the target admits it here with as much taking effect."""
    if choice is None or admit is None:
        return choice
    try:
        used = [admit(k, s) for k, s in pieces(kernel, choice.schedule)]
    except (UnsupportedOp, DoesNotFit):
        return None
    return choice if all(any(u is None or d in u for u in used) for d in choice.schedule.directives) else None


def _tell(kernel: Kernel, choice: Choice, trace: Trace, at: list[dict[str, int]]) -> None:
    """The choice, the sizes at which its schedules were priced, and what was refused, in the trace."""
    trace.add("schedule", kernel.name, signature=kernel.signature, candidates=choice.candidates, rule=choice.rule,
              seconds=choice.cost.seconds, bound=choice.cost.bound, runners_up=list(choice.runners_up),
              made={rule: {"schedules": n, "best": best} for rule, n, best in choice.made},
              **({"sizes": at} if at else {}))  # fmt: skip
    for name, by, used, saves in choice.directives:
        trace.add("directive", by, kernel=kernel.name, signature=kernel.signature, directive=name, used=used, saves=saves)
    for reason, n in choice.refused:
        rule, _, text = reason.partition(": ")
        trace.add("reject", rule, phase="tiling", kernel=kernel.name, reason=text, count=n)


def _choose(kernel: Kernel, demand: Demand, made: Found, rules: RuleSet, chip: Chip, options: Options, trace: Trace,
            admit: Admit | None, issued: Issues | None = None, joined: Joined | None = None) -> Choice:  # fmt: skip
    """Extract from what the kernel's e-graph holds: the roofline prices every schedule in it, what is printed the best of them.
    `joined`: schedules of combinations that kernels beside this one asked for."""
    refused: dict[str, int] = {}
    given = directives_of(kernel, demand.roles, rules, chip, options)
    found = _few(_candidates(kernel, demand.roles, made, chip, options, refused, trace, given))
    price, by_model = pricer(demand, chip, kernel), options.tile_heuristic == "model-driven"
    others = elsewhere(kernel, chip, options.size_spread) if issued is None else []
    lazily = by_model and not others and price.least is not None
    priced = Priced(found, price, price.least if lazily else None)
    ranked = priced.ranked() if lazily else _ranked(priced.all(), by_model, others)
    counts = Counts(COUNTED)
    if issued is not None and by_model:
        ranked = recounted(kernel, demand, ranked, chip, issued, counts)
    joins = Joins(kernel, rules, chip, options, admit, {} if joined is None else joined)
    try:
        best, chosen, before = _admitted(kernel, ranked, admit, refused, joins.complete, options.exact)
    except (DoesNotFit, UnsupportedOp) as e:
        whole = Candidate(_whole(kernel, demand.roles, options, given), UNTILED)
        if chip.target == "cpu" or whole in found:
            raise
        try:
            best, chosen, before = _admitted(kernel, iter([(price(whole.schedule), whole)]), admit, refused, lambda s: s, options.exact)
        except (DoesNotFit, UnsupportedOp):
            raise e from None
    counts.left = 0  # the runners-up are those that stand next as far as they were counted
    if chosen.schedule.scan and demand.roles.scan is not None:
        given = directives_of(kernel, demand.roles.scan, rules, chip, options)
    by = given.by(chosen.schedule)
    asked = complete(by)
    with_all = price(replace(chosen.schedule, directives=asked)).seconds
    if (used_alone := price(chosen.schedule).seconds) != with_all:  # without what took no effect
        best = replace(best, seconds=best.seconds * used_alone / with_all)
    next_best = (f"{_tiled(c.schedule)} ({c.rule}): {_priced(cost)}" for cost, c in islice(ranked, SHOWN))
    saved = lambda name: saves(kernel, chosen.schedule, name, price, chip, issued, demand.work.read)
    return Choice(chosen.schedule, best, len(found) - before, chosen.rule, tuple(next_best), tuple(sorted(refused.items())), priced.made(),
                  tuple((name, by[name], name in chosen.schedule.directives, saved(name)) for name in asked))


def saves(kernel: Kernel, s: Schedule, directive: str, price: Callable[[Schedule], Cost], chip: Chip, issued: Issues | None,
          read: float) -> float:  # fmt: skip
    """Seconds that a schedule would take longer without a directive and those that are nothing without it, all else equal: by its price,
    or, where that does not know it, by what is printed. `read`: bytes that the kernel reads of its inputs, of a table its rows."""
    if directive not in s.directives:
        return 0.0
    less = replace(s, directives=complete(set(s.directives) - {directive}))
    saved = price(less).seconds - price(s).seconds
    if saved or issued is None or DIRECTIVES[directive].neutral:
        return saved
    try:
        works = [issued(*pieces(kernel, x)[0]) if x.split else issued(kernel, x) for x in (less, s)]
    except (DoesNotFit, UnsupportedOp):
        return 0.0
    without, whole = (by_count(replace(w, read=min(w.read, read)), chip).seconds if w is not None else 0.0 for w in works)
    return without - whole if without and whole else 0.0


def _few(found: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """All of them; after the deadline LATE that lie evenly among them, the kernel as one tile with them where it stands at the end."""
    if len(found) <= LATE or not current().passed("schedule", FEW):
        return found
    return tuple(found[len(found) * (k + 1) // LATE - 1] for k in range(LATE))


def _tiled(s: Schedule) -> str:
    """A schedule without the directives that it may not keep."""
    return show(replace(s, directives=()))


def _priced(cost: Cost) -> str:
    return f"{cost.seconds * 1e6:.1f} us, {cost.bound}"


class Priced:
    """Candidates and their prices, each computed once it is asked for. `least`: seconds that a schedule has at least; without it all are
    priced."""

    def __init__(self, found: Sequence[Candidate], price: Callable[[Schedule], Cost], least: Callable[[Schedule], float] | None) -> None:
        self.found, self.price = found, price
        self.least = [least(c.schedule) for c in found] if least else [0.0] * len(found)
        self.costs: dict[int, Cost] = {}

    def cost(self, n: int) -> Cost:
        """Of candidate n."""
        known = self.costs.get(n)
        if known is None:
            known = self.costs[n] = self.price(self.found[n].schedule)
        return known

    def all(self) -> list[tuple[Cost, Candidate]]:
        """All of them, in their order."""
        return [(self.cost(n), c) for n, c in enumerate(self.found)]

    def ranked(self) -> Iterator[tuple[Cost, Candidate]]:
        """As `_ranked` of all: a price is computed when no other is cheaper than the least that it may be."""
        waits = [(x, False, n) for n, x in enumerate(self.least)]
        heapify(waits)
        while waits:
            same: list[int] = []
            while waits and (not same or waits[0][0] <= self.costs[same[0]].seconds):
                _, known, n = heappop(waits)
                if known:
                    same.append(n)
                else:
                    heappush(waits, (self.cost(n).seconds, True, n))
            one = len(same) == 1
            yield from ((self.costs[n], self.found[n]) for n in (same if one else sorted(same, key=lambda n: str(self.found[n].schedule))))

    def made(self) -> tuple[tuple[str, int, str], ...]:
        """(rule, schedules that it made, the cheapest of them) of every rule that made one."""
        by: dict[str, list[int]] = {}
        for n, c in enumerate(self.found):
            by.setdefault(c.rule, []).append(n)
        return tuple((rule, len(mine), self._told(self._cheapest(mine))) for rule, mine in sorted(by.items()))

    def _cheapest(self, mine: Sequence[int]) -> int:
        """The first of the cheapest."""
        best, at = inf, mine[0]
        for n in sorted(mine, key=self.least.__getitem__):
            if self.least[n] > best:
                break
            seconds = self.cost(n).seconds
            if seconds < best or (seconds == best and n < at):
                best, at = seconds, n
        return at

    def _told(self, n: int) -> str:
        return f"{_tiled(self.found[n].schedule)}: {_priced(self.cost(n))}"


def _ranked(priced: list[tuple[Cost, Candidate]], by_model: bool, others: Sequence[Callable[[Schedule], Cost]] = ()
            ) -> Iterator[tuple[Cost, Candidate]]:  # fmt: skip
    """Cheapest first; equal ones by their text (which is only made for those that are asked for). Without the model, all by their
    text. `others`: prices at other sizes; the geometric mean over all sizes is the least then."""
    if not by_model:
        yield from sorted(priced, key=lambda x: str(x[1].schedule))
        return
    mean = {id(c): cost.seconds * prod(price(c.schedule).seconds for price in others) for cost, c in priced}
    seconds = lambda x: mean[id(x[1])]
    for _, same in groupby(sorted(priced, key=seconds), key=seconds):
        group = list(same)
        yield from group if len(group) == 1 else sorted(group, key=lambda x: str(x[1].schedule))


@dataclass
class Counts:
    """How many schedules may still be counted."""

    left: int


def recounted(kernel: Kernel, demand: Demand, ranked: Iterator[tuple[Cost, Candidate]], chip: Chip, issued: Issues,
              counts: Counts) -> Iterator[tuple[Cost, Candidate]]:  # fmt: skip
    """Candidates in the order of their prices once the best are counted. A candidate is counted only when none that is counted is cheaper
    than the least that its own count may say: its price by tiles, which counts raise; where a count of this kernel lowered one to less
    than half (`over_count`), as much less, and again by what is left between counts and lowered prices. Once no counts are left, the
    others stand behind as they were ranked."""
    known: list[tuple[float, int, Cost, Candidate]] = []
    read, least = demand.work.read, 1.0
    for n, (cost, c) in enumerate(ranked):
        while known and (known[0][0] <= least * cost.seconds or not counts.left):
            _, _, own, best = heappop(known)
            yield own, best
        if not counts.left:
            yield cost, c
            continue
        counts.left -= 1
        own = counted(kernel, c.schedule, cost, chip, issued, read)
        if 2 * own.seconds < cost.seconds:
            least = min(least, own.seconds / cost.seconds / chip.numbers["over_count"])
        heappush(known, (own.seconds, n, own, c))
    yield from ((own, best) for _, _, own, best in sorted(known, key=lambda x: x[:2]))


def counted(kernel: Kernel, s: Schedule, cost: Cost, chip: Chip, issued: Issues, read: float) -> Cost:
    """The price of a schedule by what is printed of it, where that is counted; of one that splits a reduction, its first piece's. `read`:
    bytes that the kernel reads of its inputs."""
    try:
        whole, own = pieces(kernel, s)[0] if s.split else (kernel, s)
        work = issued(whole, own)
    except (DoesNotFit, UnsupportedOp):
        return cost  # the target will not print it
    if work is None:
        return cost
    behind = dict(cost.parts).get("combination", 0.0) if s.split else 0.0
    return corrected(cost, replace(work, read=min(work.read, read)), chip, behind)


@dataclass
class Joins:
    """The schedules of what combines the parts of a kernel's reduction; of one that has none the refusal, which every schedule with as many
    parts meets. Products that differ in their depth alone have the same combinations (`known`)."""

    kernel: Kernel
    rules: RuleSet
    chip: Chip
    options: Options
    admit: Admit | None = None
    known: Joined = field(default_factory=dict)
    refused: dict[Kernel, AutocompError] = field(default_factory=dict)

    def complete(self, s: Schedule) -> Schedule:
        """A schedule that splits the reduction, with the cheapest one for the combination. Raises UnsupportedOp or DoesNotFit."""
        if s.split is None or s.join:
            return s
        _, (join, _) = pieces(self.kernel, s)
        key = replace(join, name="", signature="")
        if key in self.refused:
            raise self.refused[key].with_traceback(None)
        if key not in self.known:
            try:
                self.known[key] = self._cheapest(join)
            except (DoesNotFit, UnsupportedOp) as e:
                self.refused[key] = e
                raise
        return replace(s, join=self.known[key])

    def _cheapest(self, join: Kernel) -> tuple[tuple[str, int], ...]:
        price = pricer(demand_of(join), self.chip)
        found = candidates(join, self.rules, self.chip, self.options)
        ranked = _ranked([(price(c.schedule), c) for c in found if not c.schedule.split and c.schedule.cluster == 1], True)
        best = _admitted(join, ranked, self.admit, {}, lambda s: s, self.options.exact)[1].schedule
        return (*best.tile, ("threads", best.threads))


def _admitted(kernel: Kernel, ranked: Iterator[tuple[Cost, Candidate]], admit: Admit | None,
              refused: dict[str, int], whole: Callable[[Schedule], Schedule], exact: bool) -> tuple[Cost, Candidate, int]:  # fmt: skip
    """The first candidate that the target admits, each of its pieces, and how many stood before it; `whole` completes a schedule.

    Its order is asked for whatever the rule that made it asked: a rule that forgets `legal(tile)` makes no wrong program.
    """
    conditions, refusals = dict(refused), []
    for i, (cost, c) in enumerate(ranked):
        try:
            _in_order(kernel, c.schedule, exact)
            schedule = whole(c.schedule)
            if admit is not None:
                used = [admit(k, s) for k, s in pieces(kernel, schedule)]
                names = tuple(d for d in schedule.directives if any(u is None or d in u for u in used))
                schedule = replace(schedule, directives=names)
        except (DoesNotFit, UnsupportedOp) as e:
            refusals.append((c, e.with_traceback(None)))  # whose frames hold this list, and all of the graph
            refused[f"{c.rule}: {e.what}"] = refused.get(f"{c.rule}: {e.what}", 0) + 1
            if len(refusals) >= LATE and current().passed("schedule", FEW):
                break
            continue
        return cost, replace(c, schedule=schedule), i
    raise _nearest(refusals, conditions)


def _in_order(kernel: Kernel, s: Schedule, exact: bool) -> None:
    """Raises UnsupportedOp where a schedule breaks the order of what the kernel does: its tiles, or its parts of a reduction, which are
    parts of one that combines all (`together`). One tile is the kernel's own order, which needs no proof."""
    if not (s.tile or s.order or s.parallel or s.vector or s.split):
        return
    verdict = legal(kernel, replace(s, split=None), exact)
    if verdict and s.split:
        verdict = legal(together(kernel, s.split[0]), Schedule(split=(s.split[0], 2)), exact)
    if not verdict:
        raise UnsupportedOp(str(verdict), where=f"kernel {kernel.name}")


def _nearest(refusals: Sequence[tuple[Candidate, AutocompError]], conditions: Mapping[str, int]) -> AutocompError:
    """The refusal that tells most where none is admitted: of the candidate that lacks least of a resource, else the reason that most of
    them met. Its next step names the candidate and what the others met, or what conditions left none but the kernel as one tile."""
    lacks = [(e.needed / e.available, i) for i, (_, e) in enumerate(refusals) if isinstance(e, DoesNotFit) and e.available]
    often = Counter(e.what for _, e in refusals)
    i = min(lacks)[1] if lacks else max(range(len(refusals)), key=lambda i: (often[refusals[i][1].what], -i))
    c, e = refusals[i]
    if len(refusals) == 1:
        worst = max(conditions, key=lambda x: (conditions[x], x), default="")
        return e.then(f"no other schedule is left, {f'{worst} ({conditions[worst]} choices)' if worst else 'no rule made one'}")
    others = [f"{n} x {what}" for what, n in often.most_common() if what != e.what][:SHOWN]
    return e.then(f"of {len(refusals)} schedules {often[e.what]} end so, the first is {_tiled(c.schedule)} ({c.rule})",
                  *([f"the others: {', '.join(others)}"] if others else []))  # fmt: skip


def candidates(kernel: Kernel, rules: RuleSet, chip: Chip, options: Options, demand: Demand | None = None,
               refused: dict[str, int] | None = None, trace: Trace | None = None) -> tuple[Candidate, ...]:  # fmt: skip
    """Every schedule that tiling and scheduling rules make in the kernel's e-graph and no condition refuses.

    On a CPU, and where no rule makes any, the kernel as one tile is one of them. `refused` counts what conditions refused.
    """
    roles = (demand or demand_of(kernel)).roles
    (found,) = found_together([kernel], [roles], rules, chip, options)
    given = directives_of(kernel, roles, rules, chip, options)
    return _candidates(kernel, roles, found, chip, options, {} if refused is None else refused, trace, given)


def found_together(kernels: Sequence[Kernel], roles: Sequence[Roles], rules: RuleSet, chip: Chip, options: Options,
                   made: Made | None = None) -> list[Found]:  # fmt: skip
    """What the rules make of each kernel and what they refuse: an e-graph for those of one form. `made`: what they made before, by the same
    rules and options for this chip."""
    shared = any(m.name == "shared" for m in chip.memories)
    asked = [_asked(k, replace(r, padded=True) if shared and r.form in ("contract", "online") else r, rules, chip, options)
             for k, r in zip(kernels, roles, strict=True)]  # fmt: skip
    scans = {n: r.scan for n, r in enumerate(roles) if r.scan is not None}  # also asked in that form, behind the others
    asked += [_asked(kernels[n], r, rules, chip, options) for n, r in scans.items()]
    forms: dict[str, list[int]] = {}
    for n, x in enumerate(asked):
        forms.setdefault(x.roles.form, []).append(n)
    out: dict[int, Found] = {}
    for mine in forms.values():
        speak = [r for phase in KERNEL_PHASES for r in rules.of(phase, chip.target) if applies(r, asked[mine[0]].roles)]
        out |= zip(mine, schedules([asked[n] for n in mine], speak, options, made))
    for behind, n in enumerate(scans, len(kernels)):
        scanned = tuple(x for x in out[behind].schedules if x[0].scan)
        out[n] = Found((*scanned, *out[n].schedules), {**out[n].refused, **out[behind].refused}, out[n].budget or out[behind].budget)
    return [out[n] for n in range(len(kernels))]


def _asked(kernel: Kernel, roles: Roles, rules: RuleSet, chip: Chip, options: Options) -> Asked:
    tensors = {name: cache(f) for name, f in tensors_of(kernel).items()}
    own = {"legal": lambda _move: _may_split(kernel, roles.split, options.exact), "room": lambda level: int(_room(chip, level)),
           "kept_shared": lambda: int(chip.limits.get("shared_reserved", 0)),
           "own_registers": lambda: int(chip.limits["registers"]), "core_registers": lambda: int(chip.registers.count),
           "window_line": lambda: dim_hint(roles.depth[-1].extent) if roles.wide else 1, **tensors}  # fmt: skip
    functions = kernel_functions(roles, chip, options) | own
    given = directives_of(kernel, roles, rules, chip, options, tensors)
    alike = (_why_not_split(kernel, roles.split, options.exact), *(f() for f in tensors.values()))
    return Asked(roles, functions, lambda s: legal(kernel, s, options.exact), given, alike)


def _why_not_split(kernel: Kernel, axis: str, exact: bool) -> str:
    """Why `_may_split` says no, "" where it says yes."""
    try:
        return "" if _may_split(kernel, axis, exact) else "no"
    except Unanswerable as e:
        return str(e)


def directives_of(kernel: Kernel, roles: Roles, rules: RuleSet, chip: Chip, options: Options,
                  tensors: Mapping[str, Any] | None = None) -> Directives:  # fmt: skip
    """What rules give the schedules of a kernel with these roles. `tensors`: its `tensors_of`, where they are at hand."""
    own = tensors_of(kernel) if tensors is None else tensors
    return Directives(rules.of("directives", chip.target), {**kernel_functions(roles, chip, options), **own})


def _candidates(kernel: Kernel, roles: Roles, found: Found, chip: Chip, options: Options, refused: dict[str, int],
                trace: Trace | None, given: Directives) -> tuple[Candidate, ...]:  # fmt: skip
    refused.update(found.refused)
    if found.budget and trace is not None:
        trace.add("budget", "tiling", kernel=kernel.name, limit=found.budget)
    made = tuple(Candidate(s, rule) for s, rule in found.schedules if rule != UNTILED)
    if chip.target == "cpu":
        return (*made, *(Candidate(s, UNTILED) for s, rule in found.schedules if rule == UNTILED))
    return made or (Candidate(_whole(kernel, roles, options, given), UNTILED),)


def _whole(kernel: Kernel, roles: Roles, options: Options, given: Directives) -> Schedule:
    """The kernel as one tile, or as one of each batch element: a block multiplies two matrices, not a row of them. Axes of unknown extent
    have tiles of the most that they may be."""
    bound = [a for v in kernel.stores for a in bound_axes(v.value)]
    open_axes = {a.name: a.extent.hi for a in (*kernel.axes, *bound) if isinstance(a.extent, Sym) and a.extent.hi <= WHOLE}
    tiles = (open_axes | {a.name: 1 for a in roles.batch}, open_axes)
    s = next((s for s in map(Schedule.make, tiles) if legal(kernel, s, options.exact).ok), Schedule())
    return replace(s, directives=given.of(s))


def _may_split(kernel: Kernel, axis: str, exact: bool) -> bool:
    """May the reduction over an axis be done in parts that run at once? Raises Unanswerable with the reason."""
    if not axis:
        raise Unanswerable("no reduction of it can be done in parts")
    verdict = legal(together(kernel, axis), Schedule(split=(axis, 2)), exact)
    if not verdict.ok:
        raise Unanswerable(verdict.why or str(verdict.witness or ""))
    return True


def _room(chip: Chip, level: str) -> float:
    """Bytes of a level that one tile may take."""
    if level == "registers":
        return float(chip.registers.count * chip.registers.bytes)
    memory = next((m for m in chip.memories if m.name == level.lower()), None)
    if memory is None:
        raise Unanswerable(f"chip {chip.name} has no memory '{level}', but {', '.join(m.name for m in chip.memories)}")
    return memory.capacity / (2 if memory.cache else 1)


def tensors_of(kernel: Kernel) -> dict[str, Any]:
    """What conditions ask about a kernel's tensors and turns: `fits(tile)` whether some results have two bytes, the fewest bytes of an
    input's elements, and whether each tensor that is folded has what is folded side by side; a rule of chosen turns whether a condition
    on a row's number chooses them, one of tables whether it makes bytes."""
    bytes_made = lambda e: isinstance(e, Map) and e.dtype.is_int and e.dtype.bits == 8
    return {"makes_bytes": lambda: any(bytes_made(e) for v in kernel.stores for e in postorder(v.value)),
            "short_results": lambda: int(any(a.type.dtype.bytes == 2 for a in kernel.outputs)),
            "input_bytes": lambda: min((a.type.dtype.bytes for a in kernel.inputs), default=0),
            "folds_lines": lambda: int(_folds_lines(kernel)),
            "chooses_turns": lambda: bool(chosen_turns(kernel)[1]),
            "masks_sums": lambda: bool(masked_sums(kernel))}


def _folds_lines(kernel: Kernel) -> bool:
    """Whether no tensor that is folded has its neighbouring elements along another axis than one of those that are."""
    folded = {a.name for s in kernel.stores for a in bound_axes(s.value)}
    read = [e.index for s in kernel.stores for e in postorder(s.value) if isinstance(e, Load)]
    lines = [next(i for i in reversed(index) if i.names()) for index in read if any(i.names() & folded for i in index)]
    near = [{n for n in i.names() if i.coef(n) == 1} for i in lines]
    return all(not names or names & folded for names in near)


def machine_functions(chip: Chip, options: Options) -> dict[str, Any]:
    """What conditions may ask about the chip and numbers, whatever the kernel's form is."""
    return tensor_functions(options) | {
        "fits": lambda level, needed: needed <= _room(chip, level),
        "cores": lambda: chip.cores,
        "feature": lambda name: name in chip.features,
        "lanes": lambda: chip.granule[1],
        "wave": lambda: chip.lanes(4),
    }


def kernel_functions(roles: Roles, chip: Chip, options: Options) -> dict[str, Any]:
    """What conditions may ask, but for `legal`, which the e-graph asks of isl."""
    return machine_functions(chip, options) | {
        "kind": lambda: roles.form,
        "extent": lambda role: roles.extent(ROLE[role]),
        "open_rows": lambda: any(isinstance(a.extent, Sym) for axes in roles.depths for a in axes),
        "folds_alike": lambda: roles.alike,
        "taps": lambda: tuple(accumulate((dim_hint(a.extent) for a in reversed(roles.taps)), mul)),
        "windows": lambda: tuple(accumulate((dim_hint(a.extent) for a in reversed(roles.depth)), mul)) if roles.wide else (1,),
        "folds": lambda: tuple(accumulate((dim_hint(a.extent) for a in reversed(roles.depth)), mul, initial=1))[:-1],
        "factor": lambda: roles.factor,
        "scores": lambda: roles.scores,
        "choices": lambda: roles.steps.count("kept") + roles.steps.count("kept line"),
        "factor_bytes": lambda: DTYPES[roles.factor].bytes if roles.factor else 0,
    }
