"""Ops whose result lies where data say, or in an order that data say: they are no comprehension. Some targets have functions of their own
for them, which the chip's features name; on others they run through their reference."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from autocomp.ir.node import Attrs
from autocomp.ir.types import TensorType

# op -> feature of a chip
FUNCTIONS = {"scatter_nd": "scatters", "scatter_elements": "scatters", "topk": "sorts", "radix_topk": "radix_select", "sum_at": "atomics"}
ELEMENTS = ("f64", "f32", "f16", "bf16", "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
SELECTED = range(1, 2049)  # of how many elements `ordering/radix-select` makes a `radix_topk`


def coded(op: str, operands: Iterable[TensorType], features: Container[str]) -> bool:
    """Whether a chip with these features has a function for an op of these operands."""
    return FUNCTIONS.get(op) in features and all(t.dtype.name in ELEMENTS for t in operands)


def coded_by_rule(op: str, operands: Sequence[TensorType], attrs: Attrs, features: Container[str]) -> bool:
    """Whether a rule makes an op of it for which the chip has a function: of rows of a known length."""
    return (op == "topk" and attrs["k"] in SELECTED and all(isinstance(t.shape[attrs["axis"]], int) for t in operands)
            and coded("radix_topk", operands, features))  # fmt: skip
