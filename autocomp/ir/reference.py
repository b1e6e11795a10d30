"""The oracle: a graph evaluated op by op through the table's NumPy references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.node import Attrs, Graph, Node, ParamData
from autocomp.ir.ops import OPS
from autocomp.ir.orders import as_named, in_memory_order, inverse
from autocomp.ir.sizes import inputs_of, said, with_computed
from autocomp.ir.types import DTYPES, Sym, TensorType, holds_symbol


def evaluate(graph: Graph, inputs: Mapping[str, np.ndarray], float64: bool = True) -> dict[str, np.ndarray]:
    """Outputs by name. float64: every float is computed in float64 (the oracle); else in the ops' own dtypes.

    Raises ModelError on a missing input or a wrong dtype or shape.
    """
    inputs = in_memory_order({name: np.asarray(x) for name, x in inputs.items()}, graph.input_orders)
    sizes = input_sizes(graph, inputs)
    values = evaluate_nodes(tuple(n for _, n in graph.outputs), inputs, graph.params, float64, sizes)
    return as_named({name: v for (name, _), v in zip(graph.outputs, values)}, graph.output_orders)


def input_sizes(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, int]:
    """The value of every symbolic dimension of a graph's inputs. `inputs` have dtype (NumPy's) and shape, and lie
    as the graph's own (`orders.in_memory_order`).

    Raises ModelError on a missing input or a wrong dtype or shape, where inputs disagree on a symbol or leave its bounds.
    """
    sizes: dict[str, int] = {}
    for n in graph.inputs:
        name, t = n.attrs["name"], n.type
        if name not in inputs:
            raise ModelError(f"input '{name}' is missing", where=graph.name, hint=f"it wants {t}")
        x = inputs[name]
        if x.dtype != t.dtype.numpy or len(x.shape) != t.rank or any(isinstance(d, int) and d != s for d, s in zip(t.shape, x.shape)):
            got = next((d.name for d in DTYPES.values() if d.numpy == x.dtype), str(x.dtype))
            hint = None
            if len(x.shape) == t.rank:
                hint = "sizes were fixed when it was compiled: leave the dimension open in the model (docs/models.md), or compile for these"
                if got != t.dtype.name:
                    hint = f"convert it: x.astype('{t.dtype.numpy}'), or x.to(..) of a torch tensor"
            wants, has = t, tuple(x.shape)
            if name in graph.input_orders and len(has) == t.rank:  # as the caller names its axes
                axes = inverse(graph.input_orders[name])
                wants, has = replace(t, shape=tuple(t.shape[k] for k in axes)), tuple(has[k] for k in axes)
            raise ModelError(f"input '{name}' wants {wants}, got {got}{list(has)}", where=graph.name, hint=hint)
        for d, s in zip(t.shape, x.shape):
            if not isinstance(d, Sym):
                continue
            if not d.lo <= s <= d.hi or s % d.multiple:
                steps = f" in multiples of {d.multiple}" if d.multiple > 1 else ""
                raise ModelError(f"input '{name}' has {d} = {s}, allowed are {d.lo}..{d.hi}{steps}", where=graph.name)
            if sizes.setdefault(d.name, s) != s:
                raise ModelError(f"input '{name}' has {d} = {s}, another input has {d} = {sizes[d.name]}", where=graph.name)
    if not graph.computed:
        return sizes
    if missing := sorted({s.name for d in graph.computed for s in inputs_of(d)} - said(sizes, graph.computed)):
        raise ModelError(f"no input has {', '.join(missing)}", where=graph.name,
                         hint="a size that others are computed from must be that of an input")  # fmt: skip
    known = with_computed(sizes, graph.computed)
    for name, s in sizes.items():
        if known[name] != s:
            raise ModelError(f"an input has {name} = {s}, the others say {known[name]}", where=graph.name)
    return known


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
            shape = _bound(n.type.shape, sizes)
            if holds_symbol(attrs) or holds_symbol(shape):
                raise ModelError(f"the size of {n.type} is not known", where=n.op, hint="give inputs that have its symbols")
            try:
                x = np.asarray(OPS[n.op].reference(args, attrs, TensorType(n.type.dtype, shape)))
            except IndexError as e:  # kernels take the nearest element instead (docs/differences.md); the reference does not guess
                raise ModelError(f"an index lies outside of what it indexes: {e}", where=n.op,
                                 hint="give inputs whose indices lie inside") from None  # fmt: skip
    return x.astype(np.float64) if float64 and n.type.dtype.is_float else x
