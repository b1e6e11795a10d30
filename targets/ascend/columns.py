"""Elements of rows looked up by integers in memory: rows are copied whole, and one instruction a row takes elements by their byte offsets.

    v[i, j] = t[i, at[j]]   ->   x = rows i of t;  offsets = 4 clamped(at, columns);  v[i] = Gather(x[i], offsets)

Indices are words of 32 bits; those of 64 bits are narrowed first, as no row has 2^31 elements. Numbers outside of a row are its ends.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.ascend.copies import Region, base_text
from autocomp.targets.ascend.geometry import values
from autocomp.targets.ascend.operand import WORD, Operand
from autocomp.targets.ascend.whole import by_columns

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Const, Expr, Gather, Index, Map
from autocomp.ir.types import I32, I64
from autocomp.tile.program import Buf, Loop, Stmt, TileProgram, Value, walk

if TYPE_CHECKING:
    from autocomp.targets.ascend.transfers import Transfers


def named(p: TileProgram) -> TileProgram:
    """The program with last indices that are computed where they are used as values of their own."""
    axes = {b.name: b.axes for b in p.bufs}
    for s, _ in walk(p.body):
        e = s.expr
        if not isinstance(e, Gather) or not isinstance(last := e.index[-1], Map) or last.dtype not in (I32, I64) or not values(last):
            continue
        name = f"{s.dst}_at"
        used = {a for v in values(last) for a in axes.get(v, ())}
        look_up = replace(s, expr=Gather(e.dtype, e.tensor, (*e.index[:-1], Value(last.dtype, name))))
        if not by_columns(look_up.expr):
            continue
        bufs = (*p.bufs, Buf(name, last.dtype, tuple(a for a, _ in p.axes if a in used), "fragment"))
        return named(replace(p, body=_replaced(p.body, {id(s): (Stmt("map", name, expr=last), look_up)}), bufs=bufs))
    return p


def narrowed(p: TileProgram) -> TileProgram:
    """The program with such indices in 32 bits."""
    made = {s.dst: s for s, _ in walk(p.body)}
    for s in made.values():
        e = s.expr
        if not isinstance(e, Gather) or not by_columns(e) or not isinstance(at := e.index[-1], Value) or at.dtype != I64:
            continue
        short: dict[str, Stmt] = {}
        try:
            last = _short(at, made, short)
        except UnsupportedOp:
            continue
        by: dict[int, tuple[Stmt, ...]] = {id(made[n]): (x,) for n, x in short.items()}
        bufs = [replace(b, dtype=I32) if b.name in short else b for b in p.bufs]
        if not isinstance(last, Value):  # as it lies in memory
            bufs.append(Buf(f"{s.dst}_at", I32, next(b.axes for b in p.bufs if b.name == at.name), "fragment"))
            by[id(s)] = (Stmt("map", f"{s.dst}_at", expr=last),)
            last = Value(I32, f"{s.dst}_at")
        by[id(s)] = (*by.get(id(s), ()), replace(s, expr=Gather(e.dtype, e.tensor, (*e.index[:-1], last))))
        return narrowed(replace(p, body=_replaced(p.body, by), bufs=tuple(bufs)))
    return p


def _short(e: Expr, made: dict[str, Stmt], short: dict[str, Stmt]) -> Expr:
    """An integer in 32 bits. Raises UnsupportedOp."""
    if isinstance(e, Value) and e.dtype == I64:
        s = made.get(e.name)
        if s is not None and s.op == "copy":
            return Map(I32, "cast", (e,))
        if s is None or s.op != "map" or not isinstance(s.expr, Expr):
            raise UnsupportedOp("an index of 64 bits that is no map of memory's", where=e.name)
        if e.name not in short:
            short[e.name] = replace(s, expr=_short(s.expr, made, short))
        return Value(I32, e.name)
    if isinstance(e, Const) and e.dtype == I64:
        return Const(I32, e.value)
    if isinstance(e, Index):
        return Index(I32, e.index)
    if isinstance(e, Map):
        operands = tuple(_short(a, made, short) for a in e.operands)
        return Map(I32 if e.dtype == I64 else e.dtype, e.fn, operands)
    return e


def _replaced(body: tuple[Loop | Stmt, ...], by: dict[int, tuple[Stmt, ...]]) -> tuple[Loop | Stmt, ...]:
    out: list[Loop | Stmt] = []
    for n in body:
        out += [replace(n, body=_replaced(n.body, by))] if isinstance(n, Loop) else by.get(id(n), (n,))
    return tuple(out)


def looked_up(v: Transfers, name: str, e: Gather, kind: str, lane: str) -> Operand:
    """The value of a look-up. Raises UnsupportedOp for tables of other integers and open sizes."""
    t, at = v.p.tensor(str(e.tensor)), v.value(e.index[-1].name)  # type: ignore[attr-defined]
    known = at.element == WORD and at.kind in ("line", "full")
    assert t is not None
    sizes = [n for n in t.shape if isinstance(n, int)]
    if kind != "full" or len(sizes) < len(t.shape) or not (t.dtype.is_float or t.dtype == I32) or not known:
        raise UnsupportedOp(f"elements of {t.name} are looked up one by one along axis {lane}", where=v.p.name,
                            hint="vector cores look up floats and i32 of rows of a known size")  # fmt: skip
    if any(lane in index.index.names() for index in e.index[:-1]):  # type: ignore[attr-defined]
        raise UnsupportedOp(f"each element of a row of {t.name} is looked up in another row, along axis {lane}", where=v.p.name,
                            hint="vector cores take elements of one row at a time")  # fmt: skip
    step, offset = {a: 0 for a, _ in v.g.rows}, 0
    for i, index in enumerate(e.index[:-1]):
        apart = prod(sizes[i + 1 :])
        offset += index.index.const * apart  # type: ignore[attr-defined]
        for a in index.index.names():  # type: ignore[attr-defined]
            step[a] = step.get(a, 0) + index.index.coef(a) * apart  # type: ignore[attr-defined]
    columns = sizes[-1]
    rows = Region(f"{t.buffer}_g", base_text(step, offset, v.start), {**step, lane: 1}, (*(a for a, _ in v.g.rows), lane), t.dtype.bytes)
    lies = replace(v.g, lanes={**v.g.lanes, lane: columns})
    with v.lying(lies, {**v.true, lane: str(columns)}):
        x = v.load(name, rows, t.dtype)
    places = v.temporary(at.kind, lane, element=WORD)
    v.v([f"ac_places({places.name}, {at.name}, {columns - 1}, {v.g.elements(at.kind, lane)});"], (at,), places)
    d = v.temporary(kind, lane, name, x.element)
    pitch = v.g.pitch(lane)
    size = f"{v.g.count}, {pitch}, {lies.pitch(lane)}, {pitch}, {pitch if at.kind == 'full' else 0}"
    v.v([f"ac_looked_up({d.name}, {x.name}, {places.name}, {size});"], (x, places), d)
    v.release(places)
    with v.lying(lies, v.true):
        v.release(x)
    return d
