"""The formula of a graph's node at one point, from the op table's comprehensions; and the closed form of a monoid's reduction.

A reduction with modules (max and sum of exponentials, Welford) is what its monoid says: each module is the sum over the elements of
their lifts, moved from the element's own base to the whole's. That combining parts in any order gives this is proved by
`prove.prove_monoid`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from autocomp.ir.affine import Aff, FloorDiv, Mod, aff
from autocomp.ir.body import Const, Contract, Expr, Index, Inside, Map, Read, Reduce
from autocomp.ir.monoid_terms import build
from autocomp.ir.monoids import MONOIDS, Monoid
from autocomp.ir.node import Node
from autocomp.ir.ops import OPS
from autocomp.rewrite.formula import Formula, Reals, Unprovable, functions, number


@dataclass
class Meaning:
    """Formulas of nodes. `given`: inputs whose value a condition fixes. `monoids`: those with modules that were used."""

    r: Reals = field(default_factory=Reals)
    given: Mapping[str, Formula] = field(default_factory=dict)
    monoids: set[str] = field(default_factory=set)

    def of(self, n: Node) -> Formula:
        """The node at the point [i0, i1, ...] of its output. Raises Unprovable."""
        return self.at(n, tuple(aff(f"i{k}") if d != 1 else Aff() for k, d in enumerate(n.type.shape)), 0)

    def at(self, n: Node, index: tuple[Aff, ...], depth: int) -> Formula:
        if n.op in ("input", "param"):
            name = str(n.attrs["name"])
            if name in self.given:
                return self.given[name]
            if not n.type.dtype.is_float:
                raise Unprovable(f"?{name} is no float")
            names = frozenset().union(*(i.names() for i in index))
            return self.r.atom(f"{name}[{', '.join(map(str, index))}]", "leaf", names)
        if n.op == "const":
            v = n.attrs["value"]
            if not isfinite(v):
                raise Unprovable(f"the constant {v}")
            return number(v)
        entry = OPS[n.op]
        if entry.comprehension is None:
            raise Unprovable(f"{n.op} has no formula")
        comp = entry.comprehension(tuple(i.type for i in n.inputs), n.attrs, n.type)
        return self.expr(comp.value, n, dict(zip((a.name for a in comp.axes), index)), depth)

    def expr(self, e: Expr, n: Node, by: Mapping[str, Aff], depth: int) -> Formula:
        if isinstance(e, Const):
            return number(e.value) if isfinite(e.value) else self.r.atom(str(e.value), "leaf")
        if isinstance(e, Inside):
            return self.inside(e.guard, by)
        if isinstance(e, Index):
            i = e.index.substitute(by)
            return self.r.atom(f"index({i})", "leaf", i.names())
        if isinstance(e, Read):
            value = self.at(n.inputs[e.operand], tuple(_plain(i.substitute(by)) for i in e.index), depth)
            if not e.guard:
                return value
            if not isfinite(e.fill):
                raise Unprovable("elements outside are infinite")
            return functions(self.r)["where"](self.inside(e.guard, by), value, number(e.fill))
        if isinstance(e, Map):
            return self.map(e, n, by, depth)
        if isinstance(e, (Reduce, Contract)):
            names = {a.name: f"r{depth}.{k}" for k, a in enumerate(e.axes)}
            inner = {**by, **{a.name: Aff() if a.extent == 1 else aff(names[a.name]) for a in e.axes}}
            axes = {names[a.name]: a.extent for a in e.axes if a.extent != 1}
            args = [self.expr(x, n, inner, depth + 1) for x in e.args]
            if isinstance(e, Contract):
                return self.r.total(self.r.mul(*args), axes)
            return self.reduction(MONOIDS[e.monoid], e.part, args, axes)
        raise Unprovable(f"{n.op} has a {type(e).__name__.lower()} in it")

    def inside(self, guard: tuple[Aff, ...], by: Mapping[str, Aff]) -> Formula:
        tests = tuple(g.substitute(by) for g in guard)
        return self.r.atom(f"inside({', '.join(map(str, tests))})", "truth", frozenset().union(*(t.names() for t in tests)))

    def map(self, e: Map, n: Node, by: Mapping[str, Aff], depth: int) -> Formula:
        args = [self.expr(x, n, by, depth) for x in e.args]
        if e.fn == "cast":
            if e.dtype.is_float and e.args[0].dtype.kind in "fb":
                return args[0]
            raise Unprovable(f"a cast from {e.args[0].dtype} to {e.dtype}")
        if any(x.dtype.is_int for x in e.args):
            raise Unprovable("arithmetic of integers")
        known = functions(self.r)
        return known[e.fn](*args) if e.fn in known else self.r.made("function", e.fn, *args)

    def reduction(self, m: Monoid, part: str, args: list[Formula], axes: Mapping[str, object]) -> Formula:
        """A state of a monoid's fold over `axes`, or its finished value."""
        if m.pick or (not m.modules and m.base[0][1] not in ("add", "max", "min")):
            return self.r.over(f"{m.name}.{part}", self.r.made("function", "operands", *args), axes)
        self.monoids |= {m.name} if m.modules else set()
        states = states_of(self.r, m, dict(zip(m.operands, args)), axes)
        return term(self.r, part or m.finish, states)


def _plain(i: Aff) -> Aff:
    if any(isinstance(a, (FloorDiv, Mod)) for a, _ in i.terms):
        raise Unprovable("an index depends on the sizes (a reshape)")
    return i


def term(r: Reals, text: str, env: Mapping[str, Formula]) -> Formula:
    """A monoid's term over formulas."""
    known = functions(r)
    return build(text, lambda x: env[x] if isinstance(x, str) else number(x), lambda f, a: known[f](*a))


def states_of(r: Reals, m: Monoid, operands: Mapping[str, Formula], axes: Mapping[str, object]) -> dict[str, Formula]:
    """Base and modules of the elements along `axes`."""
    lifts = {s: term(r, lift, operands) for s, _, lift in m.base}
    out = {s: r.total(lifts[s], axes) if op == "add" else r.over(op, lifts[s], axes) for s, op, _ in m.base}
    moved = {f"{s}1": v for s, v in out.items()}
    for s, lift, rebase in m.modules:
        out[s] = r.total(term(r, rebase, {**lifts, **moved, "x": term(r, lift, operands)}), axes)
    return out
