"""Thread-private partial reductions (directive `thread_partials`): a reduction that a loop carries is kept by each thread, and threads
exchange their states once, behind the loop, not in every iteration.

A sum or a maximum that nothing in the loop reads needs no exchange in it. A state kept relative to a base (sums of exponentials relative
to a maximum) needs none either: every worker has a base of its own, and behind the loop its sums are moved to the base of all by the
very map that moves them in the loop.

    before   serial r0                    after   serial r0
               l += reduce add x                    | each thread keeps its own l; threads meet behind the loop
                                                    l += reduce add x

    loop   t = reduce max x;  m1 = max(m, t);  l = l * exp(m - m1);  l += reduce add exp(x - m1);  m = m1
    behind own = m;  m = max over workers of own;  l = l * exp(own - m);  l = sum over workers of l
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.simt import trees
from autocomp.targets.simt.expressions import function, held
from autocomp.targets.simt.facts import Facts

from autocomp.ir.body import Map, postorder
from autocomp.tile.program import Loop, Stmt, TileProgram, Value, walk
from autocomp.tile.steps import Over, Scheme, Steps, by, loops, told

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer


@dataclass(frozen=True)
class Base:
    """`fold` makes what the loop's `new` value of `state` takes in; `moves`: maps that move a sum from `state` to `new`."""

    state: str
    new: str
    fold: Stmt
    moves: tuple[Stmt, ...]


