"""The fault of a rule about schedules, in a graph as small as one that has it, and the command that shows it again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from autocomp.check.kernels import Drawn, graph_of, one_line
from autocomp.deadline import current
from autocomp.errors import AutocompError
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import show

if TYPE_CHECKING:
    from autocomp.targets import Target

EXTENTS = (1, 8, 64, 512)  # that are tried in the place of a larger one
TRIALS = 24  # smaller graphs that are tried at most


@dataclass(frozen=True)
class Fault:
    """A schedule that is wrong. kernel: of which; base: the drawn one that it was made of, or itself; why: `order: ..`, `capacity: ..`."""

    kernel: Kernel
    base: Kernel
    schedule: Schedule
    machine: Target
    why: str
    repeats: bool = True  # a check of its graph alone finds it

    @property
    def graph(self) -> Drawn | None:
        return graph_of(self.base)

    @property
    def text(self) -> str:
        """One graph, one schedule, one reason, in one line."""
        made = f"{self.kernel.name} of " if self.kernel is not self.base else ""
        what = one_line(self.graph) if self.graph else "; ".join(self.kernel.signature.splitlines())
        return f"on {self.machine.name} it makes '{show(self.schedule)}' of {made}{what} - {self.why}"

    @property
    def again(self) -> str:
        """Arguments behind `autocomp rules check FILE` that check this graph alone."""
        if self.graph is None or not self.repeats:
            return ""
        chip = self.machine.chip.name
        spec = self.machine.name if chip == self.machine.name else f"{self.machine.name}:{chip}"
        return f"--on {quote(one_line(self.graph))} --target {spec}"


def shrunk(fault: Fault, fault_of: Callable[[Drawn], Fault | None]) -> Fault:
    """The same sort of fault in a smaller graph: fewer ops, shorter axes. `fault_of`: what a check of one graph finds, or AutocompError."""
    like = lambda f: f is not None and f.why.partition(":")[0] == fault.why.partition(":")[0]
    tried = iter(range(TRIALS))
    graphs = iter((fault.graph,)) if fault.graph else iter(())
    alone = False  # whether a check of its graph alone finds it
    while (graph := next(graphs, None)) and next(tried, None) is not None and not current().over:
        try:
            found = fault_of(graph)
        except AutocompError:  # such as a product of lengths that are no longer equal
            continue
        if found is not None and like(found):
            fault, alone, graphs = found, True, _smaller(graph)
    return replace(fault, repeats=alone)


def _smaller(graph: Drawn) -> Iterator[Drawn]:
    """The graph without its last line, and with one length of its inputs less, the longest first."""
    inputs, body = graph
    lines = body.splitlines()
    if len(lines) > 1:
        rest = "\n".join(lines[:-1])
        yield tuple((n, t) for n, t in inputs if re.search(rf"\b{n}\b", rest)), rest
    lengths = sorted({int(n) for _, t in inputs for n in re.findall(r"\d+", t.partition("[")[2])}, reverse=True)
    for length in lengths:
        for new in (n for n in EXTENTS if n < length):
            yield tuple((n, _with_length(t, length, new)) for n, t in inputs), body


def _with_length(type: str, old: int, new: int) -> str:
    dtype, _, shape = type.partition("[")
    shape = re.sub(rf"\b{old}\b", str(new), shape)
    return f"{dtype}[{shape}"
