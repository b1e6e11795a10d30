"""The form of what has no other: one element after another on the scalar units of all vector cores.

    kernel out = f(a, b), i0 x i1 elements   ->   core c computes elements [c * per, (c + 1) * per) of i0 x i1, reductions as loops inside

The tile program is the kernel's own with tiles of one element, so every value is a variable. Reads go through the unit's cache, which is
emptied first; results collect in unified buffer and leave in runs (`ac_put`). Any type that the unit computes, any index, any reduction.
Where copies are of whole blocks (`blocks.py`) the share of a core is a multiple of them, and one core makes results in another order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from autocomp.targets.ascend.blocks import BLOCK, by_blocks
from autocomp.targets.ascend.blocks import HEADER as BLOCKS
from autocomp.targets.ascend.tables import table
from autocomp.targets.cpu.expressions import CTYPE, guard_text
from autocomp.targets.cpu.flat import View
from autocomp.targets.cpu.lower import Nest, lower, reads
from autocomp.targets.cpu.names import c_name, entry_name
from autocomp.targets.simt.expressions import Scalar, convert, function, literal, working, wrapping
from autocomp.targets.source import KernelSource, Launch, comment

from autocomp.cost.chip import Chip
from autocomp.errors import UnsupportedOp
from autocomp.ir.body import bound_axes
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import DType
from autocomp.tile.derive import derive
from autocomp.tile.program import Loop, Stmt, TileProgram
from autocomp.tile.text import show

HEADERS = ("autocomp_ascend.h", "autocomp_ascend_scalar.h")


def element_program(kernel: Kernel) -> TileProgram:
    """The kernel's tile program with tiles of one element."""
    if kernel.program:
        raise UnsupportedOp("a tile program that was written by hand has tiles of its own", where=kernel.name)
    bound = [a for s in kernel.stores for a in bound_axes(s.value)]
    if none := [a.name for a in bound if a.extent == 0]:
        raise UnsupportedOp(f"axis {none[0]} is reduced over no elements", where=kernel.name,
                            hint="give it one element at least, or leave the reduction out")  # fmt: skip
    axes = [*(a.name for a in kernel.axes), *(a.name for a in bound)]
    return derive(kernel, Schedule.make(dict.fromkeys(axes, 1)), joined=False)


def emit_elements(kernel: Kernel, chip: Chip, header: tuple[str, ...]) -> KernelSource:
    """The kernel on scalar units. Raises UnsupportedOp for what has no tile program."""
    p = element_program(kernel)
    grid = p.body[0].axes if p.body and isinstance(p.body[0], Loop) and p.body[0].kind == "grid" else ()
    ordered = kernel.in_order and grid == tuple(a.name for a in kernel.axes)[: len(grid)]
    return _Printer(p, lower(p), chip, ordered).source(header)


