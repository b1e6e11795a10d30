"""The judge: does a transformation keep every dependence? Yes, or two iterations that would run in the wrong order.

Every answer comes out of `violations`, the one function that compares a dependence relation with an order. It asks isl once
for a class of nests (symbolic sizes) and is memoised, so rules may ask as often as they match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import islpy as isl

from autocomp.errors import IllegalTransform
from autocomp.ir.types import Sym
from autocomp.loops import effort, sets
from autocomp.loops.dependence import dependences, order_map, relaxed, statement_domain, symbols_of, touching, union_of
from autocomp.loops.effort import OverBudget, counted
from autocomp.loops.nest import Access, LoopNest, Statement
from autocomp.loops.order import Order
from autocomp.loops.transforms import Transform
from autocomp.loops.verdict import Instance, Verdict, Witness

Steps = Transform | Sequence[Transform]


def check(nest: LoopNest, steps: Steps, reassociate: bool = True) -> Verdict:
    """Is the nest after these transformations (in order, from its present rows) still the same program?

    reassociate: may reductions whose monoid allows it be regrouped (`exact: false` rules)?
    A structural impossibility (no such loop) is a no with a `why`; an order violation one with a witness.
    """
    try:
        for step in (steps,) if isinstance(steps, Transform) else steps:
            nest = step.apply(nest)
    except IllegalTransform as e:
        return Verdict(False, why=e.what)
    return verdict(nest.nest_class(), reassociate)


def require(nest: LoopNest, steps: Steps, reassociate: bool = True, where: str | None = None) -> LoopNest:
    """The transformed nest, or IllegalTransform showing the two iterations."""
    answer = check(nest, steps, reassociate)
    if not answer:
        raise IllegalTransform(str(answer.witness or answer.why), where=where,
                               hint="choose another order, or allow a rule that skews, interchanges or reverses first")
    for step in (steps,) if isinstance(steps, Transform) else steps:
        nest = step.apply(nest)
    return nest


@lru_cache(maxsize=16384)
def verdict(nest: LoopNest, reassociate: bool = True) -> Verdict:
    """Judge the nest's rows and marks against its dependences (strict first, relaxed only if that fails and may help).

    Exact dependences cost most and serve the witness: a last write is before the reads only if all are. What isl does not answer within
    its limit is no proof."""
    try:
        with counted():
            return _verdict(nest, reassociate)
    except OverBudget:
        return Verdict(False, why=_over_budget())


def _over_budget() -> str:
    return f"not proved: over budget, more than {effort.OPERATIONS} operations of isl"


def _verdict(nest: LoopNest, reassociate: bool) -> Verdict:
    if _first_violation(nest, touching(nest.statements, nest.origin)) is None:
        return Verdict(True)
    bad_relaxed = None
    if reassociate and any(s.reassociable for s in nest.statements):
        bad_relaxed = _first_violation(nest, relaxed(nest.statements, nest.origin))
        if bad_relaxed is None and not _unsplit_reduction(nest):
            return Verdict(True, reassociates=True)

    def find() -> Witness | str:
        try:
            with counted():
                bad = bad_relaxed or _first_violation(nest, dependences(nest.statements, nest.origin).order)
                assert bad is not None, "pairs that touch one cell are dependences, or follow from some"
                return _witness(nest, *bad())
        except OverBudget:
            return _over_budget()

    return Verdict(False, find=find)


def _unsplit_reduction(nest: LoopNest) -> bool:
    """A parallel loop may carry updates of one cell only where it was made by SplitReduction, which gives each part a cell
    of its own (the lanes of a vector do likewise)."""
    loops = [loop for loop, kind in nest.marks if kind == "parallel" and loop not in nest.split]
    strict = dependences(nest.statements, nest.origin).order if loops else None
    return strict is not None and any(violations(nest, strict, loop) is not None for loop in loops)


def _first_violation(nest: LoopNest, order: Order) -> Callable[[], tuple[isl.UnionMap, str]] | None:
    """What gives the violating pairs and what is wrong with them, if there are any."""
    bad = violations(nest, order, "")
    if bad is not None:
        return lambda: (p := bad(), "it would run after it" if not _ties(nest, p) else "nothing would keep them in order")
    for loop, kind in nest.marks:
        here = violations(nest, order, loop)
        if here is not None:
            fault = f"the iterations of {loop} are to run at once" if kind == "parallel" else f"both would be lanes of {loop}"
            return lambda: (here(), fault)
    return None


def violations(nest: LoopNest, order: Order, loop: str) -> Callable[[], isl.UnionMap] | None:
    """What gives the pairs of `order` that the nest's rows do not keep (loop ""), or that two different iterations of `loop` carry.

    None where there is no such pair. This is the only place where legality is decided.
    """
    if not order:
        return None
    if loop:
        carried = _carried(nest, order.pairs, loop)
        return None if carried is None else lambda: carried
    return (lambda: _backwards(nest, order.pairs)) if order.goes_back(nest.rows, _free_dims(nest)) else None


def _backwards(nest: LoopNest, order: isl.UnionMap) -> isl.UnionMap:
    """The pairs that the rows do not keep."""
    time = order_map(nest, nest.rows, restricted=False)
    deltas = isl.Map.from_union_map(order.apply_domain(time).apply_range(time)).deltas()
    return _pairs(nest, order, time, _relax_free(nest, deltas).intersect(_lex_not_positive(deltas.dim(isl.dim_type.set))))


@lru_cache(maxsize=64)
def _lex_not_positive(n: int) -> isl.Set:
    """{ [d0, ..., dn-1] : d <=lex 0 }"""
    def before(k: int) -> str:
        return " and ".join([*(f"d{i} = 0" for i in range(k)), *([f"d{k} < 0"] if k < n else [])])
    return isl.Set(f"{{ [{', '.join(f'd{k}' for k in range(n))}] : {' or '.join(f'({before(k)})' for k in range(n + 1))} }}")


def _free_dims(nest: LoopNest) -> frozenset[int]:
    """Positions in the flat vector that are tile loops of open size."""
    return frozenset(2 * p + 1 for r in nest.rows for p, l in enumerate(r.loops) if l.free)


def _relax_free(nest: LoopNest, deltas: isl.Set) -> isl.Set:
    """A tile loop of any size moves by something between 0 and the loop's own distance."""
    free = _free_dims(nest)
    if not free:
        return deltas
    return deltas.apply(_relaxation(deltas.dim(isl.dim_type.set), free))


