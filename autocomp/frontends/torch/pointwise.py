"""ATen operators that work element by element: rows of `call.TABLE`."""

from __future__ import annotations

from functools import reduce
from math import log, pi
from typing import Any

from autocomp.frontends.torch.call import TABLE, Call, Lowering, row
from autocomp.ir.builder import constant
from autocomp.ir.node import Node
from autocomp.ir.types import BF16, BOOL, F32, F64, I16, I64, SHORT_FLOATS, DType


def factors_type(c: Call, *xs: Any) -> DType:
    """In which type a product or quotient is computed: f32 of short floats with a number that these do not hold, which torch does not
    round first (as a term of a sum it does, on CPUs)."""
    assert c.out is not None
    d = c.out.dtype
    beyond = [x for x in xs if isinstance(x, (int, float)) and not isinstance(x, bool) and x == x and constant(x, d) != x]
    return F32 if d in SHORT_FLOATS and beyond else d


def arithmetic(op: str) -> Lowering:
    """The row of an operator on two tensors or a tensor and a number, in the type that torch gives the result."""
    def lower(c: Call, a: Any, b: Any, alpha: float = 1) -> Node:
        assert c.out is not None
        if c.out.dtype == BOOL and op in ("add", "mul", "max", "min"):  # of truth values
            return c.shaped(c.op("or" if op in ("add", "max") else "and", c.value(a, BOOL), c.value(b, BOOL)))
        d = factors_type(c, a, b) if op == "mul" else c.out.dtype
        x, y = c.value(a, d), c.value(b, d)
        y = y if isinstance(alpha, (int, float)) and alpha == 1 else c.op("mul", y, c.value(alpha, d))
        return c.shaped(c.cast(c.op(op, x, y), c.out.dtype))

    return lower


for _name, _op in {"add": "add", "sub": "sub", "mul": "mul", "maximum": "max", "minimum": "min",
                   "fmod": "fmod", "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor", "__and__": "bitand",
                   "__or__": "bitor", "__lshift__": "shl", "__rshift__": "shr", "bitwise_left_shift": "shl",
                   "bitwise_right_shift": "shr"}.items():  # fmt: skip
    TABLE[_name] = arithmetic(_op)


@row("fma")
def _fma(c: Call, a: Any, b: Any, more: Any) -> Node:
    """a * b + more, for whose roundings torch gives no guarantee."""
    assert c.out is not None
    x, y, z = (c.value(v, c.out.dtype) for v in (a, b, more))
    return c.shaped(c.op("add", c.op("mul", x, y), z))


@row("pow")
def _pow(c: Call, a: Any, b: Any) -> Node:
    """torch takes roots where the exponent is a number (of f16 on GPUs only): of -inf they are NaN, and -0.0 keeps its sign."""
    assert c.out is not None
    root = {0.5: "sqrt", -0.5: "rsqrt"}.get(b) if isinstance(b, float) and c.out.dtype in (BF16, F32, F64) else None
    return c.shaped(c.op(root, c.value(a, c.out.dtype))) if root else arithmetic("pow")(c, a, b)


@row("remainder")
def _remainder(c: Call, a: Any, b: Any) -> Node:
    """The sign of the divisor; of floats as torch does it: a remainder of 0 keeps the sign of what is divided."""
    assert c.out is not None
    x, y = c.value(a, c.out.dtype), c.value(b, c.out.dtype)
    if not c.out.dtype.is_float:
        return c.shaped(c.op("mod", x, y))
    zero = c.b.const(0, c.out.dtype)
    rest = c.op("fmod", x, y)
    other_sign = c.op("xor", c.op("lt", rest, zero), c.op("lt", y, zero))
    return c.shaped(c.op("where", c.op("and", c.op("ne", rest, zero), other_sign), c.op("add", rest, y), rest))


@row("div", "true_divide")
def _div(c: Call, a: Any, b: Any, rounding_mode: str | None = None) -> Node:
    assert c.out is not None
    d = factors_type(c, a, b) if rounding_mode is None else c.out.dtype
    x, y = c.value(a, d), c.value(b, d)
    if rounding_mode is None:
        return c.cast(c.op("div", x, y), c.out.dtype)
    if rounding_mode == "floor":
        return c.op("floordiv", x, y)
    return c.op("idiv", x, y) if c.out.dtype.is_int else c.op("trunc", c.op("div", x, y))


