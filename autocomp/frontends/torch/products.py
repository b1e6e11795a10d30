"""ATen operators with products: matrix products and attention."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import Call, row
from autocomp.frontends.torch.ordering import at_or_below
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, F32, FLOATS_8, I64


@row("mm", "bmm", "matmul")
def _matmul(c: Call, a: Node, b: Node) -> Node:
    assert c.out is not None
    a2 = c.op("reshape", a, shape=(1, *a.type.shape)) if a.type.rank == 1 else a
    b2 = c.op("reshape", b, shape=(*b.type.shape, 1)) if b.type.rank == 1 else b
    y = c.op("matmul", a2, b2)
    return y if y.type.shape == c.out.shape else c.op("reshape", y, shape=c.out.shape)


@row("_int_mm")
def _int_product(c: Call, a: Node, b: Node) -> Node:
    """Bytes by bytes, summed in 32 bits."""
    return c.op("matmul", c.op("cast", a, to="i32"), c.op("cast", b, to="i32"))


@row("_scaled_mm")
def _scaled_product(c: Call, a: Node, b: Node, scale_a: Node, scale_b: Node, bias: Node | None = None, scale_result: Node | None = None,
                    out_dtype: Any = None, use_fast_accum: bool = False) -> Node:  # fmt: skip
    """8-bit floats by 8-bit floats, summed in f32, times one scale of each factor, or one a row [m, 1] and one a column [1, n]."""
    assert c.out is not None
    m, n = c.out.shape
    if scale_result is not None or c.out.dtype in FLOATS_8:
        raise c.refuse(f"a result of {c.out.dtype}, or with a scale of its own,", "ask for out_dtype=torch.bfloat16 and cast it")
    y = c.op("matmul", c.cast(a, F32), c.cast(b, F32))
    for scale, rows in ((scale_a, (m, 1)), (scale_b, (1, n))):
        if scale.type.dtype != F32 or scale.type.shape not in ((), (1,), (1, 1), rows):
            raise c.refuse(f"scales {scale.type} of factors {a.type} and {b.type}", f"scales are f32[1], or f32{list(rows)} here")
        y = c.op("mul", y, scale if scale.type.shape == rows else c.op("reshape", scale, shape=()))
    return c.cast(y if bias is None else c.op("add", y, c.cast(bias, F32)), c.out.dtype)


@row("addmm", "baddbmm")
def _addmm(c: Call, bias: Node, a: Node, b: Node, beta: float = 1, alpha: float = 1) -> Node:
    return _plus(c, bias, c.op("matmul", a, b), beta, alpha)


@row("addmv")
def _addmv(c: Call, bias: Node, a: Node, v: Node, beta: float = 1, alpha: float = 1) -> Node:
    assert c.out is not None
    column = c.op("reshape", v, shape=(*v.type.shape, 1))
    y = c.op("reshape", c.op("matmul", a, column), shape=c.out.shape)
    return _plus(c, bias, y, beta, alpha)


@row("addbmm")
def _addbmm(c: Call, bias: Node, a: Node, b: Node, beta: float = 1, alpha: float = 1) -> Node:
    """The products of a batch summed: one product whose inner dimension is that of all."""
    n, rows, inner = a.type.shape
    wide = c.op("reshape", c.op("transpose", a, perm=(1, 0, 2)), shape=(rows, n * inner))  # type: ignore[operator]
    tall = c.op("reshape", b, shape=(n * inner, b.type.shape[2]))  # type: ignore[operator]
    return _plus(c, bias, c.op("matmul", wide, tall), beta, alpha)


@row("_trilinear")
def _trilinear(c: Call, a: Node, b: Node, d: Node, *rest: Any) -> Node:
    """sum over the last lists' dimensions of the product of three operands, each given its missing dimensions as ones."""
    added, summed = rest[:3], rest[3]
    product: Node | None = None
    for x, places in zip((a, b, d), added):
        shape = list(x.type.shape)
        for k in sorted(places):
            shape.insert(k, 1)
        x = c.op("reshape", x, shape=tuple(shape))
        product = x if product is None else c.op("mul", product, x)
    assert product is not None
    return c.op("reduce_sum", product, axes=tuple(sorted(k % product.type.rank for k in summed)), keepdims=False)


def _plus(c: Call, bias: Node, y: Node, beta: float, alpha: float) -> Node:
    """beta bias + alpha y; a bias times 0 is not read."""
    y = y if alpha == 1 else c.op("mul", y, c.b.const(alpha, y.type.dtype))
    if beta == 0:
        return y
    return c.op("add", y, bias if beta == 1 else c.op("mul", bias, c.b.const(beta, y.type.dtype)))


@row("linear")
def _linear(c: Call, x: Node, w: Node, bias: Node | None = None) -> Node:
    y = c.op("matmul", x, c.op("transpose", w, perm=(1, 0)))
    return y if bias is None else c.op("add", y, bias)


