"""The directives that rules give a kernel's schedules: what its code does beside the tile (`ir.directives`).

A rule of the phase `directives` matches fields of a schedule. All rules that match give theirs: a schedule's directives follow from its
other fields, so they make no more schedules, and the cost model prices them with the tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autocomp.ir.directives import complete
from autocomp.ir.schedule import Schedule
from autocomp.rewrite.expr import Ref
from autocomp.rewrite.pattern import Apply
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Env, Unanswerable, evaluate, holds


class Directives:
    """The directives of one kernel's schedules. `functions`: what conditions may ask."""

    def __init__(self, rules: Iterable[Rule], functions: Mapping[str, Any]) -> None:
        self.rules = tuple((r, r.match, r.rhs.op) for r in rules if isinstance(r.match, Apply) and isinstance(r.rhs, Apply))
        self.functions = functions
        self._read = tuple(dict.fromkeys(key for _, match, _ in self.rules for key, _ in match.attrs))  # fields of a schedule
        self._given: dict[tuple[Any, ...], tuple[dict[str, str], tuple[str, ...]]] = {}
        self._known: dict[tuple[str, tuple[Any, ...]], bool] = {}

    def of(self, s: Schedule) -> tuple[str, ...]:
        """Names in the order of `ir.directives`, those left out that require another one."""
        return self._both(s)[1]

    def by(self, s: Schedule) -> Mapping[str, str]:
        """directive -> the first rule that gives it."""
        return self._both(s)[0]

    def _both(self, s: Schedule) -> tuple[dict[str, str], tuple[str, ...]]:
        """Asked once for the schedules that are alike in all that rules read of them."""
        values = tuple([_field(s, key) for key in self._read])
        known = self._given.get(values)
        if known is None:
            found: dict[str, str] = {}
            at = dict(zip(self._read, values))
            for rule, match, name in self.rules:
                if name not in found and self._matches(rule, match, tuple([at[key] for key, _ in match.attrs])):
                    found[name] = rule.name
            known = self._given[values] = found, complete(found)
        return known

    def _matches(self, rule: Rule, match: Apply, values: tuple[Any, ...]) -> bool:
        """Asked once for the schedules that are alike in what the rule reads of them."""
        known = self._known.get((rule.name, values))
        if known is None:
            known = self._known[rule.name, values] = self._matched(rule, match, values)
        return known

    def _matched(self, rule: Rule, match: Apply, values: tuple[Any, ...]) -> bool:
        bound: dict[str, Any] = {}
        for (_, e), value in zip(match.attrs, values, strict=True):
            if isinstance(e, Ref):
                bound[e.name] = value
            else:
                try:
                    if evaluate(e, Env(bound, self.functions)) != value:
                        return False
                except Unanswerable:
                    return False
        return bool(holds(rule.where, Env(bound, self.functions)))


def _field(s: Schedule, key: str) -> Any:
    """As rules say it: flags are 0 or 1, a split the number of its parts."""
    value = getattr(s, key)
    return (value[1] if value else 0) if key == "split" else int(value) if isinstance(value, bool) else value
