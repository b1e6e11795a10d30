"""Quasi-affine index expressions over named axes: what access maps are made of.

    a ::= const + sum of coef * atom        atom ::= axis | symbol | floor(a / n) | (a mod n)

`str` prints isl syntax, so `loops/` hands the text to isl as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, Union

from autocomp.quick import quick


@quick
@dataclass(frozen=True)
class FloorDiv:
    """floor(num / den), den a positive int."""

    num: Aff
    den: int

    def __str__(self) -> str:
        return f"floor(({self.num})/{self.den})"


@quick
@dataclass(frozen=True)
class Mod:
    """num mod den in [0, den), den a positive int."""

    num: Aff
    den: int

    def __str__(self) -> str:
        return f"(({self.num}) mod {self.den})"


Atom = Union[str, FloorDiv, Mod]


@quick
@dataclass(frozen=True)
class Aff:
    """const + sum(coef * atom); terms sorted by text, no zero coefficients."""

    terms: tuple[tuple[Atom, int], ...] = ()
    const: int = 0

    # ---- construction
    @staticmethod
    def of(x: Aff | int | str) -> Aff:
        """An int as a constant, a str as the axis or symbol of that name."""
        if isinstance(x, Aff):
            return x
        return Aff((), int(x)) if not isinstance(x, str) else Aff(((x, 1),), 0)

    @staticmethod
    def make(terms: Iterable[tuple[Atom, int]], const: int) -> Aff:
        acc: dict[Atom, int] = {}
        for a, c in terms:
            acc[a] = acc.get(a, 0) + c
        left = [(a, c) for a, c in acc.items() if c]
        if len(left) > 1:
            left.sort(key=lambda t: str(t[0]))
        return Aff(tuple(left), const)

    def __add__(self, o: Aff | int | str) -> Aff:
        o = Aff.of(o)
        if not self.terms or not o.terms:
            return Aff(self.terms or o.terms, self.const + o.const)
        return Aff.make(self.terms + o.terms, self.const + o.const)

    __radd__ = __add__

    def __neg__(self) -> Aff:
        return self * -1

    def __sub__(self, o: Aff | int | str) -> Aff:
        return self + Aff.of(o) * -1

    def __rsub__(self, o: Aff | int | str) -> Aff:
        return Aff.of(o) - self

    def __mul__(self, k: int) -> Aff:
        if k == 1:
            return self
        return Aff(tuple((a, c * k) for a, c in self.terms) if k else (), self.const * k)

    __rmul__ = __mul__

    def __floordiv__(self, n: int) -> Aff:
        if n == 1:
            return self
        inner = [(a, c) for a, c in self.terms if c % n]
        q, r = divmod(self.const, n)
        whole = Aff.make(((a, c // n) for a, c in self.terms if c % n == 0), q)
        return whole if not inner else whole + Aff(((FloorDiv(Aff.make(inner, r), n), 1),))

    def __mod__(self, n: int) -> Aff:
        if n == 1:
            return Aff()
        rest = Aff.make(((a, c) for a, c in self.terms if c % n), self.const % n)
        return rest if not rest.terms else Aff(((Mod(rest, n), 1),))

    # ---- questions
    @property
    def is_const(self) -> bool:
        return not self.terms

    def names(self) -> frozenset[str]:
        """Axes and symbols that occur anywhere inside."""
        terms = self.terms
        if all([type(a) is str for a, _ in terms]):
            return frozenset([a for a, _ in terms])  # type: ignore[misc]
        out: set[str] = set()
        for a, _ in terms:
            out |= {a} if isinstance(a, str) else a.num.names()
        return frozenset(out)

    def coef(self, name: str) -> int:
        """Coefficient of a plain axis (0 if absent; occurrences inside floor/mod do not count)."""
        return dict(self.terms).get(name, 0)

    def step(self, name: str) -> int:
        """What one more of an axis adds, but where a remainder begins again or a floor goes on.

        of i in ((i + 2) mod 8) + 3*floor(i/8) it is 1
        """
        return self.coef(name) + sum(c * a.num.step(name) for a, c in self.terms if isinstance(a, Mod))

    @property
    def is_affine(self) -> bool:
        """No floor and no mod anywhere."""
        return all(isinstance(a, str) for a, _ in self.terms)

    def substitute(self, by: Mapping[str, Aff]) -> Aff:
        """Replace axes by expressions (simultaneously)."""
        terms: list[tuple[Atom, int]] = []
        const = self.const
        for a, c in self.terms:
            if isinstance(a, str):
                new = by.get(a)
                if new is None:
                    terms.append((a, c))
                    continue
            else:
                inner = a.num.substitute(by)
                new = inner // a.den if isinstance(a, FloorDiv) else inner % a.den
            terms += new.terms if c == 1 else [(t, k * c) for t, k in new.terms]
            const += new.const * c
        return Aff.make(terms, const)

    def with_atoms(self, by: Mapping[Atom, Aff]) -> Aff:
        """Replace floors and mods by expressions, those outside before what is in them."""
        out = Aff((), self.const)
        for a, c in self.terms:
            if a in by:
                new = by[a]
            elif isinstance(a, str):
                new = Aff.of(a)
            else:
                new = a.num.with_atoms(by) // a.den if isinstance(a, FloorDiv) else a.num.with_atoms(by) % a.den
            out = out + new * c
        return out

    def eval(self, env: Mapping[str, Any]) -> Any:
        """Value at a point; `env` maps names to ints or NumPy arrays."""
        out: Any = self.const
        for a, c in self.terms:
            if isinstance(a, str):
                v = env[a]
            elif isinstance(a, FloorDiv):
                v = a.num.eval(env) // a.den
            else:
                v = a.num.eval(env) % a.den
            out = out + c * v
        return out

    def range(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Inclusive bounds, every axis in [0, extent); exact for affine expressions, safe for the rest."""
        lo = hi = self.const
        for a, c in self.terms:
            if isinstance(a, str):
                l, h = 0, extents[a] - 1
            elif isinstance(a, FloorDiv):
                l, h = (b // a.den for b in a.num.range(extents))
            else:
                l, h = a.num.range(extents)
                l, h = (l % a.den, h % a.den) if l // a.den == h // a.den else (0, a.den - 1)
            lo, hi = lo + min(c * l, c * h), hi + max(c * l, c * h)
        return lo, hi

    def simplify(self, extents: Mapping[str, int]) -> Aff:
        """Drop floors and mods that the axes' ranges decide. Names without an extent are symbols of any size: what has them stays.

        floor((64*h + d)/64) with 0 <= d < 64  ->  h;   ((64*h + d) mod 64)  ->  d
        floor((2*h + d)/64) with 0 <= d < 2  ->  floor(h/32);   ((2*h + d) mod 64)  ->  2*(h mod 32) + d
        floor((2*h + d + 1)/2) with 0 <= d < 2  ->  h + d;   ((1 + 2*d) mod 3)  ->  1 - d
        """
        out = Aff((), self.const)
        for a, c in self.terms:
            if isinstance(a, str):
                out = out + Aff(((a, c),))
                continue
            num = a.num.simplify(extents)
            whole = Aff.make(((t, k) for t, k in num.terms if k % a.den == 0), num.const - num.const % a.den)
            rest = num - whole
            lo, hi = rest.range(extents) if rest.names() <= extents.keys() else (-1, 0)
            if lo >= 0 and hi < a.den:
                new = Aff.make(((t, k // a.den) for t, k in whole.terms), whole.const // a.den) if isinstance(a, FloorDiv) else rest
            elif len(rest.terms) == 1 and isinstance(axis := rest.terms[0][0], str) and extents.get(axis) == 2:  # two values lie on a line
                first, second = (divmod(rest.eval({axis: k}), a.den)[isinstance(a, Mod)] for k in (0, 1))
                new = Aff(((axis, second - first),) if second != first else (), first)
                if isinstance(a, FloorDiv):
                    new = new + Aff.make(((t, k // a.den) for t, k in whole.terms), whole.const // a.den)
            else:
                new = _by_common_factor(num, a, extents)
            out = out + new * c
        return out

    def print(self, name: Callable[[str], str], floordiv: Callable[[str, int], str], mod: Callable[[str, int], str]) -> str:
        """Text in another language; the callbacks spell an axis, a floor division and a modulo."""
        parts = []
        for a, c in self.terms:
            if isinstance(a, str):
                t = name(a)
            elif isinstance(a, FloorDiv):
                t = floordiv(a.num.print(name, floordiv, mod), a.den)
            else:
                t = mod(a.num.print(name, floordiv, mod), a.den)
            parts.append(t if c == 1 else f"{c}*{t}")
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)

    def __str__(self) -> str:
        return self.print(lambda n: n, lambda t, n: f"floor(({t})/{n})", lambda t, n: f"(({t}) mod {n})")


def _by_common_factor(num: Aff, a: FloorDiv | Mod, extents: Mapping[str, int]) -> Aff:
    """floor(num / den) or num mod den, where num = g*x + y with 0 <= y < g and g divides den: by the digit x alone."""
    for g in sorted({gcd(k, a.den) for _, k in num.terms} - {1}, reverse=True):
        y = Aff.make(((t, k) for t, k in num.terms if k % g), num.const % g)
        lo, hi = y.range(extents) if y.names() <= extents.keys() else (-1, 0)
        if lo < 0 or hi >= g:
            continue
        x = Aff.make(((t, k // g) for t, k in num.terms if k % g == 0), num.const // g)
        return x // (a.den // g) if isinstance(a, FloorDiv) else (x % (a.den // g)) * g + y
    return num // a.den if isinstance(a, FloorDiv) else num % a.den


def aff(x: Aff | int | str) -> Aff:
    """Short for `Aff.of`."""
    return Aff.of(x)
