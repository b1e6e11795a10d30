"""Element-wise operators: what ONNX calls them, and its own rules for broadcasting, rounding and parameters."""

from __future__ import annotations

import numpy as np
from ml_dtypes import finfo

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.codes import converted, numbers
from autocomp.frontends.onnx.data import CODED, Codes, dtype_named
from autocomp.frontends.onnx.registry import LOWERINGS, lower
from autocomp.frontends.onnx.scope import Coded, Value
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, F32, F64, FLOATS_8, DType

UNARY = {
    "Abs": "abs", "Neg": "neg", "Sign": "sign", "Floor": "floor", "Ceil": "ceil", "Round": "round", "Sqrt": "sqrt", "Exp": "exp",
    "Log": "log", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh",
    "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Erf": "erf", "Sigmoid": "sigmoid",
    "Softplus": "softplus", "Relu": "relu", "IsNaN": "isnan", "Not": "not", "BitwiseNot": "bitnot",
}  # fmt: skip
BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge",
    "Equal": "eq", "And": "and", "Or": "or", "Xor": "xor", "BitwiseAnd": "bitand", "BitwiseOr": "bitor", "BitwiseXor": "bitxor",
}  # fmt: skip


def cast(c: Call, x: Node, to: DType) -> Node:
    """x as `to`; nothing where it already is."""
    return x if x.type.dtype == to else c.op("cast", x, to=to.name)


def _unary(op: str):
    def lowering(c: Call) -> Node:
        x = c.x()
        if x.type.dtype.kind == "u" and op in ("abs", "sign", "relu"):
            return x if op != "sign" else c.op("min", x, 1)
        return c.op(op, x)

    return lowering


def operands(c: Call) -> tuple[Node, Node]:
    """The two operands; before opset 7 the second may be placed at `axis` of the first."""
    a, b = c.x(0), c.x(1)
    if c.opset < 7 and c.attrs.get("broadcast") is not None and "axis" in c.attrs:
        axis = c.axis(c.int_attr("axis"), a.type.rank)
        trail = a.type.rank - axis - b.type.rank
        if trail > 0:
            b = c.op("reshape", b, shape=(*b.type.shape, *[1] * trail))
    return a, b


def _binary(op: str):
    return lambda c: c.op(op, *operands(c))


for _name, _op in UNARY.items():
    LOWERINGS["", _name] = _unary(_op)
for _name, _op in BINARY.items():
    LOWERINGS["", _name] = _binary(_op)


@lower("Div")
def div(c: Call) -> Node:
    a, b = operands(c)
    return c.op("div" if a.type.dtype.is_float else "idiv", a, b)


@lower("Mod")
def mod(c: Call) -> Node:
    a, b = operands(c)
    return c.op("fmod" if c.flag("fmod", 0) else "mod", a, b)


@lower("Pow")
def power(c: Call) -> Node:
    a, b = operands(c)
    t = a.type.dtype
    if t.is_float or b.type.dtype == t:
        return c.op("pow", a, cast(c, b, t))
    wide = F64 if b.type.dtype.is_float or b.type.dtype.bits > t.bits or t.kind == "u" else t
    return cast(c, c.op("pow", cast(c, a, wide), cast(c, b, wide)), t)


@lower("Reciprocal")
def reciprocal(c: Call) -> Node:
    return c.op("div", c.const(1.0, c.type().dtype), c.x())


def _fold(c: Call, op: str) -> Node:
    out, *rest = c.tensors()
    for x in rest:
        out = c.op(op, out, x)
    return out


LOWERINGS["", "Max"] = lambda c: _fold(c, "max")
LOWERINGS["", "Min"] = lambda c: _fold(c, "min")
LOWERINGS["", "Sum"] = lambda c: _fold(c, "add")


@lower("Mean")
def mean(c: Call) -> Node:
    return c.op("mul", _fold(c, "add"), 1.0 / len(c.inputs))


@lower("BitShift")
def bit_shift(c: Call) -> Node:
    return c.op("shl" if c.str_attr("direction") == "LEFT" else "shr", *operands(c))


