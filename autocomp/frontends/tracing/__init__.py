"""Python tracing: run a NumPy or array-API style function once on tracers and record its graph.

    graph = trace(lambda x, w: np.maximum(x @ w, 0), x, w)

A tracer answers to operators, ufuncs (`np.exp(x)`), array functions (`np.sum(x, axis=1)`), methods (`x.reshape(2, -1)`) and
the array API (`xp = x.__array_namespace__()`). NumPy arrays met on the way become parameters, Python numbers constants. What
depends on values (branches, shapes, assignments into arrays) is refused with the line of the user's code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from autocomp.errors import AutocompError, ModelError, UnsupportedOp
from autocomp.frontends.tracing import indexing, namespace, products, reductions, selection, shapes, source, ufuncs
from autocomp.frontends.tracing.array import Recorder, Tracer, lift
from autocomp.frontends.tracing.registry import FUNCTIONS
from autocomp.ir.node import Graph
from autocomp.ir.types import TensorType, dtype_of

__all__ = ["Tracer", "indexing", "namespace", "products", "reductions", "selection", "shapes", "trace", "ufuncs"]


def trace(fn: Callable[..., Any], *examples: Any, name: str | None = None) -> Graph:
    """The graph of `fn` for arguments like `examples` (arrays, or TensorTypes).

    Inputs are named after the function's parameters. `fn` returns an array, or a tuple, list or dict of arrays.
    Raises UnsupportedOp for what has no entry in the op table and ModelError for shapes and dtypes that do not fit, each with
    the line of the user's code; errors of the user's own pass through as they are.
    """
    b = Recorder(name or getattr(fn, "__name__", "traced").replace("<lambda>", "traced"))
    args = [Tracer(b, b.input(n, _type(n, e))) for n, e in zip(_names(fn, len(examples)), examples)]
    try:
        result = fn(*args)
    except AutocompError as e:
        at = source.of_traceback(e.__traceback__)
        where = at if e.where in (None, "trace") else f"{at}: {e.where}"
        raise type(e)(e.what, where=where, hint=e.hint) from None
    except TypeError as e:  # a symbol takes part in no arithmetic
        if "'Sym'" not in str(e):
            raise
        raise UnsupportedOp(
            "computing with an open size", where=source.of_traceback(e.__traceback__), hint="fix the dimension, or reshape(-1)"
        ) from None
    except AttributeError as e:
        if not isinstance(e.obj, Tracer):
            raise
        raise UnsupportedOp(
            f"a traced array has no attribute '{e.name}'",
            where=source.of_traceback(e.__traceback__),
            hint="use a function of numpy; traced are " + ", ".join(sorted(FUNCTIONS)),
        ) from None
    for key, value in _named(result):
        try:
            b.output(key, lift(b, value, None))
        except ModelError as e:
            raise ModelError(e.what, where=f"what {b.name} returns", hint=e.hint) from None
    return b.graph()


def _type(name: str, example: Any) -> TensorType:
    if isinstance(example, TensorType):
        return example
    array = np.asarray(example)
    try:
        return TensorType(dtype_of(array), array.shape)
    except KeyError:
        raise ModelError(f"example '{name}' has dtype {array.dtype}", where="trace", hint="give arrays of numbers or bools") from None


def _named(result: Any) -> list[tuple[str, Any]]:
    """(output name, value): a dict's keys, out0, out1, ... of a tuple or list, out of a single value."""
    if isinstance(result, dict):
        return [(k if isinstance(k, str) and k else f"out{k}", v) for k, v in result.items()]
    if isinstance(result, (tuple, list)):
        return [(f"out{k}", v) for k, v in enumerate(result)]
    return [("out", result)]


def _names(fn: Callable[..., Any], count: int) -> list[str]:
    try:
        params = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        params = []
    fixed = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [fixed[i] if i < len(fixed) else f"arg{i}" for i in range(count)]