@dataclass(frozen=True)
class Carried(Scheme):
    """What a loop leaves to be done behind it: exchanges of `sums` and `bases`, and of no turn's `parts` of a sum."""

    sums: tuple[Stmt, ...] = ()
    bases: tuple[Base, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        return f"each thread keeps its own {', '.join(sorted(self.names))}; threads meet behind the loop"

    @property
    def names(self) -> set[str]:
        return {s.dst for s in self.sums} | {x for b in self.bases for x in (b.state, b.fold.dst)}


def thread_partials(steps: Steps, facts: Facts) -> Steps:
    """Says of each loop which of its reductions' trees over workers run once, behind it."""

    def change(n: Over, loop: Loop) -> Over:
        x = Carried() if loop.kind in ("grid", "when") else _carried(facts.p, loop)
        return told(n, x) if x.sums or x.bases else n

    return loops(steps, change)


def defer(at: Printer, n: Over) -> Carried:
    """Begins a loop whose trees run behind it: they are in `at.deferred` until `settle`."""
    x = by(n, Carried) or Carried()
    at.deferred |= {s.dst for s in x.sums} | {b.fold.dst for b in x.bases} | set(x.parts)
    return x


def _carried(p: TileProgram, loop: Loop) -> Carried:
    inside = [s for s, _ in walk(loop.body)]
    out: list[Stmt] = []
    parts: list[str] = []
    for s in inside:
        if s.op == "reduce" and not s.acc and s.expr == "add" and (total := _carrier(s, inside)):
            parts.append(s.dst)  # a turn's part of a carried sum
            out = [x for x in out if x.dst != total]
            out.append(Stmt("reduce", total, s.srcs, "add", s.axis, True))
            continue
        if s.op != "reduce" or not s.acc or s.expr not in ("add", "max", "min", "mul"):
            continue
        others = [x for x in inside if x is not s and s.dst in (x.dst, *x.srcs)]
        if all(s.expr == "add" and scales(x, s.dst) for x in others):
            out.append(s)
    elsewhere = {x for s, around in walk(p.body) if loop not in around for x in s.srcs}
    flat = not any(isinstance(n, Loop) for n in loop.body)
    bases = [b for s in inside if flat and (b := _base(s, inside, {x.dst for x in out}, elsewhere))]
    return Carried(tuple(out), tuple(bases), tuple(parts))


def settle(at: Printer, late: Carried) -> None:
    """What `defer` left: bases of all workers, sums moved to them, sums of all workers. Blocks of a cluster meet once: each reads
    the others' bases and sums, and moves these itself."""
    at.deferred -= {s.dst for s in late.sums} | {b.fold.dst for b in late.bases}
    moved = {m.dst for b in late.bases for m in b.moves}
    bases = [(Stmt("reduce", b.state, b.fold.srcs, b.fold.expr, b.fold.axis), at.names.of(b.state)) for b in late.bases]
    first = [(s, at.names.of(s.dst)) for s in late.sums if s.dst not in moved] + bases
    last = [(s, at.names.of(s.dst)) for s in late.sums if s.dst in moved]
    alike = len({(at.bufs[s.dst].dtype, at.place.layouts[s.srcs[0]]) for s, _ in first + last}) == 1
    together = bool(bases) and alike and trees.over_blocks(at, bases[0][0])
    own = {b.state: _copied(at, b.state) for b in late.bases}
    trees.trees(at, first, not together)
    for b in late.bases:
        _move(at, b, own[b.state])
    trees.trees(at, last, not together)
    if together:
        _meet(at, late, first, last)


def _copied(at: Printer, name: str) -> str:
    own, n = at.names.fresh("own_base"), at.place.layouts[name].registers
    at.put(f"{held(at.bufs[name].dtype)} {own}[{n}];")
    with at.over(n):
        at.put(f"{own}[r] = {at.names.of(name)}[r];")
    return own


def _move(at: Printer, b: Base, before: str) -> None:
    """The sums that are kept relative to `before`, moved to the base as it is now."""
    now = at.names.of(b.state)
    names = at.names.call(b.state, before), at.names.call(b.new, now)
    for move in b.moves:
        at.map(move)
    at.names.call(b.state, names[0])
    at.names.call(b.new, names[1])


def _meet(at: Printer, late: Carried, first: list[tuple[Stmt, str]], last: list[tuple[Stmt, str]]) -> None:
    """Bases and sums of the blocks of a cluster, with one barrier."""
    s, dtype = first[0][0], at.bufs[first[0][0].dst].dtype
    both, n, lies = trees.side_by_side(at, first + last)
    own = at.place.threads // at.place.cluster // at.place.wave
    box, _ = trees.leave(at, both, n, own, dtype, f"tree of {s.dst}{trees.OVER_BLOCKS}")
    read = trees.read_all(at, box, n, at.place.layouts[s.srcs[0]], set(s.axis.split(",")), False)
    all_ = at.names.fresh("all")
    at.put(f"{held(dtype)} {all_}[{len(read) * n}];")
    for p, text in enumerate(read):
        with at.over(n):
            at.put(f"{all_}[{p * n} + r] = {text};")
    combine = lambda x, a, b: f"{a} = {function(str(x.expr), [a, b], dtype)};"
    of = lambda p, x: f"{all_}[{p * n + lies[x.dst].start} + r]"

    def each(pairs: list[tuple[Stmt, str]]) -> Iterator[tuple[Stmt, str]]:
        for x, name in pairs:
            with at.over(len(lies[x.dst])):
                yield x, f"{name}[r]"

    for x, mine in each(first):
        at.put(f"{mine} = {of(0, x)};", *(combine(x, mine, of(p, x)) for p in range(1, len(read))))
    total = {x.dst: at.names.fresh("met") for x, _ in last}
    for x, _ in last:
        at.put(f"{held(dtype)} {total[x.dst]}[{len(lies[x.dst])}] = {{}};")
    for p in range(len(read)):
        for x, mine in each(last):
            at.put(f"{mine} = {of(p, x)};")
        for b in late.bases:
            _move(at, b, f"({all_} + {p * n + lies[b.state].start})")
        for x, mine in each(last):
            at.put(combine(x, f"{total[x.dst]}[r]", mine))
    for x, mine in each(last):
        at.put(f"{mine} = {total[x.dst]}[r];")


def _base(fold: Stmt, inside: list[Stmt], sums: set[str], elsewhere: set[str]) -> Base | None:
    """The base that a fold belongs to, if all that depends on it in the loop are sums which move with it."""
    if fold.op != "reduce" or fold.acc or fold.expr not in ("max", "min"):
        return None
    joins = [s for s in inside if fold.dst in s.srcs]
    if len(joins) != 1 or not isinstance(e := joins[0].expr, Map) or e.fn != fold.expr or not all(isinstance(a, Value) for a in e.args):
        return None
    new, state = joins[0].dst, next((a.name for a in e.args if isinstance(a, Value) and a.name != fold.dst), "")
    settled = [s for s in inside if s.dst == state]
    if len(settled) != 1 or not isinstance(settled[0].expr, Value) or settled[0].expr.name != new:
        return None
    mine = {fold.dst, new}
    while more := {s.dst for s in inside if mine & set(s.srcs)} - mine:
        mine |= more
    touched = [s for s in inside if s is not fold and mine & {s.dst, *s.srcs}]
    moves = [s for s in touched if scales(s, s.dst) and s.dst in sums]
    for s in touched:
        if s.op == "reduce" and s.dst in sums:
            continue
        if s in moves and set(s.srcs) <= {s.dst, state, new}:
            continue
        if s.op != "map" or (s.dst != state and s.dst in sums) or mine & set(s.srcs) & sums:
            return None
    if (mine - {state} - sums) & elsewhere:
        return None
    return Base(state, new, fold, tuple(moves))


def _carrier(s: Stmt, inside: list[Stmt]) -> str:
    """The value that a loop only scales and adds a reduction's result to, which nothing else in it reads; "" if there is none."""
    readers = [x for x in inside if s.dst in x.srcs]
    if len(readers) != 1 or not isinstance(e := readers[0].expr, Map) or e.fn != "add":
        return ""
    total = readers[0].dst
    if {x.name for x in e.args if isinstance(x, Value)} != {total, s.dst}:
        return ""
    others = [x for x in inside if x is not readers[0] and total in (x.dst, *x.srcs)]
    return total if all(scales(x, total) for x in others) else ""


def scales(s: Stmt, name: str) -> bool:
    """name = name * something else, by a map."""
    e = s.expr
    if s.op != "map" or s.dst != name or not isinstance(e, Map) or e.fn != "mul":
        return False
    mine = [a for a in e.args if isinstance(a, Value) and a.name == name]
    other = [a for a in e.args if a not in mine]
    return len(mine) == 1 and not any(isinstance(x, Value) and x.name == name for a in other for x in postorder(a))
