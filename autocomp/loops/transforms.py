"""Loop transformations as frozen records; `apply` returns the nest in its new order and asks nothing about legality.

`loops.legality.check` is the judge. Loops are named; a transformation acts on every statement that has the loops named
(or on those in `of`). A tile loop of i is called `i_tile`, a lane loop `i_lane`, a part loop `i_part`.
Each docstring draws before -> after and gives the index equation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autocomp.errors import IllegalTransform
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis
from autocomp.loops.nest import Access, LoopDim, LoopNest, Rows, Statement


@dataclass(frozen=True)
class Transform:
    """Base: `apply(nest)` gives the transformed nest, or raises IllegalTransform where the loops named are not there."""

    def apply(self, nest: LoopNest) -> LoopNest:
        return nest


@dataclass(frozen=True)
class Interchange(Transform):
    """Swap two loops.

        for i: for j: S(i, j)      ->      for j: for i: S(i, j)             (i, j) -> (j, i)

    Statements inside the outer loop that lack the inner one are distributed into loops of their own first.
    """

    a: str
    b: str
    of: tuple[str, ...] = ()

    def apply(self, nest: LoopNest) -> LoopNest:
        def swap(r: Rows) -> Rows:
            p, q = r.names().index(self.a), r.names().index(self.b)
            loops = list(r.loops)
            loops[p], loops[q] = loops[q], loops[p]
            return replace(r, loops=tuple(loops))
        rows, members = _separate(nest, (self.a, self.b), self.of)
        return nest.with_rows(_at(rows, members, swap))


@dataclass(frozen=True)
class Tile(Transform):
    """Cut a band of loops into tiles; the last tile may be partial.

        for i: for j: S(i, j)   ->   for i_tile: for j_tile: for i in i_tile: for j in j_tile: S(i, j)
        (i, j) -> (floor(i/Ti), floor(j/Tj), i, j)

    A size of None stands for every size. A statement with only the first loops of the band (the initialisation and the
    epilogue of a reduction) is tiled by those and runs for the whole tile before or after the others.
    """

    band: tuple[str, ...]
    sizes: tuple[int | None, ...]
    of: tuple[str, ...] = ()

    def apply(self, nest: LoopNest) -> LoopNest:
        if len(self.sizes) != len(self.band):
            raise IllegalTransform(f"{len(self.band)} loops {self.band} but {len(self.sizes)} tile sizes")
        if len(set(self.band)) != len(self.band):
            raise IllegalTransform(f"a loop is named twice in the band {', '.join(self.band)}")
        if none := [n for n in self.sizes if n is not None and n < 1]:
            raise IllegalTransform(f"a tile of {none[0]} elements")
        size = dict(zip(self.band, self.sizes, strict=True))
        _members(nest, self.band, self.of)

        def tile(r: Rows) -> Rows:
            p = r.names().index(self.band[0])
            n = len([x for x, y in zip(r.names()[p:], self.band) if x == y])
            band = r.loops[p:p + n]
            tiles = tuple(_tile_loop(l, size[l.name]) for l in band)
            # Whole-band statements stay together inside the point loops; shorter ones are apart at the tile level already.
            return Rows((*r.beta[:p + n], *(0,) * n, *r.beta[p + n:]) if n == len(self.band) else
                        (*r.beta[:p + n + 1], *(0,) * n, *r.beta[p + n + 1:]), (*r.loops[:p], *tiles, *band, *r.loops[p + n:]))
        first = _having(nest, self.band[:1], self.of)
        return nest.with_rows(_at(nest.rows, first, tile))


def _tile_loop(l: LoopDim, size: int | None) -> LoopDim:
    return LoopDim(l.name + "_tile", l.value if size is None else l.value // size, free=size is None)


@dataclass(frozen=True)
class Fuse(Transform):
    """Merge nests whose outermost loops have these names, down to that depth.

        for i: S(i)                     for i:
        for i: T(i)          ->             S(i)
                                            T(i)                 beta (p, q) -> (first, position)

    Nests are merged in their old order, where the first of them stands.
    """

    loops: tuple[str, ...]
    of: tuple[str, ...] = ()

    def apply(self, nest: LoopNest) -> LoopNest:
        d = len(self.loops)
        members = [n for n in _having(nest, self.loops, self.of) if nest.rows[n].names()[:d] == self.loops]
        if len(members) < 2:
            raise IllegalTransform(f"fewer than two nests begin with loops {', '.join(self.loops)}")
        ranks = _ranks([nest.rows[n].beta[:d + 1] for n in members])
        place = min(nest.rows[n].beta[:d] for n in members)
        rows = list(nest.rows)
        for n in members:
            r = rows[n]
            rows[n] = replace(r, beta=(*place, ranks[r.beta[:d + 1]], *r.beta[d + 1:]))
        return nest.with_rows(tuple(rows))

    @property
    def depth(self) -> int:
        return len(self.loops)


@dataclass(frozen=True)
class Reverse(Transform):
    """Run a loop backwards.      for i = 0..n-1: S(i)   ->   for i = n-1..0: S(i)            i -> -i"""

    loop: str
    of: tuple[str, ...] = ()

    def apply(self, nest: LoopNest) -> LoopNest:
        return nest.with_rows(_at(nest.rows, _members(nest, (self.loop,), self.of), _value_map({self.loop: lambda v, _: -v})))


@dataclass(frozen=True)
class Skew(Transform):
    """Shift a loop by a multiple of another.

        for t: for i: S(t, i)   ->   for t: for i' = i + f*t: S(t, i' - f*t)            (t, i) -> (t, i + f*t)
    """

    loop: str
    by: str
    factor: int = 1
    of: tuple[str, ...] = ()

    def apply(self, nest: LoopNest) -> LoopNest:
        members = _members(nest, (self.by, self.loop), self.of)
        return nest.with_rows(_at(nest.rows, members, _value_map({self.loop: lambda v, at: v + at[self.by] * self.factor})))


@dataclass(frozen=True)
class Unimodular(Transform):
    """Replace a band of loops by integer combinations of them with determinant +-1.

        for i: for j: S(i, j)   ->   for p: for q: S(M^-1 (p, q))                 (i, j) -> M (i, j)
    """

    band: tuple[str, ...]
    matrix: tuple[tuple[int, ...], ...]
    of: tuple[str, ...] = ()

    def apply(self, nest: LoopNest) -> LoopNest:
        n = len(self.band)
        if any(len(row) != n for row in self.matrix) or len(self.matrix) != n:
            raise IllegalTransform(f"a band of {n} loops needs a {n} x {n} matrix, not {self.matrix}")
        if abs(determinant(self.matrix)) != 1:
            raise IllegalTransform(f"matrix {self.matrix} has determinant {determinant(self.matrix)}: it would skip or repeat "
                                   "iterations", hint="give a matrix with determinant 1 or -1")
        rows, members = _separate(nest, self.band, self.of)

        def combine(r: Rows) -> Rows:
            at = [r.names().index(b) for b in self.band]
            old = [r.loops[p].value for p in at]
            loops = list(r.loops)
            for p, coefs in zip(at, self.matrix, strict=True):
                loops[p] = replace(loops[p], value=sum((v * c for v, c in zip(old, coefs, strict=True)), Aff()))
            return replace(r, loops=tuple(loops))
        return nest.with_rows(_at(rows, members, combine))


@dataclass(frozen=True)
class Parallel(Transform):
    """Run a loop's iterations at once, in any order.     for i: S(i)   ->   parallel for i: S(i)"""

    loop: str

    def apply(self, nest: LoopNest) -> LoopNest:
        _members(nest, (self.loop,), ())
        return replace(nest, marks=(*nest.marks, (self.loop, "parallel")))


