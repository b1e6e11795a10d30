"""What the names of an ONNX graph stand for while it is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autocomp.ir.node import Node

Value = Node | list["Value"] | None
"""What a name stands for: a tensor, a sequence of known length, or an absent optional."""


@dataclass
class Scope:
    """Names of one graph; lookups fall through to the graph around it. `opsets` are those of the model or function."""

    opsets: Mapping[str, int]
    label: str = ""
    outer: Scope | None = None
    values: dict[str, Value] = field(default_factory=dict)
    depth: int = 0

    def find(self, name: str) -> tuple[bool, Value]:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return True, scope.values[name]
            scope = scope.outer
        return False, None
