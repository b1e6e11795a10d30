"""ATen's embedding_bag: rows of a table looked up and reduced over bags of neighbouring indices."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import Call, row
from autocomp.frontends.torch.writing import index_put
from autocomp.ir.node import Node
from autocomp.ir.sizes import product
from autocomp.ir.types import BOOL, F32, I64, SHORT_FLOATS, Dim, TensorType

SUM, MEAN, MAX = range(3)


@row("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def _embedding_bag(c: Call, table: Node, index: Node, offsets: Node, scale: bool = False, mode: int = SUM, sparse: bool = False,
                   weights: Node | None = None, last: bool = False, padding: int = -1) -> Any:  # fmt: skip
    """Bag b has the indices from offsets[b] to before offsets[b + 1]; the last one ends with the indices, or, with `last`, at the last
    offset. Indices equal to `padding` are left out; a bag without indices is 0. Its further results are for the way back: of each index its
    bag, of each bag how many indices it has, and for maxima which index each element is of."""
    n, count, step = index.type.shape[0], offsets.type.shape[0], 0 if last else _step(offsets)
    width, d = table.type.shape[1], table.type.dtype
    rest: list[Node | None] = [None] * (len(c.outs) - 1)
    even = step != 0 and product((count, step)) == n
    if index.type.rank != 1 or not (even or (isinstance(n, int) and isinstance(count, int))):
        raise c.refuse(f"takes indices {index.type} in bags from {offsets.type}", "fix the dimensions")
    bags = count - last if isinstance(count, int) else count
    if n == 0 or bags == 0:
        return tuple(c.op("broadcast", c.b.const(0, t.dtype), shape=t.shape) if k in c.read | {0} else None
                     for k, t in enumerate(c.outs or (TensorType(d, (bags, width)),)))  # fmt: skip
    wide = F32 if d in SHORT_FLOATS else d
    rows = c.cast(c.op("gather", table, index, axis=0), wide)
    if weights is not None:
        rows = c.op("mul", rows, c.op("reshape", c.cast(weights, wide), shape=(n, 1)))
    index = c.cast(index, I64)
    known = c.op("ne", index, c.b.const(padding, I64)) if padding >= 0 else c.op("broadcast", c.b.const(True, BOOL), shape=(n,))
    if even:
        shape: tuple[Dim, ...] = (bags, step, width)
        member, each = c.op("reshape", known, shape=shape[:2]), c.op("reshape", rows, shape=shape)
    else:
        assert isinstance(n, int) and isinstance(bags, int)
        shape = (bags, n, width)
        member = c.op("and", _within(c, c.cast(offsets, I64), n, bags, last), known)
        each = c.op("broadcast", c.op("reshape", rows, shape=(1, n, width)), shape=shape)
    kept = c.op("broadcast", c.op("reshape", member, shape=(*shape[:2], 1)), shape=shape)
    size = c.op("reduce_sum", c.cast(member, I64), axes=(1,), keepdims=True)
    zero = c.b.const(0, wide)
    if mode == MAX:
        y = c.op("reduce_max", c.op("where", kept, each, c.b.const(float("-inf"), wide)), axes=(1,), keepdims=False)
        y = c.op("where", c.op("eq", size, c.b.const(0, I64)), zero, y)
    else:
        y = c.op("reduce_sum", c.op("where", kept, each, zero), axes=(1,), keepdims=False)
    if mode == MEAN:
        y = c.op("div", y, c.cast(c.op("max", size, c.b.const(1, I64)), wide))
    further = {1: lambda: _bag_of(c, offsets, n, step if even else 0), 2: lambda: c.op("reshape", size, shape=(bags,)),
               3: lambda: _largest(c, each, kept, index, step if even else 0) if mode == MAX else None}  # fmt: skip
    for k in c.read - {0}:
        rest[k - 1] = _as_long(c, further[k](), c.outs[k])
    return (c.cast(y, d), *rest)


def _as_long(c: Call, x: Node | None, t: TensorType) -> Node:
    """A result as torch has it: of none of its elements where it is not needed, of one more where the last offset ends."""
    if x is None or 0 in t.shape:
        return c.op("broadcast", c.b.const(0, t.dtype), shape=t.shape)
    x = c.cast(x, t.dtype)
    if x.type.shape != t.shape:
        x = c.op("pad", x, lo=(0,), hi=(1,), value=0.0)
    return x


def _bag_of(c: Call, offsets: Node, n: Dim, step: Dim) -> Node:
    """The bag of each of n indices, i64[n]: bags of `step` indices, 0 for bags from their offsets."""
    if isinstance(step, int) and step:
        return c.op("floordiv", c.op("iota", shape=(n,), axis=0, dtype=I64.name), c.b.const(step, I64))
    count = offsets.type.shape[0]
    shape = (n, count)
    starts = c.op("broadcast", c.op("reshape", c.cast(offsets, I64), shape=(1, count)), shape=shape)
    begun = c.op("ge", c.op("iota", shape=shape, axis=0, dtype=I64.name), starts)
    return c.op("sub", c.op("reduce_sum", c.cast(begun, I64), axes=(1,)), c.b.const(1, I64))


def _largest(c: Call, each: Node, kept: Node, index: Node, step: Dim) -> Node:
    """The index that each element of a bag's maximum is of, 0 in bags without one."""
    rows = c.op("where", kept, each, c.b.const(float("-inf"), each.type.dtype))
    at = c.cast(c.op("reduce_argmax", rows, axes=(1,)), I64)
    if step:
        first = c.op("iota", shape=(at.type.shape[0], 1), axis=0, dtype=I64.name)
        at = c.op("add", at, c.op("mul", first, c.b.const(step, I64)))
    some = c.op("broadcast", c.op("reduce_any", kept, axes=(1,)), shape=at.type.shape)
    return c.op("where", some, c.op("gather", index, at, axis=0), c.b.const(0, I64))


