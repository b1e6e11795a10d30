"""Formulas over the reals in normal form: sums of products of atoms with whole powers, so that equal ones mostly get equal texts.

An atom is what the normal form does not look into: an element of a tensor, exp of a product, a sum over an axis, max(p, q). What it
stands for is kept beside it (`Atom.define`), for z3. exp(p + q) = exp(p) exp(q); a factor that does not vary with an axis leaves
the sum over it; a division by one product is a product. Division by zero is not looked at: sides agree where both are defined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations

Monomial = tuple[tuple[str, int], ...]


class Unprovable(Exception):
    """Why there is no formula for this."""


@dataclass(frozen=True)
class Formula:
    """Sum of coefficient * product of atom^power, terms sorted."""

    terms: tuple[tuple[Monomial, Fraction], ...]

    def __str__(self) -> str:
        return " + ".join(f"{c}*{product_text(m)}" if m else str(c) for m, c in self.terms) or "0"

    @property
    def number(self) -> Fraction | None:
        """The value, where it is a number."""
        if not self.terms:
            return Fraction(0)
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def atoms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a for m, _ in self.terms for a, _ in m))


def product_text(m: Monomial) -> str:
    return "*".join(a if p == 1 else f"{a}^{p}" for a, p in m)


@dataclass(frozen=True)
class Atom:
    """kind: leaf | exp | count | truth | sum | root | quotient | max | min | abs | compare | function. `axes` that it varies with;
    `args` what it is made of, for kinds that z3 looks into."""

    kind: str
    axes: frozenset[str]
    args: tuple[Formula, ...] = ()


def formula(terms: Mapping[Monomial, Fraction]) -> Formula:
    return Formula(tuple(sorted((m, c) for m, c in terms.items() if c)))


def number(x: float | Fraction) -> Formula:
    return formula({(): Fraction(x)})


@dataclass
class Reals:
    """The arithmetic of formulas and the atoms met so far."""

    atoms: dict[str, Atom] = field(default_factory=dict)

    # ---- atoms
    def atom(self, text: str, kind: str, axes: Iterable[str] = (), args: tuple[Formula, ...] = ()) -> Formula:
        self.atoms.setdefault(text, Atom(kind, frozenset(axes), args))
        return formula({((text, 1),): Fraction(1)})

    def axes(self, *parts: Formula) -> frozenset[str]:
        return frozenset().union(*(self.atoms[a].axes for p in parts for a in p.atoms))

    def made(self, kind: str, name: str, *args: Formula) -> Formula:
        """The atom name(args)."""
        return self.atom(f"{name}({'; '.join(map(str, args))})", kind, self.axes(*args), args)

    def count(self, extent: object) -> Formula:
        """The number of points along an axis: an unknown of its own, at least 1."""
        return number(1) if extent == 1 else self.atom(f"n{extent}", "count")

    # ---- ring
    def add(self, *parts: Formula) -> Formula:
        out: dict[Monomial, Fraction] = {}
        for p in parts:
            for m, c in p.terms:
                out[m] = out.get(m, Fraction(0)) + c
        return formula(out)

    def scaled(self, p: Formula, c: Fraction | int) -> Formula:
        return formula({m: k * c for m, k in p.terms})

    def sub(self, a: Formula, b: Formula) -> Formula:
        return self.add(a, self.scaled(b, -1))

    def mul(self, *parts: Formula) -> Formula:
        out: dict[Monomial, Fraction] = {(): Fraction(1)}
        for p in parts:
            new: dict[Monomial, Fraction] = {}
            for m, c in out.items():
                for n, k in p.terms:
                    x = self._times(m, n)
                    new[x] = new.get(x, Fraction(0)) + c * k
            out = new
            if len(out) > 400:
                raise Unprovable("the formula grows beyond 400 terms")
        return formula(out)

    def _times(self, a: Monomial, b: Monomial) -> Monomial:
        powers: dict[str, int] = {}
        for atom, p in (*a, *b):
            powers[atom] = powers.get(atom, 0) + p
        one = {x for x in powers if self.atoms[x].kind in ("truth", "compare")}  # 0 or 1: every power is the same
        return tuple(sorted((x, 1 if x in one else p) for x, p in powers.items() if p))

    def power(self, p: Formula, n: int) -> Formula:
        if n < 0:
            return self.power(self.inverse(p), -n)
        if n > 8:
            raise Unprovable(f"the power {n}")
        return self.mul(*[p] * n) if n else number(1)

    def inverse(self, p: Formula) -> Formula:
        """1 / p. Of several terms what they share is taken out, and the rest becomes an atom with power -1."""
        if not p.terms:
            raise Unprovable("a division by zero")
        shared = {a: min(dict(m).get(a, 0) for m, _ in p.terms) for a in p.atoms}
        common = tuple(sorted((a, k) for a, k in shared.items() if k))
        lead = p.terms[0][1]
        back = formula({tuple((a, -k) for a, k in common): 1 / lead})
        rest = self.mul(p, back)
        if rest.number is not None:
            return back
        text = f"({rest})"
        self.atoms.setdefault(text, Atom("quotient", self.axes(rest), (rest,)))
        return self.mul(back, formula({((text, -1),): Fraction(1)}))

    # ---- functions
    def exp(self, p: Formula) -> Formula:
        out = number(1)
        for m, c in p.terms:
            text = f"exp({product_text(m) or 1}{'' if c.denominator == 1 else f'/{c.denominator}'})"
            axes = frozenset().union(*(self.atoms[a].axes for a, _ in m))
            self.atoms.setdefault(text, Atom("exp", axes))
            out = self.mul(out, formula({((text, c.numerator),): Fraction(1)}))
        return out

    def extreme(self, kind: str, a: Formula, b: Formula) -> Formula:
        """max or min of two values."""
        if a.number is not None and b.number is not None:
            return number(max(a.number, b.number) if kind == "max" else min(a.number, b.number))
        if kind == "max" and (b.number == 1 and self._counts(a)):
            return a
        return self.made(kind, kind, *sorted((a, b), key=str))

    def _counts(self, p: Formula) -> bool:
        """A sum of counts is at least 1."""
        return bool(p.terms) and all(c >= 1 and m and all(self.atoms[a].kind == "count" and k > 0 for a, k in m) for m, c in p.terms)

    # ---- over axes
    def total(self, p: Formula, axes: Mapping[str, object]) -> Formula:
        """Sum over axes (name -> extent)."""
        out = number(0)
        for m, c in p.terms:
            inner = tuple((a, k) for a, k in m if self.atoms[a].axes & axes.keys())
            outer = tuple(x for x in m if x not in inner)
            used = frozenset().union(*(self.atoms[a].axes for a, _ in inner)) & axes.keys()
            factor = self.mul(formula({outer: c}), *(self.count(axes[n]) for n in sorted(axes.keys() - used)))
            if inner:
                factor = self.mul(factor, self._bound("sum", formula({inner: Fraction(1)}), used))
            out = self.add(out, factor)
        return out

    def over(self, kind: str, p: Formula, axes: Mapping[str, object]) -> Formula:
        """Another reduction over axes, known by its text only."""
        used = self.axes(p) & axes.keys()
        return self._bound(kind, p, used) if used or kind not in ("max", "min") else p

    def _bound(self, kind: str, p: Formula, used: frozenset[str]) -> Formula:
        """kind over `used` of p. The axes' names are replaced, in the order that gives the least text, so that they do not matter."""
        free = max((int(x) for x in re.findall(r"\$(\d+)", str(p))), default=-1) + 1
        texts = []
        for order in permutations(sorted(used)):
            place = {a: f"${free + i}" for i, a in enumerate(order)}
            terms = [(_renamed(m, place), c) for m, c in p.terms]
            texts.append(str(Formula(tuple(sorted(terms)))))
        return self.atom(f"{kind}[{len(used)}]{{{min(texts, default='')}}}", "sum", self.axes(p) - used)


