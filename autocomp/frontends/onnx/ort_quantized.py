"""Quantised operators of onnxruntime's own domain, which its quantiser writes beside the standard ones.

Semantics: onnxruntime's docs/ContribOperators.md. A quantised tensor is (x - zero point) * scale.
"""

from __future__ import annotations

from dataclasses import replace

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.contractions import centred
from autocomp.frontends.onnx.pointwise import cast, leaky_relu
from autocomp.frontends.onnx.quantized import dequantize_linear, quantize_linear, saturated, scalar
from autocomp.frontends.onnx.reductions import dynamic_quantize_linear
from autocomp.frontends.onnx.registry import LOWERINGS, ORT, lower
from autocomp.frontends.onnx.scope import Value
from autocomp.frontends.onnx.shapes import concat
from autocomp.ir.node import Node
from autocomp.ir.types import F32, DType

lower("QuantizeLinear", domain=ORT)(quantize_linear)
lower("DequantizeLinear", domain=ORT)(dequantize_linear)


def _real(c: Call, at: int) -> Node:
    """Operands at..at+2 (tensor, scale, zero point or absent) as the f32 numbers that they stand for."""
    return c.op("mul", cast(c, centred(c, c.x(at), c.maybe(at + 2), -1), F32), _one(c, at + 1))


def _one(c: Call, at: int) -> Node:
    return scalar(c, cast(c, c.x(at), F32))


def _quantised(c: Call, y: Node, at: int, to: DType) -> Node:
    """f32 numbers quantised by operands at, at+1 (scale, zero point or absent)."""
    y = c.op("round", c.op("div", y, _one(c, at)))
    if c.has(at + 1):
        to = c.x(at + 1).type.dtype
        y = c.op("add", y, _one(c, at + 1))
    return saturated(c, y, to)


@lower("QLinearAdd", domain=ORT)
def qlinear_add(c: Call) -> Node:
    return _quantised(c, c.op("add", _real(c, 0), _real(c, 3)), 6, c.x(0).type.dtype)


@lower("QLinearMul", domain=ORT)
def qlinear_mul(c: Call) -> Node:
    total = c.op("mul", centred(c, c.x(0), c.maybe(2), -1), centred(c, c.x(3), c.maybe(5), -1))
    return _quantised(c, c.op("mul", cast(c, total, F32), c.op("mul", _one(c, 1), _one(c, 4))), 6, c.x(0).type.dtype)


@lower("QLinearSigmoid", domain=ORT)
def qlinear_sigmoid(c: Call) -> Node:
    return _quantised(c, c.op("sigmoid", _real(c, 0)), 3, c.x(0).type.dtype)


@lower("QLinearLeakyRelu", domain=ORT)
def qlinear_leaky_relu(c: Call) -> Node:
    return _quantised(c, leaky_relu(replace(c, inputs=[_real(c, 0)])), 3, c.x(0).type.dtype)


@lower("QLinearSoftmax", domain=ORT)
def qlinear_softmax(c: Call) -> Node:
    """Softmax as of the operator set that attribute `opset` names."""
    call = replace(c, inputs=[_real(c, 0)], opset=c.int_attr("opset"))
    y = LOWERINGS["", "Softmax"](call)
    assert isinstance(y, Node)
    return _quantised(c, y, 3, c.x(0).type.dtype)


@lower("QLinearConcat", domain=ORT)
def qlinear_concat(c: Call) -> Node:
    """Operands: scale and zero point of the result, then tensor, scale, zero point of each part."""
    if len(c.inputs) % 3 != 2 or len(c.inputs) < 5:
        c.broken(f"has {len(c.inputs)} operands; it takes 2 and 3 for each part")
    parts: list[Value] = [_real(c, at) for at in range(2, len(c.inputs), 3)]
    return _quantised(c, concat(replace(c, inputs=parts)), 0, c.x(2).type.dtype)


def _channels_last(c: Call, x: Node) -> tuple[bool, Node]:
    """x with its channels as axis 1, and whether they were last."""
    last, r = c.flag("channels_last", 0), x.type.rank
    return last, c.op("transpose", x, perm=(0, r - 1, *range(1, r - 1))) if last else x


def _as_before(c: Call, y: Node, last: bool) -> Node:
    return c.op("transpose", y, perm=(0, *range(2, y.type.rank), 1)) if last else y


@lower("QLinearAveragePool", "QLinearGlobalAveragePool", domain=ORT)
def qlinear_average_pool(c: Call) -> Node:
    last, x = _channels_last(c, _real(c, 0))
    y = LOWERINGS["", c.op_type.removeprefix("QLinear")](replace(c, inputs=[x]))
    assert isinstance(y, Node)
    return _quantised(c, _as_before(c, y, last), 3, c.x(0).type.dtype)


@lower("QGemm", domain=ORT)
def qgemm(c: Call) -> Node:
    """Operands: A, B with scales and zero points (of B one a column too), the i32 bias, scale and zero point of the result. Without the
    last two the result is f32."""
    turned = lambda x, flag: c.op("transpose", x, perm=(1, 0)) if c.flag(flag, 0) else x
    a, b = centred(c, turned(c.x(0), "transA"), c.maybe(2), -1), centred(c, turned(c.x(3), "transB"), c.maybe(5), -1)
    total = c.op("matmul", a, b)
    total = c.op("add", total, c.x(6)) if c.has(6) else total
    alpha = c.float_attr("alpha", 1.0)
    factor = c.op("mul", _one(c, 1), _one(c, 4))
    y = c.op("mul", cast(c, total, F32), factor if alpha == 1.0 else c.op("mul", factor, alpha))
    return _quantised(c, y, 7, c.x(0).type.dtype) if c.has(7) else y


@lower("MatMulIntegerToFloat", domain=ORT)
def matmul_integer_to_float(c: Call) -> Node:
    """Operands: A, B, their scales, their zero points or absent, a bias or absent."""
    return _scaled_product(c, centred(c, c.x(0), c.maybe(4), -1), c.x(1), _one(c, 2), 3, 5, 6)


@lower("DynamicQuantizeMatMul", domain=ORT)
def dynamic_quantize_matmul(c: Call) -> Node:
    """A (f32, quantised here as DynamicQuantizeLinear does), B, B's scale, B's zero point or absent, a bias or absent."""
    a, scale, zero = dynamic_quantize_linear(replace(c, inputs=[c.x(0)]))
    return _scaled_product(c, centred(c, a, zero, -1), c.x(1), scale, 2, 3, 4)


def _scaled_product(c: Call, a: Node, b: Node, a_scale: Node, b_scale: int, b_zero: int, bias: int) -> Node:
    total = c.op("matmul", a, centred(c, b, c.maybe(b_zero), -1))
    y = c.op("mul", cast(c, total, F32), c.op("mul", a_scale, _one(c, b_scale)))
    return c.op("add", y, c.x(bias)) if c.has(bias) else y
