"""ATen's embedding_bag: rows of a table looked up and reduced over bags of neighbouring indices."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import Call, row
from autocomp.ir.node import Node
from autocomp.ir.types import F32, I64, SHORT_FLOATS

SUM, MEAN, MAX = range(3)


@row("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def _embedding_bag(c: Call, table: Node, index: Node, offsets: Node, scale: bool = False, mode: int = SUM, sparse: bool = False,
                   weights: Node | None = None, last: bool = False, padding: int = -1) -> Any:  # fmt: skip
    """Bag b has the indices from offsets[b] to before offsets[b + 1]; the last one ends with the indices, or, with `last`, at the last
    offset. Indices equal to `padding` are left out; a bag without indices is 0. Its further results are for the way back."""
    if c.read - {0}:
        raise c.refuse("results beside the reduced rows are read", "torch's own way back reads them")
    n, count = index.type.shape[0], offsets.type.shape[0]
    if not isinstance(n, int) or not isinstance(count, int) or index.type.rank != 1:
        raise c.refuse(f"takes indices {index.type} in bags from {offsets.type}", "fix the dimensions")
    bags, width, d = count - last, table.type.shape[1], table.type.dtype
    rest = [None] * (len(c.outs) - 1)
    if not n or not bags:
        return (c.op("broadcast", c.b.const(0, d), shape=(bags, width)), *rest)
    wide = F32 if d in SHORT_FLOATS else d
    rows = c.cast(c.op("gather", table, index, axis=0), wide)
    if weights is not None:
        rows = c.op("mul", rows, c.op("reshape", c.cast(weights, wide), shape=(n, 1)))
    offsets, index = c.cast(offsets, I64), c.cast(index, I64)
    cut = lambda lo, hi: c.op("slice", offsets, starts=(lo,), limits=(hi,), steps=(1,))
    starts = cut(0, bags)
    end = c.op("reshape", c.b.const(n, I64), shape=(1,))
    ends = cut(1, count) if last else end if bags == 1 else c.op("concat", cut(1, count), end, axis=0)
    place = c.op("iota", shape=(bags, n), axis=1, dtype=I64.name)
    of_bags = lambda v: c.op("reshape", v, shape=(bags, 1))
    member = c.op("and", c.op("ge", place, of_bags(starts)), c.op("lt", place, of_bags(ends)))
    if padding >= 0:
        member = c.op("and", member, c.op("ne", index, c.b.const(padding, I64)))
    shape = (bags, n, width)
    kept = c.op("broadcast", c.op("reshape", member, shape=(bags, n, 1)), shape=shape)
    each = c.op("broadcast", c.op("reshape", rows, shape=(1, n, width)), shape=shape)
    size = c.op("reduce_sum", c.cast(member, I64), axes=(1,), keepdims=True)
    zero = c.b.const(0, wide)
    if mode == MAX:
        y = c.op("reduce_max", c.op("where", kept, each, c.b.const(float("-inf"), wide)), axes=(1,), keepdims=False)
        y = c.op("where", c.op("eq", size, c.b.const(0, I64)), zero, y)
    else:
        y = c.op("reduce_sum", c.op("where", kept, each, zero), axes=(1,), keepdims=False)
    if mode == MEAN:
        y = c.op("div", y, c.cast(c.op("max", size, c.b.const(1, I64)), wide))
    return (c.cast(y, d), *rest)
