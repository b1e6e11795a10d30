"""How near zero the elements of a tensor can be, as far as the graph says it.

    e = exp(x - max(x)) >= 0; sum(e) >= 1     one of its terms is exp(0)
    sqrt(v) >= 2^-75 or 0                     the root of f32's least number
    max(n, 1e-12), v + 1e-5 of v >= 0         what programs write so that a divisor is not zero

Rules that put a product with 1 / y for a division by y ask `invertible(d, ?y)`: 1 / y of a number below f32's 2^-128 is an infinity where
x / y is a number. Bounds are rough: what is asked leaves room for the rounding of many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import exp, inf, sqrt

from ml_dtypes import finfo

from autocomp.ir.node import Graph, Node
from autocomp.ir.types import F32, DType

VIEWS = frozenset(("transpose", "reshape", "regroup", "broadcast", "slice", "tile", "pad_edge", "pad_reflect", "pad_wrap"))
TAKES = frozenset(("concat", "reduce_max", "reduce_min", "maxpool", "min", "max"))  # elements of their operands
ROOM = 4.0  # times the least normal number: for what rounding does to a bound


@dataclass(frozen=True)
class Bounds:
    """Of a tensor's elements but NaN: 0 or of a magnitude of at least `least`; at least `low`."""

    least: float
    low: float = -inf


def bounds(graph: Graph) -> dict[Node, Bounds]:
    """Of every tensor of the graph."""
    found: dict[Node, Bounds] = {}
    for n in graph.nodes():
        b = _of(n, [found[i] for i in n.inputs])
        smallest = _smallest(n)
        low = b.low if abs(b.low) >= normal(n.type.dtype) or b.low == 0 else min(b.low, 0.0)
        found[n] = Bounds(max(smallest, b.least if b.least >= normal(_computed(n)) else 0.0, low), low)
    return found


@cache
def normal(d: DType) -> float:
    """A few times the least normal number of a type; 1 of integers."""
    return ROOM * float(finfo(d.numpy).smallest_normal) if d.is_float else 1.0


def _computed(n: Node) -> DType:
    """The type that kernels compute it in: short floats may have more digits than they are stored with."""
    return F32 if n.type.dtype.is_float and n.type.dtype.bits < 32 else n.type.dtype


def _smallest(n: Node) -> float:
    stored = n.type.dtype if n.op in ("input", "param", "as_stored") else _computed(n)
    return float(finfo(stored.numpy).smallest_subnormal) if stored.is_float else 1.0


def _of(n: Node, given: list[Bounds]) -> Bounds:
    if n.op in VIEWS or n.op in ("cast", "as_stored", "gather"):  # a cast to fewer digits keeps the order of numbers
        return given[0]
    if n.op in TAKES:
        low = max(b.low for b in given) if n.op == "max" else min(b.low for b in given)
        return Bounds(min(b.least for b in given), low)
    if n.op == "where":
        return Bounds(min(given[1].least, given[2].least), min(given[1].low, given[2].low))
    return STEPS[n.op](n, given) if n.op in STEPS else Bounds(0.0)


def _const(n: Node, _: list[Bounds]) -> Bounds:
    v = float(n.attrs["value"])
    return Bounds(abs(v), v) if v == v else Bounds(inf, inf)


def _sum_of_two(_: Node, g: list[Bounds]) -> Bounds:
    return Bounds(0.0, g[0].low + g[1].low if min(g[0].low, g[1].low) > -inf else -inf)


def _product(n: Node, g: list[Bounds]) -> Bounds:
    low = g[0].low * g[1].low if min(g[0].low, g[1].low) >= 0 and inf not in (g[0].low, g[1].low) else -inf
    return Bounds(g[0].least * g[1].least, max(low, 0.0) if n.inputs[0] is n.inputs[1] else low)


def _total(n: Node, g: list[Bounds]) -> Bounds:
    """A sum of what is not negative is at least as large as its largest term."""
    if g[0].low < 0:
        return Bounds(0.0)
    return Bounds(0.0, max(g[0].low, _peak(n.inputs[0], tuple(n.attrs["axes"]))))


def _peak(n: Node, axes: tuple[int, ...]) -> float:
    """What the largest element along some axes is at least: 0 of a row less its own maximum."""
    while n.op in ("cast", "as_stored"):
        n = n.inputs[0]
    if n.op == "exp":
        return exp(min(_peak(n.inputs[0], axes), 80.0))
    if n.op != "sub":
        return -inf
    top = n.inputs[1]
    while top.op in ("broadcast", "cast", "as_stored"):
        top = top.inputs[0]
    of = top.inputs[0] if top.op == "reduce_max" and top.attrs["keepdims"] and tuple(top.attrs["axes"]) == axes else None
    return 0.0 if of is not None and of is n.inputs[0] else -inf


def _root(_: Node, g: list[Bounds]) -> Bounds:
    return Bounds(sqrt(g[0].least), sqrt(max(g[0].low, 0.0)))


def _at_least(low: float) -> Callable[[Node, list[Bounds]], Bounds]:
    return lambda _, g: Bounds(0.0, low)


STEPS: dict[str, Callable[[Node, list[Bounds]], Bounds]] = {
    "const": _const, "add": _sum_of_two, "mul": _product, "reduce_sum": _total, "sqrt": _root,
    "exp": lambda _, g: Bounds(0.0, exp(min(g[0].low, 80.0))),
    "exp2": _at_least(0.0), "sigmoid": _at_least(0.0), "softplus": _at_least(0.0),
    "abs": lambda _, g: Bounds(g[0].least, max(g[0].low, 0.0)),
    "neg": lambda _, g: Bounds(g[0].least),
    "relu": lambda _, g: Bounds(g[0].least, max(g[0].low, 0.0)),
    **{name: (lambda _, g: Bounds(1.0)) for name in ("floor", "ceil", "trunc", "round", "sign")},
}  # fmt: skip
