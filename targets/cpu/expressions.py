"""Map expressions -> C text, element by element or as vectors of f32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isnan

from autocomp.targets.cpu.flat import index_text
from autocomp.targets.cpu.lower import Nest

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Gather, Index, Inside, Map, postorder
from autocomp.ir.types import BOOL, F32, DType
from autocomp.tile.program import Stmt, Value

CTYPE = {
    "f64": "double", "f32": "float", "f16": "f16", "bf16": "bf16", "bool": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t",
    "i64": "int64_t", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
}  # fmt: skip
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "and": "&&", "or": "||", "bitand": "&", "bitor": "|", "bitxor": "^"}  # fmt: skip
_DIVISION = {"idiv": "quotient", "fmod": "remainder", "floordiv": "floordiv", "mod": "modulo"}  # of integers, in the header
_LIBM = {"exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
         "asinh",
         "acosh", "atanh", "floor", "ceil", "trunc", "erf", "fmod", "pow"}  # fmt: skip
# Compound functions over their operand: text with x already evaluated once (a variable or a literal).
_COMPOUND = {
    "rsqrt": "1 / {sqrt}({x})", "sigmoid": "1 / (1 + {exp}(-({x})))", "silu": "({x}) / (1 + {exp}(-({x})))", "relu": "{max}({x}, 0)",
    "gelu": "{half} * ({x}) * (1 + {erf}(({x}) * {sqrt_half}))",
    "gelu_tanh": "{half} * ({x}) * (1 + {tanh}({gelu_tanh} * (({x}) + {gelu_cubic} * ({x}) * ({x}) * ({x}))))",
    "softplus": "{max}({x}, 0) + {log1p}({exp}(-{fabs}({x})))",
}  # fmt: skip
# Vector forms of f32 functions: header functions, or operators of the vector extension.
_VECTOR = {
    "exp": "vf_exp", "exp_nonpositive": "vf_exp_nonpositive",
    "exp2": "vf_exp2", "log": "vf_log", "tanh": "vf_tanh", "erf": "vf_erf", "gelu": "vf_gelu", "sigmoid": "vf_sigmoid",
    "softplus": "vf_softplus", "log1p": "vf_log1p", "sqrt": "vf_sqrt", "floor": "vf_floor", "ceil": "vf_ceil", "round": "vf_rint",
    "trunc": "vf_trunc", "abs": "vf_abs", "sign": "vf_sign", "max": "vf_max", "min": "vf_min",
}  # fmt: skip
_VECTOR_TEXT = {
    "rsqrt": "(1.f / vf_sqrt({0}))",
    "silu": "({0} * vf_sigmoid({0}))",
    "relu": "vf_max_c((vf){{0}}, {0})",
    "neg": "(-{0})",
}


def working(d: DType) -> DType:
    """The type in which values of `d` are computed: f32 for the 16-bit floats."""
    return F32 if d.name in ("f16", "bf16") else d


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
        assert isinstance(e, Map), type(e)
        return self.map(e)

    def map(self, e: Map) -> str:
        args = [self.text(a) for a in e.args]
        if e.fn == "cast":
            return convert(args[0], e.args[0].dtype, e.dtype)
        if e.fn == "as_stored":  # every value is rounded where it is made
            return args[0]
        of = working(e.args[1].dtype if e.fn == "where" else e.args[0].dtype)
        text = scalar_function(e.fn, args, of)
        return rounded(text, e.dtype)


def rounded(text: str, d: DType) -> str:
    """A value in working precision as one of `d`."""
    if d.name in ("f16", "bf16"):
        return f"s_round_{d.name}({text})"
    return f"({CTYPE[d.name]})({text})" if d.is_int and d.bits < 32 else text


def convert(text: str, a: DType, b: DType) -> str:
    if b == BOOL:
        return f"(({text}) != 0)"
    if b.name in ("f16", "bf16"):
        return f"s_round_{b.name}({'s_odd' if (a.name, b.name) == ('f64', 'f16') else '(float)'}({text}))"
    if a.is_float and b.is_int:
        return f"s_to_{b.name}{'d' if a.bits == 64 else ''}({text})"
    return text if working(a) == working(b) else f"({CTYPE[working(b).name]})({text})"


def scalar_function(fn: str, args: list[str], d: DType) -> str:
    """fn(args) for operands of type d (a working type). Raises UnsupportedOp."""
    x = args[0]
    f = "f" if d == F32 else ""
    if fn in ("exp", "exp_nonpositive") and d == F32:
        return f"s_{fn}({x})"
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


# ---- vectors
def vectorizes(nest: Nest, s: Stmt, axis: str) -> bool:
    """Can the statement run over `axis` in vectors of f32?"""
    names = [s.dst, *s.srcs]
    if not nest.vectors or s.op == "mma" or any(not _vector_value(nest, n, axis) for n in names if n in nest.views or n in nest.slots):
        return False
    if s.op == "reduce":
        return str(s.expr) in ("add", "max", "min", "mul")
    return not isinstance(s.expr, Expr) or all(_vector_node(nest, e, axis) for e in postorder(s.expr))


def _vector_value(nest: Nest, name: str, axis: str) -> bool:
    if nest.dtype_of(name) != F32:
        return False
    if name not in nest.views:
        return True
    v = nest.views[name]
    return isinstance(v.flat.stride(axis), int) and all(plain_in(g, axis) for g in v.guard)


def plain_in(g: Aff, axis: str) -> bool:
    """Does the axis occur in the index expression under no floor and no mod?"""
    return all(isinstance(x, str) or axis not in x.num.names() for x, _ in g.terms)


def mask_text(guard: Sequence[Aff], axis: str, part: str = "") -> tuple[str, str]:
    """(condition that is the same in every lane or "", mask of the lanes or "") of guards, where lane l stands for axis + l."""
    same = [g for g in guard if axis not in g.names()]
    tests = [
        f"(vi_iota() * {dict(g.terms)[axis]} + vi_set((int32_t)({index_text(g)})) >= 0)" for g in guard if axis in g.names()
    ]
    if tests and part:
        tests.append(f"(vi_iota() < vi_set((int32_t)({part})))")
    return guard_text(tuple(same)) if same else "", " & ".join(tests)


def _vector_node(nest: Nest, e: Expr, axis: str) -> bool:
    if isinstance(e, (Index, Gather)):
        return False
    if isinstance(e, Inside):
        return all(plain_in(g, axis) for g in e.guard)
    if isinstance(e, (Const, Value)):
        return e.dtype in (F32, BOOL)
    assert isinstance(e, Map)
    if e.fn in ("lt", "le", "gt", "ge", "eq", "ne"):
        return e.args[0].dtype == F32
    if e.fn in ("and", "or", "not", "where"):
        return e.dtype in (BOOL, F32) and not (e.fn == "where" and e.dtype == BOOL)
    if e.fn in ("isnan", "cast"):
        return e.args[0].dtype == F32 and (e.fn == "isnan" or e.dtype == F32)
    return e.dtype == F32 and (e.fn in _VECTOR or e.fn in _VECTOR_TEXT or e.fn in ("add", "sub", "mul", "div"))


class Vector:
    """Vector text: `read(name)` gives a vf; `axis` is the one that runs across the lanes."""

    def __init__(self, read: Callable[[str], str], axis: str = "") -> None:
        self.read, self.axis = read, axis

    def text(self, e: Expr) -> str:
        if isinstance(e, Value):
            return self.read(e.name)
        if isinstance(e, Const):
            return f"vf_set({literal(e.value, e.dtype)})" if e.dtype != BOOL else f"vi_set({-1 if e.value else 0})"
        if isinstance(e, Inside):
            same, lanes = mask_text(e.guard, self.axis)
            whole = f"vi_set(-{same})" if same else ""
            return f"({whole} & {lanes})" if whole and lanes else f"({lanes})" if lanes else whole or "vi_set(-1)"
        assert isinstance(e, Map), type(e)
        if e.fn == "where" and isinstance(e.args[0], Inside) and not any(self.axis in g.names() for g in e.args[0].guard):
            kind = "vi" if e.dtype == BOOL else "vf"  # GCC drops may_alias from a product's type, and ?: wants equal types
            return f"({guard_text(e.args[0].guard)} ? ({kind}){self.text(e.args[1])} : ({kind}){self.text(e.args[2])})"
        args = [self.text(a) for a in e.args]
        if e.fn == "div" and args[1].startswith("vf_set("):  # the same divisor in every lane
            return f"vf_over({args[0]}, {args[1][len('vf_set(') : -1]})"
        if e.fn in ("add", "sub", "mul", "div", "lt", "le", "gt", "ge", "eq", "ne"):
            return f"({args[0]} {_INFIX[e.fn]} {args[1]})"
        if e.fn in ("and", "or"):
            return f"({args[0]} {'&' if e.fn == 'and' else '|'} {args[1]})"
        if e.fn == "not":
            return f"(~{args[0]})"
        if e.fn == "isnan":
            return f"({args[0]} != {args[0]})"
        if e.fn == "cast":
            return args[0]
        if e.fn == "where":
            return f"vf_select({', '.join(args)})"
        if e.fn in _VECTOR_TEXT:
            return _VECTOR_TEXT[e.fn].format(*args)
        return f"{_VECTOR[e.fn]}({', '.join(args)})"
