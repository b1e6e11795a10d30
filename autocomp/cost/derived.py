"""Numbers of a chip that its file may leave out: `cost_models/derived.yaml` has for each a number, or a formula over the chip's others.

    l2_clocks: {value: "latency * clock / 4", source: "inferred: a quarter of main memory's latency"}

A formula knows + - * /, max, min, round, other names of the list, the chip's limits, and `BASICS`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from autocomp.errors import ChipError
from autocomp.rewrite.yaml_source import read_yaml

FILE = "derived.yaml"
# seconds, 1/s; vectors a clock and core; bytes, bytes/s
BASICS = ("launch", "latency", "clock", "cores", "lanes", "fma_rate", "shared_bytes", "l2_rate", "dram_rate")
_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_CALLS: Mapping[str, Callable[..., float]] = {"max": max, "min": min, "round": round}


@lru_cache(maxsize=1)
def derived() -> Mapping[str, tuple[float | ast.expr, str]]:
    """name -> (number or formula, source) of the shipped list."""
    text = (files("autocomp.cost_models") / FILE).read_text(encoding="utf-8")
    out: dict[str, tuple[float | ast.expr, str]] = {}
    for name, entry in read_yaml(text, f"cost_models/{FILE}").value.items():
        value = entry.value["value"].value
        out[name] = float(value) if isinstance(value, (int, float)) else ast.parse(value, mode="eval").body, entry.value["source"].value
    return out


def constant(name: str) -> float:
    """A number of the list that is no formula and no chip changes: shapes of instructions and of printed code."""
    value, _ = derived()[name]
    assert isinstance(value, float), name
    return value


@cache
def made_by(function: str) -> float:
    """Instructions of an NPU's vector unit that make an elementary function; 1 of those that the list does not have."""
    name = f"npu_{function}"
    return constant(name) if name in derived() else 1.0


class Numbers(dict[str, float]):
    """A chip's numbers by name: its own (`limits` and `BASICS`), else derived ones, each computed once. ChipError where neither has it."""

    def __init__(self, known: Mapping[str, float], chip: str) -> None:
        super().__init__(known)
        self.chip = chip

    def __missing__(self, name: str) -> float:
        if name not in derived():
            raise ChipError(f"no number '{name}', which its target asks for", where=f"chip {self.chip}",
                            hint=f"limits: {{{name}: {{value: .., source: ..}}}} in the chip's file (docs/targets.md)")  # fmt: skip
        value, _ = derived()[name]
        self[name] = out = value if isinstance(value, float) else _value(value, self)
        return out

    def __reduce__(self) -> Any:
        return Numbers, (dict(self), self.chip)


def formula(text: str, known: Mapping[str, float]) -> float:
    """The value of a formula over named numbers."""
    return _value(ast.parse(text, mode="eval").body, known)


def _value(e: ast.expr, known: Mapping[str, float]) -> float:
    if isinstance(e, ast.Constant) and isinstance(e.value, (int, float)):
        return float(e.value)
    if isinstance(e, ast.Name):
        return float(known[e.id])
    if isinstance(e, ast.BinOp):
        return _BINARY[type(e.op)](_value(e.left, known), _value(e.right, known))
    assert isinstance(e, ast.Call) and isinstance(e.func, ast.Name), ast.dump(e)
    return float(_CALLS[e.func.id](*(_value(a, known) for a in e.args)))
