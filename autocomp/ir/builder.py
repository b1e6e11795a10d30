"""Building graphs: types are inferred and checked through the op table, commuting operands sorted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeVar
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.node import Attrs, Graph, Node, ParamData, Written, make
from autocomp.ir.ops import OPS
from autocomp.ir.ops.views import has_open_strides
from autocomp.ir.orders import Order
from autocomp.ir.types import DTYPES, DType, TensorType, dtype_of

T = TypeVar("T")
NO_ATTRS = Attrs()


def _frozen(v: Any) -> Any:
    if isinstance(v, (list, tuple)):
        return tuple(_frozen(x) for x in v)
    if isinstance(v, np.generic):
        return v.item()
    return v


def checked_attrs(op: str, given: Mapping[str, Any]) -> Attrs:
    """Attributes with defaults filled in. Raises ModelError on unknown or missing ones."""
    spec = OPS[op].attrs
    if not spec and not given:
        return NO_ATTRS
    unknown = sorted(set(given) - set(spec))
    if unknown:
        raise ModelError(f"has no attribute {unknown[0]}", where=op, hint=f"attributes: {', '.join(spec) or 'none'}")
    values = {k: _frozen(given.get(k, d)) for k, d in spec.items()}
    missing = [k for k, v in values.items() if v is ...]
    if missing:
        raise ModelError(f"needs attribute {missing[0]}", where=op)
    return Attrs(values)


@lru_cache(maxsize=2**14)
def _inferred(infer: Callable[[tuple[TensorType, ...], Attrs], TensorType], types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    return infer(types, attrs)


def inferred(op: str, types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """The type of an op's result. Raises ModelError, also where an attribute has not the form that the op takes (a number for a list)."""
    try:
        return _inferred(OPS[op].infer, types, attrs)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError) as e:
        given = ", ".join(f"{k}={v!r}" for k, v in attrs.items())
        over = ", ".join(map(str, types)) or "no operand"
        raise ModelError(f"does not take {over} with {given or 'no attributes'} ({e})", where=op) from None


def constant(value: Any, dtype: DType) -> Any:
    """A number as a dtype holds it. Raises ModelError for what is none."""
    if not isinstance(value, (bool, int, float, np.generic, np.ndarray)):
        raise ModelError(f"a constant is a number, got {value!r}", where="const")
    with np.errstate(all="ignore"):
        try:
            return np.asarray(value).astype(dtype.numpy).item()
        except (TypeError, ValueError, OverflowError) as e:
            raise ModelError(f"{value} cannot be {dtype} ({e})", where="const") from None


def _as_read(data: Callable[[], np.ndarray], name: str, type: TensorType) -> Callable[[], np.ndarray]:
    """Lazy data of a parameter. Raises ModelError where it is not what it was when the model was read: a module that was widened since
    (`module.double()`) has other bytes."""

    def now() -> np.ndarray:
        x = np.asarray(data())
        if x.shape != type.shape or x.dtype != type.dtype.numpy:
            raise ModelError(f"parameter '{name}' is declared {type} but has {x.dtype}{list(x.shape)}",
                             hint="its module was changed since it was compiled: compile it again")  # fmt: skip
        return x

    return now


def make_op(op: str, inputs: tuple[Node, ...], attrs: Mapping[str, Any]) -> Node:
    """The node of an op over nodes. Raises ModelError (unknown op, arity, types)."""
    entry = OPS.get(op)
    if entry is None:
        from difflib import get_close_matches

        near = get_close_matches(op, OPS, 1)
        raise ModelError(f"there is no op '{op}'", hint=f"did you mean '{near[0]}'?" if near else "see autocomp.ir.ops")
    if not entry.arity[0] <= len(inputs) <= entry.arity[1]:
        raise ModelError(f"takes {entry.arity[0]} operands, got {len(inputs)}", where=op)
    values = checked_attrs(op, attrs)
    out = inferred(op, tuple(n.type for n in inputs), values)
    if entry.commutes:
        inputs = tuple(sorted(inputs, key=sort_key))
    return make(op, inputs, out, values)


def sort_key(n: Node) -> tuple[Any, ...]:
    """Canonical order of commuting operands: bigger tensors first, constants last, then by what made them (so that layers of a model that
    are alike have one order), then by all that is below."""
    return (n.op == "const", n.op == "param", -n.type.elements, n.op, repr(n.attrs), outline(n), digest(n))


OUTLINE = 6  # nodes deep: what two operands of one layer's sum are made by differs within these
_OUTLINES: WeakKeyDictionary[Node, tuple[int, ...]] = WeakKeyDictionary()
_DIGESTS: WeakKeyDictionary[Node, str] = WeakKeyDictionary()


