"""What `autocomp rules mutate` says: of rules that are nearly right, how many of the really wrong ones does the checker refuse?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table

from autocomp.check.rules import check_kernel_rule
from autocomp.deadline import current
from autocomp.errors import RuleError
from autocomp.rewrite.check import check_rule
from autocomp.rewrite.judge import really_wrong
from autocomp.rewrite.mutate import Mutant, mutants
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.vocabulary import GRAPH_PHASES, KERNEL_PHASES


@dataclass(frozen=True)
class Trial:
    """One changed rule: what the checker said, and where its sides differ by the judge ("" where they did not)."""

    rule: str
    what: str
    status: str
    wrong: str
    of_schedules: bool = False

    @property
    def refused(self) -> bool:
        """Refuted, or untestable: a file with either is refused. (A rule about schedules that makes none is harmless, and only assumed.)"""
        return self.status == "refuted" or (self.status == "assumed" and not self.of_schedules)


@dataclass(frozen=True)
class MutationReport:
    """All trials. `possible`: changed rules that there are."""

    trials: tuple[Trial, ...]
    rules: int
    possible: int
    seed: int

    @property
    def wrong(self) -> tuple[Trial, ...]:
        return tuple(t for t in self.trials if t.wrong)

    @property
    def missed(self) -> tuple[Trial, ...]:
        return tuple(t for t in self.wrong if not t.refused)

    @property
    def text(self) -> str:
        """The outcome in two lines."""
        wrong, caught = len(self.wrong), len(self.wrong) - len(self.missed)
        share = f" ({100 * caught / wrong:.1f} %)" if wrong else ""
        proved = sum(t.status == "proved" for t in self.wrong)
        beyond = sum(t.status == "refuted" and not t.wrong for t in self.trials)
        rest = len(self.trials) - wrong - beyond
        return (
            f"{len(self.trials)} of {self.possible} changes to {self.rules} rules (seed {self.seed}): {wrong} really wrong, "
            f"{caught} of them refused{share}, {proved} proved\n{beyond} more refused with a counterexample that the judge did not "
            f"come upon; {rest} as right as before, as far as was tried"
        )

    def table(self) -> Table:
        table = Table("rule", "change", "status", "where its sides differ", title="really wrong, and not refused")
        for t in self.missed:
            table.add_row(t.rule, t.what, t.status, t.wrong)
        return table

    def data(self) -> dict[str, object]:
        """For machines."""
        rows = [{"rule": t.rule, "change": t.what, "status": t.status, "wrong": t.wrong} for t in self.trials]
        return {"possible": self.possible, "tried": len(self.trials), "wrong": len(self.wrong), "missed": len(self.missed), "rows": rows}


def mutate_rules(chosen: Sequence[Rule], count: int, seed: int, samples: int, say: Callable[[str], None] = lambda text: None,
                 in_force: Sequence[Rule] = (), only: str = "") -> MutationReport:  # fmt: skip
    """Change rules in `count` ways (0: in all), chosen by `seed`; check each and judge it. Of a family of rules one member is changed.
    `in_force`: the rules that make the schedules which others change; the judge of rules about schedules looks at other kernels. `only`:
    changes whose description holds this."""
    first = {str(r.location): r for r in reversed(chosen) if r.phase in (*GRAPH_PHASES, *KERNEL_PHASES)}
    all_of_them: list[tuple[Rule, Mutant]] = [(r, m) for r in first.values() for m in mutants(r) if only in m.what]
    tried = list(all_of_them)
    random.Random(seed).shuffle(tried)
    trials = []
    for k, (rule, mutant) in enumerate(tried[: count or None]):
        trial = _trial(rule, mutant, seed, samples, [r for r in in_force or chosen if r.name != rule.name])
        if current().over:  # neither its check nor its judge came to their ends
            break
        trials.append(trial)
        shown = f", really wrong: {trial.wrong}" if trial.wrong else ""
        say(f"{k + 1}/{count or len(tried)} {rule.name}: {mutant.what}: {trial.status}{shown}")
    return MutationReport(tuple(trials), len(first), len(all_of_them), seed)


def _trial(rule: Rule, mutant: Mutant, seed: int, samples: int, others: Sequence[Rule]) -> Trial:
    if rule.phase in KERNEL_PHASES:
        try:
            found = [check_kernel_rule(mutant.rule, others, samples, seed=s) for s in (0, seed + 1)]
        except RuleError as e:  # such as a size that is no list
            return Trial(rule.name, mutant.what, "refuted", e.what, True)
        status, judged = (f.status.partition("-")[0] for f in found)
        return Trial(rule.name, mutant.what, status, found[1].detail if judged == "refuted" else "", True)
    status = check_rule(mutant.rule, samples, prove=False).status.partition("-")[0]
    trial = Trial(rule.name, mutant.what, status, really_wrong(mutant.rule, rule, seed + 1))
    if not trial.refused and trial.wrong and not current().over:
        proof = check_rule(mutant.rule, samples).status.partition("-")[0]
        trial = Trial(rule.name, mutant.what, proof, trial.wrong)
    return trial
