"""Values known while compiling: shape computations, constant folding, and what a value that is not known depends on.

A constant subgraph is evaluated through the op table's own references, so no second meaning of any operator exists here.
The size of a symbolic dimension is known as its symbol: arrays that hold symbols have dtype object.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from math import prod
from typing import Any

import numpy as np

from autocomp.budget import FOLD_OPERATIONS, TABLE_BYTES, Effort
from autocomp.deadline import current
from autocomp.errors import UnsupportedOp
from autocomp.ir.body import bound_axes
from autocomp.ir.builder import Builder
from autocomp.ir.node import Node
from autocomp.ir.ops import OPS
from autocomp.ir.sizes import larger, linear, product, quotient, size_of, smaller, total
from autocomp.ir.types import Dim, Sym, dtype_of

FOLD_ELEMENTS = 4096
"""A constant subgraph's value is computed at import when it and its operands have at most this many elements each."""

FEW = 64
"""Elements below which an op is counted by them alone."""

class Uncomputed(UnsupportedOp):
    """Something is computed from a symbol that is no size: its value is known when the program runs."""


class ValueNeeded(UnsupportedOp):
    """A value must be known while compiling but depends on graph inputs; `inputs` names them.

    A caller that has the values can bind them: `load_onnx(model, inputs={name: array})`.
    """

    def __init__(self, what: str, inputs: tuple[str, ...], where: str) -> None:
        self.inputs = inputs
        super().__init__(
            f"{what} must be known while compiling, but is computed from the graph input{'s' if len(inputs) > 1 else ''} "
            + ", ".join(f"'{n}'" for n in inputs),
            where=where,
            hint=f"bind the value: load_onnx(model, inputs={{'{inputs[0]}': array}})",
        )


class Constants:
    """Which nodes are constant (no graph input's data below them) and their values, computed when asked for and kept."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._constant: dict[Node, bool] = {}
        self._value: dict[Node, np.ndarray] = {}
        self._effort = Effort(FOLD_OPERATIONS)

    def node(self, array: np.ndarray, name: str) -> Node:
        """A constant as a node: a scalar becomes `const`, one float in another shape a `const` spread over it (rules then see its
        value), anything else the parameter `name`."""
        if array.shape == () or (array.size == 1 and array.dtype.kind == "f"):
            value = array.item() if array.dtype.kind in "iufb" else float(array)
            out = self.builder.const(value, dtype_of(array))
            if array.shape:
                out = self.builder.op("broadcast", out, shape=array.shape)
        else:
            out = self.builder.param(name, array)
        self._constant[out] = True
        self._value.setdefault(out, array)
        return out

    def is_constant(self, node: Node) -> bool:
        """No graph input's data below this node (sizes of inputs are known, as ints or symbols)."""
        for n in _below(node, self._constant):
            self._constant[n] = n.op == "extent" or (n.op != "input" and all(self._constant[i] for i in n.inputs))
        return self._constant[node]

    def value(self, node: Node, what: str, where: str) -> np.ndarray:
        """The value of a constant node. Raises ValueNeeded when it depends on graph inputs, UnsupportedOp when too large."""
        if not self.is_constant(node):
            names = sorted({str(n.attrs["name"]) for n in _below(node, ()) if n.op == "input"})
            raise ValueNeeded(what, tuple(names), where)
        for n in _below(node, self._value):
            self._value[n] = self._evaluate(n, what, where)
        return self._value[node]

    def fold(self, node: Node, name: str) -> Node:
        """`node`, or its value as a constant where that is known and small."""
        if node.op in ("const", "param", "input") or not self.is_constant(node):
            return node
        if any(not n.type.is_static or n.type.elements > FOLD_ELEMENTS for n in (node, *node.inputs)):
            return node
        if self._effort.done > FOLD_OPERATIONS // 2 or current().passed("import", "constants of constants, left to later stages"):
            return node
        try:
            value = self.value(node, name, name)
        except Uncomputed:  # nobody asked for it
            return node
        except UnsupportedOp:
            if self._effort.spent:  # nobody asked for it
                return node
            raise
        return node if value.dtype == object else self.node(value, name)

    def _evaluate(self, n: Node, what: str, where: str) -> np.ndarray:
        if n.op == "extent":
            size = n.inputs[0].type.shape[n.attrs["axis"]]
            return np.asarray(size, object) if isinstance(size, Sym) else np.asarray(size, n.type.dtype.numpy)
        if not n.type.is_static or n.type.bytes > TABLE_BYTES:
            raise UnsupportedOp(
                f"{what} needs the value of a {n.type} while compiling; the limit is {TABLE_BYTES} bytes",
                where=where,
                hint="fix symbolic dimensions with dims={...}; a declared size this large is likely a damaged file",
            )
        if n.op in ("const", "param"):
            return self.builder.value_of(n)
        args = tuple(self._value[i] for i in n.inputs)
        self._effort.done += _operations(n)
        if self._effort.spent:
            raise UnsupportedOp(f"{what} must be known while compiling, but computing the model's constants takes more than "
                                f"{FOLD_OPERATIONS} operations", where=where, hint="compute them before the export")  # fmt: skip
        if any(a.dtype == object for a in args):
            return self._symbolic(n, args, what, where)
        with np.errstate(all="ignore"):
            return np.asarray(OPS[n.op].reference(args, n.attrs, n.type)).astype(n.type.dtype.numpy, copy=False)

    def _symbolic(self, n: Node, args: tuple[np.ndarray, ...], what: str, where: str) -> np.ndarray:
        """Symbols are moved about (gather, concat, slice, reshape), and sizes computed from them where these are sizes (`ir.sizes`)."""
        if n.op == "cast":
            return args[0]
        try:
            of = ARITHMETIC.get(n.op)
            out = np.asarray(np.frompyfunc(of, 2, 1)(*args) if of else OPS[n.op].reference(args, n.attrs, n.type), object if of else None)
        except UnsupportedOp as e:  # a size that may be negative
            raise Uncomputed(f"{what}: {e.what}", where=where, hint=e.hint) from None
        except (TypeError, KeyError):
            names = sorted({v.name for a in args for v in a.reshape(-1) if isinstance(v, Sym)})
            raise Uncomputed(
                f"{what} computes '{n.op}' of the symbolic dimension {', '.join(names)}",
                where=where,
                hint=f"fix it: dims={{'{names[0]}': 1}}",
            ) from None
        return out if any(isinstance(v, Sym) for v in out.reshape(-1)) else out.astype(n.type.dtype.numpy)


