"""Views: the value is a bare read at a quasi-affine index. Never a copy by themselves."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Comprehension, Expr, Inside, Map, Read
from autocomp.ir.node import Attrs
from autocomp.ir.ops.common import (
    Arrays,
    Types,
    axis_of,
    broadcast_read,
    delinear,
    extents,
    fail,
    here,
    ints,
    linear,
    loop_axes,
    read,
    refuse,
    static,
)
from autocomp.ir.ops.table import Op, register
from autocomp.ir.types import Dim, Sym, TensorType


# ---- transpose
def _transpose_infer(types: Types, attrs: Attrs) -> TensorType:
    t, perm = types[0], attrs["perm"]
    if sorted(perm) != list(range(t.rank)):
        fail("transpose", f"perm {perm} is no permutation of {t.rank} axes", types)
    return TensorType(t.dtype, tuple(t.shape[p] for p in perm))


def _transpose_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    axes, perm = loop_axes(t.shape), attrs["perm"]
    return Comprehension(axes, Read(t.dtype, 0, tuple(aff(axes[perm.index(d)].name) for d in range(t.rank))))


register(Op("transpose", (1, 1), _transpose_infer, lambda a, attrs, t: a[0].transpose(attrs["perm"]), _transpose_body,
            attrs={"perm": ...}, doc="out dimension k is operand dimension perm[k]",
            canonical=lambda types, a: {"perm": tuple(axis_of("transpose", int(p), types[0].rank) for p in a["perm"])}))


# ---- reshape
def groups(src: tuple[Dim, ...], dst: tuple[Dim, ...]) -> list[tuple[range, range]] | None:
    """Cut both shapes into runs of dimensions of equal size, as short as possible; None if sizes differ.

    (6, N, 4) -> (2, 3, N, 2, 2): [(0:1, 0:2), (1:2, 2:3), (2:3, 3:5)]
    """
    out, i, j = [], 0, 0
    while i < len(src) or j < len(dst):
        i0, j0 = i, j
        if i < len(src) and j < len(dst) and src[i] == dst[j]:
            i, j = i + 1, j + 1
        elif i < len(src) and src[i] == 1:
            i += 1
        elif j < len(dst) and dst[j] == 1:
            j += 1
        else:
            a = b = 1
            while i == i0 or j == j0 or a != b:
                step_src = i == i0 or (j > j0 and a < b)
                d = src[i] if step_src and i < len(src) else dst[j] if not step_src and j < len(dst) else None
                if not isinstance(d, int):
                    return None
                a, b, i, j = (a * d, b, i + 1, j) if step_src else (a, b * d, i, j + 1)
        out.append((range(i0, i), range(j0, j)))
    return out


def _reshape_canonical(types: Types, a: dict[str, Any]) -> dict[str, Any]:
    """Replace one -1 by what is left over (a symbol if that is what is left)."""
    shape, src = list(ints(a["shape"])), list(types[0].shape)
    if -1 in shape:
        for d in [d for d in shape if isinstance(d, Sym) and d in src]:
            src.remove(d)
        syms = [d for d in src if isinstance(d, Sym)]
        have = prod(d for d in src if isinstance(d, int))
        known = prod(d for d in shape if isinstance(d, int) and d != -1)
        if shape.count(-1) > 1 or (not syms and (known == 0 or have % known)):
            fail("reshape", f"cannot fill in -1 of the shape {tuple(a['shape'])}", types)
        if len(syms) > 1 or (syms and have != known):
            refuse("reshape", f"-1 of the shape ({', '.join(map(str, shape))}) would be a product with a symbol", types)
        shape[shape.index(-1)] = syms[0] if syms else have // known
    return {"shape": tuple(shape)}


def _reshape_infer(types: Types, attrs: Attrs) -> TensorType:
    t, shape = types[0], attrs["shape"]
    text = f"({', '.join(map(str, shape))})"
    if t.is_static and all(isinstance(d, int) for d in shape):
        if t.elements != prod(shape):
            fail("reshape", f"the shape {text} has {prod(shape)} elements, the operand {t.elements}", types)
    elif groups(t.shape, shape) is None:
        refuse("reshape", f"the shape {text} mixes a symbolic dimension with others", types)
    return TensorType(t.dtype, shape)


def _reshape_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    axes, src = loop_axes(t.shape), types[0].shape
    index: list[Aff] = []
    for s, d in groups(src, t.shape) or [(range(len(src)), range(t.rank))]:
        if len(s) == len(d) == 1:
            index.append(aff(axes[d[0]].name))
        else:
            mine = [axes[k] for k in d]
            index += delinear(linear(here(mine), [a.extent for a in mine]), [src[k] for k in s], extents(*mine))
    return Comprehension(axes, Read(t.dtype, 0, tuple(index)))


register(Op("reshape", (1, 1), _reshape_infer, lambda a, attrs, t: a[0].reshape(attrs["shape"]), _reshape_body,
            attrs={"shape": ...}, canonical=_reshape_canonical, doc="the same elements in row-major order; one -1 is filled in"))


# ---- broadcast
def _broadcast_infer(types: Types, attrs: Attrs) -> TensorType:
    t, shape = types[0], attrs["shape"]
    tail = shape[len(shape) - t.rank:] if t.rank else ()
    if len(shape) < t.rank or any(d not in (1, e) for d, e in zip(t.shape, tail)):
        fail("broadcast", f"the operand does not broadcast to ({', '.join(map(str, shape))})", types)
    return TensorType(t.dtype, shape)


def _broadcast_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    axes = loop_axes(t.shape)
    return Comprehension(axes, broadcast_read(0, types[0], axes))


register(Op("broadcast", (1, 1), _broadcast_infer, lambda a, attrs, t: np.broadcast_to(a[0], attrs["shape"]), _broadcast_body,
            attrs={"shape": ...}, canonical=lambda types, a: {"shape": ints(a["shape"])}, doc="NumPy broadcast to a shape"))


# ---- slice
def _slice_canonical(types: Types, a: dict[str, Any]) -> dict[str, Any]:
    starts, limits = ints(a["starts"]), ints(a["limits"])
    return {"starts": starts, "limits": limits, "steps": ints(a["steps"]) if a["steps"] else (1,) * len(starts)}


def _slice_infer(types: Types, attrs: Attrs) -> TensorType:
    t = types[0]
    rows = tuple(zip(attrs["starts"], attrs["limits"], attrs["steps"]))
    if not len(attrs["starts"]) == len(attrs["limits"]) == len(attrs["steps"]) == t.rank:
        fail("slice", f"starts, limits and steps need {t.rank} entries each", types)
    shape: list[Dim] = []
    for k, (d, (start, limit, step)) in enumerate(zip(t.shape, rows)):
        if step == 0:
            fail("slice", f"step 0 in dimension {k}", types)
        if isinstance(d, Sym):
            if (start, limit, step) != (0, d, 1):
                refuse("slice", f"only the whole of the symbolic dimension {k} ({d}) can be taken", types)
            shape.append(d)
            continue
        n = max(0, -((start - limit) // step))
        if n and not (0 <= start < d and 0 <= start + (n - 1) * step < d):
            fail("slice", f"{start}:{limit}:{step} leaves dimension {k} of size {d}", types)
        shape.append(n)
    return TensorType(t.dtype, tuple(shape))


def _slice_reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
    rows = zip(attrs["starts"], attrs["limits"], attrs["steps"])
    return arrays[0][tuple(slice(s, None if step < 0 and e < 0 else e, step) for s, e, step in rows)]


def _slice_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    axes = loop_axes(t.shape)
    index = tuple(aff(a.name) * step + start for a, start, step in zip(axes, attrs["starts"], attrs["steps"]))
    return Comprehension(axes, Read(t.dtype, 0, index))


register(Op("slice", (1, 1), _slice_infer, _slice_reference, _slice_body, canonical=_slice_canonical,
            attrs={"starts": ..., "limits": ..., "steps": ()},
            doc="start : limit : step a dimension, in range (no wrapping); a negative step may have limit -1"))


# ---- tile
def _tile_infer(types: Types, attrs: Attrs) -> TensorType:
    t = types[0]
    if len(attrs["repeats"]) != t.rank or any(r < 0 for r in attrs["repeats"]):
        fail("tile", f"repeats {attrs['repeats']} need one count a dimension", types)
    return TensorType(t.dtype, tuple(d if r == 1 else static("tile", d, types) * r for d, r in zip(t.shape, attrs["repeats"])))


def _tile_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    axes = loop_axes(t.shape)
    index = tuple(aff(a.name) if r == 1 else aff(a.name) % max(int(d), 1)  # type: ignore[arg-type]
                  for a, d, r in zip(axes, types[0].shape, attrs["repeats"]))
    return Comprehension(axes, Read(t.dtype, 0, index))


register(Op("tile", (1, 1), _tile_infer, lambda a, attrs, t: np.tile(a[0], attrs["repeats"]), _tile_body,
            attrs={"repeats": ...}, canonical=lambda types, a: {"repeats": ints(a["repeats"])}, doc="numpy.tile"))


# ---- pad
_MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect", "wrap": "wrap"}


def _pad_infer(types: Types, attrs: Attrs) -> TensorType:
    t, lo, hi = types[0], attrs["lo"], attrs["hi"]
    if len(lo) != t.rank or len(hi) != t.rank:
        fail("pad", f"lo and hi need {t.rank} entries each", types)
    if attrs["mode"] not in _MODES:
        fail("pad", f"unknown mode {attrs['mode']!r}, one of {', '.join(_MODES)}")
    shape: list[Dim] = []
    for k, (d, a, b) in enumerate(zip(t.shape, lo, hi)):
        n = d if a == b == 0 else static("pad", d, types) + a + b
        if isinstance(n, int):
            if n < 0:
                fail("pad", f"dimension {k} would have size {n}", types)
            if attrs["mode"] != "constant" and max(a, b) > max(int(d) - (attrs["mode"] == "reflect"), 0):  # type: ignore[arg-type]
                fail("pad", f"{attrs['mode']} padding by {a}, {b} is more than dimension {k} has", types)
        shape.append(n)
    return TensorType(t.dtype, tuple(shape))


def _pad_reference(arrays: Arrays, attrs: Attrs, t: TensorType) -> np.ndarray:
    x = arrays[0]
    pads = [(max(a, 0), max(b, 0)) for a, b in zip(attrs["lo"], attrs["hi"])]
    extra = {"constant_values": np.asarray(attrs["value"]).astype(x.dtype)} if attrs["mode"] == "constant" else {}
    x = np.pad(x, pads, mode=attrs["mode"], **extra)
    return x[tuple(slice(max(-a, 0), d - max(-b, 0)) for a, b, d in zip(attrs["lo"], attrs["hi"], x.shape))]


def _pad_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    src, axes = types[0], loop_axes(t.shape)
    index = tuple(aff(a.name) - lo for a, lo in zip(axes, attrs["lo"]))
    if attrs["mode"] == "constant":
        return Comprehension(axes, read(0, src, index, axes, attrs["value"]))
    if attrs["mode"] == "wrap":
        wrapped = (i % max(int(d), 1) if lo or hi else i  # type: ignore[arg-type]
                   for i, d, lo, hi in zip(index, src.shape, attrs["lo"], attrs["hi"]))
        return Comprehension(axes, Read(t.dtype, 0, tuple(wrapped)))
    edge = attrs["mode"] == "edge"

    def choose(k: int, at: tuple[Aff, ...], guard: tuple[Aff, ...]) -> Expr:
        """Split dimension k on before, inside, after; each read is guarded to its own part, so no memory outside is touched."""
        if k == t.rank:
            return Read(t.dtype, 0, at, guard)
        i, d = at[k], src.shape[k]
        here_ = choose(k + 1, at, guard)
        if attrs["lo"][k] > 0:
            inside = (*guard, i)
            low = aff(0) if edge else -i
            here_ = Map(t.dtype, "where", (Inside.of((i,)), choose(k + 1, at, inside),
                                           choose(k + 1, (*at[:k], low, *at[k + 1:]), (*guard, -i))))
        if attrs["hi"][k] > 0:
            assert isinstance(d, int)
            past = i - d
            high = aff(d - 1) if edge else aff(2 * d - 2) - i
            first = i if attrs["lo"][k] <= 0 else None
            body = choose(k + 1, at, (*guard, -past - 1)) if first is not None else Map(
                t.dtype, "where", (Inside.of((i,)), choose(k + 1, at, (*guard, i, -past - 1)),
                                   choose(k + 1, (*at[:k], aff(0) if edge else -i, *at[k + 1:]), (*guard, -i))))
            here_ = Map(t.dtype, "where", (Inside.of((past,)), choose(k + 1, (*at[:k], high, *at[k + 1:]), (*guard, past)), body))
        return here_

    return Comprehension(axes, choose(0, index, ()))


register(Op("pad", (1, 1), _pad_infer, _pad_reference, _pad_body,
            attrs={"lo": ..., "hi": ..., "value": 0.0, "mode": "constant"},
            canonical=lambda types, a: {**a, "lo": ints(a["lo"]), "hi": ints(a["hi"]), "value": float(a["value"])},
            doc="lo and hi elements more a dimension (negative: fewer); mode constant, edge, reflect or wrap"))


# ---- concat
def _concat_infer(types: Types, attrs: Attrs) -> TensorType:
    axis, first = attrs["axis"], types[0]
    for t in types:
        if t.dtype != first.dtype or t.rank != first.rank or any(
                a != b for k, (a, b) in enumerate(zip(t.shape, first.shape)) if k != axis):
            fail("concat", f"operands must agree in dtype and in every dimension but {axis}", types)
    total = types[0].shape[axis] if len(types) == 1 else sum(static("concat", t.shape[axis], types) for t in types)
    return TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1:]))


def _concat_body(types: Types, attrs: Attrs, t: TensorType) -> Comprehension:
    """where(i < n0, x0[i], where(i < n0 + n1, x1[i - n0], ..)), each read guarded to its own part."""
    axes, axis = loop_axes(t.shape), attrs["axis"]
    base, value = 0, None
    parts = []
    for k, x in enumerate(types):
        at = tuple(aff(a.name) - base if d == axis else aff(a.name) for d, a in enumerate(axes))
        parts.append((at[axis], read(k, x, at, axes)))
        base += int(x.shape[axis]) if len(types) > 1 else 0  # type: ignore[arg-type]
    for (i, r), x in zip(reversed(parts), reversed(types)):
        value = r if value is None else Map(t.dtype, "where", (Inside.of((aff(int(x.shape[axis]) - 1) - i,)), r, value))  # type: ignore[arg-type]
    assert value is not None
    return Comprehension(axes, value)


register(Op("concat", (1, 1 << 16), _concat_infer, lambda a, attrs, t: np.concatenate(a, attrs["axis"]), _concat_body,
            attrs={"axis": ...}, canonical=lambda types, a: {"axis": axis_of("concat", a["axis"], types[0].rank)},
            doc="operands one behind the other along an axis"))
