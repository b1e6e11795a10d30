"""Exponentials of what lies below a row's maximum: their operand is at most 0, and need not be tested for overflow
(directive `exp_below_maximum`).

    m: [i] = reduce max j x;  n: [i] = map m * 0.125;  p: [i, j] = map exp(x * 0.125 - n)
    ->   p: [i, j] = map exp_nonpositive(x * 0.125 - n)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autocomp.targets.cpu.lower import Nest

from autocomp.ir.body import Const, Expr, Map, rewrite
from autocomp.ir.types import F32
from autocomp.tile.program import Loop, Stmt, Value, walk

Bound = tuple[str, float]  # (x, c): at least c * x at every element, c > 0
Bounds = dict[str, frozenset[Bound]]


def below_maxima(nest: Nest) -> Nest:
    """The nest with `exp_nonpositive` for `exp` where a row's maximum is taken from the operand."""
    return replace(nest, body=_block(nest.body))


def _block(body: tuple[Loop | Stmt, ...]) -> tuple[Loop | Stmt, ...]:
    """One block, with what is known after each of its statements: of values as they are now, so a write ends what was known."""
    out: list[Loop | Stmt] = []
    known: Bounds = {}
    for n in body:
        if isinstance(n, Loop):
            out.append(replace(n, body=_block(n.body)))
            for s, _ in walk(n.body):
                known = _without(known, s.dst)
            continue
        if n.op == "map" and isinstance(n.expr, Expr):
            n = replace(n, expr=rewrite(n.expr, lambda e, now=known: _fold(e, now)))  # type: ignore[misc]
        out.append(n)
        new = frozenset() if n.acc else _bounds(n, known)
        known = _without(known, n.dst)
        if new := frozenset(b for b in new if b[0] != n.dst):
            known[n.dst] = new
    return tuple(out)


def _fold(e: Expr, known: Mapping[str, frozenset[Bound]]) -> Expr:
    if not (isinstance(e, Map) and e.fn == "exp" and e.dtype == F32):
        return e
    (x,) = e.args
    if not (isinstance(x, Map) and x.fn == "sub" and isinstance(x.args[1], Value)):
        return e
    return replace(e, fn="exp_nonpositive") if _scaled(x.args[0]) in known.get(x.args[1].name, ()) else e


def _bounds(s: Stmt, known: Bounds) -> frozenset[Bound]:
    """What the result of a statement is at least: a maximum over rows, a positive multiple of one, the larger of two."""
    if s.op == "reduce" and s.expr == "max" and len(s.srcs) == 1:
        return frozenset({(s.srcs[0], 1.0)})
    if s.op != "map" or not isinstance(s.expr, Expr):
        return frozenset()
    if isinstance(s.expr, Map) and s.expr.fn == "max":
        return frozenset(b for a in s.expr.args if isinstance(a, Value) for b in known.get(a.name, ()))
    of = _scaled(s.expr)
    return frozenset((x, c * of[1]) for x, c in known.get(of[0], ())) if of is not None else frozenset()


def _without(known: Bounds, name: str) -> Bounds:
    """What is known once a value has been written."""
    return {n: left for n, b in known.items() if n != name and (left := frozenset(x for x in b if x[0] != name))}


def _scaled(e: Expr) -> Bound | None:
    """(x, c) of a value x or c * x with a positive constant."""
    if isinstance(e, Value):
        return e.name, 1.0
    if isinstance(e, Map) and e.fn == "mul":
        for one, other in (e.args, e.args[::-1]):
            if isinstance(one, Value) and isinstance(other, Const) and other.value > 0:
                return one.name, float(other.value)
    return None
