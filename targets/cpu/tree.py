"""Statements of a block -> loops over elements, as few as dependences allow, each with its vector axis.

    s: [i] = reduce add j x;  m: [i] = map s / J;  y: [i, j] = map x - m
    ->  for i { for j (vector) { s += x }  m = s / J  for j (vector) { y = x - m } }

A value that is made and used inside one loop body needs no array there (see `storage`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Union

from autocomp.targets.cpu.expressions import vectorizes
from autocomp.targets.cpu.lower import Nest, domain, gathers, reads

from autocomp.ir.types import DType
from autocomp.tile.program import Loop, Stmt, walk

FULL = 16  # elements of an axis from which vectors along it are well filled


@dataclass(eq=False)
class Point:
    """Loop over the elements of an axis inside the current tile; `vector`: one step is a vector."""

    axis: str
    vector: bool
    body: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Tiles:
    """A loop of the program that steps from tile to tile."""

    loop: Loop
    body: list[Node]


@dataclass(eq=False)
class Contraction:
    """mma statements over the same output axes, run in register tiles.

    starts: accumulators that begin at zero (their fill is absorbed). epilogue: element-wise statements done on the
    registers. loop: the reduction's tile loop when it was pulled inside (then `starts` hold at its first step and the
    epilogue at its last).
    """

    mmas: list[Stmt]
    starts: frozenset[str]
    epilogue: list[Stmt]
    loop: Loop | None = None


Node = Union[Point, Tiles, Contraction, Stmt]


def statements(nodes: Sequence[Node]) -> Iterator[Stmt]:
    """All statements below, in order."""
    for n in nodes:
        if isinstance(n, Stmt):
            yield n
        elif isinstance(n, Contraction):
            yield from n.mmas
            yield from n.epilogue
        else:
            yield from statements(n.body)


def points(nodes: Sequence[Node]) -> Iterator[Point]:
    """All loops over elements below."""
    for n in nodes:
        if isinstance(n, Point):
            yield n
        if isinstance(n, (Point, Tiles)):
            yield from points(n.body)


def contractions(nodes: Sequence[Node]) -> Iterator[Contraction]:
    """All contractions below."""
    for n in nodes:
        if isinstance(n, Contraction):
            yield n
        elif not isinstance(n, Stmt):
            yield from contractions(n.body)


def build(nest: Nest, is_unit: bool = True) -> list[Node]:
    """The loop tree of a nest. `is_unit`: contractions may use the vector unit's register tiles (else plain reductions)."""
    return _block(nest, list(nest.body), frozenset(a for a, t in nest.tile.items() if t == 1), is_unit)


def _block(nest: Nest, body: list[Loop | Stmt], bound: frozenset[str], is_unit: bool) -> list[Node]:
    nodes: list[Node] = []
    run: list[Stmt] = []
    scores = _scores(nest, [s for s, _ in walk(tuple(body))], bound)
    flush = lambda: (nodes.extend(_points(nest, list(run), bound, scores)), run.clear())  # type: ignore[func-returns-value]
    i = 0
    while i < len(body):
        n = body[i]
        mma = _contraction_at(nest, body, i, is_unit)
        if mma is not None:
            early, c, i = mma
            starts = frozenset(c.starts & {f.dst for f in run if f.op == "fill"} - _touched(run, c.starts))
            run[:] = [s for s in run if not (s.op == "fill" and s.dst in starts)] + early
            flush()
            c.starts = starts
            nodes.append(c)
            continue
        if isinstance(n, Loop):
            flush()
            nodes.append(Tiles(n, _block(nest, list(n.body), bound, is_unit)))
        else:
            run.append(n if n.op != "mma" else _plain(nest, n))
        i += 1
    flush()
    return nodes


def _touched(run: list[Stmt], accs: frozenset[str]) -> set[str]:
    """Accumulators that a statement other than their zero fill uses."""
    out: set[str] = set()
    for s in run:
        if s.op == "fill" and s.dst in accs and s.expr == 0:
            continue
        out |= ({s.dst} | set(reads(s))) & accs
    return out


def _plain(nest: Nest, s: Stmt) -> Stmt:
    """acc += mma a, b  ->  acc += reduce add k (a * b): for element types that the vector unit's tiles do not take."""
    axes = [a for a in domain(s, nest) if a not in nest.slots[s.dst].axes]
    return Stmt("reduce", s.dst, s.srcs, "add", axis=",".join(axes), acc=True)


