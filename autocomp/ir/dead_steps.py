"""Steps in depth at which a factor is zero wherever a block looks: the taps that a phase of a transposed convolution does not have."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from autocomp.ir.affine import Aff
from autocomp.ir.body import Contract, Expr, Load


def ends_of(guards: Iterable[Aff], depth: Container[str], extents: Mapping[str, int]) -> dict[str, Aff]:
    """Of axes of the depth along which a factor ends sooner at some places of the grid, the guard that says where: >= 0 up to the end, a
    sum of that axis, counted down, and of axes of the grid. `guards`: of one factor's loads; `extents`: of all axes with a known one.

    None of an axis that would not begin everywhere, or that ends at the same step everywhere.
    """
    found: dict[str, Aff] = {}
    for g in guards:
        names = [a for a, _ in g.terms if isinstance(a, str) and a in extents]
        mine = [a for a in names if a in depth]
        if len(names) != len(g.terms) or len(mine) != 1 or len(names) < 2 or g.coef(mine[0]) >= 0 or mine[0] in found:
            continue
        others = [(g.coef(a) * (extents[a] - 1)) for a in names if a not in depth]
        least = g.const + sum(min(0, x) for x in others)
        if least >= 0 > least + g.coef(mine[0]) * (extents[mine[0]] - 1):
            found[mine[0]] = g
    return found


def endings(nodes: Iterable[Expr], depth: Container[str], extents: Mapping[str, int]) -> dict[str, Aff]:
    """The same of the products among a body's nodes, by any factor that is read with zeros outside."""
    found: dict[str, Aff] = {}
    for x in (x for e in nodes if isinstance(e, Contract) for x in (e.a, e.b)):
        if isinstance(x, Load) and x.fill == 0.0:
            found = ends_of(x.guard, depth, extents) | found
    return found


def share_left(axis: str, guard: Aff, extents: Mapping[str, int]) -> float:
    """Of an axis' steps, the part that is there in the mean of all places."""
    places = [guard.const]
    for a in (a for a in guard.names() if a != axis):
        places = [p + guard.coef(a) * i for p in places for i in range(extents[a])]
    steps = (min(extents[axis], p // -guard.coef(axis) + 1) for p in places)
    return sum(steps) / (len(places) * extents[axis])
