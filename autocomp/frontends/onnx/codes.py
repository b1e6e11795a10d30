"""Element types that the op table does not have (integers of 2 and 4 bits, floats of 4 bits and three of 8) by their codes.

    y = Cast(x: float8e4m3fnuz)            ->   y = gather(table: f32[256], code)
    q = Cast(x: f32, to=float8e4m3fnuz)    ->   code = how many boundaries between two numbers are at or below |x|, and the sign's bit

Every number of these types is one of f32, so the first is exact; the second rounds once, to the nearest and of two the even. Codes of
integers are the numbers. Such tensors are cast, quantised, dequantised and laid out in another way; other operators refuse them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.data import Codes
from autocomp.frontends.onnx.registry import Lowering
from autocomp.frontends.onnx.scope import Coded, Value
from autocomp.ir.node import Node
from autocomp.ir.types import F32, I8, I32, DType

MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Slice", "Split", "Gather")  # of the first operand's elements
SHAPES = ("Shape", "Size")
FNUZ = 0x80  # NaN of the floats that have neither infinities nor a negative zero
NAN = 255  # of powers of two


def laid_out(c: Call, lowering: Lowering) -> Value | tuple[Value, ...]:
    """A call with tensors of codes: of an operator that moves elements with the codes in their place, of another one as it is."""
    kinds = {v.codes for v in c.inputs if isinstance(v, Coded)}
    which = [isinstance(v, Coded) for v in c.inputs]
    plain = replace(c, inputs=[v.node if isinstance(v, Coded) else v for v in c.inputs])
    if c.op_type in SHAPES:
        return lowering(plain)
    if len(kinds) > 1 or not (all(which) if c.op_type == "Concat" else c.op_type in MOVES and which[0] and not any(which[1:])):
        return lowering(c)
    out, (codes,) = lowering(plain), kinds
    wrap = lambda v: Coded(v, codes) if isinstance(v, Node) else v
    return tuple(map(wrap, out)) if isinstance(out, tuple) else wrap(out)


def numbers(c: Call, x: Coded) -> Node:
    """The numbers that codes stand for: of integers the codes, of floats f32."""
    if not x.codes.is_float:
        return x.node
    table = (np.arange(256) % 2**x.codes.bits).astype(np.uint8).view(x.codes.numpy).astype(np.float32)
    return c.op("gather", c.array(table, F32), c.op("cast", x.node, to=I32.name), axis=0)


def coded(c: Call, x: Node, to: Codes, saturate: bool = True) -> Coded:
    """Numbers as codes. Integers wrap around, floats lose their fraction on the way to them; floats are rounded."""
    if not to.is_float:
        return _wrapped(c, x, to)
    if not x.type.dtype.is_float or x.type.dtype.bits < 32:
        x = c.op("cast", x, to=F32.name)
    if to.name == "float8e8m0":
        return _power(c, x, to, saturate)
    d, most = x.type.dtype, 2 ** (to.bits - 1) - 1
    magnitudes = np.arange(most + 1, dtype=np.uint8).view(to.numpy).astype(np.float64)
    ends = _boundaries(magnitudes, d)
    if not saturate and to.bits == 8:  # what rounds beyond the largest, as if there were one more
        over = magnitudes[-1] + (magnitudes[-1] - magnitudes[-2])
        ends = np.append(ends, _boundaries(np.array([magnitudes[-1], over]), d, odd=bool(most % 2)))
    code = _at_or_below(c, c.op("abs", x), ends)
    if to.bits == 8:
        code = c.op("where", c.op("and", c.op("lt", x, 0.0), c.op("gt", code, 0)), c.op("add", code, 128), code)
        outside = c.op("isnan", x)
        if not saturate:
            outside = c.op("or", outside, c.op("ge", c.op("abs", x), float(ends[-1])))
        code = c.op("where", outside, c.const(FNUZ, I32), code)
    else:  # zero has a sign, NaN becomes the negative one
        negative = c.op("or", c.op("lt", x, 0.0), c.op("lt", c.op("div", c.const(1.0, d), x), 0.0))
        code = c.op("where", negative, c.op("add", code, most + 1), code)
        code = c.op("where", c.op("isnan", x), c.const(most + 1, I32), code)
    return Coded(c.op("cast", code, to=to.held.name), to)


def _wrapped(c: Call, x: Node, to: Codes) -> Coded:
    """An integer's low bits."""
    wide = c.op("cast", x, to=I32.name) if x.type.dtype != I32 else x
    half = 2 ** (to.bits - 1) if to.held == I8 else 0
    low = c.op("bitand", c.op("add", wide, half) if half else wide, 2**to.bits - 1)
    return Coded(c.op("cast", c.op("sub", low, half) if half else low, to=to.held.name), to)


def _power(c: Call, x: Node, to: Codes, saturate: bool) -> Coded:
    """The exponent of the least power of two that is not less than |x|; of zero the least power, of infinities NaN."""
    mode = c.str_attr("round_mode", "up")
    if mode != "up":
        c.refuse(f"rounds to powers of two by round_mode '{mode}'", hint="use 'up'")
    powers = np.exp2(np.arange(NAN) - 127.0)
    above = np.nextafter(powers.astype(x.type.dtype.numpy), np.inf, dtype=x.type.dtype.numpy)
    code = _at_or_below(c, c.op("abs", x), above[: NAN - 1] if saturate else above)
    odd = c.op("or", c.op("isnan", x), c.op("isinf", x))
    return Coded(c.op("cast", c.op("where", odd, c.const(NAN, I32), code), to=to.held.name), to)


def _boundaries(ascending: np.ndarray, d: DType, odd: bool = False) -> np.ndarray:
    """Of each number but the first the least of type d that rounds to it: what lies in the middle of two goes to the one of even code.
    odd: the first number's code is odd."""
    middle = ((ascending[:-1] + ascending[1:]) / 2).astype(d.numpy)
    even = np.arange(1 + odd, len(middle) + 1 + odd) % 2 == 0
    return np.where(even, middle, np.nextafter(middle, np.inf, dtype=d.numpy))


def _at_or_below(c: Call, x: Node, ends: np.ndarray) -> Node:
    """How many of these numbers are at or below each element, i32; none where it is NaN."""
    apart = c.op("reshape", x, shape=(*x.type.shape, 1))
    below = c.op("cast", c.op("ge", apart, c.array(ends, x.type.dtype)), to=I32.name)
    return c.op("reduce_sum", below, axes=(x.type.rank,), keepdims=False)


def converted(c: Call, x: Node | Coded, to: Codes, saturate: bool) -> Coded:
    """`Cast` to codes."""
    if isinstance(x, Coded):
        return x if x.codes == to else coded(c, numbers(c, x), to, saturate)
    return coded(c, x, to, saturate)
