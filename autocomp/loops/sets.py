"""Between `ir.affine` and isl: names, sets and functions as isl's, and isl's functions back as `Aff`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import islpy as isl

from autocomp.ir.affine import Aff, FloorDiv, Mod
from autocomp.ir.sizes import relations
from autocomp.ir.types import Dim, Sym

Extents = tuple[tuple[str, Dim], ...]
Place = tuple[isl.dim_type, int]
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


def symbols(dims: Iterable[Dim]) -> tuple[Sym, ...]:
    """The distinct symbols among dimensions, by name."""
    return tuple(sorted({d for d in dims if isinstance(d, Sym)}, key=lambda s: s.name))


def places_of(axes: Iterable[str], symbols: Iterable[str], first: int = 0) -> dict[str, Place]:
    """Where `affine` finds names: axes are dimensions of the domain from the `first` on, symbols its parameters in this order."""
    return {a: (isl.dim_type.in_, n) for n, a in enumerate(axes, first)} | {s: (isl.dim_type.param, n) for n, s in enumerate(symbols)}


def affine(a: Aff, zero: isl.Aff, places: Mapping[str, Place]) -> isl.Aff:
    """An expression on the domain of `zero`, whose dimensions and parameters have the names in `places`."""
    out = zero.set_constant_val(_val(a.const)) if a.const else zero
    for atom, c in a.terms:
        if isinstance(atom, str):
            out = out.add_coefficient_val(*places[atom], _val(c))
        else:
            num, den = affine(atom.num, zero, places), _val(atom.den)
            part = num.mod_val(den) if isinstance(atom, Mod) else num.scale_down_val(den).floor()
            out = out.add(part.scale_val(_val(c)))
    return out


def _val(n: int) -> isl.Val:
    """isl's integers have no limit, but the bindings take those past 63 bits as text."""
    return isl.Val(n if abs(n) < 2**63 else str(n))


def _space(axes: Extents, syms: Sequence[Sym], tuple_name: str) -> isl.Space:
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[name(a) for a, _ in axes], params=[name(s.name) for s in syms])
    return space.set_tuple_name(isl.dim_type.set, tuple_name) if tuple_name else space


def zero(space: isl.Space) -> isl.Aff:
    """The function 0 on a space of sets, which `affine` begins with."""
    return isl.Aff.zero_on_domain(isl.LocalSpace.from_space(space))


@lru_cache(maxsize=65536)
def domain(axes: Extents, guard: tuple[Aff, ...] = (), syms: tuple[Sym, ...] = (), tuple_name: str = "") -> isl.Set:
    """{ tuple_name[axes] : every axis in its extent, every guard >= 0, what is known of the symbols }."""
    syms = tuple(sorted({*syms, *symbols(d for _, d in axes)}, key=lambda s: s.name))
    space, places = _space(axes, syms, tuple_name), places_of((a for a, _ in axes), (s.name for s in syms))
    start, out = zero(space), isl.BasicSet.universe(space)
    for a in (*_known(syms), *_box(axes), *guard):  # built, as parsing their text takes longer than most questions about them
        out = out.add_constraint(isl.Constraint.inequality_from_aff(affine(a, start, places)))
    return isl.Set.from_basic_set(out)


def _known(syms: Sequence[Sym]) -> Iterator[Aff]:
    """What is known of the symbols, as expressions that are not negative: bounds and divisibility."""
    names, open_ = {s.name for s in syms}, False  # open: one is computed from what is not among them
    for s in syms:
        yield Aff.of(s.name) - s.lo
        if s.hi < _UNBOUNDED:
            yield s.hi - Aff.of(s.name)
        if s.multiple > 1:
            yield -(Aff.of(s.name) % s.multiple)
        of = _summed(s, names) if s.parts and not s.clipped else None
        if of is not None:
            rest = of - Aff.of(s.name) * s.divisor
            yield from (rest, s.divisor - 1 - rest)
        open_ |= bool(s.factors or (s.parts and of is None))
    if open_:
        yield from relations(tuple(syms))


def _summed(s: Sym, names: set[str]) -> Aff | None:
    """What a computed size is the quotient of, over symbols with these names; None where it has others, or products."""
    total = Aff.of(s.offset)
    for p, k in s.parts:
        of = Aff.of(p.name) if p.name in names else _summed(p, names) if p.parts and not p.clipped else None
        if of is None:
            return None
        total = total + (of if p.name in names else of // p.divisor) * k
    return total


def _box(axes: Extents) -> Iterator[Aff]:
    """0 <= axis < extent, as expressions that are not negative."""
    for a, d in axes:
        yield Aff.of(a)
        yield Aff.of(d.name if isinstance(d, Sym) else d) - Aff.of(a) - 1


@lru_cache(maxsize=65536)
def function(axes: Extents, values: tuple[Aff, ...], syms: tuple[Sym, ...] = (), source: str = "", target: str = "") -> isl.Map:
    """{ source[axes] -> target[values] }, not restricted to any domain."""
    syms = tuple(sorted({*syms, *symbols(d for _, d in axes)}, key=lambda s: s.name))
    space, places = _space(axes, syms, source), places_of((a for a, _ in axes), (s.name for s in syms))
    start, parts = zero(space), isl.AffList.alloc(isl.DEFAULT_CONTEXT, len(values))
    for v in values:
        parts = parts.add(affine(v, start, places))
    range_ = isl.Space.from_domain(space).add_dims(isl.dim_type.out, len(values))
    range_ = range_.set_tuple_name(isl.dim_type.out, target) if target else range_
    return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(range_, parts))


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
