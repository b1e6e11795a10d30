"""Operators that round to the numbers of a quantised type: ATen's, whose results stay floats (training aware of quantisation), and those
that torch.ao's quantisation of exported programs writes around operators of floats (pt2e), by tensor, channel and token."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch.call import Call, axis_of, row
from autocomp.ir.node import Node
from autocomp.ir.types import BF16, F16, F32, F64, I64, DType


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


# ---- pt2e: a scale and a zero point are numbers, tensors of one element, one a channel or one a token
PT2E = "quantized_decomposed::"
FLOATS = (F16, BF16, F32, F64)


def _single(c: Call, v: Any) -> Any:
    """A tensor's element. One of f64 that is one of f32 is that: its inverse rounded to f64 and then to f32 is that rounded to f32, as f64
    has more than twice the digits (S. A. Figueroa, When is double rounding innocuous?, SIGNUM 30(3), 1995)."""
    if not isinstance(v, Node):
        return v
    exact = v.op == "cast" and v.type.dtype == F64 and v.inputs[0].type.dtype == F32
    return c.op("reshape", v.inputs[0] if exact else v, shape=())


def _along(c: Call, v: Node, axis: int, x: Node) -> Node:
    """One element a channel -> what x is broadcast with."""
    return c.op("reshape", v, shape=tuple(n if k == axis_of(x, axis) else 1 for k, n in enumerate(x.type.shape)))


def _wide(*values: Node) -> DType:
    """The type in which torch computes with tensors of these."""
    kinds = {v.type.dtype for v in values} & {*FLOATS}
    return F64 if F64 in kinds else kinds.pop() if len(kinds) == 1 else F32


def _counted(c: Call, x: Node, by: Node, zero: Any, least: Any, most: Any, first: bool = True) -> Node:
    """x * by, rounded (`first`: before the zero point is added), between the type's ends."""
    assert c.out is not None
    dtype = _wide(x, by)
    y, z = c.op("mul", c.cast(x, dtype), c.cast(by, dtype)), c.value(zero, dtype)
    y = c.op("add", c.op("round", y), z) if first else c.op("round", c.op("add", y, z))
    return c.cast(c.op("min", c.op("max", y, c.value(least, dtype)), c.value(most, dtype)), c.out.dtype)


def _inverse(c: Call, scale: Node) -> Node:
    return c.op("div", c.b.const(1, scale.type.dtype), scale)


def _spread(c: Call, q: Node, scale: Node, zero: Node | None) -> Node:
    """(q - zero) * scale, in the types that torch gives tensors of these, then the result's."""
    assert c.out is not None
    if zero is not None:
        dtype = zero.type.dtype if zero.type.dtype in FLOATS else I64
        q = c.op("sub", c.cast(q, dtype), c.cast(zero, dtype))
    dtype = _wide(q, scale)
    return c.cast(c.op("mul", c.cast(q, dtype), c.cast(scale, dtype)), c.out.dtype)


@row(f"{PT2E}quantize_per_tensor")
def _quantize(c: Call, x: Node, scale: Any, zero: Any, least: Any, most: Any, dtype: Any) -> Node:
    """The scale is a number of f64 (of a tensor its element), its inverse one of f32 (`_single`: also where the element is of f32)."""
    scale, zero, least, most = (_single(c, v) for v in (scale, zero, least, most))
    by = c.cast(_inverse(c, scale), F32) if isinstance(scale, Node) else c.b.const(1 / scale, F32)
    return _counted(c, c.cast(x, F32), by, zero, least, most)


@row(f"{PT2E}dequantize_per_tensor")
def _dequantize(c: Call, q: Node, scale: Any, zero: Any, least: Any, most: Any, dtype: Any, out_dtype: Any = None) -> Node:
    assert c.out is not None
    to = c.out.dtype
    wide = F64 if to == F64 else F32
    short = lambda v: c.cast(c.cast(v, to), wide)
    y = short(c.op("sub", short(q), c.value(_single(c, zero), wide)))
    return c.cast(c.op("mul", y, c.value(_single(c, scale), wide)), to)


@row(f"{PT2E}quantize_per_channel")
def _quantize_channels(c: Call, x: Node, scales: Node, zeros: Node, axis: int, least: int, most: int, dtype: Any) -> Node:
    return _counted(c, c.cast(x, F32), _along(c, _inverse(c, scales), axis, x), _along(c, zeros, axis, x), least, most)


@row(f"{PT2E}dequantize_per_channel")
def _dequantize_channels(c: Call, q: Node, scales: Node, zeros: Node | None, axis: int, least: int, most: int, dtype: Any,
                         out_dtype: Any = None) -> Node:  # fmt: skip
    return _spread(c, q, _along(c, scales, axis, q), None if zeros is None else _along(c, zeros, axis, q))


@row(f"{PT2E}quantize_per_token")
def _quantize_tokens(c: Call, x: Node, scales: Node, zeros: Node, least: int, most: int, dtype: Any) -> Node:
    return _counted(c, x, _inverse(c, scales), zeros, least, most, first=False)


@row(f"{PT2E}dequantize_per_token")
def _dequantize_tokens(c: Call, q: Node, scales: Node, zeros: Node, least: int, most: int, dtype: Any, output_dtype: Any) -> Node:
    return _spread(c, q, scales, zeros)


@row(f"{PT2E}quantize_per_channel_group")
def _quantize_groups(c: Call, x: Node, scales: Node, zeros: Node, least: int, most: int, dtype: Any, group_size: int = 128) -> Node:
    rows, n = x.type.shape
    if not isinstance(n, int):
        raise c.refuse(f"groups of {group_size} of {n} columns", "fix the last dimension")
    apart = lambda v, size: c.op("reshape", v, shape=(rows, n // group_size, size))
    q = _counted(c, apart(x, group_size), apart(_inverse(c, scales), 1), apart(zeros, 1), least, most, first=False)
    return c.op("reshape", q, shape=x.type.shape)


@row(f"{PT2E}choose_qparams", f"{PT2E}choose_qparams_symmetric")
def _parameters(c: Call, x: Node, least: int, most: int, eps: float, dtype: Any) -> tuple[Node, Node]:
    """(scale, zero point) for a tensor's elements and 0, which torch computes in f32 behind the quotient."""
    axes, of = tuple(range(x.type.rank)), x.type.dtype
    zero, number = c.b.const(0, of), lambda v: c.b.const(v, F32)
    low = c.op("min", c.op("reduce_min", x, axes=axes, keepdims=False), zero)
    high = c.op("max", c.op("reduce_max", x, axes=axes, keepdims=False), zero)
    symmetric = c.name.endswith("symmetric")
    wide = c.op("max", c.op("neg", low), high) if symmetric else c.op("sub", high, low)
    steps = (most - least) / 2 if symmetric else most - least
    scale = c.op("max", c.cast(c.op("div", wide, c.b.const(float(steps), of)), F32), number(eps))
    if symmetric:
        point = c.b.const(128 if str(dtype) == "torch.uint8" else 0, I64)
    else:
        at = c.op("sub", number(least), c.op("round", c.op("div", c.cast(low, F32), scale)))
        point = c.cast(c.op("min", c.op("max", at, number(least)), number(most)), I64)
    one = lambda v: c.op("reshape", v, shape=(1,))
    return c.cast(one(scale), F64), one(point)
