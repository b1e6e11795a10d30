"""Where the on-chip values of a loop tree live: a C variable where every use sees one element, else a small array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autocomp.targets.cpu.flat import Coef
from autocomp.targets.cpu.lower import Nest, gathers, reads
from autocomp.targets.cpu.tree import Contraction, Node, Point

from autocomp.tile.program import Stmt

STACK = 16 << 10  # bytes up to which an array is a local one; larger ones come from the thread's heap once a call


@dataclass(frozen=True)
class Place:
    """`home`: id of the tree node in whose body the value is declared (0: the tile's own block). `shape`: () for a variable,
    else (axis, extent) pairs of an array, last one contiguous."""

    home: int
    shape: tuple[tuple[str, Coef], ...]

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
        points = {n.axis for n in common if isinstance(n, Point)}
        shape = tuple(
            (a, extent_in_tile(nest, a)) for a in nest.slots[name].axes if a not in points and extent_in_tile(nest, a) != 1
        )
        grid_home = home if home is not None else None
        out[name] = Place(
            id(grid_home) if grid_home is not None else 0, () if inside and not _crosses(nest, name, common[-1]) else shape
        )
    return out


def _crosses(nest: Nest, name: str, c: Node) -> bool:
    """Is a value inside a contraction's node more than what its registers hold? (accumulators carried round a loop are)"""
    assert isinstance(c, Contraction)
    return name in {m.dst for m in c.mmas} - c.starts or any(name in m.srcs for m in c.mmas)


def extent_in_tile(nest: Nest, axis: str) -> Coef:
    """Elements of an axis inside one tile."""
    return nest.tile.get(axis, nest.extent[axis])
