"""Copies between memory and unified buffer as text: a tile row by row, or many rows at once where their distance is even."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from autocomp.targets.ascend.geometry import Geometry, strides
from autocomp.targets.ascend.tables import interface

from autocomp.errors import UnsupportedOp
from autocomp.tile.program import Tensor


@dataclass(frozen=True)
class Region:
    """Elements in memory: `base[text]` is the first of a tile, `step` elements lie between neighbours along each axis."""

    tensor: str
    base: str
    step: Mapping[str, int]
    axes: tuple[str, ...]
    bytes: int


def region(t: Tensor, start: Mapping[str, str], where: str) -> Region:
    """A tile of a tensor. Raises UnsupportedOp for views with borders or that are not affine."""
    step, offset = strides(t, where)
    return Region(f"{t.buffer}_g", base_text(step, offset, start), step, t.axes, t.dtype.bytes)


def base_text(step: Mapping[str, int], offset: int, start: Mapping[str, str]) -> str:
    """Index of a tile's first element."""
    begin = [f"{n}ull * {start[a]}" for a, n in step.items() if n and start[a] != "0"]
    return " + ".join(begin + ([str(offset)] if offset else [])) or "0"


def copy_lines(r: Region, g: Geometry, kind: str, lane: str, true: Mapping[str, str], local: str, into: bool,
               where: str) -> tuple[str, ...]:  # fmt: skip
    """Text that copies a tile between `local` and memory (`into`: into unified buffer). A statistic is dense in `local`.

    Raises UnsupportedOp where elements do not lie side by side.
    """
    lane = lane if kind != "stat" else _only(r, g, where)
    if lane and r.step.get(lane, 0) != 1 and true[lane] != "1":
        raise UnsupportedOp(f"elements of {r.tensor.removesuffix('_g')} along axis {lane} lie {r.step.get(lane, 0)} apart", where=where,
                            hint="vector cores copy rows; transpose the tensor beforehand")  # fmt: skip
    count = true[lane] if lane else "1"
    rows = [(a, n) for a, n in g.rows if n > 1] if kind == "full" else []
    last = rows[-1][0] if rows else ""
    block = bool(rows) and r.step.get(last, 0) >= g.lanes[lane] and rows[-1][1] <= interface().most("DataCopyExtParams", "blockCount")
    pitch = g.pitch(lane) if kind != "stat" else 0
    apart = {a: pitch * prod(n for _, n in rows[i + 1 :]) for i, (a, _) in enumerate(rows)}
    outer = [a for a, _ in (rows[:-1] if block else rows)]
    at = " + ".join(f"r_{a} * {apart[a]}" for a in outer) or "0"
    gm = " + ".join([r.base, *(f"{r.step[a]}ull * r_{a}" for a in outer if r.step.get(a, 0))])
    size = r.bytes
    gap = f"({pitch * size} - ({count} * {size} + 31) / 32 * 32) / 32" if block else "0"
    far = f"({r.step[last]} - {count}) * {size}" if block else "0"
    shape = f"ac_copy({true[last] if block else 1}, {count} * {size}, {', '.join((far, gap) if into else (gap, far))})"
    call = (f"DataCopyPad({local}[{at}], {r.tensor}[{gm}], {shape}, {{false, 0, 0, 0}});" if into
            else f"DataCopyPad({r.tensor}[{gm}], {local}[{at}], {shape});")  # fmt: skip
    loops = [f"for (uint32_t r_{a} = 0; r_{a} < {true[a]}; ++r_{a})" for a in outer]
    return (*(("  " * i) + x for i, x in enumerate(loops)), "  " * len(loops) + call)


def _only(r: Region, g: Geometry, where: str) -> str:
    """The axis of a statistic's rows. Raises UnsupportedOp where a tile has rows along several: one copy brings one run."""
    wide = [a for a, n in g.rows if n > 1]
    if len(wide) > 1:
        raise UnsupportedOp(f"values a row of {r.tensor.removesuffix('_g')} over {', '.join(wide)} are not copied as one run", where=where,
                            hint="vector cores copy rows; take tiles with one axis of rows")  # fmt: skip
    return wide[0] if wide else g.rows[-1][0] if g.rows else ""
