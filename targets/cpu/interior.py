"""Windows that lie inside of their image are read without a mask: edges are asked about once a vector of results, not once an element
(directive `unmask_interior`).

    for r0, r1:  s += guarded load x[i + r0 - 1, j + r1 - 1]
    ->   if all of these loads lie inside:  for r0, r1:  s += load x[i + r0 - 1, j + r1 - 1]
         else:                              for r0, r1:  s += guarded load ..
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from autocomp.targets.cpu.flat import index_text
from autocomp.targets.cpu.lower import Nest, reads
from autocomp.targets.cpu.tree import Point, contractions, points, statements

from autocomp.ir.affine import Aff

INNER = 3  # vectors of a row of a buffer from which on one lies between two edges
ASKED = 4  # elements of a window from which a question a vector is cheaper than a mask an element


def interior(nest: Nest, n: Point, last: Mapping[str, Aff]) -> tuple[str, Nest] | None:
    """For one vector of a loop over windows: (C condition that all elements read in it lie inside of their tensors, the nest without
    these guards). `last`: the value in the last lane of the axis that runs across them, and in the last row of one of which rows run
    side by side. None where there are no windows with edges, or where their reach is not known."""
    inner = {p.axis: nest.extent[p.axis] for p in points(n.body)}
    sizes = [e for a, e in inner.items() if isinstance(e, int) and a not in nest.tile]
    fills = _fills(nest, n)
    if "unmask_interior" not in nest.schemes or (not inner and not fills) or len(sizes) < len(inner) or any(contractions(n.body)):
        return None
    read = sorted({x for s in statements(n.body) for x in reads(s) if x in nest.views and nest.views[x].guard})
    if not read or (prod(sizes) < ASKED and not fills) or min(sizes, default=1) < 1:
        return None
    asked: dict[str, None] = {}
    guards = [g for x in read for g in nest.views[x].guard]
    for g in guards:
        if not g.is_affine:
            return None
        ends = {a: Aff.of(0 if g.coef(a) > 0 else e - 1) for a, e in inner.items() if isinstance(e, int)}
        least = g.substitute(ends | {a: end for a, end in last.items() if g.coef(a) < 0})
        asked[f"{index_text(least)} >= 0"] = None
    plain = {x: replace(nest.views[x], guard=()) for x in read}
    return " && ".join(asked), replace(nest, views={**nest.views, **plain}, inside=frozenset(guards))


def _fills(nest: Nest, n: Point) -> bool:
    """Does a loop over vectors fill a buffer that windows are read from, in rows of which some vectors touch no edge?"""
    extent = nest.extent[n.axis]
    long = n.vector and isinstance(extent, int) and extent >= INNER * nest.lanes
    return long and all(s.op == "map" and s.dst in nest.buffers for s in statements(n.body))
