"""The array API's namespace: what `x.__array_namespace__()` gives. Functions of NumPy, traced where a tracer is among the arguments."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from autocomp.frontends.tracing.array import Tracer
from autocomp.frontends.tracing.registry import FUNCTIONS, UFUNCS, protocol

RENAMED = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "pow": "power", "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "abs": "absolute", "round": "rint", "concat": "concatenate",
}  # fmt: skip
"""The array API's name -> the ufunc's or function's."""


OF_NUMPY = (
    "arange", "empty", "eye", "full", "linspace", "meshgrid", "ones", "zeros", "e", "inf", "nan", "newaxis", "pi", "bool", "int8",
    "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "finfo", "iinfo",
)  # fmt: skip
"""Makers of arrays, constants and dtypes, taken as they are."""


def _any_tracer(values: Any) -> bool:
    if isinstance(values, Tracer):
        return True
    return isinstance(values, (list, tuple)) and any(_any_tracer(v) for v in values)


def _dispatch(name: str) -> Any:
    traced = UFUNCS.get(name) or FUNCTIONS[name]
    plain = getattr(np, name, None)

    def call(*args: Any, **kwargs: Any) -> Any:
        if plain is None or any(_any_tracer(a) for a in (*args, *kwargs.values())):
            return traced(*args, **kwargs)
        return plain(*args, **kwargs)

    return call


def _asarray(value: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    if isinstance(value, Tracer):
        return value if dtype is None else value.astype(dtype)
    return np.asarray(value, dtype)


@protocol("__array_namespace__")
@cache
def namespace() -> SimpleNamespace:
    space = SimpleNamespace(**{n: _dispatch(n) for n in (*UFUNCS, *FUNCTIONS)})
    for name, known in RENAMED.items():
        setattr(space, name, getattr(space, known))
    for name in OF_NUMPY:
        setattr(space, name, getattr(np, name))
    space.asarray = _asarray
    space.linalg = SimpleNamespace(
        **{n: getattr(space, n) for n in ("matmul", "vecdot", "outer", "diagonal", "trace", "matrix_transpose", "tensordot")},
        vector_norm=FUNCTIONS["vector_norm"],
    )
    return space

