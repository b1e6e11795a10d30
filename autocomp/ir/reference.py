"""The oracle: a graph evaluated op by op through the table's NumPy references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.node import Attrs, Graph, Node, ParamData
from autocomp.ir.ops import OPS
from autocomp.ir.types import Sym, TensorType


def evaluate(graph: Graph, inputs: Mapping[str, np.ndarray], float64: bool = True) -> dict[str, np.ndarray]:
    """Outputs by name. float64: every float is computed in float64 (the oracle); else in the ops' own dtypes.

    Raises ModelError on a missing input or a wrong dtype or shape.
    """
    for n in graph.inputs:
        check_input(n, inputs)
    sizes = symbol_sizes(graph.inputs, inputs)
    values = evaluate_nodes(tuple(n for _, n in graph.outputs), inputs, graph.params, float64, sizes)
    return {name: v for (name, _), v in zip(graph.outputs, values)}


def check_input(n: Node, inputs: Mapping[str, np.ndarray]) -> None:
    """Raises ModelError unless `inputs` has an array of the node's dtype and shape under its name."""
    name = n.attrs["name"]
    if name not in inputs:
        raise ModelError(f"input '{name}' is missing", hint=f"it wants {n.type}")
    x = np.asarray(inputs[name])
    ok = len(x.shape) == n.type.rank and all(not isinstance(d, int) or d == s for d, s in zip(n.type.shape, x.shape))
    if x.dtype != n.type.dtype.numpy or not ok:
        raise ModelError(f"input '{name}' wants {n.type}, got {x.dtype}{list(x.shape)}")


def symbol_sizes(leaves: tuple[Node, ...], inputs: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The value of every symbolic dimension. Raises ModelError where inputs disagree or leave a symbol's bounds."""
    sizes: dict[str, int] = {}
    for n in leaves:
        name = n.attrs["name"]
        for d, s in zip(n.type.shape, np.shape(inputs[name])):
            if not isinstance(d, Sym):
                continue
            if not d.lo <= s <= d.hi or s % d.multiple:
                raise ModelError(f"input '{name}' has {d} = {s}, allowed are {d.lo}..{d.hi} in multiples of {d.multiple}")
            if sizes.setdefault(d.name, s) != s:
                raise ModelError(f"input '{name}' has {d} = {s}, another input has {d} = {sizes[d.name]}")
    return sizes


def _bound(v: Any, sizes: Mapping[str, int]) -> Any:
    """A dimension, or a tuple of them, with symbols replaced by their sizes."""
    if isinstance(v, tuple):
        return tuple(_bound(x, sizes) for x in v)
    return sizes.get(v.name, v) if isinstance(v, Sym) else v


def evaluate_nodes(
    roots: tuple[Node, ...],
    inputs: Mapping[str, np.ndarray],
    params: Mapping[str, ParamData],
    float64: bool,
    sizes: Mapping[str, int] | None = None,
) -> list[np.ndarray]:
    """Values of nodes, `sizes` being those of the symbolic dimensions; intermediate arrays are dropped after their last use."""
    order = Graph("", (), tuple((str(i), n) for i, n in enumerate(roots))).nodes()
    uses: dict[int, int] = {}
    for n in order:
        for i in n.inputs:
            uses[id(i)] = uses.get(id(i), 0) + 1
    for n in roots:
        uses[id(n)] = uses.get(id(n), 0) + 1
    values: dict[int, np.ndarray] = {}
    for n in order:
        values[id(n)] = _value(n, tuple(values[id(i)] for i in n.inputs), inputs, params, float64, sizes or {})
        for i in n.inputs:
            uses[id(i)] -= 1
            if not uses[id(i)]:
                values.pop(id(i), None)
    return [values[id(n)] for n in roots]


def _value(
    n: Node,
    args: tuple[np.ndarray, ...],
    inputs: Mapping[str, np.ndarray],
    params: Mapping[str, ParamData],
    float64: bool,
    sizes: Mapping[str, int],
) -> np.ndarray:
    if n.op == "input":
        x = np.asarray(inputs[n.attrs["name"]])
    elif n.op == "param":
        data = params[n.attrs["name"]]
        x = np.asarray(data() if callable(data) else data)
        if x.shape != n.type.shape or x.dtype != n.type.dtype.numpy:
            raise ModelError(f"parameter '{n.attrs['name']}' is declared {n.type} but has {x.dtype}{list(x.shape)}")
    elif n.op == "const":
        x = np.asarray(n.attrs["value"], n.type.dtype.numpy)
    else:
        with np.errstate(all="ignore"):
            attrs = Attrs({k: _bound(v, sizes) for k, v in n.attrs.items()}) if sizes else n.attrs
            x = np.asarray(OPS[n.op].reference(args, attrs, TensorType(n.type.dtype, _bound(n.type.shape, sizes))))
    return x.astype(np.float64) if float64 and n.type.dtype.is_float else x
