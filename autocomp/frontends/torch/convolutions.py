"""ATen's convolutions, also transposed ones, of any number of spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autocomp.frontends.torch.call import Call, per_axis, row
from autocomp.frontends.torch.views import sliced
from autocomp.ir.node import Node
from autocomp.ir.sizes import content, product
from autocomp.ir.types import I64, Dim, Sym


@row("convolution", "conv1d", "conv2d", "conv3d")
def _conv(c: Call, x: Node, w: Node, bias: Node | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, *rest: Any) -> Node:
    n = w.type.rank - 2
    if isinstance(padding, str):
        raise c.refuse(f"pads by '{padding}'")
    strides, pads, dilations = (per_axis(n, v) for v in (stride, padding, dilation))
    groups = rest[2] if c.name == "convolution" else (rest[0] if rest else 1)
    turned = c.name == "convolution" and rest[0]
    if isinstance(groups, Sym) and turned:
        raise c.refuse(f"spreads windows of {groups} groups", "fix the dimension")
    if not w.type.is_static:
        y = (_spread_of_open if turned else _of_open_weights)(c, x, w, strides, pads, dilations, groups)
    elif c.name == "convolution" and rest[0]:
        hi = tuple(p - more for p, more in zip(pads, per_axis(n, rest[1])))
        y = c.op("conv_transpose", x, w, strides=strides, lo=pads, hi=hi, dilations=dilations, groups=groups)
    else:
        y = c.op("conv", x, w, strides=strides, lo=pads, hi=pads, dilations=dilations, groups=groups)
    return y if bias is None else c.op("add", y, c.op("reshape", bias, shape=(*bias.type.shape, *[1] * n)))


def _of_open_weights(c: Call, x: Node, w: Node, s: Any, p: Any, d: Any, groups: Any) -> Node:
    """y[b, g, o, ..] = sum over i and taps of x[b, g, i, ..] w[g, o, i, ..], of open channels, or groups as where each sample has weights
    of its own: a product with the windows of x."""
    assert c.out is not None
    batch, out = x.type.shape[0], c.out.shape[2:]
    many, each, *kernel = w.type.shape
    x = c.op("pad", x, lo=(0, 0, *p), hi=(0, 0, *p), value=0.0)
    windows = _with_windows(c, c.op("reshape", x, shape=(batch, groups, each, *x.type.shape[2:])), out, kernel, s, d)
    by = c.op("reshape", w, shape=(groups, _shared(c, many, groups), each, *kernel))
    at, taps = "xyz"[: len(out)], "uvw"[: len(out)]
    y = c.op("einsum", by, windows, spec=f"goi{taps},bgi{''.join(map(''.join, zip(at, taps)))}->bgo{at}")
    return c.op("reshape", y, shape=c.out.shape)


def _shared(c: Call, many: Dim, groups: Dim) -> Dim:
    """How many of `many` channels each group has."""
    (number, of), (by, symbols) = content(many), content(groups)
    if number % by or (symbols and of != symbols):
        raise c.refuse(f"{many} channels do not divide into {groups} groups", "fix the dimension")
    return number // by if symbols else product((number // by, *of))


def _spread_of_open(c: Call, x: Node, w: Node, s: Any, p: Any, d: Any, groups: int) -> Node:
    """The transposed one of open channels: y[b, g, o, q] = sum over i and taps k of x[b, g, i, (q + p - k d) / s] w[g, i, o, k] where
    that is a place of x."""
    assert c.out is not None
    batch, many, *sizes = x.type.shape
    each, kernel, out = _shared(c, many, groups), w.type.shape[2:], c.out.shape[2:]
    number = lambda v: c.b.const(v, I64)
    y = c.op("reshape", x, shape=(batch, groups, each, *sizes))
    for j, (place, k) in enumerate(zip(out, kernel)):
        iota = lambda axis, shape: c.op("iota", shape=shape, axis=axis, dtype=I64.name)
        q = c.op("sub", c.op("add", iota(0, (place, k)), number(p[j])), c.op("mul", iota(1, (place, k)), number(d[j])))
        length, at = c.op("extent", x, axis=2 + j, dtype=I64.name), c.op("floordiv", q, number(s[j]))
        inside = c.op("and", c.op("ge", at, number(0)), c.op("lt", at, length))
        inside = c.op("and", inside, c.op("eq", c.op("mul", at, number(s[j])), q))
        at = c.op("min", c.op("max", at, number(0)), c.op("sub", length, number(1)))
        y = c.op("gather", y, at, axis=3 + 2 * j)
        inside = c.op("reshape", inside, shape=(place, k, *[1] * (len(sizes) - 1 - j)))
        y = c.op("where", inside, y, c.b.const(0, y.type.dtype))
    by = c.op("reshape", w, shape=(groups, each, *w.type.shape[1:]))
    axes, taps = "xyz"[: len(out)], "uvw"[: len(out)]
    y = c.op("einsum", by, y, spec=f"gio{taps},bgi{''.join(map(''.join, zip(axes, taps)))}->bgo{axes}")
    return c.op("reshape", y, shape=c.out.shape)


def _with_windows(c: Call, x: Node, outs: Sequence[Dim], kernel: Sequence[Dim], s: Sequence[int], d: Sequence[int]) -> Node:
    """x [batch, groups, channels, ..padded] with each of its last axes as (places, taps)."""
    for j, (out, k, a, e) in enumerate(zip(outs, kernel, s, d)):
        place = lambda axis, step, shape: c.op("mul", c.op("iota", shape=shape, axis=axis, dtype=I64.name), c.b.const(step, I64))
        x = c.op("gather", x, c.op("add", place(0, a, (out, k)), place(1, e, (out, k))), axis=3 + 2 * j)
    return x


@row("convolution_backward")
def _backward(c: Call, grad: Node, x: Node, w: Node, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, more: Any,
              groups: int, wanted: Any) -> tuple[Node | None, ...]:  # fmt: skip
    """The gradients of x, of the weights and of the bias: convolutions too, the first of the other direction, the second of x by the
    gradient over the batch. What is wanted and read is computed."""
    n = w.type.rank - 2
    if not w.type.is_static:
        raise c.refuse(f"is the gradient by {w.type}", "fix the dimensions of the weights")
    none = 0 in (*grad.type.shape, *x.type.shape, *w.type.shape)  # all of its products are sums of nothing
    zeros = lambda t: c.op("broadcast", c.b.const(0, t.dtype), shape=t.shape)
    s, p, d = (per_axis(n, v) for v in (stride, padding, dilation))
    gx = gw = gb = None
    if wanted[0] and 0 in c.read:
        gx = zeros(x.type) if none else _of_data(c, grad, x, w, s, p, d, transposed, groups, per_axis(n, more))
    if wanted[1] and 1 in c.read:
        large, small = (grad, x) if transposed else (x, grad)
        sums = _of_weights if large.type.is_static and small.type.is_static else _of_weights_by_windows
        gw = zeros(w.type) if none else sums(c, large, small, w, s, p, d, groups)
    if wanted[2] and 2 in c.read:
        gb = c.op("reduce_sum", grad, axes=(0, *range(2, n + 2)), keepdims=False)
    return gx, gw, gb


def _of_data(c: Call, grad: Node, x: Node, w: Node, s: Any, p: Any, d: Any, transposed: bool, groups: int, more: Any) -> Node:
    """The upper padding is what makes the result as large as x: windows need not reach its end. Of open sizes, whose remainder by a stride
    is not known, the result is made as large as any remainder asks, and cut."""
    kernel, sizes, outs = w.type.shape[2:], x.type.shape[2:], grad.type.shape[2:]
    axes = [(*of, isinstance(of[0], int) and isinstance(of[1], int)) for of in zip(sizes, outs, s, d, kernel, p, more)]
    if transposed:
        hi = tuple((m - 1) * a + e * (k - 1) + 1 - b - o if known else b - z for m, o, a, e, k, b, z, known in axes)
        return c.op("conv", grad, w, strides=s, lo=p, hi=hi, dilations=d, groups=groups)
    hi = tuple((o - 1) * a + e * (k - 1) + 1 - b - m if known else b - (a - 1) for m, o, a, e, k, b, z, known in axes)
    y = c.op("conv_transpose", grad, w, strides=s, lo=p, hi=hi, dilations=d, groups=groups)
    for j, (m, _, a, *_, known) in enumerate(axes):
        y = y if known or a == 1 else sliced(c, y, 2 + j, 0, m, 1)
    return y


def _of_weights(c: Call, large: Node, small: Node, w: Node, s: Any, p: Any, d: Any, groups: int) -> Node:
    """gw[o, i, k] = sum over n, j of small[n, o, j] large[n, i, j s + k d - p]: a convolution in which the batch is what is summed, strides
    are dilations and dilations strides."""
    batch, many, *sizes = large.type.shape
    _, _, *outs = small.type.shape
    kernel, rest = w.type.shape[2:], range(3, 3 + len(sizes))
    hi = tuple(a * (o - 1) + 1 + e * (k - 1) - m - b for m, a, e, k, b, o in zip(sizes, s, d, kernel, p, outs))
    x = c.op("reshape", large, shape=(batch, groups, many // groups, *sizes))  # type: ignore[operator]
    x = c.op("reshape", c.op("transpose", x, perm=(2, 1, 0, *rest)), shape=(many // groups, groups * batch, *sizes))  # type: ignore[operator]
    by = c.op("transpose", small, perm=(1, 0, *range(2, 2 + len(sizes))))
    y = c.op("conv", x, by, strides=d, lo=p, hi=hi, dilations=s, groups=groups)
    return c.op("transpose", y, perm=(1, 0, *range(2, 2 + len(sizes))))


def _of_weights_by_windows(c: Call, large: Node, small: Node, w: Node, s: Any, p: Any, d: Any, groups: int) -> Node:
    """The same sums for open sizes, over which no window of a convolution runs: a product of the gradient and of the windows of x."""
    batch, many, *sizes = large.type.shape
    _, few, *outs = small.type.shape
    n = len(sizes)
    x = c.op("pad", large, lo=(0, 0, *p), hi=(0, 0, *p), value=0.0)
    x = c.op("reshape", x, shape=(batch, groups, many // groups, *x.type.shape[2:]))  # type: ignore[operator]
    x = _with_windows(c, x, outs, w.type.shape[2:], s, d)
    by = c.op("reshape", small, shape=(batch, groups, few // groups, *outs))  # type: ignore[operator]
    at, taps = "xyz"[:n], "uvw"[:n]
    y = c.op("einsum", by, x, spec=f"bgo{at},bgi{''.join(map(''.join, zip(at, taps)))}->goi{taps}")
    return c.op("reshape", y, shape=w.type.shape)
