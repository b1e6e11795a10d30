"""torch's fused attention on CPUs, with what its way back reads, and that way back: scores are computed again from queries, keys and the
logarithms of their rows' sums of exponentials (Dao et al., FlashAttention, 2022, algorithm 4)."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import TABLE, Call, row
from autocomp.frontends.torch.products import repeated_heads
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, F32, F64, I64, Dim, dim_hint

NAME = "_scaled_dot_product_flash_attention_for_cpu"
STORED = 2**22  # scores that a way back stores; torch's own holds a few rows of them at a time


def _scores(c: Call, q: Node, k: Node, mask: Node | None, is_causal: bool, scale: float | None) -> Node:
    """[batch, heads, queries, keys], at least in f32; -inf where a query does not see a key. k: as many heads as q."""
    wide = F64 if q.type.dtype == F64 else F32
    s = c.op("matmul", c.cast(q, wide), c.op("transpose", c.cast(k, wide), perm=(0, 1, 3, 2)))
    s = c.op("mul", s, c.b.const(_scale(q, scale), wide))
    hidden = c.b.const(float("-inf"), wide)
    if is_causal:
        i, j = (c.op("iota", shape=s.type.shape[-2:], axis=n, dtype=I64.name) for n in (0, 1))
        s = c.op("where", c.op("ge", i, j), s, hidden)
    if mask is not None:
        s = c.op("where", mask, s, hidden) if mask.type.dtype == BOOL else c.op("add", s, c.cast(mask, wide))
    return s


def _scale(q: Node, scale: float | None) -> float:
    return scale if scale is not None else float(q.type.shape[-1]) ** -0.5  # type: ignore[arg-type]


def _of_heads(c: Call, x: Node, q: Node) -> Node:
    """Keys or values with a head for each of the queries'."""
    return x if x.type.shape[1] == q.type.shape[1] else repeated_heads(c, x, q)


def _summed(c: Call, x: Node, heads: Dim) -> Node:
    """Over the queries' heads that share one."""
    batch, all_heads, *rest = x.type.shape
    each = int(all_heads) // int(heads)  # type: ignore[arg-type]
    return c.op("reduce_sum", c.op("reshape", x, shape=(batch, heads, each, *rest)), axes=(2,), keepdims=False)


def _refuse_large(c: Call, q: Node, k: Node) -> None:
    batch, heads, queries, _ = map(dim_hint, q.type.shape)
    if (many := batch * heads * queries * dim_hint(k.type.shape[2])) > STORED:
        raise c.refuse(f"its way back would store {many:,} scores, more than {STORED:,}", "torch's own way back reads its sums")


@row(NAME)
def _with_sums(c: Call, q: Node, k: Node, v: Node, dropout: float = 0.0, is_causal: bool = False, attn_mask: Node | None = None,
               scale: float | None = None) -> Any:  # fmt: skip
    y = TABLE["scaled_dot_product_attention"](c, q, k, v, attn_mask, dropout, is_causal, scale, True)
    if 1 not in c.read:
        return y, None
    _refuse_large(c, q, k)
    s = _scores(c, q, _of_heads(c, k, q), attn_mask, is_causal, scale)
    last, zero = s.type.rank - 1, c.b.const(0, s.type.dtype)
    top = c.op("reduce_max", s, axes=(last,), keepdims=True)
    base = c.op("where", c.op("eq", top, c.b.const(float("-inf"), s.type.dtype)), zero, top)
    sums = c.op("reduce_sum", c.op("exp", c.op("sub", s, base)), axes=(last,), keepdims=True)
    none = c.op("eq", sums, zero)  # a query without any key: torch says 0
    sums = c.op("where", none, zero, c.op("add", base, c.op("log", sums)))
    return y, c.op("reshape", sums, shape=s.type.shape[:-1])


@row(f"{NAME}_backward")
def _way_back(c: Call, grad: Node, q: Node, k: Node, v: Node, out: Node, sums: Node, dropout: float, is_causal: bool,
              attn_mask: Node | None = None, scale: float | None = None) -> Any:  # fmt: skip
    """Gradients of queries, keys and values."""
    if dropout:
        raise c.refuse(f"drops out {dropout} of the weights", "torch's own way back draws them again")
    _refuse_large(c, q, k)
    heads, k, v = k.type.shape[1], _of_heads(c, k, q), _of_heads(c, v, q)
    turned = lambda x: c.op("transpose", x, perm=(0, 1, 3, 2))
    s = _scores(c, q, k, attn_mask, is_causal, scale)
    wide = s.type.dtype
    rows = c.op("reshape", c.cast(sums, wide), shape=(*sums.type.shape, 1))
    p = c.op("exp", c.op("sub", s, rows))
    grad, out, q, k, v = (c.cast(x, wide) for x in (grad, out, q, k, v))
    of_rows = c.op("reduce_sum", c.op("mul", grad, out), axes=(3,), keepdims=True)
    of_scores = c.op("mul", p, c.op("sub", c.op("matmul", grad, turned(v)), of_rows))
    of_scores = c.op("mul", of_scores, c.b.const(_scale(q, scale), wide))
    shared = lambda x: x if heads == q.type.shape[1] else _summed(c, x, heads)
    found = c.op("matmul", of_scores, k), shared(c.op("matmul", turned(of_scores), q)), shared(c.op("matmul", turned(p), grad))
    return tuple(c.cast(x, t.dtype) for x, t in zip(found, c.outs))
