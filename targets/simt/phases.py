"""A counted plan cut into phases: what warps issue between barriers, and in each loop."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from autocomp.cost.issue import Phase
from autocomp.tile.plan import Barrier, Block, Cost, Node

RING = "ring"  # the wait of a turn for its slot of a ring


class Phases:
    """A counted plan in phases: what is issued between two barriers, or in one loop, by the `warps` of a block. A turn of a loop with a
    ring of so many `stages` waits for its copies once in as many turns as are under way beside it."""

    def __init__(self, warps: float, stages: int = 1) -> None:
        self.warps, self.found = warps, list[Phase]()
        self.ring = 1 / max(1, stages - 1)
        self.begin()

    def begin(self) -> None:
        self.now: dict[str, float] = defaultdict(float)
        self.waits: dict[str, float] = defaultdict(float)
        self.slots = self.matrix = 0.0

    def close(self, often: float) -> None:
        """The end of a phase that runs so often."""
        if self.now or self.waits:
            issued = {k: n * self.warps for k, n in self.now.items()}
            self.found.append(Phase(often, issued, self.slots * self.warps, self.matrix * self.warps, dict(self.waits)))
        self.begin()

    def spill(self, registers: float) -> None:
        """So many values of a thread wait in local memory for their next turn, each is written, read and waited for."""
        each = registers * self.warps
        more = lambda p: {**p.issued, "memory": p.issued.get("memory", 0.0) + 2 * each}
        waits = lambda p: {**p.waits, "shared": p.waits.get("shared", 0.0) + registers}
        if registers:
            self.found = [replace(p, issued=more(p), slots=p.slots + 2 * each, waits=waits(p)) for p in self.found]

    def visit(self, body: tuple[Node, ...], often: float) -> None:
        for n in body:
            if isinstance(n, Cost):
                for pipe, x in n.issued:
                    self.now[pipe] += x
                for kind, x in n.waits:
                    if kind == RING:
                        kind, x = "load", self.ring
                    self.waits[kind] += x
                self.slots += n.slots
                self.matrix += n.matrix
            elif isinstance(n, Barrier):
                self.now["branch"] += 1
                self.waits["barrier"] += 4.0 if n.agents == "cluster" else 1.0
                self.close(often)
            elif isinstance(n, Block) and n.again:
                self.close(often)
                self.visit(n.body, often * n.times)
                self.close(often * n.times)
            elif isinstance(n, Block):
                self.visit(n.body, often)
