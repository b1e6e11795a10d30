"""Text of tile programs: `show` prints, `parse` reads the same text back to an equal program.

    kernel scale(in0: f16[m:M, n:64]) -> out0: f16[m:M, n:64]
    axes m=M n=64
    tile m=16
    grid m
      in0_t: f16[m, n] fragment = copy in0
      y: f16[m, n] fragment = map in0_t * 2.0
      store out0 = y

A view other than the buffer itself adds `of in0[56, 56] at [oh + kh - 1, ow] where oh + kh - 1 >= 0 else 0.0`. Sizes with
bounds have a line `size M lo=1 hi=4096 multiple=8`; constant inputs the word `const`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from autocomp.errors import ModelError
from autocomp.ir.affine import aff
from autocomp.ir.types import Dim, Sym
from autocomp.tile.check_program import check
from autocomp.tile.expr_text import ExprReader, Reader, show_aff, show_expr
from autocomp.tile.program import Buf, Expr, Loop, Stmt, Tensor, TileProgram

GRAMMAR = "the grammar stands in autocomp/tile/program.py"
PAIR = re.compile(r"\w+=\w+$")
SIZE = re.compile(r"size (\w+) lo=(\d{1,18}) hi=(\d{1,18}) multiple=(\d{1,18})$")
SCOPES = ("block", "fragment")
LOOPS = ("grid", "serial", "pipelined", "parallel", "when")


# ---------------------------------------------------------------- printing
def is_identity(t: Tensor) -> bool:
    """The view is the buffer itself, under the buffer's name."""
    return (t.name == t.buffer and t.shape == t.extents and t.index == tuple(aff(a) for a in t.axes) and not t.guard)


def show_tensor(t: Tensor) -> str:
    head = f"{t.name}: {t.dtype}[{', '.join(f'{a}:{e}' for a, e in zip(t.axes, t.extents))}]"
    if not is_identity(t):
        head += f" of {t.buffer}[{', '.join(map(str, t.shape))}] at [{', '.join(map(show_aff, t.index))}]"
        if t.guard:
            head += f" where {', '.join(show_aff(g) + ' >= 0' for g in t.guard)} else {float(t.fill)!r}"
    return ("const " if t.constant else "") + head


def show_stmt(p: TileProgram, s: Stmt, declared: bool = True) -> str:
    """One statement; a value's declaration is part of its first assignment (`declared` = False)."""
    if s.op == "store":
        return f"store {s.dst} = {', '.join(s.srcs)}"
    b = p.buf(s.dst)
    assert b is not None, s
    head = s.dst if declared else f"{s.dst}: {b.dtype}[{', '.join(b.axes)}] {b.scope}"
    if s.op == "map":
        assert isinstance(s.expr, Expr)
        rhs = show_expr(s.expr, b.dtype)
    elif s.op == "fill":
        rhs = repr(s.expr)
    elif s.op in ("reduce", "scan"):
        rhs = f"{s.expr} {s.axis} {', '.join(s.srcs)}"
    else:
        rhs = ", ".join(s.srcs)
    return f"{head} {'+=' if s.acc else '='} {s.op} {rhs}"


def show(p: TileProgram) -> str:
    """The program as text; equal programs give equal text."""
    tensors = p.inputs + p.outputs
    out = [f"kernel {p.name}({', '.join(map(show_tensor, p.inputs))}) -> {', '.join(map(show_tensor, p.outputs))}"]
    dims = [e for _, e in p.axes] + [d for t in tensors for d in t.extents + t.shape]
    for s in dict.fromkeys(d for d in dims if isinstance(d, Sym)):
        if s != Sym(s.name):
            out.append(f"size {s.name} lo={s.lo} hi={s.hi} multiple={s.multiple}")
    out.append("axes " + " ".join(f"{a}={e}" for a, e in p.axes))
    out.append(("tile " + " ".join(f"{a}={n}" for a, n in p.tile)).rstrip())
    seen: set[str] = set()

    def block(body: tuple[Loop | Stmt, ...], indent: str) -> None:
        for n in body:
            if isinstance(n, Loop):
                opts = "".join(f" {k}={v}" for k, v in n.opts)
                out.append(f"{indent}{n.kind}{' ' if n.axes else ''}{', '.join(n.axes)}{opts}")
                block(n.body, indent + "  ")
            else:
                out.append(indent + show_stmt(p, n, n.dst in seen))
                seen.add(n.dst)
    block(p.body, "")
    return "\n".join(out) + "\n"


