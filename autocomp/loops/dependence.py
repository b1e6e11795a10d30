"""Dependences of a loop nest, by isl: which pairs of instances must keep their order, and why.

exact    flow (read after its last write), anti (write after read), output (write after write)
relaxed  the same without the order among updates of one cell of a reassociable reduction. Memory based on purpose: with
         that order gone *every* update, not only the last, must precede the cell's readers and follow its initialisation;
         dropping self pairs from the last-writer form would accept an epilogue placed half way through the reduction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import islpy as isl

from autocomp.ir.affine import Aff
from autocomp.ir.types import Sym
from autocomp.loops import sets
from autocomp.loops.nest import Access, LoopNest, Rows, Statement
from autocomp.loops.order import Order


@dataclass(frozen=True)
class Dependences:
    """Union maps {earlier instance -> later instance}. `order` is what must be kept."""

    flow: isl.UnionMap
    anti: isl.UnionMap
    output: isl.UnionMap
    order: Order


@lru_cache(maxsize=4096)
def symbols_of(nest: LoopNest) -> tuple[Sym, ...]:
    """Every symbol that extents mention."""
    return sets.symbols(a.extent for s in nest.statements for a in s.axes)


def _extents(s: Statement) -> sets.Extents:
    return tuple((a.name, a.extent) for a in s.axes)


def statement_domain(s: Statement, syms: tuple[Sym, ...]) -> isl.Set:
    """The statement's instances."""
    return sets.domain(_extents(s), s.guard, syms, s.name)


def _accesses(nest: LoopNest, pick: list[tuple[Statement, Access]]) -> isl.UnionMap:
    syms = symbols_of(nest)
    out = isl.UnionMap.empty(isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0))
    for s, a in pick:
        m = sets.function(_extents(s), a.index, syms, s.name, a.tensor)
        out = out.union(isl.UnionMap.from_map(m.intersect_domain(sets.domain(_extents(s), (*s.guard, *a.guard), syms, s.name))))
    return out


def order_map(nest: LoopNest, rows: tuple[Rows, ...], restricted: bool = True) -> isl.UnionMap:
    """{ instance -> time }: the rows as an isl schedule, restricted to each statement's domain (enough without where a
    relation on the domains is moved by it)."""
    syms, depth = symbols_of(nest), 1 + 2 * max(len(r.loops) for r in rows)
    return union_of(statement_time(s, r.flat(depth), syms, restricted) for s, r in zip(nest.statements, rows, strict=True))


def union_of(maps) -> isl.UnionMap:  # type: ignore[no-untyped-def]
    out = isl.UnionMap.empty(isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0))
    for m in maps:
        out = out.union(isl.UnionMap.from_map(m))
    return out


@lru_cache(maxsize=16384)
def statement_time(s: Statement, time: tuple[Aff, ...], syms: tuple[Sym, ...], restricted: bool) -> isl.Map:
    """{ s[axes] -> [time] }, on the statement's domain if restricted."""
    every = sets.function(_extents(s), time, syms, s.name)
    return every.intersect_domain(statement_domain(s, syms)) if restricted else every


@lru_cache(maxsize=2048)
def dependences(statements: tuple[Statement, ...], origin: tuple[Rows, ...]) -> Dependences:
    """Exact dependences of the program as written."""
    nest = LoopNest(statements, origin, origin)
    reads = _accesses(nest, [(s, a) for s in statements for a in s.reads])
    writes = _accesses(nest, [(s, a) for s in statements for a in s.writes])
    time = order_map(nest, origin)
    before = time.lex_lt_union_map(time)
    info = isl.UnionAccessInfo.from_sink(reads).set_must_source(writes).set_schedule_map(time)
    flow = info.compute_flow().get_must_dependence()
    anti = reads.apply_range(writes.reverse()).intersect(before)
    output = writes.apply_range(writes.reverse()).intersect(before)
    return Dependences(flow, anti, output, Order(statements, flow.union(anti).union(output).coalesce()))


@lru_cache(maxsize=2048)
def touching(statements: tuple[Statement, ...], origin: tuple[Rows, ...]) -> Order:
    """Pairs {earlier -> later} that touch one cell, one of them writing it: the exact dependences and pairs that follow from two of
    them, so that an order keeps all of these where it keeps the exact ones. It takes a tenth of the time."""
    nest = LoopNest(statements, origin, origin)
    writes = _accesses(nest, [(s, a) for s in statements for a in s.writes])
    touches = writes.union(_accesses(nest, [(s, a) for s in statements for a in s.reads]))
    return Order(statements, _earlier_first(nest, writes.apply_range(touches.reverse())))


def _earlier_first(nest: LoopNest, pairs: isl.UnionMap) -> isl.UnionMap:
    """The pairs with the instance in front that runs first as the program is written. isl compares times only where two statements share
    a loop: for all of a chain's statements at once that takes longer than any other question about it."""
    syms, number = symbols_of(nest), {s.name: n for n, s in enumerate(nest.statements)}
    found: list[isl.Map] = []
    pairs.foreach_map(found.append)
    out: list[isl.Map] = []
    for m in found:
        a, b = (number[m.get_tuple_name(kind)] for kind in (isl.dim_type.in_, isl.dim_type.out))
        first, second = nest.origin[a], nest.origin[b]
        if first.beta[0] != second.beta[0]:
            out.append(m if first.beta[0] < second.beta[0] else m.reverse())
            continue
        depth = 1 + 2 * max(len(first.loops), len(second.loops))
        x, y = (statement_time(nest.statements[n], nest.origin[n].flat(depth), syms, False) for n in (a, b))
        out += [m.intersect(x.lex_lt_map(y)), m.reverse().intersect(y.lex_lt_map(x))]
    return union_of(out)


@lru_cache(maxsize=2048)
def relaxed(statements: tuple[Statement, ...], origin: tuple[Rows, ...], only: frozenset[str] | None = None) -> Order:
    """Order that must be kept when reassociable reductions (those of the statements in `only`; None = all) may be regrouped."""
    nest = LoopNest(statements, origin, origin)

    def folds(s: Statement, a: Access) -> bool:
        return s.reassociable and a == s.cell and (only is None or s.name in only)

    every = [(s, a) for s in statements for a in dict.fromkeys((*s.reads, *s.writes))]
    writes = {(s.name, a) for s in statements for a in s.writes}
    plain = [(s, a) for s, a in every if not folds(s, a)]
    fold = [(s, a) for s, a in every if folds(s, a)]
    touch = _accesses(nest, every)
    write = _accesses(nest, [(s, a) for s, a in every if (s.name, a) in writes])
    plain_touch = _accesses(nest, plain)
    plain_write = _accesses(nest, [(s, a) for s, a in plain if (s.name, a) in writes])
    pairs = plain_touch.apply_range(write.reverse()).union(plain_write.apply_range(touch.reverse()))
    for s, a in fold:
        others = _accesses(nest, [(t, b) for t, b in fold if t != s])
        pairs = pairs.union(_accesses(nest, [(s, a)]).apply_range(others.reverse()))
    return Order(statements, _earlier_first(nest, pairs).coalesce())  # a fold writes wherever it reads