def _divided(a: Dim, by: Dim) -> Dim:
    if not isinstance(by, int) or by < 1:
        raise TypeError(f"a size divided by {by}")
    return size_of(quotient(linear(a), by))


ARITHMETIC: Mapping[str, Callable[[Any, Any], Dim]] = {  # of sizes of which one is a symbol
    "add": lambda a, b: total([(_whole(a), 1), (_whole(b), 1)]), "sub": lambda a, b: total([(_whole(a), 1), (_whole(b), -1)]),
    "mul": lambda a, b: product([_whole(a), _whole(b)]), "idiv": lambda a, b: _divided(_whole(a), _whole(b)),
    "mod": lambda a, b: total([(_whole(a), 1), (product([_whole(b), _divided(_whole(a), _whole(b))]), -1)]),
    "min": lambda a, b: size_of(smaller(linear(_whole(a)), linear(_whole(b)))),
    "max": lambda a, b: size_of(larger(linear(_whole(a)), linear(_whole(b)))),
}  # fmt: skip


def _whole(x: Any) -> Dim:
    """An element of an array of sizes."""
    if isinstance(x, Sym):
        return x
    if int(x) != x:
        raise TypeError(f"a size of {x}")
    return int(x)


def _operations(n: Node) -> int:
    """Steps that an op takes on arrays of its static types: elements, and for each what it runs over."""
    elements = max((t.elements for t in (n.type, *(i.type for i in n.inputs)) if t.is_static), default=1)
    types, entry = tuple(i.type for i in n.inputs), OPS[n.op]
    if elements <= FEW or entry.comprehension is None or not all(t.is_static for t in types):
        return elements
    inside = bound_axes(entry.comprehension(types, n.attrs, n.type).value)
    return max(elements, n.type.elements * prod(a.extent for a in inside if isinstance(a.extent, int)))


def _below(node: Node, known: Container[Node]) -> list[Node]:
    """Nodes at and below `node` that are not in `known`, operands first; what an `extent` measures is not below it."""
    out: list[Node] = []
    seen: set[Node] = set()
    stack = [(node, False)]
    while stack:
        n, done = stack.pop()
        if done:
            out.append(n)
        elif n not in seen and n not in known:
            seen.add(n)
            stack.append((n, True))
            if n.op != "extent":
                stack.extend((i, False) for i in n.inputs)
    return out
