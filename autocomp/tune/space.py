"""The legal schedules of a kernel as a space of parameters: neighbours and crossings of schedules are schedules of it.

A schedule's parameters are its fields (a tile size an axis, threads, stages, ...). The space holds what the tiling
rules make and no condition refuses, so every move inside it is legal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from math import isinf
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from autocomp.cost.estimate import demand_of, pricer
from autocomp.egraph.choose import Joins, candidates
from autocomp.ir.directives import complete
from autocomp.ir.schedule import Schedule

if TYPE_CHECKING:
    from autocomp.cost.chip import Chip
    from autocomp.ir.kernel import Kernel
    from autocomp.options import Options
    from autocomp.rewrite.rule import RuleSet

TRIES = 24  # crossings drawn before one is given up


@dataclass(frozen=True)
class Point:
    """A schedule, the seconds that the model predicts for it, and the rule that made it."""

    schedule: Schedule
    predicted: float
    rule: str


def legal_points(kernel: Kernel, rules: RuleSet, chip: Chip, options: Options, untuned: Schedule) -> list[Point]:
    """Every legal schedule in predicted order (ties by text), with the one that is chosen without measuring, and that one without each
    of its directives."""
    demand = demand_of(kernel)
    price, joins, found = pricer(demand, chip, kernel), Joins(kernel, rules, chip, options), {}
    for c in candidates(kernel, rules, chip, options, demand):
        if not isinf(price(c.schedule).seconds):  # the reduction has these parts
            found[joins.complete(c.schedule)] = c.rule
    alike = next((s for s in found if replace(s, directives=untuned.directives) == untuned), None)
    rule = found.pop(alike) if alike is not None else "untuned"  # the candidate also has directives that take no effect
    found[untuned] = rule
    for d in untuned.directives:
        found.setdefault(replace(untuned, directives=complete(set(untuned.directives) - {d})), f"{rule} without {d}")
    points = [Point(s, price(s).seconds, rule) for s, rule in found.items()]
    return sorted(points, key=lambda p: (p.predicted, str(p.schedule)))


def parameters(s: Schedule) -> dict[str, Any]:
    """A schedule's parameters: `tile i0` (where it sets one), `stages`, `roles`, ..."""
    out: dict[str, Any] = {}
    for f in fields(s):
        v = getattr(s, f.name)
        if f.name == "tile":
            out |= {f"tile {axis}": size for axis, size in v}
        else:
            out[f.name] = v
    return out


class Space:
    """Points by number, in predicted order. `codes[p, q]`: rank of point p's value among those of parameter q."""

    def __init__(self, points: Iterable[Point]) -> None:
        self.points = list(points)
        rows = [parameters(p.schedule) for p in self.points]
        every = sorted({n for r in rows for n in r})
        self.names = [n for n in every if len({r.get(n) for r in rows}) > 1]
        self.codes = np.zeros((len(rows), len(self.names)), np.int32)
        for q, name in enumerate(self.names):
            column = [r.get(name) for r in rows]
            order = {v: i for i, v in enumerate(sorted(set(column), key=_order))}
            self.codes[:, q] = [order[v] for v in column]
        self.number = {p.schedule: i for i, p in enumerate(self.points)}
        self._at = {tuple(map(int, row)): i for i, row in enumerate(self.codes)}

    def __len__(self) -> int:
        return len(self.points)

    def neighbours(self, i: int) -> list[int]:
        """Points that differ in one parameter by the nearest legal value on either side; then those where two parameters that
        the conditions tie together move by one value each."""
        step = self.codes - self.codes[i]
        changed = step != 0
        count = changed.sum(1)
        near: dict[tuple[int, bool], tuple[int, int]] = {}
        for p in np.flatnonzero(count == 1):
            q = int(np.argmax(changed[p]))
            far = int(step[p, q])
            near[q, far > 0] = min(near.get((q, far > 0), (1 << 30, 0)), (abs(far), int(p)))
        single = sorted(p for _, p in near.values())
        pairs = np.flatnonzero((count == 2) & (np.abs(step).max(1) == 1))
        return single + [int(p) for p in pairs]

    def cross(self, a: int, b: int, random: Random) -> int | None:
        """A point that takes each parameter from one of two points, and is neither of them; None where no draw is legal."""
        for _ in range(TRIES):
            row = tuple(int(x if random.random() < 0.5 else y) for x, y in zip(self.codes[a], self.codes[b]))
            child = self._at.get(row)
            if child is not None and child not in (a, b):
                return child
        return None


def _order(v: Any) -> tuple[bool, bool, str, Any]:
    """Values in order: numbers by size, others by text, what is not set last."""
    number = isinstance(v, (int, float))
    return v is None, not number, "" if number else str(v), v if number else 0