@lower("IsInf")
def is_inf(c: Call) -> Node:
    x, pos, neg = c.x(), c.int_attr("detect_positive", 1), c.int_attr("detect_negative", 1)
    out = c.op("isinf", x)
    if not pos:
        out = c.op("and", out, c.op("lt", x, 0.0))
    return out if neg else c.op("and", out, c.op("gt", x, 0.0))


@lower("Where")
def where(c: Call) -> Node:
    return c.op("where", c.x(0), c.x(1), c.x(2))


@lower("Identity")
def identity(c: Call):
    return c.inputs[0]


@lower("Cast")
def cast_op(c: Call) -> Value:
    code = c.int_attr("to")
    return _converted(c, CODED[code] if code in CODED else dtype_named(code, c.where))


def _converted(c: Call, to: DType | Codes) -> Value:
    """The operand as `to`. What lies beyond the range of 8-bit floats is their largest number, unless `saturate` is 0."""
    x, saturate = c.coded(0) or c.x(), bool(c.int_attr("saturate", 1))
    if isinstance(to, Codes):
        return converted(c, x, to, saturate)
    x = numbers(c, x) if isinstance(x, Coded) else x
    return cast(c, in_range(c, x, to) if saturate else x, to)


def in_range(c: Call, x: Node, to: DType) -> Node:
    """x with what lies beyond the largest number of an 8-bit float, infinities too, moved to it; NaN stays."""
    if to not in FLOATS_8 or x.type.dtype in FLOATS_8 or x.type.dtype == BOOL:
        return x
    most = float(finfo(to.numpy).max)
    x = x if x.type.dtype.is_float else cast(c, x, F32)
    return c.op("max", c.op("min", x, most), -most)


@lower("BitCast")
def bit_cast(c: Call) -> Node:
    """The same bits as another type: between integers (and bool) of one width that is a cast, which wraps around."""
    x, to = c.x(), dtype_named(c.int_attr("to"), c.where)
    if x.type.dtype.bytes != to.bytes:
        c.broken(f"reads {x.type.dtype} as {to}: their widths differ")
    if x.type.dtype != to and (x.type.dtype.is_float or to.is_float or to == BOOL):
        c.refuse(f"reads the bits of {x.type.dtype} as {to}", hint="use Cast where the value is meant")
    return cast(c, x, to)


@lower("CastLike")
def cast_like(c: Call) -> Value:
    like = c.coded(1)
    return _converted(c, c.x(1).type.dtype if like is None else like.codes)


@lower("Clip")
def clip(c: Call) -> Node:
    x = c.x()
    if c.opset < 11:
        low = c.const(c.float_attr("min"), x.type.dtype) if "min" in c.attrs else None
        high = c.const(c.float_attr("max"), x.type.dtype) if "max" in c.attrs else None
    else:
        low, high = c.maybe(1), c.maybe(2)
    x = x if low is None else c.op("max", x, low)
    return x if high is None else c.op("min", x, high)


# ---- activations
@lower("LeakyRelu")
def leaky_relu(c: Call) -> Node:
    x = c.x()
    return c.op("where", c.op("lt", x, 0.0), c.op("mul", x, c.float_attr("alpha", 0.01)), x)


@lower("PRelu")
def prelu(c: Call) -> Node:
    x, slope = c.x(), c.x(1)
    if c.opset < 7 and slope.type.rank == 1 and x.type.rank > 1:
        slope = c.op("reshape", slope, shape=(*slope.type.shape, *[1] * (x.type.rank - 2)))
    return c.op("where", c.op("lt", x, 0.0), c.op("mul", x, slope), x)


@lower("Elu")
def elu(c: Call) -> Node:
    x = c.x()
    return c.op("where", c.op("lt", x, 0.0), c.op("mul", c.op("expm1", x), c.float_attr("alpha", 1.0)), x)


