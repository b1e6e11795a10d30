"""Ops whose result lies where data say, or in an order that data say: they are no comprehension. Some targets have functions of their own
for them, which the chip's features name; on others they run through their reference."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import prod

from autocomp.ir.node import Attrs
from autocomp.ir.types import TensorType, dim_hint

# op -> feature of a chip
FUNCTIONS = {"scatter_nd": "scatters", "scatter_elements": "scatters", "topk": "sorts", "radix_topk": "radix_select", "sum_at": "atomics"}
CHUNKED = "scatters_by_chunks"
PLACE = 2**14  # elements that an index names, of which any core holds those of one
ELEMENTS = ("f64", "f32", "f16", "bf16", "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
SELECTED = 2048  # elements up to which a `radix_topk` is a selection (`ordering/radix-select`), and not a sort of rows of static shapes


def coded(op: str, operands: Iterable[TensorType], features: Container[str], attrs: Attrs | None = None) -> bool:
    """Whether a chip with these features has a function for an op of these operands."""
    given = tuple(operands)
    if not all(t.dtype.name in ELEMENTS for t in given):
        return False
    return FUNCTIONS.get(op) in features or (attrs is not None and CHUNKED in features and _in_chunks(op, given, attrs))


def _in_chunks(op: str, operands: Sequence[TensorType], attrs: Attrs) -> bool:
    """Whether vector cores of an NPU take a scatter chunk by chunk: of known sizes, folds of what they compute."""
    if FUNCTIONS.get(op) != "scatters":
        return False
    known = all(t.is_static and t.elements > 0 for t in operands) and operands[1].dtype.name in ("i32", "i64")
    if not known or (op == "scatter_nd" and operands[2].elements // prod(map(dim_hint, operands[1].shape[:-1])) > PLACE):
        return False
    return operands[0].elements < 2**31 and (attrs["reduction"] == "none" or operands[0].dtype.name in ("f32", "f16", "i32"))


def coded_by_rule(op: str, operands: Sequence[TensorType], attrs: Attrs, features: Container[str]) -> bool:
    """Whether a rule makes an op of it for which the chip has a function: of rows of a known length."""
    return (op == "topk" and isinstance(attrs["k"], int) and attrs["k"] >= 1 and coded("radix_topk", operands, features)
            and all(isinstance(t.shape[attrs["axis"]], int) and (attrs["k"] <= SELECTED or t.is_static) for t in operands))  # fmt: skip
