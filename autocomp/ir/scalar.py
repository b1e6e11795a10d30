"""Element-wise functions, each named once: what the op table, bodies, monoids and every target's spelling table share.

NaN: `max`, `min` and `relu` propagate it (as numpy.maximum does); comparisons with it are false, `ne` is true.
Division of integers by zero, shifts by the width or more and casts of floats outside the integer's range are undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autocomp.ir.types import BOOL, F16, F32, I32, SHORT_FLOATS, DType, dtype_of, widens


@dataclass(frozen=True)
class ScalarFn:
    """numpy: the meaning, in float64 and in the arrays' own dtype. kinds: operand kinds it takes (f i u b).
    result: same (the operands' dtype) | bool | i32 | given (cast: the node's dtype). unit: which unit of a chip runs it, vector |
    special | free (folded into a load, store or another instruction). flops: its weight in units of one addition. bits: of operands at
    most. steps: vector instructions of its polynomial on floats where no unit of a chip has it: as gcc 12 compiles the CPU header for
    AVX-512, a division as ten.
    """

    name: str
    arity: int
    numpy: Callable[..., Any]
    kinds: str = "f"
    result: str = "same"
    unit: str = "vector"
    commutes: bool = False
    flops: float = 1.0
    bits: int = 64
    steps: int = 16


def _poly(x: np.ndarray, *c: float) -> np.ndarray:
    """c[0] + c[1]*x + c[2]*x^2 + ..."""
    out = np.full_like(x, c[-1])
    for k in reversed(c[:-1]):
        out = out * x + k
    return out


def _erf(x: Any) -> np.ndarray:
    """erf to about 1e-16 absolute: the rational approximations of FreeBSD msun's s_erf.c on their four intervals."""
    x = np.asarray(x)
    v = np.abs(x.astype(np.float64))
    w = np.minimum(v, 0.84375)
    z = w * w
    small = w + w * _poly(z, 1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
                          -5.77027029648944159157e-03, -2.37630166566501626084e-05) / _poly(
        z, 1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
        1.32494738004321644526e-04, -3.96022827877536812320e-06)
    s = np.clip(v, 0.84375, 1.25) - 1.0
    middle = 8.45062911510467529297e-01 + _poly(
        s, -2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01, 3.18346619901161753674e-01,
        -1.10894694282396677476e-01, 3.54783043256182359371e-02, -2.16637559486879084300e-03) / _poly(
        s, 1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
        1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02)
    t = np.clip(v, 1.25, 1 / 0.35)
    r = 1.0 / (t * t)
    upper = 1.0 - np.exp(-t * t - 0.5625 + _poly(
        r, -9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01, -6.23753324503260060396e+01,
        -1.62396669462573470355e+02, -1.84605092906711035994e+02, -8.12874355063065934246e+01, -9.81432934416914548592e+00)
        / _poly(r, 1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
                6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
                6.57024977031928170135e+00, -6.04244152148580987438e-02)) / t
    t = np.clip(v, 1 / 0.35, 6.0)
    r = 1.0 / (t * t)
    tail = 1.0 - np.exp(-t * t - 0.5625 + _poly(
        r, -9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01, -1.60636384855821916062e+02,
        -6.37566443368389627722e+02, -1.02509513161107724954e+03, -4.83519191608651397019e+02)
        / _poly(r, 1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
                3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
                -2.24409524465858183362e+01)) / t
    out = np.where(v < 0.84375, small, np.where(v < 1.25, middle, np.where(v < 1 / 0.35, upper, tail)))
    return np.where(np.isnan(v), v, np.copysign(out, x)).astype(x.dtype if x.dtype.kind == "f" else np.float64)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _idiv(a: Any, b: Any) -> Any:
    """Truncating division of integers (C, ONNX)."""
    q, r = np.floor_divide(a, b), np.remainder(a, b)
    return (q + ((r != 0) & ((np.less(a, 0)) != (np.less(b, 0))))).astype(np.result_type(a, b))


