"""Addresses: a view's multi-dimensional index flattened to one offset, and what can be read off it (strides)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autocomp.targets.cpu.names import c_name

from autocomp.ir.affine import Aff, Atom, FloorDiv, Mod
from autocomp.ir.types import Dim, DType

Coef = int | str  # a number, or a C expression over the kernel's size parameters


def times(a: Coef, b: Coef) -> Coef:
    """Product, folded where both are numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    return b if a == 1 else a if b == 1 else f"{factor(a)}*{factor(b)}"


def plus(a: Coef, b: Coef) -> Coef:
    """Sum, folded where both are numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return b if a == 0 else a if b == 0 else f"{a} + {b}"


def factor(a: Coef) -> str:
    """C text of a coefficient that something is multiplied by."""
    return f"({a})" if (isinstance(a, str) and not a.replace("_", "").isalnum()) or (isinstance(a, int) and a < 0) else str(a)


def dim_text(d: Dim) -> Coef:
    """A dimension in C: a number, or the name of the size parameter."""
    return d if isinstance(d, int) else c_name(d.name)


def index_text(a: Aff, name: Callable[[str], str] = c_name) -> str:
    """C text of an index expression (floor semantics for negative numerators)."""
    return a.print(name, lambda t, n: f"ac_floordiv({t}, {n})", lambda t, n: f"ac_mod({t}, {n})")


def rounded_text(atom: FloorDiv | Mod, num: str) -> str:
    """C text of a floor or a remainder whose numerator has this text."""
    return f"{'ac_floordiv' if isinstance(atom, FloorDiv) else 'ac_mod'}({num}, {atom.den})"


@dataclass(frozen=True)
class Flat:
    """offset = const + sum(coef * atom), in elements. `const` may be C text (bases of tiles, products of sizes)."""

    terms: tuple[tuple[Atom, Coef], ...]
    const: Coef = 0

    @staticmethod
    def of(index: tuple[Aff, ...], shape: tuple[Dim, ...]) -> Flat:
        """Row-major: index (i, j) of shape (A, B) -> i*B + j."""
        terms: dict[Atom, Coef] = {}
        const: Coef = 0
        stride: Coef = 1
        for ix, extent in zip(reversed(index), reversed(shape)):
            for atom, c in ix.terms:
                terms[atom] = plus(terms.get(atom, 0), times(c, stride))
            const = plus(const, times(ix.const, stride))
            stride = times(stride, dim_text(extent))
        return Flat(tuple(sorted(((a, c) for a, c in terms.items() if c != 0), key=lambda t: str(t[0]))), const)

    def stride(self, axis: str) -> Coef | None:
        """Elements per step of `axis`; 0 if it does not occur, None if it occurs under a floor or a mod."""
        out: Coef = 0
        for atom, c in self.terms:
            if atom == axis:
                out = c
            elif not isinstance(atom, str) and axis in atom.num.names():
                return None
        return out

    def names(self) -> frozenset[str]:
        """Axes that occur."""
        out: set[str] = set()
        for atom, _ in self.terms:
            out |= {atom} if isinstance(atom, str) else atom.num.names()
        return frozenset(out)

    def rename(self, new: Mapping[str, str]) -> Flat:
        """Axes renamed; only plain occurrences are allowed (callers check with `stride`)."""
        return Flat(tuple((new.get(a, a) if isinstance(a, str) else a, c) for a, c in self.terms), self.const)

    def without(self, axis: str) -> Flat:
        """The terms of a plain axis dropped (its value is 0)."""
        return Flat(tuple((a, c) for a, c in self.terms if a != axis), self.const)

    def text(self, at: Mapping[str, str] | None = None, rounded: Callable[[FloorDiv | Mod, str], str] = rounded_text) -> str:
        """C text; `at` gives the text of axes that are not plain loop variables here, `rounded` that of a floor or a remainder whose
        numerator has this text."""
        at = at or {}
        name = lambda n: at.get(n, c_name(n))
        parts: list[str] = []
        const = self.const
        for atom, c in self.terms:
            if isinstance(atom, str):
                t = name(atom)
                whole, _, extra = t.partition(" + ")
                if extra.isdigit() and isinstance(c, int) and isinstance(const, int):
                    t, const = whole, const + int(extra) * c
            else:
                t = rounded(atom, index_text(atom.num, name))
            t = f"({t})" if " + " in t and "(" not in t and c != 1 else t
            parts.append(t if c == 1 else f"-{t}" if c == -1 else f"{t}*{factor(c)}")
        if const != 0 or not parts:
            parts.append(str(const))
        return " + ".join(parts).replace("+ -", "- ")


@dataclass(frozen=True)
class View:
    """Elements in memory behind C pointer `pointer`: `flat` over `axes`; where a guard fails, a read gives `fill`. `index`: the place on
    each dimension of `shape`, before axes are merged."""

    pointer: str
    dtype: DType
    axes: tuple[str, ...]
    flat: Flat
    guard: tuple[Aff, ...] = ()
    fill: float = 0.0
    tensor: str = ""
    constant: bool = False
    index: tuple[Aff, ...] = ()
    shape: tuple[Dim, ...] = ()

    def guard_names(self) -> frozenset[str]:
        """Axes that guards mention."""
        return frozenset().union(*(g.names() for g in self.guard)) if self.guard else frozenset()
