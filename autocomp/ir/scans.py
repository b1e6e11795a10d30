"""Running reductions as scans: what each element folds of those in front of it is found once for all of them.

    s[i] = sum_r where(r <= i, x[r], 0)          each element folds all: quadratic
    s    = scan add i x                          each adds itself to what the one in front of it has

A reduction is running where its operand is masked by its own axis against one axis of the output, as long, varies along the first and
mentions the second nowhere else; the operand read at the output's axis is then what the scan goes over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Const, Expr, Index, Inside, Load, Map, Read, Reduce, postorder, rewrite, substitute
from autocomp.ir.kernel import Kernel
from autocomp.ir.monoids import MONOIDS, identity, neutral
from autocomp.ir.types import dim_hint


@dataclass(frozen=True, eq=False)
class Scan(Expr):
    """At each point of `axis` the fold with the scalar function `fn` of the operand's elements up to there; `reverse`: from there on."""

    fn: str
    axis: str
    operand: Expr
    reverse: bool = False

    @property
    def args(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return replace(self, operand=args[0])


@dataclass(frozen=True)
class Running:
    """A running reduction: over `folded` up to `axis`; `past` elements before it are left out (1: exclusive). `whole`: the operand
    without its mask."""

    fn: str
    axis: Axis
    folded: Axis
    reverse: bool
    past: int
    whole: Expr


def running(e: Expr, axes: Sequence[Axis]) -> Running | None:
    """How a reduction runs along one of the output's axes, or backwards where what it reads is flipped; None where it does not."""
    if not isinstance(e, Reduce) or len(e.axes) != 1 or len(e.operands) != 1:
        return None
    (r,) = e.axes
    if found := _running(e, axes):
        return found
    if not isinstance(r.extent, int):
        return None
    flipped = tuple(substitute(x, {r.name: Aff() - r.name + (r.extent - 1)}) for x in e.operands)
    return _running(replace(e, operands=flipped), axes)


def _running(e: Reduce, axes: Sequence[Axis]) -> Running | None:
    m, (r,) = MONOIDS[e.monoid], e.axes
    if m.modules or m.pick or len(m.base) != 1 or m.base[0][2] != m.operands[0] or m.finish != m.base[0][0]:
        return None
    fn = m.base[0][1]
    found: set[tuple[Axis, bool, int]] = set()
    whole = _unmasked(e.operands[0], fn, r, axes, found)
    if whole is None or len(found) != 1:
        return None
    ((axis, reverse, past),) = found
    read = {n for x in postorder(whole) for i in _indices(x) for n in i.names()}
    if axis.name in read or r.name not in read:  # what is the same all along has no elements to go over
        return None
    return Running(fn, axis, r, reverse, past, whole)


def _indices(x: Expr) -> tuple[Aff, ...]:
    if isinstance(x, (Load, Read)):
        return (*x.index, *x.guard)
    return (x.index,) if isinstance(x, Index) else x.guard if isinstance(x, Inside) else ()


def _unmasked(x: Expr, fn: str, r: Axis, axes: Sequence[Axis], found: set[tuple[Axis, bool, int]]) -> Expr | None:
    """The operand without the mask that makes a reduction run, which goes into `found`; None where what is masked changes the fold."""
    if isinstance(x, Map) and x.fn == "cast":
        inner = _unmasked(x.operands[0], fn, r, axes, found)
        return None if inner is None else x.with_args((inner,))
    if isinstance(x, (Load, Read)):
        left = _without(x.guard, r, axes, found)
        return replace(x, guard=left) if len(left) < len(x.guard) and x.fill == identity(fn, x.dtype) else None
    if isinstance(x, Map) and x.fn == "where" and isinstance(mask := x.operands[0], Inside):
        left, outside = _without(mask.guard, r, axes, found), x.operands[2]
        if len(left) == len(mask.guard) or not isinstance(outside, Const) or outside.value != identity(fn, x.dtype):
            return None
        return x.operands[1] if not left else x.with_args((replace(mask, guard=left), *x.operands[1:]))
    return None


def _without(guard: Sequence[Aff], r: Axis, axes: Sequence[Axis], found: set[tuple[Axis, bool, int]]) -> tuple[Aff, ...]:
    left = []
    for g in guard:
        for a in axes:
            ahead, past = aff(a.name) - r.name, -g.const
            if a.extent == r.extent and isinstance(a.extent, int) and past in (0, 1) and g in (ahead - past, Aff() - ahead - past):
                found.add((a, g != ahead - past, past))
                break
        else:
            left.append(g)
    return tuple(left)


def is_running(k: Kernel) -> bool:
    """Whether every reduction of a kernel runs along one and the same axis."""
    folds = [e for e in postorder(*(s.value for s in k.stores)) if isinstance(e, Reduce)]
    along = {x.axis if (x := running(e, k.axes)) else None for e in folds}
    return len(along) == 1 and None not in along


def as_scans(k: Kernel) -> Kernel:
    """The kernel with scans for its running reductions. Raises UnsupportedOp where it has none."""

    def go(e: Expr) -> Expr:
        x = running(e, k.axes)
        if x is None:
            return e
        here = aff(x.axis.name)
        at = here + x.past if x.reverse else here - x.past
        operand = substitute(x.whole, {x.folded.name: at})
        if x.past:  # nothing is in front of the first
            inside = Inside.of((aff(dim_hint(x.axis.extent)) - 1 - at if x.reverse else at,))
            operand = _guarded(operand, inside, neutral(x.fn, operand.dtype))
        return Scan(e.dtype, x.fn, x.axis.name, operand, x.reverse)

    if not is_running(k):
        raise UnsupportedOp(f"{k.name} has no reduction that runs along an axis of its result", where=f"kernel {k.name}",
                            hint="`scan` is for running sums, products, maxima")  # fmt: skip
    return replace(k, stores=tuple(replace(s, value=rewrite(s.value, go)) for s in k.stores))


def _guarded(x: Expr, inside: Inside, outside: float) -> Expr:
    """`x` where it is inside, and nothing is read elsewhere."""
    by = {id(e): replace(e, guard=(*e.guard, *inside.guard)) for e in postorder(x) if isinstance(e, Load)}
    read = rewrite(x, lambda e: by.get(id(e), e))
    return Map(x.dtype, "where", (inside, read, Const(x.dtype, outside)))


def as_statistic(k: Kernel) -> Kernel:
    """The kernel with a fold of the whole row in each running reduction's place: it reads, folds and writes as much as its scan does,
    which is how it is priced and tiled."""
    go = lambda e: replace(e, operands=(x.whole,)) if (x := running(e, k.axes)) else e
    return replace(k, stores=tuple(replace(s, value=rewrite(s.value, go)) for s in k.stores))
