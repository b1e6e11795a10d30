"""Matrix instructions as data: which types, how large, and where each worker holds its elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autocomp.errors import AutocompError
from autocomp.tile.layout import Digit


@dataclass(frozen=True)
class Instruction:
    """One row of a target's table. Digits name the axes m, n and k; registers then lanes of one wave.

    m, n, k     rows, columns and depth that one issue computes
    a, b, c     register and lane digits of the factors and of the accumulator
    call        the device function: call(c, a, b)
    load        how factors come from shared memory: ldmatrix, or each lane its own elements
    factor      type that factors have in registers ("": as they are stored)
    asked       word by which a schedule asks for it ("": taken unasked)
    wave        digits of the waves that issue it together (none: one wave does)
    deep        factors in shared memory must run along the reduced axis (K-major)
    whole       widths that the accumulator may have are multiples of this, or below 32 of 8
    """

    name: str
    types: tuple[str, str, str]
    m: int
    n: int
    k: int
    a: tuple[tuple[Digit, ...], tuple[Digit, ...]]
    b: tuple[tuple[Digit, ...], tuple[Digit, ...]]
    c: tuple[tuple[Digit, ...], tuple[Digit, ...]]
    call: str
    wave: tuple[Digit, ...] = ()
    needs: str = ""
    source: str = ""
    load: str = ""
    factor: str = ""
    asked: str = ""
    deep: bool = False
    whole: int = 8

    def widths(self) -> tuple[int, ...]:
        """Columns that one issue of an instruction of several waves may have, the fewest first."""
        return tuple(n for n in range(8, self.n + 1, 8) if n < 32 or n % self.whole == 0)


def read_instructions(rows: Sequence[Mapping[str, Any]]) -> tuple[Instruction, ...]:
    """The rows of an instructions.yaml. Raises AutocompError for a row whose digits do not fill its tile."""
    return tuple(_read(r) for r in rows)


def _read(row: Mapping[str, Any]) -> Instruction:
    digits = lambda level: tuple(Digit(str(axis or ""), int(stride), int(count)) for axis, stride, count in level)
    part = lambda key: (digits(row[key]["reg"]), digits(row[key]["lane"]))
    out = Instruction(row["name"], tuple(row["types"]), row["m"], row["n"], row["k"], part("a"), part("b"), part("c"), row["call"],
                      digits(row.get("wave", ())), row.get("needs", ""), row.get("source", ""),
                      row.get("load", ""), row.get("factor", ""), row.get("asked", ""),
                      row.get("deep", False), row.get("whole", 8))  # fmt: skip
    for key, axes in (("a", "mk"), ("b", "kn"), ("c", "mn")):
        for axis in axes:
            have = 1
            for level in (*getattr(out, key), out.wave if key != "b" else ()):
                for d in level:
                    have *= d.count if d.axis == axis else 1
            if have != getattr(out, axis):
                need = getattr(out, axis)
                raise AutocompError(f"operand {key} covers {have} of axis {axis}, the tile has {need}", where=f"instruction {out.name}")
    return out
