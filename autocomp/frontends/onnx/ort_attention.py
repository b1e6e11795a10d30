"""Attention of onnxruntime's own domain, of transformers and of language models with a cache of keys.

Each is lowered to products, a softmax and selects; rules fuse again what pays. Semantics: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.pointwise import cast
from autocomp.frontends.onnx.registry import ORT, lower
from autocomp.frontends.onnx.shapes import cut, reshape
from autocomp.ir.node import Node
from autocomp.ir.types import I64


@lower("Attention", domain=ORT)
def attention(c: Call) -> tuple[Node, ...]:
    """Operands: x [B, S, D], weights [D, 3 H], bias or absent, a mask or absent (0 and 1 as [B, T], [B, S, T], [B, 1, T, T], or lengths
    [B]), keys and values of before [2, B, N, P, h] or absent, what is added to scores or absent. Results: [B, S, H], and the keys and
    values of before with the new ones behind, [2, B, N, P + S, h]."""
    if c.has(6) or c.flag("past_present_share_buffer", 0) or c.int_attr("do_rotary", 0):
        c.refuse("shares the memory of its cache, or has rotary embeddings inside", hint="export with separate operators")
    x = c.op("matmul", c.x(0), c.x(1))
    x = c.op("add", x, c.x(2)) if c.has(2) else x
    total = c.shape(x)[-1]
    sizes = c.ints_attr("qkv_hidden_sizes", (total // 3,) * 3) or ()
    at = [0, sizes[0], sizes[0] + sizes[1], sum(sizes)]
    q, k, v = (_heads(c, cut(c, x, {2: (at[i], at[i + 1], 1)}), c.int_attr("num_heads")) for i in range(3))
    if c.has(4):
        past = [reshape(c, cut(c, c.x(4), {0: (i, i + 1, 1)}), c.x(4).type.shape[1:]) for i in range(2)]
        k, v = (c.op("concat", p, x, axis=2) for p, x in zip(past, (k, v), strict=True))
    y = _weighted(c, q, k, v, 3, 5)
    return (y, c.op("concat", *(reshape(c, x, (1, *x.type.shape)) for x in (k, v)), axis=0)) if c.n_outputs > 1 else (y,)


@lower("MultiHeadAttention", domain=ORT)
def multi_head_attention(c: Call) -> tuple[Node, ...]:
    """Operands: query [B, S, H], or all three as [B, S, N, 3, h]; key and value [B, L, H] or as [B, N, L, h], or both as [B, L, N, 2, h];
    a bias of the three [3 H] or absent, a mask of keys or absent, what is added to scores or absent, keys and values of before
    [B, N, P, h] or absent. Results: [B, S, H], and the keys and values of before with the new ones behind, [B, N, P + L, h]."""
    if c.has(8) or c.has(9) or c.n_outputs > 3:
        c.refuse("shares the memory of its cache (past_sequence_length, cache_indirection) or gives its scores",
                 hint="export with past_key and past_value of the length that they have")  # fmt: skip
    if c.has(6) != c.has(7):
        c.broken("has one of past_key and past_value")
    heads, xs = c.int_attr("num_heads"), [c.x(0), c.maybe(1), c.maybe(2)]
    if xs[0] is not None and xs[0].type.rank == 5 and xs[1] is None and xs[2] is None:
        xs = _apart(c, xs[0], 3)
    elif xs[1] is not None and xs[1].type.rank == 5 and xs[2] is None:
        xs = [xs[0], *_apart(c, xs[1], 2)]
    if any(x is None or x.type.rank not in (3, 4) for x in xs):
        c.refuse(f"has operands {', '.join(str(x.type) if x is not None else 'none' for x in xs)}",
                 hint="query [batch, steps, width], key and value alike or as [batch, heads, steps, width of a head]")  # fmt: skip
    q, k, v = (x for x in xs if x is not None)
    if c.has(3):
        if not q.type.rank == k.type.rank == v.type.rank == 3:
            c.refuse("adds a bias to packed operands, or to keys and values by heads", hint="add it in front")
        at = np.cumsum([0, *[c.shape(x)[-1] for x in (q, k, v)]]).tolist()
        q, k, v = (c.op("add", x, cut(c, c.x(3), {0: (at[i], at[i + 1], 1)})) for i, x in enumerate((q, k, v)))
    q, k, v = (_heads(c, x, heads) if x.type.rank == 3 else x for x in (q, k, v))
    if c.has(6):
        k, v = (c.op("concat", c.x(i), x, axis=2) for i, x in ((6, k), (7, v)))
    return (_weighted(c, q, k, v, 4, 5), k, v)[: max(1, c.n_outputs)]


def _apart(c: Call, x: Node, parts: int) -> list[Node | None]:
    """[B, S, N, parts, h] as so many of [B, N, S, h]."""
    batch, steps, heads, n, width = x.type.shape
    if n != parts:
        c.broken(f"packs {n} tensors in {x.type}, {parts} are expected")
    each = [reshape(c, cut(c, x, {3: (i, i + 1, 1)}), (batch, steps, heads, width)) for i in range(parts)]
    return [c.op("transpose", y, perm=(0, 2, 1, 3)) for y in each]


def _heads(c: Call, x: Node, heads: int) -> Node:
    """[B, S, H] as [B, N, S, h]."""
    if not isinstance(x.type.shape[2], int) or x.type.shape[2] % heads:
        c.broken(f"the width of {x.type} is no {heads} heads")
    return c.op("transpose", reshape(c, x, (*x.type.shape[:2], heads, x.type.shape[2] // heads)), perm=(0, 2, 1, 3))


def _weighted(c: Call, q: Node, k: Node, v: Node, mask: int, added: int) -> Node:
    """softmax(q k' * scale + mask) v of [B, N, S, h], [B, N, T, h], [B, N, T, w], as [B, S, N w]."""
    (batch, heads, steps, width), wide = q.type.shape, v.type.shape[3]
    if not isinstance(heads, int) or not isinstance(width, int) or not isinstance(wide, int):
        c.broken(f"heads of {q.type} and {v.type} are of no known width")
    scores = c.op("matmul", q, c.op("transpose", k, perm=(0, 1, 3, 2)))
    scores = c.op("mul", scores, c.float_attr("scale", 0.0) or 1 / sqrt(width))
    if c.has(mask):
        scores = c.op("where", _kept(c, c.x(mask), scores), scores, c.float_attr("mask_filter_value", -10000.0))
    if c.flag("unidirectional", 0):
        scores = c.op("where", _before(c, scores), scores, float("-inf"))
    if c.has(added):
        scores = c.op("add", scores, c.x(added))
    y = c.op("matmul", c.op("softmax", scores, axes=(3,)), v)
    return reshape(c, c.op("transpose", y, perm=(0, 2, 1, 3)), (batch, steps, heads * wide))


def _kept(c: Call, mask: Node, scores: Node) -> Node:
    """Where a mask of onnxruntime lets keys through, shaped to go with scores [B, heads, S, T]."""
    batch, _, _, keys = scores.type.shape
    shape = mask.type.shape
    if mask.type.rank == 1 and shape == (batch,):
        at = c.importer.node("iota", [], {"shape": (1, keys), "axis": 1})
        kept = c.op("lt", cast(c, at, mask.type.dtype), reshape(c, mask, (batch, 1)))
    elif mask.type.rank in (2, 3, 4) and shape[-1] == keys:
        kept = c.op("ne", mask, 0)
    else:
        c.refuse(f"has a mask {mask.type} beside scores {scores.type}", hint="masks of [B], [B, T], [B, S, T] and [B, 1, S, T] are done")
    if mask.type.rank == 4:
        return kept
    return reshape(c, kept, (batch, 1, kept.type.shape[1] if mask.type.rank == 3 else 1, keys))


def _before(c: Call, scores: Node) -> Node:
    """bool [S, T]: key t is no later than query s, the last query being the last key."""
    steps, keys = c.shape(scores)[2:]
    row = c.importer.node("iota", [], {"shape": (steps, keys), "axis": 0})
    column = c.importer.node("iota", [], {"shape": (steps, keys), "axis": 1})
    return c.op("le", column, c.op("add", row, keys - steps))


@lower("RotaryEmbedding", domain=ORT)
def rotary_embedding(c: Call) -> Node:
    """Operands: x [B, S, H] or [B, N, S, h], positions [1] or [B, S], tables of cosines and sines [P, r / 2]."""
    x, places = c.x(0), c.x(1)
    turned = c.int_attr("rotary_embedding_dim", 0) or 2 * c.shape(c.x(2))[1]
    whole = x.type.shape
    if x.type.rank == 3:
        many = c.int_attr("num_heads", 0) or (c.shape(x)[2] // turned if not c.int_attr("rotary_embedding_dim", 0) else 0)
        if many < 1 or c.shape(x)[2] % many:
            c.broken(f"num_heads {many} does not divide the width of {x.type}")
        x = reshape(c, x, (*whole[:2], many, c.shape(x)[2] // many))
    elif x.type.rank == 4:
        x = c.op("transpose", x, perm=(0, 2, 1, 3))
    else:
        c.broken(f"turns {x.type}; it takes ranks 3 and 4")
    batch, steps = x.type.shape[:2]
    if places.type.elements == 1 and (batch, steps) != (1, 1):
        at = c.importer.node("iota", [], {"shape": (1, steps), "axis": 1})
        places = c.op("add", cast(c, at, places.type.dtype), reshape(c, places, ()))
    y = _turned(c, x, places, c.x(2), c.x(3), c.flag("interleaved", 0))
    return reshape(c, y, whole) if len(whole) == 3 else c.op("transpose", y, perm=(0, 2, 1, 3))


def _turned(c: Call, x: Node, places: Node, cos: Node, sin: Node, interleaved: bool) -> Node:
    """x [B, S, N, h] with the first elements of each head turned by the angles of its position (`places` [B or 1, S])."""
    batch, steps, heads, width = x.type.shape
    half = c.shape(cos)[1]
    spread = lambda t: reshape(c, v := c.op("gather", t, places, axis=0), (*v.type.shape[:2], 1, half))
    cos, sin = spread(cos), spread(sin)
    if interleaved:
        pair = reshape(c, cut(c, x, {3: (0, 2 * half, 1)}), (batch, steps, heads, half, 2))
        one, two = (reshape(c, cut(c, pair, {4: (i, i + 1, 1)}), (batch, steps, heads, half)) for i in (0, 1))
    else:
        one, two = cut(c, x, {3: (0, half, 1)}), cut(c, x, {3: (half, 2 * half, 1)})
    real = c.op("sub", c.op("mul", one, cos), c.op("mul", two, sin))
    other = c.op("add", c.op("mul", two, cos), c.op("mul", one, sin))
    if interleaved:
        parts = [reshape(c, v, (batch, steps, heads, half, 1)) for v in (real, other)]
        y = reshape(c, c.op("concat", *parts, axis=4), (batch, steps, heads, 2 * half))
    else:
        y = c.op("concat", real, other, axis=3)
    return y if 2 * half == width else c.op("concat", y, cut(c, x, {3: (2 * half, width, 1)}), axis=3)


@lower("GroupQueryAttention", domain=ORT)
def group_query_attention(c: Call) -> tuple[Node, Node, Node]:
    """Operands: query [B, S, N h] (with keys and values behind it where those are absent), key, value [B, S, K h], the cache of both
    [B, K, P, h] or absent, lengths less one [B], the longest length, tables of cosines and sines or absent. Results: [B, S, N h], and the
    cache with the new keys and values where each row's old ones end.

    The longest length must be known while compiling: how long the new cache is depends on it."""
    heads, kept = c.int_attr("num_heads"), c.int_attr("kv_num_heads")
    if c.has(9) or c.has(10) or c.int_attr("smooth_softmax", 0) or heads % kept:
        c.refuse("has positions, a bias or a smooth softmax of its own", hint="export without position_ids, attention_bias, smooth_softmax")
    q = c.x(0)
    width = c.shape(q)[2] // (heads if c.has(1) else heads + 2 * kept)
    ends = [0, heads * width, (heads + kept) * width, (heads + 2 * kept) * width]
    q, k, v = (c.x(0), c.x(1), c.x(2)) if c.has(1) else (cut(c, q, {2: (ends[i], ends[i + 1], 1)}) for i in range(3))
    batch, steps = c.shape(q)[:2]
    q, k, v = (reshape(c, x, (batch, steps, n, width)) for x, n in ((q, heads), (k, kept), (v, kept)))
    past = c.shape(c.x(3))[2] if c.has(3) else 0
    keys = max(past, c.static_int(6))
    if past and keys - past not in (0, steps):
        c.broken(f"the longest length {keys} is neither that of its cache, {past}, nor {steps} more")
    length = cast(c, c.x(5), I64)  # of what each row holds with the new steps, less one
    before = c.op("sub", length, steps - 1) if past else c.importer.builder.const(0, I64)
    before = reshape(c, before, (batch, 1)) if past else before
    place = c.op("add", cast(c, c.importer.node("iota", [], {"shape": (1, steps), "axis": 1}), I64), before)  # [B or 1, S]
    if c.flag("do_rotary", 0):
        q, k = (_turned(c, x, place, c.x(7), c.x(8), c.flag("rotary_interleaved", 0)) for x in (q, k))
    at = cast(c, c.importer.node("iota", [], {"shape": (1, keys), "axis": 1}), I64)
    k, v = (_joined(c, c.x(i) if past else None, c.op("transpose", x, perm=(0, 2, 1, 3)), at, before, keys) for i, x in ((3, k), (4, v)))
    group = heads // kept
    q = reshape(c, c.op("transpose", q, perm=(0, 2, 1, 3)), (batch, kept, group * steps, width))
    scores = c.op("mul", c.op("matmul", q, c.op("transpose", k, perm=(0, 1, 3, 2))), c.float_attr("scale", 0.0) or 1 / sqrt(width))
    if cap := c.float_attr("softcap", 0.0):
        scores = c.op("mul", c.op("tanh", c.op("div", scores, cap)), cap)
    scores = reshape(c, scores, (batch, kept, group, steps, keys))
    apart = c.op("sub", reshape(c, place, (*place.type.shape, 1)), reshape(c, at, (1, 1, keys)))  # [B or 1, S, T]: how far a key lies back
    seen = c.op("ge", apart, 0)
    if (window := c.int_attr("local_window_size", -1)) > 0:
        seen = c.op("and", seen, c.op("lt", apart, window))
    seen = reshape(c, seen, (seen.type.shape[0], 1, 1, steps, keys))
    weights = c.op("softmax", c.op("where", seen, scores, float("-inf")), axes=(4,))
    y = c.op("matmul", reshape(c, weights, (batch, kept, group * steps, keys)), v)
    y = c.op("transpose", reshape(c, y, (batch, heads, steps, width)), perm=(0, 2, 1, 3))
    return reshape(c, y, (batch, steps, heads * width)), k, v


def _joined(c: Call, past: Node | None, new: Node, at: Node, before: Node, keys: int) -> Node:
    """[B, K, T, h]: of each row what its cache holds `before` the new steps, and those."""
    if past is None:
        return new if new.type.shape[2] == keys else c.op("pad", new, lo=(0,) * 4, hi=(0, 0, keys - c.shape(new)[2], 0))
    old, steps = c.shape(past)[2], c.shape(new)[2]
    wide = past if old == keys else c.op("pad", past, lo=(0,) * 4, hi=(0, 0, keys - old, 0))
    batch, heads, _, width = c.shape(new)
    where = c.op("sub", at, before)  # [B, T]: which of the new steps
    inside = c.op("and", c.op("ge", where, 0), c.op("lt", where, steps))
    if steps == 1:
        spread = c.op("broadcast", new, shape=wide.type.shape)
    else:
        index = c.op("min", c.op("max", where, 0), steps - 1)
        index = c.op("broadcast", reshape(c, index, (batch, 1, keys, 1)), shape=(batch, heads, keys, width))
        spread = c.op("gather_elements", new, index, axis=2)
    return c.op("where", reshape(c, inside, (batch, 1, keys, 1)), spread, wide)
