"""NumPy's ufuncs on tracers: which entry of the op table each is, or how it is written with others.

The dtypes of operands and result are NumPy's own (`ufunc.resolve_dtypes`), Python numbers being weak.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi
from typing import Any

import numpy as np

from autocomp.errors import UnsupportedOp
from autocomp.frontends.tracing.array import Tracer, lift
from autocomp.frontends.tracing.registry import UFUNCS
from autocomp.ir.types import BOOL, F32, DType, dtype_of

NAMES = {
    "absolute": "abs", "fabs": "abs", "negative": "neg", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow",
    "maximum": "max", "minimum": "min", "remainder": "mod", "floor_divide": "floordiv", "less": "lt", "less_equal": "le",
    "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne", "logical_and": "and", "logical_or": "or",
    "logical_xor": "xor", "logical_not": "not", "rint": "round", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "bitwise_and": "bitand", "bitwise_or": "bitor",
    "bitwise_xor": "bitxor", "invert": "bitnot", "left_shift": "shl", "right_shift": "shr",
    **{n: n for n in (
        "add", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "tanh", "sin", "cos", "tan", "sinh", "cosh", "floor", "ceil",
        "trunc", "sign", "isnan", "isinf", "fmod",
    )},
}  # fmt: skip
"""ufunc -> entry of the op table."""

LOGIC = {"add": "or", "mul": "and", "max": "or", "min": "and", "bitand": "and", "bitor": "or", "bitxor": "xor", "bitnot": "not"}
"""What arithmetic means on bools."""

WHOLE = {"floor", "ceil", "trunc", "round"}
"""Entries that do nothing to integers."""


def resolved(ufunc: np.ufunc, values: tuple[Any, ...]) -> tuple[list[DType], DType]:
    """(operand dtypes, result dtype) as NumPy chooses them. Raises UnsupportedOp where it has none that we have."""
    kinds = [_kind(v) for v in values]
    if any(isinstance(k, np.dtype) and k.kind == "V" for k in kinds):  # bf16 is weak against numbers too, which NumPy does not know
        kinds = [k if isinstance(k, np.dtype) else next(d for d in kinds if isinstance(d, np.dtype)) for k in kinds]
    try:
        found = ufunc.resolve_dtypes((*kinds, None))  # type: ignore[arg-type]
        return [dtype_of(d) for d in found[:-1]], dtype_of(found[-1])
    except (TypeError, KeyError):
        text = ", ".join(getattr(k, "name", str(k)) for k in kinds)
        raise UnsupportedOp(f"numpy.{ufunc.__name__} of {text}", where="trace", hint="cast the operands with astype") from None


def _kind(v: Any) -> Any:
    if isinstance(v, Tracer):
        return v.dtype.numpy
    if isinstance(v, (int, float)) and not isinstance(v, (bool, np.generic)):
        return type(v)
    return np.asarray(v).dtype


def _plain(name: str, op: str) -> Callable[..., Tracer]:
    ufunc = getattr(np, name)

    def call(*values: Any) -> Tracer:
        kinds, out = resolved(ufunc, values)
        b = next(v for v in values if isinstance(v, Tracer)).b
        entry = LOGIC.get(op, op) if all(k == BOOL for k in kinds) else op
        if entry in WHOLE and kinds[0].is_int:
            return Tracer(b, lift(b, values[0], kinds[0]))
        if entry == "abs" and kinds[0].kind == "u":
            return Tracer(b, lift(b, values[0], kinds[0]))
        if entry in ("isnan", "isinf") and not kinds[0].is_float:
            kinds = [F32]
        nodes = []
        for v, kind in zip(values, kinds):
            n = lift(b, v, kind)
            if kind == BOOL and n.type.dtype != BOOL:
                n = b.op("ne", n, b.const(0, n.type.dtype))
            nodes.append(n if n.type.dtype == kind else b.op("cast", n, to=kind.name))
        y = Tracer(b, b.op(entry, *nodes))
        return y if y.dtype == out else y.astype(out)

    return call


for _name, _op in NAMES.items():
    UFUNCS[_name] = _plain(_name, _op)


# ---- ufuncs without an entry of their own
def _floating(x: Any) -> Any:
    """x, an integer tracer as the float that NumPy would compute in."""
    return x.astype(resolved(np.exp, (x,))[1]) if isinstance(x, Tracer) and not x.dtype.is_float else x


UFUNCS["square"] = lambda x: x * x
UFUNCS["positive"] = lambda x: x
UFUNCS["conjugate"] = lambda x: x
UFUNCS["reciprocal"] = lambda x: 1 / x
UFUNCS["log10"] = lambda x: np.log(_floating(x)) * (1 / log(10))
UFUNCS["cbrt"] = lambda x: np.sign(x) * np.exp(np.log(np.abs(_floating(x))) * (1 / 3))
UFUNCS["deg2rad"] = UFUNCS["radians"] = lambda x: _floating(x) * (pi / 180)
UFUNCS["rad2deg"] = UFUNCS["degrees"] = lambda x: _floating(x) * (180 / pi)
UFUNCS["isfinite"] = lambda x: ~(np.isnan(x) | np.isinf(x))
UFUNCS["signbit"] = lambda x: (x < 0) | ((x == 0) & (1 / x < 0)) if x.dtype.is_float else x < 0


def _binary(name: str, fn: Callable[[Any, Any], Any]) -> None:
    """Both operands as tracers of the dtypes that NumPy would compute in."""

    def call(x: Any, y: Any) -> Any:
        kinds, _ = resolved(getattr(np, name), (x, y))
        b = (x if isinstance(x, Tracer) else y).b
        return fn(*(Tracer(b, lift(b, v, k)).astype(k) for v, k in zip((x, y), kinds)))

    UFUNCS[name] = call


def _arctan2(y: Any, x: Any) -> Any:
    """From arctan(y / x), moved by pi where x is negative; arctan2(0, 0) is 0."""
    near = np.arctan(y / np.where(x == 0, 1, x))
    turned = near + np.where(y < 0, -pi, pi).astype(x.dtype)
    return np.where(np.isnan(x), x, np.where(x > 0, near, np.where(x < 0, turned, np.sign(y) * (pi / 2))))


_binary("arctan2", _arctan2)
_binary("hypot", lambda x, y: np.sqrt(x * x + y * y))
_binary("logaddexp", lambda x, y: np.maximum(x, y) + np.log1p(np.exp(-np.abs(x - y))))
_binary("heaviside", lambda x, y: np.where(np.isnan(x), x, np.where(x == 0, y, (x > 0).astype(x.dtype))))
_binary("fmax", lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y), x, np.maximum(x, y))))
_binary("fmin", lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y), x, np.minimum(x, y))))
_binary("float_power", lambda x, y: x**y)
_binary("copysign", lambda x, y: np.where(UFUNCS["signbit"](y), -np.abs(x), np.abs(x)))


def _matmul(x: Any, y: Any) -> Tracer:
    kinds, out = resolved(np.matmul, (x, y))
    b = (x if isinstance(x, Tracer) else y).b
    nodes = [lift(b, v, None) for v in (x, y)]
    nodes = [n if n.type.dtype == k else b.op("cast", n, to=k.name) for n, k in zip(nodes, kinds)]
    product = Tracer(b, b.op("matmul", *nodes))
    return product if product.dtype == out else product.astype(out)


UFUNCS["matmul"] = _matmul
UFUNCS["vecdot"] = lambda x, y: (x * y).sum(-1)
UFUNCS["divmod"] = lambda x, y: (x // y, x % y)

