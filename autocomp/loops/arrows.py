"""The dependences of a nest as arrows between its statements, for pictures: which statement waits for which, how far apart, and where."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from autocomp.loops.dependence import dependences
from autocomp.loops.effort import counted
from autocomp.loops.nest import LoopNest


@dataclass(frozen=True)
class Arrow:
    """`later` must run after `earlier`: flow (reads what it wrote), anti (overwrites what it read), output (overwrites what it wrote).
    `distance`: between iterations of one statement, an axis each, '*' where it varies; empty between two statements."""

    kind: str
    earlier: str
    later: str
    distance: tuple[str, ...] = ()


def arrows(nest: LoopNest) -> tuple[Arrow, ...]:
    """The dependences of the nest as written, of every size. Raises OverBudget where isl does not answer within its limit.

    A last write is followed, so of pairs that touch one cell only those are there from which the others follow."""
    nest = nest.nest_class()
    out: dict[Arrow, None] = {}
    with counted():
        d = dependences(nest.statements, nest.origin)
        for kind, relation in (("flow", d.flow), ("anti", d.anti), ("output", d.output)):
            found: list[isl.Map] = []
            relation.foreach_map(found.append)
            for m in found:
                a, b = (m.get_tuple_name(k) for k in (isl.dim_type.in_, isl.dim_type.out))
                out[Arrow(kind, a, b, _distance(m) if a == b else ())] = None
    places = {s.name: n for n, s in enumerate(nest.statements)}
    return tuple(sorted(out, key=lambda x: (places[x.earlier], places[x.later], x.kind)))


def _distance(m: isl.Map) -> tuple[str, ...]:
    """Of each axis: the distance where it is the same for all pairs, else '*' (of a nearest pair: what the others follow from)."""
    steps = m.deltas()
    values = [steps.plain_get_val_if_fixed(isl.dim_type.set, k) for k in range(steps.dim(isl.dim_type.set))]
    return tuple("*" if v.is_nan() else str(v) for v in values)


