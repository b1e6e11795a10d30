"""A chip with other figures: 'memories.dram.bandwidth=8e12', 'cores=264', 'matrix.f16=2e15'."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from math import isfinite
from typing import Any

from autocomp.cost.chip import Chip
from autocomp.errors import ChipError

NUMBER = (int, float)


def figures(chip: Chip) -> dict[str, float]:
    """Every figure of a chip by its name, as `changed` takes it: those of its file, and those of a memory that it leaves out."""
    out: dict[str, float] = {}
    for f in fields(chip):
        value = getattr(chip, f.name)
        if not f.init or isinstance(value, bool):
            continue
        if isinstance(value, NUMBER):
            out[f.name] = value
        elif isinstance(value, Mapping):
            out |= {f"{f.name}.{k}": v for k, v in value.items() if isinstance(v, NUMBER)}
    for m in chip.memories:
        out |= {f"memories.{m.name}.{k}": v for k, v in vars(m).items() if isinstance(v, NUMBER) and not isinstance(v, bool)}
    return out | {f"registers.{k}": v for k, v in vars(chip.registers).items() if isinstance(v, NUMBER)}


def changed(chip: Chip, changes: Iterable[str]) -> tuple[Chip, list[str]]:
    """The chip with other figures, and a line for each. `changes`: NAME=NUMBER, in the units of the chip's file.

    Raises ChipError for what is no figure of the chip, with near names, and for what is no number that it may have.
    """
    told = []
    for text in changes:
        name, eq, number = (x.strip() for x in text.partition("="))
        known = figures(chip)
        if not eq:
            raise ChipError(f"'{text}' changes no figure", where="what-if", hint="write NAME=NUMBER, such as memories.dram.bandwidth=8e12")
        if name not in known:
            last = name.rpartition(".")[2]
            near = dict.fromkeys([*get_close_matches(name, known, 3), *(k for k in known if k.rpartition(".")[2] == last)])
            raise ChipError(f"chip {chip.name} has no figure '{name}'", where="what-if",
                            hint=f"nearest: {', '.join([*near][:4])}" if near else f"figures: {', '.join(sorted(known))}")  # fmt: skip
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not isfinite(value) or value < 0 or (value == 0 and known[name] > 0 and not name.startswith(("limits.", "la"))):
            raise ChipError(f"{name} cannot be '{number}'", where="what-if", hint=f"it is {known[name]:g} now; give a number above 0")
        if isinstance(known[name], int) and value != int(value):
            raise ChipError(f"{name} cannot be '{number}'", where="what-if", hint=f"it is {known[name]} now, a whole number")
        chip = _with(chip, name, int(value) if isinstance(known[name], int) else value)
        told.append(f"{name} is {value:g} instead of {known[name]:g}")
    return chip, told


def _with(chip: Chip, name: str, value: float) -> Chip:
    group, _, rest = name.partition(".")
    if not rest:
        return replace(chip, **{group: value})  # type: ignore[arg-type]
    if group == "memories":
        which, _, part = rest.rpartition(".")
        swap: Any = {part: value}
        return replace(chip, memories=tuple(replace(m, **swap) if m.name == which else m for m in chip.memories))
    if group == "registers":
        only: Any = {rest: int(value)}
        return replace(chip, registers=replace(chip.registers, **only))
    table: Any = {group: {**getattr(chip, group), rest: value}}
    return replace(chip, **table)
