"""What `autocomp rules check` and `rules test` say: one row a rule, and how many rules have which status."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rich.table import Table

from autocomp.check.bodies import check_fusion_rule
from autocomp.check.kernels import read
from autocomp.check.rules import OPTIONS, check_kernel_rule, check_on_graph
from autocomp.deadline import Deadline, by_counts, clock, current, running
from autocomp.egraph.examples import check_examples
from autocomp.errors import AutocompError, DoesNotFit, RuleError
from autocomp.rewrite import CheckResult, Rule, RuleSet, check_rule
from autocomp.rewrite.check import next_step
from autocomp.rewrite.vocabulary import BODY_PHASES, KERNEL_PHASES
from autocomp.targets import load_target
from autocomp.workers import Failure, Pool

EVERY = 3.0  # seconds between two words about how far a check is
NO_END = 1e6  # seconds for the check of one rule, which ends by counts
GRAPHS = "graphs"  # what rules are about that need no target
TINY = 1e-3  # a clock of 0 seconds would have no end


@dataclass(frozen=True)
class RuleReport:
    """Rules with what their check gave. `examples`: what is wrong with a rule's examples when they are run, by name."""

    rows: tuple[tuple[Rule, CheckResult], ...]

    @property
    def counts(self) -> str:
        """`27 rules: 20 proved, 5 tested, 1 checked, 1 assumed, 0 refuted`."""
        n = Counter(c.status.partition("-")[0] for _, c in self.rows)
        late = ("unchecked",) if n["unchecked"] else ()
        rules = "1 rule" if len(self.rows) == 1 else f"{len(self.rows)} rules"
        return f"{rules}: " + ", ".join(f"{n[s]} {s}" for s in ("proved", "tested", "checked", "assumed", "refuted", *late))

    def data(self) -> list[dict[str, object]]:
        """For machines."""
        return [{"rule": r.name, "status": c.status, "tests": c.tests, "positive": positive(r), "negative": negative(r), "detail": c.detail,
                 "instances": c.instances, "note": c.note}
                for r, c in self.rows]  # fmt: skip

    def table(self) -> Table:
        table = Table("rule", "status", "random instances", "examples", "detail", title=self.counts)
        for r, c in self.rows:
            said = "; ".join(x for x in (c.note, c.detail) if x)
            status = c.status if c.status.startswith("checked") else c.status.partition("-")[0]
            table.add_row(r.name, status, str(c.tests or ""), f"{positive(r)} fire, {negative(r)} must not", said)
        return table

    def require(self) -> None:
        """Raises RuleError for the first refuted rule, with its counterexample, and where the deadline left some unchecked."""
        for r, c in self.rows:
            if c.status == "refuted":
                again = f"\n  again: autocomp rules check {r.location.file} {c.again}" if c.again else ""
                raise RuleError(f"is refuted: {c.detail}", where=r.where_text, hint=f"{next_step(r, fault=c.detail)}{again}")
        late = [r.name for r, c in self.rows if c.cut]
        if late:
            raise RuleError(f"{len(late)} of {len(self.rows)} rules were not checked to the end: the deadline of {current().seconds:g} s",
                            where=late[0], hint="a later --deadline, fewer --samples, or `rules test` for some of them")  # fmt: skip


def positive(r: Rule) -> int:
    return sum(e.fires for e in r.examples)


def negative(r: Rule) -> int:
    return len(r.examples) - positive(r)


def check_rules(chosen: Sequence[Rule], in_force: RuleSet, samples: int, say: Callable[[str], None] | None = None,
                jobs: int = 1) -> RuleReport:  # fmt: skip
    """Prove or test each rule, those about schedules on drawn kernels, and run its examples through the e-graph; after the deadline the
    rest are unchecked. `say` is told every few seconds how far it is. `jobs`: processes that check side by side. Raises AutocompError
    where one of them ends, and what a check raises."""
    tell = _seldom(say) if say is not None else None
    if jobs > 1 and len(chosen) > 1:
        return RuleReport(tuple(zip(chosen, _side_by_side(chosen, in_force, samples, tell, jobs))))
    rows: list[tuple[Rule, CheckResult]] = []
    for r in chosen:
        if tell is not None:
            tell(f"{len(rows)} of {len(chosen)} rules checked; next {r.name}")
        rows.append((r, check_one(r, in_force, samples, tell)))
    return RuleReport(tuple(rows))


