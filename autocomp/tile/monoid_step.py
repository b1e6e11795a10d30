"""One step of a reduction in a tile program: m1 = m op reduce lift; x1 = rebase(x) + sum rebase(lift), from its monoid's data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod

import ml_dtypes

from autocomp.ir.body import Const, Contract, Expr, Index, Load, Map, Reduce
from autocomp.ir.monoid_terms import term
from autocomp.ir.monoids import MONOIDS, Monoid, bound, identity
from autocomp.ir.types import BOOL, I32, DType
from autocomp.tile.program import Loop, Stmt, Value
from autocomp.tile.values import Scope, Values, values_of


def no_element(dtype: DType) -> int:
    """The place that stands for no element: the largest number, as the smallest place wins."""
    return 2 ** (dtype.bits - 1) - 1



@dataclass
class MonoidStep:
    """One step of a reduction: m1 = m op reduce lift; x1 = rebase(x) + sum rebase(lift)."""

    d: Values
    e: Reduce
    carried: bool
    st: dict[str, str]
    weights: dict[Expr, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    def run(self) -> dict[str, str]:
        d, e, m = self.d, self.e, MONOIDS[self.e.monoid]
        self.axis = ",".join(a.name for a in e.axes)
        self.operand = dict(zip(m.operands, e.operands))
        self.value: dict[str, Expr] = {}
        first = m.operands[0]
        plain, scale = self._factored(m)
        raw = d.emit(plain)
        v = d.masked(raw, plain.dtype, e.axes, identity(m.base[0][1], plain.dtype)) if self._needs_mask(m) else raw
        self.value[first] = self._of(v)
        if scale is not None:
            self.value[first] = Map(e.dtype, "mul", (self._of(v), scale))
        for _, _, lift in m.base:
            if lift in m.operands[1:]:  # in terms of one element there is one
                self.value[lift] = Const(e.dtype, 1.0)
                self.told[lift] = self._told(lift)
        if self.carried and m.tells and d.s.rescale_threshold:
            return self._lagging(m, v, scale)
        new = self._bases(m, v, scale)
        out = dict(new)
        for s, lift, rebase in m.modules:
            if self.carried or self._asked(s):
                out[s] = self._module(m, s, lift, rebase, new)
        for s, lift in m.pick:
            out[s] = self._pick(s, lift, new[m.base[0][0]], v)
        if self.carried:
            self._settle(m, new)
            return self.st
        return out

    def _bases(self, m: Monoid, v: str, scale: Const | None) -> dict[str, str]:
        """The base's new values; of a base that nothing is kept relative to, the state itself."""
        d, e, first = self.d, self.e, m.operands[0]
        new: dict[str, str] = {}
        every = self.carried or bool(m.pick) or any(self._asked(s) for s, *_ in m.modules)
        for s, op, lift in m.base:
            if not every and not self._asked(s):
                continue
            key = base_key(d, e, lift)
            if counted := self._counted(s, op, lift, key):
                new[s] = self._joined(s, op, counted, key) if self.carried else counted
                continue
            src = v if lift == first else self.told.get(lift) or self._lifted(lift)
            if self.carried and not m.modules and not m.pick:
                d.scope_for(set(d.bufs[src].axes)).body.append(Stmt("reduce", self.st[s], (src,), op, self.axis, True))
                new[s] = self.st[s]
                continue
            t = self._folded(s, op, src, key)
            if scale is not None:
                expr = Map(d.state_dtype(e), "mul", (self._of(t), scale))
                t = d.put("map", f"{s}_t", d.state_dtype(e), key, at=self._here(), srcs=(t,), expr=expr)
            if self.carried:
                t = self._joined(s, op, t, key)
            elif m.bounded:  # of what a loop carries the start is the bound
                dtype = d.state_dtype(e)
                expr = Map(dtype, op, (self._of(t), Const(dtype, bound(op, dtype))))
                t = d.put("map", f"{s}1", dtype, key, at=self._here(), srcs=(t,), expr=expr)
            new[s] = t
        return new

    def _joined(self, s: str, op: str, t: str, key: Sequence[str]) -> str:
        """The base's new value: the carried one and a turn's."""
        dtype = self.d.state_dtype(self.e)
        expr = Map(dtype, op, (self._of(self.st[s]), self._of(t)))
        return self.d.put("map", f"{s}1", dtype, key, at=self._here(), srcs=values_of(expr), expr=expr)

    def _counted(self, s: str, op: str, lift: str, key: Sequence[str]) -> str:
        """A sum of a constant over tiles that none of their axes sticks out of, without its elements; "" elsewhere, and where an operand
        tells which elements there are."""
        d, e = self.d, self.e
        sizes = [d.tile[a.name] or a.extent for a in e.axes]
        if lift in self.told or (self.carried and "thread_partials" in d.s.directives):
            return ""  # each thread counts its own
        if op != "add" or d.tails(e.axes, [a.name for a in e.axes]) or not all(isinstance(n, int) for n in sizes):
            return ""
        each = term(lift, self.value, e.dtype)
        total = prod(sizes) * each.value if isinstance(each, Const) else None  # type: ignore[arg-type]
        return "" if total is None else d.put("map", f"{s}_t", d.state_dtype(e), key, at=self._here(), expr=Const(e.dtype, float(total)))

    def _settle(self, m: Monoid, new: Mapping[str, str]) -> None:
        for s, _, _ in m.base:
            if new[s] != self.st[s]:
                self._here().body.append(Stmt("map", self.st[s], (new[s],), self._of(new[s])))

    def _lagging(self, m: Monoid, v: str, scale: Const | None) -> dict[str, str]:
        """A step under the base as it stands; where the weights' sum grows past 2^lazy, the base moves and the weights are made again.

        Any base serves a quotient of sums kept relative to it, so long as no weight overflows and some weight so far was 1: the base
        is the largest value of all steps but those that came after it moved last, and these exceed it by less than 2^lazy.
        """
        d, e, here = self.d, self.e, self._here()
        rebase = next(r for s, _, r in m.modules if s == m.tells)
        weight = term(rebase, {b: term(t, self.value, e.dtype) for b, _, t in m.base}
                      | {f"{b}1": self._of(self.st[b]) for b, _, _ in m.base} | {"x": Const(e.dtype, 1.0)}, e.dtype)  # fmt: skip
        mark = len(here.body)
        p = d.put("map", "p", e.dtype, d.ordered(d.free[id(e.operands[0])]), at=here, srcs=values_of(weight), expr=weight)
        p = d.masked(p, e.dtype, e.axes, 0.0)
        total = d.put("reduce", f"{m.tells}_t", e.dtype, d.ordered(d.key_axes(e)), at=here, srcs=(p,), expr="add", axis=self.axis)
        under_old = [s for s in here.body[mark:] if isinstance(s, Stmt)]
        rare = type(here)(here.axes)
        d.scopes.append(rare)
        new = self._bases(m, v, scale)
        for s, _, r in m.modules:
            self._move(m, s, r, new)
        moved = {self.st[b]: self._of(new[b]) for b in new}
        rare.body += [_under(s, moved) for s in under_old]
        self._settle(m, new)
        d.scopes.pop()
        most = min([2.0**d.s.rescale_threshold] + [_largest(self.operand[x].dtype) / 4 for _, x, _ in m.modules if x in m.operands[1:]])
        here.body.append(Loop("when", (), tuple(rare.body), (("of", total), ("above", repr(most)))))
        for s, lift, _ in m.modules:
            if lift in m.operands[1:]:
                self._weighted(m, s, lift, p)
            else:
                self._add(s, total)
        return self.st

    def _add(self, s: str, part: str) -> None:
        expr = Map(self.e.dtype, "add", (self._of(self.st[s]), self._of(part)))
        self._here().body.append(Stmt("map", self.st[s], values_of(expr), expr))

    def _move(self, m: Monoid, s: str, rebase: str, new: Mapping[str, str]) -> None:
        """A carried state of a module, moved to the base's new value."""
        old = {b: self._of(self.st[b]) for b, _, _ in m.base} | {f"{b}1": self._of(new[b]) for b, _, _ in m.base}
        moved = term(rebase, {**old, "x": self._of(self.st[s])}, self.e.dtype)
        self._here().body.append(Stmt("map", self.st[s], values_of(moved), moved))

    def _folded(self, s: str, op: str, src: str, key: Sequence[str]) -> str:
        """The fold of a source, once a scope: a maximum may be asked for alone and as the base of a sum of exponentials."""
        d, folds, which = self.d, self._here().folds, (op, src, self.axis)
        if which not in folds:
            dtype = d.state_dtype(self.e)
            folds[which] = d.put("reduce", f"{s}_t", dtype, key, at=self._here(), srcs=(src,), expr=op, axis=self.axis)
        return folds[which]

    def _factored(self, m: Monoid) -> tuple[Expr, Const | None]:
        """The first operand without a positive constant factor, and that factor, where every base folds by max or min: those commute
        with it, so that elements are scaled where they are used and not before."""
        e, first = self.e, self.operand[m.operands[0]]
        if m.pick or not m.modules or any(op not in ("max", "min") or lift != m.operands[0] for _, op, lift in m.base):
            return first, None
        if self.d.uses.get(id(first), 1) > 1 or not e.dtype.is_float:
            return first, None
        plain, factor = _unscaled(first, e.dtype)
        self.d.know(plain)
        return (plain, Const(e.dtype, factor)) if factor != 1.0 else (first, None)

    def _asked(self, state: str) -> bool:
        """Does a part that the kernel uses read this state?"""
        parts = {x.part or MONOIDS[x.monoid].finish for x in self.d.heavy if isinstance(x, Reduce) and same_fold(x, self.e)}
        return any(state in re.findall(r"\w+", p) for p in parts)

    def _needs_mask(self, m: Monoid) -> bool:
        bare_sum = m.name == "sum" and isinstance(self.e.operands[0], Load)
        return not bare_sum

    def _here(self) -> Scope:
        return self.d.scope_for(frozenset(a.name for a in self.e.axes) | self.d.free[id(self.e.operands[0])])

    def _of(self, name: str) -> Expr:
        return Value(self.d.bufs[name].dtype, name)

    def _lifted(self, lift: str) -> str:
        """A lift that is a term (1 for counts), as a value over the reduced axes too."""
        d, e = self.d, self.e
        axes = d.ordered(frozenset(a.name for a in e.axes) | base_axes(d, e, lift))
        value = d.put("map", "one", e.dtype, axes, at=self._here(), expr=term(lift, self.value, e.dtype))
        return d.masked(value, e.dtype, e.axes, 0.0)

    def _told(self, lift: str) -> str:
        """A base's own operand (whether there is an element), as a value over the axes of the first, or over those that it has."""
        d, e = self.d, self.e
        source = d.emit(self.operand[lift])
        axes = d.ordered(frozenset(a.name for a in e.axes) | base_axes(d, e, lift))
        value = d.put("map", lift, e.dtype, axes, at=self._here(), srcs=(source,), expr=self._of(source))
        return d.masked(value, e.dtype, e.axes, 0.0)

    def _module(self, m: Monoid, s: str, lift: str, rebase: str, new: Mapping[str, str]) -> str:
        d, e = self.d, self.e
        bases = {b: term(t, self.value, e.dtype) for b, _, t in m.base} | {f"{b}1": self._of(new[b]) for b, _, _ in m.base}
        private = lift in m.operands[1:]
        if self.carried:
            self._move(m, s, rebase, new)
        weight = term(rebase, {**bases, "x": Const(e.dtype, 1.0) if private else term(lift, self.value, e.dtype)}, e.dtype)
        for told in self.told.values():  # what is no element adds nothing
            weight = Map(e.dtype, "mul", (self._of(told), weight))
        if weight not in self.weights:  # a sum and a weighted sum rebase by one weight
            axes = d.ordered(d.free[id(e.operands[0])])
            p = d.put("map", "p", e.dtype, axes, at=self._here(), srcs=values_of(weight), expr=weight)
            self.weights[weight] = d.masked(p, e.dtype, e.axes, 0.0)
        p = self.weights[weight]
        if private:
            return self._weighted(m, s, lift, p)
        if self.carried:
            self._here().body.append(Stmt("reduce", self.st[s], (p,), "add", self.axis, True))
            return self.st[s]
        return d.put("reduce", s, e.dtype, d.ordered(d.key_axes(e)), at=self._here(), srcs=(p,), expr="add", axis=self.axis)

    def _weighted(self, m: Monoid, s: str, lift: str, p: str) -> str:
        """A sum of a product of two factors with axes of their own is a contraction."""
        d, e = self.d, self.e
        w = self.operand[lift]
        wv = d.emit(w, "block") if isinstance(w, Load) else d.emit(w)
        if d.bufs[wv].dtype != e.dtype:
            narrow = Map(d.bufs[wv].dtype, "cast", (self._of(p),))
            p = d.put("map", "p_n", narrow.dtype, d.bufs[p].axes, at=self._here(), srcs=(p,), expr=narrow)
        acc = self.st.get(s) or d.put("fill", s, e.dtype, d.ordered(d.free[id(e)]), at=self._here(), expr=0.0)
        self._here().body.append(Stmt("mma", acc, (p, wv), acc=True))
        return acc

    def _pick(self, s: str, lift: str, best: str, v: str) -> str:
        """The smallest lift among the elements that equal the new base."""
        d, e = self.d, self.e
        x, dtype = self.operand[lift], d.pick_dtype(e, lift)
        none = Const(dtype, no_element(dtype))
        index: Expr = x if isinstance(x, (Const, Index)) else Value(x.dtype, d.emit(x))
        if dtype == I32 and isinstance(x, Index):
            index = Index(I32, x.index)
        index = index if index.dtype == dtype else Map(dtype, "cast", (index,))
        wins: Expr = Map(BOOL, "eq", (self._of(v), self._of(best)))
        if d.bufs[v].dtype.is_float:
            wins = Map(BOOL, "or", (wins, Map(BOOL, "isnan", (self._of(v),))))
        expr = Map(dtype, "where", (wins, index, none))
        axes = d.ordered(d.free[id(e.operands[0])])
        c = d.masked(d.put("map", "at", dtype, axes, at=self._here(), srcs=values_of(expr), expr=expr), dtype, e.axes, none.value)
        key = d.ordered(d.key_axes(e))
        if not self.carried:
            return d.put("reduce", s, dtype, key, at=self._here(), srcs=(c,), expr="min", axis=self.axis)
        base = next(iter(self.st))
        old = self._of(self.st[base])
        still: Expr = Map(BOOL, "eq", (old, self._of(best)))
        if old.dtype.is_float:  # the first NaN stays the winner: it equals nothing
            still = Map(BOOL, "or", (still, Map(BOOL, "isnan", (old,))))
        keep = Map(dtype, "where", (still, self._of(self.st[s]), none))
        self._here().body.append(Stmt("map", self.st[s], values_of(keep), keep))
        self._here().body.append(Stmt("reduce", self.st[s], (c,), "min", self.axis, True))
        return self.st[s]


