"""Views: entries whose comprehension is a single read. They are access maps, composed and never copied by themselves."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Comprehension, Expr, Inside, Map, Read
from autocomp.ir.node import Attrs
from autocomp.ir.ops.pointwise import axes_of, broadcast_index, broadcast_shapes
from autocomp.ir.ops.table import Op, register
from autocomp.ir.sizes import content, expression, linear, product, quotient, size_of, summed, total
from autocomp.ir.types import Dim, Sym, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


def _fail(op: str, text: str) -> ModelError:
    return ModelError(text, where=op)


# ---- transpose
def _transpose_infer(t: Types, a: Attrs) -> TensorType:
    perm = a["perm"]
    if sorted(perm) != list(range(t[0].rank)):
        raise _fail("transpose", f"perm {list(perm)} is no permutation of the {t[0].rank} dimensions of {t[0]}")
    return TensorType(t[0].dtype, tuple(t[0].shape[p] for p in perm))


def _transpose_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    index = [aff(0)] * out.rank
    for k, p in enumerate(a["perm"]):
        index[p] = aff(axes[k].name)
    return Comprehension(axes, Read(t[0].dtype, 0, tuple(index)))


register(
    Op(
        "transpose",
        (1, 1),
        _transpose_infer,
        lambda x, a, o: np.transpose(x[0], a["perm"]),
        _transpose_meaning,
        attrs={"perm": ...},
        injective=True,
        doc="out[i_perm] = x[i]",
    )
)


# ---- reshape
def _reshape_infer(t: Types, a: Attrs) -> TensorType:
    new: tuple[Dim, ...] = a["shape"]
    if product(t[0].shape) != product(new):
        raise _fail("reshape", f"cannot reshape {t[0]} into [{', '.join(map(str, new))}]: element counts differ")
    return TensorType(t[0].dtype, tuple(new))


def reshape_groups(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> list[tuple[list[int], list[int]]]:
    """Runs of old and new dimensions (positions) with equal element counts, as short as possible. Raises ModelError where all of the old
    ones have another count than all of the new ones."""
    parts = {d: content(d) for d in (*old, *new)}
    primes = {s: 2**31 + 10 * k + 11 for k, s in enumerate(sorted({s for _, of in parts.values() for s in of}, key=str))}
    size = lambda d: prod((parts[d][0], *(primes[s] for s in parts[d][1])))
    if 0 in old:
        return [(list(range(len(old))), list(range(len(new))))]
    if prod(map(size, old)) != prod(map(size, new)):
        raise _fail("reshape", f"cannot reshape [{', '.join(map(str, old))}] into [{', '.join(map(str, new))}]: element counts differ")
    groups, i, j = [], 0, 0
    while i < len(old) or j < len(new):
        gi: list[int] = []
        gj: list[int] = []
        pi = pj = 1
        while not (gi or gj) or pi != pj:
            if i < len(old) and (pi <= pj or j == len(new)):
                pi *= size(old[i])
                gi.append(i)
                i += 1
            else:
                pj *= size(new[j])
                gj.append(j)
                j += 1
            if pi == pj and not gj and j < len(new) and new[j] == old[i - 1]:
                break
        groups.append((gi, gj))
    return groups


def reshape_index(old: tuple[Dim, ...], new: tuple[Dim, ...], names: tuple[str, ...]) -> tuple[Aff, ...]:
    """Old index of the element at the new index `names`: floors and mods only inside groups that really mix dimensions.

    Raises UnsupportedOp where a symbolic dimension would need a symbolic stride (`has_open_strides`, which `regroup` does).
    """
    extents = {n: (d.hi if isinstance(d, Sym) else d) for n, d in zip(names, new)}
    index = [aff(0)] * len(old)
    if 0 in old:  # no element is ever asked for: the index runs over an axis that has none
        return (aff(names[new.index(0)]),) * len(old)
    for gi, gj in reshape_groups(old, new):
        if any(isinstance(d, Sym) for d in (*(old[k] for k in gi), *(new[k] for k in gj))):  # beside it, what has one place has index 0
            gi, gj = [k for k in gi if old[k] != 1], [k for k in gj if new[k] != 1]
        inner = [old[k] for k in gi[1:]] + [new[k] for k in gj[1:]]
        if any(isinstance(d, Sym) for d in inner):
            text = f"[{', '.join(map(str, old))}] into [{', '.join(map(str, new))}]"
            raise UnsupportedOp(f"a reshape of {text} that splits or merges a symbolic dimension", where="reshape",
                                hint="fix the dimension with dims={...}")  # fmt: skip
        linear, stride = aff(0), 1
        for k in reversed(gj):
            linear, stride = linear + aff(names[k]) * stride, stride * (new[k] if isinstance(new[k], int) else 1)  # type: ignore[operator]
        stride = 1
        for k in reversed(gi):
            d = old[k]
            part = linear // stride
            index[k] = (part if k == gi[0] else part % d).simplify(extents) if isinstance(d, int) else part.simplify(extents)
            stride *= d if isinstance(d, int) else 1
    return tuple(index)


def has_open_strides(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> bool:
    """Whether a reshape's index would multiply or divide by a size that is a symbol."""
    if all(isinstance(d, int) for d in (*old, *new)):
        return False
    try:
        reshape_index(old, new, tuple(f"i{k}" for k in range(len(new))))
    except UnsupportedOp:
        return True
    return False


