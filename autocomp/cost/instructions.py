"""What the vector cores of an NPU do for a tile, beside its copies: instructions, each with its start, and elements that pass them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autocomp.cost.chip import F32, Chip
from autocomp.cost.demand import Demand, Operand, Piece
from autocomp.cost.derived import constant
from autocomp.cost.pipes import BLOCK
from autocomp.cost.tiles import copied


@dataclass(frozen=True)
class Instructions:
    """`elements` of all instructions beside the operations that the body names; `calls`: instructions of a turn; `rows` that integers name,
    a copy each; `into`, `out`: copies of a turn beside one an operand and one of the results."""

    elements: float = 0.0
    calls: float = 0.0
    rows: float = 0.0
    into: float = 0.0
    out: float = 0.0


NONE = Instructions()


@dataclass(frozen=True)
class Joined:
    """Rows of a tile's results that leave as one run (directive joined_rows): the outermost axis along which they lie one behind the other,
    elements of a run for each of its indices and in all, and runs of a tile."""

    axis: str
    each: int
    run: int
    runs: int


SPREAD = int(constant("npu_spread"))  # elements of a row that are copied for one that is wanted, at most


def joined_rows(d: Demand, tile: Mapping[str, int]) -> Joined | None:
    """The runs of a tile's results; None where their rows are whole blocks or have gaps between them."""
    out = d.pieces[-1] if d.pieces else None
    lane = out.side_by_side[-1] if out and out.side_by_side else ""
    if out is None or lane not in d.grid:
        return None
    size = {x: min(tile.get(x, d.extent[x]), d.extent[x]) for x in d.grid}
    rows = [(x, size[x]) for x in d.grid if size[x] > 1 and x != lane]
    n = behind_each_other(rows, dict(out.apart), (lane, size[lane]), lambda x: d.extent[x] % size[x] == 0)
    if size[lane] * out.element % BLOCK == 0 or not n:
        return None
    left, runs = rows[:-n], rows[-n:]
    inner = size[lane] * prod(k for _, k in runs[1:])
    return Joined(runs[0][0], inner, inner * runs[0][1], prod(k for _, k in left))


def behind_each_other(rows: Sequence[tuple[str, int]], apart: Mapping[str, int], lane: tuple[str, int], even: Callable[[str], bool]) -> int:
    """How many of the innermost axes `rows` (outermost first, with their tiles) have rows one behind the other, each as long as `lane`'s
    tile. apart: elements between an axis's neighbours; even: whether all tiles along an axis are as long, so that nothing ends within."""
    inner, run = lane
    for count, (axis, n) in enumerate(reversed(rows)):
        if apart.get(axis) != run or not even(inner):
            return count
        inner, run = axis, run * n
    return len(rows)