def _unscaled(e: Expr, dtype: DType) -> tuple[Expr, float]:
    """(x, c) with e = c * x, c a positive constant; x is of `dtype`. Casts between floats keep the value (excess precision on chip)."""
    if isinstance(e, Map):
        if e.fn == "cast" and e.args[0].dtype.is_float:
            return _unscaled(e.args[0], dtype)
        if e.fn == "mul":
            for one, other in (e.args, e.args[::-1]):
                if isinstance(one, Const) and 0 < one.value < inf:
                    x, c = _unscaled(other, dtype)
                    return x, c * one.value
        if e.fn == "where" and isinstance(e.args[2], Const) and abs(e.args[2].value) == inf:
            x, c = _unscaled(e.args[1], dtype)
            return Map(dtype, "where", (e.args[0], x, Const(dtype, e.args[2].value))), c
    return (e if e.dtype == dtype else Map(dtype, "cast", (e,))), 1.0


def base_axes(d: Values, e: Reduce, lift: str) -> frozenset[str]:
    """The axes of what a base folds. Where threads count apart, a count is that of the rows which its own operand has: it is the same for
    all columns of a variance, and so is its reciprocal."""
    m, free = MONOIDS[e.monoid], d.free[id(e.operands[0])]
    if "thread_partials" not in d.s.directives or lift == m.operands[0]:
        return free
    told = dict(zip(m.operands, e.operands)).get(lift)
    if told is not None:
        return free & d.free[id(told)]
    return frozenset() if lift == "1" else free  # a count of the reduced axes' elements


def base_key(d: Values, e: Reduce, lift: str) -> tuple[str, ...]:
    """The axes of a base, which it keeps, in order."""
    return d.ordered(base_axes(d, e, lift) & d.key_axes(e))


def same_fold(a: Reduce | Contract, b: Reduce | Contract) -> bool:
    """Equal but for the part that is asked for."""
    if isinstance(a, Reduce) and isinstance(b, Reduce):
        return a.monoid == b.monoid and a.axes == b.axes and all(x is y for x, y in zip(a.operands, b.operands))
    return a is b


def _under(s: Stmt, other: Mapping[str, Expr]) -> Stmt:
    """The statement with other values in place of those named."""
    if not isinstance(s.expr, Expr):
        return s

    def swap(e: Expr) -> Expr:
        return other.get(e.name, e) if isinstance(e, Value) else e.with_args(tuple(map(swap, e.args))) if e.args else e

    expr = swap(s.expr)
    return replace(s, srcs=values_of(expr), expr=expr)


def _largest(dtype: DType) -> float:
    return float(ml_dtypes.finfo(dtype.numpy).max)
