"""Statements of a block -> loops over elements, as few as dependences allow, each with its vector axis.

    s: [i] = reduce add j x;  m: [i] = map s / J;  y: [i, j] = map x - m
    ->  for i { for j (vector) { s += x }  m = s / J  for j (vector) { y = x - m } }

A value that is made and used inside one loop body needs no array there (see `storage`).
"""

from __future__ import annotations

from autocomp.targets.cpu.lower import Nest, domain, reads
from autocomp.targets.cpu.tree import Node, Point
from autocomp.targets.cpu.vectors import vectorizes

from autocomp.ir.body import Expr, Map, postorder
from autocomp.ir.scalar import SCALAR
from autocomp.tile.program import Stmt

FULL = 16  # elements of an axis from which vectors along it are well filled
# step between neighbours -> worth of lanes that read so, of lanes side by side; others' is none
APART = {1: 1.0, -1: 0.7, 2: 0.5, 3: 0.3, 4: 0.3}
LAST = 1e-3


def contiguity(nest: Nest, stmts: list[Stmt]) -> dict[str, float]:
    """How much is read and written contiguously, or nearly so, along each axis, in elements. An axis of a few elements that is folded has
    no whole vector (a window's columns): it comes last, so that lanes run along results where these are read in small steps."""
    out: dict[str, float] = {}
    folded = {a for s in stmts if s.op == "reduce" for a in s.axis.split(",")}
    for s in stmts:
        for v in sorted({*reads(s), *([s.dst] if s.op == "store" else [])}):
            if v in nest.views or v in nest.buffers:
                size = 1.0
                for a in _walked(nest, v):
                    e = nest.tile.get(a, nest.extent[a])
                    size *= e if isinstance(e, int) else 256
                for a in domain(s, nest):
                    if worth := APART.get(_step(nest, v, a)):  # type: ignore[call-overload]
                        e = nest.tile.get(a, nest.extent[a])
                        lanes = min(e, FULL) / FULL if isinstance(e, int) else 1.0
                        worth *= LAST if a in folded and lanes < 0.5 else 1.0
                        out[a] = out.get(a, 0.0) + size * lanes * worth * (2.0 if s.op == "store" else 1.0)
    return out


def _walked(nest: Nest, v: str) -> set[str]:
    """Axes along which a tensor, or a buffer that windows read, is read: those of its places, as the windows reach them."""
    if v not in nest.buffers:
        return {*nest.axes_of(v)}
    at = nest.buffers[v]
    return {x for a in nest.slots[v].axes for x in (at[a].names() if a in at else (a,))}


def _step(nest: Nest, v: str, axis: str) -> object:
    """Elements of a tensor, or of a buffer that windows read, between neighbours along an axis; None or 0 where they are no neighbours."""
    if v in nest.views:
        return nest.views[v].flat.stride(axis)
    last = nest.slots[v].axes[-1]
    return nest.buffers[v][last].coef(axis) if last in nest.buffers[v] else int(axis == last)


def loop_order(nest: Nest, s: Stmt, vector: str | None, folded: tuple[str, ...] = ()) -> list[str]:
    """Axes of a statement, outermost first: free axes, then reduced ones, with the vector axis as far in as it can be. Axes along which
    no windows slide come first where windows are read from a buffer: it is as small as one image of one channel then.
    `folded`: axes of a map that the only statement which reads it reduces; they go where that one has them."""
    dims = domain(s, nest)
    reduced = s.axis.split(",") if s.op in ("reduce", "scan") else list(folded)
    own = {a for x, at in nest.buffers.items() for a in nest.slots[x].axes if a not in at}
    rank = {a: (a not in own, i) for i, a in enumerate(nest.extent)}
    free = sorted((a for a in dims if a not in reduced and a != vector), key=rank.__getitem__)
    red = [a for a in reduced if a != vector]
    last = [vector] if vector is not None else []
    return free + last + red if reduced and vector not in reduced else free + red + last


