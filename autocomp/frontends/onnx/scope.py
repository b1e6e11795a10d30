"""What the names of an ONNX graph stand for while it is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autocomp.frontends.onnx.data import Codes
from autocomp.ir.node import Node


@dataclass(frozen=True)
class Coded:
    """A tensor of an element type that the op table does not have, by its codes. It is no Node: an operator that does not ask for
    such tensors refuses them (`Call.x`)."""

    node: Node
    codes: Codes


Value = Node | Coded | list["Value"] | None
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
