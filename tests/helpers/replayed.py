"""Kernel e-graphs that a process has run before, by their transcripts: many tests choose schedules of the same kernels.

What an e-graph puts out follows from the commands that it was given, in their order, and all that Python knows or answers comes to it as
commands. So outputs are replayed while the commands are those of an earlier e-graph with the same rules; at the first that is another one
all of them are run. What stands in Python runs every time, whatever a test has changed of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import local
from typing import Any, NamedTuple
from weakref import proxy

from autocomp.egraph.engine import execute
from autocomp.egraph.kernel_egraph import Asked, _KernelEGraph
from autocomp.rewrite.rule import Rule

KEPT = 400  # e-graphs after which all are forgotten: those of a file of tests are fewer
FREEZE = "freeze"  # among the commands: a look at the tables


class Row(NamedTuple):
    inputs: tuple[int, ...]
    output: int


@dataclass
class Step:
    """An e-graph behind one command: what this put out, rows of the tables that were looked at, and what came next."""

    output: list[Any] = field(default_factory=list)
    names: frozenset[str] = frozenset()
    rows: dict[str, list[Row]] = field(default_factory=dict)
    behind: dict[str, Step] = field(default_factory=dict)


class _Known(local):
    """Each thread, and each forked child, runs e-graphs of its own."""

    def __init__(self) -> None:
        self.first: dict[tuple[str, ...], Step] = {}
        self.closed = 0


_KNOWN = _Known()
os.register_at_fork(after_in_child=lambda: _KNOWN.first.clear())


@dataclass(frozen=True)
class Table:
    of: Replayed
    step: Step
    name: str

    @property
    def rows(self) -> list[Row]:
        if self.name not in self.step.rows:
            self.step.rows[self.name] = self.of.looked(self.step, self.name)
        return self.step.rows[self.name]


class Tables(Mapping[str, Table]):
    def __init__(self, of: Replayed, step: Step) -> None:
        self.of, self.step = of, step

    def __getitem__(self, name: str) -> Table:
        if name not in self.step.names:
            raise KeyError(name)
        return Table(self.of, self.step, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.step.names)

    def __len__(self) -> int:
        return len(self.step.names)


class Looks:
    """What is asked of an e-graph beside commands."""

    def __init__(self, of: Replayed) -> None:
        self.of = of

    def freeze(self) -> Looks:
        self.of.command(FREEZE)
        self.functions = Tables(self.of, self.of.step)
        return self

    @staticmethod
    def value_to_i64(value: int) -> int:
        return value


class Replayed(_KernelEGraph):
    """A kernel e-graph that runs only where its commands are new."""

    def __init__(self, kernels: Sequence[Asked], rules: tuple[Rule, ...]) -> None:
        self.real: Any = None
        self.live = self.declaring = False
        self.done: list[tuple[str, str, Step]] = []
        self.frozen: dict[int, Any] = {}
        super().__init__(kernels, rules)

    def _declared(self) -> Any:
        return None  # until it is needed

    def _run(self, text: str, source: str = "kernel") -> list[Any]:
        if self.declaring:
            return super()._run(text, source)
        if not self.done:
            self.eg = Looks(proxy(self))  # no cycle: an e-graph is dropped in its own thread
            self.step = _KNOWN.first.setdefault(tuple(command for r in self.rules for command in r.commands), Step())
        return self.command(text, source)

    def command(self, text: str, source: str = "kernel") -> list[Any]:
        known = self.step.behind.get(text)
        if known is None:
            self.run_all()
        step = known or Step()
        self.done.append((text, source, step))
        if self.live:
            self.really(text, source, step)
        self.step.behind[text] = self.step = step
        return step.output

    def run_all(self) -> None:
        """From here on there is an e-graph."""
        if self.live:
            return
        looks, self.declaring = self.eg, True
        self.real = super()._declared()
        self.eg, self.declaring = looks, False
        self.live = True
        for given in self.done:
            self.really(*given)

    def really(self, text: str, source: str, step: Step) -> None:
        if text == FREEZE:
            self.frozen[id(step)] = functions = self.real.freeze().functions
            step.names = frozenset(functions)
        else:
            step.output = execute(self.real, text, source)[-1:]

    def looked(self, step: Step, name: str) -> list[Row]:
        """Rows of a table that no earlier e-graph was asked for."""
        self.run_all()
        number = self.real.value_to_i64
        with_output = name == "made"
        return [Row(tuple(map(number, r.inputs)), number(r.output) if with_output else 0) for r in self.frozen[id(step)][name].rows]

    def close(self) -> None:
        _KNOWN.closed += 1
        if self.live:
            execute(self.real, "(pop)", "kernel")
            self._keep()
        self.real, self.frozen = None, {}
        if _KNOWN.closed % KEPT == 0:
            _KNOWN.first.clear()
