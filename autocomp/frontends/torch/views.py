"""ATen operators that move elements, look them up, or make tensors from numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.torch.call import Call, axis_of, row
from autocomp.frontends.torch.read_places import places
from autocomp.ir.node import Node
from autocomp.ir.sizes import total
from autocomp.ir.types import BOOL, I64, Dim, Sym, may_be_one


@row("view", "reshape", "_unsafe_view", "unsqueeze", "flatten", "unflatten")
def _view(c: Call, x: Node, *_: Any) -> Node:
    assert c.out is not None
    return c.op("reshape", x, shape=c.out.shape)


@row("squeeze")
def _squeeze(c: Call, x: Node, dim: int | list[int] | None = None) -> Node:
    """torch traces open dimensions as if they were not 1, and drops them where they are."""
    asked = range(x.type.rank) if dim is None or not x.type.rank else [axis_of(x, d) for d in (dim if isinstance(dim, list) else [dim])]
    if (k := next((k for k in asked if may_be_one(x.type.shape[k])), None)) is not None:
        ones = [d for d in range(x.type.rank) if x.type.shape[d] == 1]
        raise c.refuse(f"its dimension {k} ('{x.type.shape[k]}') may be 1 when the program runs, and the result would have another rank",
                       f"name dimensions that are 1 ({ones} here), or say that it is more: Dim('{x.type.shape[k]}', min=2)")  # fmt: skip
    return _view(c, x)


@row("expand", "expand_as", "broadcast_to")
def _expand(c: Call, x: Node, *_: Any, **__: Any) -> Node:
    return c.shaped(x)


@row("flip")
def _flip(c: Call, x: Node, dims: list[int]) -> Node:
    turned = {axis_of(x, d) for d in dims} if x.type.rank else set()
    spans = [(total([(d, 1)], -1), -1, -1) if k in turned and d else (0, d, 1) for k, d in enumerate(x.type.shape)]
    starts, limits, steps = zip(*spans) if spans else ((), (), ())
    return c.op("slice", x, starts=starts, limits=limits, steps=steps)


@row("roll")
def _roll(c: Call, x: Node, shifts: int | list[int], dims: int | list[int] = ()) -> Node:  # type: ignore[assignment]
    """Two slices in the other order, each of which is rolled along the other dimensions; along an open one elements are looked up."""
    if dims in ((), []):  # of all elements in a row
        if not x.type.is_static:
            raise c.refuse(f"rolls all elements of {x.type} in a row", "give dims")
        flat = c.op("reshape", x, shape=(x.type.elements,))
        return c.op("reshape", _roll(c, flat, shifts, 0), shape=x.type.shape)
    by: dict[int, int] = {}  # a dimension that comes twice is rolled by both
    for shift, dim in zip(*([v] if isinstance(v, int) else v for v in (shifts, dims)), strict=True):
        by[axis_of(x, dim)] = by.get(axis_of(x, dim), 0) + shift
    (k, *others), (shift, *later) = by, by.values()
    d, rest = x.type.shape[k], lambda y: _roll(c, y, later, others) if others else y
    if isinstance(d, Sym):
        here = c.op("sub", c.op("iota", shape=(d,), axis=0, dtype="i64"), c.b.const(shift, I64))
        return rest(c.op("gather", x, c.op("mod", here, c.op("extent", x, axis=k, dtype="i64")), axis=k))
    if not d or not shift % d:
        return rest(x)

    def part(first: int, last: int) -> Node:
        starts = [first if i == k else 0 for i in range(x.type.rank)]
        limits = [last if i == k else n for i, n in enumerate(x.type.shape)]
        return rest(c.op("slice", x, starts=starts, limits=limits, steps=[1] * x.type.rank))

    return c.op("concat", part(d - shift % d, d), part(0, d - shift % d), axis=k)


@row("linalg_cross")
def _cross(c: Call, a: Node, b: Node, *, dim: int = -1) -> Node:
    """a x b along a dimension of 3, of rolled factors; torch's own decomposition looks the elements up."""
    turned = lambda x, by: _roll(c, x, by, dim)
    return c.op("sub", c.op("mul", turned(a, -1), turned(b, -2)), c.op("mul", turned(a, -2), turned(b, -1)))