@lru_cache(maxsize=1024)
def _relaxation(n: int, free: frozenset[int]) -> isl.Map:
    cons = [f"(0 <= e{k} <= d{k} or d{k} <= e{k} <= 0)" if k in free else f"e{k} = d{k}" for k in range(n)]
    d, e = (", ".join(f"{x}{k}" for k in range(n)) for x in "de")
    return isl.Map(f"{{ [{d}] -> [{e}] : {' and '.join(cons)} }}")


def _pairs(nest: LoopNest, order: isl.UnionMap, time: isl.UnionMap, bad: isl.Set) -> isl.UnionMap:
    """Pairs of `order` whose distance (open tile sizes included) lies in `bad`."""
    free = _free_dims(nest)
    if free:
        bad = bad.apply(_relaxation(bad.dim(isl.dim_type.set), free).reverse())
    shift = isl.UnionMap.from_map(bad.translation())
    return order.intersect(time.apply_range(shift).apply_range(time.reverse()))


def _ties(nest: LoopNest, pairs: isl.UnionMap) -> bool:
    """Does a violating pair fall on the same instant?"""
    time = order_map(nest, nest.rows)
    return not pairs.intersect(time.apply_range(time.reverse())).is_empty()


def _carried(nest: LoopNest, order: isl.UnionMap, loop: str) -> isl.UnionMap | None:
    """Pairs within one iteration of all loops outside `loop` but in different iterations of it."""
    out = None
    places: dict[int, list[int]] = {}
    for n, r in enumerate(nest.rows):
        if loop in r.names():
            places.setdefault(r.names().index(loop), []).append(n)
    time = order_map(nest, nest.rows)
    for place, members in sorted(places.items()):
        inside = union_of(_identity(nest, n) for n in members)
        among = inside.apply_range(order).apply_range(inside)
        if among.is_empty():
            continue
        deltas = isl.Map.from_union_map(among.apply_domain(time).apply_range(time)).deltas()
        for k in range(2 * place + 1):
            deltas = deltas.fix_val(isl.dim_type.set, k, isl.Val(0))
        deltas = _relax_free(nest, deltas)
        k = 2 * place + 1
        bad = deltas.subtract(deltas.fix_val(isl.dim_type.set, k, isl.Val(0)))
        if not bad.is_empty():
            pairs = _pairs(nest, among, time, bad)
            out = pairs if out is None else out.union(pairs)
    return out


def _identity(nest: LoopNest, n: int) -> isl.Map:
    return statement_domain(nest.statements[n], symbols_of(nest)).identity()


# ---- witnesses

def _witness(nest: LoopNest, pairs: isl.UnionMap, fault: str) -> Witness:
    """The first violating pair at small sizes, with the memory cell both touch."""
    found: list[isl.Map] = []
    pairs.foreach_map(found.append)
    m = min(found, key=lambda m: (m.get_tuple_name(isl.dim_type.in_), m.get_tuple_name(isl.dim_type.out)))
    names = [m.get_tuple_name(k) for k in (isl.dim_type.in_, isl.dim_type.out)]
    sizes, point = sets.sample(m.wrap())
    a, b = (nest.statement(n) for n in names)
    first = Instance(a.name, tuple(zip(a.names, point[:len(a.axes)], strict=True)))
    second = Instance(b.name, tuple(zip(b.names, point[len(a.axes):], strict=True)))
    cell, how = _conflict(a, dict(first.point), b, dict(second.point), sizes)
    shown = {d.extent.name for d in (*a.axes, *b.axes) if isinstance(d.extent, Sym)}
    return Witness(first, second, cell, how, fault, tuple(sorted((n, v) for n, v in sizes.items() if n in shown)))


def _conflict(a: Statement, at: dict[str, int], b: Statement, bt: dict[str, int], sizes: dict[str, int]) -> tuple[str, str]:
    """The cell both instances touch, one of them writing it."""
    for xs, ys, how in ((a.writes, b.reads, "write then read"), (a.reads, b.writes, "read then write"),
                        (a.writes, b.writes, "write then write")):
        for x in xs:
            for y in ys:
                p, q = ([i.eval({**sizes, **e}) for i in z.index] for z, e in ((x, at), (y, bt)))
                if x.tensor == y.tensor and p == q and _active(x, at, sizes) and _active(y, bt, sizes):
                    return f"{x.tensor}{p}", how
    return "memory", "dependence"


def _active(x: Access, at: dict[str, int], sizes: dict[str, int]) -> bool:
    return all(g.eval({**sizes, **at}) >= 0 for g in x.guard)
