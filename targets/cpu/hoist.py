"""Values of a row are computed once a row (directive `common_values`).

    o: [i, j] = map o * exp(m - n)        with m, n: [i]
    ->   exp_row: [i] = map exp(m - n);  o: [i, j] = map o * exp_row
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autocomp.targets.cpu.lower import Nest, Slot

from autocomp.ir.body import Const, Expr, Index, Inside, Map, postorder
from autocomp.ir.scalar import SCALAR
from autocomp.ir.types import F32
from autocomp.tile.program import Loop, Stmt, Value
from autocomp.tile.values import values_of, with_values


def hoist(nest: Nest) -> Nest:
    """Split off costly parts of maps that lack an axis of the result; the same part elsewhere in the block reads it too."""
    slots = dict(nest.slots)

    def block(body: tuple[Loop | Stmt, ...]) -> tuple[Loop | Stmt, ...]:
        wanted = {e for s in body if isinstance(s, Stmt) and s.op == "map" and isinstance(s.expr, Expr) for e in _row_parts(nest, s)}
        out: list[Loop | Stmt] = []
        made: dict[Expr, str] = {}
        for s in body:
            if isinstance(s, Loop):
                out.append(replace(s, body=block(s.body)))
                made.clear()
                continue
            if s.op == "map" and isinstance(s.expr, Expr):
                for e in [e for e in postorder(s.expr) if e in wanted and e not in made]:
                    name = fresh(f"{e.fn}_row" if isinstance(e, Map) else "row", slots)
                    axes = tuple(a for a in nest.extent if a in (_axes(nest, e) or ()))
                    slots[name] = Slot(name, e.dtype, axes)
                    out.append(Stmt("map", name, values_of(e), e))
                    made[e] = name
                s = replace(s, expr=with_values(s.expr, {e: Value(e.dtype, n) for e, n in made.items()}))
            out.append(s)
            made = {e: n for e, n in made.items() if not any(isinstance(v, Value) and v.name == s.dst for v in postorder(e))}
        return tuple(out)

    body = block(nest.body)
    return replace(nest, body=body, slots=slots)


def _row_parts(nest: Nest, s: Stmt) -> list[Expr]:
    """The largest costly parts of a map that lack an axis of its result (but are no plain numbers)."""
    assert isinstance(s.expr, Expr)
    mine = set(nest.axes_of(s.dst))
    found: list[Expr] = []

    def visit(e: Expr) -> None:
        axes = _axes(nest, e)
        costly = any(isinstance(x, Map) and SCALAR[x.fn].unit == "special" for x in postorder(e))
        if isinstance(e, Map) and axes and set(axes) < mine and e.dtype == F32 and costly:
            found.append(e)
            return
        for a in e.args:
            visit(a)

    visit(s.expr)
    return found


def _axes(nest: Nest, e: Expr) -> frozenset[str] | None:
    """Axes that an expression varies with; None where data decide what it reads."""
    out: set[str] = set()
    for x in postorder(e):
        if isinstance(x, Value):
            out |= set(nest.axes_of(x.name))
        elif isinstance(x, Index):
            out |= x.index.names()
        elif isinstance(x, Inside):
            out |= {n for g in x.guard for n in g.names()}
        elif not isinstance(x, (Map, Const)):
            return None
    return frozenset(out)


def fresh(name: str, taken: Mapping[str, Slot]) -> str:
    """`name`, or it with the first free number."""
    n = 1
    text = name
    while text in taken:
        n += 1
        text = f"{name}{n}"
    return text
