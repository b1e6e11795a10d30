"""Answers that say why: a yes, or a no with two concrete iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from autocomp.forks import kept_property


@dataclass(frozen=True)
class Instance:
    """One iteration of one statement: the values of its own axes."""

    statement: str
    point: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"{self.statement}[{', '.join(f'{a}={v}' for a, v in self.point)}]"


@dataclass(frozen=True)
class Witness:
    """`first` runs before `second` in the program as written; the transformed program breaks that.

    `cell` is the memory cell both touch, `access` how (write then read, ...), `fault` what goes wrong, `sizes` the
    values of symbolic extents at which it happens.
    """

    first: Instance
    second: Instance
    cell: str
    access: str
    fault: str
    sizes: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        at = f" (at {', '.join(f'{n}={v}' for n, v in self.sizes)})" if self.sizes else ""
        return f"{self.first} must run before {self.second}: {self.access} of {self.cell}; {self.fault}{at}"


@dataclass(frozen=True)
class Verdict:
    """`ok`, else a `witness` (order) or a `why` (structure). `reassociates`: right only because a reduction's monoid may
    be regrouped, so floating point results may differ in the last bits. `find` gives the witness, which takes longer than the answer:
    it is called once somebody asks; a text where it was not found within isl's limit."""

    ok: bool
    why: str = ""
    reassociates: bool = False
    find: Callable[[], Witness | str] | None = field(default=None, compare=False, repr=False)

    @kept_property
    def witness(self) -> Witness | str | None:
        """Two iterations whose order is broken; of a refusal by structure None."""
        return self.find() if self.find is not None else None

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if self.ok:
            return "legal" + (" (reassociates a reduction)" if self.reassociates else "")
        return f"illegal: {self.witness or self.why}"