def _reshape_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    return Comprehension(axes, Read(t[0].dtype, 0, reshape_index(t[0].shape, out.shape, tuple(x.name for x in axes))))


def _reshape_reference(x: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    shape = [-1 if isinstance(d, Sym) else d for d in out.shape]
    if shape.count(-1) > 1:
        known = {d.name: s for d, s in zip(a["shape"], out.shape) if isinstance(d, Sym)}
        raise ModelError(f"several symbolic dimensions {sorted(known)} have no value here", where="reshape")
    return x[0].reshape(shape)


register(
    Op(
        "reshape",
        (1, 1),
        _reshape_infer,
        _reshape_reference,
        _reshape_meaning,
        attrs={"shape": ...},
        doc="the same elements in row-major order under another shape",
    )
)


register(
    Op(
        "regroup",
        (1, 1),
        _reshape_infer,
        lambda x, a, out: x[0].reshape([d if isinstance(d, int) else -1 for d in out.shape] if out.is_static else -1),
        opaque="its elements' places are products of sizes that are known when it runs",
        attrs={"shape": ...},
        doc="a reshape that merges or splits symbolic dimensions: the same memory under another shape",
    )
)


# ---- broadcast
def _broadcast_infer(t: Types, a: Attrs) -> TensorType:
    shape = broadcast_shapes("broadcast", t[0].shape, a["shape"])
    if shape != tuple(a["shape"]):
        raise _fail("broadcast", f"{t[0]} does not broadcast to [{', '.join(map(str, a['shape']))}]")
    return TensorType(t[0].dtype, shape)


def _broadcast_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    return Comprehension(axes, Read(t[0].dtype, 0, broadcast_index(t[0].shape, axes)))


def _concrete(shape: tuple[Dim, ...], x: np.ndarray) -> tuple[int, ...]:
    """Shape with symbols read off the trailing dimensions of x (a symbol never broadcasts from 1 here)."""
    pad = (1,) * (len(shape) - x.ndim) + x.shape
    return tuple(p if isinstance(d, Sym) else d for d, p in zip(shape, pad))


register(
    Op(
        "broadcast",
        (1, 1),
        _broadcast_infer,
        lambda x, a, o: np.broadcast_to(x[0], _concrete(o.shape, x[0])),
        _broadcast_meaning,
        attrs={"shape": ...},
        doc="NumPy's broadcast_to",
    )
)


# ---- slice
def _open_count(d: Dim, start: Dim, limit: Dim, step: int) -> Dim:
    """How many elements a slice of, or between, symbolic sizes has. Raises UnsupportedOp where that is no size, or where the slice may
    leave the dimension within the symbols' bounds."""
    least = lambda x: x if isinstance(x, int) else x.lo
    inside = lambda *terms: least(total(terms, -1 if step < 0 else 0)) >= 0
    try:
        if least(start) < 0 or not (inside((d, 1), (start, -1)) if step < 0 else inside((d, 1), (limit, -1))):
            raise UnsupportedOp(f"start {start}, limit {limit}, step {step}")
        first, last = (start, limit) if step < 0 else (limit, start)
        return size_of(quotient(summed([(linear(first), 1), (linear(last), -1)], abs(step) - 1), abs(step)))
    except UnsupportedOp as e:
        bounds = f"symbolic dimension {d} ({d.lo}..{d.hi})" if isinstance(d, Sym) else f"dimension of {d}"
        raise UnsupportedOp(f"a slice of the {bounds}: {e.what}", where="slice",
                            hint="bound the dimension, or fix it with dims={...}") from None  # fmt: skip


def _slice_spans(t: TensorType, a: Attrs) -> list[tuple[Any, int, Any]]:
    """(start, step, count) of each dimension; starts are non-negative, a limit of -1 with a negative step means before 0."""
    spans: list[tuple[Any, int, Any]] = []
    for d, start, limit, step in zip(t.shape, a["starts"], a["limits"], a["steps"]):
        if isinstance(d, Sym) and (start, limit, step) == (0, d, 1):
            spans.append((0, 1, -1))
            continue
        if any(isinstance(x, Sym) for x in (d, start, limit)):
            spans.append((start, step, _open_count(d, start, limit, step)))
            continue
        spans.append((start, step, len(range(start, limit, step))))
        if spans[-1][2] and not (0 <= start < d and 0 <= start + (spans[-1][2] - 1) * step < d):
            raise _fail("slice", f"start {start}, limit {limit}, step {step} leaves a dimension of {d} in {t}")
    return spans


def _slice_infer(t: Types, a: Attrs) -> TensorType:
    if not len(a["starts"]) == len(a["limits"]) == len(a["steps"]) == t[0].rank or 0 in a["steps"]:
        raise _fail("slice", f"starts, limits and non-zero steps must have {t[0].rank} entries for {t[0]}")
    counts = (c for _, _, c in _slice_spans(t[0], a))
    return TensorType(t[0].dtype, tuple(d if isinstance(c, int) and c < 0 else c for d, c in zip(t[0].shape, counts)))


def _slice_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    keys: list[Any] = []
    for start, limit, step in zip(a["starts"], a["limits"], a["steps"]):
        keys.append(slice(None) if isinstance(limit, Sym) else slice(start, None if limit < 0 and step < 0 else max(limit, 0), step))
    return x[0][tuple(keys)]


def _slice_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    index = tuple(aff(x.name) * step + expression(start) for x, (start, step, _) in zip(axes, _slice_spans(t[0], a)))
    return Comprehension(axes, Read(t[0].dtype, 0, index))


register(
    Op(
        "slice",
        (1, 1),
        _slice_infer,
        _slice_reference,
        _slice_meaning,
        attrs={"starts": ..., "limits": ..., "steps": ...},
        doc="out[i] = x[start + step*i]; a limit of -1 with a negative step runs through element 0",
    )
)


# ---- pad
def _pad_infer(t: Types, a: Attrs) -> TensorType:
    if not len(a["lo"]) == len(a["hi"]) == t[0].rank:
        raise _fail("pad", f"lo and hi must have {t[0].rank} entries for {t[0]}")
    shape: list[Dim] = []
    for d, lo, hi in zip(t[0].shape, a["lo"], a["hi"]):
        if isinstance(d, Sym):
            shape.append(total([(d, 1)], lo + hi))
            continue
        if d + lo + hi < 0:
            raise _fail("pad", f"lo {lo}, hi {hi} make a dimension of {d} negative in {t[0]}")
        shape.append(d + lo + hi)
    return TensorType(t[0].dtype, tuple(shape))


def _pad_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    cut = tuple(slice(max(-lo, 0), n + min(hi, 0)) for lo, hi, n in zip(a["lo"], a["hi"], x[0].shape))
    around = [(max(lo, 0), max(hi, 0)) for lo, hi in zip(a["lo"], a["hi"])]
    return np.pad(x[0][cut], around, constant_values=a["value"]) if around else x[0]


def _pad_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    index = tuple(aff(x.name) - lo for x, lo in zip(axes, a["lo"]))
    guard: list[Aff] = []
    for i, d, lo, hi in zip(index, t[0].shape, a["lo"], a["hi"]):
        guard += [i] if lo > 0 else []
        guard += [expression(d) - 1 - i] if hi > 0 else []
    return Comprehension(axes, Read(t[0].dtype, 0, index, tuple(guard), float(a["value"])))


register(
    Op(
        "pad",
        (1, 1),
        _pad_infer,
        _pad_reference,
        _pad_meaning,
        attrs={"lo": ..., "hi": ..., "value": 0.0},
        doc="`value` around x; negative amounts crop",
    )
)


# ---- concat
def _concat_infer(t: Types, a: Attrs) -> TensorType:
    axis = a["axis"]
    rest = {(x.dtype, x.shape[:axis] + x.shape[axis + 1 :]) for x in t}
    if not 0 <= axis < t[0].rank or len(rest) > 1:
        raise _fail("concat", f"cannot join {', '.join(map(str, t))} along axis {axis}")
    return TensorType(t[0].dtype, (*t[0].shape[:axis], total((x.shape[axis], 1) for x in t), *t[0].shape[axis + 1 :]))


def _concat_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes, axis = axes_of(out.shape), a["axis"]
    value: Expr | None = None
    sizes = [expression(x.shape[axis]) for x in t]
    end = sum(sizes, aff(0))
    here = aff(axes[axis].name)
    for k in reversed(range(len(t))):
        following = here - end
        end = end - sizes[k]
        at = here - end
        index = tuple(at if j == axis else aff(x.name) for j, x in enumerate(axes))
        read = Read(t[k].dtype, k, index, (at, sizes[k] - 1 - at))
        value = read if value is None else Map(out.dtype, "where", (Inside.of((-following - 1,)), read, value))
    assert value is not None
    return Comprehension(axes, value)


register(
    Op(
        "concat",
        (1, 4096),
        _concat_infer,
        lambda x, a, o: np.concatenate(x, axis=a["axis"]),
        _concat_meaning,
        attrs={"axis": ...},
        associative=True,
        doc="the operands one after the other along axis",
    )
)
