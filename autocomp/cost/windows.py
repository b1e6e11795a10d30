"""What windows that overlap read: how often one element, and what is done to it each time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autocomp.cost.chip import F32
from autocomp.cost.derived import constant
from autocomp.cost.roles import Roles
from autocomp.ir.body import Expr, Gather, Load, Map, Reduce
from autocomp.ir.scalar import SCALAR
from autocomp.ir.types import dim_hint


@dataclass(frozen=True)
class Windows:
    """`again`: windows that read an element, in the mean; `elements` that are read, each once; `special` and `vector` operations of maps
    in front of the taps, done for each of them; `edges`: taps ask about borders, or convert what they read."""

    again: float
    elements: float
    vector: float
    special: float
    edges: bool

    @property
    def staged(self) -> bool:
        """Does a buffer of elements pay?"""
        return (self.again >= constant("staged_windows") and self.edges) or (self.again > 1 and self.special > 0)


def windows_of(nodes: Sequence[Expr], free: Mapping[int, Collection[str]], roles: Roles, extent: Mapping[str, int]) -> Windows | None:
    """The windows of a kernel's reductions; None where none slides. `nodes`: of its stores, operands first; `free`: axes of each."""
    if not roles.wide:
        return None
    folds = [e for e in nodes if isinstance(e, Reduce)]
    taps = {a.name: dim_hint(a.extent) for e in folds for a in e.axes}
    slides: dict[int, bool] = {}  # of what varies with taps: whether windows alone read it
    vector = special = again = elements = 0.0
    edges = False
    for e in nodes:
        below = [slides[id(a)] for a in e.args if id(a) in slides]
        if isinstance(e, Load) and taps.keys() & free[id(e)]:
            steps = [(i.coef(a.name), prod(taps[x] for x in taps.keys() & i.names()))
                     for i in e.index for a in roles.rows if a.name in i.names() and taps.keys() & i.names()]  # fmt: skip
            slides[id(e)] = bool(steps)
            if steps:
                often = prod(n for _, n in steps) / prod(max(1, min(abs(step), n)) for step, n in steps)
                again = max(again, often)
                elements += prod(extent[x] for x in free[id(e)] if x in extent) / often
                edges = edges or bool(e.guard) or e.dtype.bytes != F32
        elif isinstance(e, (Map, Gather)) and below:
            slides[id(e)] = all(below) and isinstance(e, Map)
            if slides[id(e)] and isinstance(e, Map):
                points = prod(extent[x] for x in free[id(e)] if x in extent)
                special += points * (SCALAR[e.fn].unit == "special")
                vector += points * (SCALAR[e.fn].unit == "vector")
    return Windows(again, elements, vector, special, edges or vector > 0) if again else None
