"""Map expressions -> C text, element by element."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan

from autocomp.targets.cpu.byte_tables import Table
from autocomp.targets.cpu.flat import index_text

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Const, Expr, Gather, Index, Inside, Map, factors
from autocomp.ir.types import BOOL, F32, SHORT_FLOATS, DType
from autocomp.tile.program import Value

CTYPE = {
    "f64": "double", "f32": "float", "f16": "f16", "bf16": "bf16", "bool": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t",
    "f8e4m3": "f8e4m3", "f8e5m2": "f8e5m2", "i64": "int64_t", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
}  # fmt: skip
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "and": "&&", "or": "||", "bitand": "&", "bitor": "|", "bitxor": "^"}  # fmt: skip
_DIVISION = {"idiv": "quotient", "fmod": "remainder", "floordiv": "floordiv", "mod": "modulo"}  # of integers, in the header
_LIBM = {"exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
         "asinh",
         "acosh", "atanh", "floor", "ceil", "trunc", "erf", "fmod", "pow"}  # fmt: skip
# Functions of floats by one formula, s_ and vf_ in the header: an element is the same number in a vector and by itself.
SHARED = {"exp", "exp_nonpositive", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf", "gelu", "gelu_tanh", "sigmoid", "softplus",
          "mish", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "pow"}  # fmt: skip
# Compound functions over their operand: text with x already evaluated once (a variable or a literal).
_COMPOUND = {
    "rsqrt": "1 / {sqrt}({x})", "sigmoid": "1 / (1 + {exp}(-({x})))", "silu": "({x}) / (1 + {exp}(-({x})))", "relu": "{max}({x}, 0)",
    "gelu": "{half} * ({x}) * (1 + {erf}(({x}) * {sqrt_half}))",
    "gelu_tanh": "{half} * ({x}) * (1 + {tanh}({gelu_tanh} * (({x}) + {gelu_cubic} * ({x}) * ({x}) * ({x}))))",
    "softplus": "{max}({x}, 0) + {log1p}({exp}(-{fabs}({x})))",
    "mish": "({x}) * {tanh}({max}({x}, 0) + {log1p}({exp}(-{fabs}({x}))))",
}  # fmt: skip

def working(d: DType) -> DType:
    """The type in which values of `d` are computed: f32 for shorter floats."""
    return F32 if d in SHORT_FLOATS else d


def literal(value: object, d: DType) -> str:
    """A constant in C."""
    w = working(d)
    if d == BOOL:
        return "1" if value else "0"
    if w.is_float:
        v = float(value)  # type: ignore[arg-type]
        suffix = "f" if w == F32 else ""
        if isnan(v):
            return "NAN"
        if v in (inf, -inf):
            return "INFINITY" if v > 0 else "-INFINITY"
        text = f"{F32.numpy.type(v).item():.9g}" if w == F32 else repr(v)
        return text + ("" if any(c in text for c in ".en") else ".0") + suffix
    v = int(value)  # type: ignore[call-overload]
    if v == -(2**63):
        return "INT64_MIN"
    return f"{v}" + ("ll" if d.bits == 64 and d.kind == "i" else "ull" if d.bits == 64 else "u" if d.kind == "u" else "")


class Scalar:
    """Element-wise text. `read(name)` gives the text of a value or of a view at the current point; `table(tensor, indices)`
    that of a data-dependent read; `name(axis)` of an axis."""

    def __init__(self, read: Callable[[str], str], table: Callable[[str, list[str]], str]) -> None:
        self.read, self.table = read, table

    def text(self, e: Expr) -> str:
        if isinstance(e, Value):
            return self.read(e.name)
        if isinstance(e, Const):
            return literal(e.value, e.dtype)
        if isinstance(e, Index):
            return f"({CTYPE[working(e.dtype).name]})({index_text(e.index)})"
        if isinstance(e, Inside):
            return guard_text(e.guard)
        if isinstance(e, Gather):
            return self.table(str(e.tensor), [self.text(a) for a in e.index])
        if isinstance(e, Table):
            return f"({CTYPE[e.dtype.name]}){e.name}[(uint8_t)({self.text(e.of)})]"
        assert isinstance(e, Map), type(e)
        return self.map(e)

    def map(self, e: Map) -> str:
        args = [self.text(a) for a in e.args]
        for k, a in enumerate(e.args):  # a caller's bool is any byte, all but 0 true
            if a.dtype == BOOL and isinstance(a, (Value, Gather)) and (k or e.fn != "where"):
                args[k] = f"({args[k]} != 0)"
        if e.fn == "cast":
            return convert(args[0], e.args[0].dtype, e.dtype)
        if e.fn == "as_stored":  # every value is rounded where it is made
            return args[0]
        of = working(e.args[1].dtype if e.fn == "where" else e.args[0].dtype)
        n = factors(e) if of == F32 else 0
        return rounded(f"s_power{n}({args[0]})" if n else scalar_function(e.fn, args, of), e.dtype)


def rounded(text: str, d: DType) -> str:
    """A value in working precision as one of `d`."""
    if d in SHORT_FLOATS:
        return f"s_round_{d.name}({text})"
    return f"({CTYPE[d.name]})({text})" if d.is_int and d.bits < 32 else text


def convert(text: str, a: DType, b: DType) -> str:
    if b == BOOL:
        return f"(({text}) != 0)"
    if b in SHORT_FLOATS:
        return f"s_round_{b.name}({'s_odd' if (a.name, b.name) == ('f64', 'f16') else '(float)'}({text}))"
    if a.is_float and b.is_int:
        return f"s_to_{b.name}{'d' if a.bits == 64 else ''}({text})"
    return text if working(a) == working(b) else f"({CTYPE[working(b).name]})({text})"


def scalar_function(fn: str, args: list[str], d: DType) -> str:
    """fn(args) for operands of type d (a working type). Raises UnsupportedOp."""
    x = args[0]
    f = "f" if d == F32 else ""
    if fn in SHARED and d == F32:
        return f"s_{fn}({', '.join(args)})"
    if fn == "silu" and d == F32:
        return f"({x} * s_sigmoid({x}))"
    if fn == "where":
        return f"({x} ? {args[1]} : {args[2]})"
    if d.is_int and fn in ("add", "sub", "mul", "neg"):
        return wrapping(fn, args, d)
    if fn in _INFIX and not (fn == "div" and not d.is_float):
        return f"({x} {_INFIX[fn]} {args[1]})"
    if fn in ("max", "min"):
        if d.is_float:
            return f"s_{fn}{'' if f else 'd'}({x}, {args[1]})"
        return f"({x} {'>' if fn == 'max' else '<'} {args[1]} ? {x} : {args[1]})"
    simple = {
        "neg": f"(-{x})",
        "not": f"(!{x})",
        "bitnot": f"(~{x})",
        "isnan": f"({x} != {x})",
        "isinf": f"(isinf({x}) != 0)",
        "ordinal": f"s_ordinal({x})",
        "xor": f"(({x}) != ({args[-1]}))",
    }
    if fn in simple:
        return simple[fn]
    if d.is_float:
        return _float_function(fn, args, f)
    return _int_function(fn, args, d)


def _float_function(fn: str, args: list[str], f: str) -> str:
    if fn in _LIBM:
        return f"{fn}{f}({', '.join(args)})"
    named = {
        "round": f"rint{f}",
        "abs": f"fabs{f}",
        "sign": "s_sign" if f else "s_signd",
        "mod": "s_fmodulo" if f else "s_fmodulod",
        "floordiv": "s_fquotient" if f else "s_fquotientd",
    }
    if fn in named:
        return f"{named[fn]}({', '.join(args)})"
    if fn in _COMPOUND:
        names = {n: n + f for n in ("exp", "erf", "tanh", "log1p", "fabs", "sqrt")}
        consts = {
            "half": "0.5" + f,
            "sqrt_half": "0.7071067811865476" + f,
            "gelu_tanh": "0.7978845608028654" + f,
            "gelu_cubic": "0.044715" + f,
        }
        return "(" + _COMPOUND[fn].format(x=args[0], max="s_max" if f else "s_maxd", **names, **consts) + ")"
    raise UnsupportedOp(f"no C text for '{fn}' of floats", where="target cpu", hint="add it to targets/cpu/expressions.py")


def wrapping(fn: str, args: list[str], d: DType) -> str:
    """Integer arithmetic modulo 2^bits: in C the overflow of a signed type (also of the int that short ones become) is undefined."""
    unsigned = "uint64_t" if d.bits == 64 else "uint32_t"
    of = [f"({unsigned})({a})" for a in (["0", *args] if fn == "neg" else args)]
    return f"({CTYPE[d.name]})({of[0]} {_INFIX['sub' if fn == 'neg' else fn]} {of[1]})"


def _int_function(fn: str, args: list[str], d: DType) -> str:
    x = args[0]
    if fn == "abs":
        return f"({x} < 0 ? {wrapping('neg', args, d)} : {x})"
    if fn == "sign":
        return f"(({x} > 0) - ({x} < 0))"
    if fn == "relu":
        return f"({x} > 0 ? {x} : 0)"
    if fn == "pow":
        return f"({CTYPE[d.name]})s_{d.kind}pow({x}, {args[1]})"
    if fn in ("shl", "shr"):  # shifts by the width or more (or by less than nothing) move every bit out
        out = f"({x} < 0 ? -1 : 0)" if fn == "shr" and d.kind == "i" else "0"
        moved = f"({CTYPE[d.name]})((uint64_t){x} << {args[1]})" if fn == "shl" else f"{x} >> {args[1]}"  # of unsigned: bits may leave
        return f"((uint64_t)({args[1]}) < {d.bits} ? {moved} : {out})"
    if fn in _DIVISION:
        return f"s_{_DIVISION[fn]}_{d.kind}{max(32, d.bits)}({x}, {args[1]})"
    raise UnsupportedOp(f"no C text for '{fn}' of integers", where="target cpu", hint="add it to targets/cpu/expressions.py")


def guard_text(guard: tuple[object, ...]) -> str:
    """All guards (index expressions) non-negative."""
    return "(" + " && ".join(f"{index_text(g)} >= 0" for g in guard) + ")" if guard else "1"  # type: ignore[arg-type]
