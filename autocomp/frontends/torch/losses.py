"""ATen's losses that torch decomposes to something else, or not at all."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import Call, row
from autocomp.frontends.torch.normalisation import wide
from autocomp.ir.node import Node
from autocomp.ir.types import I64

MEAN, SUM = 1, 2  # ATen's numbers of reductions; 0 is none


def _margins(c: Call, x: Node, target: Node) -> tuple[Node, Node, Node, Node]:
    """Of scores [n, k] and targets [n, k], the numbers of classes up to the first -1: what each class m has above that of target j less 1,
    and which of these count, [n, j, m]; which class target j is [n, j, classes], and which classes are targets [n, classes]."""
    rows = (1,) * (2 - x.type.rank) + x.type.shape
    n, k = rows
    scores = c.op("reshape", wide(c, x), shape=(n, k))
    labels = c.op("reshape", c.cast(target, I64), shape=(n, k))
    d, zero = scores.type.dtype, c.b.const(0, scores.type.dtype)
    count = c.op("cumsum", c.cast(c.op("lt", labels, c.b.const(0, I64)), I64), axis=1)
    known = c.op("eq", count, c.b.const(0, I64))
    labels = c.op("where", known, labels, c.b.const(0, I64))
    own = c.op("gather_elements", scores, labels, axis=1)
    at = lambda v, *shape: c.op("reshape", v, shape=shape)
    classes = c.op("iota", shape=(1, 1, k), axis=2, dtype=I64.name)
    mine = c.op("and", c.op("eq", at(labels, n, k, 1), classes), at(known, n, k, 1))
    is_target = c.op("reduce_max", c.cast(mine, I64), axes=(1,), keepdims=False)
    above = c.op("add", c.op("sub", c.b.const(1, d), at(own, n, k, 1)), at(scores, n, 1, k))
    counted = c.op("and", c.op("and", at(known, n, k, 1), c.op("eq", at(is_target, n, 1, k), c.b.const(0, I64))), c.op("gt", above, zero))
    return above, counted, mine, is_target


@row("multilabel_margin_loss", "multilabel_margin_loss_forward")
def _multilabel_margin(c: Call, x: Node, target: Node, reduction: int = MEAN) -> Any:
    """The mean over classes of what any other class has above a target less 1. `forward` says besides which classes are targets. torch's
    decomposition (up to 2.13) counts what stands behind the -1, as if it were class 0."""
    above, counted, _, is_target = _margins(c, x, target)
    d = above.type.dtype
    loss = c.op("reduce_sum", c.op("where", counted, above, c.b.const(0, d)), axes=(1, 2), keepdims=False)
    loss = c.op("div", loss, c.b.const(above.type.shape[2], d))
    if reduction in (MEAN, SUM):
        loss = c.op("reduce_mean" if reduction == MEAN else "reduce_sum", loss, axes=(0,), keepdims=False)
    loss = c.cast(c.op("reshape", loss, shape=() if reduction else x.type.shape[:-1]), x.type.dtype)
    both = loss, c.op("reshape", c.cast(is_target, x.type.dtype), shape=target.type.shape)
    return both if c.name.endswith("forward") else loss


@row("multilabel_margin_loss_backward")
def _multilabel_margin_gradient(c: Call, grad: Node, x: Node, target: Node, reduction: int, is_target: Node) -> Node:
    """A pair of a target and another class that counts takes from the one what it gives to the other."""
    above, counted, mine, _ = _margins(c, x, target)
    (n, k, _), d = above.type.shape, above.type.dtype
    pairs = c.cast(counted, d)
    others = c.op("reduce_sum", pairs, axes=(1,), keepdims=False)
    own = c.op("mul", c.cast(mine, d), c.op("reduce_sum", pairs, axes=(2,), keepdims=True))
    total = c.op("sub", others, c.op("reduce_sum", own, axes=(1,), keepdims=False))
    by = c.op("reshape", wide(c, grad), shape=(1, 1) if reduction else (n, 1))
    rows = c.op("div", c.b.const(1, d), c.op("mul", c.b.const(k, d), c.b.const(n if reduction == MEAN else 1, d)))
    return c.cast(c.op("reshape", c.op("mul", c.op("mul", total, by), rows), shape=x.type.shape), x.type.dtype)