@row("repeat")
def _repeat(c: Call, x: Node, times: list[int]) -> Node:
    """times x (1, n) -> (times, n), dimension by dimension."""
    assert c.out is not None
    shape = (*[1] * (len(times) - x.type.rank), *x.type.shape)
    pairs = lambda first: tuple(v for a, b in zip(first, shape) for v in (a, b))
    wide = c.op("broadcast", c.op("reshape", x, shape=pairs([1] * len(shape))), shape=pairs(times))
    return c.op("reshape", wide, shape=c.out.shape)


@row("permute")
def _permute(c: Call, x: Node, dims: list[int]) -> Node:
    return c.op("transpose", x, perm=tuple(axis_of(x, d) for d in dims))


@row("transpose", "t", "numpy_T")
def _transpose(c: Call, x: Node, a: int = 0, b: int = 1) -> Node:
    perm = list(range(x.type.rank))
    if x.type.rank > 1:
        i, j = axis_of(x, a), axis_of(x, b)
        perm[i], perm[j] = j, i
    return c.op("transpose", x, perm=tuple(perm))


def sliced(c: Call, x: Node, axis: int, start: Dim, stop: Dim, step: int = 1) -> Node:
    """x[.., start:stop:step, ..]."""
    starts: list[Dim] = [0] * x.type.rank
    limits, steps = [*x.type.shape], [1] * x.type.rank
    starts[axis], limits[axis], steps[axis] = start, stop, step
    return c.op("slice", x, starts=tuple(starts), limits=tuple(limits), steps=tuple(steps))


def _bound(i: Any, n: Any) -> int:
    """An end of a slice that may count from behind, within 0 and n."""
    return max(0, min(int(n), int(i) + int(n) if int(i) < 0 else int(i)))


