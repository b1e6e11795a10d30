"""Build a graph node by node: attributes brought to normal form, types checked, operands of commuting ops sorted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from autocomp.errors import AutocompError, ModelError, UnsupportedOp
from autocomp.ir.node import Attrs, Graph, Node, ParamData, make
from autocomp.ir.ops import OPS
from autocomp.ir.types import BOOL, DType, TensorType, dtype_of

_KEYS: WeakKeyDictionary[Node, tuple[int, str]] = WeakKeyDictionary()


def _key(node: Node) -> tuple[int, str]:
    """(minus height, digest of the structure): the same for the same expression in every process."""
    stack = [node]
    while stack:
        n = stack[-1]
        todo = [i for i in n.inputs if i not in _KEYS]
        if todo:
            stack.extend(todo)
            continue
        stack.pop()
        below = [_KEYS[i] for i in n.inputs]
        text = f"{n.op}({', '.join(d for _, d in below)}; {n.attrs!r}) {n.type}"
        _KEYS[n] = (min((h for h, _ in below), default=1) - 1, hashlib.blake2b(text.encode(), digest_size=12).hexdigest())
    return _KEYS[node]


def _order(n: Node) -> tuple[bool, int, str]:
    """Canonical operand order: deep expressions first, constants last."""
    return (n.op == "const", *_key(n))


class Builder:
    """`name` is the graph's. Nodes of any builder may be mixed; `where` (a model's own name for what is being built) goes into
    error texts and into the graph's locations."""

    def __init__(self, name: str = "graph") -> None:
        self.name, self.where = name, ""
        self._inputs: list[Node] = []
        self._outputs: list[tuple[str, Node]] = []
        self._params: dict[str, ParamData] = {}
        self._locations: dict[Node, str] = {}

    def input(self, name: str, type: TensorType) -> Node:
        """A run-time input. Raises ModelError on a second one of that name."""
        if any(n.attrs["name"] == name for n in self._inputs) or name in self._params:
            raise ModelError(f"two inputs or parameters are named '{name}'", where=self.name)
        node = make("input", (), type, {"name": name})
        self._inputs.append(node)
        return node

    def param(self, name: str, data: ParamData, type: TensorType | None = None) -> Node:
        """A parameter: an array, or a loader of one with its `type`."""
        if any(n.attrs["name"] == name for n in self._inputs):
            raise ModelError(f"two inputs or parameters are named '{name}'", where=self.name)
        if type is None:
            array = data() if callable(data) else np.asarray(data)
            try:
                type = TensorType(dtype_of(array), array.shape)
            except (KeyError, TypeError) as e:
                raise UnsupportedOp(f"parameter '{name}' has dtype {array.dtype}", where=self.name) from e
        self._params[name] = data if callable(data) else np.asarray(data)
        return make("param", (), type, {"name": name})

    def const(self, value: Any, dtype: DType) -> Node:
        """A scalar constant, rounded to `dtype`."""
        v = np.asarray(value).astype(dtype.numpy).item() if not isinstance(value, bool) or dtype != BOOL else value
        v = bool(v) if dtype == BOOL else float(v) if dtype.is_float else int(v)
        return make("const", (), TensorType(dtype, ()), {"value": v})

    def op(self, op: str, *operands: Any, **attrs: Any) -> Node:
        """The node of an entry of the op table. Python numbers among the operands become constants of the first node's dtype.

        Raises UnsupportedOp for an unknown op, ModelError for operands or attributes that do not fit.
        """
        entry = OPS.get(op)
        if entry is None:
            raise UnsupportedOp(f"no op '{op}' in the op table", where=self.where or self.name)
        lo, hi = entry.arity
        if not lo <= len(operands) <= hi:
            raise ModelError(f"op {op} takes {lo}{f' to {hi}' if hi != lo else ''} operands, got {len(operands)}",
                             where=self.where or self.name)
        like = [n.type.dtype for n in operands if isinstance(n, Node)]
        wanted = like[1:] if op == "where" and isinstance(operands[0], Node) else like
        nodes = tuple(n if isinstance(n, Node) else self.const(n, (wanted or like)[0]) for n in operands)
        unknown = sorted(set(attrs) - set(entry.attrs))
        missing = sorted(k for k, v in entry.attrs.items() if v is ... and k not in attrs)
        if unknown or missing:
            raise ModelError(f"op {op}: " + "; ".join(f"{w} {', '.join(x)}" for w, x in (
                ("unknown attributes", unknown), ("missing attributes", missing)) if x), where=self.where or self.name)
        try:
            full: dict[str, Any] = {**entry.attrs, **attrs}
            types = tuple(n.type for n in nodes)
            a = Attrs(entry.canonical(types, full) if entry.canonical else full)
            type = entry.infer(types, a)
        except AutocompError as e:
            if self.where and e.where:
                raise e.__class__(e.what, where=f"{self.where} ({e.where})", hint=e.hint) from e
            raise
        if entry.commutes:
            nodes = tuple(sorted(nodes, key=_order))
        node = make(op, nodes, type, a)
        if self.where:
            self._locations.setdefault(node, self.where)
        return node

    def output(self, name: str, node: Node) -> None:
        """Name an output. Raises ModelError on a second one of that name."""
        if any(n == name for n, _ in self._outputs):
            raise ModelError(f"two outputs are named '{name}'", where=self.name)
        self._outputs.append((name, node))

    def graph(self, locations: Mapping[Node, str] | None = None) -> Graph:
        """The graph so far. Raises ModelError without an output."""
        if not self._outputs:
            raise ModelError("the graph has no outputs", where=self.name)
        return Graph(self.name, tuple(self._inputs), tuple(self._outputs), dict(self._params),
                     {**self._locations, **(locations or {})})
