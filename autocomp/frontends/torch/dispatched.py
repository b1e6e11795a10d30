"""ATen operators below autograd, which graphs of torch.compile have and exported programs do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autocomp.frontends.torch.call import TABLE, Call, row
from autocomp.frontends.torch.sizes import is_size
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL

FUSED = "_scaled_dot_product_"


def _attention(c: Call, q: Node, k: Node, v: Node, mask: Node | None, dropout: float, is_causal: bool, scale: float | None) -> Any:
    """The result alone: what a way back reads is computed by the operator that computes it there."""
    if c.read - {0}:
        raise c.refuse("its sums of exponentials are read", "torch's own way back reads them")
    y = TABLE["scaled_dot_product_attention"](c, q, k, v, mask, dropout, is_causal, scale, True)
    return (y, *[None] * (len(c.outs) - 1))


@row(f"{FUSED}flash_attention")
def _flash(c: Call, q: Node, k: Node, v: Node, dropout: float = 0.0, is_causal: bool = False, debug: bool = False,
           scale: float | None = None) -> Any:  # fmt: skip
    return _attention(c, q, k, v, None, dropout, is_causal, scale)


@row(f"{FUSED}efficient_attention")
def _efficient(c: Call, q: Node, k: Node, v: Node, bias: Node | None, sums: bool, dropout: float = 0.0, is_causal: bool = False,
               scale: float | None = None) -> Any:  # fmt: skip
    return _attention(c, q, k, v, bias, dropout, is_causal, scale)


@row(f"{FUSED}cudnn_attention")
def _cudnn(c: Call, q: Node, k: Node, v: Node, bias: Node | None, sums: bool, dropout: float = 0.0, is_causal: bool = False,
           debug: bool = False, scale: float | None = None) -> Any:  # fmt: skip
    return _attention(c, q, k, v, bias, dropout, is_causal, scale)


def one_length(nodes: Iterable[Any]) -> None:
    """Keys and values of fused attention have one length, which torch does not ask when it traces: of two symbols that are one number now
    (two tensors of a cache that grows) it is made a guard of torch's, so that they are one symbol."""
    for n in nodes:
        if f"aten.{FUSED}" not in str(n.target) or "backward" in str(n.target):
            continue
        key, value = (x.meta["val"].shape[-2] for x in n.args[1:3])
        open_sizes = [x.node for x in (key, value) if is_size(x)]
        if open_sizes and all(s.has_hint() and not s.shape_env.frozen for s in open_sizes):
            bool(key == value)  # torch asks its guards, or makes one


# ---- nn.TransformerEncoderLayer, which is one operator where no gradient is asked for
KEYS = 1  # a mask is [batch, keys]; of other kinds [queries, keys] or [batch, heads, queries, keys]


@row("_transformer_encoder_layer_fwd")
def _encoder_layer(c: Call, x: Node, width: int, heads: int, w: Node, b: Node, w_out: Node, b_out: Node, use_gelu: bool, norm_first: bool,
                   eps: float, g1: Node, h1: Node, g2: Node, h2: Node, w1: Node, b1: Node, w2: Node, b2: Node, mask: Node | None = None,
                   kind: int | None = None) -> Node:  # fmt: skip
    if x.type.shape[-1] != width:  # torch guards neither rank nor width of what it gives the operator
        raise c.refuse(f"of width {width} is given {x.type}", "fix the last dimension")
    linear = TABLE["linear"]
    norm = lambda v, g, h: c.op("layer_norm", v, g, h, axes=(v.type.rank - 1,), eps=eps)
    attend = lambda v: linear(c, _heads(c, linear(c, v, w, b), heads, mask, kind), w_out, b_out)
    feed = lambda v: linear(c, c.op("gelu" if use_gelu else "relu", linear(c, v, w1, b1)), w2, b2)
    if norm_first:
        x = c.op("add", x, attend(norm(x, g1, h1)))
        return c.op("add", x, feed(norm(x, g2, h2)))
    x = norm(c.op("add", x, attend(x)), g1, h1)
    return norm(c.op("add", x, feed(x)), g2, h2)


def _heads(c: Call, packed: Node, heads: int, mask: Node | None, kind: int | None) -> Node:
    """Attention of all heads, side by side again. `packed`: [batch, rows, queries, keys and values of all heads beside each other]."""
    n, rows, wide = packed.type.shape
    each = int(wide) // (3 * heads)  # type: ignore[arg-type]
    x = c.op("transpose", c.op("reshape", packed, shape=(n, rows, 3, heads, each)), perm=(2, 0, 3, 1, 4))
    part = lambda k: c.op("reshape", c.op("slice", x, starts=(k, 0, 0, 0, 0), limits=(k + 1, n, heads, rows, each), steps=(1,) * 5),
                          shape=(n, heads, rows, each))  # fmt: skip
    q, k, v = map(part, range(3))
    s = c.op("matmul", c.op("mul", q, c.b.const(each**-0.5, q.type.dtype)), c.op("transpose", k, perm=(0, 1, 3, 2)))
    if mask is not None:  # what is not 0 is left out, also of a mask of floats; a query without any key is NaN
        mask = mask if mask.type.dtype == BOOL else c.op("ne", mask, c.b.const(0, mask.type.dtype))
        mask = c.op("reshape", mask, shape=(n, 1, 1, rows)) if kind == KEYS else mask
        s = c.op("where", mask, c.b.const(float("-inf"), s.type.dtype), s)
    y = c.op("matmul", c.op("softmax", s, axes=(3,)), v)
    return c.op("reshape", c.op("transpose", y, perm=(0, 2, 1, 3)), shape=(n, rows, heads * each))
