"""Which function lowers which ONNX operator. A lowering builds op-table nodes; it has no semantics of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.scope import Value

Lowering = Callable[[Call], Value | tuple[Value, ...]]
F = TypeVar("F", bound=Lowering)

ORT = "com.microsoft"  # the domain of onnxruntime's own operators
LOWERINGS: dict[tuple[str, str], Lowering] = {}


def lower(*names: str, domain: str = "") -> Callable[[F], F]:
    """Decorator: this function lowers the operators of these names (all opsets; it asks `call.opset` where they differ)."""

    def add(fn: F) -> F:
        for name in names:
            if (domain, name) in LOWERINGS:
                raise ValueError(f"ONNX operator {domain}:{name} has two lowerings")
            LOWERINGS[domain, name] = fn
        return fn

    return add