def _unit_takes(nest: Nest, s: Stmt) -> bool:
    kinds = [nest.dtype_of(v) for v in (s.dst, *s.srcs)]
    return all(isinstance(d, DType) and d.name in ("f32", "f16", "bf16") for d in kinds) and bool(
        [a for a in domain(s, nest) if a not in nest.slots[s.dst].axes]
    )


def _contraction_at(nest: Nest, body: list[Loop | Stmt], i: int, is_unit: bool) -> tuple[list[Stmt], Contraction, int] | None:
    """A contraction that starts at statement i: (statements to run before it, it, index behind it)."""
    n = body[i]
    loop = None
    if isinstance(n, Loop):
        inner = [s for s in n.body]
        if n.kind == "grid" or not inner or not all(isinstance(s, Stmt) and s.op == "mma" for s in inner):
            return None
        mmas = [s for s in inner if isinstance(s, Stmt)]
        loop = n
        j = i + 1
    elif n.op == "mma":
        mmas, j = [n], i + 1
        shape = set(nest.slots[n.dst].axes)
        while j < len(body):
            s = body[j]
            fills = isinstance(s, Stmt) and s.op == "fill"
            if (
                isinstance(s, Stmt)
                and s.op == "mma"
                and set(nest.slots[s.dst].axes) == shape
                and not set(s.srcs) & {m.dst for m in mmas}
            ):
                mmas.append(s)
            elif not (fills and j + 1 < len(body)):
                break
            else:
                break
            j += 1
    else:
        return None
    axes = [set(nest.slots[m.dst].axes) for m in mmas]
    if not is_unit or not all(_unit_takes(nest, m) for m in mmas) or any(a != axes[0] for a in axes):
        return None
    from autocomp.targets.cpu.shape import runs_in_tiles

    early, epilogue, after = _epilogue(nest, body, j, {m.dst for m in mmas}, axes[0])
    c = Contraction(mmas, frozenset(m.dst for m in mmas), epilogue, loop)
    if runs_in_tiles(nest, c):
        return early, c, after
    bare = Contraction(mmas, frozenset(m.dst for m in mmas), [], loop)
    return ([], bare, j) if runs_in_tiles(nest, bare) else None


def _epilogue(nest: Nest, body: list[Loop | Stmt], j: int, accs: set[str], axes: set[str]) -> tuple[list[Stmt], list[Stmt], int]:
    """Element-wise statements behind the contraction that can stay in its registers; independent ones go before it."""
    early: list[Stmt] = []
    late: list[Stmt] = []
    derived = set(accs)
    while j < len(body):
        s = body[j]
        if not isinstance(s, Stmt) or s.op in ("mma", "reduce"):
            break
        uses = set(reads(s)) | ({s.dst} if s.acc else set())
        if s.op in ("map", "store") and set(domain(s, nest)) == axes and uses & derived and not gathers(s):
            late.append(s)
            derived.add(s.dst)
        elif not uses & derived and s.dst not in derived and s.op in ("map", "fill") and not _begins(s, body[j + 1 :]):
            early.append(s)
        else:
            break
        j += 1
    return early, late, j


def _begins(s: Stmt, later: list[Loop | Stmt]) -> bool:
    """Is this the zero that a later contraction's sums start from? It is absorbed there."""
    return s.op == "fill" and any(x.op == "mma" and x.dst == s.dst for x, _ in walk(tuple(later)))


# ---- loops over elements


def _scores(nest: Nest, stmts: list[Stmt], bound: frozenset[str]) -> dict[str, float]:
    """How much is read and written contiguously along each axis, in elements."""
    out: dict[str, float] = {}
    for s in stmts:
        for v in sorted({*reads(s), *([s.dst] if s.op == "store" else [])}):
            if v in nest.views:
                size = 1.0
                for a in nest.views[v].axes:
                    e = nest.tile.get(a, nest.extent[a])
                    size *= e if isinstance(e, int) else 256
                for a in domain(s, nest):
                    if nest.views[v].flat.stride(a) == 1:
                        e = nest.tile.get(a, nest.extent[a])
                        lanes = min(e, FULL) / FULL if isinstance(e, int) else 1.0
                        out[a] = out.get(a, 0.0) + size * lanes * (2.0 if s.op == "store" else 1.0)
    return out


