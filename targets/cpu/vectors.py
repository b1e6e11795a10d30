"""Map expressions -> C text of vectors: lanes of 32 bits, as many as a vector of f32 has.

    f32, f16, bf16 -> vf (short floats are rounded where they are made);  i8 .. i32, u8, u16 -> vi;  bool -> vm, a mask

What memory holds in fewer bits is widened by its load and narrowed by its store (`include/autocomp_cpu_types.h`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from autocomp.targets.cpu.byte_tables import Table
from autocomp.targets.cpu.expressions import guard_text, literal, working
from autocomp.targets.cpu.flat import index_text
from autocomp.targets.cpu.lower import Nest

from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Gather, Index, Inside, Map, factors, postorder
from autocomp.ir.types import F32, I32, SHORT_FLOATS, U8, DType
from autocomp.tile.program import Stmt, Value

FOLDS = ("add", "max", "min", "mul")  # reductions that fold vectors and then their lanes
_KINDS = {"f32": "vf", **{d.name: "vf" for d in SHORT_FLOATS}, "bool": "vm", **dict.fromkeys(("i8", "i16", "i32", "u8", "u16"), "vi")}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "and": "&", "or": "|", "bitand": "&", "bitor": "|", "bitxor": "^", "xor": "^"}  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_NAMED = {"round": "rint", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "mod": "mod", "floordiv": "floordiv"}
_FLOATS = frozenset((
    "exp", "exp_nonpositive", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf", "gelu", "gelu_tanh", "sigmoid", "softplus", "sqrt",
    "mish", "abs", "sign", "max", "min", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "pow",
    "fmod", *_NAMED))  # fmt: skip
_FLOAT_TEXT = {
    "rsqrt": "(1.f / vf_sqrt({0}))",
    "silu": "({0} * vf_sigmoid({0}))",
    "relu": "vf_max_c((vf){{0}}, {0})",
    "neg": "(-{0})",
    "isnan": "({0} != {0})",
    "isinf": "(vf_abs({0}) == INFINITY)",
}
_INTEGERS = frozenset(("add", "sub", "mul", "max", "min", "abs", "sign"))
_INTEGER_TEXT = {"neg": "vi_sub((vi){{0}}, {0})", "relu": "vi_max((vi){{0}}, {0})", "bitnot": "(~{0})"}


def kind_of(d: object) -> str:
    """The C type of a vector of elements of this type: vf, vi or vm; "" where there is none."""
    return _KINDS.get(d.name, "") if isinstance(d, DType) else ""


def stored_as(d: DType) -> str:
    """The suffix of loads and stores: "" for what memory holds in 32 bits."""
    return "" if d in (F32, I32) else f"_{d.name}"


def select(kind: str) -> str:
    """The function that chooses between two vectors by a mask."""
    return "vf_select" if kind == "vf" else "vi_select"


def vector_of(text: str, d: DType) -> str:
    """The same number in every lane."""
    kind = kind_of(d)
    return f"vf_set({text})" if kind == "vf" else f"vi_set({text})" if kind == "vi" else f"vi_set(-(({text}) != 0))"


def vectorizes(nest: Nest, s: Stmt, axis: str) -> bool:
    """Can the statement run over `axis` in vectors?"""
    made = list(_lane_nodes(nest, s.expr, axis)) if isinstance(s.expr, Expr) else []
    names = [s.dst, *([e.name for e in made if isinstance(e, Value)] if made else s.srcs)]
    if not nest.vectors or s.op == "mma" or any(not vector_value(nest, n, axis) for n in names if n in nest.views or n in nest.slots):
        return False
    if s.op == "scan":
        return axis != s.axis and str(s.expr) in FOLDS and nest.dtype_of(s.dst) in (F32, I32)
    if s.op == "reduce":
        kind = {F32: "vf", I32: "vi"}.get(nest.dtype_of(s.dst), "")  # type: ignore[call-overload]
        if str(s.expr) in ("max", "min") and nest.dtype_of(s.dst).is_int and axis not in s.axis.split(","):  # of bytes in 32 bits a byte
            kind = kind_of(nest.dtype_of(s.dst))
        return str(s.expr) in FOLDS and all(kind_of(nest.dtype_of(x)) == kind for x in s.srcs)
    return all(_vector_node(nest, e, axis) for e in made)


def _lane_nodes(nest: Nest, e: Expr, axis: str) -> Iterator[Expr]:
    """The nodes of an expression that are computed in lanes: not the place of a row that is looked up, which is one for all of them."""
    yield e
    if not (isinstance(e, Gather) and is_row(nest, e, axis)):
        for a in e.args:
            yield from _lane_nodes(nest, a, axis)


def is_row(nest: Nest, e: Gather, axis: str) -> bool:
    """Do neighbours along the axis read neighbours of a tensor, none outside of it: at one place on every dimension but the last?"""
    size, last = next(t.shape[-1] for t in nest.inputs if t.name == e.tensor), e.index[-1]
    if not isinstance(size, int) or not isinstance(last, Index) or last.index.coef(axis) != 1 or not plain_in(last.index, axis):
        return False
    known = {a: n for a, n in nest.extent.items() if isinstance(n, int)}
    if not last.index.names() <= known.keys() or last.index.range(known)[0] < 0 or last.index.range(known)[1] >= size:
        return False
    return not any(axis in _varies_with(nest, x) for i in e.index[:-1] for x in postorder(i))


def _varies_with(nest: Nest, e: Expr) -> Collection[str]:
    if isinstance(e, Value):
        return nest.axes_of(e.name)
    return e.index.names() if isinstance(e, Index) else {n for g in e.guard for n in g.names()} if isinstance(e, Inside) else ()


def vector_value(nest: Nest, name: str, axis: str) -> bool:
    """Can the value be read in vectors along the axis?"""
    if not kind_of(nest.dtype_of(name)):
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


def _small(nest: Nest, e: Expr, axis: str) -> bool:
    """Is it an index, or a number, that fits in a lane whatever its type?"""
    if isinstance(e, Const):
        return not isinstance(e.value, float) and abs(int(e.value)) < 1 << 31  # type: ignore[call-overload]
    if not isinstance(e, Index) or not plain_in(e.index, axis):
        return False
    known = {n: x if isinstance(x, int) else nest.limits[x] for n, x in nest.extent.items() if isinstance(x, int) or x in nest.limits}
    return e.index.names() <= known.keys() and max(map(abs, e.index.range(known))) < 1 << 31


def _vector_node(nest: Nest, e: Expr, axis: str) -> bool:
    if isinstance(e, Gather):
        return bool(kind_of(e.dtype)) and is_row(nest, e, axis)
    if isinstance(e, Inside):
        return all(plain_in(g, axis) for g in e.guard)
    if isinstance(e, Index):
        return _small(nest, e, axis)
    if isinstance(e, Const):
        return bool(kind_of(e.dtype)) or (e.dtype.is_int and _small(nest, e, axis))
    if isinstance(e, (Value, Table)):
        return bool(kind_of(e.dtype))
    assert isinstance(e, Map)
    wide = [x for x in e.args if not kind_of(x.dtype)]  # of these only indices and numbers are lanes, where nothing is computed of them
    if any(not _small(nest, x, axis) for x in wide) or (wide and e.fn not in (*_COMPARISONS, "cast")) or not kind_of(e.dtype):
        return False
    return e.fn in (*_COMPARISONS, "cast", "where") or e.fn in _functions(kind_of(e.args[0].dtype))


def _functions(kind: str) -> frozenset[str]:
    """What is computed of vectors of a kind."""
    if kind == "vf":
        return _FLOATS | _FLOAT_TEXT.keys() | {"add", "sub", "mul", "div", "as_stored"}
    if kind == "vi":
        return _INTEGERS | _INTEGER_TEXT.keys() | {"bitand", "bitor", "bitxor"}
    return frozenset(("and", "or", "xor", "not", "bitand", "bitor", "bitxor"))


def _lanes(e: Expr) -> str:
    """The kind of vector that holds an expression: as `kind_of`, and indices of any width."""
    return kind_of(e.dtype) or "vi"


class Vector:
    """Vector text: `read(name)` gives a vector of a value, `row(e)` one of a row that is looked up; `axis` is the one that runs across the
    lanes."""

    def __init__(self, read: Callable[[str], str], axis: str = "", row: Callable[[Gather], str] | None = None) -> None:
        self.read, self.axis, self.row = read, axis, row

    def text(self, e: Expr) -> str:
        if isinstance(e, Value):
            return self.read(e.name)
        if isinstance(e, Const):
            return vector_of(literal(e.value, e.dtype), working(e.dtype)) if kind_of(e.dtype) else f"vi_set({int(e.value)})"
        if isinstance(e, Index):
            step = dict(e.index.terms).get(self.axis, 0)
            here = f"vi_set((int32_t)({index_text(e.index)}))"
            at = f"(vi_iota() * {step} + {here})" if step else here
            return _rounded(f"vf_from_vi({at})" if kind_of(e.dtype) == "vf" else at, e.dtype)
        if isinstance(e, Inside):
            same, lanes = mask_text(e.guard, self.axis)
            whole = f"vi_set(-{same})" if same else ""
            return f"({whole} & {lanes})" if whole and lanes else f"({lanes})" if lanes else whole or "vi_set(-1)"
        if isinstance(e, Gather) and self.row is not None:
            return self.row(e)
        if isinstance(e, Table):
            text = f"vi_table({e.name}, {self.text(e.of)})"
            return text if e.dtype == U8 else _rounded(text, e.dtype)
        assert isinstance(e, Map), type(e)
        if e.fn == "where" and isinstance(e.args[0], Inside) and not any(self.axis in g.names() for g in e.args[0].guard):
            kind = "vf" if _lanes(e) == "vf" else "vi"  # GCC drops may_alias from a product's type, and ?: wants equal types
            return f"({guard_text(e.args[0].guard)} ? ({kind}){self.text(e.args[1])} : ({kind}){self.text(e.args[2])})"
        args = [self.text(a) for a in e.args]
        if e.fn == "cast":
            return _converted(args[0], e.args[0], e.dtype)
        if e.fn == "as_stored":  # every value is rounded where it is made
            return args[0]
        if e.fn == "where":
            return f"{select(_lanes(e))}({', '.join(args)})"
        if e.fn in _COMPARISONS:
            if _lanes(e.args[0]) == "vm":  # true is -1
                args.reverse()
            return f"({args[0]} {_INFIX[e.fn]} {args[1]})"
        return _rounded(self._function(e, args), e.dtype)

    def _function(self, e: Map, args: list[str]) -> str:
        kind = _lanes(e.args[0])
        if kind == "vf":
            return _float_function(e, args)
        if kind == "vi" and e.fn in _INTEGERS:
            return f"vi_{e.fn}({', '.join(args)})"
        if e.fn in _INTEGER_TEXT:
            return _INTEGER_TEXT[e.fn].format(*args)
        return f"(~{args[0]})" if e.fn == "not" else f"({args[0]} {_INFIX[e.fn]} {args[1]})"


def _float_function(e: Map, args: list[str]) -> str:
    if e.fn in ("add", "sub", "mul", "div"):
        return f"({args[0]} {_INFIX[e.fn]} {args[1]})"
    if e.fn in _FLOAT_TEXT:
        return _FLOAT_TEXT[e.fn].format(*args)
    if n := factors(e):
        return f"vf_power{n}({args[0]})"
    return f"vf_{_NAMED.get(e.fn, e.fn)}({', '.join(args)})"


def _rounded(text: str, d: DType) -> str:
    """A vector as one of `d`: short floats are rounded, short integers keep their low bits."""
    if d in SHORT_FLOATS:
        return f"vf_round_{d.name}({text})"
    return f"vi_as_{d.name}({text})" if d.is_int and d.bits < 32 else text


def _converted(text: str, e: Expr, b: DType) -> str:
    """A vector of what `e` is as one of type `b`."""
    a, to = _lanes(e), kind_of(b)
    if to == "vm":
        return text if a == "vm" else f"({text} != 0)"
    if a == "vm":
        return f"(vf)({text} & (vi)vf_set(1.f))" if to == "vf" else f"({text} & 1)"
    if a == "vf":
        return _rounded(f"vi_cut({text})", b) if to == "vi" else text if b in (F32, e.dtype) else _rounded(text, b)
    return _rounded(f"vf_from_vi({text})" if to == "vf" else text, b) if e.dtype != b else text