@dataclass(frozen=True)
class Vectorize(Transform):
    """Run `width` iterations of a loop side by side, statement by statement.

        for i: S(i); T(i)   ->   for i_tile: S(w*i_tile .. +w-1); T(w*i_tile .. +w-1)
        i -> (floor(i/w), ..., i mod w at once)
    """

    loop: str
    width: int

    def apply(self, nest: LoopNest) -> LoopNest:
        rows = _at(nest.rows, _members(nest, (self.loop,), ()), _strip(self.loop, self.width))
        return replace(nest, rows=rows, marks=(*nest.marks, (f"{self.loop}_lane", "lanes")))


@dataclass(frozen=True)
class UnrollAndJam(Transform):
    """Unroll an outer loop and jam the copies into the inner loops.

        for i: for j: S(i, j)   ->   for i_tile: for j: S(u*i_tile, j) ... S(u*i_tile + u-1, j)
        (i, j) -> (floor(i/u), j, i mod u)
    """

    loop: str
    factor: int

    def apply(self, nest: LoopNest) -> LoopNest:
        return nest.with_rows(_at(nest.rows, _members(nest, (self.loop,), ()), _strip(self.loop, self.factor)))


def _strip(loop: str, width: int) -> Callable[[Rows], Rows]:
    def strip(r: Rows) -> Rows:
        p = r.names().index(loop)
        v = r.loops[p].value
        loops = list(r.loops)
        loops[p] = LoopDim(loop + "_tile", v // width)
        return Rows((*r.beta, 0), (*loops, LoopDim(loop + "_lane", v - (v // width) * width)))
    return strip


@dataclass(frozen=True)
class SplitReduction(Transform):
    """Fold a reduced loop in parts that run at once and are combined afterwards.

        for k: acc op= f(k)   ->   parallel for p: { acc_p = identity; for k in part p: acc_p op= f(k) };  acc = op over p
        k -> (floor(k/c), k), c = ceil(extent / parts); every size where the extent is symbolic
    """

    loop: str
    parts: int

    def apply(self, nest: LoopNest) -> LoopNest:
        members = _members(nest, (self.loop,), ())
        for n in members:
            s = nest.statements[n]
            if s.cell is None or self.loop not in s.names or any(self.loop in i.names() for i in s.cell.index):
                raise IllegalTransform(f"{self.loop} is no reduced axis of {s.name}, there is nothing to combine",
                                       hint="make it parallel instead")

        def split(r: Rows, s: Statement) -> Rows:
            p = r.names().index(self.loop)
            extent = next(a.extent for a in s.axes if a.name == self.loop)
            part = _tile_loop(r.loops[p], -(-extent // self.parts) if isinstance(extent, int) else None)
            return Rows((*r.beta[:p + 1], 0, *r.beta[p + 1:]),
                        (*r.loops[:p], replace(part, name=self.loop + "_part"), *r.loops[p:]))
        rows = tuple(split(r, s) if n in members else r for n, (r, s) in enumerate(zip(nest.rows, nest.statements, strict=True)))
        return replace(nest, rows=rows, marks=(*nest.marks, (self.loop + "_part", "parallel")),
                       split=nest.split | {self.loop + "_part"})


@dataclass(frozen=True)
class Pipeline(Transform):
    """Load operands `stages - 1` iterations ahead into a ring of buffers.

        for k: L(k): buf[k mod b] = operands(k)         for k': L(k' + s-1)  |  C(k')
               C(k): uses buf[k mod b]             ->   (load first, or compute first)     L: k -> k - (s-1),  C: k -> k
    """

    loop: str
    stages: int
    buffers: int
    load_first: bool = True

    def apply(self, nest: LoopNest) -> LoopNest:
        members = _members(nest, (self.loop,), ())
        statements, origin, rows = list(nest.statements), list(nest.origin), list(nest.rows)
        for n in members:
            s, r = nest.statements[n], nest.rows[n]
            p = r.names().index(self.loop)
            if r.loops[p].value != aff(self.loop):
                raise IllegalTransform(f"loop {self.loop} of {s.name} was transformed before it was pipelined",
                                       hint="pipeline first, or pipeline the tile loop's own nest")
            outer = tuple(a for a in s.axes if a.name in {l.name for l in r.loops[:p + 1]})
            ring = Access(f"buf_{s.name}", (*(aff(a.name) for a in outer if a.name != self.loop), aff(self.loop) % self.buffers))
            loads = tuple(x for x in s.reads if x != s.cell)
            load = Statement(f"L_{s.name}", "load", outer, _over(loads, outer), (ring,))
            statements[n] = replace(s, reads=(*(x for x in s.reads if x == s.cell), ring))
            time = Rows((*r.beta[:p + 1], 0), r.loops[:p + 1])
            statements.append(load)
            ahead = replace(r.loops[p], value=r.loops[p].value - (self.stages - 1))
            origin[n], rows[n] = _second(nest.origin[n], p), _second(r, p, 1 if self.load_first else 0)
            origin.append(replace(time, beta=(*nest.origin[n].beta[:p + 1], 0)))
            rows.append(Rows((*r.beta[:p + 1], 0 if self.load_first else 1), (*r.loops[:p], ahead)))
        return replace(nest, statements=tuple(statements), origin=tuple(origin), rows=tuple(rows))


def _second(r: Rows, p: int, place: int = 1) -> Rows:
    """The compute half of a pipelined statement: place 0 or 1 among the two halves at level p + 1."""
    return replace(r, beta=(*r.beta[:p + 1], place, *r.beta[p + 2:]))


def _over(loads: tuple[Access, ...], outer: tuple[Axis, ...]) -> tuple[Access, ...]:
    """The reads of a load stage: those whose index is over its own axes."""
    names = {a.name for a in outer}
    return tuple(x for x in loads if all(i.names() <= names for i in x.index))


# ---- shared by the transforms

def determinant(m: tuple[tuple[int, ...], ...]) -> int:
    """Exact, by cofactors (bands are a handful of loops)."""
    if len(m) == 1:
        return m[0][0]
    return sum((-1) ** j * m[0][j] * determinant(tuple(r[:j] + r[j + 1:] for r in m[1:])) for j in range(len(m)) if m[0][j])


def _having(nest: LoopNest, loops: tuple[str, ...], of: tuple[str, ...]) -> list[int]:
    return [n for n, (s, r) in enumerate(zip(nest.statements, nest.rows, strict=True))
            if set(loops) <= set(r.names()) and (not of or s.name in of)]


def _members(nest: LoopNest, loops: tuple[str, ...], of: tuple[str, ...]) -> list[int]:
    """Statements that have all the loops; raises where none has."""
    found = _having(nest, loops, of) if loops else []
    if not found:
        raise IllegalTransform(f"no statement has the loops {', '.join(loops)} together; there are {', '.join(nest.loops())}")
    return found


def _at(rows: tuple[Rows, ...], members: list[int], f: Callable[[Rows], Rows]) -> tuple[Rows, ...]:
    return tuple(f(r) if n in members else r for n, r in enumerate(rows))


def _value_map(by: dict[str, Callable[[Aff, dict[str, Aff]], Aff]]) -> Callable[[Rows], Rows]:
    def change(r: Rows) -> Rows:
        at = {l.name: l.value for l in r.loops}
        return replace(r, loops=tuple(replace(l, value=by[l.name](l.value, at)) if l.name in by else l for l in r.loops))
    return change


def _ranks(keys: list[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    return {k: n for n, k in enumerate(sorted(set(keys)))}


def _separate(nest: LoopNest, loops: tuple[str, ...], of: tuple[str, ...]) -> tuple[tuple[Rows, ...], list[int]]:
    """Distribute: statements that share the outermost of `loops` with a member but are none get loops of their own,
    in textual order. Members next to each other stay together."""
    members = _members(nest, loops, of)
    level = min(nest.rows[members[0]].names().index(l) for l in loops)
    prefix = nest.rows[members[0]].beta[:level]
    names = nest.rows[members[0]].names()[:level]
    group = [n for n, r in enumerate(nest.rows)
             if len(r.beta) > level and r.beta[:level] == prefix and r.names()[:level] == names]
    group.sort(key=lambda n: nest.rows[n].beta)
    rows, place, last = list(nest.rows), -1, None
    for n in group:
        inside = n in members
        key = (nest.rows[n].beta[level], inside)
        if key != last:
            place, last = place + 1, key
        rows[n] = replace(rows[n], beta=(*rows[n].beta[:level], place, *rows[n].beta[level + 1:]))
    return tuple(rows), members
