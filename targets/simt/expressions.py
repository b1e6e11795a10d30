"""Map expressions -> C++ text. f16 and bf16 are held as f32 on chip (excess precision) unless a program must be exact: then every value
is rounded where it is made, else those that the program casts (`as_stored`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf, isnan, log2

from autocomp.targets.cpu.flat import index_text
from autocomp.targets.simt.extremes import reaches
from autocomp.targets.simt.function_costs import CHEAPER_HALVES, table

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Gather, Index, Inside, Map, postorder
from autocomp.ir.types import BOOL, F16, F32, F64, SHORT_FLOATS, DType
from autocomp.tile.program import TileProgram, Value, walk

STORED = {
    "f64": "double", "f32": "float", "f16": "f16", "bf16": "bf16", "f8e4m3": "f8e4m3", "f8e5m2": "f8e5m2", "bool": "unsigned char",
    "i8": "signed char", "i16": "short",
    "i32": "int", "i64": "long long", "u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned", "u64": "unsigned long long",
}  # fmt: skip
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "and": "&&", "or": "||", "bitand": "&", "bitor": "|", "bitxor": "^"}  # fmt: skip
_WRAPS = {"add": "+", "sub": "-", "mul": "*", "neg": "-"}
# Functions that every device header defines as ac_<name>, for float and double.
_FLOAT = {
    "max", "min", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "round", "trunc", "erf", "sigmoid", "gelu", "gelu_tanh",
    "silu", "softplus", "mish", "relu", "sign", "fmod", "mod", "pow", "floordiv", "isnan", "isinf", "ordinal",
}  # fmt: skip
_INT = {"max", "min", "abs", "sign", "relu", "mod", "fmod", "floordiv", "idiv", "pow", "shl", "shr"}
JUMPED = 8  # instructions of a function from which compilers jump over it where a choice leaves it out
_F16 = {"sin", "cos"}  # what f16 holds ends below the angles whose multiples of pi / 2 take a hundred digits


def working(d: DType) -> DType:
    """The type in which values of `d` are held and computed."""
    return F32 if d in SHORT_FLOATS else d


def rounds(d: DType, exact: bool) -> bool:
    """Whether a value of `d` is rounded where it is made: 8-bit floats always, 16-bit ones in exact programs."""
    return d in SHORT_FLOATS and (exact or d.bits == 8)


def held(d: DType) -> str:
    """C++ type of a value on chip."""
    return STORED[working(d).name]


def every(conditions: Sequence[str]) -> str:
    """Conditions as one that holds where all do, "true" without any: all are computed, so that no branch stands between one access under
    conditions and the next (each of a chain of `&&` may become a branch: 162 loads in front of a window's sum had 307)."""
    return " & ".join(f"({c})" for c in conditions) if len(conditions) > 1 else "".join(conditions) or "true"


def under(conditions: Sequence[str], text: str) -> str:
    """A statement under conditions, itself without any."""
    return f"if ({every(conditions)}) {text}" if conditions else text


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
    return index_text(a, name)


def only_quotients(p: TileProgram) -> bool:
    """Whether exponentials below a maximum reach the outputs of a program as quotients alone, in which a factor that depends on the maximum
    cancels; in a logarithm of their sum it does not."""
    stmts = [s for s, _ in walk(p.body)]
    fns = {e.fn for s in stmts if isinstance(s.expr, Expr) for e in postorder(s.expr) if isinstance(e, Map)}
    return any(s.op == "reduce" and s.expr == "max" for s in stmts) and not fns & {"log", "log2", "log1p"}


class Scalar:
    """Element-wise text at one point. `read(value)` gives an on-chip value's text, `table(tensor, indices)` a data-dependent
    read, `at(axis)` an axis' global index. `exact`: round every value of a half type. `half`: everything in memory
    is of a half type, so that functions of wider values between may be as cheap as for half types. `relative`: whether a factor that all
    exponentials below one maximum share may be off. `word(value)`: the four bytes around the point, of a value of bytes that has them in
    one register; "" elsewhere. `index`: text of an index expression. `far(value)`: whether a value may be too large or small for the cheap
    forms (`extremes`). `lanes`: whether threads run in lockstep, so that one that jumps makes others wait. `shared(value)`: whether several
    elements around the point read the same (`shared_divisors`)."""

    def __init__(self, read: Callable[[str], str], table: Callable[[str, list[str]], str], at: Callable[[str], str],
                 exact: bool = False, half: bool = False, relative: bool = False, word: Callable[[str], str] = lambda name: "",
                 index: Callable[[Aff, Callable[[str], str]], str] = index,
                 far: Callable[[str], bool] = lambda name: False, lanes: bool = True,
                 shared: Callable[[Expr], bool] = lambda e: False) -> None:  # fmt: skip
        self.read, self.table, self.at, self.word, self.index, self.far, self.lanes = read, table, at, word, index, far, lanes
        self.exact, self.half, self.relative, self.shared = exact, half, relative, shared

    def text(self, e: Expr) -> str:
        if isinstance(e, Const):
            return literal(e.value, e.dtype)
        if isinstance(e, Index):
            return f"({held(e.dtype)})({self.index(e.index, self.at)})"
        if isinstance(e, Inside):
            return "(" + " && ".join(f"{self.index(g, self.at)} >= 0" for g in e.guard) + ")" if e.guard else "true"
        if isinstance(e, Gather):
            return self.table(str(e.tensor), [self.text(a) for a in e.index])
        if isinstance(e, Map):
            return self.map(e)
        if not isinstance(e, Value):
            raise UnsupportedOp(f"'{type(e).__name__}' in an expression of elements (a recurrence reads its last step) has no form on GPUs",
                                hint="take target cpu for such loops, or write the steps as operators of their own")  # fmt: skip
        return self.read(e.name)

    def map(self, e: Map) -> str:
        if e.fn in ("add", "sub") and not self.exact and (c := _whole(e.args[1])) is not None and _small(e.args[0]):
            return self.small(e.args[0].args[0], c if e.fn == "sub" else -c)
        if _small(e) and not self.exact:
            return self.small(e.args[0], 0)
        args = [self.text(a) for a in e.args]
        if e.fn == "cast":
            return convert(args[0], e.args[0].dtype, e.dtype, self.exact)
        if e.fn == "as_stored":
            return f"ac_round<{e.dtype.name}>({args[0]})" if e.dtype in SHORT_FLOATS else args[0]
        x = e.args[0]
        if e.fn == "exp" and self.half and isinstance(x, Map) and x.fn == "sub" and working(x.dtype) == F32:
            a = x.args[0]
            if not self.relative or reaches(a, self.far):
                return f"ac_exp_far_difference_half({self.text(a)}, {self.text(x.args[1])})"
            if isinstance(a, Map) and a.fn == "mul" and isinstance(a.args[1], Const) and working(a.dtype) == F32:
                scale = literal(a.args[1].value * log2(exp(1)), F32)
                return f"ac_exp_scaled_difference_half({self.text(a.args[0])}, {scale}, {self.text(x.args[1])})"
            return f"ac_exp_difference_half({self.text(a)}, {self.text(x.args[1])})"
        of = e.args[1].dtype if e.fn == "where" else e.args[0].dtype
        if self.lanes and e.fn == "where" and working(of) == F32 and not isinstance(x, Inside) and any(map(_long, e.args[1:])):
            return f"ac_select({', '.join(args)})"
        if e.fn in _WRAPS and of.is_int and of.bits >= 16 and _of_data(e):
            return wrapping(e.fn, args, of)
        far = e.fn in ("div", "rsqrt") and reaches(e.args[-1], self.far)
        if self.by_shared(e):
            text = f"ac_divide({', '.join(args)})"
        else:
            text = function(e.fn, args, working(of), False) if far else function(e.fn, args, of, self.half)
        if rounds(e.dtype, self.exact):
            return f"ac_round<{e.dtype.name}>({text})"
        return f"({held(e.dtype)})({text})" if e.dtype.is_int and e.dtype.bits < 32 else text


    def by_shared(self, e: Map) -> bool:
        """Whether an expression is a quotient of f32, in no cheaper form, by what several elements share."""
        if e.fn != "div" or working(e.args[0].dtype) != F32:
            return False
        cheap = (self.half or e.args[0].dtype in SHORT_FLOATS) and not reaches(e.args[1], self.far)
        return not cheap and self.shared(e.args[1])

    def small(self, e: Expr, minus: int) -> str:
        """An integer of at most 16 bits, less a constant, as a float."""
        if e.dtype.bits == 8 and (word := self.bytes(e)):
            word, minus = (word, minus) if e.dtype.kind == "u" else (f"{word} ^ 0x80808080u", minus + 128)
            return f"ac_small_byte({word}, r % 4, {minus}.0f)"
        return f"ac_small{'_signed' if e.dtype.kind == 'i' else ''}({self.text(e)}, {minus}.0f)"


    def bytes(self, e: Expr) -> str:
        """Four neighbouring values of a byte expression at once, in one word; "" where that cannot be had."""
        if not isinstance(e, Map):
            return "" if isinstance(e, (Const, Index, Inside, Gather)) else self.word(e.name)  # type: ignore[attr-defined]
        c = _whole(e.args[1]) if len(e.args) == 2 else None
        if e.dtype.kind != "u" or e.fn not in ("bitand", "bitor", "bitxor", "shr", "shl") or c is None or not (x := self.bytes(e.args[0])):
            return ""
        if e.fn in ("shr", "shl"):
            kept = ((255 >> c) if e.fn == "shr" else (255 << c) & 255) if c < 8 else 0
            return f"({x} {'>>' if e.fn == 'shr' else '<<'} {c} & {kept * 0x01010101:#010x}u)" if kept else "0u"
        return f"({x} {_INFIX[e.fn]} {(c & 255) * 0x01010101:#010x}u)"


def _small(e: Expr) -> bool:
    """A cast of an integer of at most 16 bits to what is held as f32."""
    if not (isinstance(e, Map) and e.fn == "cast" and working(e.dtype) == F32 and e.dtype.bits > 8):
        return False
    return e.args[0].dtype.kind in "iu" and e.args[0].dtype.bits <= 16


def _whole(e: Expr) -> int | None:
    """The value of a constant that is a whole number of at most 20 bits."""
    return int(e.value) if isinstance(e, Const) and abs(e.value) < 2**20 and e.value == int(e.value) else None


def convert(text: str, a: DType, b: DType, exact: bool = False) -> str:
    """cast(a -> b) of a held value."""
    if b == BOOL:
        return f"(({text}) != 0)"
    narrow = f"ac_odd({text})" if (a, b) == (F64, F16) else f"(float)({text})"  # on the way to a short float
    if rounds(b, exact):
        return f"ac_round<{b.name}>({narrow})"
    if working(a) == working(b):
        return text
    return f"({narrow})" if b in SHORT_FLOATS else f"(({held(b)})({text}))"


def _of_data(e: Expr) -> bool:
    """Whether an expression reads what memory holds: sums of coordinates alone do not overflow."""
    return isinstance(e, (Value, Gather)) or (isinstance(e, Map) and any(map(_of_data, e.args)))


def _long(e: Expr) -> bool:
    """Whether a value takes so many instructions that a compiler jumps over them where it is not chosen: lanes then wait for each other,
    and no two elements are computed side by side (elu of f16[32, 4096, 128], H200: 30 us for 20 us of bytes, 2026-11-23)."""
    costs = table()["functions"]
    return any(isinstance(x, Map) and sum(costs.get(x.fn, {}).values()) >= JUMPED for x in postorder(e))


def wrapping(fn: str, args: list[str], d: DType) -> str:
    """Integer arithmetic modulo 2^bits: compilers take it that a signed type (also the int that 16 bits become) does not overflow, and
    x + 1 > x for true."""
    wide = "unsigned long long" if d.bits == 64 else "unsigned"
    first, *second = [f"({wide}){a}" for a in args]
    if second:
        return f"({held(d)})({first} {_WRAPS[fn]} {second[0]})"
    negated = f"({held(d)})(0u - {first})"
    return f"ac_alone({negated})" if held(d) == "int" else negated


def function(fn: str, args: list[str], d: DType, half: bool = False) -> str:
    """fn(args) for operands of type d. Raises UnsupportedOp."""
    x, w = args[0], working(d)
    if w == F32 and fn in CHEAPER_HALVES and (half or d in SHORT_FLOATS):
        return f"ac_{fn}_half({', '.join(args)})"
    if fn in _F16 and d == F16:
        return f"ac_{fn}_f16({x})"
    if fn == "where":
        return f"({x} ? {args[1]} : {args[2]})"
    if fn in _INFIX and not (fn == "div" and not w.is_float):
        return f"({x} {_INFIX[fn]} {args[1]})"
    simple = {"neg": f"(-{x})", "not": f"(!{x})", "bitnot": f"(~{x})", "xor": f"(({x}) != ({args[-1]}))"}
    if fn in simple:
        return simple[fn]
    if w in (F32, F64) and fn in _FLOAT:
        return f"ac_{fn}({', '.join(args)})"
    if w.is_int and fn in _INT:
        return f"ac_{fn}<{held(d)}>({', '.join(args)})"
    raise UnsupportedOp(f"no device function for '{fn}' of {d.name}", where="GPU targets", hint="add it to the target's device header")
