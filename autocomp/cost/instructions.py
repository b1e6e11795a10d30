"""What the vector cores of an NPU do for a tile, beside its copies: instructions, each with its start, and elements that pass them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from autocomp.cost.chip import F32, Chip
from autocomp.cost.demand import Demand, Operand
from autocomp.cost.tiles import copied


@dataclass(frozen=True)
class Instructions:
    """`elements` of all instructions beside the operations that the body names; `calls`: instructions of a turn; `rows` that integers name,
    a copy each."""

    elements: float = 0.0
    calls: float = 0.0
    rows: float = 0.0


NONE = Instructions()


def instructions_of(d: Demand, tile: Mapping[str, int], chip: Chip) -> Instructions:
    """Borders are compared, rows with steps looked up one by one, values of less than 32 bits converted on the way in and out where an
    instruction works on them, and elementary functions made of several instructions."""
    of, extent = chip.numbers, d.extent
    size = lambda x: min(tile.get(x, extent[x]), extent[x])
    turns = prod(-(-n // size(x)) for x, n in extent.items() if n)
    elements, calls = of["looked_up"] * d.looked_up + d.beside, d.calls
    for a in d.operands:
        n, step = copied(a, tile, extent)
        n *= asked_again(d, a, tile)
        elements += of["border"] * a.guards * n + (n if a.element < F32 and d.calls > 1 else 0.0)
        calls += of["border_calls"] * a.guards
        if step > 1:
            elements += of["looked_up"] * n
            calls += n / turns / max(1, prod(size(x) for x in _along(a) if x in extent))
    if d.calls > 1 and d.pieces and d.pieces[-1].element < F32:
        elements += d.pieces[-1].bytes / d.pieces[-1].element
    if d.folds:  # rows of words lie side by side when they are folded, as many as a block has at least
        rows = prod(size(x) for x in d.grid)
        padded = -(-rows // of["npu_turned_rows"]) * of["npu_turned_rows"] / rows
        elements += d.folds * (padded * (of["word_steps"] + of["npu_turned"]) - of["word_steps"])
    points, along = d.rows
    return Instructions(elements, calls, points / size(along) if along else 0.0)


def asked_again(d: Demand, a: Operand, tile: Mapping[str, int]) -> int:
    """Tiles that copy each element of an operand: a unified buffer keeps nothing from one tile to the next. Of a table
    whose rows integers name a tile copies its own."""
    return 1 if not a.views else prod(-(-d.extent[x] // tile.get(x, d.extent[x])) for x in d.grid if x not in a.axes)


def _along(a: Operand) -> set[str]:
    """Axes of an operand's last dimension."""
    return {x for dims in a.places[:1] for x, _ in (dims[-1] if dims else ())}
