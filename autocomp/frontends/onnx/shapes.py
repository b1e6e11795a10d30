"""Operators that move, cut, join or make tensors: nearly all are views, or constants known at import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.data import MAX_GENERATED_BYTES
from autocomp.frontends.onnx.registry import LOWERINGS, Lowering, lower
from autocomp.ir import sizes
from autocomp.ir.node import Node
from autocomp.ir.ops.repeats import PAD_MODES
from autocomp.ir.types import I64, Dim, Sym, TensorType, dtype_of, may_be_one


def dims_of(c: Call, i: int) -> tuple[Dim, ...]:
    """Operand i as a list of dimensions, ints or symbols."""
    a = c.static(i)
    return tuple(v if isinstance(v, Sym) else int(v) for v in a.reshape(-1))


def reshape(c: Call, x: Node, shape: tuple[Dim, ...]) -> Node:
    """x under another shape; nothing where it already has it."""
    return x if x.type.shape == tuple(shape) else c.op("reshape", x, shape=tuple(shape))


@lower("Reshape")
def reshape_op(c: Call) -> Node:
    x = c.x()
    want = list(dims_of(c, 1) if c.opset >= 5 else c.ints_attr("shape") or ())
    if not c.flag("allowzero", 0):
        want = [x.type.shape[k] if d == 0 else d for k, d in enumerate(want)]
    if -1 in want:
        given = [d for d in want if d != -1]
        if want.count(-1) > 1 or 0 in given:
            c.broken(f"cannot reshape {x.type} into {[str(d) for d in want]}")
        want[want.index(-1)] = _left(c, x, given)
    return reshape(c, x, tuple(want))


def _left(c: Call, x: Node, given: list[Dim]) -> Dim:
    """The size that takes what other sizes of a new shape leave."""
    (total, left), (number, taken) = sizes.content(sizes.product(x.type.shape)), sizes.content(sizes.product(given))
    over = Counter(taken) - Counter(left)
    if not over and total % number == 0:
        return sizes.product([total // number, *(Counter(left) - Counter(taken)).elements()])
    if not left:
        c.broken(f"cannot reshape {x.type} into {[*map(str, given), '-1']}")
    c.refuse(f"reshapes {x.type} into {', '.join(map(str, given))} and a rest that is no size", hint=f"fix it: dims={{'{left[0]}': 1}}")


@lower("Flatten")
def flatten(c: Call) -> Node:
    x = c.x()
    axis = c.int_attr("axis", 1)
    axis = axis + x.type.rank if axis < 0 else axis
    return reshape(c, x, tuple(sizes.product(s) for s in (x.type.shape[:axis], x.type.shape[axis:])))


@lower("Squeeze")
def squeeze(c: Call) -> Node:
    x = c.x()
    given = c.ints_at("axes", 1)
    axes = [k for k, d in enumerate(x.type.shape) if d == 1] if given is None else c.axes(given, x.type.rank)
    if given is None and (k := next((k for k, d in enumerate(x.type.shape) if may_be_one(d)), None)) is not None:
        n = x.type.shape[k]
        c.refuse(f"squeezes {x.type} without axes, and its axis {k} ('{n}') may be 1 when the program runs",
                 f"give it axes {list(axes)}, or fix the dimension: dims={{'{n}': 2}}")  # fmt: skip
    if any(x.type.shape[k] != 1 for k in axes):
        c.broken(f"squeezes axes {list(axes)} of {x.type}, which are not all 1")
    return reshape(c, x, tuple(d for k, d in enumerate(x.type.shape) if k not in axes))


@lower("Unsqueeze")
def unsqueeze(c: Call) -> Node:
    x, given = c.x(), c.ints_at("axes", 1) or ()
    axes, rest = c.axes(given, x.type.rank + len(given)), iter(x.type.shape)
    return reshape(c, x, tuple(1 if k in axes else next(rest) for k in range(x.type.rank + len(axes))))


@lower("Transpose")
def transpose(c: Call) -> Node:
    x = c.x()
    perm = c.ints_attr("perm") or tuple(reversed(range(x.type.rank)))
    return x if perm == tuple(range(x.type.rank)) else c.op("transpose", x, perm=perm)


@lower("Expand")
def expand(c: Call) -> Node:
    x, want = c.x(), list(dims_of(c, 1))
    shape = [1] * (len(want) - x.type.rank) + list(x.type.shape)
    want = [1] * (x.type.rank - len(want)) + want  # type: ignore[assignment, operator]
    out = tuple(s if w == 1 else w for s, w in zip(shape, want, strict=True))
    return x if out == x.type.shape else c.op("broadcast", x, shape=out)


@lower("Tile")
def tile(c: Call) -> Node:
    x, times = c.x(), c.static_ints(1)
    return x if all(n == 1 for n in times) and len(times) == x.type.rank else c.op("tile", x, repeats=times)


@lower("Concat")
def concat(c: Call) -> Node:
    xs = c.tensors()
    axis = c.axis(c.int_attr("axis", 1 if c.opset < 4 else None), xs[0].type.rank)
    return xs[0] if len(xs) == 1 else c.op("concat", *xs, axis=axis)


def cut(c: Call, x: Node, spans: Mapping[int, tuple[Dim, Dim, int]]) -> Node:
    """x[start:limit:step] along the axes of `spans` (NumPy's limits; -1 with a negative step runs through 0)."""
    full = [spans.get(k, (0, d, 1)) for k, d in enumerate(x.type.shape)]
    starts, limits, steps = zip(*full, strict=True)
    return c.op("slice", x, starts=starts, limits=limits, steps=steps)


@lower("Slice")
def slice_op(c: Call) -> Node:
    x = c.x()
    starts: tuple[Dim, ...]
    ends: tuple[Dim, ...]
    if c.opset < 10:
        starts, ends = c.ints_attr("starts") or (), c.ints_attr("ends") or ()
        given, steps = c.ints_attr("axes"), None
    else:
        starts, ends = c.static_sizes(1), c.static_sizes(2)
        given, steps = (c.static_ints(3) if c.has(3) else None), (c.static_ints(4) if c.has(4) else None)
    axes = c.axes(given if given is not None else tuple(range(len(starts))), x.type.rank)
    spans: dict[int, tuple[Dim, Dim, int]] = {}
    for axis, start, end, step in zip(axes, starts, ends, steps or (1,) * len(starts), strict=True):
        d = x.type.shape[axis]
        if step == 0:
            c.broken("has a step of 0")
        if isinstance(d, int) and isinstance(start, int) and isinstance(end, int):
            spans[axis] = _span(start, end, step, d)
            continue
        if step < 0:
            c.refuse(f"slices {d} backwards, a size that is known when it runs", hint="fix the dimension with dims={...}")
        lo, hi = (_within(v, d) for v in (start, end))
        if (lo, hi, step) != (0, d, 1):
            spans[axis] = lo, sizes.size_of(sizes.larger(sizes.linear(lo), sizes.linear(hi))), step
    return cut(c, x, spans) if spans else x


def _within(v: Dim, d: Dim) -> Dim:
    """A limit of a slice within a dimension of d: counted from its end where it is negative, and no further than its ends."""
    if isinstance(v, int) and v < 0:
        return sizes.size_of(sizes.larger(sizes.summed([(sizes.linear(d), 1)], v), ({}, 0)))
    return sizes.size_of(sizes.smaller(sizes.linear(v), sizes.linear(d)))


def _span(start: int, end: int, step: int, d: int) -> tuple[int, int, int]:
    """(first, limit, step) within a dimension of d, as the standard clamps: backwards, what begins before the first element begins there
    (Python would take nothing)."""
    first, last = (0, d) if step > 0 else (-1, d - 1)
    lo, hi = (min(max(v + d if v < 0 else v, first), last) for v in (start, end))
    lo = max(lo, 0)
    return (lo, hi, step) if d and range(lo, hi, step) else (0, 0, 1)


@lower("Split")
def split(c: Call) -> tuple[Node, ...]:
    x = c.x()
    axis = c.axis(c.int_attr("axis", 0), x.type.rank)
    d = c.shape(x)[axis]
    sizes = c.ints_at("split", 1)
    if sizes is None:
        parts = c.int_attr("num_outputs", c.n_outputs)
        if not 0 < parts <= len(c.proto.output):
            c.broken(f"splits into {parts} parts but names {len(c.proto.output)} outputs")
        each = -(-d // parts)
        sizes = tuple(min(each, max(0, d - k * each)) for k in range(parts))
    if sum(sizes) != d or any(s < 0 for s in sizes):
        c.broken(f"splits a dimension of {d} into {list(sizes)}")
    edges = np.cumsum([0, *sizes]).tolist()
    return tuple(cut(c, x, {axis: (a, b, 1)}) for a, b in zip(edges, edges[1:], strict=False))


@lower("Shape")
def shape_of(c: Call) -> Node:
    x = c.x()
    rank = x.type.rank
    clamp = lambda v: min(max(v + rank if v < 0 else v, 0), rank)
    dims = x.type.shape[clamp(c.int_attr("start", 0)) : clamp(c.int_attr("end", rank))]
    if all(isinstance(d, int) for d in dims):
        return c.array(np.asarray(dims, np.int64).reshape(len(dims)), I64)
    first = clamp(c.int_attr("start", 0))
    return c.op("concat", *[_size(c, x, first + k) for k in range(len(dims))], axis=0)


def _size(c: Call, x: Node, axis: int) -> Node:
    return c.op("reshape", c.op("extent", x, axis=axis), shape=(1,))


@lower("Size")
def size_of(c: Call) -> Node:
    return c.const(prod(c.shape(c.x())), I64)


@lower("ConstantOfShape")
def constant_of_shape(c: Call) -> Node:
    dims = dims_of(c, 0)
    value = c.tensor_attr("value")
    value = np.zeros(1, np.float32) if value is None else value.reshape(-1)
    dtype = dtype_of(value)
    if any(isinstance(d, Sym) for d in dims) or not dims:
        scalar = c.array(value[0], dtype)
        return c.op("broadcast", scalar, shape=dims) if dims else scalar
    shape = tuple(int(d) for d in dims)  # type: ignore[arg-type]
    if any(d < 0 for d in shape) or prod(shape) * dtype.bytes > MAX_GENERATED_BYTES:
        c.refuse(
            f"makes a tensor of shape {list(shape)}; the limit is {MAX_GENERATED_BYTES} bytes",
            hint="a shape this large is likely a damaged file",
        )
    return c.importer.builder.param(c.fresh(), lambda: np.full(shape, value[0], dtype.numpy), TensorType(dtype, shape))


@lower("Range")
def range_op(c: Call) -> Node:
    start, limit, delta = (c.static(k).reshape(())[()] for k in range(3))
    if isinstance(limit, Sym) and start == 0 and delta == 1:
        return c.op("cast", c.importer.node("iota", [], {"shape": (limit,), "axis": 0}), to=c.type().dtype.name)
    if any(isinstance(v, Sym) for v in (start, limit, delta)):
        c.refuse(f"counts from {start} to {limit} by {delta}; with a symbol, from 0 to it by 1", "fix it with dims={...}")
    if delta == 0:
        c.broken("has a step of 0")
    n = max(0, int(np.ceil((float(limit) - float(start)) / float(delta))))
    check_table(n, c.where)
    dtype = c.type().dtype
    return c.array(start + np.arange(n, dtype=dtype.numpy) * delta, dtype)


@lower("EyeLike")
def eye_like(c: Call) -> Node:
    from autocomp.frontends.onnx.data import dtype_named

    x = c.x()
    dtype = dtype_named(c.int_attr("dtype"), c.where) if "dtype" in c.attrs else x.type.dtype
    rows, cols = c.shape(x)
    check_table(rows * cols, c.where)
    return c.array(np.eye(rows, cols, c.int_attr("k", 0)), dtype)


@lower("Trilu")
def trilu(c: Call) -> Node:
    x = c.x()
    *_, rows, cols = c.shape(x)
    k = c.static_int(1) if c.has(1) else 0
    i = c.importer.node("iota", [], {"shape": (rows, cols), "axis": 0})
    j = c.importer.node("iota", [], {"shape": (rows, cols), "axis": 1})
    keep = c.op("ge" if c.int_attr("upper", 1) else "le", j, c.op("add", i, k))
    return c.op("where", keep, x, c.const(0, x.type.dtype))


@lower("Pad")
def pad(c: Call) -> Node:
    x = c.x()
    rank = x.type.rank
    pads: tuple[Dim, ...] = (c.static_sizes(1) if c.has(1) else c.ints_attr("pads" if c.opset >= 2 else "paddings")) or ()
    axes = c.axes(c.static_ints(3), rank) if c.has(3) else tuple(range(rank))
    if len(pads) != 2 * len(axes):
        c.broken(f"has {len(pads)} pads for {len(axes)} axes")
    lo: list[Any] = [0] * rank
    hi: list[Any] = [0] * rank
    for k, axis in enumerate(axes):
        lo[axis], hi[axis] = pads[k], pads[k + len(axes)]
        d = x.type.shape[axis]
        if isinstance(d, int) and all(isinstance(n, int) for n in (lo[axis], hi[axis])) and min(lo[axis], 0) + min(hi[axis], 0) < -d:
            c.broken(f"removes {lo[axis]} and {hi[axis]} elements of a dimension of {d}")
    mode = c.str_attr("mode", "constant")
    if mode == "constant":
        value = c.static(2).reshape(-1)[0].item() if c.has(2) else c.float_attr("value", 0.0) if c.opset < 11 else 0.0
        value = value if x.type.dtype.is_float else int(value)
        fixed = lambda ns: tuple(n if isinstance(n, int) else 0 for n in ns)
        x = c.op("pad", x, lo=fixed(lo), hi=fixed(hi), value=value)
        for axis in (k for k in range(rank) if isinstance(lo[k], Sym) or isinstance(hi[k], Sym)):
            shape, one = x.type.shape, c.const(value, x.type.dtype)
            sides = [(c.op("broadcast", one, shape=(*shape[:axis], n, *shape[axis + 1 :])),) if isinstance(n, Sym) else ()
                     for n in (lo[axis], hi[axis])]  # fmt: skip
            x = c.op("concat", *sides[0], x, *sides[1], axis=axis)
        return x
    if mode not in PAD_MODES:
        c.broken(f"has unknown mode '{mode}'")
    if size := next((n for n in pads if isinstance(n, Sym)), None):
        c.refuse(f"pads by {size}, a size that is known when it runs, in mode {mode}", hint="fix the dimension with dims={...}")
    if min((*lo, *hi), default=0) < 0:  # what is removed is removed first
        shape = c.shape(x)
        x = cut(c, x, {k: (max(-lo[k], 0), shape[k] + min(hi[k], 0), 1) for k in range(rank)})
    return c.op(f"pad_{mode}", x, lo=tuple(max(v, 0) for v in lo), hi=tuple(max(v, 0) for v in hi))


def _blocksize(c: Call) -> int:
    b = c.int_attr("blocksize")
    if b < 1:
        c.broken(f"blocksize {b} must be positive")
    return b


@lower("DepthToSpace")
def depth_to_space(c: Call) -> Node:
    x = c.x()
    n, ch, h, w = c.shape(x)
    b = _blocksize(c)
    if c.str_attr("mode", "DCR") == "DCR":
        y = c.op("transpose", reshape(c, x, (n, b, b, ch // (b * b), h, w)), perm=(0, 3, 4, 1, 5, 2))
    else:
        y = c.op("transpose", reshape(c, x, (n, ch // (b * b), b, b, h, w)), perm=(0, 1, 4, 2, 5, 3))
    return reshape(c, y, (n, ch // (b * b), h * b, w * b))


@lower("SpaceToDepth")
def space_to_depth(c: Call) -> Node:
    x = c.x()
    n, ch, h, w = c.shape(x)
    b = _blocksize(c)
    if c.str_attr("mode", "DCR") == "DCR":
        y = c.op("transpose", reshape(c, x, (n, ch, h // b, b, w // b, b)), perm=(0, 3, 5, 1, 2, 4))
    else:
        y = c.op("transpose", reshape(c, x, (n, ch, h // b, b, w // b, b)), perm=(0, 1, 3, 5, 2, 4))
    return reshape(c, y, (n, ch * b * b, h // b, w // b))


def _running(op: str) -> Lowering:
    def lowering(c: Call) -> Node:
        x = c.x()
        axis = c.axis(c.static_int(1), x.type.rank)
        return c.op(op, x, axis=axis, exclusive=c.flag("exclusive", 0), reverse=c.flag("reverse", 0))

    return lowering


LOWERINGS["", "CumSum"] = _running("cumsum")
LOWERINGS["", "CumProd"] = _running("cumprod")
