"""NumPy's ufuncs on tracers: which entry of the op table each is, or how it is written with others.

The dtypes of operands and result are NumPy's own (`ufunc.resolve_dtypes`), Python numbers being weak.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.tracing.array import Tracer, lift
from autocomp.frontends.tracing.registry import UFUNCS
from autocomp.ir.types import BOOL, F32, F64, I64, SHORT_FLOATS, U64, DType, dtype_of

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

LOGICAL = {"and", "or", "xor", "not"}
"""Entries of bools; numbers are true where they are not 0."""

COMPARED = {"lt": lt, "le": le, "gt": gt, "ge": ge, "eq": eq, "ne": ne}


def resolved(ufunc: np.ufunc, values: tuple[Any, ...]) -> tuple[list[DType], DType]:
    """(operand dtypes, result dtype) as NumPy chooses them. Raises UnsupportedOp where it has none that we have."""
    kinds = [_kind(v) for v in values]
    try:
        found = ufunc.resolve_dtypes((*kinds, None))  # type: ignore[arg-type]
        return [dtype_of(d) for d in found[:-1]], dtype_of(found[-1])
    except (TypeError, KeyError):
        text = ", ".join(getattr(k, "name", getattr(k, "__name__", str(k))) for k in kinds)
        raise UnsupportedOp(f"numpy.{ufunc.__name__} of {text}", where="trace", hint="cast the operands with astype") from None


def _kind(v: Any) -> Any:
    if isinstance(v, Tracer):
        return v.dtype
    if isinstance(v, (int, float)) and not isinstance(v, (bool, np.generic)):
        return type(v)
    return np.asarray(v).dtype


def _plain(name: str, op: str) -> Callable[..., Tracer]:
    ufunc = getattr(np, name)

    def call(*values: Any) -> Tracer:
        kinds, out = resolved(ufunc, values)
        b = next(v for v in values if isinstance(v, Tracer)).b
        if op in COMPARED:
            if (known := _beyond(op, values, kinds, b)) is not None:
                return known
            if set(kinds) == {I64, U64}:
                return _signs_apart(op, values, kinds, b)
        entry = LOGIC.get(op, op) if all(k == BOOL for k in kinds) else op
        if (entry in WHOLE and not kinds[0].is_float) or (entry == "abs" and kinds[0].kind in "ub"):
            return Tracer(b, lift(b, values[0], kinds[0])).astype(out)
        x = [Tracer(b, lift(b, v, k)).astype(k) for v, k in zip(values, kinds)]
        if entry in LOGICAL:
            x = [v if v.element == BOOL else v != 0 for v in x]
        elif entry in ("isnan", "isinf") and not kinds[0].is_float:
            x = [x[0].astype(F32)]
        elif entry == "neg" and kinds[0].kind == "u":
            return 0 - x[0]  # type: ignore[no-any-return]
        elif entry == "sign" and kinds[0].kind == "u":
            return (x[0] != 0).astype(out)  # type: ignore[no-any-return]
        elif entry == "pow" and kinds[0].is_int and isinstance(values[1], (int, np.integer)) and values[1] < 0:
            raise ModelError(f"an integer to the power of {values[1]}", where="trace", hint="as in NumPy, cast the base to a float first")
        elif entry == "pow" and kinds[0] in (F32, F64) and isinstance(values[1], (float, np.floating)) and values[1] == 0.5:
            return x[0].op("sqrt").astype(out)  # as NumPy does where one exponent is for all: it shows in powers of -inf and -0.0
        return x[0].op(entry, *(v.node for v in x[1:])).astype(out)

    return call


def _beyond(op: str, values: tuple[Any, ...], kinds: list[DType], b: Any) -> Tracer | None:
    """A comparison with a Python integer that the other's type does not hold: it is on one side of all its values."""
    for k, (v, kind) in enumerate(zip(values, kinds)):
        if isinstance(v, int) and not isinstance(v, (bool, np.generic)) and kind.is_int:
            limits = np.iinfo(kind.numpy)
            if not limits.min <= v <= limits.max:
                pair = (v, 0) if k == 0 else (0, v)
                return broadcast(b.const(bool(COMPARED[op](*pair)), BOOL), values[1 - k])
    return None


def broadcast(number: Any, like: Tracer) -> Tracer:
    """A constant in the shape of an array."""
    return Tracer(like.b, number).op("broadcast", shape=like.shape) if like.shape else Tracer(like.b, number)


def _signs_apart(op: str, values: tuple[Any, ...], kinds: list[DType], b: Any) -> Tracer:
    """Comparison of i64 with u64, which no common type holds: a negative number is less than all of the other."""
    x = [Tracer(b, lift(b, v, k)).astype(k) for v, k in zip(values, kinds)]
    signed = kinds.index(I64)
    plain = x[0].astype(U64).op(op, x[1].astype(U64).node)
    negative = COMPARED[op](*((-1, 0) if signed == 0 else (0, -1)))
    below = x[signed] < 0
    return (plain | below if negative else plain & ~below)  # type: ignore[no-any-return]


