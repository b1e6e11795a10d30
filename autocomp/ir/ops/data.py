"""Entries that look elements up by value, count, sort or scatter."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.affine import aff
from autocomp.ir.body import Comprehension, Const, Expr, Gather, Index, Inside, Map, Read
from autocomp.ir.node import Attrs, Node
from autocomp.ir.ops.pointwise import axes_of
from autocomp.ir.ops.table import Op, register
from autocomp.ir.types import BOOL, DTYPES, I32, I64, SHORT_FLOATS, U32, Dim, Sym, TensorType, dim_hint, widens

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


def indexed(n: Node) -> tuple[Node, tuple[Dim, ...]] | None:
    """The indices of a node that reads or writes at some, and the sizes of the dimensions that they point into."""
    if n.op == "sum_at":
        return n.inputs[0], (n.attrs["size"],)
    if len(n.inputs) < 2 or not n.op.startswith(("gather", "scatter")):
        return None
    index, shape = n.inputs[1], n.inputs[0].type.shape
    if n.op.endswith("_nd"):
        first = n.attrs.get("batch_dims", 0)
        return index, shape[first : first + dim_hint(index.type.shape[-1])]
    axis = int(n.attrs.get("axis", 0))
    return index, shape[axis : axis + 1]


# ---- iota
def _iota_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    return Comprehension(axes, Index(out.dtype, aff(axes[a["axis"]].name)))


def _iota_reference(x: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    shape = tuple(a["shape"])
    along = [1] * len(shape)
    along[a["axis"]] = shape[a["axis"]]
    return np.broadcast_to(np.arange(shape[a["axis"]]).astype(out.dtype.numpy).reshape(along), shape)


register(
    Op(
        "iota",
        (0, 0),
        lambda t, a: TensorType(DTYPES[a["dtype"]], tuple(a["shape"])),
        _iota_reference,
        _iota_meaning,
        attrs={"shape": ..., "axis": 0, "dtype": "i64"},
        doc="the index along axis",
    )
)


# ---- table
def _table_infer(t: Types, a: Attrs) -> TensorType:
    if len(a["values"]) != prod(a["shape"]) or not a["values"]:
        raise ModelError(f"{len(a['values'])} values do not fill the shape {list(a['shape'])}", where="table")
    return TensorType(DTYPES[a["dtype"]], tuple(a["shape"]))


def _table_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    flat = aff(0)
    for x, e in zip(axes, a["shape"]):
        flat = flat * int(e) + x.name
    value: Expr = Const(out.dtype, a["values"][-1])
    for k in reversed(range(len(a["values"]) - 1)):
        value = Map(out.dtype, "where", (Inside(BOOL, (k - flat,)), Const(out.dtype, a["values"][k]), value))
    return Comprehension(axes, value)


register(
    Op(
        "table",
        (0, 0),
        _table_infer,
        lambda x, a, out: np.array(a["values"]).astype(out.dtype.numpy).reshape(a["shape"]),
        _table_meaning,
        attrs={"values": ..., "shape": ..., "dtype": "f32"},
        doc="these few numbers, row-major",
    )
)


# ---- extent
def _extent_infer(t: Types, a: Attrs) -> TensorType:
    if not 0 <= a["axis"] < t[0].rank or a["dtype"] not in DTYPES:
        raise ModelError(f"no axis {a['axis']} in {t[0]}, or no dtype '{a['dtype']}'", where="extent")
    return TensorType(DTYPES[a["dtype"]], ())


def _extent_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    d = t[0].shape[a["axis"]]
    return Comprehension((), Index(out.dtype, aff(d.name if isinstance(d, Sym) else d)))


register(
    Op(
        "extent",
        (1, 1),
        _extent_infer,
        lambda x, a, o: np.asarray(x[0].shape[a["axis"]], o.dtype.numpy),
        _extent_meaning,
        attrs={"axis": ..., "dtype": "i64"},
        doc="the size of a dimension as a scalar; a symbolic one is known when the program runs",
    )
)


# ---- gathers
def wrapped(index: Expr, extent: Any) -> Expr:
    """Negative indices count from the end."""
    dtype = index.dtype
    if dtype.kind == "u":
        return index
    n = Index(dtype, aff(extent.name if isinstance(extent, Sym) else extent))
    return Map(dtype, "where", (Map(BOOL, "lt", (index, Const(dtype, 0))), Map(dtype, "add", (index, n)), index))


def check_index(name: str, t: TensorType) -> None:
    if not t.dtype.is_int:
        raise ModelError(f"indices must be integers, got {t}", where=name)


def _gather_infer(t: Types, a: Attrs) -> TensorType:
    check_index("gather", t[1])
    axis = a["axis"]
    if not 0 <= axis < t[0].rank:
        raise ModelError(f"axis {axis} is no dimension of {t[0]}", where="gather")
    return TensorType(t[0].dtype, t[0].shape[:axis] + t[1].shape + t[0].shape[axis + 1 :])


def _gather_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes, axis, rank = axes_of(out.shape), a["axis"], t[1].rank
    where = Read(t[1].dtype, 1, tuple(aff(x.name) for x in axes[axis : axis + rank]))
    plain = [Index(I64, aff(x.name)) for x in axes]
    index = (*plain[:axis], wrapped(where, t[0].shape[axis]), *plain[axis + rank :])
    return Comprehension(axes, Gather(out.dtype, 0, index))


def _indices(x: np.ndarray) -> np.ndarray:
    return np.asarray(x).astype(np.int64)


register(
    Op(
        "gather",
        (2, 2),
        _gather_infer,
        lambda x, a, o: np.take(x[0], _indices(x[1]), axis=a["axis"]),
        _gather_meaning,
        attrs={"axis": 0},
        doc="x at `indices` along axis (numpy.take)",
    )
)


def _elements_infer(t: Types, a: Attrs) -> TensorType:
    check_index("gather_elements", t[1])
    axis = a["axis"]
    if t[0].rank != t[1].rank or not 0 <= axis < t[0].rank:
        raise ModelError(f"axis {axis}, data {t[0]} and indices {t[1]} do not match", where="gather_elements")
    if any(
        k != axis and isinstance(d, int) and isinstance(n, int) and d > n for k, (d, n) in enumerate(zip(t[1].shape, t[0].shape))
    ):
        raise ModelError(f"indices {t[1]} exceed data {t[0]}", where="gather_elements")
    return TensorType(t[0].dtype, t[1].shape)


def _elements_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes = axes_of(out.shape)
    index: list[Expr] = [Index(I64, aff(x.name)) for x in axes]
    index[a["axis"]] = wrapped(Read(t[1].dtype, 1, tuple(aff(x.name) for x in axes)), t[0].shape[a["axis"]])
    return Comprehension(axes, Gather(out.dtype, 0, tuple(index)))


def _elements_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    cut = tuple(slice(None) if k == a["axis"] else slice(n) for k, n in enumerate(x[1].shape))
    return np.take_along_axis(x[0][cut], _indices(x[1]), axis=a["axis"])


register(
    Op(
        "gather_elements",
        (2, 2),
        _elements_infer,
        _elements_reference,
        _elements_meaning,
        attrs={"axis": 0},
        doc="numpy.take_along_axis",
    )
)


# ---- opaque
def _sorted(x: np.ndarray, axis: int, largest: bool) -> np.ndarray:
    """Stable order: ties keep the lower index first, NaN is the largest. NumPy knows that of its own types only."""
    if x.dtype.kind == "V":  # bf16 and floats of 8 bits
        x = x.astype(np.float32)
    if not largest:
        return np.argsort(x, axis=axis, kind="stable")
    back = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - back


def _topk_infer(t: Types, a: Attrs) -> TensorType:
    axis = a["axis"]
    if not 0 <= axis < t[0].rank:
        raise ModelError(f"axis {axis} is no dimension of {t[0]}", where="topk")
    d, k = t[0].shape[axis], a["k"]
    if k != d and (isinstance(k, Sym) or not 0 <= k <= (d.lo if isinstance(d, Sym) else d)):
        raise ModelError(f"k = {k} is not in 0..{d.lo if isinstance(d, Sym) else d}", where="topk")
    return TensorType(t[0].dtype if a["part"] == "values" else I64, (*t[0].shape[:axis], a["k"], *t[0].shape[axis + 1 :]))


def _topk_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    k = x[0].shape[a["axis"]] if isinstance(a["k"], Sym) else a["k"]
    order = np.take(_sorted(x[0], a["axis"], a["largest"]), np.arange(k), axis=a["axis"])
    return order.astype(np.int64) if a["part"] == "indices" else np.take_along_axis(x[0], order, a["axis"])


IN_TURN = 16  # of the largest elements, found one after the other
PAIRS = 2**18  # of words, for each that is wanted, up to which all are compared at once: two launches a turn take about as long
_LOW = 0x7FFFFFFF  # bits of a key that say where its element stood; above them any order of 32 bits or its negative fits


def _topk_decompose(b: Any, x: tuple[Node, ...], a: Attrs) -> Node | None:
    """A key for each element, no two alike: its place in the order of numbers, then how far it stands from the end. The largest key is
    the first of the order, the next one is the largest of those below it."""
    t, axis, k = x[0].type, a["axis"], a["k"]
    n = t.shape[axis]
    if isinstance(k, Sym) or not 1 <= k <= IN_TURN or t.dtype.bits > 32 or not isinstance(n, int) or n > _LOW:
        return None
    v = b.op("as_stored", x[0]) if t.dtype in SHORT_FLOATS else x[0]
    order = b.op("cast", b.op("ordinal", v) if t.dtype.is_float else v, to="i64")
    if not a["largest"]:
        order = b.op("neg", order)
    at = b.op("iota", shape=[n if i == axis else 1 for i in range(t.rank)], axis=axis, dtype="i64")
    left = b.op("sub", b.const(n - 1, I64), at)
    key = b.op("add", b.op("mul", order, b.const(_LOW + 1, I64)), left)
    first = [b.op("reduce_max", key, axes=[axis], keepdims=True)]
    for _ in range(k - 1):
        below = b.op("where", b.op("lt", key, first[-1]), key, b.const(-(1 << 63), I64))
        first.append(b.op("reduce_max", below, axes=[axis], keepdims=True))
    found = b.op("concat", *first, axis=axis) if k > 1 else first[0]
    index = b.op("sub", b.const(n - 1, I64), b.op("bitand", found, b.const(_LOW, I64)))
    return index if a["part"] == "indices" else b.op("gather_elements", x[0], index, axis=axis)


def _topk_of_words(b: Any, x: tuple[Node, ...], a: Attrs) -> Node | None:
    """The same by words of 32 bits: the largest one, then its first place; of those behind both, in this order, the next one. Of a few
    short rows the ranks."""
    t, axis, k = x[0].type, a["axis"], a["k"]
    n = t.shape[axis]
    if isinstance(k, Sym) or not 1 <= k <= IN_TURN or t.dtype.bits > 32 or t.dtype == U32 or not isinstance(n, int) or not 1 < n <= _LOW:
        return _topk_decompose(b, x, a)
    v = b.op("as_stored", x[0]) if t.dtype in SHORT_FLOATS else x[0]
    order = b.op("ordinal", v) if t.dtype.is_float else b.op("cast", v, to="i32")
    if not a["largest"]:
        order = b.op("bitnot", order)
    at = b.op("iota", shape=[n if i == axis else 1 for i in range(t.rank)], axis=axis, dtype="i32")
    if k > 1 and t.is_static and t.elements * n <= PAIRS * k:
        index = _ranked(b, order, axis, k)
        return index if a["part"] == "indices" else b.op("gather_elements", x[0], index, axis=axis)
    behind, found = None, []
    for _ in range(k):
        left = order if behind is None else b.op("where", behind, order, b.const(-(1 << 31), I32))
        best = b.op("reduce_max", left, axes=[axis], keepdims=True)
        same = b.op("eq", order, best)
        same = same if behind is None else b.op("and", behind, same)
        found.append(b.op("reduce_min", b.op("where", same, at, b.const(_LOW, I32)), axes=[axis], keepdims=True))
        behind = b.op("or", b.op("lt", order, best), b.op("and", b.op("eq", order, best), b.op("gt", at, found[-1])))
    index = b.op("cast", b.op("concat", *found, axis=axis) if k > 1 else found[0], to="i64")
    return index if a["part"] == "indices" else b.op("gather_elements", x[0], index, axis=axis)


def _ranked(b: Any, order: Node, axis: int, k: int) -> Node:
    """Places of the k largest words along an axis: a word's rank is how many are larger, or equal and stand before it."""
    n, rank = order.type.shape[axis], order.type.rank + 1
    by = lambda axis_, n_: b.op("iota", shape=[n_ if i == axis_ else 1 for i in range(rank)], axis=axis_, dtype="i32")
    ahead = lambda v, at: b.op("reshape", v, shape=[*v.type.shape[:at], 1, *v.type.shape[at:]])
    others, own, place = ahead(order, axis), ahead(order, axis + 1), by(axis + 1, n)
    before = b.op("or", b.op("gt", others, own), b.op("and", b.op("eq", others, own), b.op("lt", place, by(axis, n))))
    ranks = ahead(b.op("reduce_sum", b.op("cast", before, to="i32"), axes=[axis + 1], keepdims=False), axis)
    held = b.op("where", b.op("eq", ranks, by(axis, k)), place, b.const(0, I32))
    return b.op("cast", b.op("reduce_sum", held, axes=[axis + 1], keepdims=False), to="i64")  # type: ignore[no-any-return]


