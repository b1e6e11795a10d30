"""ATen operators that round to the numbers of a quantised type and stay floats (training aware of quantisation)."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import Call, axis_of, row
from autocomp.ir.node import Node
from autocomp.ir.types import F32


@row("fake_quantize_per_tensor_affine_cachemask")
def _by_tensor(c: Call, x: Node, scale: Any, zero_point: Any, least: int, most: int) -> tuple[Node, Node]:
    return _rounded(c, x, scale, zero_point, least, most)


@row("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def _by_tensors(c: Call, x: Node, scale: Node, zero_point: Node, enabled: Node, least: int, most: int) -> tuple[Node, Node]:
    """The same, where a tensor says whether at all."""
    single = lambda v: c.op("reshape", v, shape=())
    y, inside = _rounded(c, x, single(scale), single(zero_point), least, most)
    on = c.op("ne", single(enabled), c.b.const(0, enabled.type.dtype))
    return c.op("where", on, y, x), c.op("or", inside, c.op("not", on))


@row("fake_quantize_per_channel_affine_cachemask")
def _by_channel(c: Call, x: Node, scale: Node, zero_point: Node, axis: int, least: int, most: int) -> tuple[Node, Node]:
    behind = [1] * (x.type.rank - axis_of(x, axis) - 1)
    along = lambda v: c.op("reshape", v, shape=(*v.type.shape, *behind))
    return _rounded(c, x, along(scale), along(zero_point), least, most)


def _rounded(c: Call, x: Node, scale: Any, zero_point: Any, least: int, most: int) -> tuple[Node, Node]:
    """(the nearest number of the quantised type, whether it lies between the type's ends). torch multiplies by 1 / scale in f32 and rounds
    halves to the even number; NaN is the least number."""
    number = lambda v: c.b.const(v, F32)
    wide, by = c.cast(x, F32), c.value(scale, F32)
    zero = c.op("round", c.value(zero_point, F32))
    q = c.op("add", c.op("round", c.op("mul", wide, c.op("div", number(1), by))), zero)
    inside = c.op("and", c.op("ge", q, number(least)), c.op("le", q, number(most)))
    q = c.op("where", c.op("isnan", q), number(least), c.op("min", c.op("max", q, number(least)), number(most)))
    return c.cast(c.op("mul", c.op("sub", q, zero), by), x.type.dtype), inside
