"""What `torch.compile(.., backend="autocomp")` made of each graph: which nodes are ours, which stayed with torch and why."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

KEPT = 1000  # graphs that are remembered, the oldest leave first


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
    """The graphs, oldest first; prints as a text with a paragraph for each."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or 'nothing was compiled by torch.compile(.., backend="autocomp") yet'

    __repr__ = __str__


GRAPHS: deque[CompiledGraph] = deque(maxlen=KEPT)


def report() -> Report:
    """What was compiled through torch.compile in this process."""
    return Report(GRAPHS)