def loops_over(nest: Nest, stmts: list[Stmt], bound: frozenset[str], scores: dict[str, float]) -> list[Node]:
    """Loops for statements that stand inside of loops over `bound`; vectors run along the axis with the best score, which says how well
    accesses to memory go along it: a row's one value that touches none goes with its row."""
    vector: dict[int, tuple[str | None, bool]] = {}
    own = {id(s): contiguity(nest, [s]) if s.dst in nest.buffers else scores for s in stmts}  # a buffer's axes are no other's
    along = {id(s): _best_axis(nest, s, bound, own[id(s)]) for s in stmts}
    for s in stmts:
        scores, dims, best = own[id(s)], [a for a in domain(s, nest) if a not in bound], along[id(s)]
        near = not any(name in nest.views or name in nest.buffers for name in (s.dst, *reads(s)))
        runs = lambda t: vector[id(t)][0] if id(t) in vector else along[id(t)] if own[id(t)].get(along[id(t)] or "") else ""
        beside = [t for t in stmts if runs(t) not in dims]  # vectors of the others run along what this one has
        if best is not None and (near or not scores.get(best)) and _row_value(nest, s, beside, stmts):
            best = None
        elif best is not None and not scores.get(best):
            best = _scratch_axis(nest, s, dims)
        alone = any(_one_by_one(nest, s, t, best, vector) for t in stmts)
        vector[id(s)] = best, best is not None and not alone and vectorizes(nest, s, best)
    folded: dict[int, tuple[str, ...]] = {}
    for s in reversed(stmts):
        folded[id(s)] = () if s.dst in nest.buffers else _folded(s, stmts, vector, folded)
    return _fuse(nest, stmts, bound, vector, folded)


def _one_by_one(nest: Nest, s: Stmt, t: Stmt, axis: str | None, vector: dict[int, tuple[str | None, bool]]) -> bool:
    """Is this a store of what `t`, a scan along the axis or a map without vectors, makes one by one? It stays in that loop: a vector
    would wait for an array of them."""
    if s.op != "store" or t.dst not in s.srcs:
        return False
    return t.axis == axis if t.op == "scan" else vector.get(id(t)) == (axis, False) and {*domain(t, nest)} == {*domain(s, nest)}


def _best_axis(nest: Nest, s: Stmt, bound: frozenset[str], scores: dict[str, float]) -> str | None:
    """The axis of a statement along which accesses to memory go best; the last of equal ones."""
    dims = [a for a in domain(s, nest) if a not in bound]
    return max(dims, key=lambda a: (scores.get(a, 0.0), dims.index(a)), default=None)


def _folded(s: Stmt, stmts: list[Stmt], vector: dict[int, tuple[str | None, bool]], behind: dict[int, tuple[str, ...]]) -> tuple[str, ...]:
    """Axes of a map that its one reader reduces under the same vector axis, or that its readers are folded along: all of a term and the sum
    then share every loop. `behind`: those of the statements behind it."""
    at = [n for n, t in enumerate(stmts) if s.dst in reads(t)]
    readers, here = [stmts[n] for n in at], next(n for n, t in enumerate(stmts) if t is s)
    if s.op != "map" or not readers or at[0] <= here or any(vector.get(id(t)) != vector[id(s)] for t in readers):
        return ()
    if len(readers) == 1 and readers[0].op == "reduce":
        axes = tuple(readers[0].axis.split(","))
    else:
        every = {behind[id(t)] for t in readers}
        axes = every.pop() if len(every) == 1 else ()
    return axes if vector[id(s)][0] not in axes else ()


def _row_value(nest: Nest, s: Stmt, beside: list[Stmt], stmts: list[Stmt]) -> bool:
    """Is this one value a row (a mean, a scale) for statements over whole rows? In vectors it would break their loop in two, which only
    functions that take long are worth, and only where no other pass over rows waits for them (the logarithm of a row's sum)."""
    mine = set(domain(s, nest))
    if s.op != "map" or not any(mine < set(domain(t, nest)) and _conflict(t, s) for t in beside if t is not s):
        return False
    made = {s.dst}
    for t in stmts[next(n for n, t in enumerate(stmts) if t is s) + 1 :]:
        if made & {*reads(t)}:
            if mine < set(domain(t, nest)):
                return True
            made.add(t.dst)
    return not takes_long(s)


def takes_long(s: Stmt) -> bool:
    """Does a statement compute a special function, behind which the latency of a sum hides?"""
    functions = [e.fn for e in postorder(s.expr) if isinstance(e, Map)] if isinstance(s.expr, Expr) else []
    return any(fn not in SCALAR or SCALAR[fn].unit == "special" for fn in functions)  # not in it: forms of exp that are this target's


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
