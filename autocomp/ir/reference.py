"""The oracle: a graph evaluated op by op through the table's NumPy references."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.node import Graph, Node, ParamData
from autocomp.ir.ops import OPS


def evaluate(graph: Graph, inputs: Mapping[str, np.ndarray], float64: bool = True) -> dict[str, np.ndarray]:
    """Outputs by name. float64: every float is computed in float64 (the oracle); else in the ops' own dtypes.

    Raises ModelError on a missing input or a wrong dtype or shape.
    """
    for n in graph.inputs:
        check_input(n, inputs)
    values = evaluate_nodes(tuple(n for _, n in graph.outputs), inputs, graph.params, float64)
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


def evaluate_nodes(roots: tuple[Node, ...], inputs: Mapping[str, np.ndarray], params: Mapping[str, ParamData],
                   float64: bool) -> list[np.ndarray]:  # fmt: skip
    """Values of nodes; intermediate arrays are dropped after their last use."""
    order = Graph("", (), tuple((str(i), n) for i, n in enumerate(roots))).nodes()
    uses: dict[int, int] = {}
    for n in order:
        for i in n.inputs:
            uses[id(i)] = uses.get(id(i), 0) + 1
    for n in roots:
        uses[id(n)] = uses.get(id(n), 0) + 1
    values: dict[int, np.ndarray] = {}
    for n in order:
        values[id(n)] = _value(n, tuple(values[id(i)] for i in n.inputs), inputs, params, float64)
        for i in n.inputs:
            uses[id(i)] -= 1
            if not uses[id(i)]:
                values.pop(id(i), None)
    return [values[id(n)] for n in roots]


def _value(n: Node, args: tuple[np.ndarray, ...], inputs: Mapping[str, np.ndarray], params: Mapping[str, ParamData],
           float64: bool) -> np.ndarray:  # fmt: skip
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
            x = np.asarray(OPS[n.op].reference(args, n.attrs, n.type))
    return x.astype(np.float64) if float64 and n.type.dtype.is_float else x