def outline(root: Node) -> tuple[int, ...]:
    """Checksums of the topmost 1, 2, .. OUTLINE nodes of an expression, in which leaves of one type are alike and operands that commute
    have no order: two operands that differ near their tops are ordered by that, whatever is below."""

    def of(n: Node) -> tuple[int, ...]:
        top = f"{n.op} {n.type} {'' if n.op in ('input', 'param') else n.attrs!r}"
        entry = OPS.get(n.op)
        order = sorted if entry is not None and entry.commutes else list
        below = [_OUTLINES[i] for i in n.inputs]
        return crc32(top.encode()), *(crc32(f"{top} {order(x[d] for x in below)}".encode()) for d in range(OUTLINE - 1))

    return _of_each(root, _OUTLINES, of)


def digest(root: Node) -> str:
    """A hash of the expression: the same for equal expressions in every process."""

    def of(n: Node) -> str:
        text = f"{n.op}({','.join(_DIGESTS[i] for i in n.inputs)}){n.type}{n.attrs!r}"
        return blake2b(text.encode(), digest_size=12).hexdigest()

    return _of_each(root, _DIGESTS, of)


def _of_each(root: Node, known: WeakKeyDictionary[Node, T], of: Callable[[Node], T]) -> T:
    """`of` of a node, which may ask for those of its operands in `known`; of each node once."""
    stack = [root]
    while stack:
        n = stack[-1]
        todo = [i for i in n.inputs if i not in known]
        if todo:
            stack.extend(todo)
        else:
            known[stack.pop()] = of(n)
    return known[root]


class Builder:
    """Collects inputs, parameters and outputs of one graph."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.inputs: list[Node] = []
        self.params: dict[str, ParamData] = {}
        self.outputs: list[tuple[str, Node]] = []
        self.written: list[Written] = []
        self.orders: tuple[dict[str, Order], dict[str, Order]] = ({}, {})  # of inputs, of outputs
        self.locations: dict[Node, str] = {}
        self._fresh = 0

    def fresh(self, stem: str) -> str:
        """A parameter name that is not taken."""
        while True:
            self._fresh += 1
            name = f"{stem}_{self._fresh}"
            if not self.is_taken(name):
                return name

    def is_taken(self, name: str) -> bool:
        """Whether an input or a parameter has a name: both are looked up by it, so they share one list of names."""
        return name in self.params or any(n.attrs["name"] == name for n in self.inputs)

    def input(self, name: str, type: TensorType) -> Node:
        if any(n.attrs["name"] == name for n in self.inputs):
            raise ModelError(f"two inputs are called '{name}'", where=self.name)
        if name in self.params:
            raise ModelError(f"an input and a parameter are called '{name}'", where=self.name, hint="give one another name")
        n = make("input", (), type, {"name": name})
        self.inputs.append(n)
        return n

    def param(self, name: str, data: ParamData, type: TensorType | None = None) -> Node:
        """A parameter; lazy data (a callable) needs its type."""
        if name in self.params:
            raise ModelError(f"two parameters are called '{name}'", where=self.name)
        if self.is_taken(name):
            raise ModelError(f"an input and a parameter are called '{name}'", where=self.name, hint="give one another name")
        if type is None:
            if callable(data):
                raise ModelError(f"parameter '{name}' is lazy and needs a type", where=self.name)
            data = np.asarray(data)
            try:
                type = TensorType(dtype_of(data), data.shape)
            except KeyError:
                raise ModelError(
                    f"parameter '{name}' has dtype {data.dtype}", where=self.name, hint=f"dtypes: {', '.join(DTYPES)}"
                ) from None
        self.params[name] = _as_read(data, name, type) if callable(data) else data
        return make("param", (), type, {"name": name})

    def const(self, value: Any, dtype: DType) -> Node:
        """A scalar constant, rounded to dtype. Raises ModelError for what is no number (None would be NaN)."""
        return make("const", (), TensorType(dtype, ()), {"value": constant(value, dtype)})

    def op(self, op: str, *inputs: Node, **attrs: Any) -> Node:
        """Raises ModelError where the op does not take them. A reshape whose places are products of symbolic sizes is a regroup."""
        if op == "reshape" and len(inputs) == 1 and has_open_strides(inputs[0].type.shape, tuple(attrs.get("shape", ()))):
            op = "regroup"
        return make_op(op, inputs, attrs)

    def output(self, name: str, node: Node) -> None:
        if any(n == name for n, _ in self.outputs):
            raise ModelError(f"two outputs are called '{name}'", where=self.name)
        self.outputs.append((name, node))

    def value_of(self, n: Node) -> np.ndarray:
        """The array of a node computed from parameters and constants alone."""
        from autocomp.ir.reference import evaluate_nodes

        return evaluate_nodes((n,), {}, self.params, float64=False)[0]

    def graph(self) -> Graph:
        """The finished graph; parameters that no output uses are dropped."""
        if not self.outputs:
            raise ModelError("the graph has no output", where=self.name)
        g = Graph(self.name, tuple(self.inputs), tuple(self.outputs), dict(self.params), dict(self.locations))
        used = {n.attrs["name"] for n in g.nodes() if n.op == "param"}
        kept = {k: v for k, v in self.params.items() if k in used}
        return Graph(self.name, g.inputs, g.outputs, kept, g.locations, tuple(self.written), *self.orders)
