"""Work of a loop that runs some rounds late (schedule field `softmax_overlap`), so that cube and vector cores work at the same time.

    round t, as written     cube: S(t) = Q K(t)', wait for P(t), O(t) = P(t) V(t)    vector: wait for S(t), P(t), wait for O(t), o += O(t)
    round t, O a round late cube: S(t), O(t - 1)                                     vector: P(t), o += O(t - 1)

One round late, S(t + 1) is issued behind O(t - 1), which waits for P(t - 1): vector cores have it when P(t) is long done. With
`stages 3` of the loop it is two rounds, and S(t + 1) is there when P(t) ends.

The product of a factor that vector cores make, and all that reads or changes its sum, is late. What of the round's other values such
statements read is kept in slots of its own (`kept`): the next rounds' values would stand there. FlashAttention 3 does so within a
warpgroup; tile-ai/tilelang-ascend's examples/flash_attention/fa_opt by several rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autocomp.targets.ascend.geometry import values

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Expr
from autocomp.tile.program import Buf, Loop, Stmt, TileProgram, Value, walk

Body = tuple[Loop | Stmt, ...]


@dataclass(frozen=True)
class Late:
    """`statements`: ids of those that run `by` rounds late; `kept`: values that they read of their own round."""

    statements: frozenset[int] = frozenset()
    kept: frozenset[str] = frozenset()
    by: int = 0


def ahead(p: TileProgram) -> tuple[TileProgram, Late]:
    """The program with the values that late statements read by themselves. Raises UnsupportedOp where a loop that is to have late
    statements has none."""
    body, bufs, late, kept = _turned(p.body, p, list(p.bufs))
    by = max([1, *(int(n.opt("stages") or 0) - 1 for _, loops in walk(p.body) for n in loops if n.opt("overlap"))])
    return (replace(p, body=body, bufs=tuple(bufs)), Late(frozenset(late), frozenset(kept), by)) if kept or late else (p, Late())


def _turned(body: Body, p: TileProgram, bufs: list[Buf]) -> tuple[Body, list[Buf], set[int], set[str]]:
    out: list[Loop | Stmt] = []
    late: set[int] = set()
    kept: set[str] = set()
    for n in body:
        if isinstance(n, Loop):
            inner, bufs, more, names = _turned(n.body, p, bufs)
            if n.opt("overlap"):
                inner, bufs, more, names = _overlapped(n.body, p, bufs)
            n = replace(n, body=inner)
            late |= more
            kept |= names
        out.append(n)
    return tuple(out), bufs, late, kept


def _overlapped(body: Body, p: TileProgram, bufs: list[Buf]) -> tuple[Body, list[Buf], set[int], set[str]]:
    """A loop's body with its late statements."""
    statements = [n for n in body if isinstance(n, Stmt)]
    made = {s.dst for s in statements if s.op in ("map", "reduce")}
    behind = {s.dst for s in statements if s.op == "mma" and made & {*s.srcs}}
    if not behind or len(statements) != len(body):
        raise UnsupportedOp("no product of a loop reads what vector cores make in it", where=p.name, hint="leave softmax_overlap out")
    while True:
        more = {s.dst for s in statements if behind & {s.dst, *s.srcs, *values(s.expr)}}
        if more <= behind:
            break
        behind |= more
    if early := [s.dst for s in statements if s.op == "mma" and s.dst in behind and behind & {*s.srcs} - {s.dst}]:
        raise UnsupportedOp(f"product {early[0]} of a loop waits for another one's sum", where=p.name, hint="leave softmax_overlap out")
    known = {b.name: b for b in bufs}
    out: list[Loop | Stmt] = []
    late: set[int] = set()
    kept: dict[Expr, str] = {}
    for s in statements:
        if not behind & {s.dst, *s.srcs, *values(s.expr)}:
            out.append(s)
            continue
        if isinstance(s.expr, Expr):
            for e in _of_this_round(s.expr, behind):
                if e not in kept:
                    axes = {a for v in values(e) for a in known[v].axes}
                    b = Buf(f"{s.dst}_by{len(kept) or ''}", e.dtype, tuple(a for a, _ in p.axes if a in axes), "fragment")
                    kept[e] = b.name
                    bufs = [*bufs, b]
                    out.append(Stmt("map", b.name, expr=e))
            s = replace(s, expr=_with(s.expr, {e: Value(e.dtype, n) for e, n in kept.items()}))
        if s.op in ("reduce", "store") and not behind & {*s.srcs}:
            raise UnsupportedOp(f"{s.dst} of a late sum is made of {', '.join(s.srcs)}", where=p.name, hint="leave softmax_overlap out")
        late.add(id(s))
        out.append(s)
    return tuple(out), bufs, late, set(kept.values())


def _of_this_round(e: Expr, behind: set[str]) -> Iterator[Expr]:
    """The largest parts of an expression that mention values, and none of `behind`."""
    mine = set(values(e))
    if mine and not mine & behind:
        yield e
    elif mine:
        for a in e.args:
            yield from _of_this_round(a, behind)


def _with(e: Expr, by: dict[Expr, Value]) -> Expr:
    if e in by:
        return by[e]
    return e if not e.args else e.with_args(tuple(_with(a, by) for a in e.args))