@lower("Celu")
def celu(c: Call) -> Node:
    x, a = c.x(), c.float_attr("alpha", 1.0)
    low = c.op("mul", c.op("expm1", c.op("mul", x, 1.0 / a)), a)
    return c.op("add", c.op("max", x, 0.0), c.op("min", low, 0.0))


@lower("Selu")
def selu(c: Call) -> Node:
    x = c.x()
    a, g = c.float_attr("alpha", 1.67326319217681884765625), c.float_attr("gamma", 1.05070102214813232421875)
    return c.op("mul", c.op("where", c.op("gt", x, 0.0), x, c.op("mul", c.op("expm1", x), a)), g)


@lower("HardSigmoid")
def hard_sigmoid(c: Call) -> Node:
    y = c.op("add", c.op("mul", c.x(), c.float_attr("alpha", 0.2)), c.float_attr("beta", 0.5))
    return c.op("min", c.op("max", y, 0.0), 1.0)


@lower("HardSwish")
def hard_swish(c: Call) -> Node:
    y = c.op("add", c.op("mul", c.x(), 1.0 / 6.0), 0.5)
    return c.op("mul", c.x(), c.op("min", c.op("max", y, 0.0), 1.0))


@lower("Gelu")
def gelu(c: Call) -> Node:
    return c.op("gelu_tanh" if c.str_attr("approximate", "none") == "tanh" else "gelu", c.x())


@lower("Swish")
def swish(c: Call) -> Node:
    a = c.float_attr("alpha", 1.0)
    return c.op("silu", c.x()) if a == 1.0 else c.op("mul", c.x(), c.op("sigmoid", c.op("mul", c.x(), a)))


@lower("Mish")
def mish(c: Call) -> Node:
    return c.op("mul", c.x(), c.op("tanh", c.op("softplus", c.x())))


@lower("Softsign")
def softsign(c: Call) -> Node:
    return c.op("div", c.x(), c.op("add", c.op("abs", c.x()), 1.0))


@lower("ThresholdedRelu")
def thresholded_relu(c: Call) -> Node:
    return c.op("where", c.op("gt", c.x(), c.float_attr("alpha", 1.0)), c.x(), 0.0)


@lower("Shrink")
def shrink(c: Call) -> Node:
    x, bias, edge = c.x(), c.float_attr("bias", 0.0), c.float_attr("lambd", 0.5)
    wide = x if x.type.dtype.is_float else c.op("cast", x, to=F32.name)
    high = c.op("where", c.op("gt", wide, edge), c.op("sub", wide, bias), 0.0)
    return cast(c, c.op("where", c.op("lt", wide, -edge), c.op("add", wide, bias), high), x.type.dtype)


@lower("Dropout")
def dropout(c: Call) -> tuple[Node, Node]:
    x = c.x()
    training = bool(c.static(2).item()) if c.opset >= 12 and c.has(2) else False
    ratio = float(c.static(1).item()) if training and c.has(1) else 0.5
    if training and ratio != 0.0:
        c.refuse("draws random numbers (training_mode is true)", hint="export the model for inference")
    return x, c.op("broadcast", c.const(True, BOOL), shape=x.type.shape)


@lower("Binarizer", domain="ai.onnx.ml")
def binarizer(c: Call) -> Node:
    return cast(c, c.op("gt", c.x(), c.float_attr("threshold", 0.0)), c.type().dtype)


@lower("Constant")
def constant(c: Call) -> Node:
    if "value" in c.attrs:
        value = c.tensor_attr("value")
    elif "value_float" in c.attrs:
        value = np.asarray(c.float_attr("value_float"), np.float32)
    elif "value_int" in c.attrs:
        value = np.asarray(c.int_attr("value_int"), np.int64)
    elif "value_floats" in c.attrs:
        value = np.asarray(c.floats_attr("value_floats"), np.float32)
    elif "value_ints" in c.attrs:
        value = np.asarray(c.ints_attr("value_ints"), np.int64)
    else:
        c.refuse("is a constant of strings or sparse values", hint="store a dense numeric tensor")
    return c.importer.constants.node(np.asarray(value), c.fresh())
