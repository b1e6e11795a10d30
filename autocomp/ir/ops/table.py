"""THE op table: one entry an op. No second list of ops exists anywhere; front ends, rules, kernels and emitters look here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from autocomp.ir.body import Comprehension
from autocomp.ir.node import Attrs, Node
from autocomp.ir.types import DType, TensorType

Infer = Callable[[tuple[TensorType, ...], Attrs], TensorType]
Reference = Callable[[tuple[np.ndarray, ...], Attrs, TensorType], np.ndarray]


class Maker(Protocol):
    """What a decomposition makes nodes with (`ir.builder.Builder`)."""

    def op(self, op: str, *inputs: Node, **attrs: Any) -> Node: ...

    def const(self, value: Any, dtype: DType) -> Node: ...


@dataclass(frozen=True)
class Op:
    """infer: type rule, raises ModelError with the shapes in its text.
    reference: NumPy meaning (arrays, attrs, type). It computes in the arrays' own dtype and returns the type's dtype; the
    float64 oracle passes float64 arrays and a type with F64 in place of every float, so one function is both the oracle
    and the fallback.
    Exactly one of: comprehension (meaning over named axes), decompose (into other entries), opaque (the reason why it is
    data-dependent; it then runs through its reference); an opaque entry may have a decomposition too, which gives None for what it
    does not cover. `narrow`: the decomposition that a chip gets whose units have no integers of 64 bits (feature `words_of_32_bits`).
    `commutes`: operands may be sorted.
    `injective`: of one operand, which follows from the result and the attributes.
    `associative`: of many operands; neighbours may be taken together first, by the same op with the same attributes.
    `attrs`: name -> default, or `...` where it must be given.
    """

    name: str
    arity: tuple[int, int]
    infer: Infer
    reference: Reference
    comprehension: Callable[[tuple[TensorType, ...], Attrs, TensorType], Comprehension] | None = None
    decompose: Callable[[Maker, tuple[Node, ...], Attrs], Node | None] | None = None
    narrow: Callable[[Maker, tuple[Node, ...], Attrs], Node | None] | None = None
    opaque: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    commutes: bool = False
    injective: bool = False
    associative: bool = False
    doc: str = ""


OPS: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Add an entry. Raises ValueError on a second entry of that name or on more or less than one meaning."""
    if op.name in OPS:
        raise ValueError(f"op {op.name} has two entries")
    if sum((op.comprehension is not None, op.decompose is not None and not op.opaque, bool(op.opaque))) != 1:
        raise ValueError(f"op {op.name} must have exactly one of comprehension, decompose, opaque")
    OPS[op.name] = op
    return op
