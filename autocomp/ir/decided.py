"""Tensors whose last bit decides something: a rounding, a comparison, a remainder or an integer is computed from them.

    y = floor(x / 41)      x / 41 decides: 41 * (1 / 41) is below 1 in f32, and the floor of it is 0
    y = exp(x / 41) @ w    it does not: the exponential and the sum round anyway

Rules that save an operation by one more rounding ask `decides(?root)`. What rounds by itself (sums, products of matrices, elementary
functions) ends the way: a value behind it is as near as its rounding in any case.
"""

from __future__ import annotations

from math import isinf

from autocomp.ir.node import Graph, Node

COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
STEPS = frozenset(("floor", "ceil", "trunc", "round", "floordiv", "mod", "fmod", "ordinal"))
KEEPS = frozenset(("add", "sub", "mul", "div", "neg", "abs", "max", "min", "relu", "where", "sqrt", "pow", "cast", "as_stored", "transpose",
                   "reshape", "regroup", "broadcast", "slice", "pad", "pad_edge", "pad_reflect", "pad_wrap", "tile", "concat", "gather",
                   "gather_elements", "gather_nd", "reduce_max", "reduce_min", "maxpool"))  # fmt: skip


def is_step(n: Node) -> bool:
    """A map with steps: neighbouring floats may have far results. Comparisons with 0 and infinities have none where rounding matters."""
    if n.op in COMPARISONS:
        return not any(map(_zero_or_infinite, n.inputs))
    return n.op in STEPS or (n.op == "cast" and not n.type.dtype.is_float)


def _zero_or_infinite(n: Node) -> bool:
    while n.op in ("broadcast", "reshape", "transpose", "cast"):
        n = n.inputs[0]
    return n.op == "const" and (n.attrs["value"] == 0 or isinf(n.attrs["value"]))


def decided(graph: Graph) -> frozenset[Node]:
    """The floats that decide."""
    found: set[Node] = set()
    for n in reversed(graph.nodes()):
        if is_step(n) or (n in found and n.op in KEEPS):
            found.update(i for i in n.inputs if i.type.dtype.is_float)
    return frozenset(found)
