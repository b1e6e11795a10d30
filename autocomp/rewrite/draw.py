"""Instances of a rule's left side, drawn: ranks, extents (1, equal ones, primes), dtypes, permutations, axes, windows, numbers.

A rule's author gives the instances he thinks of. Here the left side grows from its leaves: a tensor gets a type that fits its neighbour,
an op gets attributes that fit its operands, what a condition fixes (`?a == [rank(?x) - 1]`, `close(value(?n) * dim(?x, 1), 1)`) is
mostly taken from it; and examples are varied. What the op table or the conditions refuse is thrown away and drawn again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from autocomp.deadline import current
from autocomp.errors import ModelError
from autocomp.forks import kept_property
from autocomp.ir.builder import checked_attrs, inferred
from autocomp.ir.scalar import SCALAR
from autocomp.ir.types import DTYPES, TensorType
from autocomp.rewrite.attributes import MOST, Palette, attributes, chance, early, number, partner, pick
from autocomp.rewrite.expr import Call, Expr, Items, Lit, Op, Ref, Word, walk
from autocomp.rewrite.functions import CLOSE, ROUNDED, Operand, default_functions
from autocomp.rewrite.instance import CONSTANT, Instance, Uniform, literal_key, tensors, type_of
from autocomp.rewrite.pattern import Apply, Pattern, applications
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Env, Unanswerable, equated
from autocomp.rewrite.where import evaluate as value_of

Rng = np.random.Generator
SIZES = (1, 2, 3, 4, 5, 7, 6, 8, 11, 9)
OF_DTYPE = frozenset({"dtype", "bytes", "is_int", "is_float", "widens"})
COMMON = ("f64", "f32", "f64", "f32", "f16", "bf16", "i32", "i8", "u8", "i64", "u32", "bool", "i16", "u16", "u64",
          "f8e4m3", "f8e5m2")  # fmt: skip


class Miss(Exception):
    """This draw makes no instance."""


@dataclass
class Drawer:
    """Draws bindings for one rule; the same seed draws the same ones."""

    rule: Rule
    seed: int = 0
    rng: Rng = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng((self.seed, 11))

    # ---- what the rule's text says
    @kept_property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(tensors(self.rule.lhs)))

    @kept_property
    def uniform(self) -> frozenset[str]:
        """Tensors of which the rule asks for the one number that they hold."""
        calls = (c for e in self._texts for c in walk(e) if isinstance(c, Call) and c.name in ("value", "is_uniform"))
        return frozenset(c.args[0].name for c in calls if isinstance(c.args[0], Ref))

    @kept_property
    def _texts(self) -> tuple[Expr, ...]:
        made = tuple(e for a in applications(self.rule.rhs) for _, e in a.attrs) if self.rule.rhs is not None else ()
        return (*self.rule.where, *made)

    @kept_property
    def numbers(self) -> tuple[float, ...]:
        """Numbers in the rule's text: its limits are near them."""
        assert self.rule.lhs is not None and self.rule.rhs is not None
        left = (e for side in (self.rule.lhs, self.rule.rhs) for a in applications(side) for _, e in a.attrs)
        found = {float(x.value) for e in (*self._texts, *left) for x in walk(e)
                 if isinstance(x, Lit) and isinstance(x.value, (int, float)) and isfinite(x.value)}  # fmt: skip
        return tuple(sorted(found))

    @kept_property
    def dtypes(self) -> Mapping[str, tuple[str, ...]]:
        """The dtypes that the conditions on a tensor alone leave it."""
        out = {}
        for name in self.names:
            mine = [c for c in self.rule.where if {x.name for x in walk(c) if isinstance(x, Ref)} == {name}
                    and {x.name for x in walk(c) if isinstance(x, Call)} <= OF_DTYPE]  # fmt: skip
            left = [
                d
                for d in (DTYPES if mine else dict.fromkeys(COMMON))
                if all(self._may(c, {name: Operand(TensorType(DTYPES[d], ()))}) for c in mine)
            ]
            out[name] = tuple(d for d in COMMON if d in left) or tuple(left or DTYPES)
        return out

    @kept_property
    def ranks(self) -> Mapping[str, tuple[int, ...]]:
        """The ranks that the conditions on a tensor alone leave it."""
        out = {}
        for name in self.names:
            mine = [c for c in self.rule.where if {x.name for x in walk(c) if isinstance(x, Ref)} == {name}
                    and {x.name for x in walk(c) if isinstance(x, Call)} == {"rank"}]  # fmt: skip
            shapes = {r: Operand(TensorType(DTYPES["f32"], (2,) * r)) for r in range(6)}
            out[name] = tuple(r for r, x in shapes.items() if all(self._may(c, {name: x}) for c in mine)) or tuple(shapes)
        return out

    @kept_property
    def constants(self) -> Mapping[str, bool]:
        """Tensors that conditions want to be parameters (True) or not (False)."""
        out = {}
        for c in self.rule.where:
            e = c.args[0] if isinstance(c, Op) and c.op == "not" else c
            if isinstance(e, Call) and e.name == "is_constant" and isinstance(e.args[0], Ref):
                out[e.args[0].name] = e is c
        return out

    @kept_property
    def wanted(self) -> Mapping[str, tuple[Expr, ...]]:
        """Attribute -> what conditions say that it is."""
        out: dict[str, tuple[Expr, ...]] = {}
        for c in self.rule.where:
            if not isinstance(c, Op) or c.op not in ("==", "in"):
                continue
            for a, b in (c.args, c.args[::-1]):
                if isinstance(a, Ref) and a.name not in self.names and a.name != "root":
                    values = b.items if c.op == "in" and isinstance(b, Items) else (b,)
                    out[a.name] = (*out.get(a.name, ()), *values)
        return out

    def _may(self, c: Expr, variables: Mapping[str, Any]) -> bool:
        try:
            return bool(value_of(c, Env(variables, default_functions())))
        except Unanswerable:
            return True

    # ---- drawing
    def draws(self, count: int, tries: int) -> Iterator[tuple[dict[str, Any], Instance]]:
        """Up to `count` bindings for which the conditions hold, from at most `tries` attempts; no more after the deadline."""
        found, seen = 0, set()
        shown = [dict(e.bindings) for e in self.rule.examples if e.fires and e.bindings]
        for k in range(tries):
            if current().over:
                return
            try:
                bindings = self._varied(pick(self.rng, shown)) if shown and k % 3 == 0 else self.grown()
                if (key := repr(sorted(bindings.items(), key=lambda x: x[0]))) in seen:
                    continue
                seen.add(key)
                x = Instance(self.rule, bindings, open=True)
                if any(n.type.elements > MOST for n in (x.left, *x.left.inputs)) or not x.conditions():
                    continue
            except (Miss, ModelError, Unanswerable):
                continue
            except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError):
                continue  # attributes of a form that the op's type rule does not look for
            yield bindings, x
            found += 1
            if found == count:
                return

    def _palette(self) -> Palette:
        rng = self.rng
        near = [k for n in self.numbers for k in (int(n) - 1, int(n), int(n) + 1, 2 * int(n) + 1) if 10 <= k <= MOST]
        pool = (*SIZES, *(k for k in near if k <= 40)) if near and chance(rng, 0.5) else SIZES
        if (far := [k for k in near if k > 40]) and chance(rng, 0.3):  # one long axis, or few elements would be left for the others
            pool = (pick(rng, far), 1, 2)
        elif chance(rng, 0.35):  # all alike, or nearly: then whatever a rule confuses still has a type
            pool = pick(rng, ((1, 2), (2, 3), (2,), (3,), (1, 4)))
        extents = tuple(int(pick(rng, pool)) for _ in range(pick(rng, (1, 2, 2, 3, 3, 4))))
        first = next((self.dtypes[n] for n in self.names), COMMON)
        rank = pick(rng, self.ranks[pick(rng, self.names)]) if self.names and chance(rng, 0.7) else pick(rng, (0, 1, 2, 2, 3, 3, 4))
        return Palette(extents, min(rank, 4) if chance(rng, 0.9) else rank, DTYPES[pick(rng, first)])

    def grown(self) -> dict[str, Any]:
        """Bindings of one instance, conditions not yet asked. Raises Miss, and what the op table refuses."""
        assert self.rule.lhs is not None
        growth = _Growth(self, self._palette())
        growth.grow(self.rule.lhs, None)
        growth.solve()
        return growth.bindings

    def solved(self, bindings: Mapping[str, Any], operands: Mapping[str, Any]) -> dict[str, Any]:
        """Bindings with the numbers that conditions fix."""
        growth = _Growth(self, Palette((), 0, DTYPES["f64"]), dict(bindings), {}, dict(operands))
        growth.solve(always=True)
        return growth.bindings

    def _varied(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """An example with other extents, dtypes, permutations and numbers."""
        rng, out = self.rng, dict(given)
        types = {k: t for k, v in given.items() if isinstance(v, str) and (t := type_of(v)) is not None}
        old = sorted({int(d) for t in types.values() for d in t.shape})  # type: ignore[arg-type]
        new = {d: d if chance(rng, 0.4) else int(pick(rng, SIZES)) for d in old}
        swap = pick(rng, COMMON) if len({t.dtype for t in types.values()}) == 1 and chance(rng, 0.5) else ""
        loose = chance(rng, 0.3)
        for k, t in types.items():
            shape = tuple(int(pick(rng, SIZES)) if loose and chance(rng, 0.3) else new[int(d)] for d in t.shape)  # type: ignore[arg-type]
            if loose and chance(rng, 0.2):
                shape = shape[1:] if chance(rng, 0.5) else (int(pick(rng, SIZES)), *shape)
            out[k] = f"{swap or t.dtype}[{', '.join(map(str, shape))}]{CONSTANT if str(given[k]).endswith(CONSTANT) else ''}"
        for k, v in given.items():
            if k in types or not chance(rng, 0.4):
                continue
            out[k] = self._other(k, v)
        return out

    def _other(self, name: str, v: Any) -> Any:
        rng = self.rng
        if isinstance(v, (tuple, list)):
            if all(isinstance(x, int) for x in v):
                if sorted(v) == list(range(len(v))):
                    return tuple(int(x) for x in rng.permutation(v))
                return tuple(int(x) + int(pick(rng, (-1, 0, 0, 1, 2))) for x in v)
            return v
        if isinstance(v, bool):
            return not v
        if isinstance(v, str):
            return pick(rng, COMMON) if v in DTYPES else v
        if name in self.names:
            return number(rng, DTYPES[pick(rng, ("f32", "i32"))], self.numbers)
        return v + pick(rng, (-1, 1, 2)) if isinstance(v, int) else number(rng, DTYPES["f64"], self.numbers)


@dataclass
class _Growth:
    """One left side as it grows: bindings so far, and the types of its tensors."""

    drawer: Drawer
    palette: Palette
    bindings: dict[str, Any] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    operands: dict[str, Any] = field(default_factory=dict)

    def grow(self, p: Pattern, like: TensorType | None) -> TensorType:
        """The type of a pattern; `like`: what would suit the op around it. Raises Miss, ModelError or Unanswerable."""
        rng = self.drawer.rng
        if isinstance(p, Ref):
            if p.name not in self.types:
                self._tensor(p.name, like or partner(rng, "add", 0, {}, {}, self.palette))
            return self.types[p.name]
        if isinstance(p, (Lit, Word)):
            t = TensorType(like.dtype if like else self.palette.dtype, ())
            if like is not None and chance(rng, 0.3):
                t = TensorType(t.dtype, like.shape)
            value = float(p.value) if isinstance(p, Lit) and isinstance(p.value, (int, float)) else 0.0
            if isinstance(p, Lit):
                self.bindings[literal_key(p)] = Uniform(t, value)
            return t
        return self._application(p, like)

    def _application(self, p: Apply, like: TensorType | None) -> TensorType:
        rng = self.drawer.rng
        if p.op == "const":
            return TensorType(self.palette.dtype, ())
        known: dict[str, Any] = {}
        for name, e in p.attrs:
            if isinstance(e, Ref) and e.name not in self.bindings:
                continue
            try:
                known[name] = self._value(e)
            except Unanswerable:
                continue
        types: dict[int, TensorType] = {}
        fresh = [i for i, a in enumerate(p.args) if self._is_fresh(a)]
        for i, a in enumerate(p.args):
            if i not in fresh:
                types[i] = self.grow(a, self._suits(p, i, types, known, like))
        for i in fresh:
            if not isinstance(p.args[i], Lit):
                self._bind(p, {k: v for k, v in early(rng, p.op, types, self.palette).items() if k not in known}, known)
            types[i] = self.grow(p.args[i], self._suits(p, i, types, known, like))
        operands = [types[i] for i in range(len(p.args))]
        self._bind(p, attributes(rng, p.op, operands, self.palette), known)
        for name, e in p.attrs:
            if name not in known:
                known[name] = self._value(e)
        made = inferred(p.op, tuple(operands), checked_attrs(p.op, known))
        if made.elements > MOST or made.rank > 8:
            raise Miss
        return made

    def _is_fresh(self, a: Pattern) -> bool:
        return isinstance(a, (Lit, Word)) or (isinstance(a, Ref) and a.name not in self.types)

    def _suits(self, p: Apply, place: int, types: Mapping[int, TensorType], attrs: Mapping[str, Any], like: TensorType | None
               ) -> TensorType | None:  # fmt: skip
        rng = self.drawer.rng
        if types:
            return partner(rng, p.op, place, types, attrs, self.palette)
        if like is not None and p.op in SCALAR and len(p.args) < 3 and p.op != "cast" and chance(rng, 0.8):
            return like if SCALAR[p.op].result == "same" else TensorType(self.palette.dtype, like.shape)
        if like is not None and p.op == "cast" and chance(rng, 0.8):
            return TensorType(self.palette.dtype, like.shape)
        perm = attrs.get("perm")
        if like is not None and p.op == "transpose" and isinstance(perm, tuple) and sorted(perm) == list(range(like.rank)):
            back = sorted(range(like.rank), key=lambda k: perm[k])
            return TensorType(like.dtype, tuple(like.shape[k] for k in back))
        return partner(rng, p.op, place, {}, attrs, self.palette)

    def _bind(self, p: Apply, drawn: Mapping[str, Any], known: dict[str, Any]) -> None:
        """Give variables of attributes that are still free what was drawn, or what a condition wants."""
        d, rng = self.drawer, self.drawer.rng
        for name, e in p.attrs:
            if name in known or not isinstance(e, Ref) or name not in drawn:
                continue
            value = drawn[name]
            if e.name in self.bindings:
                value = self.bindings[e.name]
            elif (wanted := d.wanted.get(e.name)) and chance(rng, 0.75):
                with suppress(Unanswerable):
                    value = self._value(pick(rng, wanted))
            elif chance(rng, 0.12) and (same := [v for k, v in self.bindings.items() if isinstance(v, tuple) and isinstance(value, tuple)
                                                 and len(v) == len(value) and k not in self.types]):  # fmt: skip
                value = pick(rng, same)
            known[name] = self.bindings[e.name] = self.operands[e.name] = value

    def _value(self, e: Expr) -> Any:
        if isinstance(e, Word):
            return e.name
        return value_of(e, Env(self.operands, default_functions()))

    def _tensor(self, name: str, t: TensorType) -> None:
        """Bind a tensor to a type near `t`, as its own conditions allow."""
        d, rng = self.drawer, self.drawer.rng
        allowed = d.dtypes[name]
        if t.dtype.name not in allowed:
            t = TensorType(DTYPES[pick(rng, allowed)], t.shape)
        ranks = d.ranks[name]
        if t.rank not in ranks and chance(rng, 0.9):
            r = pick(rng, ranks)
            s: tuple[int, ...] = t.shape  # type: ignore[assignment]
            t = TensorType(t.dtype, s[len(s) - r :] if r <= len(s) else (*self.palette.shape(rng, r - len(s)), *s))
        if t.elements > MOST:
            raise Miss
        self.types[name] = t
        wants = d.constants.get(name)
        fixed = wants if wants is not None else chance(rng, 0.2)
        if name in d.uniform and chance(rng, 0.95):
            if chance(rng, 0.5):
                t = self.types[name] = TensorType(t.dtype, ())
            u = Uniform(t, number(rng, t.dtype, d.numbers))
            self.bindings[name], self.operands[name] = u, Operand(t, True, u.held)
            return
        self.bindings[name] = f"{t}{CONSTANT if fixed else ''}"
        self.operands[name] = Operand(t, bool(fixed))

    def solve(self, always: bool = False) -> None:
        """Numbers that a condition fixes: value(?c) == 2, close(value(?n) * dim(?x, 1), 1); mostly, so that others are tried too."""
        rng = self.drawer.rng
        for c in self.drawer.rule.where:
            equal, near = equated(c), isinstance(c, Call)
            if len(equal) != 2 or not (always or chance(rng, 0.9)):
                continue
            calls = (x for a in equal for x in walk(a) if isinstance(x, Call) and x.name == "value")
            for name in [x.args[0].name for x in calls if isinstance(x.args[0], Ref)][:1]:
                u = self.bindings.get(name)
                if not isinstance(u, Uniform):
                    continue
                try:
                    at = [self._difference(equal, name, u.type, v) for v in (1.0, 2.0)]
                except (Unanswerable, TypeError):
                    continue
                if isfinite(at[0]) and isfinite(at[1]) and at[1] != at[0]:
                    root = 1.0 - at[0] / (at[1] - at[0])
                    if near and u.type.dtype.is_float and chance(rng, 0.4):  # what is close is not all one number
                        off = CLOSE if isinstance(c, Call) and len(c.args) == 2 else ROUNDED * u.type.dtype.eps
                        root *= 1 + 0.8 * off * float(pick(rng, (-1, 1)))
                    both = root == 0 and u.type.dtype.is_float  # -0.0 == 0 as well
                    fitted = Uniform(u.type, -0.0 if both and chance(rng, 0.5) else root)
                    self.bindings[name], self.operands[name] = fitted, Operand(u.type, True, fitted.held)

    def _difference(self, equal: tuple[Expr, ...], name: str, t: TensorType, v: float) -> float:
        env = Env({**self.operands, name: Operand(t, True, v)}, default_functions())
        return float(value_of(equal[0], env)) - float(value_of(equal[1], env))
