"""A loop over vectors runs apart over each range of its axis in which the conditions on it are decided.

    for j in 0 .. J:  y[j] = j < A ? x[j] : z[j - A]     each vector with masks
    ->  for j in 0 .. A:  y[j] = x[j];   for j in A .. J:  y[j] = z[j - A]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from autocomp.targets.cpu.lower import Nest, reads
from autocomp.targets.cpu.storage import extent_in_tile
from autocomp.targets.cpu.tree import Point

from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Inside, Map, postorder, rewrite
from autocomp.ir.types import BOOL
from autocomp.tile.program import Stmt

Ranges = Mapping[str, tuple[int, int]]  # axis -> its first and last index here
MOST = 4  # conditions that change along one axis
MORE = 1.5  # times the vectors of the undivided loop, which ask at each


def ranges(nest: Nest, n: Point) -> list[tuple[int, int]]:
    """The ranges (first, one past the last) that a loop over vectors is divided into; [] where it stays whole."""
    extent, a = extent_in_tile(nest, n.axis), n.axis
    body = [s for s in n.body if isinstance(s, Stmt)]
    if not isinstance(extent, int) or a in nest.tile or len(body) < len(n.body) or any(s.op not in ("map", "store") for s in body):
        return []
    cuts = sorted({c for g in _conditions(nest, body) if (c := _changes(g, a)) is not None and 0 < c < extent})
    ends = [0, *cuts, extent]
    vectors = lambda size: -(-size // nest.lanes)
    out = list(zip(ends, ends[1:], strict=False))
    return out if 0 < len(cuts) <= MOST and sum(vectors(hi - lo) for lo, hi in out) <= MORE * vectors(extent) else []


def decided(e: Expr, where: Ranges, holds: Collection[Aff] = ()) -> Expr:
    """The expression with the conditions that a range decides, without those that hold."""
    def fold(x: Expr) -> Expr:
        if isinstance(x, Inside):
            left = guards(tuple(g for g in x.guard if g not in holds), where)
            return Const(BOOL, False) if left is None else Inside(x.dtype, left) if left else Const(BOOL, True)
        if isinstance(x, Map) and x.fn == "where" and isinstance(x.args[0], Const):
            return x.args[1] if x.args[0].value else x.args[2]
        return x

    return rewrite(e, fold) if where or holds else e


def guards(found: tuple[Aff, ...], where: Ranges) -> tuple[Aff, ...] | None:
    """The guards that a range does not decide; None where one of them never holds."""
    left = []
    for g in found if where else ():
        if not g.names() <= where.keys() or not g.is_affine:
            left.append(g)
            continue
        ends = [g.eval(dict(zip(g.names(), at, strict=True))) for at in zip(*(where[a] for a in g.names()), strict=True)] or [g.const]
        if max(ends) < 0:
            return None
        if min(ends) < 0:
            left.append(g)
    return tuple(left) if where else found


def _conditions(nest: Nest, body: list[Stmt]) -> Iterator[Aff]:
    for s in body:
        for v in (nest.views[x] for x in reads(s) if x in nest.views):
            yield from v.guard
        for e in postorder(s.expr) if isinstance(s.expr, Expr) else ():
            if isinstance(e, Inside):
                yield from e.guard


def _changes(g: Aff, axis: str) -> int | None:
    """The first index at which a condition on the axis alone holds where it did not before, or no more."""
    if g.names() != {axis} or not g.is_affine:
        return None
    c, d = g.coef(axis), g.const
    return -(d // c) if c > 0 else d // -c + 1
