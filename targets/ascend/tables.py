"""instructions.yaml, read once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from autocomp.targets.ascend.api import Api, api, architecture

from autocomp.cost.chip import Chip
from autocomp.errors import UnsupportedOp
from autocomp.files import own_table
from autocomp.ir.types import DType
from autocomp.tile.places import Place

RING = 2  # slots of a ring, where they fit


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    out: dict[str, Any] = own_table("autocomp.targets.ascend", "instructions.yaml")
    return out


def interface() -> Api:
    """What the public interface has for the cores of this family."""
    return api(architecture(str(table()["arch"])))


def interface_of(chip: Chip) -> Api:
    """What it has for a chip's cores."""
    return api(architecture(next((f for f in chip.features if f.startswith("dav-")), str(table()["arch"]))))


def place(name: str, chip: Chip) -> Place:
    """A memory of a chip, empty."""
    row = table()["places"][name]
    return Place(name, int(chip.memory(name).capacity), row["align"], row.get("row", 0))


def stored(d: DType, where: str) -> str:
    """C++ type of elements in memory. Raises UnsupportedOp."""
    if d.name not in table()["stored"]:
        raise UnsupportedOp(f"elements of type {d.name} are not computed by vector cores here", where=where,
                            hint=f"types: {', '.join(table()['stored'])}")  # fmt: skip
    return str(table()["stored"][d.name])


def loaded(d: DType, where: str) -> str:
    """C++ type of elements in memory that vector cores read or write. Raises UnsupportedOp."""
    return str(table()["held"].get(d.name) or stored(d, where))


def check_types(types: Iterable[DType], where: str, title: str) -> None:
    """Raises UnsupportedOp for a float wider than any unit of the chip computes, whatever form a kernel takes."""
    widest = int(table()["widest_float"])
    for d in dict.fromkeys(types):
        if d.is_float and d.bits > widest:
            raise UnsupportedOp(f"elements of type {d.name} have {d.bits} bits, {title} computes floats of at most {widest}", where=where,
                                hint="cast to f32 in the model")  # fmt: skip


def slot_text(at: int, turn: str, slots: int, bytes_: int) -> str:
    """Text of the byte where a round's slot of a ring begins."""
    if slots == 1:
        return str(at)
    return f"{at} + {turn} % {slots} * {bytes_}" if at else f"{turn} % {slots} * {bytes_}"
