"""C for kernels whose body is a recurrence (kind R): loops from isl's AST generator, statements from the body.

    void NAME(const T *in0, .., T *out0, void *scratch)      scratch: the state planes, `scratch_bytes` of them

The state is a ring of few planes where the schedule may overwrite early (`loops.schedules.ring_of`), else a plane a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, prod

from autocomp.targets.cpu.names import entry_name

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Index, Inside, Load, Map, Prev, Recurrence
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import DType
from autocomp.loops import codegen
from autocomp.loops.codegen import Calc, Formula, If, Num, Run, Tree, Var
from autocomp.loops.nest import LoopNest
from autocomp.loops.recurrences import pieces, require_recurrence
from autocomp.loops.schedules import ring_of, scheduled_recurrence

C_TYPES = {"f64": "double", "f32": "float", "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t",
           "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t"}
# Spelling of the element-wise functions in plain C; {f} is the suffix of the float functions ("f" for f32).
C_FUNCTIONS = {"add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})", "neg": "(-{0})",
               "max": "({0} > {1} || {0} != {0} ? {0} : {1})", "min": "({0} < {1} || {0} != {0} ? {0} : {1})",
               "relu": "({0} < 0 ? 0 : {0})", "where": "({0} ? {1} : {2})", "lt": "({0} < {1})", "le": "({0} <= {1})",
               "gt": "({0} > {1})", "ge": "({0} >= {1})", "eq": "({0} == {1})", "ne": "({0} != {1})", "and": "({0} && {1})",
               "or": "({0} || {1})", "not": "(!{0})", "abs": "fabs{f}({0})", "sqrt": "sqrt{f}({0})", "exp": "exp{f}({0})",
               "log": "log{f}({0})", "tanh": "tanh{f}({0})", "sigmoid": "(1 / (1 + exp{f}(-{0})))", "cast": "(({t}){0})"}
PRELUDE = '#include "autocomp_cpu_index.h"\n'


@dataclass(frozen=True)
class RecurrenceSource:
    """text: a C function; alone in a file it needs PRELUDE in front, which autocomp_cpu.h includes."""

    name: str
    text: str
    scratch_bytes: int


def print_recurrence(kernel: Kernel, schedule: Schedule) -> RecurrenceSource:
    """The kernel under the schedule. Raises IllegalTransform (two iterations) or UnsupportedOp."""
    rec = require_recurrence(kernel)
    nest = scheduled_recurrence(kernel, schedule)
    shape = _fixed(kernel, tuple(a.extent for a in rec.axes))
    steps = _fixed(kernel, (rec.time.extent,))[0]
    ring = ring_of(kernel, schedule)
    planes = ring if ring is not None else steps + 1
    body = _Bodies(kernel, rec, shape, ring, nest)
    ctype = _ctype(rec.dtype, kernel.name)
    name = entry_name(kernel.name)
    args = [f"const {_ctype(a.type.dtype, kernel.name)} *restrict {a.name}" for a in kernel.inputs]
    args += [f"{_ctype(a.type.dtype, kernel.name)} *restrict {a.name}" for a in kernel.outputs]
    lines = [f"/* {kernel.name}: {steps} steps over {list(shape)}, {planes} states in memory; the step runs in the order",
             f"   {_order(nest)} */",
             f"void {name}({', '.join(args)}, void *scratch)", "{", f"    {ctype} *state = scratch;"]
    for t in codegen.generate(nest):
        lines += _lines(t, body, 1)
    return RecurrenceSource(name, "\n".join([*lines, "}", ""]), planes * prod(shape) * rec.dtype.bytes)


def _order(nest: LoopNest) -> str:
    rows = next(r for s, r in zip(nest.statements, nest.rows, strict=True) if s.name == "step")
    return ", ".join(f"{l.name} = {l.value}" for l in rows.loops)


def _fixed(kernel: Kernel, dims: tuple[object, ...]) -> tuple[int, ...]:
    for d in dims:
        if not isinstance(d, int):
            raise UnsupportedOp(f"a recurrence over the symbolic dimension {d}", where=kernel.name,
                                hint="give the dimension a fixed size")
    return tuple(d for d in dims if isinstance(d, int))


def _ctype(d: DType, where: str) -> str:
    if d.name not in C_TYPES:
        raise UnsupportedOp(f"a recurrence over {d}", where=where, hint=f"cast to one of {', '.join(C_TYPES)} first")
    return C_TYPES[d.name]


# ---- loops

_C = {"and": "&&", "or": "||", "div": "/", "mod": "%"}     # others are spelled as in C
_CALLS = {"min": "ac_min", "max": "ac_max", "floordiv": "ac_floordiv"}


def formula(f: Formula) -> str:
    """C text of a loop bound."""
    if isinstance(f, Num):
        return str(f.value)
    if isinstance(f, Var):
        return f.name
    a = [formula(x) for x in f.args]
    if f.op in _CALLS:
        return f"{_CALLS[f.op]}({', '.join(a)})"
    if f.op == "neg":
        return f"-{a[0]}"
    if f.op == "select":
        return f"({a[0]} ? {a[1]} : {a[2]})"
    return f"({a[0]} {_C.get(f.op, f.op)} {a[1]})"


def _lines(t: Tree, body: _Bodies, depth: int) -> list[str]:
    pad = "    " * depth
    if isinstance(t, Run):
        return [pad + l for l in body.run(t)]
    inner = [l for x in t.body for l in _lines(x, body, depth + 1)]
    if isinstance(t, If):
        out = [f"{pad}if ({formula(t.condition)}) {{", *inner, f"{pad}}}"]
        if t.other:
            out[-1] += " else {"
            out += [*(l for x in t.other for l in _lines(x, body, depth + 1)), f"{pad}}}"]
        return out
    pragma = {"parallel": ["#pragma omp parallel for schedule(static)"], "simd": ["#pragma omp simd"]}.get(t.mark, [])
    note = f"  /* {t.name} */" if t.name and t.name != t.var else ""
    step = "++" + t.var if t.step == Num(1) else f"{t.var} += {formula(t.step)}"
    return [*(pad + p for p in pragma),
            f"{pad}for (long {t.var} = {formula(t.first)}; {_bare(t.condition)}; {step}) {{{note}", *inner, f"{pad}}}"]


def _bare(f: Formula) -> str:
    text = formula(f)
    return text[1:-1] if isinstance(f, Calc) and f.op in ("<", "<=") else text


# ---- statements

class _Bodies:
    """C text of one instance of each statement."""

    def __init__(self, kernel: Kernel, rec: Recurrence, shape: tuple[int, ...], ring: int | None, nest: LoopNest) -> None:
        self.kernel, self.rec, self.shape, self.ring = kernel, rec, shape, ring
        self.axes = {s.name: s.names for s in nest.statements}
        self.values = {p.name: p.value for p in pieces(rec)}
        self.types = {a.name: _fixed(kernel, a.type.shape) for a in (*kernel.inputs, *kernel.outputs)}

    def run(self, r: Run) -> list[str]:
        at = dict(zip(self.axes[r.statement], (formula(f) for f in r.at), strict=True))
        here = tuple(Aff.of(a.name) for a in self.rec.axes)
        if r.statement == "init":
            return [f"{self.state(Aff(), here, at)} = {self.value(self.rec.init, at)};"]
        if r.statement in self.values:
            then = Aff.of(self.rec.time.name) + 1
            return [f"{self.state(then, here, at)} = {self.value(self.values[r.statement], at)};"]
        store = self.kernel.stores[int(r.statement.removeprefix("store"))]
        return [f"{store.tensor}[{self.address(store.index, self.types[store.tensor], at)}] = {self.value(store.value, at)};"]

    def state(self, time: Aff, index: tuple[Aff, ...], at: Mapping[str, str]) -> str:
        plane = time if self.ring is None else time % self.ring
        return f"state[{self.address((plane, *index), (0, *self.shape), at)}]"

    def address(self, index: tuple[Aff, ...], shape: tuple[int, ...], at: Mapping[str, str]) -> str:
        """Row-major offset of an element."""
        total = Aff()
        for i, d in zip(index, shape, strict=True):
            total = total * d + i
        return self.aff(total, at)

    def aff(self, a: Aff, at: Mapping[str, str]) -> str:
        return a.print(lambda n: f"({at[n]})", lambda t, n: f"ac_floordiv({t}, {n})", lambda t, n: f"ac_mod({t}, {n})")

    def value(self, e: Expr, at: Mapping[str, str]) -> str:
        if isinstance(e, Const):
            return _literal(e)
        if isinstance(e, Index):
            return self.aff(e.index, at)
        if isinstance(e, Inside):
            return self.inside(e.guard, at)
        if isinstance(e, Load):
            cell = f"{e.tensor}[{self.address(e.index, self.types[e.tensor], at)}]"
            return self.guarded(cell, e.guard, e.fill, e.dtype, at)
        if isinstance(e, Prev):
            cell = self.state(Aff.of(self.rec.time.name) + (1 - e.lag), e.index, at)
            return self.guarded(cell, e.guard, e.fill, e.dtype, at)
        if isinstance(e, Recurrence):
            return self.state(e.at if e.at is not None else Aff.of(_fixed(self.kernel, (e.time.extent,))[0]), e.index, at)
        if isinstance(e, Map) and e.fn in C_FUNCTIONS:
            suffix = "f" if e.operands[0].dtype.name == "f32" else ""
            operands = (self.value(x, at) for x in e.operands)
            return C_FUNCTIONS[e.fn].format(*operands, f=suffix, t=_ctype(e.dtype, self.kernel.name))
        what = e.fn if isinstance(e, Map) else type(e).__name__.lower()
        raise UnsupportedOp(f"{what} inside a recurrence's step", where=self.kernel.name, hint="keep it outside the recurrence")

    def guarded(self, cell: str, guard: tuple[Aff, ...], fill: float, dtype: DType, at: Mapping[str, str]) -> str:
        return f"({self.inside(guard, at)} ? {cell} : {_literal(Const(dtype, fill))})" if guard else cell

    def inside(self, guard: tuple[Aff, ...], at: Mapping[str, str]) -> str:
        return "(" + " && ".join(f"{self.aff(g, at)} >= 0" for g in guard) + ")"


def _literal(c: Const) -> str:
    if not c.dtype.is_float:
        return str(int(c.value))
    v = float(c.value)
    if v != v or v in (inf, -inf):
        return "NAN" if v != v else "INFINITY" if v > 0 else "(-INFINITY)"
    return f"{v!r}{'f' if c.dtype.name == 'f32' else ''}"
