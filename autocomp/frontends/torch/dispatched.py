"""ATen operators below autograd, which graphs of torch.compile have and exported programs do not."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import TABLE, Call, row
from autocomp.ir.node import Node

FUSED = "_scaled_dot_product_"


def _attention(c: Call, q: Node, k: Node, v: Node, mask: Node | None, dropout: float, is_causal: bool, scale: float | None) -> Any:
    """The result alone: what a way back reads is computed by the operator that computes it there."""
    if c.read - {0}:
        raise c.refuse("its sums of exponentials are read", "torch's own way back reads them")
    y = TABLE["scaled_dot_product_attention"](c, q, k, v, mask, dropout, is_causal, scale, True)
    return (y, *[None] * (len(c.outs) - 1))


@row(f"{FUSED}flash_attention_for_cpu")
def _on_cpu(c: Call, q: Node, k: Node, v: Node, dropout: float = 0.0, is_causal: bool = False, attn_mask: Node | None = None,
            scale: float | None = None) -> Any:  # fmt: skip
    return _attention(c, q, k, v, attn_mask, dropout, is_causal, scale)


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