@row("_embedding_bag_backward")
def _back(c: Call, grad: Node, index: Node, offsets: Node, _: Any, size: Node, largest: Node, many: int, scale: bool, mode: int,
          sparse: bool, weights: Node | None = None, padding: int = -1) -> Node:  # fmt: skip
    """The table's gradient: a bag's goes to each of its rows, over their number for a mean, for a maximum to the row of each element."""
    n, width, d = index.type.shape[0], grad.type.shape[1], grad.type.dtype
    if scale or sparse or not isinstance(n, int) or not grad.type.is_static:
        how = ", scaled by how often they stand" if scale else ", sparse" if sparse else ""
        raise c.refuse(f"is the way back of indices {index.type} in bags from {offsets.type}{how}", "torch's own is one call")
    zeros, zero = c.op("broadcast", c.b.const(0, d), shape=(many, width)), c.b.const(0, d)
    if mode == MAX:
        size = c.op("slice", size, starts=(0,), limits=(grad.type.shape[0],), steps=(1,))
        some = c.op("reshape", c.op("gt", size, c.b.const(0, size.type.dtype)), shape=(grad.type.shape[0], 1))
        columns = c.op("iota", shape=grad.type.shape, axis=1, dtype=I64.name)
        seen = c.op("where", c.op("broadcast", some, shape=grad.type.shape), grad, zero)
        return index_put(c, zeros, [c.cast(largest, I64), columns], seen, True)
    bag = _bag_of(c, offsets, n, 0)
    rows = c.op("gather", grad, bag, axis=0)
    column = lambda v: c.op("reshape", v, shape=(n, 1))
    if mode == MEAN:
        rows = c.op("div", rows, column(c.cast(c.op("max", c.op("gather", size, bag, axis=0), c.b.const(1, size.type.dtype)), d)))
    if weights is not None:
        rows = c.op("mul", rows, column(weights))
    if padding >= 0:
        counts = column(c.op("ne", c.cast(index, I64), c.b.const(padding, I64)))
        rows = c.op("where", c.op("broadcast", counts, shape=rows.type.shape), rows, zero)
    return index_put(c, zeros, [index], rows, True)


@row("_embedding_bag_per_sample_weights_backward")
def _weights_back(c: Call, grad: Node, table: Node, index: Node, offsets: Node, _: Any, mode: int, padding: int = -1) -> Node:
    """The gradient of each index's weight: its row of the table times its bag's gradient; 0 for `padding`. Of sums alone."""
    n = index.type.shape[0]
    if mode != SUM or not isinstance(n, int) or not grad.type.is_static:
        raise c.refuse(f"is the way back of weights of indices {index.type} in bags from {offsets.type}", "torch's own is one call")
    rows = c.op("gather", grad, _bag_of(c, offsets, n, 0), axis=0)
    total = c.op("reduce_sum", c.op("mul", rows, c.op("gather", table, index, axis=0)), axes=(1,), keepdims=False)
    if padding < 0:
        return total
    return c.op("where", c.op("ne", c.cast(index, I64), c.b.const(padding, I64)), total, c.b.const(0, total.type.dtype))


def _step(offsets: Node) -> Dim:
    """How many indices each bag has, where offsets are 0, k, 2*k, .. (bags that are the rows of a matrix); else 0."""
    x = _uncast(offsets)
    of, by = (_uncast(x.inputs[0]), _uncast(x.inputs[1])) if x.op == "mul" else (x, None)
    if of.op != "iota":
        return 0
    if by is None or by.op == "const":
        return 1 if by is None else int(by.attrs["value"])
    if by.op != "extent":
        return 0
    found: Dim = by.inputs[0].type.shape[by.attrs["axis"]]
    return found


def _uncast(x: Node) -> Node:
    while x.op in ("cast", "broadcast"):
        x = x.inputs[0]
    return x


def _within(c: Call, offsets: Node, n: int, bags: int, last: bool) -> Node:
    """Which of n indices each bag has, bool[bags, n]."""
    cut = lambda lo, hi: c.op("slice", offsets, starts=(lo,), limits=(hi,), steps=(1,))
    end = c.op("reshape", c.b.const(n, I64), shape=(1,))
    ends = cut(1, bags + 1) if last else end if bags == 1 else c.op("concat", cut(1, bags), end, axis=0)
    place = c.op("iota", shape=(bags, n), axis=1, dtype=I64.name)
    of_bags = lambda v: c.op("reshape", v, shape=(bags, 1))
    return c.op("and", c.op("ge", place, of_bags(cut(0, bags))), c.op("lt", place, of_bags(ends)))
