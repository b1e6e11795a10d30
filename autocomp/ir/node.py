"""The tensor graph: one frozen, hash-consed node and the graph around it. Pure, no in-place ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from autocomp.forks import Lock, kept_property
from autocomp.ir.orders import Order
from autocomp.ir.sizes import computed
from autocomp.ir.types import Sym, TensorType


class Attrs(Mapping[str, Any]):
    """Frozen attributes of a node: hashable values only (ints, floats, strings, bools, DTypes, tuples of those)."""

    __slots__ = ("_d", "_key")

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._d = dict(sorted((values or {}).items()))
        self._key = repr(self._d)

    def __getitem__(self, k: str) -> Any:
        return self._d[k]

    def __iter__(self) -> Iterator[str]:
        return iter(self._d)

    def __len__(self) -> int:
        return len(self._d)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, o: object) -> bool:
        return isinstance(o, Attrs) and self._key == o._key

    def __repr__(self) -> str:
        return ", ".join(f"{k}={v!r}" for k, v in self._d.items())


@dataclass(frozen=True, eq=False)
class Node:
    """One value. `op` names an entry of the op table, or is `input`, `param`, `const` (leaves).

    Leaves carry attrs name (input, param) or value (const: a python scalar, shape ()). Equal nodes are the same object:
    always build through `make`.
    """

    op: str
    inputs: tuple[Node, ...]
    type: TensorType
    attrs: Attrs = field(default_factory=Attrs)

    def __repr__(self) -> str:
        return f"<{self.op} {self.type}>"


_TABLE: WeakValueDictionary[tuple[Any, ...], Node] = WeakValueDictionary()
_LOCK = Lock()


def make(op: str, inputs: tuple[Node, ...], type: TensorType, attrs: Mapping[str, Any] | None = None) -> Node:
    """The node, the same object for the same arguments. Types are not inferred here: see `ir.builder`."""
    a = attrs if isinstance(attrs, Attrs) else Attrs(attrs)
    key = (op, tuple(id(i) for i in inputs), type, a)
    with _LOCK.held:  # two threads that make one node at a time get one object
        return _TABLE.get(key) or _TABLE.setdefault(key, Node(op, inputs, type, a))


ParamData = np.ndarray | Callable[[], np.ndarray]


@dataclass(frozen=True)
class Written:
    """An output whose value takes an input's memory: the caller gives the input away. `returned`: the model returns it besides; where it
    does not, it writes into the input and says nothing of it. `copied`: the caller did not give it away, and the value, an output like
    any other, is copied into the input behind the call."""

    output: str
    input: str
    returned: bool = True
    copied: bool = False


class Structure(Protocol):
    """How callers hold a model's inputs and results, where these are no plain tensors. `result` None: outputs are returned as they are.
    `names`: of arguments that were given by keyword."""

    @property
    def result(self) -> Any: ...

    @property
    def names(self) -> set[str]: ...

    def inputs(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]: ...

    def results(self, outputs: Sequence[Any]) -> Any: ...


@dataclass(frozen=True, eq=False)
class Graph:
    """Inputs and parameters are leaf nodes; outputs are (name, node) in order.

    `params` maps a parameter's name to its array or a loader of it. `locations` maps nodes to the model's own names for
    error texts; it is no part of the meaning. `written`: outputs that go into inputs' memory (`ir.donation`). `input_orders`,
    `output_orders`: of callers' arrays whose axes lie in another order than they are named in (`ir.orders`), by name. `structure`: of
    callers' arguments and results, where they are not the inputs and outputs in order; it is no part of the meaning either.
    """

    name: str
    inputs: tuple[Node, ...]
    outputs: tuple[tuple[str, Node], ...]
    params: Mapping[str, ParamData] = field(default_factory=dict)
    locations: Mapping[Node, str] = field(default_factory=dict)
    written: tuple[Written, ...] = ()
    input_orders: Mapping[str, Order] = field(default_factory=dict)
    output_orders: Mapping[str, Order] = field(default_factory=dict)
    structure: Structure | None = None

    @kept_property
    def computed(self) -> tuple[Sym, ...]:
        """Sizes that are computed from those of inputs."""
        nodes = (*self.inputs, *self.nodes())
        return computed(d for n in nodes for v in (n.type.shape, *n.attrs.values()) if isinstance(v, tuple) for d in v)

    def nodes(self) -> tuple[Node, ...]:
        """Every reachable node once, operands first (deterministic)."""
        return self._nodes

    @kept_property
    def _nodes(self) -> tuple[Node, ...]:
        out: list[Node] = []
        seen: set[int] = set()
        stack: list[tuple[Node, bool]] = [(n, False) for _, n in reversed(self.outputs)]
        while stack:
            n, done = stack.pop()
            if done:
                out.append(n)
            elif id(n) not in seen:
                seen.add(id(n))
                stack.append((n, True))
                stack.extend((i, False) for i in reversed(n.inputs))
        return tuple(out)

    def param(self, name: str) -> np.ndarray:
        """The data of a parameter (loads it if it is lazy)."""
        p = self.params[name]
        return p() if callable(p) else p
