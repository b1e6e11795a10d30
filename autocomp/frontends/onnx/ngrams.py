"""Counts of n-grams of integers (TfIdfVectorizer), of rows of known length.

    y[b, g] = sum over distances s and places i of  x[b, i] == g[0] and x[b, i + s] == g[1] and ..
"""

from __future__ import annotations

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.pointwise import cast
from autocomp.frontends.onnx.registry import lower
from autocomp.frontends.onnx.resize import chosen
from autocomp.frontends.onnx.shapes import cut, reshape
from autocomp.ir.node import Node
from autocomp.ir.types import F32, I32, I64


@lower("TfIdfVectorizer")
def tf_idf(c: Call) -> Node:
    mode, at = c.str_attr("mode"), c.ints_attr("ngram_indexes") or ()
    weights = c.floats_attr("weights")
    if mode not in ("TF", "IDF", "TFIDF"):
        c.broken(f"has mode '{mode}', which is none of TF, IDF and TFIDF")
    if weights is not None and (len(weights) != len(at) or at != tuple(range(len(at)))):
        c.refuse("has weights and n-grams that are not stored in the order of the pool", hint="order ngram_indexes as the pool is")
    grams, size = _grams(c), 1 + max(at, default=-1)
    if sum(map(len, grams.values())) != len(at) or len(set(at)) != len(at) or min(at, default=0) < 0:
        c.refuse(f"stores {sum(map(len, grams.values()))} n-grams at {len(set(at))} places", hint="give each its own place")
    x = cast(c, c.x() if c.x().type.rank == 2 else reshape(c, c.x(), (1, c.x().type.elements)), I64)
    counts = [_counted(c, x, np.array(pool, np.int64).reshape(len(pool), n)) for n, pool in grams.items() if pool]
    none = c.op("broadcast", c.const(0.0, F32), shape=(x.type.shape[0], 1))  # where no n-gram is stored
    where = np.full(size, len(at))
    where[list(at)] = np.arange(len(at))
    y = chosen(c, c.op("concat", *counts, none, axis=1), 1, where)
    if mode == "IDF":
        y = cast(c, c.op("gt", y, 0.0), F32)
    if mode != "TF" and weights is not None:
        y = c.op("mul", y, c.array(weights, F32))
    return y if c.x().type.rank == 2 else reshape(c, y, (size,))


def _grams(c: Call) -> dict[int, list[tuple[int, ...]]]:
    """The pool's n-grams by n, in its order."""
    if c.strs_attr("pool_strings"):
        c.refuse("computes with strings", hint="move it before the model")
    pool, starts = c.ints_attr("pool_int64s") or (), c.ints_attr("ngram_counts") or ()
    out: dict[int, list[tuple[int, ...]]] = {}
    for n, (start, end) in enumerate(zip(starts, (*starts[1:], len(pool))), start=1):
        if not 0 <= start <= end <= len(pool) or (end - start) % n:
            c.broken(f"has {n}-grams from {start} to {end} of a pool of {len(pool)}")
        out[n] = [pool[k : k + n] for k in range(start, end, n)]
        if len(set(out[n])) != len(out[n]):
            c.refuse(f"has a {n}-gram twice", hint="leave the second one out of the pool")
    return out


def _counted(c: Call, x: Node, pool: np.ndarray) -> Node:
    """How often each row of x has each n-gram, f32[rows, n-grams]; none of those that are shorter or longer than asked for."""
    (rows, length), (many, n) = x.type.shape, pool.shape
    (length,) = c.shape(x)[1:]
    asked = c.int_attr("min_gram_length") <= n <= c.int_attr("max_gram_length")
    distances = range(1, 2 + (c.int_attr("max_skip_count") if n > 1 else 0)) if asked else ()  # one number has no distance
    total = c.op("broadcast", c.const(0, I32), shape=(rows, many))
    for s in distances:
        places = length - (n - 1) * s
        if places <= 0:
            break
        check_table(places * many, c.where)
        here = None
        for k in range(n):
            part = cut(c, x, {1: (k * s, k * s + places, 1)})
            same = c.op("eq", reshape(c, part, (rows, places, 1)), c.array(pool[:, k], I64))
            here = same if here is None else c.op("and", here, same)
        assert here is not None
        total = c.op("add", total, c.op("reduce_sum", cast(c, here, I32), axes=(1,), keepdims=False))
    return cast(c, total, F32)