def check_one(r: Rule, in_force: RuleSet, samples: int, say: Callable[[str], None] | None = None) -> CheckResult:
    """Prove or test a rule, and run its examples."""
    if r.phase in BODY_PHASES:
        result = check_fusion_rule(r, in_force, samples)
    elif r.phase in KERNEL_PHASES:
        result = check_kernel_rule(r, in_force, samples, small=True, say=say)
    else:
        result = check_rule(r, samples)
    if result.status in ("refuted", "unchecked"):
        return result
    with by_counts():  # or what the clock cuts would be the rule's fault
        wrong = check_examples(r, in_force)
    return CheckResult("refuted", wrong, result.tests) if wrong else result


def _side_by_side(chosen: Sequence[Rule], in_force: RuleSet, samples: int, say: Callable[[str], None] | None,
                  jobs: int) -> list[CheckResult]:  # fmt: skip
    """The result of each rule, from processes of which each takes rules for the same targets one after another: what it drew for one
    serves the next. Those about schedules come first, as they take longest, of the targets with most rules before others."""
    kind = lambda r: r.targets if r.phase in KERNEL_PHASES else GRAPHS
    many = Counter(map(kind, chosen))
    order = sorted(range(len(chosen)), key=lambda n: (kind(chosen[n]) == GRAPHS, -many[kind(chosen[n])]))
    shared = pickle.dumps(in_force)  # once: each process reads it once
    left = max(current().left, TINY) if current().seconds else 0.0
    asked = [(shared, chosen[n], samples, left) for n in order]
    kinds = [kind(chosen[n]) for n in order]
    found: dict[int, CheckResult] = {}
    pool = Pool(min(jobs, len(chosen)), __name__, "rules check")
    try:
        for n, answer in pool.each(_in_child, asked, NO_END, kinds=kinds):
            rule = chosen[order[n]]
            if isinstance(answer, Failure):
                raise AutocompError(f"its check ended: {answer.reason}", where=rule.where_text, hint="check it alone: autocomp rules test "
                                    f"{rule.name}")  # fmt: skip
            if isinstance(answer, AutocompError):
                raise answer
            found[order[n]] = answer
            if say is not None:
                say(f"{len(found)} of {len(chosen)} rules checked; last {rule.name}")
    finally:
        pool.stop()
    return [found[n] for n in range(len(chosen))]


@lru_cache(maxsize=1)
def _read(shared: bytes) -> RuleSet:
    out: RuleSet = pickle.loads(shared)
    return out


_ENDS: list[float] = []  # when a child's clock is over


def _in_child(shared: bytes, rule: Rule, samples: int, left: float) -> CheckResult | AutocompError:
    """A rule's result, or the error that its check raises, whole. `left`: seconds when the check of all began, 0 for no end."""
    if left and not _ENDS:
        _ENDS.append(clock() + left)
    try:
        with running(Deadline(max(_ENDS[0] - clock(), TINY) if left else 0.0)):
            return check_one(rule, _read(shared), samples)
    except AutocompError as e:
        return AutocompError(e.what, where=e.where, hint=e.hint) if isinstance(e, DoesNotFit) else e.with_traceback(None)


def check_rules_on(chosen: Sequence[Rule], in_force: RuleSet, graph: str, target: str) -> RuleReport:
    """Check those rules that are about schedules on the kernels of one graph, in one line as examples write it. Raises RuleError where
    none is, ModelError where it is no graph."""
    about = [r for r in chosen if r.phase in KERNEL_PHASES]
    if not about:
        raise RuleError("none of these rules is about schedules", where="--on", hint="other rules have examples: {graph: ..}")
    machine, drawn = load_target(target, OPTIONS), read(graph)
    mine = [r for r in about if not r.targets or machine.name in r.targets]
    if not mine:
        hint = f"--target {(about[0].targets or ('cpu',))[0]}"
        raise RuleError(f"none of these rules is for {machine.name}", where="--target", hint=hint)
    return RuleReport(tuple((r, check_on_graph(r, in_force, drawn, machine)) for r in mine))


def _seldom(say: Callable[[str], None]) -> Callable[[str], None]:
    """Says no more than one thing in EVERY seconds, and none before the first of them are over."""
    told = time.monotonic()

    def tell(text: str) -> None:
        nonlocal told
        if time.monotonic() > told + EVERY:
            told = time.monotonic()
            say(text)

    return tell
