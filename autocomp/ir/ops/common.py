"""What the entries share: type rules over static and symbolic dimensions, axes and reads of comprehensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Expr, Map, Read
from autocomp.ir.types import Dim, DType, Sym, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


def fail(op: str, why: str, types: Sequence[TensorType] = ()) -> NoReturn:
    """Raise ModelError with the operand types in its text."""
    raise ModelError(why + (f" (operands {', '.join(map(str, types))})" if types else ""), where=f"op {op}")


def refuse(op: str, why: str, types: Sequence[TensorType] = ()) -> NoReturn:
    """Raise UnsupportedOp: a valid model whose form has no entry here."""
    raise UnsupportedOp(why + (f" (operands {', '.join(map(str, types))})" if types else ""), where=f"op {op}",
                        hint="bind the symbolic dimension to a number when loading the model (dims={name: size})")


def same_dtype(op: str, types: Types) -> DType:
    """The one dtype of all operands."""
    if len({t.dtype for t in types}) > 1:
        fail(op, "operands must have one dtype", types)
    return types[0].dtype


def broadcast_shapes(op: str, types: Types) -> tuple[Dim, ...]:
    """NumPy broadcasting; a symbol matches itself and 1."""
    rank = max((t.rank for t in types), default=0)
    out: list[Dim] = []
    for k in range(rank):
        dims = [t.shape[k - rank + t.rank] for t in types if k - rank + t.rank >= 0]
        wide = [d for d in dims if d != 1]
        if any(d != wide[0] for d in wide):
            fail(op, f"shapes do not broadcast in dimension {k}: {' against '.join(map(str, dict.fromkeys(wide)))}", types)
        out.append(wide[0] if wide else 1)
    return tuple(out)


def static(op: str, d: Dim, types: Sequence[TensorType] = ()) -> int:
    """The dimension as a number; refuses a symbol."""
    if isinstance(d, Sym):
        refuse(op, f"the symbolic dimension {d} cannot be used here", types)
    return d


def axis_of(op: str, axis: int, rank: int) -> int:
    """A possibly negative axis in [0, rank)."""
    if not -rank <= axis < rank:
        fail(op, f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank


def axes_of(op: str, axes: Any, rank: int) -> tuple[int, ...]:
    """Axes as sorted, distinct, non-negative ints; None means all."""
    if axes is None:
        return tuple(range(rank))
    out = sorted(axis_of(op, int(a), rank) for a in ((axes,) if isinstance(axes, int) else axes))
    if len(set(out)) != len(out):
        fail(op, f"axes {tuple(axes)} name one axis twice")
    return tuple(out)


def ints(v: Any) -> tuple[Any, ...]:
    """A sequence of ints and symbols as a tuple."""
    return tuple(d if isinstance(d, Sym) else int(d) for d in v)


# ---- comprehensions
def loop_axes(shape: Sequence[Dim], prefix: str = "i") -> tuple[Axis, ...]:
    return tuple(Axis(f"{prefix}{k}", d) for k, d in enumerate(shape))


def extents(*axes: Axis) -> dict[str, int]:
    """Extents of the axes, as `Aff.range` and `simplify` want them; symbolic ones at their largest."""
    return {a.name: a.extent if isinstance(a.extent, int) else a.extent.hi for a in axes}


def here(axes: Sequence[Axis]) -> tuple[Aff, ...]:
    """The identity index."""
    return tuple(aff(a.name) for a in axes)


def read(k: int, t: TensorType, index: Sequence[Aff], axes: Sequence[Axis] = (), fill: float = 0.0) -> Read:
    """Operand k at `index`. With `axes`, a guard is added for each index that can leave its dimension."""
    guard: list[Aff] = []
    if axes:
        size = {a.name: a.extent for a in axes}
        for i, d in zip(index, t.shape):
            names = list(i.names())
            if len(names) == 1 and i == aff(names[0]) and size[names[0]] == d:
                continue
            lo, hi = i.range(extents(*axes)) if all(size[n] != 0 for n in names) else (0, 0)
            guard += [i] if lo < 0 else []
            guard += [aff(d.name) - 1 - i] if isinstance(d, Sym) else [aff(d - 1) - i] if hi >= d else []
    return Read(t.dtype, k, tuple(index), tuple(guard), fill)


def broadcast_read(k: int, t: TensorType, axes: Sequence[Axis]) -> Read:
    """Operand k broadcast (NumPy rules) to the output axes."""
    last = axes[len(axes) - t.rank:] if t.rank else ()
    return Read(t.dtype, k, tuple(aff(0) if d == 1 else aff(a.name) for d, a in zip(t.shape, last)))


def cast(e: Expr, dtype: DType) -> Expr:
    """e as dtype (e itself if it already is)."""
    return e if e.dtype == dtype else Map(dtype, "cast", (e,))


def linear(index: Sequence[Aff], shape: Sequence[Dim]) -> Aff:
    """Row-major position of an index."""
    out = aff(0)
    for i, d in zip(index, shape):
        out = out * static("reshape", d) + i
    return out


def delinear(pos: Aff, shape: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[Aff, ...]:
    """Row-major index of a position, simplified over the axes' ranges."""
    out = []
    for k, d in enumerate(shape):
        stride = prod(int(x) for x in shape[k + 1:])  # type: ignore[arg-type]
        whole = (pos // max(stride, 1)).simplify(sizes)
        out.append(aff(0) if d == 1 else whole if k == 0 else (whole % max(int(d), 1)).simplify(sizes))  # type: ignore[arg-type]
    return tuple(out)


def unary(f: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays, Any, TensorType], np.ndarray]:
    """A reference that is one NumPy call on the only operand."""
    return lambda arrays, attrs, t: f(arrays[0])
