"""Contractions: sums over products of two operands (matmul, einsum)."""

from __future__ import annotations

import numpy as np

from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Comprehension, Contract, Map, Read
from autocomp.ir.node import Attrs
from autocomp.ir.ops.common import Arrays, Types, broadcast_shapes, cast, fail, loop_axes, same_dtype
from autocomp.ir.ops.table import Op, register
from autocomp.ir.scalar import accumulator, convert
from autocomp.ir.types import Dim, TensorType


def _matmul_infer(types: Types, attrs: Attrs) -> TensorType:
    a, b = types
    dtype = same_dtype("matmul", types)
    if a.rank < 2 or b.rank < 2 or a.shape[-1] != b.shape[-2] or dtype.kind == "b":  # noqa: PLR2004
        fail("matmul", "needs a[..., m, k] and b[..., k, n] of a numeric dtype", types)
    batch = broadcast_shapes("matmul", (TensorType(dtype, a.shape[:-2]), TensorType(dtype, b.shape[:-2])))
    return TensorType(attrs["dtype"] or dtype, (*batch, a.shape[-2], b.shape[-1]))


def _wide(arrays: Arrays, t: TensorType) -> list[np.ndarray]:
    """The operands in the accumulator's type."""
    return [a.astype(np.result_type(accumulator(t.dtype).numpy, np.float32 if a.dtype.itemsize < 4 and t.dtype.is_float  # noqa: PLR2004
                                    else a.dtype), copy=False) for a in arrays]


def _matmul_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    axes = loop_axes(t.shape)
    k = aff("r0")

    def operand(n: int, last: tuple[object, object]) -> Read:
        x = types[n]
        batch = axes[len(axes) - x.rank:-2]
        head = tuple(aff(0) if d == 1 else aff(ax.name) for d, ax in zip(x.shape[:-2], batch))
        return Read(x.dtype, n, (*head, *last))  # type: ignore[arg-type]

    m, n = aff(axes[-2].name), aff(axes[-1].name)
    value = Contract(accumulator(t.dtype if attrs["dtype"] else types[0].dtype), (Axis("r0", types[0].shape[-1]),),
                     operand(0, (m, k)), operand(1, (k, n)))
    return Comprehension(axes, cast(value, t.dtype))


register(Op("matmul", (2, 2), _matmul_infer, lambda a, attrs, t: convert(np.matmul(*_wide(a, t)), t.dtype), _matmul_body,
            attrs={"dtype": ""}, doc="a[..., m, k] @ b[..., k, n], batch dimensions broadcast; dtype: the result's, if wider"))


def _labels(attrs: Attrs) -> tuple[str, str, str]:
    ins, _, out = attrs["spec"].partition("->")
    a, _, b = ins.partition(",")
    return a, b, out


def _einsum_infer(types: Types, attrs: Attrs) -> TensorType:
    a, b, out = _labels(attrs)
    size: dict[str, Dim] = {}
    dtype = same_dtype("einsum", types)
    for labels, t in zip((a, b), types):
        if len(labels) != t.rank or len(set(labels)) != len(labels):
            fail("einsum", f"'{labels}' must name each of {t.rank} dimensions once", types)
        for c, d in zip(labels, t.shape):
            if size.setdefault(c, d) != d:
                fail("einsum", f"'{c}' is {size[c]} and {d}", types)
    if len(set(out)) != len(out) or set(out) - set(size) or (set(a) ^ set(b)) - set(out) or not a.isalpha() or not b.isalpha():
        fail("einsum", f"'{attrs['spec']}': each output label must be an operand's, each label of one operand alone an output's")
    return TensorType(attrs["dtype"] or dtype, tuple(size[c] for c in out))


def _einsum_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    a, b, out = _labels(attrs)
    axes = loop_axes(t.shape)
    summed = [c for c in a if c not in out]
    name = {**{c: ax.name for c, ax in zip(out, axes)}, **{c: f"r{k}" for k, c in enumerate(summed)}}
    x, y = (Read(u.dtype, k, tuple(aff(name[c]) for c in s)) for k, (u, s) in enumerate(zip(types, (a, b))))
    if not summed:
        return Comprehension(axes, cast(Map(x.dtype, "mul", (x, y)), t.dtype))
    bound = tuple(Axis(name[c], types[0].shape[a.index(c)]) for c in summed)
    return Comprehension(axes, cast(Contract(accumulator(t.dtype), bound, x, y), t.dtype))


register(Op("einsum", (2, 2), _einsum_infer,
            lambda a, attrs, t: convert(np.einsum(attrs["spec"], *_wide(a, t), optimize=True), t.dtype), _einsum_body,
            attrs={"spec": ..., "dtype": ""}, doc="two operands, no repeated label in one, e.g. spec 'bij,bjk->bik'"))
