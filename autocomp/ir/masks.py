"""Masks over indices: where one says that the rest of a reduction is its identity, a loop ends; sums that none takes are not made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Const, Contract, Expr, Index, Inside, Map, Reduce, postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.monoids import MONOIDS
from autocomp.ir.types import I32, I64

FAR = 1 << 28  # numbers with which indices are added in 32 bits without wrapping


def guard_of(e: Expr) -> Aff | None:
    """g where a comparison of indices, or of sums of theirs, says g >= 0."""
    if not (isinstance(e, Map) and len(e.args) == 2):
        return None
    a, b = map(_affine, e.args)
    if a is None or b is None or not (a.names() or b.names()):
        return None
    return {"ge": a - b, "gt": a - b - 1, "le": b - a, "lt": b - a - 1}.get(e.fn)


def _affine(e: Expr) -> Aff | None:
    """A sum or a difference of indices and numbers, in types that hold it."""
    if isinstance(e, Index):
        return e.index if e.dtype.bytes >= 4 else None
    if e.dtype not in (I32, I64):
        return None
    if isinstance(e, Const):
        return Aff.of(int(e.value)) if abs(e.value) < FAR else None
    if not (isinstance(e, Map) and e.fn in ("add", "sub") and len(e.args) == 2):
        return None
    a, b = map(_affine, e.args)
    return None if a is None or b is None else a + b if e.fn == "add" else a - b


def masked_by(e: Expr, reads: Callable[[Expr], bool]) -> tuple[Aff, ...] | None:
    """What an expression asks to be at least 0 before what it reads reaches it; () where it may always, None where it reads no such."""
    known: dict[int, tuple[Aff, ...] | None] = {}  # of each node once: many share their operands
    for x in postorder(e):
        known[id(x)] = () if reads(x) else _behind(x, [known[id(a)] for a in x.args])
    return known[id(e)]


def _behind(e: Expr, args: Sequence[tuple[Aff, ...] | None]) -> tuple[Aff, ...] | None:
    """The same of a node, by what its operands ask."""
    if isinstance(e, Map) and e.fn == "where":
        mask, chosen, other = args
        guards = asked(e.args[0])
        if mask is None and guards and (chosen is None) != (other is None):
            if chosen is not None:
                return guards + chosen
            if len(guards) == 1:  # read where the mask does not hold
                return (-guards[0] - 1, *(other or ()))
    found = [g for g in args if g is not None]
    return None if not found else found[0] if all(g == found[0] for g in found) else ()


def asked(mask: Expr) -> tuple[Aff, ...]:
    """What a mask asks to be at least 0; () where it asks for anything but indices."""
    guard = guard_of(mask)
    return tuple(mask.guard) if isinstance(mask, Inside) else (guard,) if guard is not None else ()


def end_of(e: Reduce | Contract, axis: str, rows: Collection[str]) -> tuple[str, int] | None:
    """(row i, c) where all that a reduction folds past index i + c of an axis is its identity, by a mask over indices."""
    if not isinstance(e, Reduce) or not MONOIDS[e.monoid].modules:
        return None
    x = e.operands[0]
    while isinstance(x, Map) and x.fn == "cast":
        x = x.args[0]
    if not (isinstance(x, Map) and x.fn == "where" and isinstance(x.args[2], Const) and x.args[2].value == float("-inf")):
        return None
    g = guard_of(x.args[0])
    if g is None or g.coef(axis) != -1:
        return None
    rest = g + axis
    named = [n for n in rest.names() if n in rows]
    if len(named) != 1 or rest.coef(named[0]) != 1 or rest != aff(named[0]) + rest.const:
        return None
    return named[0], rest.const


@lru_cache(maxsize=1024)
def masked_sums(k: Kernel) -> tuple[Aff, ...]:
    """What all results of a kernel ask of their indices, to be at least 0, before a sum of its reaches them; () where one may always."""
    reads = lambda e: isinstance(e, (Contract, Reduce))
    found = {masked_by(s.value, reads) for s in k.stores}
    guards = found.pop() if len(found) == 1 else None
    whole = {a.name for a in k.axes if isinstance(a.extent, int)}
    return guards if guards and all(g.names() <= whole and all(isinstance(a, str) for a, _ in g.terms) for g in guards) else ()


def tiles_inside(guards: Sequence[Aff], extent: Mapping[str, int], tile: Mapping[str, int]) -> float:
    """The share of tiles in which some element may have all guards at least 0: those whose greatest values are."""
    names = sorted({n for g in guards for n in g.names()})
    size = {n: min(tile.get(n, extent[n]), extent[n]) for n in names}
    bases = dict(zip(names, np.meshgrid(*(np.arange(0, extent[n], size[n]) for n in names), indexing="ij", sparse=True)))
    inside = np.ones([len(range(0, extent[n], size[n])) for n in names], bool)
    for g in guards:
        inside &= greatest(g, bases, size) >= 0
    return float(inside.mean())


def greatest(g: Aff, first: Mapping[str, Any], size: Mapping[str, int]) -> Any:
    """The greatest value of a sum of indices in tiles that begin at `first`."""
    return g.const + sum(c * (first[str(a)] + (size[str(a)] - 1 if c > 0 else 0)) for a, c in g.terms)


def shares_left(depth: int, step: int, rows: int, tile: int, past: int) -> tuple[float, float]:
    """Of a loop over `depth` in steps, the share of turns that tiles of rows make in the mean, and the longest of them (`turns_left`)."""
    left, whole = turns_left(depth, step, rows, tile, past), -(-depth // step)
    return sum(left) / len(left) / whole, max(left) / whole


def turns_left(depth: int, step: int, rows: int, tile: int, past: int) -> list[int]:
    """Turns of a loop over `depth` in steps that each tile of rows makes, where it ends behind the step that holds index i + past, i its
    last row."""
    return [max(0, min(-(-depth // step), (b + tile - 1 + past) // step + 1)) for b in range(0, rows, tile)]
