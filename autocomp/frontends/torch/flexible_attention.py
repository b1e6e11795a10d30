"""torch's flex_attention: attention whose scores one function of the user's changes and another masks, each of a score and its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.frontends.torch.call import Call
from autocomp.frontends.torch.control import OPERATORS, Reading, given, graph_of
from autocomp.frontends.torch.products import repeated_heads
from autocomp.frontends.torch.sizes import is_size
from autocomp.ir.types import DTYPES


def flex_attention(r: Reading, node: Any, where: str) -> tuple[Any, ...]:
    """(results, logarithms to base 2 of the sums of weights, largest scores to that base), as torch computes it without a compiler: the
    mask's function says what is left out, its table of blocks is not read. Raises UnsupportedOp for sizes that are symbols."""
    q, k, v = (r.values[x] for x in node.args[:3])
    scale, beside = node.args[5], [*node.args[7], *node.args[8]]
    out = r.tensor_type(node.meta["val"][0], node)
    c = Call(r.b, "flex_attention", out, where)
    d, last = DTYPES["f64" if q.type.dtype.name == "f64" else "f32"], (3,)
    if k.type.shape[1] != q.type.shape[1]:
        k, v = (repeated_heads(c, x, q) for x in (k, v))
    s = c.op("matmul", c.cast(q, d), c.op("transpose", c.cast(k, d), perm=(0, 1, 3, 2)))
    s = c.op("mul", s, c.b.const(float(scale), d))
    (s,) = r.branch(_changed(node, s.type.shape, where), [s, *given(r, beside)])
    least = c.b.const(float("-inf"), d)
    found = c.op("reduce_any", c.op("ne", s, least), axes=last, keepdims=True)
    y = c.op("matmul", c.cast(c.op("softmax", s, axes=last), out.dtype), c.cast(v, out.dtype))
    y = c.op("where", found, y, c.b.const(0, out.dtype))
    most = c.op("reduce_max", s, axes=last)
    base = c.op("where", c.op("ne", most, least), most, c.b.const(0, d))
    total = c.op("reduce_sum", c.op("exp", c.op("sub", s, c.op("reshape", base, shape=(*base.type.shape, 1)))), axes=last)
    to_two = c.b.const(1 / math.log(2), d)
    return y, c.op("mul", c.op("add", c.op("log", total), base), to_two), c.op("mul", most, to_two)


def _changed(node: Any, shape: Sequence[Any], where: str) -> Any:
    """A graph of ATen's operators from all scores (and what both functions read beside them) to what is left of them: torch maps the
    functions, which are of one score, over their four dimensions."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    score, mask = (graph_of(node, side) for side in (node.args[3], node.args[4][-1]))
    others, masks = node.args[7], node.args[8]
    read = [x.meta["val"] if hasattr(x, "meta") else x for x in (*others, *masks)]
    q = node.args[0].meta["val"]
    if any(map(is_size, (*shape, *q.shape, *read, *(n for x in read if hasattr(x, "shape") for n in x.shape)))):
        raise UnsupportedOp("flex_attention of sizes that are symbols", where=where, hint="fix the dimensions")
    none = lambda n: (None,) * n
    of_all: Callable[..., Any] = _vmap_for_bhqkv(score, prefix=(0,), suffix=none(len(others)))
    kept: Callable[..., Any] = _vmap_for_bhqkv(mask, prefix=(), suffix=none(len(masks)))

    def changed(scores: Any, *beside: Any) -> Any:
        places = [torch.arange(n, device=scores.device) for n in shape]
        new = of_all(scores, *places, *beside[: len(others)])
        left = torch.full((), -torch.inf, dtype=scores.dtype, device=scores.device)
        return torch.where(kept(*places, *beside[len(others) :]), new, left)

    with q.fake_mode:
        scores = torch.empty(tuple(shape), dtype=torch.float64 if q.dtype == torch.float64 else torch.float32, device=q.device)
        return make_fx(changed)(scores, *read)


OPERATORS["flex_attention"] = flex_attention