def loop_order(nest: Nest, s: Stmt, vector: str | None, folded: tuple[str, ...] = ()) -> list[str]:
    """Axes of a statement, outermost first: free axes, then reduced ones, with the vector axis as far in as it can be.
    `folded`: axes of a map that the only statement which reads it reduces; they go where that one has them."""
    dims = domain(s, nest)
    reduced = s.axis.split(",") if s.op == "reduce" else list(folded)
    rank = {a: i for i, a in enumerate(nest.extent)}
    free = sorted((a for a in dims if a not in reduced and a != vector), key=rank.__getitem__)
    red = [a for a in reduced if a != vector]
    last = [vector] if vector is not None else []
    return free + last + red if reduced and vector not in reduced else free + red + last


def _points(nest: Nest, stmts: list[Stmt], bound: frozenset[str], scores: dict[str, float]) -> list[Node]:
    vector: dict[int, tuple[str | None, bool]] = {}
    for s in stmts:
        dims = [a for a in domain(s, nest) if a not in bound]
        best = max(dims, key=lambda a: (scores.get(a, 0.0), dims.index(a)), default=None)
        if best is not None and not scores.get(best):
            best = None if _row_value(nest, s, stmts) else _scratch_axis(nest, s, dims)
        vector[id(s)] = best, best is not None and vectorizes(nest, s, best)
    return _fuse(nest, stmts, bound, vector, {id(s): _folded(s, stmts, vector) for s in stmts})


def _folded(s: Stmt, stmts: list[Stmt], vector: dict[int, tuple[str | None, bool]]) -> tuple[str, ...]:
    """Axes of a map that its one reader reduces under the same vector axis: term and sum then share every loop."""
    readers = [t for t in stmts if s.dst in reads(t)]
    if s.op != "map" or len(readers) != 1 or readers[0].op != "reduce":
        return ()
    axes = tuple(readers[0].axis.split(","))
    same = vector.get(id(readers[0])) == vector[id(s)] and vector[id(s)][0] not in axes
    return axes if same else ()


def _row_value(nest: Nest, s: Stmt, stmts: list[Stmt]) -> bool:
    """Is this one value a row (a mean, a scale) for statements over whole rows? In vectors it would break their loop in two."""
    mine = set(domain(s, nest))
    return s.op == "map" and any(mine < set(domain(t, nest)) and _conflict(t, s) for t in stmts if t is not s)


def _scratch_axis(nest: Nest, s: Stmt, dims: list[str]) -> str:
    """Without any access to memory: the last axis of the result, or of what is reduced."""
    axes = nest.slots[s.dst].axes if s.dst in nest.slots and s.op != "reduce" else domain(s, nest)
    return next((a for a in reversed(axes) if a in dims), dims[-1])


def _fuse(nest: Nest, stmts: list[Stmt], bound: frozenset[str], vector: dict[int, tuple[str | None, bool]],
          folded: dict[int, tuple[str, ...]]) -> list[Node]:  # fmt: skip
    nodes: list[Node] = []
    groups: dict[int, list[Stmt]] = {}
    for s in stmts:
        best, ok = vector[id(s)]
        rest = [a for a in loop_order(nest, s, best, folded[id(s)]) if a not in bound]
        if not rest:
            nodes.append(s)
            continue
        axis, is_vector = rest[0], ok and rest[0] == best
        home = None
        for n in reversed(nodes):
            members = groups.get(id(n), [n] if isinstance(n, Stmt) else [])
            if (
                isinstance(n, Point)
                and n.axis == axis
                and n.vector == is_vector
                and not any(_crosses(nest, t, s, axis) for t in members)
            ):
                home = n
                break
            if any(_conflict(t, s) for t in members):
                break
        if home is None:
            home = Point(axis, is_vector)
            nodes.append(home)
            groups[id(home)] = []
        groups[id(home)].append(s)
    for n in nodes:
        if isinstance(n, Point):
            n.body = _fuse(nest, groups[id(n)], bound | {n.axis}, vector, folded)
    return nodes


def _conflict(t: Stmt, s: Stmt) -> bool:
    """s may not move before t."""
    return t.dst in reads(s) or t.dst == s.dst or s.dst in reads(t)


def _crosses(nest: Nest, t: Stmt, s: Stmt, axis: str) -> bool:
    """A dependence between t and s crosses iterations of `axis`, so they cannot share its loop."""
    if not _conflict(t, s):
        return False
    if t.op == "map" and t.dst != s.dst and s.dst not in reads(t):
        return False  # s only reads what t makes, in the same iteration
    crossing = lambda x: x.op == "reduce" and axis in x.axis.split(",")
    return crossing(t) or crossing(s)