# ---------------------------------------------------------------- parsing
@dataclass
class _Parser:
    lines: list[tuple[int, str]]
    syms: dict[str, Sym] = field(default_factory=dict)
    bufs: dict[str, Buf] = field(default_factory=dict)
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    at: int = 0
    numbers: list[int] = field(default_factory=list)  # of the lines of loops and statements, in order

    def dim(self, text: str) -> Dim:
        return int(text) if text.isdecimal() else self.syms.setdefault(text, Sym(text))

    def tensor(self, r: Reader) -> Tensor:
        constant = r.take("const")
        name = r.next()
        r.need(":")
        dtype = r.dtype()
        r.need("[")

        def axis() -> tuple[str, Dim]:
            a = r.next()
            r.need(":")
            return a, self.dim(r.next())
        pairs = r.items("]", axis)
        axes, extents = tuple(a for a, _ in pairs), tuple(e for _, e in pairs)
        if not r.take("of"):
            return Tensor(name, dtype, axes, extents, name, extents, tuple(map(aff, axes)), constant=constant)
        buffer = r.next()
        r.need("[")
        shape = tuple(r.items("]", lambda: self.dim(r.next())))
        r.need("at")
        r.need("[")
        index = tuple(r.items("]", r.aff))
        guard, fill = [], 0.0  # type: ignore[var-annotated]
        if r.take("where"):
            while not r.take("else"):
                if guard:
                    r.need(",")
                guard.append(r.aff())
                r.need(">=")
                r.need("0")
            fill = (-1 if r.take("-") else 1) * _number(r.next(), r.where)
        return Tensor(name, dtype, axes, extents, buffer, shape, index, tuple(guard), fill, constant)

    def header(self) -> tuple[str, tuple, tuple]:
        sizes = [i for i, (_, s) in enumerate(self.lines) if s.startswith("size ")]
        for i in sizes:
            number, line = self.lines[i]
            if not (m := SIZE.match(line)):
                raise ModelError(f"expected 'size N lo=1 hi=64 multiple=1', found {line!r}", where=f"line {number}:1")
            self.syms[m[1]] = Sym(m[1], int(m[2]), int(m[3]), int(m[4]))
        self.lines = [x for i, x in enumerate(self.lines) if i not in sizes]
        if len(self.lines) < 3:
            raise ModelError("a tile program starts with the lines kernel, axes, tile", where="tile program")
        r = Reader(self.lines[0][1], f"line {self.lines[0][0]}")
        r.need("kernel")
        name = r.next()
        r.need("(")
        self.inputs = tuple(r.items(")", lambda: self.tensor(r)))
        r.need("->")
        outputs = [self.tensor(r)]
        while r.take(","):
            outputs.append(self.tensor(r))
        self.outputs = tuple(outputs)
        pairs = []
        for (number, line), word in zip(self.lines[1:3], ("axes", "tile")):
            if line.split()[0] != word or not all(PAIR.match(w) for w in line.split()[1:]):
                raise ModelError(f"expected the line '{word} i0=64 ...', found {line!r}", where=f"line {number}:1")
            pairs.append(tuple((a, self.dim(n)) for a, n in (w.split("=") for w in line.split()[1:])))
        if r.peek():
            r.fail(f"unexpected {r.peek()!r}")
        self.at = 3
        return name, pairs[0], pairs[1]

    def block(self, indent: int) -> tuple[Loop | Stmt, ...]:
        out: list[Loop | Stmt] = []
        while self.at < len(self.lines):
            number, line = self.lines[self.at]
            depth = len(line) - len(line.lstrip())
            if depth < indent:
                break
            if depth > indent:
                raise ModelError("unexpected indentation", where=f"line {number}:1")
            self.at += 1
            words = line.split()
            self.numbers.append(number)
            if words[0] in LOOPS:
                opts = tuple((k, v) for k, v in (w.split("=", 1) for w in words if "=" in w))
                axes = tuple(a.strip(",") for a in words[1:] if "=" not in a)
                out.append(Loop(words[0], axes, self.block(indent + 2), opts))
            else:
                out.append(self.stmt(line, f"line {number}"))
        return tuple(out)

    def stmt(self, line: str, where: str) -> Stmt:
        refuse = lambda what, hint=GRAMMAR: ModelError(what, where=f"{where}:{len(line) - len(line.lstrip()) + 1}", hint=hint)
        head, _, rest = line.partition(" = ")
        acc = head.endswith(" +") or " += " in line.split(" = ", maxsplit=1)[0]
        if " += " in head:
            head, _, rest = line.partition(" += ")
            acc = True
        if head.strip().startswith("store "):
            return Stmt("store", head.strip()[6:].strip(), (rest.strip(),))
        if ":" in head:
            r = Reader(head, where)
            name = r.next()
            r.need(":")
            dtype = r.dtype()
            r.need("[")
            axes = tuple(r.items("]", r.next))
            if r.peek() not in SCOPES or r.peek(1):
                r.fail(f"expected {' or '.join(SCOPES)} at the end of a declaration")
            scope = r.next()
            if name in self.bufs:
                r.fail(f"value {name!r} is declared twice")
            self.bufs[name] = Buf(name, dtype, axes, scope)
        else:
            name = head.strip()
        if name not in self.bufs:
            raise refuse(f"value {name!r} has no declaration")
        op, _, operands = rest.partition(" ")
        if op == "map":
            values = {b.name: b.dtype for b in self.bufs.values()}
            tensors = {t.name: t.dtype for t in self.inputs}
            expr = ExprReader(operands.rjust(len(line)), values, tensors, where).parse(self.bufs[name].dtype)
            return map_stmt(name, expr)
        if op == "copy":
            return Stmt("copy", name, (operands,), acc=acc)
        if op == "fill":
            return Stmt("fill", name, (), _number(operands, where) if self.bufs[name].dtype.is_float else int(_number(operands, where)))
        if op in ("reduce", "scan"):
            words = operands.split(None, 2)  # axes are joined by commas, as values are
            srcs = tuple(x.strip() for x in words[-1].split(","))
            if len(words) != 3 or len(srcs) > 1 + (op == "scan") or any(len(x.split()) != 1 for x in srcs):
                raise refuse(f"{op} wants an operation, an axis and a value, found {operands!r}", f"such as `{op} add i1 x`")
            return Stmt(op, name, srcs, words[0], words[1], acc)
        if op == "mma":
            return Stmt("mma", name, tuple(x.strip() for x in operands.split(",")), acc=acc)
        raise refuse(f"unknown statement {op!r}", "one of copy, fill, map, reduce, scan, mma, store")


def _number(text: str, where: str) -> float:
    """As it is written: 0 and 0.0 are equal, and print as they came."""
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        raise ModelError(f"expected a number, found {text!r}", where=f"{where}:1") from None


def map_stmt(dst: str, expr: Expr) -> Stmt:
    """`dst = map expr` with its sources read off the expression, in order of first use."""
    from autocomp.ir.body import postorder
    from autocomp.tile.program import Value

    return Stmt("map", dst, tuple(dict.fromkeys(e.name for e in postorder(expr) if isinstance(e, Value))), expr)


def parse(text: str) -> TileProgram:
    """The program that `show` printed, or that a person wrote, checked (`check_program`). Raises ModelError with line and column."""
    lines = [(i + 1, line.rstrip()) for i, line in enumerate(text.splitlines()) if line.strip()]
    p = _Parser(lines)
    name, axes, tile = p.header()
    body = p.block(0)
    program = TileProgram(name, p.inputs, p.outputs, axes, tile, tuple(p.bufs.values()), body)
    check(program, p.numbers)
    return program
