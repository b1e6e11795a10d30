"""A tile as vector cores see it: rows of lanes. Lanes lie along one axis, every other axis counts rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from autocomp.errors import UnsupportedOp
from autocomp.ir.types import Sym
from autocomp.tile.program import Tensor, TileProgram

BLOCK = 16  # rows are padded to this many elements: whole 32-byte blocks in half and in single precision


def extent(p: TileProgram, axis: str) -> int:
    e = p.extent(axis)
    if isinstance(e, Sym):
        raise UnsupportedOp(f"axis {axis} has the symbolic extent {e}", where=p.name, hint="give the dimension a number")
    return int(e)


def tile_of(p: TileProgram, axis: str) -> int:
    return min(dict(p.tile).get(axis, extent(p, axis)), extent(p, axis))


@dataclass(frozen=True)
class Geometry:
    """rows: (axis, tile) outermost first; lane: the axis along which elements lie side by side, with its tile."""

    rows: tuple[tuple[str, int], ...]
    lane: str
    lanes: int

    @property
    def count(self) -> int:
        """Rows of a tile."""
        return prod(t for _, t in self.rows)

    @property
    def slots(self) -> int:
        """Rows, rounded up to what a broadcast instruction handles at once."""
        return -(-self.count // 8) * 8

    @property
    def pitch(self) -> int:
        return -(-self.lanes // BLOCK) * BLOCK

    def kind(self, axes: tuple[str, ...], where: str) -> str:
        """full: rows x lanes; line: lanes only; stat: a value a row. Raises UnsupportedOp for anything between."""
        names = tuple(a for a, _ in self.rows)
        rows = tuple(a for a in axes if a != self.lane)
        if self.lane in axes:
            return "line" if not rows and names else "full"
        if rows != names:
            raise UnsupportedOp(f"a value over [{', '.join(axes)}] in tiles of rows [{', '.join(names)}] has no layout on vector cores",
                                where=where, hint="split the operator")  # fmt: skip
        return "stat"

    def bytes(self, kind: str, element: int = 4) -> int:
        return {"full": self.count * self.pitch * element, "line": self.pitch * element, "stat": self.slots * 8 * element}[kind]

    def elements(self, kind: str) -> int:
        return self.bytes(kind, 1)


def strides(t: Tensor, where: str) -> tuple[dict[str, int], int]:
    """Elements between neighbours along each axis, and the offset of the first. Raises UnsupportedOp for views that are not affine."""
    if t.guard:
        raise UnsupportedOp(f"{t.name} is read with a border (a pad or a mask)", where=where, hint="copies with borders are not printed")
    step, offset, pitch = {a: 0 for a in t.axes}, 0, 1
    for index, size in reversed(list(zip(t.index, t.shape))):
        if not index.is_affine or isinstance(size, Sym):
            raise UnsupportedOp(f"{t.name} is read at [{index}], which is not affine in the axes", where=where)
        for a in index.names():
            step[a] = step.get(a, 0) + index.coef(a) * pitch
        offset += index.const * pitch
        pitch *= size
    return step, offset
