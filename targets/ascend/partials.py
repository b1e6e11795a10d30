"""Sums that a loop carries, in eight lanes a row until behind the loop (directive `thread_partials`).

    loop r: l = l by; .. ; l += sum over r of x         loop r: ..; l[8] = l[8] by + sums of x, each lane every eighth block of a row
    store o / l                                    ->   store o / (the sum of the lanes of l)

A statistic has a block of eight lanes a row, all of one value. A row's sum is eight sums of its blocks before it is one value: the last
fold and its way back into the block are done once a tile, and the scale and the first sum are one instruction. A loop may do nothing else
with such a sum than to scale it by a value a row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from autocomp.targets.ascend.geometry import on_chip, tile_of, values
from autocomp.targets.ascend.tables import table

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Expr, Map
from autocomp.tile.program import Loop, Stmt, TileProgram, Value
from autocomp.tile.values import with_values

if TYPE_CHECKING:
    from autocomp.targets.ascend.vector import VectorPart


def partials(p: TileProgram) -> tuple[TileProgram, frozenset[str]]:
    """The program with a fold of lanes behind loops that carry a sum so, and the names of these sums."""
    body, found = _folded(p.body, p)
    bufs = tuple(replace(b, name=f"{b.name}_sum") for b in p.bufs if b.name in found)
    return replace(p, body=body, bufs=(*p.bufs, *bufs)), found


def _folded(body: tuple[Loop | Stmt, ...], p: TileProgram) -> tuple[tuple[Loop | Stmt, ...], frozenset[str]]:
    out: list[Loop | Stmt] = []
    found: frozenset[str] = frozenset()
    mine: dict[str, Stmt] = {}
    zero = {n.dst for n in body if isinstance(n, Stmt) and n.op == "fill" and n.expr == 0}
    for n in body:
        if isinstance(n, Loop):
            inner, deeper = _folded(n.body, p)
            found |= deeper
            sums = [s.dst for s in n.body if isinstance(s, Stmt) and _is_partial(s, n.body, p)] if n.kind != "grid" else []
            new = {x: Stmt("map", f"{x}_sum", expr=Map(b.dtype, "lane_sum", (Value(b.dtype, x),)))
                   for x in sums if x in zero and (b := p.buf(x)) is not None}  # fmt: skip
            mine |= new
            out += [replace(n, body=inner), *new.values()]
            continue
        renamed: dict[Expr, Expr] = {Value(x.expr.dtype, s): Value(x.expr.dtype, x.dst) for s, x in mine.items() if isinstance(x.expr, Map)}
        out.append(replace(n, srcs=tuple(mine[v].dst if v in mine else v for v in n.srcs), expr=_renamed(n.expr, renamed)))
    return tuple(out), found | mine.keys()


def _is_partial(s: Stmt, body: tuple[Loop | Stmt, ...], p: TileProgram) -> bool:
    """Whether a statement adds the sum of each row to a value that the loop does nothing else with than to scale its rows."""
    if s.op != "reduce" or s.expr != "add" or not s.acc or (b := p.buf(s.dst)) is None or not b.dtype.is_float:
        return False
    axes = on_chip(p, s)
    others = [n for n in body if n is not s and (isinstance(n, Loop) or s.dst in (n.dst, *n.srcs, *values(n.expr)))]
    return len(axes) == 1 and tile_of(p, axes[0]) > 1 and all(isinstance(n, Stmt) and factor(n) is not None for n in others)


def factor(n: Stmt) -> Expr | None:
    """What a statement scales the value by that it changes; None where it does something else."""
    if n.op != "map" or not isinstance(n.expr, Map) or n.expr.fn != "mul":
        return None
    state, by = n.expr.operands if n.expr.operands[0] == Value(n.expr.dtype, n.dst) else n.expr.operands[::-1]
    return by if state == Value(n.expr.dtype, n.dst) and n.dst not in values(by) else None


def scale(n: Stmt) -> str | None:
    """The same where it is a value."""
    by = factor(n)
    return by.name if isinstance(by, Value) else None


def lane_sums(v: VectorPart, s: Stmt, by: str | None) -> None:
    """The statement that adds the sums, with the scale `by` in front of it."""
    x, state = v.value(s.srcs[0]), v.value(s.dst)
    if x.kind != "full" or s.axis.split(",")[-1:] != [x.lane] or state.kind != "stat":
        raise UnsupportedOp(f"sums of {s.srcs[0]} over {s.axis} by lanes", where=v.p.name, hint="leave thread_partials out")
    g, t, scaled = v.g, v.temporary("stat", ""), v.value(by) if by is not None else state
    size = f"{g.count}, {g.slots}, {v.true[x.lane]}, {g.pitch(x.lane)}, {str(by is not None).lower()}"
    v.applied.add("thread_partials")
    v.v([f"{table()['lane_sums']}({state.name}, {scaled.name}, {x.name}, {t.name}, {size});"], (x, state, scaled), state, t)
    v.release(t)


def _renamed(e: Expr | float | str | None, to: dict[Expr, Expr]) -> Expr | float | str | None:
    return with_values(e, to) if isinstance(e, Expr) and to else e
