"""Arguments of traced functions: values as arrays, of one dtype, and axes in range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.tracing.array import Tracer, lift
from autocomp.frontends.tracing.registry import FUNCTIONS
from autocomp.ir.builder import Builder
from autocomp.ir.types import DType, dtype_of


def builder(*values: Any) -> Builder:
    """The builder of the first tracer among (sequences of) values."""
    for v in values:
        if isinstance(v, Tracer):
            return v.b
        if isinstance(v, (list, tuple)) and (inner := [w for w in v if isinstance(w, (Tracer, list, tuple))]):
            return builder(*inner)
    raise ModelError("no traced array among the arguments", where="trace")


def array(value: Any, b: Builder, like: DType | None = None) -> Tracer:
    """The value as a tracer; nested lists of tracers are stacked."""
    if isinstance(value, Tracer):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(v, (Tracer, list, tuple)) for v in value):
        return FUNCTIONS["stack"]([array(v, b) for v in value])  # type: ignore[no-any-return]
    return Tracer(b, lift(b, value, like))


def together(values: Sequence[Any]) -> list[Tracer]:
    """Values as tracers of one dtype, NumPy's promotion with weak Python numbers."""
    b = builder(*values)
    kinds = [v.dtype if isinstance(v, Tracer) else v for v in values]
    dtype = common(*kinds)
    return [array(v, b, dtype).astype(dtype) for v in values]


def common(*kinds: Any) -> DType:
    """NumPy's common dtype of dtypes, arrays and (weak) numbers. Raises UnsupportedOp where there is none."""
    try:
        return dtype_of(np.result_type(*kinds))
    except (TypeError, KeyError):
        text = ", ".join(str(getattr(k, "dtype", k)) for k in kinds)
        raise UnsupportedOp(f"no common dtype of {text}", where="trace", hint="cast the operands with astype") from None


def axis_of(axis: int, rank: int) -> int:
    """The axis in [0, rank). Raises ModelError."""
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, (bool, np.bool_)) or not -rank <= axis < rank:
        raise ModelError(f"axis {axis} is out of range for {rank} dimensions", where="trace")
    return int(axis) % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """None: all axes; an int: that one. Raises ModelError for an axis that is given twice."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(axis_of(a, rank) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ModelError(f"an axis is given twice in {axis}", where="trace")
    return axes