def _pow(a: Any, b: Any) -> Any:
    """Powers as C has them; a negative exponent of an integer gives the truncated real result (0 unless the base is 1 or -1)."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "f":  # where one exponent is for all, NumPy takes 0.5 for a root: of -inf there is none, and -0.0 is its own
        return np.where((b == 0.5) & ((a == 0) | (a == -np.inf)), np.abs(a), np.power(a, b))
    if b.dtype.kind == "u":
        return np.power(a, b)
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0)).astype(a.dtype)
    return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0)))


def _ordinal(x: Any) -> np.ndarray:
    """Where a float of at most 32 bits stands among all: integers in the order of the numbers, 0 for zeros of either sign, NaN last."""
    bits = np.asarray(x, np.float32).view(np.int32)
    size = bits & np.int32(0x7FFFFFFF)
    return np.where(size > 0x7F800000, np.int32(0x7FFFFFFF), np.where(bits < 0, -size, size))


_SQRT_HALF = 0.7071067811865476
_GELU_TANH = 0.7978845608028654  # sqrt(2/pi)


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + _erf(x * _SQRT_HALF))


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(_GELU_TANH * (x + 0.044715 * x * x * x)))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mish(x: Any) -> Any:
    return x * np.tanh(_softplus(x))


_NUM, _ANY, _INT = "fiu", "fiub", "iub"
_F = ScalarFn

_TABLE = (
    # arithmetic
    _F("add", 2, np.add, _NUM, commutes=True),
    _F("sub", 2, np.subtract, _NUM),
    _F("mul", 2, np.multiply, _NUM, commutes=True),
    _F("div", 2, np.true_divide, unit="special", flops=4),
    _F("idiv", 2, _idiv, "iu", unit="special", flops=8),
    _F("floordiv", 2, np.floor_divide, _NUM, unit="special", flops=8, steps=87),
    _F("mod", 2, np.remainder, _NUM, unit="special", flops=8, steps=57),
    _F("fmod", 2, np.fmod, _NUM, unit="special", flops=8, steps=42),
    _F("pow", 2, _pow, _NUM, unit="special", flops=16, steps=153),
    _F("max", 2, np.maximum, _NUM, commutes=True),
    _F("min", 2, np.minimum, _NUM, commutes=True),
    _F("abs", 1, np.abs, "fi"),
    _F("neg", 1, np.negative, "fi"),
    _F("sign", 1, np.sign, "fi", flops=2),
    _F("relu", 1, lambda x: np.maximum(x, np.zeros((), np.asarray(x).dtype)), "fi"),
    # rounding
    _F("floor", 1, np.floor),
    _F("ceil", 1, np.ceil),
    _F("round", 1, np.rint),
    _F("trunc", 1, np.trunc),
    # roots, exponentials, logarithms
    _F("sqrt", 1, np.sqrt, unit="special", flops=4),
    _F("rsqrt", 1, lambda x: 1 / np.sqrt(x), unit="special", flops=4),
    _F("exp", 1, np.exp, unit="special", flops=8),
    _F("exp2", 1, np.exp2, unit="special", flops=6, steps=15),
    _F("expm1", 1, np.expm1, unit="special", flops=10, steps=28),
    _F("log", 1, np.log, unit="special", flops=8, steps=46),
    _F("log2", 1, np.log2, unit="special", flops=8, steps=51),
    _F("log1p", 1, np.log1p, unit="special", flops=10, steps=68),
    # trigonometric and hyperbolic
    _F("sin", 1, np.sin, unit="special", flops=10, steps=42),
    _F("cos", 1, np.cos, unit="special", flops=10, steps=42),
    _F("tan", 1, np.tan, unit="special", flops=14, steps=53),
    _F("asin", 1, np.arcsin, unit="special", flops=14, steps=38),
    _F("acos", 1, np.arccos, unit="special", flops=14, steps=43),
    _F("atan", 1, np.arctan, unit="special", flops=14, steps=36),
    _F("sinh", 1, np.sinh, unit="special", flops=12, steps=74),
    _F("cosh", 1, np.cosh, unit="special", flops=12, steps=58),
    _F("tanh", 1, np.tanh, unit="special", flops=10, steps=29),
    _F("asinh", 1, np.arcsinh, unit="special", flops=14, steps=152),
    _F("acosh", 1, np.arccosh, unit="special", flops=14, steps=141),
    _F("atanh", 1, np.arctanh, unit="special", flops=14, steps=88),
    # activations
    _F("erf", 1, _erf, unit="special", flops=14, steps=44),
    _F("sigmoid", 1, _sigmoid, unit="special", flops=12, steps=30),
    _F("gelu", 1, _gelu, unit="special", flops=18, steps=19),
    _F("gelu_tanh", 1, _gelu_tanh, unit="special", flops=17, steps=31),
    _F("silu", 1, lambda x: x * _sigmoid(x), unit="special", flops=13, steps=31),
    _F("softplus", 1, _softplus, unit="special", flops=20, steps=89),
    _F("mish", 1, _mish, unit="special", flops=17, steps=33),
    # comparison
    _F("eq", 2, np.equal, _ANY, "bool", commutes=True),
    _F("ne", 2, np.not_equal, _ANY, "bool", commutes=True),
    _F("lt", 2, np.less, _ANY, "bool"),
    _F("le", 2, np.less_equal, _ANY, "bool"),
    _F("gt", 2, np.greater, _ANY, "bool"),
    _F("ge", 2, np.greater_equal, _ANY, "bool"),
    _F("isnan", 1, np.isnan, "f", "bool"),
    _F("isinf", 1, np.isinf, "f", "bool"),
    _F("ordinal", 1, _ordinal, "f", "i32", flops=4, bits=32),
    # logic and bits
    _F("and", 2, np.logical_and, "b", "bool", commutes=True),
    _F("or", 2, np.logical_or, "b", "bool", commutes=True),
    _F("xor", 2, np.logical_xor, "b", "bool", commutes=True),
    _F("not", 1, np.logical_not, "b", "bool"),
    _F("bitand", 2, np.bitwise_and, _INT, commutes=True),
    _F("bitor", 2, np.bitwise_or, _INT, commutes=True),
    _F("bitxor", 2, np.bitwise_xor, _INT, commutes=True),
    _F("bitnot", 1, np.bitwise_not, "iu"),
    _F("shl", 2, np.left_shift, "iu"),
    _F("shr", 2, np.right_shift, "iu"),
    # choice and conversion
    _F("where", 3, np.where, _ANY),
    _F("cast", 1, np.asarray, _ANY, "given", unit="free"),
    # x as memory would hold it, which targets that keep short floats in f32 on chip must round it for (`ir.rounding`)
    _F("as_stored", 1, np.asarray, flops=2),
)

SCALAR: dict[str, ScalarFn] = {f.name: f for f in _TABLE}


def result_dtype(name: str, operands: Sequence[DType]) -> DType:
    """The dtype of fn(operands). Raises TypeError, with the dtypes in its text, where the function does not take them."""
    fn = SCALAR[name]
    got = ", ".join(map(str, operands))
    if len(operands) != fn.arity:
        raise TypeError(f"{name} takes {fn.arity} operands, got {len(operands)} ({got})")
    values = operands
    if name == "where":
        if operands[0] != BOOL:
            raise TypeError(f"where takes a bool condition, got {operands[0]}")
        values = operands[1:]
    if any(v != values[0] for v in values):
        raise TypeError(f"{name} takes operands of one dtype, got {got}")
    if values[0].kind not in fn.kinds:
        kinds = ", ".join({"f": "float", "i": "signed integer", "u": "unsigned integer", "b": "bool"}[k] for k in fn.kinds)
        raise TypeError(f"{name} takes {kinds} operands, got {got}")
    if values[0].bits > fn.bits:
        raise TypeError(f"{name} takes operands of at most {fn.bits} bits, got {got}")
    return {"bool": BOOL, "i32": I32}.get(fn.result, values[0])


def convert(x: Any, dtype: DType) -> np.ndarray:
    """x as dtype: floats truncate toward zero on their way to integers, bool is `!= 0`. What bf16 and 8-bit floats are made of is f32
    first, as kernels and torch have it; ml_dtypes before 0.7 too, which now rounds f64 and wide integers once."""
    x = np.asarray(x)
    if dtype == BOOL:
        return x != 0
    with np.errstate(all="ignore"):
        if dtype in SHORT_FLOATS and dtype != F16 and x.dtype.itemsize >= 4:
            x = x.astype(np.float32, copy=False)
        return x.astype(dtype.numpy, copy=False)


def apply(name: str, args: Sequence[Any], dtype: DType) -> np.ndarray:
    """The function on NumPy arrays with NumPy broadcasting, as `dtype`. Short floats are computed in f32 and rounded once."""
    if name == "cast":
        return convert(args[0], dtype)
    arrays = [np.asarray(a) for a in args]
    wide = [a.astype(np.float32) if dtype_of(a) in SHORT_FLOATS else a for a in arrays]
    with np.errstate(all="ignore"):
        return convert(SCALAR[name].numpy(*wide), dtype)


def accumulator(dtype: DType) -> DType:
    """The type in which sums and contractions of `dtype` are accumulated: f32 for floats of 16 bits or fewer, i32 for short integers."""
    if dtype in SHORT_FLOATS:
        return F32
    return I32 if dtype.kind in "iu" and dtype.bits < 32 else dtype


def narrows(a: DType, b: DType, wide: DType, sums: DType) -> bool:
    """Whether factors cast from `a` and `b` to `wide` may be multiplied as they are, into sums of type `sums`: the casts are exact, and
    sums of such products are of that type anyway. Two types differ only where both have 8 bits (matrix units mix these)."""
    alike = a == b or (a.bits == b.bits == 8 and a.is_float == b.is_float)
    return alike and a != wide and accumulator(a) == accumulator(b) == sums and widens(a, wide) and widens(b, wide)
