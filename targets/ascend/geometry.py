"""Tiles as the cores of an NPU see them: which axes are rows and lanes on vector cores, where tiles begin, how tensors are strided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from autocomp.targets.ascend.whole import whole

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Expr, postorder
from autocomp.ir.types import Sym
from autocomp.tile.program import Loop, Stmt, Tensor, TileProgram, Value, walk

BLOCK = 16  # rows are padded to this many elements: whole 32-byte blocks in half and in single precision
BYTES_BLOCK = 32  # the same where elements of a byte are among them
MASK = "mask of "  # kinds of masks: of full, of line, of stat


def extent(p: TileProgram, axis: str) -> int:
    if axis not in dict(p.axes):
        raise UnsupportedOp(f"an index computed with the open size {axis}", where=p.name, hint="give the dimension a number (--dim)")
    e = p.extent(axis)
    if isinstance(e, Sym):
        raise UnsupportedOp(f"axis {axis} has the symbolic extent {e}", where=p.name, hint="give the dimension a number (--dim)")
    return int(e)


def tile_of(p: TileProgram, axis: str) -> int:
    return min(dict(p.tile).get(axis, extent(p, axis)), extent(p, axis))


def trips(p: TileProgram, axes: tuple[str, ...]) -> int:
    """Tiles along some axes together."""
    return prod(-(-extent(p, a) // tile_of(p, a)) for a in axes)


@dataclass(frozen=True)
class Geometry:
    """rows: (axis, tile) outermost first; lanes: axis -> tile of the axes along which elements lie side by side, one a value."""

    rows: tuple[tuple[str, int], ...]
    lanes: Mapping[str, int]
    block: int = BLOCK  # rows are padded to so many elements

    @property
    def count(self) -> int:
        """Rows of a tile."""
        return prod(t for _, t in self.rows)

    @property
    def slots(self) -> int:
        """Rows, rounded up to what a broadcast instruction handles at once."""
        return -(-self.count // 8) * 8

    def pitch(self, lane: str) -> int:
        """Elements from row to row. Raises UnsupportedOp where they do not lie side by side."""
        if lane not in self.lanes:
            raise UnsupportedOp(f"columns along {lane} do not lie side by side in tiles of lanes [{', '.join(self.lanes)}]",
                                hint="split the operator")
        return -(-self.lanes[lane] // self.block) * self.block

    def kind(self, axes: tuple[str, ...], where: str) -> tuple[str, str]:
        """(full: rows x lanes | line: lanes only | stat: a value a row, axis of the lanes). Raises UnsupportedOp for anything between."""
        wide = {a for a, t in self.rows if t > 1}
        lanes = [a for a in axes if a in self.lanes]
        if len(lanes) > 1 or wide & set(axes) not in (wide, set()) or (not lanes and not wide <= set(axes)):
            rows = ", ".join(a for a, _ in self.rows)
            raise UnsupportedOp(f"a value over [{', '.join(axes)}] in tiles of rows [{rows}] and lanes [{', '.join(self.lanes)}] has no "
                                "layout on vector cores", where=where, hint="split the operator")  # fmt: skip
        if not lanes:
            return "stat", ""
        return "full" if wide <= set(axes) else "line", lanes[0]

    def bytes(self, kind: str, lane: str, element: int = 4) -> int:
        """Unified buffer that a value takes: whole repeats of 64 for a tile or a line, one 32-byte block a row for a statistic, a bit an
        element for the masks of these."""
        kind, of_bits = kind.removeprefix(MASK), kind.startswith(MASK)
        n = -(-self.elements(kind, lane) // 64) * 64
        return n // 8 if of_bits else n * element

    def elements(self, kind: str, lane: str) -> int:
        """Elements of a value that an instruction takes: of a line those up to its pitch."""
        if kind == "full":
            return -(-self.count * self.pitch(lane) // 64) * 64
        return self.pitch(lane) if kind == "line" else self.slots * 8

    def compared(self, kind: str, lane: str) -> int:
        """The same for comparisons and choices, which take whole repeats."""
        return self.bytes(kind, lane, 1)


def geometry(p: TileProgram, rows: Mapping[str, int]) -> Geometry:
    """Lanes run along what is folded, in a reduction or by the cube unit, and along the last axis of a result that lacks those.

    An axis along which no tensor's elements lie side by side counts rows, which a reduction then folds.

    `rows`: tiles of the row axes where they differ from the program's. Raises UnsupportedOp.
    """
    statements = [s for s, _ in walk(p.body)]
    folded = list(dict.fromkeys(a for s in statements if s.op == "reduce" for a in on_chip(p, s)))
    if several := next((s for s in statements if s.op == "reduce" and len(on_chip(p, s)) > 1), None):
        raise UnsupportedOp(f"a reduction over axes {several.axis} at once", where=p.name, hint="vector cores fold one axis")
    folded = [a for a in folded if _side_by_side(p, a)]
    names = on_vector(p)
    held = [b for b in p.bufs if b.name in names]
    values = [b.axes for b in held]
    folded += [a for a in contracted(p) if any(a in v for v in values) and a not in folded]
    last = max(p.outputs, key=lambda t: len(t.axes)).axes[-1:]
    if last and not any(last[0] in v and set(v) & set(folded) for v in values):
        folded += [a for a in last if a not in folded]
    if not folded:
        raise UnsupportedOp("a kernel of a single number", where=p.name)
    used = {a for v in values for a in v}
    order = [a for a, _ in p.axes if a in used and a not in folded]
    return Geometry(tuple((a, rows.get(a, tile_of(p, a))) for a in order), {a: tile_of(p, a) for a in folded},
                    BYTES_BLOCK if any(b.dtype.bytes == 1 for b in held) else BLOCK)


def on_chip(p: TileProgram, s: Stmt) -> list[str]:
    """The axes that a reduction folds inside of a tile: of several, those of one element pass by in a loop."""
    axes = s.axis.split(",")
    return [a for a in axes if len(axes) == 1 or tile_of(p, a) > 1]


def _side_by_side(p: TileProgram, axis: str) -> bool:
    """Whether no tensor has its neighbouring elements along another axis than this one that it has too."""
    held = on_vector(p)
    read = {s.srcs[0] for s, _ in walk(p.body) if s.op == "copy" and s.dst in held}
    steps = [strides(replace(t, guard=()), p.name)[0] for t in p.inputs if t.name in read and axis in t.axes]
    return all(step[axis] == 1 or 1 not in step.values() for step in steps)


def contracted(p: TileProgram) -> list[str]:
    """Axes over which matrix instructions sum."""
    axes = {b.name: b.axes for b in p.bufs}
    return list(dict.fromkeys(a for s, _ in walk(p.body) if s.op == "mma" for v in s.srcs for a in axes[v] if a not in axes[s.dst]))


def on_vector(p: TileProgram) -> frozenset[str]:
    """Values that vector cores hold: all but the factors that go from memory straight to the cube unit."""
    statements = [s for s, _ in walk(p.body)]
    used = {v for s in statements if s.op != "mma" for v in (*s.srcs, *values(s.expr))}
    floats = {b.name for b in p.bufs if b.dtype.is_float} | whole(p).names
    return frozenset(s.dst for s in statements if s.dst in floats and (s.op not in ("store", "copy") or s.dst in used))


def values(e: object) -> list[str]:
    """On-chip values that an expression mentions."""
    return [x.name for x in postorder(e) if isinstance(x, Value)] if isinstance(e, Expr) else []


def strides(t: Tensor, where: str) -> tuple[dict[str, int], int]:
    """Elements between neighbours along each axis, and the offset of the first. Raises UnsupportedOp for views that are not affine."""
    if t.guard:
        raise UnsupportedOp(f"{t.name} is read with a border (a pad or a mask)", where=where, hint="copies with borders are not printed")
    step, offset, pitch = {a: 0 for a in t.axes}, 0, 1
    for index, size in reversed(list(zip(t.index, t.shape))):
        if isinstance(size, Sym):
            raise UnsupportedOp(f"{t.name} has the symbolic extent {size}", where=where, hint="give the dimension a number (--dim)")
        if not index.is_affine:
            raise UnsupportedOp(f"{t.name} is read at [{index}], which is not affine in the axes", where=where)
        for a in index.names():
            step[a] = step.get(a, 0) + index.coef(a) * pitch
        offset += index.const * pitch
        pitch *= size
    return step, offset


def starts(p: TileProgram, axes: tuple[str, ...]) -> dict[str, str]:
    """Text of the first index of a tile along each axis; `axes` are walked by the grid or a loop."""
    return {a: f"s_{a}" if a in axes and tile_of(p, a) < extent(p, a) else "0" for a, _ in p.axes}


def counts(p: TileProgram, axes: tuple[str, ...]) -> dict[str, str]:
    """Text of the true count of a tile along each axis."""
    return {a: f"n_{a}" if a in axes and extent(p, a) % tile_of(p, a) else str(tile_of(p, a)) for a, _ in p.axes}


def origin(p: TileProgram, axes: tuple[str, ...], counter: str, down: str = "") -> list[str]:
    """First index and true count of the tile number `counter` along each axis, the last one fastest; along `down` from its end, slowest."""
    lines, behind, total = [], 1, trips(p, axes)
    for a in reversed([x for x in (down, *(x for x in axes if x != down)) if x]):
        e, t = extent(p, a), tile_of(p, a)
        n = -(-e // t)
        if n > 1:
            at = counter if behind == 1 else f"{counter} / {behind}"
            at = at if n * behind >= total else f"{at} % {n}"
            lines.append(f"const uint32_t s_{a} = {f'({n - 1} - {at})' if a == down else at} * {t};")
        if e % t:
            lines.append(f"const uint32_t n_{a} = s_{a} + {t} <= {e} ? {t} : {e} - s_{a};")
        behind *= n
    return lines


def walked(p: TileProgram) -> tuple[str, ...]:
    """Axes of the grid and of all loops."""
    found: list[str] = []

    def visit(body: tuple[Loop | Stmt, ...]) -> None:
        for n in body:
            if isinstance(n, Loop):
                found.extend(n.axes)
                visit(n.body)

    visit(p.body)
    return tuple(dict.fromkeys(found))
