"""ATen operators that write into a copy of a tensor: at indices, over slices, where a mask holds.

Where elements go at indices that only the run knows, `scatter_nd` and `scatter_elements` write them, one after the other: of two updates
of one element the last one stays (torch says: any), and sums have all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from autocomp.frontends.torch.call import Call, axis_of, row
from autocomp.frontends.torch.ordering import at_or_below
from autocomp.frontends.torch.read_places import written_at
from autocomp.frontends.torch.views import ends, places_at, sliced
from autocomp.ir.node import Node
from autocomp.ir.sizes import product, total
from autocomp.ir.types import BOOL, F32, I64, SHORT_FLOATS, Dim, Sym, dim_hint

REDUCED = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}

LOOKED_THROUGH = 2**22  # comparisons of places with indices; beyond it the reference scatters
IN_TURN = 8  # updates of a row that each of its places looks at, one after the other


def static(c: Call, x: Node, axis: int) -> int:
    """A dimension's size. Raises UnsupportedOp where it is symbolic."""
    n = x.type.shape[axis]
    if not isinstance(n, int):
        raise c.refuse(f"writes along the symbolic dimension {axis} of {x.type}")
    return n


# ---- by index
@row("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(c: Call, x: Node, indices: Sequence[Node | None], values: Node, accumulate: bool = False, *_: Any) -> Node:
    """x with `values`, broadcast, at index tensors for some of its dimensions; their dimensions stand where the indexed ones stood, or in
    front where those were not neighbours. A mask alone takes values that have one element for all places."""
    given = {k: i for k, i in enumerate(indices) if i is not None}
    if any(0 in i.type.shape for i in given.values()):  # no places
        return x
    values = c.cast(values, x.type.dtype)
    if any(i.type.dtype == BOOL for i in given.values()):
        return _masked(c, x, given, values, accumulate)
    axes = tuple(given)
    if len(axes) == 1 and not accumulate and _few(x, axes[0], given[axes[0]]):
        index = given[axes[0]] if given[axes[0]].type.rank else c.op("reshape", given[axes[0]], shape=(1,))
        return _replaced(c, x, axes[0], index, values)
    places = joint([i.type.shape for i in given.values()])
    near = axes[-1] - axes[0] < len(axes)
    rest = tuple(k for k in range(x.type.rank) if k not in given)
    first = axes[0] if near else 0  # dimensions of x that stand in front of those of the indices
    lead, behind = rest[:first], rest[first:]
    shape = (*(x.type.shape[k] for k in lead), *places, *(x.type.shape[k] for k in behind))
    values = c.op("broadcast", values, shape=shape)
    n = len(places)
    values = c.op("transpose", values, perm=(*range(first, first + n), *range(first), *range(first + n, len(shape))))
    at = _tuples(c, given, places)
    perm = (*axes, *rest)
    y = c.op("scatter_nd", c.op("transpose", x, perm=perm), at, values, reduction="add" if accumulate else "none")
    return c.op("transpose", y, perm=tuple(perm.index(k) for k in range(len(perm))))


@row("put")
def _put(c: Call, x: Node, index: Node, source: Node, accumulate: bool = False) -> Node:
    """x with elements of `source` at places of x taken as flat."""
    n = product(index.type.shape)
    flat = lambda v, size: c.op("reshape", v, shape=(size,))
    y = index_put(c, flat(x, product(x.type.shape)), [flat(index, n)], flat(source, n), accumulate)
    return c.op("reshape", y, shape=x.type.shape)


def _few(x: Node, axis: int, index: Node) -> bool:
    """Whether each place along the axis may look through all indices for its own."""
    return index.type.rank <= 1 and x.type.rank > 0 and index.type.elements * dim_hint(x.type.shape[axis]) <= LOOKED_THROUGH


def _replaced(c: Call, x: Node, axis: int, index: Node, values: Node) -> Node:
    """x[.., index[j], ..] = values[.., j, ..] as a choice at each place, the last of equal indices: in the memory of x where that is given
    away, only what is replaced moves."""
    size, (n,) = x.type.shape[axis], index.type.shape
    lies = lambda v: c.op("reshape", v, shape=tuple(size if k == axis else 1 for k in range(x.type.rank)))
    everywhere = lambda v: c.op("broadcast", v, shape=x.type.shape)
    spread = c.op("broadcast", values, shape=tuple(n if k == axis else d for k, d in enumerate(x.type.shape)))
    index = c.cast(index, I64)
    length = c.b.const(size, I64) if isinstance(size, int) else c.op("extent", x, axis=axis, dtype=I64.name)
    index = c.op("where", c.op("lt", index, c.b.const(0, I64)), c.op("add", index, length), index)
    if n == 1:
        here = c.op("eq", c.op("iota", shape=(size,), axis=0, dtype=I64.name), index)
        return c.op("where", everywhere(lies(here)), everywhere(spread), x)
    here = c.op("eq", c.op("iota", shape=(size, n), axis=0, dtype=I64.name), index)
    number = c.op("where", here, c.op("iota", shape=(size, n), axis=1, dtype=I64.name), c.b.const(-1, I64))
    last = c.op("reduce_max", number, axes=(1,))
    new = c.op("gather", spread, c.op("max", last, c.b.const(0, I64)), axis=axis)
    return c.op("where", everywhere(lies(c.op("ge", last, c.b.const(0, I64)))), new, x)


def joint(shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """What shapes are when they are broadcast together."""
    rank = max(map(len, shapes))
    full = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((d for d in column if d != 1), 1) for column in zip(*full, strict=True))


def _tuples(c: Call, given: dict[int, Node], places: tuple[Dim, ...]) -> Node:
    column = lambda i: c.op("reshape", c.cast(c.op("broadcast", i, shape=places), I64), shape=(*places, 1))
    columns = [column(i) for i in given.values()]
    return columns[0] if len(columns) == 1 else c.op("concat", *columns, axis=len(places))


def _masked(c: Call, x: Node, given: dict[int, Node], values: Node, accumulate: bool) -> Node:
    (axis, mask), *others = given.items()
    if values.type.elements != 1 and not others and not axis:
        return _in_turn(c, x, mask, values, accumulate)
    if others or values.type.elements != 1:
        raise c.refuse("a mask as an index with a value for each place: how many there are depends on data", "use torch.where")
    rank = x.type.rank
    shape = (*[1] * axis, *mask.type.shape, *[1] * (rank - axis - mask.type.rank))
    value = c.op("reshape", values, shape=())
    new = c.op("add", x, value) if accumulate else c.op("broadcast", value, shape=x.type.shape)
    return c.op("where", c.op("broadcast", c.op("reshape", mask, shape=shape), shape=x.type.shape), new, x)


@row("masked_scatter")
def _masked_scatter(c: Call, x: Node, mask: Node, source: Node) -> Node:
    assert c.out is not None
    flat = c.op("reshape", c.cast(source, x.type.dtype), shape=(source.type.elements,))
    return _in_turn(c, c.shaped(x), c.op("broadcast", mask, shape=c.out.shape), flat)


def _in_turn(c: Call, x: Node, mask: Node, source: Node, accumulate: bool = False) -> Node:
    """x, where a mask of its first dimensions holds with the rows of `source` one after the other: how often it held before says which."""
    if not x.type.is_static or not source.type.is_static:
        raise c.refuse(f"counts the places of a mask of {x.type}", "fix the dimensions")
    rest, n = x.type.shape[mask.type.rank :], mask.type.elements
    many = int(source.type.shape[0]) if source.type.rank > len(rest) else 1  # type: ignore[arg-type]
    if not x.type.elements or not many:
        return x
    held = c.op("cumsum", c.cast(c.op("reshape", mask, shape=(n,)), I64), axis=0)
    number = lambda v: c.b.const(v, I64)
    at = c.op("min", c.op("max", c.op("sub", held, number(1)), number(0)), number(many - 1))
    new = c.op("reshape", c.op("gather", c.op("broadcast", source, shape=(many, *rest)), at, axis=0), shape=x.type.shape)
    lies = c.op("reshape", mask, shape=(*mask.type.shape, *[1] * len(rest)))
    return c.op("where", c.op("broadcast", lies, shape=x.type.shape), c.op("add", x, new) if accumulate else new, x)


@row("index_copy", "index_add", "index_fill")
def _index_writes(c: Call, x: Node, dim: int, index: Node, source: Any, alpha: Any = 1) -> Node:
    """x[.., index[i], ..] = (or +=) source[.., i, ..] along one dimension."""
    if not x.type.rank:
        return _flat(c, x, lambda y, i, s: _index_writes(c, y, 0, i, s, alpha), index, source)
    axis = axis_of(x, dim)
    index = index if index.type.rank else c.op("reshape", index, shape=(1,))
    shape = (*x.type.shape[:axis], *index.type.shape, *x.type.shape[axis + 1 :])
    source = c.value(source, x.type.dtype)
    source = c.op("broadcast" if c.name == "index_fill" else "reshape", source, shape=shape)
    if c.name == "index_add" and (isinstance(alpha, Node) or alpha != 1):
        source = c.op("mul", source, c.value(alpha, x.type.dtype))
    if c.name != "index_add" and _few(x, axis, index):
        return _replaced(c, x, axis, index, source)
    perm = (axis, *(k for k in range(x.type.rank) if k != axis))
    back = tuple(perm.index(k) for k in range(len(perm)))
    at = _tuples(c, {axis: index}, index.type.shape)
    how = "add" if c.name == "index_add" else "none"
    y = c.op("scatter_nd", c.op("transpose", x, perm=perm), at, c.op("transpose", source, perm=perm), reduction=how)
    return c.op("transpose", y, perm=back)


@row("scatter", "scatter_add", "scatter_reduce")
def _scatter(c: Call, x: Node, dim: int, index: Node, source: Any, reduce: str | None = None, *, include_self: bool = True) -> Node:
    """x[.., index[i, j, ..], ..] = source[i, j, ..] along one dimension, or reduced with what is there."""
    if not x.type.rank:
        return _flat(c, x, lambda y, i, s: _scatter(c, y, 0, i, s, reduce, include_self=include_self), index, source)
    axis = axis_of(x, dim)
    name = "add" if c.name == "scatter_add" else reduce
    if name is not None and name not in (*REDUCED, "mean"):
        raise c.refuse(f"reduces by {name}")
    index = c.cast(index if index.type.rank else c.op("reshape", index, shape=(1,)), I64)
    source = c.value(source, x.type.dtype)
    if source.type.rank == index.type.rank:
        n = index.type.rank
        source = c.op("slice", source, starts=(0,) * n, limits=index.type.shape, steps=(1,) * n)
    source = c.op("broadcast" if source.type.rank < index.type.rank else "reshape", source, shape=index.type.shape)
    return _reduced(c, x, index, source, axis, name, include_self)


@row("index_reduce")
def _index_reduce(c: Call, x: Node, dim: int, index: Node, source: Node, reduce: str, *, include_self: bool = True) -> Node:
    """x[.., index[i], ..] reduced with source[.., i, ..] along one dimension."""
    if not x.type.rank:
        return _flat(c, x, lambda y, i, s: _index_reduce(c, y, 0, i, s, reduce, include_self=include_self), index, source)
    axis = axis_of(x, dim)
    source = source if source.type.rank else c.op("reshape", source, shape=(1,))
    index = c.op("reshape", c.cast(index, I64), shape=(*(index.type.shape or (1,)), *[1] * (x.type.rank - axis - 1)))
    return _reduced(c, x, c.op("broadcast", index, shape=source.type.shape), source, axis, reduce, include_self)


def _reduced(c: Call, x: Node, index: Node, source: Node, axis: int, name: str | None, include_self: bool) -> Node:
    """Updates of x's shape but along the axis, reduced with each other where they go to one place, and with what is there."""
    if name == "mean":
        return _averaged(c, x, index, source, axis, include_self)
    if name is not None and not include_self:
        first = c.op("broadcast", c.b.const(_neutral(name, x), x.type.dtype), shape=index.type.shape)
        x = _scattered(c, x, index, first, axis, "none")
    return _scattered(c, x, index, source, axis, REDUCED[name] if name else "none")


def _scattered(c: Call, x: Node, index: Node, source: Node, axis: int, how: str) -> Node:
    """`scatter_elements`. Of few updates a row (a class of each sample, the experts of a token) a choice at each place, in the order of the
    updates: maps that fuse with what stands around them."""
    n, rest = index.type.shape[axis], lambda v: (*v.type.shape[:axis], *v.type.shape[axis + 1 :])
    if not isinstance(n, int) or n > IN_TURN or rest(index) != rest(x) or (x.type.dtype == BOOL and how != "none"):
        return c.op("scatter_elements", x, index, source, axis=axis, reduction=how)
    place = tuple(d if k == axis else 1 for k, d in enumerate(x.type.shape))
    own = c.op("iota", shape=place, axis=axis, dtype=I64.name)
    for j in range(n):
        at, new = (sliced(c, v, axis, j, j + 1) for v in (index, source))
        x = c.op("where", c.op("eq", own, at), new if how == "none" else c.op(how, x, new), x)
    return x


def _averaged(c: Call, x: Node, index: Node, source: Node, axis: int, include_self: bool) -> Node:
    """Sums over counts; of integers rounded down. A place without updates stays as it is."""
    d = x.type.dtype
    wide = F32 if d in SHORT_FLOATS else d
    ones = lambda like, v: c.op("broadcast", c.b.const(v, I64), shape=like.type.shape)
    total = _reduced(c, c.cast(x, wide), index, c.cast(source, wide), axis, "sum", include_self)
    count = _scattered(c, ones(x, int(include_self)), index, ones(index, 1), axis, "add")
    count = c.cast(c.op("max", count, c.b.const(1, I64)), wide)
    return c.cast(c.op("div" if d.is_float else "floordiv", total, count), d)


def _neutral(name: str, x: Node) -> Any:
    """What a reduction begins with."""
    if REDUCED[name] in ("add", "mul"):
        return 0 if REDUCED[name] == "add" else 1
    d = x.type.dtype
    if d == BOOL:
        return name == "amin"
    if d.is_float:
        return float("-inf") if name == "amax" else float("inf")
    return int(np.iinfo(d.numpy).min if name == "amax" else np.iinfo(d.numpy).max)


def _flat(c: Call, x: Node, of: Any, index: Node, source: Any) -> Node:
    """torch takes a scalar for a tensor of one element along its dimension 0."""
    one = lambda v: c.op("reshape", v, shape=(1,)) if isinstance(v, Node) and not v.type.rank else v
    return c.op("reshape", of(one(x), one(index), one(source)), shape=())


# ---- over slices
@row("slice_scatter")
def _slice_scatter(c: Call, x: Node, source: Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Node:
    axis = axis_of(x, dim)
    n = x.type.shape[axis]
    source = c.cast(source, x.type.dtype)
    if isinstance(start, Node):
        return written_at(c, x, source, axis, start, end)
    if any(isinstance(v, Sym) for v in (n, start, end)):
        return _joined(c, x, source, axis, *ends(n, start, end), step)
    return _placed(c, x, source, axis, range(*slice(start, end, step).indices(int(n))))  # type: ignore[arg-type]


def _joined(c: Call, x: Node, source: Node, axis: int, start: Dim, end: Dim, step: int) -> Node:
    """Along a symbolic dimension: what stands in front of the slice, what is written, and what stands behind."""
    n = x.type.shape[axis]
    if step != 1:
        return _each(c, x, source, axis, start, step)
    parts = [sliced(c, x, axis, 0, start)] if start != 0 else []
    parts += [source] + ([sliced(c, x, axis, end, n)] if end != n else [])
    return c.op("concat", *parts, axis=axis) if len(parts) > 1 else source


def _each(c: Call, x: Node, source: Node, axis: int, start: Dim, step: int) -> Node:
    """Each `step`-th element from `start` on along a symbolic dimension: element i is row (i - start) / step of the source."""
    if isinstance(start, Sym):
        raise c.refuse(f"writes each {step} along {x.type} from {start} on", "begin at a number")
    i64 = lambda n: c.b.const(n, I64)
    along = tuple(d if k == axis else 1 for k, d in enumerate(x.type.shape))
    i = c.op("sub", c.op("iota", shape=(x.type.shape[axis],), axis=0, dtype=I64.name), i64(start))
    at, rest = c.op("floordiv", i, i64(step)), c.op("mod", i, i64(step))
    inside = c.op("and", c.op("ge", i, i64(0)), c.op("eq", rest, i64(0)))
    last = c.op("sub", c.op("extent", source, axis=axis, dtype=I64.name), i64(1))
    inside = c.op("and", inside, c.op("le", at, last))
    written = c.op("gather", source, c.op("max", c.op("min", at, last), i64(0)), axis=axis)
    return c.op("where", c.op("broadcast", c.op("reshape", inside, shape=along), shape=x.type.shape), written, x)


@row("select_scatter")
def _select_scatter(c: Call, x: Node, source: Node, dim: int, index: int | Node) -> Node:
    axis = axis_of(x, dim)
    n = x.type.shape[axis]
    source = c.op("reshape", c.cast(source, x.type.dtype), shape=(*x.type.shape[:axis], 1, *x.type.shape[axis + 1 :]))
    if isinstance(index, Node):
        return written_at(c, x, source, axis, index, 1)
    if isinstance(n, Sym):
        first = total([(n, 1)], index) if index < 0 else index
        return _joined(c, x, source, axis, first, total([(first, 1)], 1), 1)
    return _placed(c, x, source, axis, range(index % n, index % n + 1))


def _placed(c: Call, x: Node, source: Node, axis: int, span: range) -> Node:
    """x with `source` at the positions of `span` along an axis: one element-wise kernel, whatever the step is."""
    n = static(c, x, axis)
    if not span:
        return x
    if len(span) == n:
        return c.op("broadcast", source, shape=x.type.shape)
    at = np.zeros(n, np.int64)
    inside = np.zeros(n, bool)
    at[list(span)], inside[list(span)] = np.arange(len(span)), True
    shape = tuple(n if k == axis else 1 for k in range(x.type.rank))
    mask = c.op("broadcast", c.op("reshape", c.array(inside), shape=shape), shape=x.type.shape)
    return c.op("where", mask, c.op("gather", source, c.array(at), axis=axis), x)


@row("as_strided_scatter")
def _as_strided_scatter(c: Call, x: Node, source: Node, size: list[int], strides: list[int], offset: int | None = None) -> Node:
    """x with `source` at the places of its memory that `as_strided` reads: at each place what is known to come there."""
    if not c.dense:
        raise c.refuse("of a tensor that does not lie densely in its memory", "use views and slices, or call contiguous() first")
    if any(not isinstance(n, int) for n in (*x.type.shape, *size, *strides, offset or 0)):
        raise c.refuse(f"writes {x.type} at steps that are symbolic", "fix the dimensions")
    at = places_at(c, x, size, strides, offset or 0).reshape(-1)
    if len(np.unique(at)) < at.size:
        raise c.refuse("writes an element more than once", "write each of them once")
    number = np.full(prod(map(dim_hint, x.type.shape)), -1, np.int64)
    number[at] = np.arange(at.size)
    new = c.op("reshape", c.cast(source, x.type.dtype), shape=(at.size,))
    if not at.size:
        return x
    if not np.array_equal(number, np.arange(number.size)):
        new = c.op("gather", new, c.array(np.maximum(number, 0)), axis=0)
    new = c.op("reshape", new, shape=x.type.shape)
    return new if number.min() >= 0 else c.op("where", c.op("reshape", c.array(number >= 0), shape=x.type.shape), new, x)


@row("diagonal_scatter")
def _diagonal_scatter(c: Call, x: Node, source: Node, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Node:
    """x[i, i + offset] = source[.., i] of two dimensions."""
    a, b = axis_of(x, dim1), axis_of(x, dim2)
    whole = offset == 0 and x.type.shape[a] == x.type.shape[b]  # each row has its element, also where the size is open
    n = x.type.shape[a] if whole else max(0, min(static(c, x, a) + min(offset, 0), static(c, x, b) - max(offset, 0)))
    if n == 0:
        return x
    i, j = (c.op("iota", shape=x.type.shape, axis=k, dtype=I64.name) for k in (a, b))
    on = c.op("eq", c.op("sub", j, i), c.b.const(offset, I64))
    shape = tuple(1 if k == b else n if k == a else d for k, d in enumerate(x.type.shape))
    last = source.type.rank - 1
    rest = [k for k in range(x.type.rank) if k not in (a, b)]
    perm = tuple(last if k == a else rest.index(k) for k in range(x.type.rank) if k != b)
    lined = c.op("reshape", c.op("transpose", c.cast(source, x.type.dtype), perm=perm), shape=shape)
    if not whole:
        first = max(0, -offset)  # the diagonal's first row
        lined = c.op("gather", lined, c.array(np.clip(np.arange(static(c, x, a)) - first, 0, int(n) - 1)), axis=a)  # type: ignore[arg-type]
    return c.op("where", on, c.op("broadcast", lined, shape=x.type.shape), x)


@row("nonzero_static")
def _places_of_nonzero(c: Call, x: Node, *, size: int, fill_value: int = -1) -> Node:
    """Indices of the first `size` elements that are not zero, by row; `fill_value` behind the last one."""
    rank, sizes = x.type.rank, x.type.shape
    known = [d for d in sizes if isinstance(d, int)]
    if len(known) < rank or not isinstance(size, int) or not rank:
        raise c.refuse(f"gives {size} places of {x.type}", "fix the sizes")
    n = prod(known)
    flat = c.op("reshape", x if x.type.dtype == BOOL else c.op("ne", x, c.b.const(0, x.type.dtype)), shape=(n,))
    place = at_or_below(c, c.op("cumsum", c.cast(flat, I64), axis=0), size)  # n behind the last one
    number, columns, stride = lambda v: c.b.const(v, I64), [], n
    for d in known:
        stride //= max(d, 1)
        at = c.op("mod", c.op("floordiv", place, number(max(stride, 1))), number(max(d, 1)))
        columns.append(c.op("reshape", c.op("where", c.op("lt", place, number(n)), at, number(fill_value)), shape=(size, 1)))
    return columns[0] if rank == 1 else c.op("concat", *columns, axis=1)


# ---- what has no meaning here
DATA = ("masked_select", "nonzero", "unique", "_unique2", "unique_consecutive", "unique_dim", "bincount")
RANDOM = ("bernoulli", "multinomial", "normal", "normal_functional", "rand", "rand_like", "randn", "randn_like", "randint", "randint_like",
          "randperm", "uniform", "exponential", "cauchy", "geometric", "log_normal", "poisson")  # fmt: skip


@row(*DATA)
def _by_data(c: Call, *_: Any, **__: Any) -> Node:
    raise c.refuse("which elements there are, or how many, depends on data", "use torch.where with a mask of the whole shape")


@row(*RANDOM)
def _random(c: Call, *_: Any, **__: Any) -> Node:
    raise c.refuse("random numbers", "draw them outside and pass them as an input")