@row("rsub")
def _rsub(c: Call, a: Any, b: Any, alpha: float = 1) -> Node:
    return arithmetic("sub")(c, b, a, alpha)


def _joined(a: DType, b: DType) -> DType:
    """torch.promote_types."""
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if {a.kind, b.kind} == {"i", "u"} and a.bits == b.bits:
        return I16  # of int8 and uint8
    if a != b and a.is_float and a.bits == b.bits:
        return F32  # of float16 and bfloat16
    return max(a, b, key=lambda d: d.bits)


def common_type(a: Any, b: Any) -> DType:
    """The type in which two operands are compared: torch.result_type. Scalars decide only where they are of a higher kind than tensors,
    and numbers only where they are of a higher kind than both."""
    known: list[DType] = []
    level = lambda d: 2 if d.is_float else 1 if d.is_int else 0
    for group in (
        [x.type.dtype for x in (a, b) if isinstance(x, Node) and x.type.rank],
        [x.type.dtype for x in (a, b) if isinstance(x, Node) and not x.type.rank],
        [BOOL if isinstance(x, bool) else I64 if isinstance(x, int) else F32 for x in (a, b) if not isinstance(x, Node)],
    ):
        if group:
            d = reduce(_joined, group)
            known = known if known and level(known[0]) >= level(d) else [d]
    return known[0]


def _comparison(op: str) -> Lowering:
    def lower(c: Call, a: Any, b: Any) -> Node:
        d = common_type(a, b)
        return c.op(op, c.value(a, d), c.value(b, d))

    return lower


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    TABLE[_name] = _comparison(_name)


def _logic(op: str) -> Lowering:
    def lower(c: Call, *xs: Node) -> Node:
        zero = lambda x: x if x.type.dtype == BOOL else c.op("ne", x, c.b.const(0, x.type.dtype))
        return c.op(op, *map(zero, xs))

    return lower


for _name, _op in {"logical_and": "and", "logical_or": "or", "logical_not": "not", "logical_xor": "xor"}.items():
    TABLE[_name] = _logic(_op)


def _unary(op: str) -> Lowering:
    def lower(c: Call, x: Node) -> Node:
        assert c.out is not None
        x = c.cast(x, c.out.dtype)
        return x if op in ("floor", "ceil", "round", "trunc") and x.type.dtype.is_int else c.op(op, x)

    return lower


for _name in ("abs", "neg", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
              "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "round", "trunc", "erf", "sigmoid", "silu", "relu",
              "sign"):  # fmt: skip
    TABLE[_name] = _unary(_name)


@row("round")
def _round(c: Call, x: Node, decimals: int = 0, **_: Any) -> Node:
    """To so many decimals, of a negative number to tens, hundreds, ..; halves to the even number."""
    if x.type.dtype.is_int:
        return x
    wide = c.cast(x, F32) if x.type.dtype in SHORT_FLOATS else x
    if decimals == 0:
        return c.op("round", x)
    by = c.b.const(10.0 ** abs(decimals), wide.type.dtype)
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    return c.cast(c.op(back, c.op("round", c.op(there, wide, by)), by), x.type.dtype)


TABLE["_neg_view"] = TABLE["neg"]  # the sign that torch keeps beside a view
TABLE["isnan"] = lambda c, x: c.op("isnan", x) if x.type.dtype.is_float else c.shaped(c.b.const(False, BOOL))
TABLE["isinf"] = lambda c, x: c.op("isinf", x) if x.type.dtype.is_float else c.shaped(c.b.const(False, BOOL))
TABLE["bitwise_not"] = lambda c, x: c.op("not" if x.type.dtype == BOOL else "bitnot", x)
TABLE["reciprocal"] = lambda c, x: c.op("div", c.b.const(1, c.out.dtype), c.cast(x, c.out.dtype))


@row("sign", "sgn")
def _sign(c: Call, x: Node) -> Node:
    """Of NaN 0, as torch has it; truth values are their own."""
    if x.type.dtype == BOOL:
        return x
    y = c.op("sign", x)
    return c.op("where", c.op("isnan", x), c.b.const(0, x.type.dtype), y) if x.type.dtype.is_float else y


@row("angle")
def _angle(c: Call, x: Node) -> Node:
    """Of real numbers: pi of negative ones, else 0; NaN stays. Raises UnsupportedOp on others."""
    assert c.out is not None
    y, number = c.cast(x, c.out.dtype), lambda v: c.b.const(v, c.out.dtype)
    angle = c.op("where", c.op("lt", y, number(0)), number(pi), number(0))
    return c.op("where", c.op("isnan", y), y, angle)


