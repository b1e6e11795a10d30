"""Where the on-chip values of a loop tree live: a C variable where every use sees one element, else a small array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autocomp.targets.cpu.flat import Coef
from autocomp.targets.cpu.lower import Nest, gathers, reads
from autocomp.targets.cpu.tree import Contraction, Node, Point, Tiles

from autocomp.cost.cores import FEW
from autocomp.ir.body import Expr, rewrite
from autocomp.tile.program import Stmt, Value

STACK = 16 << 10  # bytes up to which an array is a local one; larger ones come from the thread's heap once a call


@dataclass(frozen=True)
class Place:
    """`home`: id of the tree node in whose body the value is declared (0: the tile's own block). `shape`: () for a variable,
    else (axis, extent) pairs of an array, last one contiguous. `whole`: its rows are whole vectors, the last one's other lanes are no
    one's: what is read back right behind a store under a mask would wait until that has left for the cache."""

    home: int
    shape: tuple[tuple[str, Coef], ...]
    whole: bool = False

    @property
    def is_array(self) -> bool:
        return bool(self.shape)


def places(nest: Nest, tree: Sequence[Node]) -> dict[str, Place]:
    """The place of every value that the tree mentions."""
    paths: dict[str, list[tuple[Node, ...]]] = {}

    def visit(nodes: Sequence[Node], path: tuple[Node, ...]) -> None:
        for n in nodes:
            if isinstance(n, Stmt):
                note(n, path)
            elif isinstance(n, Contraction):
                for s in (*n.mmas, *n.epilogue):
                    note(s, (*path, n))
            else:
                visit(n.body, (*path, n))

    def note(s: Stmt, path: tuple[Node, ...]) -> None:
        for name in {s.dst, *reads(s), *s.srcs} - {str(g.tensor) for g in gathers(s)}:
            if name in nest.slots and name not in nest.views:
                paths.setdefault(name, []).append(path)

    visit(tree, ())
    out = {}
    for name, found in paths.items():
        common: tuple[Node, ...] = found[0]
        for p in found[1:]:
            k = 0
            while k < min(len(common), len(p)) and common[k] is p[k]:
                k += 1
            common = common[:k]
        home = next((n for n in reversed(common) if not isinstance(n, Contraction)), None)
        inside = isinstance(common[-1], Contraction) if common else False
        here = {n.axis: n.vector for n in common if isinstance(n, Point)}
        extents = [(a, e) for a in nest.slots[name].axes if (e := extent_in_tile(nest, a)) != 1]
        shape = tuple((a, e) for a, e in extents if a not in here)
        if shape:  # an array has a place for each lane of the vectors that it is filled in, where a variable is a vector
            shape += tuple((a, e) for a, e in extents if here.get(a))
        if inside and not _crosses(nest, name, common[-1]):
            shape = ()
        whole = bool(shape) and _in_vectors(nest, shape, found, name in nest.buffers)
        if whole:
            (*others, (a, e)) = shape
            shape = (*others, (a, -(-e // nest.lanes) * nest.lanes))  # type: ignore[operator]
        out[name] = Place(id(home) if home is not None else 0, shape, whole)
    return out


def _in_vectors(nest: Nest, shape: tuple[tuple[str, Coef], ...], found: list[tuple[Node, ...]], buffer: bool) -> bool:
    """Is an array written and read by loops over elements alone, in vectors along its rows, of which it has one or long ones?"""
    a, e = shape[-1]
    loops = all(isinstance(n, (Tiles, Point)) for path in found for n in path)
    along = any(isinstance(n, Point) and n.vector and n.axis == a for path in found for n in path)
    return loops and along and isinstance(e, int) and (len(shape) == 1 or e >= (FEW if buffer else nest.lanes))


def share(nest: Nest, tree: Sequence[Node]) -> None:
    """Let an array take the place of the one it is computed from, element by element, at that one's last use: half the memory.

    p: [i, j] = map exp(acc - m), acc not read again   ->   acc = map exp(acc - m), and acc wherever p stood
    """
    where = places(nest, tree)
    order: list[tuple[Stmt, tuple[Node, ...], list[Node] | list[Stmt], int]] = []

    def visit(nodes: list[Node], path: tuple[Node, ...]) -> None:
        for i, n in enumerate(nodes):
            if isinstance(n, Stmt):
                order.append((n, path, nodes, i))
            elif isinstance(n, Contraction):
                for mine in (n.mmas, n.epilogue):
                    order.extend((st, (*path, n), mine, j) for j, st in enumerate(mine))
            else:
                visit(n.body, (*path, n))

    visit(list(tree) if not isinstance(tree, list) else tree, ())
    for k, (st, path, _, _) in enumerate(order):
        old = next((n for n in reads(st) if _replaceable(nest, where, order, k, st, path, n)), None)
        if old is None:
            continue
        for j, (x, at, mine, i) in enumerate(order):
            new = _renamed(x, st.dst, old)
            mine[i] = new  # type: ignore[call-overload]
            order[j] = (new, at, mine, i)


def _replaceable(nest: Nest, where: dict[str, Place], order: list, k: int, st: Stmt, path: tuple[Node, ...], old: str) -> bool:  # type: ignore[type-arg]
    """May statement k of the tree write over the value `old` that it reads?"""
    new = st.dst
    if st.op != "map" or st.acc or old not in where or new not in where or old == new:
        return False
    if path and isinstance(path[-1], Contraction):
        return False
    a, b = where[old], where[new]
    if nest.slots[old] != replace(nest.slots[new], name=old) or not a.is_array or a != b:
        return False
    uses = [j for j, (x, _, _, _) in enumerate(order) if old in (x.dst, *reads(x), *x.srcs)]
    later = [j for j, (x, _, _, _) in enumerate(order) if new in (x.dst, *reads(x), *x.srcs)]
    first = order[uses[0]][0]
    begins = first.op in ("fill", "map") and not first.acc
    if first.op == "mma":
        begins = first.dst in order[uses[0]][1][-1].starts
    inner = path[next((i for i, n in enumerate(path) if id(n) == a.home), -1) + 1 :]
    straight = all(isinstance(n, Point) and n.axis in nest.slots[old].axes for n in inner)
    return begins and first.dst == old and straight and max(uses) == k == min(later)


def _renamed(s: Stmt, old: str, new: str) -> Stmt:
    """The statement with value `old` called `new`."""
    def leaf(e: Expr) -> Expr:
        return Value(e.dtype, new) if isinstance(e, Value) and e.name == old else e

    name = lambda n: new if n == old else n
    expr = rewrite(s.expr, leaf) if isinstance(s.expr, Expr) else s.expr
    return replace(s, dst=name(s.dst), srcs=tuple(map(name, s.srcs)), expr=expr)


def _crosses(nest: Nest, name: str, c: Node) -> bool:
    """Is a value inside a contraction's node more than what its registers hold? (accumulators carried round a loop are)"""
    assert isinstance(c, Contraction)
    return name in {m.dst for m in c.mmas} - c.starts or any(name in m.srcs for m in c.mmas)


def extent_in_tile(nest: Nest, axis: str) -> Coef:
    """Elements of an axis inside one tile."""
    return nest.tile.get(axis, nest.extent[axis])
