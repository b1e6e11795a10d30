"""The table of ATen operators, by ATen's name without its overload (of others `namespace::name`), and what a row is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autocomp.errors import UnsupportedOp
from autocomp.ir.builder import Builder
from autocomp.ir.node import Node
from autocomp.ir.types import DType, TensorType

Lowering = Callable[..., Any]
TABLE: dict[str, Lowering] = {}
ATEN = ("aten", "prims", "inductor_prims")  # namespaces in which a name means what ATen means by it


class Call:
    """One node of an exported graph. `out`: the type that torch gives the result (None where it is no tensor); of several results `outs`
    are the types and `read` the numbers of those that are read. `dense`: torch's own tensor that is its first operand lies row by row from
    the start of its memory; `contiguous`: it does from some place."""

    def __init__(self, b: Builder, name: str, out: TensorType | None, where: str, outs: tuple[Any, ...] = (),
                 read: frozenset[int] = frozenset(), dense: bool = True, contiguous: bool = True) -> None:  # fmt: skip
        self.dense, self.contiguous = dense, contiguous
        self.b, self.name, self.out, self.where, self.outs, self.read = b, name, out, where, outs, read

    def op(self, name: str, *inputs: Node, **attrs: Any) -> Node:
        return self.b.op(name, *inputs, **attrs)

    def refuse(self, why: str, hint: str = "") -> UnsupportedOp:
        return UnsupportedOp(f"{self.name}: {why}", where=self.where, hint=hint or "export the model without it")

    def cast(self, x: Node, to: DType) -> Node:
        return x if x.type.dtype == to else self.op("cast", x, to=to.name)

    def value(self, x: Any, dtype: DType) -> Node:
        """A node of this type: a tensor cast, a number as a constant."""
        return self.cast(x, dtype) if isinstance(x, Node) else self.b.const(x, dtype)

    def array(self, data: np.ndarray) -> Node:
        """A constant tensor."""
        return self.b.param(self.b.fresh(self.name), data)

    def shaped(self, x: Node) -> Node:
        """x with the result's shape (broadcast)."""
        assert self.out is not None
        return x if x.type.shape == self.out.shape else self.op("broadcast", x, shape=self.out.shape)


def name_of(target: Any) -> str:
    """What the table calls an operator: ATen's name, and of a library's own operator its namespace too, as ATen may have that name with
    another meaning (`mine::relu`)."""
    packet = getattr(target, "overloadpacket", target)
    name = str(getattr(packet, "__name__", packet)).partition(".")[0]
    return name if getattr(target, "namespace", ATEN[0]) in ATEN else f"{target.namespace}::{name}"


def row(*names: str) -> Callable[[Lowering], Lowering]:
    """Adds a function to the table under these names."""

    def add(f: Lowering) -> Lowering:
        TABLE.update(dict.fromkeys(names, f))
        return f

    return add


def per_axis(n: int, v: Any) -> tuple[int, ...]:
    """A number, or a list of one or of n numbers, as n numbers."""
    given = tuple(v) if isinstance(v, (list, tuple)) else (v,)
    return given * n if len(given) == 1 else given


def axis_of(x: Node, dim: int) -> int:
    return dim % max(1, x.type.rank)


def axes_of(x: Node, dims: Any) -> tuple[int, ...]:
    """Dimensions as non-negative axes; None or [] for all. torch lets a scalar have a dimension 0, over which nothing is done."""
    if dims is None or dims == [] or not x.type.rank:
        return tuple(range(x.type.rank))
    return tuple(sorted(axis_of(x, d) for d in ([dims] if isinstance(dims, int) else dims)))