def _renamed(m: Monomial, place: Mapping[str, str]) -> Monomial:
    new = lambda text: re.sub(r"r\d+\.\d+", lambda x: place.get(x[0], x[0]), text)
    return tuple(sorted((new(a), k) for a, k in m))


Fn = Callable[..., Formula]


def functions(r: Reals) -> dict[str, Fn]:
    """Scalar functions by their definitions; any other is known by its name only."""
    one, half = number(1), number(Fraction(1, 2))
    root = lambda x: r.made("root", "sqrt", x)
    sigmoid = lambda x: r.inverse(r.add(one, r.exp(r.scaled(x, -1))))
    compare = lambda name: lambda a, b: r.made("compare", name, a, b)
    relu = lambda x: r.extreme("max", x, number(0))

    def power(x: Formula, n: Formula) -> Formula:
        k = n.number
        return r.power(x, int(k)) if k is not None and k.denominator == 1 else r.made("function", "pow", x, n)

    def erf(x: Formula) -> Formula:
        return r.made("function", "erf", x)

    return {
        "add": r.add, "sub": r.sub, "mul": r.mul, "div": lambda a, b: r.mul(a, r.inverse(b)), "neg": lambda x: r.scaled(x, -1),
        "exp": r.exp, "expm1": lambda x: r.sub(r.exp(x), one), "sqrt": root, "rsqrt": lambda x: r.inverse(root(x)), "pow": power,
        "max": lambda a, b: r.extreme("max", a, b), "min": lambda a, b: r.extreme("min", a, b), "relu": relu,
        "abs": lambda x: r.made("abs", "abs", x), "sigmoid": sigmoid, "silu": lambda x: r.mul(x, sigmoid(x)), "erf": erf,
        "gelu": lambda x: r.mul(half, x, r.add(one, erf(r.mul(x, r.inverse(root(number(2))))))),
        "softplus": lambda x: r.made("function", "log", r.add(one, r.exp(x))),
        "log1p": lambda x: r.made("function", "log", r.add(one, x)),
        "mish": lambda x: r.mul(x, r.made("function", "tanh", r.made("function", "log", r.add(one, r.exp(x))))),
        **{n: compare(n) for n in ("lt", "le", "gt", "ge", "eq", "ne")},
        "and": r.mul, "not": lambda a: r.sub(one, a), "or": lambda a, b: r.sub(r.add(a, b), r.mul(a, b)),
        "where": lambda c, a, b: r.add(r.mul(c, a), r.mul(r.sub(one, c), b)),
    }  # fmt: skip