for _name, _op in NAMES.items():
    UFUNCS[_name] = _plain(_name, _op)


# ---- ufuncs without an entry of their own
def _written(name: str, fn: Callable[..., Any]) -> None:
    """A ufunc in terms of others: operands come as tracers of the dtypes that NumPy would compute in (short floats as f32, so that the
    result is rounded once), the result goes to NumPy's."""

    def call(*values: Any) -> Any:
        kinds, out = resolved(getattr(np, name), values)
        b = next(v for v in values if isinstance(v, Tracer)).b
        x = (Tracer(b, lift(b, v, k)).astype(k) for v, k in zip(values, kinds))
        return fn(*(v.astype(F32) if v.element in SHORT_FLOATS else v for v in x)).astype(out)

    UFUNCS[name] = call


def _signbit(x: Any) -> Any:
    return (x < 0) | ((x == 0) & (1 / x < 0)) if x.element.is_float else x < 0


def _same(x: Tracer) -> Tracer:
    return x


def _reciprocal(x: Any) -> Any:
    """1 / x; of integers cut off, and 0 for 0."""
    return 1 / x if x.element.is_float else Tracer(x.b, x.b.op("idiv", x.b.const(1, x.element), x.node))


def _cbrt(x: Any) -> Any:
    """exp(log|x| / 3), and one step of Newton's method, which makes up for the rounding of the logarithm."""
    size = np.abs(x)
    y = np.exp(np.log(size) * (1 / 3))
    y = np.where((size == 0) | ~np.isfinite(size), size, y - (y - size / (y * y)) * (1 / 3))
    return np.where(x < 0, -y, np.where(x == 0, x, y))


def _arctan2(y: Any, x: Any) -> Any:
    """The angle of (x, y): arctan |y / x| for the first quadrant, mirrored. The sign of zero counts, as in C99."""
    zero, far = (x == 0) & (y == 0), np.isinf(x) & np.isinf(y)
    near = np.where(zero, 0.0, np.where(far, pi / 4, np.arctan(np.abs(y) / np.abs(x))))
    return np.copysign(np.where(_signbit(x), pi - near, near), y)


def _hypot(x: Any, y: Any) -> Any:
    """The larger one times sqrt(1 + quotient^2), so that squares neither overflow nor vanish."""
    x, y = np.abs(x), np.abs(y)
    most = np.maximum(x, y)
    part = np.minimum(x, y) / np.where(most == 0, 1, most)
    return np.where(np.isinf(x) | np.isinf(y), np.inf, most * np.sqrt(1 + part * part))


def _logaddexp(x: Any, y: Any) -> Any:
    """Equal operands apart: inf - inf is no number."""
    return np.where(x == y, x + log(2), np.maximum(x, y) + np.log1p(np.exp(-np.abs(x - y))))


_written("square", lambda x: x * x)
_written("positive", _same)
_written("conjugate", _same)
_written("reciprocal", _reciprocal)
_written("log10", lambda x: np.log(x) * (1 / log(10)))
_written("cbrt", _cbrt)
for _name in ("deg2rad", "radians"):
    _written(_name, lambda x: x * (pi / 180))
for _name in ("rad2deg", "degrees"):
    _written(_name, lambda x: x * (180 / pi))
_written("isfinite", lambda x: ~(np.isnan(x) | np.isinf(x)))
_written("signbit", _signbit)
_written("arctan2", _arctan2)
_written("hypot", _hypot)
_written("logaddexp", _logaddexp)
_written("heaviside", lambda x, y: np.where(np.isnan(x), x, np.where(x == 0, y, (x > 0).astype(x.dtype))))
_written("fmax", lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y), x, np.maximum(x, y))))
_written("fmin", lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y), x, np.minimum(x, y))))
_written("float_power", lambda x, y: x**y)
_written("copysign", lambda x, y: np.where(_signbit(y), -np.abs(x), np.abs(x)))


def _matmul(x: Any, y: Any) -> Tracer:
    kinds, out = resolved(np.matmul, (x, y))
    b = (x if isinstance(x, Tracer) else y).b
    if BOOL in kinds:  # sums of products: whether any pair is true
        kinds = [I64, I64]
    nodes = [Tracer(b, lift(b, v, None)).astype(k).node for v, k in zip((x, y), kinds)]
    product = Tracer(b, b.op("matmul", *nodes))
    return product != 0 if out == BOOL else product.astype(out)  # type: ignore[no-any-return]


def _vecdot(x: Any, y: Any) -> Any:
    _, out = resolved(np.vecdot, (x, y))
    product = np.multiply(x, y)
    return product.any(-1) if out == BOOL else product.sum(-1, dtype=out)


UFUNCS["matmul"] = _matmul
UFUNCS["vecdot"] = _vecdot
UFUNCS["divmod"] = lambda x, y: (UFUNCS["floor_divide"](x, y), UFUNCS["remainder"](x, y))