@row("gelu")
def _gelu(c: Call, x: Node, approximate: str = "none") -> Node:
    return c.op("gelu_tanh" if approximate == "tanh" else "gelu", x)


@row("clamp", "hardtanh")
def _clamp(c: Call, x: Node, min: Any = None, max: Any = None) -> Node:
    if c.name == "hardtanh":
        min, max = -1.0 if min is None else min, 1.0 if max is None else max
    assert c.out is not None
    x = c.cast(x, c.out.dtype)
    x = x if min is None else c.op("max", x, c.value(min, x.type.dtype))
    return c.shaped(x if max is None else c.op("min", x, c.value(max, x.type.dtype)))


@row("leaky_relu")
def _leaky(c: Call, x: Node, slope: float = 0.01) -> Node:
    zero = c.b.const(0, x.type.dtype)
    return c.op("where", c.op("gt", x, zero), x, c.op("mul", x, c.b.const(slope, x.type.dtype)))


@row("rrelu_with_noise", "rrelu_with_noise_functional")
def _rrelu(c: Call, x: Node, noise: Node, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Any:
    """The mean slope; in training slopes are drawn."""
    if training:
        raise c.refuse("random numbers", "draw them outside and pass them as an input")
    y = _leaky(c, x, (lower + upper) / 2)
    return (y, noise) if c.outs else y


@row("rrelu_with_noise_backward")
def _rrelu_gradient(c: Call, grad: Node, x: Node, noise: Node, lower: float, upper: float, training: bool, is_result: bool) -> Node:
    """`noise`: in training the slopes that were drawn, 1 where x is positive."""
    if training:
        return c.op("mul", grad, noise)
    small = c.op("mul", grad, c.b.const((lower + upper) / 2, grad.type.dtype))
    return c.op("where", c.op("gt", x, c.b.const(0, x.type.dtype)), grad, small)


@row("softplus")
def _softplus(c: Call, x: Node, beta: float = 1, threshold: float = 20) -> Node:
    """log(1 + exp(beta x)) / beta, and x where beta x is beyond the threshold: from 20 on it is that to the last digit anyway."""
    by = lambda y, k: y if k == 1 else c.op("mul", y, c.b.const(k, x.type.dtype))
    y = by(c.op("softplus", by(x, beta)), 1 / beta)
    return y if threshold >= 20 else c.op("where", c.op("gt", by(x, beta), c.b.const(threshold, x.type.dtype)), x, y)


@row("elu")
def _elu(c: Call, x: Node, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Node:
    d = x.type.dtype
    of = lambda y, by: y if by == 1 else c.op("mul", y, c.b.const(by, d))
    low = of(c.op("expm1", of(x, input_scale)), alpha * scale)
    return c.op("where", c.op("gt", x, c.b.const(0, d)), of(x, scale), low)


TABLE["log10"] = lambda c, x: c.op("mul", c.op("log", c.cast(x, c.out.dtype)), c.b.const(1 / log(10), c.out.dtype))


@row("where")
def _where(c: Call, condition: Node, a: Any, b: Any) -> Node:
    assert c.out is not None
    return c.shaped(c.op("where", condition, c.value(a, c.out.dtype), c.value(b, c.out.dtype)))


@row("masked_fill")
def _masked_fill(c: Call, x: Node, mask: Node, value: Any) -> Node:
    return c.shaped(c.op("where", mask, c.value(value, x.type.dtype), x))


@row("_to_copy", "to", "type_as", "float", "half", "convert_element_type")
def _to(c: Call, x: Any, *_: Any, **__: Any) -> Node:
    assert c.out is not None
    return c.value(x, c.out.dtype)


@row("clone", "detach", "contiguous", "alias", "lift_fresh_copy")
def _same(c: Call, x: Node, *_: Any, **__: Any) -> Node:
    return x


@row("dropout", "native_dropout")
def _dropout(c: Call, x: Node, p: float, train: bool | None = False) -> Any:
    if train is not False and p:
        raise c.refuse(f"drops out {p} of the elements at random", "export the model in eval mode")
    return (x, None) if c.name == "native_dropout" else x


@row("copy")
def _copy(c: Call, x: Node, source: Node, *_: Any) -> Node:
    """What a write in place becomes: `source` with the shape and the type of what it is written to."""
    assert c.out is not None
    return c.shaped(c.cast(source, c.out.dtype))
