"""ATen operators with products: matrix products, attention, convolutions, and the windows and norms beside them."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import Call, row
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, F32, F64, I64


@row("mm", "bmm", "matmul")
def _matmul(c: Call, a: Node, b: Node) -> Node:
    assert c.out is not None
    a2 = c.op("reshape", a, shape=(1, *a.type.shape)) if a.type.rank == 1 else a
    b2 = c.op("reshape", b, shape=(*b.type.shape, 1)) if b.type.rank == 1 else b
    y = c.op("matmul", a2, b2)
    return y if y.type.shape == c.out.shape else c.op("reshape", y, shape=c.out.shape)


@row("addmm", "baddbmm")
def _addmm(c: Call, bias: Node, a: Node, b: Node, beta: float = 1, alpha: float = 1) -> Node:
    y = c.op("matmul", a, b)
    y = y if alpha == 1 else c.op("mul", y, c.b.const(alpha, y.type.dtype))
    if beta == 0:  # the bias is not read: it may be anything
        return y
    bias = bias if beta == 1 else c.op("mul", bias, c.b.const(beta, y.type.dtype))
    return c.op("add", y, bias)


@row("linear")
def _linear(c: Call, x: Node, w: Node, bias: Node | None = None) -> Node:
    y = c.op("matmul", x, c.op("transpose", w, perm=(1, 0)))
    return y if bias is None else c.op("add", y, bias)


@row("scaled_dot_product_attention")
def _attention(c: Call, q: Node, k: Node, v: Node, mask: Node | None = None, dropout: float = 0.0, is_causal: bool = False,
               scale: float | None = None, enable_gqa: bool = False) -> Node:  # fmt: skip
    if dropout:
        raise c.refuse(f"drops out {dropout} of the weights", "export the model in eval mode")
    d = q.type.dtype
    if enable_gqa and k.type.shape[-3] != q.type.shape[-3]:
        k, v = (_repeated(c, x, q) for x in (k, v))
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
    return c.op("where", _attends(c, mask, y.type.rank), y, c.b.const(0, d))


def _attends(c: Call, mask: Node, rank: int) -> Node:
    """Whether a query has a key at all, [.., queries, 1]: torch gives those without one 0, as padding on the left makes them."""
    seen = mask if mask.type.dtype == BOOL else c.op("ne", mask, c.b.const(float("-inf"), mask.type.dtype))
    found = c.op("reduce_any", seen, axes=(seen.type.rank - 1,), keepdims=True)
    return c.op("reshape", found, shape=(*[1] * (rank - found.type.rank), *found.type.shape))


def _repeated(c: Call, x: Node, q: Node) -> Node:
    """Each head of x as often as q has heads for it."""
    *batch, heads, n, e = x.type.shape
    times = int(q.type.shape[-3]) // int(heads)  # type: ignore[arg-type]
    x = c.op("broadcast", c.op("reshape", x, shape=(*batch, heads, 1, n, e)), shape=(*batch, heads, times, n, e))
    return c.op("reshape", x, shape=(*batch, int(heads) * times, n, e))  # type: ignore[arg-type]


@row("convolution", "conv1d", "conv2d", "conv3d")
def _conv(c: Call, x: Node, w: Node, bias: Node | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, *rest: Any) -> Node:
    n = x.type.rank - 2
    wide = lambda v: _window(x, v)[0]
    if isinstance(padding, str):
        raise c.refuse(f"pads by '{padding}'")
    transposed = c.name == "convolution" and bool(rest[0])
    if transposed:
        raise c.refuse("is transposed")
    groups = rest[2] if c.name == "convolution" else (rest[0] if rest else 1)
    y = c.op("conv", x, w, strides=wide(stride), lo=wide(padding), hi=wide(padding), dilations=wide(dilation), groups=groups)
    return y if bias is None else c.op("add", y, c.op("reshape", bias, shape=(*bias.type.shape, *[1] * n)))


@row("_native_batch_norm_legit_no_training", "batch_norm")
def _batch_norm(c: Call, x: Node, w: Node | None, b: Node | None, mean: Node, var: Node, *rest: Any) -> Any:
    if c.name == "batch_norm" and rest[0]:
        raise c.refuse("is training", "export the model in eval mode")
    eps = rest[-1] if c.name != "batch_norm" else rest[2]
    shape = (x.type.shape[1],)
    one = lambda v, fill: c.op("broadcast", c.b.const(fill, mean.type.dtype), shape=shape) if v is None else v
    y = c.op("batch_norm", x, one(w, 1), one(b, 0), mean, var, eps=eps)
    return y if c.name == "batch_norm" else (y, None, None)


@row("native_layer_norm", "layer_norm")
def _layer_norm(c: Call, x: Node, shape: list[int], w: Node | None = None, b: Node | None = None, eps: float = 1e-5, *_: Any) -> Any:
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    own = x.type.shape[x.type.rank - len(shape) :]
    one = lambda v, fill: c.op("broadcast", c.b.const(fill, x.type.dtype), shape=own) if v is None else v
    y = c.op("layer_norm", x, one(w, 1), one(b, 0), axes=axes, eps=eps)
    return y if c.name == "layer_norm" else (y, None, None)


@row("rms_norm")
def _rms_norm(c: Call, x: Node, shape: list[int], w: Node | None = None, eps: float | None = None) -> Node:
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    w = c.op("broadcast", c.b.const(1, x.type.dtype), shape=x.type.shape[axes[0] :]) if w is None else w
    own = F64.eps if x.type.dtype == F64 else F32.eps  # torch's default: of the type that it computes in
    return c.op("rms_norm", x, w, axes=axes, eps=own if eps is None else eps)


def _window(x: Node, *values: Any) -> list[tuple[int, ...]]:
    """Each value once a spatial dimension."""
    n = x.type.rank - 2
    lists = [list(v) if isinstance(v, (list, tuple)) else [v] for v in values]
    return [tuple(v * n if len(v) == 1 else v) for v in lists]


@row("max_pool2d_with_indices", "max_pool2d", "max_pool1d")
def _max_pool(c: Call, x: Node, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    if ceil_mode:
        raise c.refuse("rounds its size up")
    k, s, p, d = _window(x, kernel, stride or kernel, padding, dilation)
    y = c.op("maxpool", x, window=k, strides=s, lo=p, hi=p, dilations=d)
    return (y, None) if c.name.endswith("indices") else y


@row("avg_pool2d", "avg_pool1d")
def _avg_pool(c: Call, x: Node, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, include: bool = True,
              divisor: Any = None) -> Node:  # fmt: skip
    if ceil_mode or divisor is not None:
        raise c.refuse("rounds its size up or has a divisor of its own")
    k, s, p = _window(x, kernel, stride or kernel, padding)
    return c.op("avgpool", x, window=k, strides=s, lo=p, hi=p, dilations=(1,) * len(k), count_include_pad=include)


@row("_adaptive_avg_pool2d", "adaptive_avg_pool2d")
def _adaptive(c: Call, x: Node, size: Any) -> Node:
    n = x.type.rank
    sizes = tuple(size) if isinstance(size, (list, tuple)) else (size,) * 2
    if sizes == (1, 1):
        return c.op("reduce_mean", x, axes=(n - 2, n - 1), keepdims=True)
    shape = [int(d) for d in x.type.shape[-2:]]  # type: ignore[arg-type]
    if any(a % b for a, b in zip(shape, sizes)):
        raise c.refuse(f"pools {shape} to {list(sizes)} with windows of several sizes")
    k = tuple(a // b for a, b in zip(shape, sizes))
    return c.op("avgpool", x, window=k, strides=k, lo=(0, 0), hi=(0, 0), dilations=(1, 1))