class _Printer:
    """Statements of one-element tiles as C++ text."""

    def __init__(self, p: TileProgram, nest: Nest, chip: Chip, ordered: bool) -> None:
        self.p, self.nest, self.chip, self.ordered = p, nest, chip, ordered
        self.known: dict[str, str] = {}  # values that are copies, by the variables that hold them just now
        self.buffer = {t.name: c_name(t.buffer) for t in p.inputs + p.outputs}
        self.scalar = Scalar(self.read, self.element, c_name, lanes=False)

    def source(self, header: tuple[str, ...]) -> KernelSource:
        p, nest = self.p, self.nest
        name = entry_name(p.name)
        inputs, outputs = (tuple(dict.fromkeys(t.buffer for t in ts)) for ts in (p.inputs, p.outputs))
        whole = by_blocks(self.chip)
        cores = 1 if whole and not self.ordered else self.chip.cores * int(self.chip.limits["vector_cores"])
        grid = p.body[0] if p.body and isinstance(p.body[0], Loop) and p.body[0].kind == "grid" else None
        axes = nest.body[0].axes if grid is not None and isinstance(nest.body[0], Loop) else ()
        inner = nest.body[0].body if grid is not None and isinstance(nest.body[0], Loop) else nest.body
        kind = "AICORE" if "one_core_kind" in self.chip.features else "AIV_ONLY"
        lines = [f"KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{kind});", *self.memories(inputs, outputs)]
        extents = [str(nest.extent[a]) for a in axes]
        lines.append(f"const int64_t ac_items = {' * '.join(f'int64_t({e})' for e in extents) or '1'};")
        share = "(ac_items + GetBlockNum() - 1) / GetBlockNum()"
        lines.append(f"const int64_t ac_share = {f'({share} + {BLOCK - 1}) / {BLOCK} * {BLOCK}' if whole else share};")
        lines.append("const int64_t ac_first = GetBlockIdx() * ac_share;")
        lines.append("for (int64_t ac_item = ac_first; ac_item < ac_items && ac_item < ac_first + ac_share; ++ac_item) {")
        behind = "ac_item"
        for k, (a, e) in reversed(list(enumerate(zip(axes, extents)))):
            lines.append(f"  const int64_t {a} = {behind}{f' % {e}' if k else ''};")
            behind = f"{behind} / {e}" if behind == "ac_item" else f"({behind}) / {e}"
        made = sorted({s.dst for s in _statements(inner) if s.op != "store"})
        lines += [f"  {CTYPE[working(self.dtype(v)).name]} {v} = 0;" for v in made]
        lines += ["  " + x for x in self.block(inner)]
        lines += ["}", *(f"ac_leave({c_name(b)}_run);" for b in outputs)]
        said = "One element after another on scalar units: no faster form takes it."
        arguments = [*(f"GM_ADDR {c_name(b)}" for b in (*inputs, *outputs)), *(f"int64_t {s}" for s in nest.sizes)]
        signature = f'extern "C" __global__ __aicore__ void {name}({", ".join(arguments)}) {{'
        text = "\n".join([comment((*header, "", said, "", *show(p).splitlines())), signature, *("  " + x for x in lines), "}", ""])
        headers = (*HEADERS, *([BLOCKS] if whole else []))
        factors = tuple((p.extent(a), 1) for a in grid.axes) if grid is not None else ()
        return KernelSource(p.name, text, name, inputs, outputs, nest.sizes, headers, "cpp", launch=Launch((factors,), 1, at_most=cores))

    def memories(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        """Tensors in memory, and the runs in which results leave."""
        stored = {t.buffer: element(t.dtype) for t in self.p.inputs + self.p.outputs}
        lines = [x for b in inputs for x in (f"GlobalTensor<{stored[b]}> {c_name(b)}_g;",
                                             f"{c_name(b)}_g.SetGlobalBuffer((__gm__ {stored[b]} *){c_name(b)});")]  # fmt: skip
        run = int(table()["run"]) + (BLOCK if by_blocks(self.chip) else 0)
        lines += ["TPipe pipe;", "TBuf<TPosition::VECCALC> ub;", f"pipe.InitBuffer(ub, {run * len(outputs)});", "pipe.Destroy();"]
        for k, b in enumerate(outputs):
            n = c_name(b)
            lines += [f"GlobalTensor<uint8_t> {n}_bytes;", f"{n}_bytes.SetGlobalBuffer((__gm__ uint8_t *){n});"]
            lines += [f"ac_run<{stored[b]}> {n}_run;",
                      f"ac_begin({n}_run, ub, {k * run}, {run}, {n}_bytes);"]  # fmt: skip
        lines.append(f"ac_read_anew({c_name(outputs[0])}_bytes);")
        return lines

    def dtype(self, name: str) -> DType:
        d = self.nest.dtype_of(name)
        assert isinstance(d, DType)
        return d

    # ---- loops and statements
    def block(self, body: Sequence[Loop | Stmt]) -> Iterator[str]:
        for n in body:
            if isinstance(n, Stmt):
                yield from self.statement(n)
                continue
            if n.kind not in ("serial", "pipelined", "parallel", "when"):
                raise UnsupportedOp(f"a loop '{n.kind}' inside of a tile", where=self.p.name)
            until = n.until
            for k, a in enumerate(n.axes):
                end = f" && {a} <= {c_name(until[0])} + {until[1]}" if until else ""
                yield f"{'  ' * k}for (int64_t {a} = 0; {a} < {self.nest.extent[a]}{end}; ++{a}) {{"
            yield from ("  " * max(1, len(n.axes)) + x for x in self.block(n.body)) if n.axes else self.block(n.body)
            yield from ("  " * k + "}" for k in reversed(range(len(n.axes))))

    def statement(self, s: Stmt) -> Iterator[str]:
        """One statement; what it copies from memory is read once, into variables of its own."""
        copies = [v for v in dict.fromkeys(reads(s)) if v in self.nest.views]
        text = [f"const {CTYPE[working(self.dtype(v)).name]} {v}_v = {self.load(self.nest.views[v])};" for v in copies]
        self.known = {v: f"{v}_v" for v in copies}
        done = self.done(s)
        self.known = {}
        yield from ["{", *("  " + x for x in (*text, done)), "}"] if text else [done]

    def done(self, s: Stmt) -> str:
        if s.op == "store":
            v = self.nest.views[s.dst]
            x = self.read(s.srcs[0])
            at, run = v.flat.text(), f"{self.buffer[v.tensor]}_run"
            put = f"ac_put_short<ac_{v.dtype.name}>" if short(v.dtype) else "ac_put"
            return f"{f'if ({guard_text(v.guard)}) ' if v.guard else ''}{put}({run}, {at}, {x});"
        d = self.dtype(s.dst)
        if s.op == "fill":
            assert isinstance(s.expr, (int, float))
            return f"{s.dst} = {literal(s.expr, d)};"
        if s.op == "mma":
            a, b = (convert(self.read(v), self.dtype(v), d) for v in s.srcs)
            product = wrapping("mul", [a, b], d) if d.is_int else f"{a} * {b}"
            return f"{s.dst} = {wrapping('add', [s.dst, product], d) if d.is_int else f'{s.dst} + {product}'};"
        if s.op == "reduce":
            x = self.read(s.srcs[0])
            return f"{s.dst} = {folded(str(s.expr), s.dst, x, d) if s.acc else x};"
        if s.op == "map" and not isinstance(s.expr, (int, float, str, type(None))):
            return f"{s.dst} = {spelt(self.scalar.text(s.expr))};"
        raise UnsupportedOp(f"'{s.op}' of {s.dst} element by element", where=self.p.name)

    # ---- values
    def read(self, name: str) -> str:
        return self.known.get(name, name) if name not in self.nest.views or name in self.known else self.load(self.nest.views[name])

    def load(self, v: View) -> str:
        text = got(f"{self.buffer[v.tensor]}_g.GetValue({v.flat.text()})", v.dtype)
        return f"({guard_text(v.guard)} ? {text} : {literal(v.fill, v.dtype)})" if v.guard else text

    def element(self, tensor: str, index: list[str]) -> str:
        """A read at indices that are values; they are clamped into the tensor."""
        t = next(t for t in self.nest.inputs if t.name == tensor)
        text = "0"
        for i, d in zip(index, t.shape, strict=True):
            size = d if isinstance(d, int) else c_name(d.name)
            text = f"({text}) * {size} + ac_inside({i}, {size})"
        return got(f"{c_name(t.buffer)}_g.GetValue({text})", t.dtype)


def _statements(body: Sequence[Loop | Stmt]) -> Iterator[Stmt]:
    for n in body:
        if isinstance(n, Loop):
            yield from _statements(n.body)
        else:
            yield n


def short(d: DType) -> bool:
    """Whether elements lie in memory as bits of a shorter float."""
    return d.is_float and d.bits < 32


def element(d: DType) -> str:
    """C++ type of an element in memory."""
    return f"uint{d.bits}_t" if short(d) else CTYPE[d.name]


def spelt(text: str) -> str:
    """An expression with the header's names of short floats: theirs alone are members of an enumeration of the compiler's (`vtype_t`)."""
    return re.sub(r"\b(ac_round|ac_stored)<(?!ac_)", r"\1<ac_", text)


def got(text: str, d: DType) -> str:
    """An element as a value."""
    return f"ac_read<ac_{d.name}>({text})" if short(d) else text


def folded(fn: str, a: str, b: str, d: DType) -> str:
    """fn(a, b) of a reduction."""
    if d.is_int and fn in ("add", "mul"):
        return wrapping(fn, [a, b], d)
    return function(fn, [a, b], working(d))
