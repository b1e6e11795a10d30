"""Work of a loop that runs some rounds late (schedule field `softmax_overlap`), so that cube and vector cores work at the same time.

    round t, as written     cube: S(t) = Q K(t)', wait for P(t), O(t) = P(t) V(t)    vector: wait for S(t), P(t), wait for O(t), o += O(t)
    round t, O a round late cube: S(t), O(t - 1)                                     vector: P(t), o += O(t - 1)

One round late, S(t + 1) is issued behind O(t - 1), which waits for P(t - 1): vector cores have it when P(t) is long done. With
`stages 3` of the loop it is two rounds, and S(t + 1) is there when P(t) ends.

Factors that lie in memory are copied to L1 a round early, where there is a slot more than rounds are under way: one pipe copies them
and what vector cores hand over, in order.

The product of a factor that vector cores make, and all that reads or changes its sum, is late. What of the round's other values such
statements read is kept in slots of its own (`kept`): the next rounds' values would stand there. FlashAttention 3 does so within a
warpgroup; tile-ai/tilelang-ascend's examples/flash_attention/fa_opt by several rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autocomp.targets.ascend.geometry import values

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Expr, postorder
from autocomp.tile.program import Buf, Loop, Stmt, TileProgram, Value, walk
from autocomp.tile.values import with_values

Body = tuple[Loop | Stmt, ...]


@dataclass(frozen=True)
class Late:
    """`statements`: ids of those that run `by` rounds late; `kept`: values that they read of their own round. `joined`: rounds run on from
    tile to tile (schedule field `persistent`, joined.py)."""

    statements: frozenset[int] = frozenset()
    kept: frozenset[str] = frozenset()
    by: int = 0
    joined: bool = False


def factors_first(p: TileProgram) -> TileProgram:
    """The program with factors that vector cores make as soon as they can be: the cube core waits for them, and not for their row sums."""
    return replace(p, body=_factors_first(p.body, {v for s, _ in walk(p.body) if s.op == "mma" for v in s.srcs}))


def _factors_first(body: Body, factors: set[str]) -> Body:
    out: list[Loop | Stmt] = []
    for n in body:
        at = len(out)
        if isinstance(n, Loop):
            n = replace(n, body=_factors_first(n.body, factors))
        elif n.op == "map" and n.dst in factors:
            while at and isinstance(x := out[at - 1], Stmt) and _apart(x, n):
                at -= 1
        out.insert(at, n)
    return tuple(out)


def _apart(x: Stmt, n: Stmt) -> bool:
    """Whether two statements on vector cores may change places."""
    return x.op in ("map", "reduce", "copy") and x.dst not in (n.dst, *values(n.expr)) and n.dst not in (*x.srcs, *values(x.expr))


def ahead(p: TileProgram) -> tuple[TileProgram, Late]:
    """The program with the values that late statements read by themselves. Raises UnsupportedOp where a loop that is to have late
    statements has none."""
    body, bufs, late, kept = _turned(p.body, p, list(p.bufs))
    by = max([1, *(int(n.opt("stages") or 0) - 1 for _, loops in walk(p.body) for n in loops if n.opt("overlap"))])
    joined = any(n.opt("persistent") for n in body if isinstance(n, Loop))
    return (replace(p, body=body, bufs=tuple(bufs)), Late(frozenset(late), frozenset(kept), by, joined)) if kept or late else (p, Late())


def _turned(body: Body, p: TileProgram, bufs: list[Buf]) -> tuple[Body, list[Buf], set[int], set[str]]:
    out: list[Loop | Stmt] = []
    late: set[int] = set()
    kept: set[str] = set()
    for n in body:
        if isinstance(n, Loop):
            inner, bufs, more, names = _turned(n.body, p, bufs)
            if n.opt("overlap"):
                inner, bufs, more, names = _overlapped(n.body, p, bufs)
            if n.opt("persistent") and more:
                inner, bufs, more, names = _joined(inner, p, bufs, more, names)
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
    is_late = [bool(behind & {s.dst, *s.srcs, *values(s.expr)}) for s in statements]
    first: dict[Expr, int] = {}  # what late statements read of their own round: the first of them that does
    for i, s in enumerate(statements):
        if is_late[i] and isinstance(s.expr, Expr):
            for e in _of_this_round(s.expr, behind):
                first.setdefault(e, i)
    since = {e: _since(e, at, statements) for e, at in first.items()}
    out: list[Loop | Stmt] = []
    late: set[int] = set()
    kept: dict[Expr, str] = {}
    for i, s in enumerate(statements):
        for e in (e for e, at in since.items() if at == i):
            axes = {a for v in values(e) for a in known[v].axes}
            b = Buf(f"{statements[first[e]].dst}_by{len(kept) or ''}", e.dtype, tuple(a for a, _ in p.axes if a in axes), "fragment")
            kept[e] = b.name
            bufs = [*bufs, b]
            out.append(Stmt("map", b.name, expr=e))
        if isinstance(s.expr, Expr):
            s = replace(s, expr=with_values(s.expr, {e: Value(e.dtype, n) for e, n in kept.items() if is_late[i] or i < first[e]}))
        if is_late[i]:
            if s.op in ("reduce", "store") and not behind & {*s.srcs}:
                raise UnsupportedOp(f"{s.dst} of a late sum is made of {', '.join(s.srcs)}", where=p.name, hint="leave softmax_overlap out")
            late.add(id(s))
        out.append(s)
    return tuple(out), bufs, late, set(kept.values())


def _joined(body: Body, p: TileProgram, bufs: list[Buf], late: set[int], kept: set[str]) -> tuple[Body, list[Buf], set[int], set[str]]:
    """A tile's statements around a loop with late ones that runs on from tile to tile: what begins a late value and all behind the loop is
    late too, and what that reads of the loop's other values is kept."""
    at = [i for i, n in enumerate(body) if isinstance(n, Loop)]
    if len(at) != 1:
        raise UnsupportedOp(f"{len(at)} loops in a tile", where=p.name, hint="leave persistent out")
    loop = body[at[0]]
    inside = [s for s, _ in walk((loop,))]
    mine = {s.dst for s in inside if id(s) not in late}  # of the round under way
    behind = {s.dst for s in inside if id(s) in late}
    front = [n for n in body[: at[0]] if isinstance(n, Stmt)]
    rest = [n for n in body[at[0] + 1 :] if isinstance(n, Stmt)]
    late = late | {id(s) for s in front if s.dst in behind}
    last: dict[str, str] = {}
    known = {b.name: b for b in bufs}
    for s in rest:
        for v in (*s.srcs, *values(s.expr)):
            if v in mine - behind and v not in last:
                last[v] = f"{v}_last"
                bufs = [*bufs, replace(known[v], name=last[v])]
    as_kept = [Stmt("map", n, expr=Value(known[v].dtype, v)) for v, n in last.items()]
    rest = [replace(s, srcs=tuple(last.get(v, v) for v in s.srcs),
                    expr=with_values(s.expr, {Value(known[v].dtype, v): Value(known[v].dtype, n) for v, n in last.items()})
                    if isinstance(s.expr, Expr) else s.expr) for s in rest]  # fmt: skip
    return (*front, loop, *as_kept, *rest), bufs, late | {id(s) for s in rest}, kept | set(last.values())


def _since(e: Expr, at: int, statements: list[Stmt]) -> int:
    """The first statement from which on, up to statement `at`, an expression keeps its value, and which has it as a part too."""
    used = at
    for i in range(at - 1, -1, -1):
        if statements[i].dst in values(e):
            break
        if isinstance(x := statements[i].expr, Expr) and e in postorder(x):
            used = i
    return used


def _of_this_round(e: Expr, behind: set[str]) -> Iterator[Expr]:
    """The largest parts of an expression that mention values, and none of `behind`."""
    mine = set(values(e))
    if mine and not mine & behind:
        yield e
    elif mine:
        for a in e.args:
            yield from _of_this_round(a, behind)