register(
    Op(
        "topk",
        (1, 1),
        _topk_infer,
        _topk_reference,
        decompose=_topk_decompose,
        narrow=_topk_of_words,
        opaque=f"the order depends on the data (up to {IN_TURN} of numbers of at most 32 bits are found in turn)",
        attrs={"k": ..., "axis": ..., "largest": True, "part": "values"},
        doc="the k largest along axis, in order; k may be the axis's open size, which is all",
    )
)
register(
    Op(
        "radix_topk",
        (1, 1),
        _topk_infer,
        _topk_reference,
        opaque="the order depends on the data",
        attrs={"k": ..., "axis": ..., "largest": True, "part": "values"},
        doc="topk by a selection over the bits of the last key that is wanted (rules/ordering.yaml)",
    )
)


def _scatter_infer(name: str, t: Types, a: Attrs) -> None:
    check_index(name, t[1])
    if t[2].dtype != t[0].dtype or a["reduction"] not in SCATTER:
        raise ModelError(f"data {t[0]}, updates {t[2]}, reduction '{a['reduction']}' do not match", where=name)


def _same_shape(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Whether two shapes may be one; sizes that are not known yet may be any."""
    return len(a) == len(b) and all(x == y for x, y in zip(a, b, strict=True) if isinstance(x, int) and isinstance(y, int))


def _scatter_nd_infer(t: Types, a: Attrs) -> TensorType:
    data, index, updates = t
    _scatter_infer("scatter_nd", t, a)
    last = index.shape[-1] if index.rank else None
    if not isinstance(last, int) or not 1 <= last <= data.rank:
        raise ModelError(f"indices {index} are no tuples of 1 to {data.rank} numbers", where="scatter_nd")
    if not _same_shape(updates.shape, index.shape[:-1] + data.shape[last:]):
        needed = TensorType(data.dtype, index.shape[:-1] + data.shape[last:])
        raise ModelError(f"updates {updates} are not {needed}, as indices {index} into {data} ask for", where="scatter_nd")
    return data


def _scatter_elements_infer(t: Types, a: Attrs) -> TensorType:
    data, index, updates = t
    _scatter_infer("scatter_elements", t, a)
    _elements_infer((data, index), Attrs({"axis": a["axis"]}))
    if not _same_shape(updates.shape, index.shape):
        raise ModelError(f"updates {updates} and indices {index} differ in shape", where="scatter_elements")
    return data


def _sum_at_infer(t: Types, a: Attrs) -> TensorType:
    index, updates = t
    check_index("sum_at", index)
    axis, made = a["axis"], DTYPES.get(a["dtype"])
    if not (index.is_static and updates.is_static):
        raise UnsupportedOp(f"symbolic dimensions of {index} or {updates}", where="sum_at", hint="give them numbers with dims={...}")
    if made is None or not widens(updates.dtype, made) or not isinstance(a["size"], int) or a["size"] < 1:
        raise ModelError(f"updates {updates} have no sums of dtype '{a['dtype']}' at {a['size']} places", where="sum_at")
    if not 0 <= axis < updates.rank or (index.shape != updates.shape and index.elements != updates.shape[axis]):
        raise ModelError(f"indices {index} are none of each of {updates} or of its axis {axis}", where="sum_at")
    return TensorType(made, (*updates.shape[:axis], a["size"], *updates.shape[axis + 1 :]))


def _sum_at_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    index, axis = _indices(x[0]), a["axis"]
    if index.shape != x[1].shape:
        index = np.broadcast_to(index.reshape([-1 if k == axis else 1 for k in range(x[1].ndim)]), x[1].shape)
    index = np.where(index < 0, index + a["size"], index)
    shape = (*x[1].shape[:axis], a["size"], *x[1].shape[axis + 1 :])
    y = np.zeros(shape, np.float64 if o.dtype.is_float else o.dtype.numpy)
    inside = (index >= 0) & (index < a["size"])
    at: list[Any] = list(np.indices(x[1].shape))
    at[axis] = index
    np.add.at(y, tuple(k[inside] for k in at), x[1][inside].astype(y.dtype))
    return y if x[1].dtype == np.float64 else y.astype(o.dtype.numpy)


SCATTER: dict[str, Any] = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter_put(y: np.ndarray, at: tuple[np.ndarray, ...], updates: np.ndarray, reduction: str) -> np.ndarray:
    """Raises ModelError for an index outside of `y`: what it would write to belongs to nobody."""
    for axis, (index, n) in enumerate(zip(at, y.shape)):
        if index.size and not (-n <= index.min() and index.max() < n):
            wrong = index.min() if index.min() < -n else index.max()
            raise ModelError(f"index {wrong} is outside of axis {axis} of {n} elements", where="scatter",
                             hint=f"indices are -{n} .. {n - 1} there")  # fmt: skip
    try:
        if reduction == "none":
            y[at] = updates
        else:
            SCATTER[reduction].at(y, at, updates)
    except ValueError as e:
        raise ModelError(f"its updates do not fit where they go: {e}", where="scatter") from None
    return y


def _scatter_nd_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    index = np.moveaxis(_indices(x[1]), -1, 0)
    return _scatter_put(x[0].copy(), tuple(index), x[2], a["reduction"])


def _scatter_elements_reference(x: Arrays, a: Attrs, o: TensorType) -> np.ndarray:
    at: list[Any] = list(np.indices(x[1].shape))
    at[a["axis"]] = _indices(x[1])
    return _scatter_put(x[0].copy(), tuple(at), x[2], a["reduction"])


register(
    Op(
        "scatter_nd",
        (3, 3),
        _scatter_nd_infer,
        _scatter_nd_reference,
        opaque="where it writes depends on the data",
        attrs={"reduction": "none"},
        doc="updates written at index tuples",
    )
)
register(
    Op(
        "scatter_elements",
        (3, 3),
        _scatter_elements_infer,
        _scatter_elements_reference,
        opaque="where it writes depends on the data",
        attrs={"axis": ..., "reduction": "none"},
        doc="updates written along axis",
    )
)
register(
    Op(
        "sum_at",
        (2, 2),
        _sum_at_infer,
        _sum_at_reference,
        opaque="where it adds depends on the data",
        attrs={"axis": ..., "size": ..., "dtype": ...},
        doc="zeros, `size` along axis, to which updates are added at indices, in any order; negatives count back, one outside adds nothing",
    )
)
