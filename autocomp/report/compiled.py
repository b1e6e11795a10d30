"""What `torch.compile(.., backend="autocomp")` made of each graph: which nodes are ours, which stayed with torch and why."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

KEPT = 1000  # graphs that are remembered, the oldest leave first
EXPLAINED = "Explanation:"  # what dynamo writes before the sentence that says why a graph ended


@dataclass(frozen=True)
class Stayed:
    """A node that torch runs: its operator, where in the module it stands, and why."""

    op: str
    where: str
    why: str


@dataclass
class CompiledGraph:
    """One graph of ahead-of-time autograd. `nodes`: ours; `programs`, `kernels`: what they became; `notes`: what else was decided."""

    name: str
    kind: str
    target: str
    nodes: int = 0
    programs: int = 0
    kernels: int = 0
    seconds: float = 0.0
    stayed: list[Stayed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        of = lambda n, what: f"{n} {what}{'' if n == 1 else 's'}"
        head = (f"{self.name} ({self.kind}) on {self.target}: {of(self.nodes, 'node')} in {of(self.programs, 'program')} of "
                f"{of(self.kernels, 'kernel')}, {of(len(self.stayed), 'node')} with torch, {self.seconds:.2f} s")  # fmt: skip
        grouped: dict[tuple[str, str], list[str]] = {}
        for s in self.stayed:
            grouped.setdefault((s.op, s.why), []).append(s.where)
        lines = [f"  torch: {op}{f' x {len(at)}' if len(at) > 1 else ''}: {why} (at {at[0]})" for (op, why), at in grouped.items()]
        return "\n".join([head, *lines, *(f"  note: {n}" for n in self.notes)])


class Report(tuple[CompiledGraph, ...]):
    """The graphs, oldest first; prints as a text with a paragraph for each. `breaks`: why dynamo ended graphs, or left functions out of
    them, in this process, whichever back end it was for, and how often."""

    breaks: Mapping[str, int]

    def __str__(self) -> str:
        graphs = "\n".join(map(str, self)) or 'nothing was compiled by torch.compile(.., backend="autocomp") yet'
        return "\n".join([graphs, *(f"dynamo's graphs end, x {n}: {why}" for why, n in self.breaks.items())])

    __repr__ = __str__


GRAPHS: deque[CompiledGraph] = deque(maxlen=KEPT)


def report() -> Report:
    """What was compiled through torch.compile in this process."""
    found = Report(GRAPHS)
    found.breaks = _breaks()
    return found


def _breaks() -> dict[str, int]:
    """Dynamo's own counts, where it has been imported: of each reason the first line, and the sentence that explains it."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    found: dict[str, int] = {}
    for kind in ("graph_break", "unimplemented"):  # one that ends a graph may be counted as both
        for why, n in counters.get(kind, {}).items():
            head, _, rest = str(why).partition("\n")
            told = rest.partition(EXPLAINED)[2].partition("\n")[0].strip()
            name = f"{head}: {told}" if told else head
            found[name] = max(n, found.get(name, 0))
    return found
