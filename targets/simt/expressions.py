"""Map expressions -> C++ text. f16 and bf16 are held as f32 on chip (excess precision) unless a program must be exact."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan

from autocomp.targets.cpu.flat import index_text

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Gather, Index, Inside, Map
from autocomp.ir.types import BOOL, F32, F64, DType

STORED = {
    "f64": "double", "f32": "float", "f16": "f16", "bf16": "bf16", "bool": "unsigned char", "i8": "signed char", "i16": "short",
    "i32": "int", "i64": "long long", "u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned", "u64": "unsigned long long",
}  # fmt: skip
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "and": "&&", "or": "||", "bitand": "&", "bitor": "|", "bitxor": "^", "idiv": "/"}  # fmt: skip
# Functions that every device header defines as ac_<name>, for float and double.
_FLOAT = {
    "max", "min", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "round", "trunc", "erf", "sigmoid", "gelu", "gelu_tanh",
    "silu", "softplus", "relu", "sign", "fmod", "mod", "pow", "floordiv", "isnan", "isinf",
}  # fmt: skip
_INT = {"max", "min", "abs", "sign", "relu", "mod", "fmod", "floordiv", "pow", "shl", "shr"}
_HALF = {"gelu", "tanh", "sigmoid", "silu", "exp", "div", "rsqrt"}  # functions with a cheaper form, its error far below half precision


def working(d: DType) -> DType:
    """The type in which values of `d` are held and computed."""
    return F32 if d.name in ("f16", "bf16") else d


def held(d: DType) -> str:
    """C++ type of a value on chip."""
    return STORED[working(d).name]


def literal(value: object, d: DType) -> str:
    """A constant in C++."""
    w = working(d)
    if d == BOOL:
        return "true" if value else "false"
    if w.is_float:
        v = float(value)  # type: ignore[arg-type]
        if isnan(v):
            return f"ac_nan<{held(d)}>()"
        if v in (inf, -inf):
            return f"{'-' if v < 0 else ''}ac_inf<{held(d)}>()"
        text = f"{F32.numpy.type(v).item():.9g}" if w == F32 else repr(v)
        return text + ("" if any(c in text for c in ".en") else ".0") + ("f" if w == F32 else "")
    v = int(value)  # type: ignore[call-overload]
    if v == -(2**63):
        return "(-9223372036854775807ll - 1)"
    return f"{v}" + ("ll" if d.bits == 64 and d.kind == "i" else "ull" if d.bits == 64 else "u" if d.kind == "u" else "")


def index(a: Aff, name: Callable[[str], str]) -> str:
    """An index expression, floor semantics."""
    return index_text(a, name).replace("floor_div(", "ac_floordiv(").replace("floor_mod(", "ac_mod(")


class Scalar:
    """Element-wise text at one point. `read(value)` gives an on-chip value's text, `table(tensor, indices)` a data-dependent
    read, `at(axis)` an axis' global index. `exact`: round where the program casts to a half type. `half`: everything in memory
    is of a half type, so that functions of wider values between may be as cheap as for half types."""

    def __init__(self, read: Callable[[str], str], table: Callable[[str, list[str]], str], at: Callable[[str], str],
                 exact: bool = False, half: bool = False) -> None:  # fmt: skip
        self.read, self.table, self.at, self.exact, self.half = read, table, at, exact, half

    def text(self, e: Expr) -> str:
        if isinstance(e, Const):
            return literal(e.value, e.dtype)
        if isinstance(e, Index):
            return f"({held(e.dtype)})({index(e.index, self.at)})"
        if isinstance(e, Inside):
            return "(" + " && ".join(f"{index(g, self.at)} >= 0" for g in e.guard) + ")" if e.guard else "true"
        if isinstance(e, Gather):
            return self.table(str(e.tensor), [self.text(a) for a in e.index])
        if isinstance(e, Map):
            return self.map(e)
        return self.read(e.name)  # type: ignore[attr-defined]

    def map(self, e: Map) -> str:
        args = [self.text(a) for a in e.args]
        if e.fn == "cast":
            return convert(args[0], e.args[0].dtype, e.dtype, self.exact)
        x = e.args[0]
        if e.fn == "exp" and self.half and isinstance(x, Map) and x.fn == "sub" and working(x.dtype) == F32:
            return f"ac_exp_difference_half({self.text(x.args[0])}, {self.text(x.args[1])})"
        of = e.args[1].dtype if e.fn == "where" else e.args[0].dtype
        text = function(e.fn, args, of, self.half)
        if self.exact and e.dtype.name in ("f16", "bf16"):
            return f"ac_round<{e.dtype.name}>({text})"
        return f"({held(e.dtype)})({text})" if e.dtype.is_int and e.dtype.bits < 32 else text


def convert(text: str, a: DType, b: DType, exact: bool = False) -> str:
    """cast(a -> b) of a held value."""
    if b == BOOL:
        return f"(({text}) != 0)"
    if b.name in ("f16", "bf16") and exact:
        return f"ac_round<{b.name}>((float)({text}))"
    return text if working(a) == working(b) else f"(({held(b)})({text}))"


def function(fn: str, args: list[str], d: DType, half: bool = False) -> str:
    """fn(args) for operands of type d. Raises UnsupportedOp."""
    x, w = args[0], working(d)
    if w == F32 and fn in _HALF and (half or d.name in ("f16", "bf16")):
        return f"ac_{fn}_half({', '.join(args)})"
    if fn == "where":
        return f"({x} ? {args[1]} : {args[2]})"
    if fn in _INFIX and not (fn in ("div", "idiv") and w.is_float != (fn == "div")):
        return f"({x} {_INFIX[fn]} {args[1]})"
    simple = {"neg": f"(-{x})", "not": f"(!{x})", "bitnot": f"(~{x})", "xor": f"(({x}) != ({args[-1]}))"}
    if fn in simple:
        return simple[fn]
    if w in (F32, F64) and fn in _FLOAT:
        return f"ac_{fn}({', '.join(args)})"
    if w.is_int and fn in _INT:
        return f"ac_{fn}<{held(d)}>({', '.join(args)})"
    raise UnsupportedOp(f"no device function for '{fn}' of {d.name}", where="GPU targets", hint="add it to the target's device header")
