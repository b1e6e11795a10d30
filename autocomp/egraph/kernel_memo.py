"""Chosen schedules by kernel signature, in the process and on disk: a signature is scheduled once on a machine.

What else the choice depends on (rules, chip, options, target, this package's own files) is in the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from autocomp.cost.chip import Chip
from autocomp.cost.work import Cost
from autocomp.files import digest
from autocomp.forks import Lock
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.rewrite.rule import RuleSet
from autocomp.rewrite.vocabulary import KERNEL_PHASES
from autocomp.store import package_stamp, read_entry, write_entry
from autocomp.trace import Trace

FORMAT = "autocomp schedule 3"
MOST = 4096  # choices that a process remembers


@dataclass(frozen=True)
class Choice:
    """A schedule with its cost and what the trace says of the choice: number of candidates, the rule that made it, the next
    best as text, refusals with their counts; made: of every rule how many schedules it made, and its cheapest one as text;
    directives: of each that rules gave the chosen schedule its name, the rule, whether it took effect and the seconds
    that it saves by the model."""

    schedule: Schedule
    cost: Cost
    candidates: int
    rule: str
    runners_up: tuple[str, ...]
    refused: tuple[tuple[str, int], ...]
    made: tuple[tuple[str, int, str], ...] = ()
    directives: tuple[tuple[str, str, bool, float], ...] = ()


_remembered: dict[str, Choice] = {}
_LOCK = Lock()  # for what changes it


class ScheduleMemo:
    """The choices for one set of rules on one target's chip under one set of options."""

    def __init__(self, target: str, chip: Chip, rules: RuleSet, options: Options) -> None:
        plain = replace(options, rules=(), without=(), schedule=(), cache=True, threads=0, deadline=None)
        self._parts = [FORMAT, package_stamp(), target, repr(chip), repr(sorted(asdict(plain).items()))]
        self._parts += [f"{r.name} {r.text} {r.targets}" for phase in KERNEL_PHASES for r in rules.of(phase, chip.target)]
        self._wrote = True

    def key(self, kernel: Kernel) -> str:
        """What the choice depends on."""
        return digest([*self._parts, *kernel.identity])

    def get(self, kernel: Kernel, trace: Trace) -> Choice | None:
        """The choice that was made for this kernel before."""
        key = self.key(kernel)
        known = _remembered.get(key)
        if known is not None:
            return known
        kept = read_entry("schedules", FORMAT, key, trace)
        if kept is None:
            return None
        try:
            choice = _choice(json.loads(kept))
        except (ValueError, KeyError, TypeError) as e:
            trace.add("note", "schedules cache", text=f"{key} is no choice ({e}); chosen again")
            return None
        self._remember(key, choice)
        return choice

    def put(self, kernel: Kernel, choice: Choice, trace: Trace) -> None:
        """Keep a choice. A cache that cannot be written costs one note in the trace and nothing else."""
        key = self.key(kernel)
        self._remember(key, choice)
        self._wrote = self._wrote and write_entry("schedules", FORMAT, key, json.dumps(asdict(choice)).encode(), trace)

    def _remember(self, key: str, choice: Choice) -> None:
        with _LOCK.held:
            if len(_remembered) >= MOST:
                _remembered.pop(next(iter(_remembered)))
            _remembered[key] = choice


def forget() -> None:
    """Drop what the process remembers (the disk keeps its entries)."""
    with _LOCK.held:
        _remembered.clear()


def _choice(d: Mapping[str, Any]) -> Choice:
    """A choice from its JSON. Raises KeyError, TypeError or ValueError for anything else."""
    cost = Cost(float(d["cost"]["seconds"]), str(d["cost"]["bound"]), _tuples(d["cost"]["parts"]))
    schedule = {f.name: _tuples(d["schedule"][f.name]) for f in fields(Schedule)}
    return Choice(Schedule(**schedule), cost, int(d["candidates"]), str(d["rule"]), _tuples(d["runners_up"]), _tuples(d["refused"]),
                  _tuples(d["made"]), _tuples(d["directives"]))  # fmt: skip


def _tuples(x: Any) -> Any:
    """JSON's lists as the tuples that they were."""
    return tuple(map(_tuples, x)) if isinstance(x, list) else x
