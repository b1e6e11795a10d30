"""Between `ir.affine` and isl: names, sets and functions in isl's text, and isl's functions back as `Aff`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import islpy as isl

from autocomp.ir.affine import Aff, FloorDiv, Mod
from autocomp.ir.types import Dim, Sym

Extents = tuple[tuple[str, Dim], ...]
_RESERVED = frozenset(("mod", "floor", "ceil", "min", "max", "and", "or", "not", "exists", "implies", "true", "false", "div",
                       "rat", "infty", "infinity", "NaN", "floord", "ceild"))

_UNBOUNDED = Sym("N").hi


def name(n: str) -> str:
    """The isl identifier of an axis or symbol. Raises ValueError where the name is no identifier."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", n):
        raise ValueError(f"{n!r} cannot be an axis name")
    return n + "_" if n in _RESERVED or n.endswith("_") else n


def unname(n: str | None) -> str:
    """Inverse of `name`."""
    assert n is not None, "isl dimensions here are always named"
    return n[:-1] if n.endswith("_") else n


def spell(a: Aff) -> str:
    """isl text of an expression."""
    return a.print(name, lambda t, n: f"floor(({t})/{n})", lambda t, n: f"(({t}) mod {n})")


def symbols(dims: Iterable[Dim]) -> tuple[Sym, ...]:
    """The distinct symbols among dimensions, by name."""
    return tuple(sorted({d for d in dims if isinstance(d, Sym)}, key=lambda s: s.name))


def param_prefix(syms: Sequence[Sym]) -> str:
    return f"[{', '.join(name(s.name) for s in syms)}] -> " if syms else ""


def assumptions(syms: Sequence[Sym]) -> list[str]:
    """What is known of the symbols: bounds and divisibility."""
    out = [f"{s.lo} <= {name(s.name)}" + (f" <= {s.hi}" if s.hi < _UNBOUNDED else "") for s in syms]
    return out + [f"{name(s.name)} mod {s.multiple} = 0" for s in syms if s.multiple > 1]


def box(axes: Extents) -> list[str]:
    """Constraints 0 <= axis < extent."""
    return [f"0 <= {name(a)} < {name(d.name) if isinstance(d, Sym) else d}" for a, d in axes]


@lru_cache(maxsize=65536)
def domain(axes: Extents, guard: tuple[Aff, ...] = (), syms: tuple[Sym, ...] = (), tuple_name: str = "") -> isl.Set:
    """{ tuple_name[axes] : every axis in its extent, every guard >= 0, what is known of the symbols }."""
    syms = tuple(sorted({*syms, *symbols(d for _, d in axes)}, key=lambda s: s.name))
    cons = assumptions(syms) + box(axes) + [f"{spell(g)} >= 0" for g in guard]
    head = f"{tuple_name}[{', '.join(name(a) for a, _ in axes)}]"
    return isl.Set(f"{param_prefix(syms)}{{ {head}{' : ' + ' and '.join(cons) if cons else ''} }}")


@lru_cache(maxsize=65536)
def function(axes: Extents, values: tuple[Aff, ...], syms: tuple[Sym, ...] = (), source: str = "", target: str = "") -> isl.Map:
    """{ source[axes] -> target[values] }, not restricted to any domain."""
    syms = tuple(sorted({*syms, *symbols(d for _, d in axes)}, key=lambda s: s.name))
    ins = ", ".join(name(a) for a, _ in axes)
    return isl.Map(f"{param_prefix(syms)}{{ {source}[{ins}] -> {target}[{', '.join(spell(v) for v in values)}] }}")


def from_isl(a: isl.Aff) -> Aff:
    """An isl quasi-affine function as `Aff`. Raises ValueError where a coefficient is not integral."""
    return resugar(_from_isl(a, a))


def _integer(v: isl.Val) -> int:
    if not v.is_int():
        raise ValueError("not an integral expression")
    return v.to_python()


def _from_isl(a: isl.Aff, top: isl.Aff) -> Aff:
    out = Aff((), _integer(a.get_constant_val()))
    for kind in (isl.dim_type.param, isl.dim_type.in_):
        for i in range(a.dim(kind)):
            c = _integer(a.get_coefficient_val(kind, i))
            if c:
                out = out + Aff.of(unname(top.get_dim_name(kind, i))) * c
    for i in range(a.dim(isl.dim_type.div)):
        c = _integer(a.get_coefficient_val(isl.dim_type.div, i))
        if c:
            div = a.get_div(i)
            den = _integer(div.get_denominator_val())
            out = out + (_from_isl(div.scale_val(isl.Val(den)), top) // den) * c
    return out


def resugar(a: Aff) -> Aff:
    """c*x - c*n*floor(x/n)  ->  c*(x mod n): isl knows floors only, people read mods."""
    for atom, c in a.terms:
        if not isinstance(atom, FloorDiv) or c % atom.den:
            continue
        k = -c // atom.den
        whole = dict(a.terms)
        if atom.num.terms and all(whole.get(t, 0) == k * f for t, f in atom.num.terms):
            rest = a - Aff(((atom, c),)) - (atom.num - atom.num.const) * k
            return resugar(rest - k * atom.num.const + Aff(((Mod(atom.num, atom.den), k),)))
    return a


def complexity(a: Aff) -> tuple[int, int]:
    """Order of preference among equal expressions: divisions first, then length."""
    text = str(a)
    return text.count("floor") + text.count("mod"), len(text)


def sample(s: isl.Set) -> tuple[dict[str, int], list[int]]:
    """(symbol values, coordinates) of the first point, at small values of the symbols. The set must not be empty."""
    fixed, n = s, s.dim(isl.dim_type.param)
    if n:
        sizes = s.params()
        point = next((small for top in (8, 64, 512) if not (small := _at_most(sizes, top)).is_empty()), sizes).sample_point()
        for i in range(n):
            fixed = fixed.fix_val(isl.dim_type.param, i, point.get_coordinate_val(isl.dim_type.param, i))
    # A bounded set has a first point; an unbounded one any point.
    p = (fixed.lexmin() if fixed.is_bounded() else fixed).sample_point()
    space = p.get_space()
    at = p.get_coordinate_val
    syms = {unname(space.get_dim_name(isl.dim_type.param, i)): _integer(at(isl.dim_type.param, i)) for i in range(n)}
    return syms, [_integer(at(isl.dim_type.set, i)) for i in range(s.dim(isl.dim_type.set))]


def _at_most(sizes: isl.Set, top: int) -> isl.Set:
    for i in range(sizes.dim(isl.dim_type.param)):
        sizes = sizes.upper_bound_val(isl.dim_type.param, i, isl.Val(top))
    return sizes
