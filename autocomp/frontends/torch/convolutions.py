"""ATen's convolutions, also transposed ones, of any number of spatial dimensions."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import Call, per_axis, row
from autocomp.ir.node import Node


@row("convolution", "conv1d", "conv2d", "conv3d")
def _conv(c: Call, x: Node, w: Node, bias: Node | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, *rest: Any) -> Node:
    n = w.type.rank - 2
    if isinstance(padding, str):
        raise c.refuse(f"pads by '{padding}'")
    strides, pads, dilations = (per_axis(n, v) for v in (stride, padding, dilation))
    groups = rest[2] if c.name == "convolution" else (rest[0] if rest else 1)
    if c.name == "convolution" and rest[0]:
        hi = tuple(p - more for p, more in zip(pads, per_axis(n, rest[1])))
        y = c.op("conv_transpose", x, w, strides=strides, lo=pads, hi=hi, dilations=dilations, groups=groups)
    else:
        y = c.op("conv", x, w, strides=strides, lo=pads, hi=pads, dilations=dilations, groups=groups)
    return y if bias is None else c.op("add", y, c.op("reshape", bias, shape=(*bias.type.shape, *[1] * n)))
