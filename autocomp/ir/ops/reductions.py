"""Reductions over axes with a monoid, and the cumulative sum and stencil recurrences."""

from __future__ import annotations

from typing import Any

import numpy as np

from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Comprehension, Const, Expr, Index, Inside, Map, Prev, Read, Recurrence, Reduce
from autocomp.ir.node import Attrs
from autocomp.ir.ops.common import Arrays, Types, axes_of, axis_of, cast, fail, ints, loop_axes
from autocomp.ir.ops.table import Op, register
from autocomp.ir.scalar import accumulator, convert
from autocomp.ir.types import I64, Dim, TensorType


def reduced_shape(shape: tuple[Dim, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[Dim, ...]:
    return tuple(1 if k in axes else d for k, d in enumerate(shape) if keepdims or k not in axes)


def reduction_axes(t: TensorType, out: TensorType, axes: tuple[int, ...], keepdims: bool) -> tuple[
        tuple[Axis, ...], tuple[Axis, ...], tuple[str, ...]]:
    """(output axes, reduced axes, the operand's axis names in order)."""
    outer = loop_axes(out.shape)
    inner = tuple(Axis(f"r{k}", t.shape[a]) for k, a in enumerate(axes))
    kept = iter(a for k, a in enumerate(outer) if not keepdims or k not in axes)
    names = tuple(inner[axes.index(k)].name if k in axes else next(kept).name for k in range(t.rank))
    return outer, inner, names


def _canonical(types: Types, a: dict[str, Any]) -> dict[str, Any]:
    return {**a, "axes": axes_of("reduce", a["axes"], types[0].rank), "keepdims": bool(a["keepdims"])}


def _reduction(name: str, monoid: str, kinds: str, f: Any) -> Op:
    arg = name.startswith("reduce_arg")

    def infer(types: Types, attrs: Attrs) -> TensorType:
        t = types[0]
        if t.dtype.kind not in kinds:
            fail(name, f"does not take {t.dtype}", types)
        if arg and len(attrs["axes"]) != 1:
            fail(name, f"needs one axis, got {attrs['axes']}", types)
        return TensorType(I64 if arg else t.dtype, reduced_shape(t.shape, attrs["axes"], attrs["keepdims"]))

    def reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
        x, keep = arrays[0], attrs["keepdims"]
        with np.errstate(all="ignore"):
            if arg:
                return f(x, axis=attrs["axes"][0], keepdims=keep).astype(np.int64)
            if monoid in ("sum", "prod"):
                acc = accumulator(t.dtype).numpy
                return convert(f(x.astype(acc), axis=attrs["axes"], keepdims=keep, dtype=acc), t.dtype)
            if 0 in x.shape and monoid in ("max", "min"):
                from autocomp.ir.monoids import MONOIDS, identity_value

                start = identity_value(MONOIDS[monoid].base[0], t.dtype)
                return convert(f(x, axis=attrs["axes"], keepdims=keep, initial=start), t.dtype)
            wide = x.astype(np.float32) if t.dtype.is_float and t.dtype.bits == 16 else x  # noqa: PLR2004
            return convert(f(wide, axis=attrs["axes"], keepdims=keep), t.dtype)

    def comprehension(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
        outer, inner, names = reduction_axes(types[0], t, attrs["axes"], attrs["keepdims"])
        x: Expr = Read(types[0].dtype, 0, tuple(aff(n) for n in names))
        if not inner:
            return Comprehension(outer, x)
        if arg:
            return Comprehension(outer, Reduce(I64, monoid, inner, (x, Index(I64, aff(inner[0].name)))))
        acc = accumulator(t.dtype) if monoid in ("sum", "prod") else t.dtype
        return Comprehension(outer, cast(Reduce(acc, monoid, inner, (x,)), t.dtype))

    return Op(name, (1, 1), infer, reference, comprehension, attrs={"axes": None, "keepdims": False}, canonical=_canonical,
              doc=f"{monoid} over axes (all if not given)")


for _name, _kinds, _f in (("sum", "fiu", np.sum), ("prod", "fiu", np.prod), ("max", "fiu", np.max), ("min", "fiu", np.min),
                          ("any", "b", np.any), ("all", "b", np.all), ("argmax", "fiu", np.argmax),
                          ("argmin", "fiu", np.argmin)):
    register(_reduction(f"reduce_{_name}", _name, _kinds, _f))


# ---- monoid reductions that rewrite rules make
def _part_infer(types: Types, attrs: Attrs) -> TensorType:
    if not types[0].dtype.is_float:
        fail("monoid", "needs floats", types)
    return TensorType(types[0].dtype, reduced_shape(types[0].shape, attrs["axes"], attrs["keepdims"]))


def _max_sumexp_reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
    x = arrays[0].astype(accumulator(t.dtype).numpy)
    m = x.max(axis=attrs["axes"], keepdims=True)
    out = m if attrs["part"] == "m" else np.exp(x - m).sum(axis=attrs["axes"], keepdims=True)
    return convert(out.reshape(reduced_shape(x.shape, attrs["axes"], attrs["keepdims"])), t.dtype)


def _welford_reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
    x = arrays[0].astype(accumulator(t.dtype).numpy)
    kw = {"axis": attrs["axes"], "keepdims": attrs["keepdims"]}
    n = x.size // max(1, int(np.prod(reduced_shape(x.shape, attrs["axes"], False))))
    part = attrs["part"]
    out = {"mean": x.mean(**kw), "var": x.var(**kw), "M2": x.var(**kw) * n}.get(part, np.full_like(x.mean(**kw), n))
    return convert(out, t.dtype)


def _part_body(monoid: str) -> Any:
    def comprehension(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
        outer, inner, names = reduction_axes(types[0], t, attrs["axes"], attrs["keepdims"])
        x = Read(types[0].dtype, 0, tuple(aff(n) for n in names))
        return Comprehension(outer, cast(Reduce(accumulator(t.dtype), monoid, inner, (x,), attrs["part"]), t.dtype))
    return comprehension


for _name, _ref, _part in (("max_sumexp", _max_sumexp_reference, "l"), ("welford", _welford_reference, "var")):
    register(Op(_name, (1, 1), _part_infer, _ref, _part_body(_name), canonical=_canonical,
                attrs={"axes": ..., "keepdims": False, "part": _part}, doc=f"one part of the monoid {_name} over axes"))


def _weighted_infer(types: Types, attrs: Attrs) -> TensorType:
    s, v = types
    if s.dtype != v.dtype or not s.dtype.is_float or s.rank != v.rank or s.rank < 2 \
            or s.shape[:-2] != v.shape[:-2] or s.shape[-1] != v.shape[-2]:  # noqa: PLR2004
        fail("softmax_weighted_sum", "needs s[..., i, j] and v[..., j, e] of one float dtype", types)
    return TensorType(s.dtype, (*s.shape[:-1], v.shape[-1]))


def _weighted_reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
    s, v = (a.astype(accumulator(t.dtype).numpy) for a in arrays)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return convert(p @ v / p.sum(axis=-1, keepdims=True), t.dtype)


def _weighted_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    outer, j = loop_axes(t.shape), Axis("r0", types[0].shape[-1])
    batch = tuple(aff(a.name) for a in outer[:-2])
    s = Read(t.dtype, 0, (*batch, aff(outer[-2].name), aff("r0")))
    v = Read(t.dtype, 1, (*batch, aff("r0"), aff(outer[-1].name)))
    return Comprehension(outer, cast(Reduce(accumulator(t.dtype), "softmax_weighted", (j,), (s, v)), t.dtype))


register(Op("softmax_weighted_sum", (2, 2), _weighted_infer, _weighted_reference, _weighted_body,
            doc="softmax(s over j) @ v: the (max, sum-exp, weighted sum) monoid"))


# ---- recurrences
def _cumsum_infer(types: Types, attrs: Attrs) -> TensorType:
    if types[0].dtype.kind not in "fiu":
        fail("cumsum", "does not take bool", types)
    return types[0]


def _cumsum_reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
    axis, acc = attrs["axis"], accumulator(t.dtype).numpy
    x = np.flip(arrays[0], axis) if attrs["reverse"] else arrays[0]
    out = np.cumsum(x, axis=axis, dtype=acc)
    if attrs["exclusive"]:
        out = out - x.astype(acc)
    return convert(np.flip(out, axis) if attrs["reverse"] else out, t.dtype)


def _cumsum_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    axes, axis, n = loop_axes(t.shape), attrs["axis"], t.shape[attrs["axis"]]
    acc = accumulator(t.dtype)
    space = tuple(Axis(f"s{k}", d) for k, d in enumerate(t.shape) if k != axis)
    here = tuple(aff(a.name) for a in space)
    last = aff(n if isinstance(n, int) else n.name) - 1
    step = (last - aff("t")) if attrs["reverse"] else aff("t")
    x = Read(t.dtype, 0, (*here[:axis], step, *here[axis:]))
    i = aff(axes[axis].name)
    at = ((last - i) if attrs["reverse"] else i) + (0 if attrs["exclusive"] else 1)
    value = Recurrence(acc, Axis("t", n), space, Const(acc, 0), Map(acc, "add", (Prev(acc, here), cast(x, acc))),
                       tuple(aff(a.name) for k, a in enumerate(axes) if k != axis), at)
    return Comprehension(axes, cast(value, t.dtype))


register(Op("cumsum", (1, 1), _cumsum_infer, _cumsum_reference, _cumsum_body,
            attrs={"axis": ..., "exclusive": False, "reverse": False}, doc="running sum along an axis",
            canonical=lambda types, a: {**a, "axis": axis_of("cumsum", a["axis"], types[0].rank)}))


def _stencil_infer(types: Types, attrs: Attrs) -> TensorType:
    t = types[0]
    if not t.dtype.is_float or attrs["steps"] < 0 or len(attrs["offsets"]) != len(attrs["weights"]) \
            or any(len(o) != t.rank for o in attrs["offsets"]) or not attrs["offsets"]:
        fail("stencil", f"needs a float operand and a weight for each offset of {t.rank} numbers", types)
    return t


def _interior(offsets: Any, shape: Any) -> list[tuple[int, int]]:
    """[first, last] inner index of each dimension: all neighbours exist there."""
    return [(max(0, *(-o[k] for o in offsets), 0), d - 1 - max(0, *(o[k] for o in offsets), 0)) for k, d in enumerate(shape)]


def _stencil_reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
    acc = accumulator(t.dtype).numpy
    a = arrays[0].astype(acc)
    box = _interior(attrs["offsets"], a.shape)
    if any(hi < lo for lo, hi in box):
        return convert(a, t.dtype)
    for _ in range(attrs["steps"]):
        new = a.copy()
        new[tuple(slice(lo, hi + 1) for lo, hi in box)] = sum(
            acc.type(w) * a[tuple(slice(lo + d, hi + 1 + d) for (lo, hi), d in zip(box, o))]
            for o, w in zip(attrs["offsets"], attrs["weights"]))
        a = new
    return convert(a, t.dtype)


def _stencil_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    acc, outer = accumulator(t.dtype), loop_axes(t.shape)
    space = loop_axes(t.shape, "s")
    here = tuple(aff(a.name) for a in space)
    guard = tuple(g for i, (lo, hi) in zip(here, _interior(attrs["offsets"], [
        aff(d if isinstance(d, int) else d.name) for d in t.shape])) for g in (i - lo, hi - i))
    total: Expr | None = None
    for o, w in zip(attrs["offsets"], attrs["weights"]):
        term = Map(acc, "mul", (Const(acc, w), Prev(acc, tuple(i + d for i, d in zip(here, o)), guard)))
        total = term if total is None else Map(acc, "add", (total, term))
    assert total is not None
    step = Map(acc, "where", (Inside.of(guard), total, Prev(acc, here)))
    init = cast(Read(t.dtype, 0, here), acc)
    value = Recurrence(acc, Axis("t", attrs["steps"]), space, init, step, tuple(aff(a.name) for a in outer))
    return Comprehension(outer, cast(value, t.dtype))


register(Op("stencil", (1, 1), _stencil_infer, _stencil_reference, _stencil_body,
            attrs={"offsets": ..., "weights": ..., "steps": ...},
            canonical=lambda types, a: {"offsets": tuple(ints(o) for o in a["offsets"]),
                                        "weights": tuple(float(w) for w in a["weights"]), "steps": int(a["steps"])},
            doc="A[t+1, i] = sum_k w_k A[t, i + o_k] in the interior, borders kept; the state after `steps`"))
