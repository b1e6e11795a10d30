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

A base may be several sums: squared deviations are kept relative to the mean, a count and a sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.simt import trees
from autocomp.targets.simt.expressions import function, held
from autocomp.targets.simt.facts import Facts

from autocomp.ir.body import Expr, Map, postorder
from autocomp.ir.monoid_terms import term
from autocomp.ir.monoids import MONOIDS
from autocomp.tile.program import Loop, Stmt, TileProgram, Value, walk
from autocomp.tile.steps import Over, Scheme, Steps, by, loops, told

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer


@dataclass(frozen=True)
class Base:
    """`fold` makes what the loop's `new` value of `state` takes in."""

    state: str
    new: str
    fold: Stmt

    @property
    def over_workers(self) -> Stmt:
        """The exchange of what each of them has."""
        return Stmt("reduce", self.state, self.fold.srcs, self.fold.expr, self.fold.axis)


@dataclass(frozen=True)
class Relative:
    """Bases and the maps that move the sums which are kept relative to them from their states to their new values."""

    bases: tuple[Base, ...]
    moves: tuple[Stmt, ...]


@dataclass(frozen=True)
class Carried(Scheme):
    """What a loop leaves to be done behind it: exchanges of `sums` and `bases`, and of no turn's `parts` of a sum."""

    sums: tuple[Stmt, ...] = ()
    relative: tuple[Relative, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def bases(self) -> tuple[Base, ...]:
        return tuple(b for x in self.relative for b in x.bases)

    @property
    def moves(self) -> tuple[Stmt, ...]:
        return tuple(m for x in self.relative for m in x.moves)

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
        return told(n, x) if (x.sums or x.bases) and _of_same_elements(x, facts) else n

    return loops(steps, change)


def _of_same_elements(x: Carried, facts: Facts) -> bool:
    """Whether a thread's bases (a count, a sum) and what it keeps relative to them are of the same elements of an axis: a count of others
    would move its sums to a mean that is none of theirs."""
    moved = {m.dst for m in x.moves}
    folds = [b.fold for b in x.bases] + [s for s in x.sums if s.dst in moved]
    axes = {a for s in folds for a in s.axis.split(",")}
    of = lambda level: frozenset((d.axis, d.stride, d.count) for d in level if d.axis in axes)
    lies = [facts.place.layouts.get(s.srcs[0]) for s in folds]
    return len({(of(y.reg), of(y.lane), of(y.wave)) for y in lies if y is not None}) <= 1


def defer(at: Printer, n: Over) -> Carried:
    """Begins a loop whose trees run behind it: they are in `at.deferred` until `settle`."""
    x = by(n, Carried) or Carried()
    at.deferred |= {s.dst for s in x.sums} | {b.fold.dst for b in x.bases} | set(x.parts)
    return x


def _carried(p: TileProgram, loop: Loop) -> Carried:
    inside = [s for s, _ in walk(loop.body)]
    times = Counter(s.dst for s in inside)
    made = {s.dst: s for s in inside if s.op == "map" and times[s.dst] == 1}
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
        if all(s.expr == "add" and (scales(x, s.dst) or _rebased(x, made)) for x in others):
            out.append(s)
    elsewhere = {x for s, around in walk(p.body) if loop not in around for x in s.srcs}
    flat = not any(isinstance(n, Loop) for n in loop.body)
    sums = {x.dst for x in out}
    found = [r for s in inside if flat and (r := _relative(s, inside, sums, elsewhere, made))]
    moved = {m.dst for r in found for m in r.moves}
    alone = {s.dst for s in inside if s.dst not in moved and _rebased(s, made)}  # their bases are exchanged in every turn
    return Carried(tuple(s for s in out if s.dst not in alone), tuple(found), tuple(parts))


def settle(at: Printer, late: Carried) -> None:
    """What `defer` left: bases of all workers, sums moved to them, sums of all workers. Blocks of a cluster meet once: each reads
    the others' bases and sums, and moves these itself."""
    at.deferred -= {s.dst for s in late.sums} | {b.fold.dst for b in late.bases}
    moved = {m.dst for m in late.moves}
    bases = [(b.over_workers, at.names.of(b.state)) for b in late.bases]
    first = [(s, at.names.of(s.dst)) for s in late.sums if s.dst not in moved] + bases
    last = [(s, at.names.of(s.dst)) for s in late.sums if s.dst in moved]
    alike = len({(at.bufs[s.dst].dtype, at.place.layouts[s.srcs[0]]) for s, _ in first + last}) == 1
    together = bool(bases) and alike and trees.over_blocks(at, bases[0][0])
    own = {b.state: _copied(at, b.state) for b in late.bases}
    trees.trees(at, first, not together)
    for x in late.relative:
        _move(at, x, own)
    trees.trees(at, last, not together)
    if together:
        _meet(at, late, first, last)


def _copied(at: Printer, name: str) -> str:
    own, n = at.names.fresh("own_base"), at.place.layouts[name].registers
    at.put(f"{held(at.bufs[name].dtype)} {own}[{n}];")
    with at.over(n):
        at.put(f"{own}[r] = {at.names.of(name)}[r];")
    return own


def _move(at: Printer, x: Relative, before: Mapping[str, str]) -> None:
    """The sums that are kept relative to what stands in `before`, moved to the bases as they are now."""
    now = {b: at.names.of(b.state) for b in x.bases}
    names = [(b, at.names.call(b.state, before[b.state]), at.names.call(b.new, now[b])) for b in x.bases]
    for move in x.moves:
        at.map(move)
    for b, state, new in names:
        at.names.call(b.state, state)
        at.names.call(b.new, new)


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
        for r in late.relative:
            _move(at, r, {b.state: f"({all_} + {p * n + lies[b.state].start})" for b in r.bases})
        for x, mine in each(last):
            at.put(combine(x, f"{total[x.dst]}[r]", mine))
    for x, mine in each(last):
        at.put(f"{mine} = {total[x.dst]}[r];")


def _relative(s: Stmt, inside: list[Stmt], sums: set[str], elsewhere: set[str], made: Mapping[str, Stmt]) -> Relative | None:
    """The base that a fold (max, min) is of, or those of what a map rebases, if all that depends on them in the loop are sums which move
    with them. `made`: maps by what they alone make."""
    by_way: tuple[Stmt, ...] = ()
    if s.op == "reduce" and not s.acc and s.expr in ("max", "min"):
        found = [_base(s, inside)]
    elif s.dst in sums and (rebase := _rebased(s, made)):
        by_way = rebase.by_way
        found = [next((b for f in inside if f.op == "reduce" and f.expr == "add" and not f.acc and (b := _base(f, inside))
                       and b.state == state and b.new == new), None) for state, new in rebase.bases]  # fmt: skip
    else:
        return None
    bases = [b for b in found if b is not None]
    if len(bases) != len(found):
        return None
    states, known = {b.state for b in bases}, {x for b in bases for x in (b.state, b.new)} | {x.dst for x in by_way}
    mine = {x for b in bases for x in (b.fold.dst, b.new)}
    while more := {x.dst for x in inside if mine & set(x.srcs)} - mine:
        mine |= more
    touched = [x for x in inside if all(x is not b.fold for b in bases) and mine & {x.dst, *x.srcs}]
    moved = [x for x in touched if x.dst in sums and (x is s or scales(x, x.dst))]
    for x in touched:
        if x.op == "reduce" and x.dst in sums:
            continue
        if x in moved and set(x.srcs) <= {x.dst, *known}:
            continue
        if x.op != "map" or (x.dst not in states and x.dst in sums) or mine & set(x.srcs) & sums:
            return None
    return None if (mine - states - sums) & elsewhere else Relative(tuple(bases), (*by_way, *moved))


def _base(fold: Stmt, inside: list[Stmt]) -> Base | None:
    """What a fold is taken into: a state of the loop, once a turn by the operation that folds."""
    joins = [s for s in inside if fold.dst in s.srcs]
    if len(joins) != 1 or not isinstance(e := joins[0].expr, Map) or e.fn != fold.expr or not all(isinstance(a, Value) for a in e.args):
        return None
    new, state = joins[0].dst, next((a.name for a in e.args if isinstance(a, Value) and a.name != fold.dst), "")
    settled = [s for s in inside if s.dst == state]
    if len(settled) != 1 or not isinstance(settled[0].expr, Value) or settled[0].expr.name != new:
        return None
    return Base(state, new, fold)


@dataclass(frozen=True)
class _Rebase:
    """(state, new value) of each base from which and to which a sum is moved, and the maps that make parts of the move, in order."""

    bases: tuple[tuple[str, str], ...]
    by_way: tuple[Stmt, ...]


def _rebased(s: Stmt, made: Mapping[str, Stmt]) -> _Rebase | None:
    """How a map moves its own sum, where it does so as a monoid whose bases are sums says."""
    if s.op != "map" or s.dst not in s.srcs or not isinstance(s.expr, Map):
        return None
    dtype = s.expr.dtype
    for m in MONOIDS.values():
        bases = [b for b, *_ in m.base]
        asked = {b: Value(dtype, f"?{b}") for x in bases for b in (x, f"{x}1")} | {"x": Value(dtype, s.dst)}
        for _, _, rebase in m.modules if all(op == "add" for _, op, _ in m.base) else ():
            names: dict[str, str] = {}
            by_way: dict[str, Stmt] = {}
            if _unified(term(rebase, asked, dtype), s.expr, names, made, by_way):
                return _Rebase(tuple((names[f"?{b}"], names[f"?{b}1"]) for b in bases), tuple(x for x in made.values() if x.dst in by_way))
    return None


def _unified(pattern: Expr, e: Expr, names: dict[str, str], made: Mapping[str, Stmt], by_way: dict[str, Stmt]) -> bool:
    """Whether an expression is a pattern; values whose names begin with ? stand for any, the same one everywhere, and a value that a map
    made for what the map says."""
    if isinstance(pattern, Value) and pattern.name.startswith("?"):
        return isinstance(e, Value) and names.setdefault(pattern.name, e.name) == e.name
    if isinstance(pattern, Map) and isinstance(e, Value) and e.name in made and isinstance(inner := made[e.name].expr, Expr):
        by_way[e.name] = made[e.name]
        return _unified(pattern, inner, names, made, by_way)
    if isinstance(pattern, Map) and isinstance(e, Map):
        return pattern.fn == e.fn and len(pattern.args) == len(e.args) and all(
            _unified(a, b, names, made, by_way) for a, b in zip(pattern.args, e.args, strict=True))  # fmt: skip
    return pattern == e


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