def with_pads(d: Demand, tile: Mapping[str, int]) -> float:
    """Lanes of a map's rows, which begin at blocks, over their elements: what lies behind a row is computed as well."""
    if d.roles.form != "map" or not d.grid or not d.extent[d.grid[-1]]:
        return 1.0
    lane = d.grid[-1]
    run, block = min(tile.get(lane, d.extent[lane]), d.extent[lane]), BLOCK // min((2, *(p.element for p in d.pieces)))
    return -(-run // block) * block / run


def instructions_of(d: Demand, tile: Mapping[str, int], chip: Chip, joined: Joined | None = None) -> Instructions:
    """Borders are compared, rows with steps looked up one by one, values of less than 32 bits converted on the way in and out where an
    instruction works on them, and elementary functions made of several instructions."""
    of, extent = chip.numbers, d.extent
    size = lambda x: min(tile.get(x, extent[x]), extent[x])
    turns = prod(-(-n // size(x)) for x, n in extent.items() if n)
    elements, calls = of["looked_up"] * d.looked_up + d.beside, d.calls
    calls += 0 if d.rows[1] else d.sums * of["word_steps"]  # which rows are meant the scalar unit computes
    if "rounds_by_sums" in chip.features:
        elements, calls = elements + of["rounded_by_sums"] * d.rounded[0], calls + of["rounded_by_sums"] * d.rounded[1]
    if "words_by_masks" in chip.features:
        elements, calls = elements + d.masked[0], calls + d.masked[1]
    if "bf16_by_words" in chip.features:
        made = [(n, each) for n, each in zip(d.bf16, (of["bf16_widened"], of["bf16_narrowed"])) if n]
        elements, calls = elements + sum(n * each for n, each in made), calls + sum(each for _, each in made)
    if d.looked_up and d.grid:  # an instruction looks up elements of one row
        calls += prod(size(x) for x in d.grid[:-1])
    several = sum(size(x) > 1 for x in d.grid[:-1]) > 1  # axes of rows, whose indices are quotients of a row's number
    for a in d.operands:
        n, step = copied(a, tile, extent)
        looked = _along(a)
        if d.roles.form == "map" and d.grid and step > 1:  # an instruction looks up a row, whatever else moves along it
            looked = {d.grid[-1]}
        if d.roles.form == "map" and d.grid and not a.guards and not d.looked_up and (lanes := spread(a, d, tile)) > step:
            step, looked = lanes, {d.grid[-1]}
        n *= asked_again(d, a, tile)
        elements += of["border"] * a.guards * n + (n if a.element < F32 and d.calls > 1 else 0.0)
        calls += (of["border_calls"] + of["border_rows"] * several) * a.guards
        if step > 1 or a.element > F32:  # of long integers the low halves are looked up
            halves = d.long[0] if a.element > F32 else 1.0
            elements, calls = elements + halves * of["looked_up"] * n, calls + halves * of["npu_places"]
            calls += n / turns / max(1, prod(size(x) for x in looked if x in extent))
    if d.calls > 1 and d.pieces and d.pieces[-1].element < F32:
        elements += d.pieces[-1].bytes / d.pieces[-1].element
    if d.long[1]:
        elements, calls = elements + 2 * (of["looked_up"] + of["npu_joined"]) * d.long[1], calls + of["npu_joined"]
    if d.folds:  # rows of words lie side by side when they are folded, as many as a block has at least
        rows = prod(size(x) for x in d.grid)
        padded = -(-rows // of["npu_turned_rows"]) * of["npu_turned_rows"] / rows
        elements += d.folds * (padded * (of["word_steps"] + of["npu_turned"]) - of["word_steps"])
    if joined:
        elements, calls = elements + of["looked_up"] * d.pieces[-1].bytes / d.pieces[-1].element, calls + joined.runs
    into = out = 0.0
    if d.grid:
        into = sum(bordered_copies(a, d, tile, chip) - 1 for a in d.operands if a.guards)
    if d.roles.form == "map" and d.grid and d.pieces and not d.looked_up:
        into += sum(copies(a, d, tile, chip) - 1 for a in d.operands if not a.guards)
        out = (joined.runs if joined else copies(d.pieces[-1], d, tile, chip)) - 1
    points, along = d.rows
    return Instructions(elements * with_pads(d, tile), calls, points / size(along) if along else 0.0, into, out)


def copies(a: Operand | Piece, d: Demand, tile: Mapping[str, int], chip: Chip) -> float:
    """Copies that bring or take a tile of an operand of a map, whose lanes run along the last axis: one has the rows of an axis where they
    lie behind each other, with or without a gap, of whole blocks on chips that copy such; of axes further out each row has its own."""
    apart, lane = dict(a.apart), d.grid[-1]
    size = {x: min(tile.get(x, d.extent[x]), d.extent[x]) for x in d.grid}
    rows = [x for x in d.grid[:-1] if size[x] > 1 and apart.get(x, 0)]
    if not rows or (size[lane] > 1 and turned(a, d, tile)):
        return 1.0
    run = (size[lane] - 1) * abs(apart.get(lane, 0)) + 1 if spread(a, d, tile) > 1 else size[lane]
    whole = "whole_blocks" not in chip.features or not (run * a.element % BLOCK or apart[rows[-1]] * a.element % BLOCK)
    return float(prod(size[x] for x in (rows[:-1] if whole and abs(apart[rows[-1]]) >= run else rows)))


def bordered_copies(a: Operand, d: Demand, tile: Mapping[str, int], chip: Chip) -> float:
    """The same of an operand with borders, of which chips with copies of whole blocks bring each row by itself."""
    rows = [n for x in d.grid[:-1] if x in a.axes and (n := min(tile.get(x, d.extent[x]), d.extent[x])) > 1]
    return float(prod(rows if "whole_blocks" in chip.features else rows[:-1]))


def turned(a: Operand | Piece, d: Demand, tile: Mapping[str, int]) -> bool:
    """Whether neighbours in memory are of different rows of a tile, which is copied as it lies then and turned."""
    apart = dict(a.apart)
    rows = [x for x in d.grid[:-1] if min(tile.get(x, d.extent[x]), d.extent[x]) > 1]
    return apart.get(d.grid[-1], 1) != 1 and [apart.get(x, 0) for x in rows] == [1]


def spread(a: Operand | Piece, d: Demand, tile: Mapping[str, int]) -> int:
    """Elements of memory that are copied for each that is wanted along the lanes of a map: few are, and looked up behind that."""
    lane = d.grid[-1]
    step = abs(dict(a.apart).get(lane, 1)) if min(tile.get(lane, d.extent[lane]), d.extent[lane]) > 1 else 1
    return step if step <= SPREAD and not turned(a, d, tile) else 1


def lines_with_steps(a: Operand, step: int, d: Demand, tile: Mapping[str, int], line: int) -> float:
    """Bytes of whole lines over those that are copied of rows of which every `step`th element is wanted: what lies between comes too."""
    run = step * a.element * max(1, prod(min(tile.get(x, d.extent[x]), d.extent[x]) for x in _along(a) if x in d.extent))
    return max(1.0, line / run)


def asked_again(d: Demand, a: Operand, tile: Mapping[str, int]) -> int:
    """Tiles that copy each element of an operand: a unified buffer keeps nothing from one tile to the next. Of a table
    whose rows integers name a tile copies its own."""
    return 1 if not a.views else prod(-(-d.extent[x] // tile.get(x, d.extent[x])) for x in d.grid if x not in a.axes)


def _along(a: Operand) -> set[str]:
    """Axes of an operand's last dimension."""
    return {x for dims in a.places[:1] for x, _ in (dims[-1] if dims else ())}