@row("_grouped_mm", "transformers::grouped_mm_fallback")  # the second: what transformers registers for dtypes that the first does not take
def _grouped(c: Call, a: Node, b: Node, ends: Node | None = None, bias: Node | None = None, out_dtype: Any = None) -> Node:
    """Products of groups, of which `ends` says where each one ends along the dimension that has no dimension for them beside it: the rows
    of a (a[s] b[group of s]), the columns of b, or the inner dimension of both. What lies behind the last end is 0."""
    assert c.out is not None
    if bias is not None:
        raise c.refuse("has a bias", "add it to the product")
    wide = c.out.dtype
    if a.type.rank == 3 and b.type.rank == 3:
        return c.cast(c.op("matmul", a, b), wide)
    if ends is None:
        raise c.refuse("does not say where its groups end")
    if a.type.rank == 3:  # the columns of b: the transposed product
        turned = _of_rows(c, c.op("transpose", b, perm=(1, 0)), c.op("transpose", a, perm=(0, 2, 1)), ends)
        return c.cast(c.op("transpose", turned, perm=(1, 0)), wide)
    if b.type.rank == 3:
        return c.cast(_of_rows(c, a, b, ends), wide)
    n, groups = a.type.shape[1], ends.type.shape[0]
    mine = c.op("eq", c.op("iota", shape=(groups, 1, n), axis=0, dtype=I64.name), c.op("reshape", at_or_below(c, ends, n), shape=(1, 1, n)))
    part = c.op("where", mine, c.op("reshape", a, shape=(1, *a.type.shape)), c.b.const(0, a.type.dtype))
    return c.cast(c.op("matmul", part, c.op("broadcast", b, shape=(groups, *b.type.shape))), wide)


def _of_rows(c: Call, a: Node, b: Node, ends: Node) -> Node:
    """a[s] b[group of s], [rows, columns]: each row reads its own group's factor where it lies."""
    rows, inner = a.type.shape
    group, last = at_or_below(c, ends, rows), c.b.const(int(b.type.shape[0]) - 1, I64)  # type: ignore[arg-type]
    y = c.op("matmul", c.op("reshape", a, shape=(rows, 1, inner)), c.op("gather", b, c.op("min", group, last), axis=0))
    y = c.op("reshape", y, shape=(rows, b.type.shape[2]))
    return c.op("where", c.op("reshape", c.op("le", group, last), shape=(rows, 1)), y, c.b.const(0, y.type.dtype))


@row("scaled_dot_product_attention")
def _attention(c: Call, q: Node, k: Node, v: Node, mask: Node | None = None, dropout: float = 0.0, is_causal: bool = False,
               scale: float | None = None, enable_gqa: bool = False) -> Node:  # fmt: skip
    if dropout:
        raise c.refuse(f"drops out {dropout} of the weights", "export the model in eval mode")
    d = q.type.dtype
    if enable_gqa and k.type.shape[-3] != q.type.shape[-3]:
        k, v = (repeated_heads(c, x, q) for x in (k, v))
    rank = k.type.rank
    s = c.op("matmul", q, c.op("transpose", k, perm=(*range(rank - 2), rank - 1, rank - 2)))
    s = c.op("mul", s, c.b.const(scale if scale is not None else float(q.type.shape[-1]) ** -0.5, d))  # type: ignore[arg-type]
    if is_causal:
        i, j = (c.op("iota", shape=s.type.shape[-2:], axis=n, dtype=I64.name) for n in (0, 1))
        s = c.op("where", c.op("ge", i, j), s, c.b.const(float("-inf"), d))
    if mask is None:
        return c.op("matmul", c.op("softmax", s, axes=(s.type.rank - 1,)), v)
    s = c.op("where", mask, s, c.b.const(float("-inf"), d)) if mask.type.dtype == BOOL else c.op("add", s, c.cast(mask, d))
    y = c.op("matmul", c.op("softmax", s, axes=(s.type.rank - 1,)), v)
    # a query without any key: torch gives it 0, as padding on the left makes them
    found = c.op("reduce_any", c.op("ne", s, c.b.const(float("-inf"), d)), axes=(s.type.rank - 1,), keepdims=True)
    return c.op("where", found, y, c.b.const(0, d))


def repeated_heads(c: Call, x: Node, q: Node) -> Node:
    """Each head of x as often as q has heads for it."""
    *batch, heads, n, e = x.type.shape
    times = int(q.type.shape[-3]) // int(heads)  # type: ignore[arg-type]
    x = c.op("broadcast", c.op("reshape", x, shape=(*batch, heads, 1, n, e)), shape=(*batch, heads, times, n, e))
    return c.op("reshape", x, shape=(*batch, int(heads) * times, n, e))  # type: ignore[arg-type]
