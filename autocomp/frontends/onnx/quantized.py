"""Quantised tensors: y = saturate(round(x / scale) + zero point), and products and convolutions of such tensors."""

from __future__ import annotations

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.codes import coded, numbers
from autocomp.frontends.onnx.contractions import centred, convolve, zero_point
from autocomp.frontends.onnx.data import CODED, dtype_named
from autocomp.frontends.onnx.pointwise import cast, in_range
from autocomp.frontends.onnx.registry import lower
from autocomp.frontends.onnx.resize import chosen
from autocomp.frontends.onnx.scope import Coded
from autocomp.frontends.onnx.shapes import reshape
from autocomp.ir.node import Node
from autocomp.ir.types import F32, FLOATS_8, I8, I32, U8, DType

QUANTISED = ("i8", "u8", "i16", "u16")


def saturated(c: Call, y: Node, to: DType) -> Node:
    """A float tensor of integers as `to`, values outside its range moved to the nearest end."""
    if to.name not in QUANTISED:
        c.refuse(f"quantises to {to}; quantised types are {', '.join(QUANTISED)}", hint="export with 8 or 16 bits")
    limits = np.iinfo(to.numpy)
    return _limited(c, y, limits.min, limits.max, to)


def _limited(c: Call, y: Node, least: int, most: int, to: DType) -> Node:
    return cast(c, c.op("min", c.op("max", y, float(least)), float(most)), to)


def _spread(c: Call, v: Node, x: Node) -> Node:
    """A scale or zero point, shaped to broadcast with x: one for all, one a slice along `axis`, or one a block of it."""
    if v.type.elements == 1 and v.type.rank <= 1:
        return reshape(c, v, ())
    axis, block = c.axis(c.int_attr("axis", 1), x.type.rank), c.int_attr("block_size", 0)
    if not block:
        if v.type.shape != (x.type.shape[axis],):
            c.broken(f"scales {v.type} do not fit axis {axis} of {x.type}")
        return reshape(c, v, (*v.type.shape, *[1] * (x.type.rank - axis - 1)))
    check_table(c.shape(x)[axis], c.where)
    at = np.arange(c.shape(x)[axis]) // block
    if v.type.rank != x.type.rank or at[-1] >= c.shape(v)[axis]:
        c.broken(f"scales {v.type} do not fit blocks of {block} along axis {axis} of {x.type}")
    return chosen(c, v, axis, at)


@lower("QuantizeLinear")
def quantize_linear(c: Call) -> Node | Coded:
    x, scale, narrow = c.x(0), c.x(1), c.coded(2)
    zero, code = narrow.node if narrow is not None else c.maybe(2), c.int_attr("output_dtype", 0)
    codes = narrow.codes if narrow is not None else CODED.get(code) if zero is None else None
    to = zero.type.dtype if zero is not None else codes.held if codes is not None else dtype_named(code, c.where) if code else U8
    given = c.int_attr("precision", 0)
    wide = dtype_named(given, c.where) if given else scale.type.dtype if scale.type.dtype.is_float else F32
    y = c.op("div", cast(c, x, wide), _spread(c, cast(c, scale, wide), x))
    if codes is not None and codes.is_float:
        return coded(c, y, codes, bool(c.int_attr("saturate", 1)))
    if to in FLOATS_8:  # whose zero points are 0
        return cast(c, in_range(c, y, to) if c.int_attr("saturate", 1) else y, to)
    y = c.op("round", y)
    y = cast(c, y, F32) if y.type.dtype.bits < 32 else y
    if zero is not None:
        y = c.op("add", y, cast(c, _spread(c, zero, x), y.type.dtype))
    if codes is not None:
        least = -(2 ** (codes.bits - 1)) if to == I8 else 0
        return Coded(_limited(c, y, least, least + 2**codes.bits - 1, to), codes)
    return saturated(c, y, to)


@lower("DequantizeLinear")
def dequantize_linear(c: Call) -> Node:
    narrow, scale, shift = c.coded(0), c.x(1), c.coded(2)
    x, zero = c.x(0) if narrow is None else numbers(c, narrow), c.maybe(2) if shift is None else shift.node
    code = c.int_attr("output_dtype", 0)
    if x.type.dtype.is_float:  # whose zero points are 0
        y = x
    else:
        y, zero = cast(c, x, I32), zero_point(c, zero)
        if zero is not None:
            y = c.op("sub", y, cast(c, _spread(c, zero, x), I32))
    y = c.op("mul", cast(c, y, scale.type.dtype), _spread(c, scale, x))
    return cast(c, y, dtype_named(code, c.where)) if code else y


def scalar(c: Call, v: Node) -> Node:
    """A tensor of one element as a scalar."""
    return reshape(c, v, ()) if v.type.elements == 1 else v


def _requantised(c: Call, total: Node, factor: Node, scale: Node, zero: Node) -> Node:
    """An i32 product, scaled by `factor` (its operands' scales) over `scale`, as the quantised type of `zero`."""
    y = c.op("round", c.op("mul", cast(c, total, F32), c.op("div", factor, cast(c, scalar(c, scale), F32))))
    return saturated(c, c.op("add", y, cast(c, scalar(c, zero), F32)), zero.type.dtype)


@lower("QLinearMatMul")
def qlinear_matmul(c: Call) -> Node:
    a_scale, b_scale = (cast(c, c.x(k), F32) for k in (1, 4))
    if a_scale.type.rank == 1 and a_scale.type.elements != 1:
        a_scale = reshape(c, a_scale, (*a_scale.type.shape, 1))
    total = c.op("matmul", centred(c, c.x(0), c.x(2), -2), centred(c, c.x(3), c.x(5), -1))
    return _requantised(c, total, c.op("mul", scalar(c, a_scale), scalar(c, b_scale)), c.x(6), c.x(7))


@lower("QLinearConv")
def qlinear_conv(c: Call) -> Node:
    x, w = c.x(0), c.x(3)
    per_output = lambda v, rank: scalar(c, v) if v.type.elements == 1 else reshape(c, v, (*v.type.shape, *[1] * (rank - 1)))
    zero = zero_point(c, c.x(5))
    kernel = centred(c, w, None if zero is None else per_output(zero, w.type.rank), -1)
    total = convolve(c, centred(c, x, c.x(2), -1), kernel)
    if c.has(8):
        total = c.op("add", total, per_output(c.x(8), total.type.rank - 1))
    factor = c.op("mul", scalar(c, cast(c, c.x(1), F32)), per_output(cast(c, c.x(4), F32), total.type.rank - 1))
    return _requantised(c, total, factor, c.x(6), c.x(7))
