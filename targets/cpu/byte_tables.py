"""Functions of one byte that give bytes are looked up: 256 results, made when the kernel is printed (directive `byte_tables`).

    q: [i] = map cast(u8, acc / s);  y: [i] = map cast(f32, q) * s;  z: [i] = map cast(u8, y * clip(y) / t)
    ->   q: [i] = map cast(u8, acc / s);  z: [i] = map table[q]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from autocomp.targets.cpu.hoist import fresh
from autocomp.targets.cpu.lower import Nest, Slot

from autocomp.ir.body import Const, Expr, Map, postorder, rewrite
from autocomp.ir.scalar import SCALAR, apply
from autocomp.tile.program import Loop, Stmt, Value, walk
from autocomp.tile.values import values_of

WORTH = 8  # additions that a look-up takes the time of, with the lanes that wait for it
SPECIAL = 4  # additions that a division or another function takes the time of
Block = tuple[Loop | Stmt, ...]


@dataclass(frozen=True, eq=False)
class Table(Expr):
    """The entry of a table of 256 bytes at an operand's byte."""

    name: str
    of: Expr

    @property
    def args(self) -> tuple[Expr, ...]:
        return (self.of,)

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return replace(self, of=args[0])


def byte_tables(nest: Nest, prefix: str) -> Nest:
    """The nest with tables in the place of long functions of a byte; `tables` has their entries by name."""
    tables: dict[tuple[int, ...], str] = {}
    slots = dict(nest.slots)

    def block(body: Block) -> Block:
        whole, of = _functions(nest, body)
        found = {e: b for s in whole for e, b in _longest(whole[s], of).items()}
        wanted = {b for b in found.values() if isinstance(b, Map)}
        by: dict[Expr, Expr] = {}
        out: list[Loop | Stmt] = []
        for s in body:
            if isinstance(s, Loop):
                out.append(replace(s, body=block(s.body)))
                continue
            if s.dst in whole and found:
                for b in [e for e in postorder(whole[s.dst]) if e in wanted and e not in by]:
                    slot = Slot(fresh("byte_t", slots), b.dtype, nest.axes_of(s.dst))
                    slots[slot.name], by[b] = slot, Value(b.dtype, slot.name)
                    out.append(Stmt("map", slot.name, values_of(b), b))
                for e in [e for e in postorder(whole[s.dst]) if e in found and e not in by]:
                    name = tables.setdefault(_entries(e, found[e]), f"{prefix}_table{len(tables)}")
                    by[e] = Table(e.dtype, name, by.get(found[e], found[e]))
                new = _with(whole[s.dst], by)
                s = replace(s, expr=new, srcs=values_of(new))
                by[whole[s.dst]] = Value(new.dtype, s.dst)
            out.append(s)
        return tuple(out)

    body = block(nest.body)
    if not tables:
        return nest
    body = _read(body, nest)
    left = {s.dst for s, _ in walk(body)} | {x for s, _ in walk(body) for x in s.srcs}
    return replace(nest, body=body, slots={n: s for n, s in slots.items() if n in left}, tables={n: t for t, n in tables.items()})


def _functions(nest: Nest, body: Block) -> tuple[dict[str, Expr], dict[Expr, Expr | bool]]:
    """The expressions of a block's maps, with those of other maps in them that are functions of the same byte; and of each part the one
    byte that it is a function of, True of numbers alone, False of what is neither. Maps of what is written again are left alone."""
    once = Counter(s.dst for s, _ in walk(nest.body))
    settled = [s for s in body if isinstance(s, Stmt) and s.op == "map" and not s.acc and isinstance(s.expr, Expr) and once[s.dst] == 1]
    whole: dict[str, Expr] = {}
    known: dict[str, Expr] = {}
    of: dict[Expr, Expr | bool] = {}
    for s in settled:
        assert isinstance(s.expr, Expr)
        behind = body[body.index(s) + 1 :]
        e = rewrite(s.expr, lambda e: known.get(e.name, e) if isinstance(e, Value) else e)
        _bytes_of(e, of)
        if any(n.dst in s.srcs for n, _ in walk(behind)):
            continue
        whole[s.dst] = e
        if isinstance(of[e], Expr) and of[e] is not e:
            known[s.dst] = e
    return whole, of


def _bytes_of(root: Expr, of: dict[Expr, Expr | bool]) -> None:
    for e in postorder(root):
        below = {of[a] for a in e.args} - {True}
        if isinstance(e, Const) or (isinstance(e, Map) and not below):
            of[e] = True
        elif isinstance(e, Map) and len(below) == 1 and False not in below:
            (of[e],) = below
        else:
            of[e] = e if isinstance(e, (Map, Value)) and e.dtype.is_int and e.dtype.bits == 8 else False


def _longest(root: Expr, of: Mapping[Expr, Expr | bool]) -> dict[Expr, Expr]:
    """The largest parts that are bytes and long functions of another byte, with it."""
    byte = of[root]
    if isinstance(byte, Expr) and byte is not root and root.dtype.is_int and root.dtype.bits == 8:
        steps = [e for e in postorder(root) if isinstance(e, Map) and of[e] is byte and e is not byte]
        if sum(SPECIAL if SCALAR[e.fn].unit == "special" else 1 for e in steps) >= WORTH:
            return {root: byte}
    return {e: b for a in root.args for e, b in _longest(a, of).items()}


def _entries(root: Expr, byte: Expr) -> tuple[int, ...]:
    """The results where `byte` is 0 .. 255 in memory's bits, by the meaning of each function."""
    values: dict[Expr, np.ndarray] = {byte: np.arange(256, dtype=np.uint8).view(byte.dtype.numpy)}
    with np.errstate(all="ignore"):
        for e in postorder(root):
            if isinstance(e, Const):
                values[e] = np.asarray(e.value).astype(e.dtype.numpy)
            elif isinstance(e, Map) and e is not byte and all(a in values for a in e.args):
                values[e] = apply(e.fn, [values[a] for a in e.args], e.dtype)
    return tuple(values[root].view(np.uint8).tolist())


def _with(root: Expr, by: Mapping[Expr, Expr]) -> Expr:
    """The expression with other ones in the place of these parts, the largest first."""
    done: dict[Expr, Expr] = dict(by)

    def go(e: Expr) -> Expr:
        if e not in done:
            done[e] = e.with_args(tuple(map(go, e.args))) if e.args else e
        return done[e]

    return go(root)


def _read(body: Block, nest: Nest) -> Block:
    """Without maps whose results nothing reads any more."""

    def block(body: Block, read: set[str]) -> Block:
        return tuple(replace(s, body=block(s.body, read)) if isinstance(s, Loop) else s for s in body
                     if isinstance(s, Loop) or s.op != "map" or s.dst in read or s.dst in nest.views)  # fmt: skip

    while (less := block(body, {x for s, _ in walk(body) for x in s.srcs})) != body:
        body = less
    return body


def table_text(name: str, entries: tuple[int, ...]) -> list[str]:
    """The C of a table, aligned as a line of memory is."""
    rows = (", ".join(map(str, entries[i : i + 32])) for i in range(0, 256, 32))
    return [f"static const uint8_t {name}[260] __attribute__((aligned(64))) = {{", *(f"  {r}," for r in rows), "};"]
