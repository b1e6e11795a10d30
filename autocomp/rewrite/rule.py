"""A rule, frozen: what a rule file or the decorator gives and every stage reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from autocomp.errors import RuleError
from autocomp.forks import kept_property
from autocomp.rewrite.expr import Expr
from autocomp.rewrite.location import Location
from autocomp.rewrite.pattern import Pattern, ops_of
from autocomp.rewrite.vocabulary import GRAPH_PHASES


@dataclass(frozen=True)
class Example:
    """Types (or attribute values) for the left side's variables, or a graph (text form, `;` between lines), and whether the rule must
    fire there."""

    bindings: tuple[tuple[str, Any], ...]
    fires: bool = True
    location: Location = field(default_factory=lambda: Location("<rule>"))
    graph: str = ""


@dataclass(frozen=True)
class Rule:
    """lhs, rhs: patterns (graph phases and fusion); `match` instead of lhs for tiling and scheduling, with `choose`: name ->
    candidates (numbers, words, or an expression that gives them). where: all must hold.
    exact: no rounding differs (False: floating point may be reassociated). commutes: operands of commuting ops are tried in
    both orders.
    targets: names it is for, () for all. requires: options that must be on. assumed: it may ship unchecked.
    siblings: variables; matches that agree on them fire together, and `?v...` on the right side lists ?v of all of them.
    finite: its sides agree where both are finite; NaN and infinities may spread to more elements.
    choices_at: name of `choose` -> where each of its candidates stands.
    """

    name: str
    phase: str
    location: Location
    lhs: Pattern | None = None
    rhs: Pattern | None = None
    match: Pattern | None = None
    choose: tuple[tuple[str, tuple[Any, ...] | Expr], ...] = ()
    where: tuple[Expr, ...] = ()
    exact: bool = True
    commutes: bool = False
    examples: tuple[Example, ...] = ()
    targets: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    assumed: bool = False
    why: str = ""
    siblings: tuple[str, ...] = ()
    finite: bool = False
    choices_at: Mapping[str, tuple[Location, ...]] = field(default_factory=dict, compare=False, repr=False)

    @kept_property
    def text(self) -> str:
        """`lhs -> rhs  where ..`, as people read it."""
        left = self.lhs if self.lhs is not None else self.match
        chosen = ", ".join(
            f"{n} from {c}" if not isinstance(c, tuple) else f"{n} in [{', '.join(map(str, c))}]" for n, c in self.choose
        )
        return (
            f"{left} -> {self.rhs}"
            + (f"  choose {chosen}" if chosen else "")
            + (f"  where {' and '.join(map(str, self.where))}" if self.where else "")
        )

    @kept_property
    def left_ops(self) -> frozenset[str]:
        """The ops on the left."""
        return ops_of(self.lhs)

    @kept_property
    def right_ops(self) -> frozenset[str]:
        """The ops on the right."""
        return ops_of(self.rhs)

    def error(self, what: str, hint: str | None = None) -> RuleError:
        """A RuleError that points at the whole rule."""
        return RuleError(what, where=self.where_text, hint=hint)

    def choice_error(self, name: str, i: int, what: str, hint: str) -> RuleError:
        """A RuleError that points at candidate i of a choice, as far as its place is known."""
        at = self.choices_at.get(name, (self.location,))
        return RuleError(what, where=f"{at[min(i, len(at) - 1)]} rule '{self.name}'", hint=hint)

    @property
    def where_text(self) -> str:
        """file:line:column rule 'name', as errors say it."""
        return f"{self.location} rule '{self.name}'"


@dataclass(frozen=True)
class RuleSet:
    """Rules in force, in the order they were read."""

    rules: tuple[Rule, ...] = ()

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __contains__(self, name: object) -> bool:
        return any(r.name == name for r in self.rules)

    def __getitem__(self, name: str) -> Rule:
        for r in self.rules:
            if r.name == name:
                return r
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(r.name for r in self.rules)

    def of(self, phase: str, target: str = "") -> tuple[Rule, ...]:
        """Rules of a phase, those for other targets left out."""
        if (phase, target) not in self._of:
            mine = (r for r in self.rules if r.phase == phase and (not r.targets or not target or target in r.targets))
            self._of[phase, target] = tuple(mine)
        return self._of[phase, target]

    @kept_property
    def _of(self) -> dict[tuple[str, str], tuple[Rule, ...]]:
        """What was asked for before: every kernel asks."""
        return {}

    def without(self, globs: Iterable[str]) -> RuleSet:
        """Less the rules whose name matches one of the globs."""
        gs = tuple(globs)
        return RuleSet(tuple(r for r in self.rules if not any(fnmatchcase(r.name, g) for g in gs)))


def describe(rules: RuleSet) -> list[Mapping[str, Any]]:
    """Rows for `autocomp rules list`."""
    return [
        {
            "name": r.name,
            "phase": r.phase,
            "exact": r.exact,
            "text": r.text,
            "why": r.why,
            "location": str(r.location),
            "targets": list(r.targets),
            "is_rewrite": r.phase in GRAPH_PHASES,
        }
        for r in rules
    ]
