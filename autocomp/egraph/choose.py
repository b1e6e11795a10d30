"""Choosing a kernel's schedule: tiling rules make candidates, legality and capacity refuse some, the roofline ranks the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from autocomp.cost.chip import Chip
from autocomp.cost.estimate import Demand, demand_of, estimate
from autocomp.cost.recurrence import choose_recurrence
from autocomp.cost.roles import Roles, roles_of, spread
from autocomp.cost.work import Cost
from autocomp.errors import AutocompError, DoesNotFit, UnsupportedOp
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import Sym
from autocomp.loops.recurrences import recurrence_of
from autocomp.loops.schedules import legal
from autocomp.options import Options
from autocomp.rewrite.expr import Expr as RuleExpr
from autocomp.rewrite.expr import Ref
from autocomp.rewrite.functions import tensor_functions
from autocomp.rewrite.pattern import Apply
from autocomp.rewrite.rule import Rule, RuleSet
from autocomp.rewrite.where import Answer, Env, evaluate, holds
from autocomp.trace import Trace

FIELDS = ("threads", "stages", "grouped", "workers", "overlap", "unroll", "persistent")  # whole numbers of the schedule that a rule may set
WORDS = ("roles", "instruction")  # and words
ROLE = {"m": "rows", "n": "cols", "k": "depth", "b": "batch", "i": "rows", "j": "cols"}
SHOWN = 3  # runners-up that the trace keeps


@dataclass(frozen=True)
class Candidate:
    """A schedule with the rule and the choices that made it."""

    schedule: Schedule
    rule: str
    choices: tuple[tuple[str, Any], ...]


def choose_schedule(kernel: Kernel, rules: RuleSet, chip: Chip, options: Options, trace: Trace,
                    admit: Callable[[Kernel, Schedule], None] | None = None) -> tuple[Schedule, Cost]:  # fmt: skip
    """The fastest legal schedule by the model that the target admits; ties by text. Where no rule matches, one tile.

    `admit` raises DoesNotFit or UnsupportedOp for a schedule that the target cannot print; the next one is then asked for. Raises
    the last refusal where none is left.
    """
    if recurrence_of(kernel) is not None:
        return choose_recurrence(kernel, rules, chip, trace)
    demand = demand_of(kernel)
    refused: dict[str, int] = {}
    found = {c.schedule: c for c in candidates(kernel, rules, chip, options, demand, refused)}
    if chip.target == "cpu" or not found:
        found.setdefault(Schedule(), Candidate(Schedule(), "untiled", ()))
    ranked = sorted(
        ((estimate(kernel, s, chip, demand), c) for s, c in found.items()), key=lambda x: (x[0].seconds, str(x[1].schedule))
    )
    ranked = _admitted(kernel, ranked, admit, refused)
    best, chosen = ranked[0]
    trace.add(
        "schedule",
        kernel.name,
        signature=kernel.signature,
        candidates=len(ranked),
        rule=chosen.rule,
        seconds=best.seconds,
        bound=best.bound,
        runners_up=[
            f"{describe(c.schedule)} ({c.rule}): {cost.seconds * 1e6:.1f} us, {cost.bound}" for cost, c in ranked[1 : 1 + SHOWN]
        ],
    )
    for reason, n in sorted(refused.items()):
        rule, _, text = reason.partition(": ")
        trace.add("reject", rule, phase="tiling", kernel=kernel.name, reason=text, count=n)
    return chosen.schedule, best


def _admitted(kernel: Kernel, ranked: list[tuple[Cost, Candidate]], admit: Callable[[Kernel, Schedule], None] | None,
              refused: dict[str, int]) -> list[tuple[Cost, Candidate]]:  # fmt: skip
    """The ranking from the first candidate on that the target admits."""
    if admit is None:
        return ranked
    last: AutocompError | None = None
    for i, (_, c) in enumerate(ranked):
        try:
            admit(kernel, c.schedule)
        except (DoesNotFit, UnsupportedOp) as e:
            last = e
            refused[f"{c.rule}: {e.what}"] = refused.get(f"{c.rule}: {e.what}", 0) + 1
            continue
        return ranked[i:]
    assert last is not None
    raise last


def candidates(kernel: Kernel, rules: RuleSet, chip: Chip, options: Options, demand: Demand | None = None,
               refused: dict[str, int] | None = None) -> Iterator[Candidate]:  # fmt: skip
    """Every schedule that a tiling rule makes and no condition refuses."""
    d = demand or demand_of(kernel)
    for rule in rules.of("tiling", chip.target):
        if (
            isinstance(rule.match, Apply)
            and rule.match.op == d.roles.form
            and not any(k not in ROLE for k, _ in rule.match.attrs)
        ):
            yield from _of_rule(kernel, rule, d.roles, chip, options, refused if refused is not None else {})


def _of_rule(
    kernel: Kernel, rule: Rule, roles: Roles, chip: Chip, options: Options, refused: dict[str, int]
) -> Iterator[Candidate]:
    assert isinstance(rule.match, Apply)
    bound = {e.name: roles.extent(ROLE[k]) for k, e in rule.match.attrs if isinstance(e, Ref)}
    names = [n for n, _ in rule.choose]
    values = [
        c if isinstance(c, tuple) else tuple(evaluate(c, Env(bound))) if isinstance(c, RuleExpr) else (c,) for _, c in rule.choose
    ]
    role_of = {
        e.name: roles.limit(ROLE[k])
        for k, e in (rule.rhs.attrs if isinstance(rule.rhs, Apply) else ())
        if isinstance(e, Ref) and k in ROLE
    }
    seen: set[Schedule] = set()
    for choice in product(*values):
        variables = bound | {n: min(v, role_of.get(n, v)) if isinstance(v, int) else v for n, v in zip(names, choice)}
        s = _schedule(rule, roles, variables)
        if s in seen:
            continue
        seen.add(s)
        answer = holds(rule.where, Env(variables, _functions(kernel, s, chip, options)))
        if answer:
            yield Candidate(s, rule.name, tuple((n, variables[n]) for n in names))
        else:
            refused[f"{rule.name}: {answer.reason}"] = refused.get(f"{rule.name}: {answer.reason}", 0) + 1


def _schedule(rule: Rule, roles: Roles, variables: dict[str, Any]) -> Schedule:
    """The right side, `tile(m: ?bm, .., threads: 256)`: sizes spread over the axes of each role, and other fields."""
    assert isinstance(rule.rhs, Apply)
    tile: dict[str, int] = {}
    rest: dict[str, Any] = {}
    for key, e in rule.rhs.attrs:
        if key in WORDS:
            rest[key] = str(evaluate(e, Env(variables)))
            continue
        value = int(evaluate(e, Env(variables)))
        if key in FIELDS:
            rest[key] = bool(value) if key == "persistent" else value
        else:
            for axes in roles.depths if ROLE[key] == "depth" else (getattr(roles, ROLE[key]),):
                tile |= spread(axes, value)
    return Schedule.make({a: t for a, t in tile.items() if t}, **rest)


def _functions(kernel: Kernel, s: Schedule, chip: Chip, options: Options) -> dict[str, Any]:
    def is_legal(*_: Any) -> Answer:
        verdict = legal(kernel, s, options.exact)
        return Answer(bool(verdict.ok), verdict.why)

    def fits(level: str, needed: float) -> bool:
        memory = chip.memory(level.lower())
        return needed <= memory.capacity / (2 if memory.cache else 1)

    return tensor_functions(options) | {
        "legal": is_legal,
        "fits": fits,
        "cores": lambda: chip.cores,
        "feature": lambda name: name in chip.features,
        "open_rows": lambda: any(isinstance(a.extent, Sym) for axes in roles_of(kernel).depths for a in axes),
        "lanes": lambda: chip.granule[1],
    }


def describe(s: Schedule) -> str:
    """One line for tables: tile i0 16, i1 64; parallel i0."""
    parts = [f"tile {', '.join(f'{a} {t}' for a, t in s.tile)}"] if s.tile else ["one tile"]
    if s.order:
        parts.append(f"order {' '.join(s.order)}")
    if s.skew:
        parts.append(f"skew {s.skew}")
    if s.parallel:
        parts.append(f"parallel {' '.join(s.parallel)}")
    if s.stages > 1:
        parts.append(f"{s.stages} stages")
    if s.roles != "single":
        parts.append(f"{s.roles} roles, {s.workers} worker{'s' if s.workers > 1 else ''}")
    elif s.threads != Schedule.threads:
        parts.append(f"{s.threads} threads")
    return "; ".join(parts)
