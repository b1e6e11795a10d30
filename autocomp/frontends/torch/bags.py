"""ATen's embedding_bag: rows of a table looked up and reduced over bags of neighbouring indices."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import Call, row
from autocomp.ir.node import Node
from autocomp.ir.sizes import product
from autocomp.ir.types import BOOL, F32, I64, SHORT_FLOATS, Dim

SUM, MEAN, MAX = range(3)


@row("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def _embedding_bag(c: Call, table: Node, index: Node, offsets: Node, scale: bool = False, mode: int = SUM, sparse: bool = False,
                   weights: Node | None = None, last: bool = False, padding: int = -1) -> Any:  # fmt: skip
    """Bag b has the indices from offsets[b] to before offsets[b + 1]; the last one ends with the indices, or, with `last`, at the last
    offset. Indices equal to `padding` are left out; a bag without indices is 0. Its further results are for the way back."""
    if c.read - {0}:
        raise c.refuse("results beside the reduced rows are read", "torch's own way back reads them")
    n, count, step = index.type.shape[0], offsets.type.shape[0], 0 if last else _step(offsets)
    width, d = table.type.shape[1], table.type.dtype
    rest = [None] * (len(c.outs) - 1)
    even = step != 0 and product((count, step)) == n
    if index.type.rank != 1 or not (even or (isinstance(n, int) and isinstance(count, int))):
        raise c.refuse(f"takes indices {index.type} in bags from {offsets.type}", "fix the dimensions")
    bags = count - last if isinstance(count, int) else count
    if n == 0 or bags == 0:
        return (c.op("broadcast", c.b.const(0, d), shape=(bags, width)), *rest)
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
    return (c.cast(y, d), *rest)


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
