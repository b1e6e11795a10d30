"""What a tile alone decides on chips that run blocks of threads: bytes of a block, padding, partial lines, chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autocomp.cost.chip import Chip
from autocomp.cost.demand import SECTOR, Demand, Operand, Piece
from autocomp.cost.roles import power_of_two
from autocomp.cost.roofline import rewritten
from autocomp.ir.body import Axis
from autocomp.quick import changed, quick

WHOLE = 1 << 20  # elements of an axis that is whole


@quick
@dataclass(frozen=True)
class Tile:
    """What a tile alone decides: how many there are, its rows, columns and depth (() without a contraction), seconds of its operands
    through L2 where all cores draw from it, and the part of them that tiles of other rows need too, operations with padding, copies of
    less than 16 bytes, bytes with partial lines; of the longest reduction the chunks, and of one chunk the most bytes and the most
    elements of an operand; rows with padding; columns; steps in depth; seconds in which a core draws what one turn of a ring brings to a
    product; bytes of a slot; the share of turns that a mask leaves in the mean (`matrix` and `near` are of these) and in
    the longest tile; tiles along the axis on which a cluster's blocks lie side by side, the last but one of the grid; of `read`, what
    memory moves once more for operands whose two readers are the blocks of one cluster, where there are clusters of two."""

    tiles: int
    shape: tuple[int, int, int] | tuple[()]
    near: float
    common: float
    matrix: float
    copies: float
    read: float
    chunks: int
    bytes: float
    elements: int
    rows: int = 0
    columns: int = 0
    steps: int = 1
    turn: float = 0.0
    slot: float = 0.0
    left: float = 1.0
    longest: float = 1.0
    beside: int = 1
    met: float = 0.0


def tile_of(d: Demand, tile: Mapping[str, int], chip: Chip, patches: bool = False, stays: bool = False, threads: int = 1,
            even: tuple[int, int] = (0, 0)) -> Tile:  # fmt: skip
    """`even`: rows and columns of whose multiples threads' shares come out even; 0 where tiles are padded to powers of two."""
    roles, near, common, matrix, copies, extent = d.roles, 0.0, 0.0, d.work.matrix, 0.0, d.extent
    tiles = d.blocks(tile)
    shape: tuple[int, int, int] | tuple[()] = ()
    rows, steps, turn, slot, (left, longest) = 0, 1, 0.0, 0.0, d.left(tile)
    if roles.form in ("contract", "online"):
        once = min(1.0, chip.cores / tiles) if patches and stays else 1.0
        near, common = (tiles * x * left / chip.memory("l2").bandwidth for x in _block_bytes(d, tile, chip, patches, once))
        m, n, _ = shape = (d.size("rows", tile), d.size("cols", tile), d.size("depth", tile))
        each = [x - y + y / chip.numbers["word_copies"] for x, y in zip(d.narrow, d.words, strict=True)]
        copies = tiles * roles.extent("depth") * (each[0] * m + each[1] * n)
        matrix *= _padding(d, tile, patches, even) * left
        rows = prod(_padded(d, roles.rows, tile, even[0]))
        steps = _steps(d, tile)
        products = max(1.0, d.work.matrix / (2.0 * prod(roles.extent(x) for x in ("batch", "rows", "cols", "depth"))))
        turn = near / (tiles / chip.cores) / steps / products if patches else 0.0
        slot = _slot(shape, d, chip, patches, rows)
    line = 2 * chip.memories[0].line  # neighbouring sectors travel together
    extra = sum(a.bytes * (whole_lines(a, tile, line, extent) - 1) for a in d.operands)
    beside, met = _along(d, tile), 0.0
    if roles.form == "contract":
        wanted = {a: n for a in d.operands if a.factor and (n := _wanted(d, a, tile)) > 1}
        extra += chip.numbers["read_twice"] * sum(a.bytes for a in wanted)
        met = chip.numbers["read_twice"] * sum(a.bytes for a, n in wanted.items() if n == beside == 2 and d.grid[-2] not in a.axes)
    extra += sum(p.bytes * _short(p, d, tile, 2 * line, chip) for p in d.pieces)
    size = lambda x: min(tile.get(x, extent[x]), extent[x])
    chunks, chunk = 1, {}
    if roles.form == "reduce":
        chunks = max((prod(-(-extent[a.name] // tile.get(a.name, extent[a.name])) for a in axes) for axes in roles.depths), default=1)
        chunk = {a: prod(size(x) for x in a.views[-1] if x in extent) for a in d.operands if a.views}
        extra += _read_again(d, tile, tiles, threads, max(chunk.values(), default=1), chip) if not (stays or d.carries) else 0.0
    most = max((a.element * n for a, n in chunk.items()), default=1)
    return Tile(tiles, shape, near, common, matrix, copies, d.work.read + extra, chunks, most, max(chunk.values(), default=1), rows,
                 shape[1] if shape else 0, steps, turn, slot, left, longest, beside, met)  # fmt: skip


def outline(d: Demand, tile: Mapping[str, int], patches: bool, even: tuple[int, int]) -> Tile:
    """Of a contraction's tile what says how many operations it has, and where: tiles, sides, operations with padding; no bytes."""
    left, longest = d.left(tile)
    shape = d.size("rows", tile), d.size("cols", tile), d.size("depth", tile)
    matrix = d.work.matrix * (_padding(d, tile, patches, even) * left)
    return Tile(d.blocks(tile), shape, 0.0, 0.0, matrix, 0.0, 0.0, 1, 1, 1, prod(_padded(d, d.roles.rows, tile, even[0])), shape[1],
                _steps(d, tile), left=left, longest=longest, beside=_along(d, tile))  # fmt: skip


def _steps(d: Demand, tile: Mapping[str, int]) -> int:
    """Steps in depth of a tile."""
    return prod(-(-d.extent[a.name] // tile.get(a.name, d.extent[a.name])) for a in d.roles.depth)


def _along(d: Demand, tile: Mapping[str, int]) -> int:
    """Tiles along the last axis but one of the grid."""
    if len(d.grid) < 2:
        return 1
    axis = d.grid[-2]
    return max(1, -(-d.extent[axis] // max(1, tile.get(axis, d.extent[axis]))))


def padded(t: Tile, d: Demand, tile: Mapping[str, int], chip: Chip, patches: bool, even: tuple[int, int]) -> Tile:
    """A contraction's tile that was padded to powers of two, `even` as in `tile_of`."""
    if not t.shape:
        return t
    rows = prod(_padded(d, d.roles.rows, tile, even[0]))
    matrix = d.work.matrix * (_padding(d, tile, patches, even) * t.left)
    return changed(t, matrix=matrix, rows=rows, slot=_slot(t.shape, d, chip, patches, rows))


def _slot(shape: tuple[int, int, int], d: Demand, chip: Chip, patches: bool, rows: int) -> float:
    """Bytes of a slot: bulk copies bring a whole instruction's rows."""
    held = -(-rows // chip.granule[0]) * chip.granule[0] if patches else rows
    return float(shape[2] * (held + shape[1]) * max((a.element for a in d.operands if a.factor), default=2))


def _wanted(d: Demand, a: Operand, tile: Mapping[str, int]) -> int:
    """Tiles that read each element of an operand."""
    return prod(-(-d.extent[n] // tile.get(n, d.extent[n])) for n in d.grid if n not in a.axes)


def _short(p: Piece, d: Demand, tile: Mapping[str, int], line: int, chip: Chip) -> float:
    """Part of a tensor's time that short runs lose: those below four sectors, and those of maps that the next block does not continue."""
    run = run_of(p.side_by_side, tile) * p.element
    if turned(p, d, tile):
        return chip.numbers["short_run"] * line / run
    return chip.numbers["short_run"] if run < line else 0.0


def turned(p: Piece, d: Demand, tile: Mapping[str, int]) -> bool:
    """Whether a map's tiles lie in another order in memory than blocks walk them."""
    cut = [a for a in d.grid if tile.get(a, d.extent[a]) < d.extent[a]]
    return not d.work.matrix and bool(p.side_by_side and cut and cut[-1] not in p.side_by_side)


def _block_bytes(d: Demand, tile: Mapping[str, int], chip: Chip, patches: bool = False,
                 once: float = 1.0) -> tuple[float, float]:
    """Bytes that one block reads, of each operand the tile's part along the axes of the output and all of it along reduced ones; and of
    these the bytes that do not depend on its rows.

    patches: a window's elements are read once for all taps that lie whole in the tile; once: the part of blocks' tiles that read
    an operand which all tiles share and which a tile holds whole.
    """
    reduced, rows = {a.name for axes in d.roles.depths for a in axes}, {a.name for a in d.roles.rows}
    size = lambda n: min(tile.get(n, d.extent[n]), d.extent[n])
    rate = chip.cores * chip.numbers["beyond_edge"] * (chip.numbers["cut_rows"] if d.cut else 1.0)
    empty = chip.memory("l2").bandwidth / rate  # as bytes of L2
    part = lambda n: d.extent[n] if n in reduced else size(n)
    taps = {a.name for a in (*d.roles.taps, *d.roles.runs) if size(a.name) == d.extent[a.name]} if patches else set()

    def elements(axes: Sequence[str], view: Sequence[Sequence[tuple[str, int]]]) -> int:
        """Distinct elements of a view that a tile reads."""
        slid = [x for x in view if taps & {n for n, _ in x}]
        sums = [1 + sum(abs(c) * (size(n) - 1) for n, c in x if n in d.extent) for x in slid]
        return prod(sums) * prod(part(n) for n in set(axes) - {n for x in slid for n, _ in x} if n in d.extent)

    every = []
    for a in d.operands:
        for axes, view in zip(a.views, a.places):
            whole = all(size(n) == d.extent[n] for n in axes if n in d.extent)
            outside = empty * _outside(a, view, d.extent, chip.memory("shared").line) if patches and a.factor else 0.0
            every.append((axes, elements(axes, view) * a.element * (once if whole else 1.0) * (1 + outside)))
    return float(sum(b for _, b in every)), float(sum(b for v, b in every if not rows & set(v)))


def _outside(a: Operand, view: Sequence[Sequence[tuple[str, int]]], extent: Mapping[str, int], line: int) -> float:
    """Zeros that bulk copies write for what lies beyond the last dimension of a tensor, as a part of what they read: their boxes have whole
    lines of shared memory as rows (CUDA driver API, CU_TENSOR_MAP_SWIZZLE_128B)."""
    rows = [1 + sum(abs(c) * (extent[n] - 1) for n, c in dim if n in extent) for dim in view]
    row = next((n for n in reversed(rows) if n > 1), 1)  # a dimension of one element has no step
    box = line // a.element
    return -(-row // box) * box / row - 1


def _padding(d: Demand, tile: Mapping[str, int], patches: bool, even: tuple[int, int]) -> float:
    """Work of whole tiles over the work asked for. In a tile all axes of a side but the outermost take powers of two, where they are not
    `even`; in depth not where taps are boxes of their own."""
    out = 1.0
    for axes, by in zip((d.roles.rows, d.roles.cols, d.roles.depth), (*even, 0)):
        exact = patches and axes is d.roles.depth
        for a, places in zip(axes, [min(tile.get(a.name, WHOLE), d.extent[a.name]) for a in axes] if exact else _padded(d, axes, tile, by)):
            e = d.extent[a.name]
            out *= -(-e // tile.get(a.name, e)) * places / e
    return out


def _padded(d: Demand, axes: Sequence[Axis], tile: Mapping[str, int], even: int = 0) -> list[int]:
    """Places of each axis of a side in a tile."""
    wide = [a for a in axes if tile.get(a.name, d.extent[a.name]) > 1]
    size = lambda a: tile.get(a.name, d.extent[a.name])
    return [power_of_two(size(a)) if a in wide[1:] and not (even and size(a) % even == 0) else size(a) for a in axes]


def turns(d: Demand, tile: Mapping[str, int]) -> tuple[int, int, int, int]:
    """(Chunks of a tile's longest row, along whose elements lanes run; how often they pass by: once more for each reduction that waits for
    one before it, and for results along the row; steps in which what is folded lane by lane passes by, as the taps of a window; rows of
    such a step.)"""
    if d.roles.form != "reduce":
        return 1, 1, 1, 1
    reduced = {a.name for axes in d.roles.depths for a in axes}
    dims = [{n for n, _ in dim} for a in d.operands for view in a.places for dim in view]
    slid = set().union(*(dim for dim in dims if not dim <= reduced))
    lanes = {n for a in d.operands for run in a.runs if run for n in run} - slid
    count = lambda axes: prod(-(-d.extent[a.name] // tile.get(a.name, d.extent[a.name])) for a in axes)
    chunks = max((count([a for a in axes if a.name in lanes]) for axes in d.roles.depths), default=1)
    again = (d.roles.levels - 1) * any(count(axes) > 1 for axes in d.roles.depths) + (count(d.roles.cols) > 1)
    folded = [[a for a in axes if a.name not in lanes] for axes in d.roles.depths]
    rows = max((prod(min(tile.get(a.name, d.extent[a.name]), d.extent[a.name]) for a in axes) for axes in folded), default=1)
    return chunks, 1 if d.carries else 1 + again, max(map(count, folded), default=1), rows


def whole_lines(a: Operand, tile: Mapping[str, int], line: int, extent: Mapping[str, int]) -> float:
    """Bytes moved over bytes used where a block reads an operand: whole lines for runs shorter than one. What a tile reads of the last
    dimension may be all of it: then the run goes on in the one before. Of a factor's elements a step apart, several of which a sector
    has, whole sectors are moved (its copies go along them); where a window's places fill the gaps, other turns ask for those."""
    near = (line // 2 - 1) // a.element if a.factor else 1  # elements that one of the two sectors has beside the first
    if a.places and all(_run_on(dims, tile, extent, near) * a.element >= line for dims in a.places):
        return float(max((_step(dims[-1], tile, extent) if len(dims[-1]) == 1 else 1 for dims in a.places if dims), default=1))
    worst = 1.0
    for side_by_side in a.runs:
        run = run_of(side_by_side, tile) * a.element
        if run < line:
            worst = max(worst, min(line / run, line / a.element))
    return worst


def copied(a: Operand, tile: Mapping[str, int], extent: Mapping[str, int]) -> tuple[float, int]:
    """(elements that tiles copy of an operand one by one, how many of memory come for each): the places of a window are copied each by
    itself, and of a row with steps what lies between comes too."""
    window = any(len(dim) > 1 for dims in a.places for dim in dims)
    elements = max(a.bytes / a.element, float(prod(extent[x] for x in a.axes)) if window else 0.0)
    wide = [[abs(c) for x, c in dims[-1] if tile.get(x, extent[x]) > 1] for dims in a.places if dims]
    return elements, max((min(steps) for steps in wide if steps), default=1)


def _step(axes: Sequence[tuple[str, int]], tile: Mapping[str, int], extent: Mapping[str, int]) -> int:
    """Elements from one that a tile reads of a dimension to the next."""
    return min((abs(c) for n, c in axes if n in extent and min(tile.get(n, extent[n]), extent[n]) > 1), default=1)


def _run_on(dims: Sequence[Sequence[tuple[str, int]]], tile: Mapping[str, int], extent: Mapping[str, int], near: int) -> int:
    """Elements from the first to the last that a tile reads of a view's last dimensions, of which all but the foremost are read whole; 1
    where they are more than `near` apart."""
    run = 1
    for axes in reversed(dims):
        size = {n: min(tile.get(n, extent[n]), extent[n]) for n, _ in axes if n in extent}
        run *= 1 + sum(abs(c) * (size[n] - 1) for n, c in axes if n in size)
        if any(size[n] < extent[n] for n in size):
            return run if _step(axes, tile, extent) <= near else 1
    return run


def run_of(side_by_side: tuple[str, ...] | None, tile: Mapping[str, int]) -> int:
    """Elements side by side in memory that one tile reads along the last dimension (whole axes count as long)."""
    if side_by_side is None:
        return WHOLE
    return max((tile.get(n, WHOLE) for n in side_by_side), default=1)


def _read_again(d: Demand, tile: Mapping[str, int], tiles: int, threads: int, elements: int, chip: Chip) -> float:
    """Bytes of rows that pass by once more: for each reduction that waits for one before it, and for results along the row. What L2 still
    has takes its bandwidth: cross entropy of 29433 x 1359 in chunks of 512 took 145 us where its bytes take 38; benchmarks/families.py,
    2026-11-24. What it has lost takes memory's: softmax of 512 x 131072 in chunks took 105 us where its bytes take 74, four blocks a
    core; benchmarks/gpu.py, H200, 2026-11-21."""
    cut = lambda axes: any(tile.get(a.name, d.extent[a.name]) < d.extent[a.name] for a in axes)
    rows, l2 = sum(a.bytes for a in d.operands if a.axes & {x.name for axes in d.roles.depths for x in axes}), chip.memory("l2")
    room = chip.registers.count / (chip.numbers["beside_kept"] * threads + elements)
    at_once = chip.cores * max(1.0, min(chip.limits["threads"] * 2 // threads, room // 1))
    rate = lambda blocks: 1.0 if rows * min(1.0, blocks / tiles) > l2.capacity else chip.memories[0].bandwidth / l2.bandwidth
    waited = (d.roles.levels - 1) * any(map(cut, d.roles.depths))
    return rows * (waited * rate(at_once) + cut(d.roles.cols) * rate(chip.numbers["l2_rows"] * chip.cores))


def torn(d: Demand, t: Tile, chip: Chip) -> float:
    """Bytes that memory moves beside a product's results for sectors in which a tile's part of a row ends and the next one's begins."""
    if not d.torn or not t.columns:
        return 0.0
    row = d.extent[d.roles.cols[-1].name]
    across = -(-row // t.columns)
    rows = d.work.written / (row * d.result)
    return rewritten(2 * SECTOR * d.torn * rows * across, d.work.written, chip) if across > 1 else 0.0
