"""What a printed kernel issues: the record that a target counts and `cost.printed` turns into seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PIPES = ("fma", "integer multiply", "integer", "special", "branch", "memory", "matrix")
WAITS = ("load", "shared", "special", "arithmetic", "exchange", "barrier", "branch")


@dataclass(frozen=True)
class Phase:
    """What stands between two barriers, `turns` times in a block's life.

    issued   warp instructions of the whole block, by pipe (`memory`: requests to memory and shared memory, exchanges between lanes)
    slots    clocks of the memory pipe that these requests take: passes of a request's lanes over the banks of shared memory or the core's
             cache, or its lines (of a load four at once)
    matrix   operations of matrix instructions, in multiply-adds that count two
    waits    how often one warp waits, one after another, for each kind of result
    """

    turns: float
    issued: Mapping[str, float] = field(default_factory=dict)
    slots: float = 0.0
    matrix: float = 0.0
    waits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Issued:
    """One launch: its blocks and what each of them does.

    blocks, threads, registers, shared   blocks of the grid; threads of one, 32-bit registers of one of its threads, its bytes of
                                         shared memory
    read, written       bytes of all distinct elements that the kernel reads and writes
    asked, fetched      bytes of the sectors that a block's requests name, and of those that are distinct
    stored              bytes of the sectors that a block writes
    again               bytes of a block's distinct sectors that it reads once more after all of them
    partial             bytes of the sectors that a block writes in part, and another one the rest of
    lines, parts        lines of the cache that a block's stores name, one request after another; those of them with a sector that a
                        request writes in part
    """

    blocks: float
    threads: int
    registers: float
    shared: float
    phases: tuple[Phase, ...]
    read: float
    written: float
    asked: float
    fetched: float
    stored: float
    again: float = 0.0
    matrix_dtype: str = ""
    partial: float = 0.0
    lines: float = 0.0
    parts: float = 0.0

    def total(self, pipe: str) -> float:
        """Warp instructions of a pipe in one block's life."""
        return sum(p.turns * p.issued.get(pipe, 0.0) for p in self.phases)

    @property
    def instructions(self) -> float:
        """Warp instructions of one block's life."""
        return sum(p.turns * sum(p.issued.values()) for p in self.phases)
