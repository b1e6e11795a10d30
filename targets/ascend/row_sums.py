"""Sums of a factor's rows by the cube unit (directive `mma_row_sums`): its product has a column of ones beside the other factor.

    l = l by; l += sum over r of x; w = cast x; o += w v    ->    l = l by; w = cast x; o, l += w (v | 1)

An addition of all weights and its folds are vector instructions; sixteen columns more are an eighth of the work of a product with 128, and
leave as eight columns, one block a row. What is divided by the sum has been rounded as the sum's terms have.
"""

from __future__ import annotations

from dataclasses import replace

from autocomp.targets.ascend.geometry import on_chip, values
from autocomp.targets.ascend.partials import factor

from autocomp.ir.body import Map
from autocomp.ir.types import BF16, F16, F32
from autocomp.tile.program import Buf, Loop, Stmt, TileProgram, Value


def row_sums(p: TileProgram) -> TileProgram:
    """The program with such products in place of sums, where a loop has this form."""
    out: list[Loop | Stmt] = []
    bufs = list(p.bufs)
    for n in p.body:
        out.append(n)
        if isinstance(n, Loop) and n.kind == "grid":
            out[-1] = replace(n, body=_tile(n.body, p, bufs))
    return replace(p, body=tuple(out), bufs=tuple(bufs)) if len(bufs) > len(p.bufs) else p


def _tile(body: tuple[Loop | Stmt, ...], p: TileProgram, bufs: list[Buf]) -> tuple[Loop | Stmt, ...]:
    out: list[Loop | Stmt] = []
    zero = {n.dst for n in body if isinstance(n, Stmt) and n.op == "fill" and n.expr == 0}
    for n in body:
        found = _sum_and_product(n, p) if isinstance(n, Loop) else None
        if found is not None and isinstance(n, Loop) and found[0].dst in zero:
            s, product, depth = found
            dtype = next(b.dtype for b in bufs if b.name == product.srcs[0])
            ones = f"{s.dst}_ones"
            bufs.append(Buf(ones, dtype, (depth,), "block"))
            out.append(Stmt("fill", ones, expr=1.0))
            beside = Stmt("mma", s.dst, (product.srcs[0], ones))
            n = replace(n, body=tuple(y for x in n.body if x is not s for y in ((x, beside) if x is product else (x,))))
        out.append(n)
    return tuple(out)


def _sum_and_product(loop: Loop, p: TileProgram) -> tuple[Stmt, Stmt, str] | None:
    """A sum in single precision that a loop does nothing else with than to scale it, the product whose first factor is what is summed in
    half precision, and the axis of both."""
    statements = [n for n in loop.body if isinstance(n, Stmt)]
    for s in statements if len(statements) == len(loop.body) else ():
        b = p.buf(s.dst)
        if s.op != "reduce" or s.expr != "add" or not s.acc or b is None or b.dtype != F32 or len(axes := on_chip(p, s)) != 1:
            continue
        scaled = [n for n in statements if n is not s and s.dst in (n.dst, *n.srcs, *values(n.expr))]
        if any(factor(n) is None for n in scaled):
            continue
        short = {n.dst for n in statements if n.op == "map" and isinstance(n.expr, Map) and n.expr.fn == "cast"
                 and n.expr.operands == (Value(n.expr.operands[0].dtype, s.srcs[0]),)}  # fmt: skip
        for x in statements:
            w, o = (p.buf(x.srcs[0]), p.buf(x.dst)) if x.op == "mma" else (None, None)
            if w is None or o is None or w.name not in short or w.dtype not in (F16, BF16) or axes[0] in o.axes or axes[0] not in w.axes:
                continue
            if all(statements.index(n) < statements.index(x) for n in scaled):
                return s, x, axes[0]
    return None