@row("slice")
def _slice(c: Call, x: Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Node:
    if c.out is not None and c.out.shape == x.type.shape and step == 1:
        return x
    axis = axis_of(x, dim)
    if isinstance(start, Node):
        return c.op("gather", x, places(c, x, axis, start, end), axis=axis)
    n = x.type.shape[axis]
    return sliced(c, x, axis, *ends(n, start, end), step)


def ends(n: Dim, start: Any, end: Any) -> tuple[Dim, Dim]:
    """(start, end) of a slice of a dimension of n, from 0; of symbolic ones those that count from behind are sizes computed from n."""
    start = start or 0
    if not any(isinstance(d, Sym) for d in (n, start, end)):
        first = _bound(start, n)
        return first, max(first, _bound(n if end is None else end, n))
    end = n if end is None or (isinstance(end, int) and end >= 2**31 - 1) else end
    from_0 = lambda d: total([(n, 1)], d) if isinstance(d, int) and d < 0 else d
    return from_0(start), from_0(end)


@row("narrow_copy")
def _narrow(c: Call, x: Node, dim: int, start: Any, length: int) -> Node:
    axis = axis_of(x, dim)
    first = _bound(start, x.type.shape[axis])
    return sliced(c, x, axis, first, first + length)


@row("diagonal", "diagonal_copy")
def _diagonal(c: Call, x: Node, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Node:
    """x[.., i, .., i + offset, ..] as the last dimension: of the two as one, each (columns + 1)th element."""
    assert c.out is not None
    a, b = axis_of(x, dim1), axis_of(x, dim2)
    rest = [k for k in range(x.type.rank) if k not in (a, b)]
    rows, columns = x.type.shape[a], x.type.shape[b]
    n, last = c.out.shape[-1], len(rest)
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(n, int)):
        place = lambda first: c.op("add", c.op("iota", shape=(n, 1), axis=0, dtype=I64.name), c.b.const(first, I64))
        y = c.op("gather_nd", c.op("transpose", x, perm=(a, b, *rest)),
                 c.op("concat", place(max(0, -offset)), place(max(0, offset)), axis=1))  # fmt: skip
        return c.op("transpose", y, perm=(*range(1, y.type.rank), 0))
    shape = tuple(x.type.shape[k] for k in rest)
    flat = c.op("reshape", c.op("transpose", x, perm=(*rest, a, b)), shape=(*shape, rows * columns))
    first = offset if offset >= 0 else -offset * columns
    if not n:
        return sliced(c, flat, last, 0, 0)
    return sliced(c, flat, last, first, first + (n - 1) * (columns + 1) + 1, columns + 1)


@row("select")
def _select(c: Call, x: Node, dim: int, index: int | Node) -> Node:
    assert c.out is not None
    axis = axis_of(x, dim)
    if isinstance(index, Node):
        return c.op("gather", x, places(c, x, axis, index), axis=axis)
    n = x.type.shape[axis]
    if not isinstance(n, Sym):
        i = index % n
        return c.op("reshape", sliced(c, x, axis, i, i + 1), shape=c.out.shape)
    if index >= 0:
        return c.op("reshape", sliced(c, x, axis, index, index + 1), shape=c.out.shape)
    at = c.op("add", c.op("extent", x, axis=axis, dtype=I64.name), c.b.const(index, I64))
    return c.op("gather", x, at, axis=axis)


@row("split_with_sizes", "split", "chunk")
def _split(c: Call, x: Node, sizes: Any, dim: int = 0) -> tuple[Node, ...]:
    """The sizes of the parts are those that torch gives them."""
    axis, out = axis_of(x, dim), []
    at: Dim = 0
    for t in c.outs:
        end = total([(at, 1), (t.shape[axis], 1)])
        out.append(sliced(c, x, axis, at, end))
        at = end
    return tuple(out)


@row("unbind")
def _unbind(c: Call, x: Node, dim: int = 0) -> tuple[Node, ...]:
    axis = axis_of(x, dim)
    shape = x.type.shape[:axis] + x.type.shape[axis + 1 :]
    count = int(x.type.shape[axis])  # type: ignore[arg-type]
    return tuple(c.op("reshape", sliced(c, x, axis, i, i + 1), shape=shape) for i in range(count))


@row("cat", "concat")
def _cat(c: Call, xs: list[Node], dim: int = 0) -> Node:
    assert c.out is not None
    kept = [x for x in xs if x.type.shape != (0,)] or xs[:1]
    return c.op("concat", *(c.cast(x, c.out.dtype) for x in kept), axis=axis_of(kept[0], dim))


@row("stack")
def _stack(c: Call, xs: list[Node], dim: int = 0) -> Node:
    assert c.out is not None
    axis = dim % len(c.out.shape)
    shape = (*c.out.shape[:axis], 1, *c.out.shape[axis + 1 :])
    return c.op("concat", *(c.op("reshape", c.cast(x, c.out.dtype), shape=shape) for x in xs), axis=axis)


@dataclass(frozen=True)
class Less:
    """A number that is never positive, as an argument: less this size."""

    by: Dim


@row("constant_pad_nd", "pad")
def _pad(c: Call, x: Node, pad: list[int], *rest: Any) -> Node:
    value = next((v for v in rest if isinstance(v, (int, float))), 0.0)
    mode = next((v for v in rest if isinstance(v, str)), "constant")
    lo: list[Dim] = [0] * x.type.rank
    hi: list[Dim] = [0] * x.type.rank
    for i in range(len(pad) // 2):
        lo[-1 - i], hi[-1 - i] = pad[2 * i], pad[2 * i + 1]
    x = _cropped(c, x, lo, hi)
    if mode != "constant":
        return _pad_by_own(c, x, mode, lo, hi)
    for axis in range(x.type.rank):
        if isinstance(lo[axis], Sym) or isinstance(hi[axis], Sym):
            x, lo[axis], hi[axis] = _beside(c, x, axis, lo[axis], hi[axis], float(value)), 0, 0
    return c.op("pad", x, lo=tuple(lo), hi=tuple(hi), value=float(value))


@row("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflection_pad(c: Call, x: Node, pad: list[int]) -> Node:
    return _pad(c, x, pad, "reflect")


@row("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _replication_pad(c: Call, x: Node, pad: list[int]) -> Node:
    return _pad(c, x, pad, "replicate")


def _cropped(c: Call, x: Node, lo: list[Any], hi: list[Any]) -> Node:
    """x without the elements at its ends that sizes take off, which are 0 in `lo` and `hi` then; numbers too where the other end has a
    size."""
    less = lambda n: n.by if isinstance(n, Less) else -n if isinstance(n, int) and n < 0 else 0
    starts, limits = list[Dim]([0] * x.type.rank), list(x.type.shape)
    for k, d in enumerate(x.type.shape):
        if any(isinstance(n, (Less, Sym)) for n in (lo[k], hi[k])):
            starts[k], limits[k] = less(lo[k]), total([(d, 1), (less(hi[k]), -1)])
            lo[k], hi[k] = (0 if less(n) else n for n in (lo[k], hi[k]))
    if starts == [0] * x.type.rank and limits == [*x.type.shape]:
        return x
    return c.op("slice", x, starts=tuple(starts), limits=tuple(limits), steps=(1,) * x.type.rank)


def _pad_by_own(c: Call, x: Node, mode: str, lo: list[Dim], hi: list[Dim]) -> Node:
    """x with its own elements around it: they are looked up, but where those of a closed dimension come around."""
    if mode not in ("reflect", "replicate", "circular"):
        raise c.refuse(f"pads by {mode}")
    if any(isinstance(n, Sym) for n in lo):
        raise c.refuse(f"pads in front by {mode} as many elements as a size")
    if mode == "circular" and any(isinstance(n, int) and n < 0 for n in (*lo, *hi)):
        crop = lambda by: tuple(n if isinstance(n, int) and n < 0 else 0 for n in by)  # what is left comes around
        keep = lambda by: [0 if isinstance(n, int) and n < 0 else n for n in by]
        x, lo, hi = c.op("pad", x, lo=crop(lo), hi=crop(hi)), keep(lo), keep(hi)
    number = lambda n: c.b.const(n, I64)
    looked_up = [bool(a or b) and (mode != "circular" or isinstance(d, Sym) or isinstance(b, Sym)) for d, a, b in zip(x.type.shape, lo, hi)]
    rest = lambda by: tuple(0 if looked else n for looked, n in zip(looked_up, by))
    if any((*rest(lo), *rest(hi))):
        x = c.op("pad_wrap", x, lo=rest(lo), hi=rest(hi))
    for axis in (k for k, looked in enumerate(looked_up) if looked):
        size = total([(x.type.shape[axis], 1), (hi[axis], 1)], int(lo[axis]))  # type: ignore[arg-type]
        at = c.op("sub", c.op("iota", shape=(size,), axis=0, dtype="i64"), number(lo[axis]))  # type: ignore[arg-type]
        n = c.op("extent", x, axis=axis, dtype="i64")
        last = c.op("sub", n, number(1))
        if mode == "circular":
            at = c.op("mod", at, n)
        elif mode == "replicate":
            at = c.op("max", c.op("min", at, last), number(0))
        else:
            at = c.op("sub", last, c.op("abs", c.op("sub", last, c.op("abs", at))))
        x = c.op("gather", x, at, axis=axis)
    return x


def _beside(c: Call, x: Node, axis: int, lo: Dim, hi: Dim, value: float) -> Node:
    """x between so many elements of a value, which are sizes computed from others."""
    number = c.b.const(value, x.type.dtype)
    wide = lambda n: c.op("broadcast", number, shape=tuple(n if k == axis else d for k, d in enumerate(x.type.shape)))
    parts = [x if n is None else wide(n) for n in (lo, None, hi) if n != 0]
    return c.op("concat", *parts, axis=axis)


# ---- making tensors
@row("full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "scalar_tensor", "new_zeros", "new_ones", "new_full",
     "_new_zeros_with_same_feature_meta")
def _full(c: Call, *args: Any, **__: Any) -> Node:
    assert c.out is not None
    kind = c.name.removeprefix("new_").removesuffix("_like")
    value = 0 if "zeros" in kind else 1 if kind == "ones" else args[0] if kind == "scalar_tensor" else args[-1]
    return c.shaped(c.value(value, c.out.dtype))


@row("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
def _empty(c: Call, *_: Any, **__: Any) -> Node:
    """Elements that are written before they are read, where the model is right: zeros."""
    assert c.out is not None
    return c.shaped(c.b.const(0, c.out.dtype))


@row("fill")
def _fill(c: Call, x: Node, value: Any) -> Node:
    return c.op("broadcast", c.value(value, x.type.dtype), shape=x.type.shape)


@row("arange")
def _arange(c: Call, *args: Any, **__: Any) -> Node:
    assert c.out is not None
    start = args[0] if len(args) > 1 else 0
    step = args[2] if len(args) > 2 else 1
    x = c.cast(c.op("iota", shape=c.out.shape, axis=0, dtype=I64.name), c.out.dtype)
    one = lambda v, number: not isinstance(v, Node) and v == number
    x = x if one(step, 1) else c.op("mul", x, c.value(step, c.out.dtype))
    return x if one(start, 0) else c.op("add", x, c.value(start, c.out.dtype))


@row("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window")
def _window(c: Call, *given: Any, **_: Any) -> Node:
    """A window's weights, which torch computes from numbers."""
    import torch

    assert c.out is not None
    if not all(isinstance(v, (int, float)) for v in given):
        raise c.refuse(f"has {c.out} weights", "fix the dimension")
    return c.array(getattr(torch, c.name)(*given, dtype=torch.float64).numpy().astype(c.out.dtype.numpy))


@row("tril", "triu")
def _triangle(c: Call, x: Node, diagonal: int | Node = 0) -> Node:
    shape, rank = x.type.shape, x.type.rank
    i, j = (c.op("iota", shape=shape[-2:], axis=k, dtype=I64.name) for k in (0, 1))
    keep = c.op("le" if c.name == "tril" else "ge", c.op("sub", j, i), c.value(diagonal, I64))
    keep = keep if rank == 2 else c.op("broadcast", keep, shape=shape)
    return c.op("where", keep, x, c.b.const(0, x.type.dtype))


@row("tril_indices", "triu_indices")
def _triangle_places(c: Call, rows: int, columns: int, offset: int = 0, **_: Any) -> Node:
    """Rows and columns of a triangle's elements, row by row."""
    assert c.out is not None
    check_table(2 * rows * columns, c.where)
    i, j = np.mgrid[:rows, :columns]
    kept = np.nonzero(j - i <= offset if c.name == "tril_indices" else j - i >= offset)
    return c.array(np.stack(kept).astype(c.out.dtype.numpy))


@row("unfold")
def _unfold(c: Call, x: Node, dim: int, size: int, step: int) -> Node:
    """Windows of `size` along an axis, every `step`; what is in a window is a new last dimension."""
    if not x.type.rank:
        return c.op("reshape", x, shape=(size,))
    axis = axis_of(x, dim)
    n = x.type.shape[axis]
    assert c.out is not None
    if isinstance(n, int):
        at = c.array(np.arange((n - size) // step + 1)[:, None] * step + np.arange(size))
    else:
        i, j = (c.op("iota", shape=(c.out.shape[axis], size), axis=k, dtype=I64.name) for k in (0, 1))
        at = c.op("add", c.op("mul", i, c.b.const(step, I64)), j)
    y = c.op("gather", x, at, axis=axis)
    return c.op("transpose", y, perm=(*(k for k in range(y.type.rank) if k != axis + 1), axis + 1))


def places_at(c: Call, x: Node, size: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray:
    """Numbers of x's elements at steps. Raises UnsupportedOp where they lie beyond it."""
    check_table(prod(size), c.where)
    at = np.full(size, offset, np.int64)
    for k, (n, step) in enumerate(zip(size, strides, strict=True)):
        at += np.arange(n).reshape(n, *[1] * (len(size) - k - 1)) * step
    if at.size and at.max() >= x.type.elements:
        does = "reads" if c.name == "as_strided" else "writes"
        raise c.refuse(f"{does} beyond the {x.type.elements} elements of {x.type}: element {at.max()}", "take a view of the whole tensor")
    return at


@row("as_strided")
def _as_strided(c: Call, x: Node, size: list[int], strides: list[int], offset: int | None = None) -> Node:
    """Elements of x's memory at steps: look-ups at places that are known, where that memory is x row by row."""
    if not c.dense:
        raise c.refuse("of a tensor that does not lie densely in its memory", "use views and slices, or call contiguous() first")
    if any(not isinstance(n, int) for n in (*x.type.shape, *size, *strides, offset or 0)):
        raise c.refuse(f"reads {x.type} at steps that are symbolic", "fix the dimensions")
    flat = c.op("reshape", x, shape=(x.type.elements,))
    at = places_at(c, x, size, strides, offset or 0)
    same = at.shape == x.type.shape and np.array_equal(at.reshape(-1), np.arange(at.size))
    return x if same else c.op("gather", flat, c.array(at), axis=0)


@row("embedding")
def _embedding(c: Call, table: Node, index: Node, *_: Any) -> Node:
    return c.op("gather", table, index, axis=0)


@row("index_select")
def _index_select(c: Call, x: Node, dim: int, index: Node) -> Node:
    assert c.out is not None
    if not x.type.rank:  # its one element, as often as there are indices of it
        return c.shaped(x)
    index = index if index.type.rank else c.op("reshape", index, shape=(1,))
    return c.op("gather", x, index, axis=axis_of(x, dim))


@row("gather")
def _gather(c: Call, x: Node, dim: int, index: Node, **_: Any) -> Node:
    if 0 in index.type.shape:
        assert c.out is not None
        return c.op("broadcast", c.b.const(0, x.type.dtype), shape=c.out.shape)
    if not x.type.rank:  # its one element, as often as there are indices of it
        return c.shaped(x)
    if not index.type.rank:
        index = c.op("reshape", index, shape=(1,) * x.type.rank)
        return c.op("reshape", c.op("gather_elements", x, index, axis=axis_of(x, dim)), shape=())
    return c.op("gather_elements", x, index, axis=axis_of(x, dim))


@row("index")
def _index(c: Call, x: Node, indices: Sequence[Node | None]) -> Node:
    """x at index tensors, broadcast together, for some of its dimensions: their dimensions stand where the indexed ones stood, or in
    front where those were not neighbours."""
    assert c.out is not None
    given = {k: i for k, i in enumerate(indices) if i is not None}
    if any(i.type.dtype == BOOL for i in given.values()):
        raise c.refuse("a mask as an index: the result's size depends on data", "use torch.where")
    axes = tuple(given)
    if len(axes) == 1:
        return c.op("gather", x, given[axes[0]], axis=axes[0])
    rank, near = max(i.type.rank for i in given.values()), axes[-1] - axes[0] < len(axes)
    first = axes[0] if near else 0
    places = c.out.shape[first : first + rank]
    column = lambda i: c.op("reshape", c.cast(c.op("broadcast", i, shape=places), I64), shape=(*places, 1))
    rest = tuple(k for k in range(x.type.rank) if k not in given)
    y = c.op("gather_nd", c.op("transpose", x, perm=(*axes, *rest)), c.op("concat", *map(column, given.values()), axis=rank))
    return c.op("transpose", y, perm=(*range(rank, rank + first), *range(rank), *range(rank + first, y.type.rank)))
