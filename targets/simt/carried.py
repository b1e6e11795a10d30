"""Reductions that a loop carries: which of them need their tree over workers only once, behind the loop."""

from __future__ import annotations

from autocomp.ir.body import Map, postorder
from autocomp.tile.program import Loop, Stmt, Value, walk


def deferred(loop: Loop) -> tuple[list[Stmt], set[str]]:
    """(carried reductions of a loop that nothing in it reads, but to scale them by what all lanes share; the results of one turn that
    are added to those): each worker keeps a part, and the tree over workers runs once behind the loop."""
    inside = [s for s, _ in walk(loop.body)]
    out: list[Stmt] = []
    parts: set[str] = set()
    for s in inside:
        if s.op == "reduce" and not s.acc and s.expr == "add" and (total := _carrier(s, inside)):
            parts.add(s.dst)
            out = [x for x in out if x.dst != total]
            out.append(Stmt("reduce", total, s.srcs, "add", s.axis, True))
            continue
        if s.op != "reduce" or not s.acc or s.expr not in ("add", "max", "min", "mul"):
            continue
        others = [x for x in inside if x is not s and s.dst in (x.dst, *x.srcs)]
        if all(s.expr == "add" and _scales(x, s.dst) for x in others):
            out.append(s)
    return out, parts


def _carrier(s: Stmt, inside: list[Stmt]) -> str:
    """The value that a loop only scales and adds a reduction's result to, which nothing else in it reads; "" if there is none."""
    readers = [x for x in inside if s.dst in x.srcs]
    if len(readers) != 1 or not isinstance(e := readers[0].expr, Map) or e.fn != "add":
        return ""
    total = readers[0].dst
    if {x.name for x in e.args if isinstance(x, Value)} != {total, s.dst}:
        return ""
    others = [x for x in inside if x is not readers[0] and total in (x.dst, *x.srcs)]
    return total if all(_scales(x, total) for x in others) else ""


def _scales(s: Stmt, name: str) -> bool:
    """name = name * something else, by a map."""
    e = s.expr
    if s.op != "map" or s.dst != name or not isinstance(e, Map) or e.fn != "mul":
        return False
    mine = [a for a in e.args if isinstance(a, Value) and a.name == name]
    other = [a for a in e.args if a not in mine]
    return len(mine) == 1 and not any(isinstance(x, Value) and x.name == name for a in other for x in postorder(a))
