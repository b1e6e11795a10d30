"""Sizes that are computed from symbols: `s + 1`, `2*s`, `s + t`. Each is a symbol (`Sym.parts`), whose value is known with theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.types import Dim, Sym

LARGEST = Sym("n").hi


def linear(d: Dim) -> tuple[dict[Sym, int], int]:
    """A size as coefficients of symbols that inputs say, and a number."""
    if isinstance(d, int):
        return {}, d
    return (dict(d.parts), d.offset) if d.parts else ({d: 1}, 0)


def expression(d: Dim) -> Aff:
    """A size over the symbols that inputs say."""
    parts, offset = linear(d)
    return Aff.make([(s.name, k) for s, k in parts.items()], offset)


def total(terms: Iterable[tuple[Dim, int]], offset: int = 0) -> Dim:
    """The sum of coefficient * size, and a number. Raises UnsupportedOp where it may be less than 0 within the symbols' bounds."""
    sums: dict[Sym, int] = {}
    for d, k in terms:
        mine, more = linear(d)
        offset += k * more
        for s, n in mine.items():
            sums[s] = sums.get(s, 0) + k * n
    parts = tuple(sorted(((s, n) for s, n in sums.items() if n), key=lambda p: p[0].name))
    if not parts:
        return offset
    if len(parts) == 1 and parts[0][1] == 1 and not offset:
        return parts[0][0]
    ends = [(n * (s.lo if n > 0 else s.hi), n * (s.hi if n > 0 else s.lo)) for s, n in parts]
    lo, hi = (sum(e[k] for e in ends) + offset for k in (0, 1))
    text = _text(parts, offset, " + ", "*", " - ")
    if lo < 0:
        bounds = ", ".join(f"{s.lo} <= {s} <= {s.hi}" for s, _ in parts)
        raise UnsupportedOp(f"the size {text} may be {lo} ({bounds})", hint="bound the symbols so that no size is negative")
    name = "size_" + _text(parts, offset, "_plus_", "_times_", "_minus_")
    return Sym(name, lo, min(hi, LARGEST), gcd(offset, *(n * s.multiple for s, n in parts)), parts, offset)


def _text(parts: tuple[tuple[Sym, int], ...], offset: int, plus: str, times: str, minus: str) -> str:
    out = ""
    for k, (word, n) in enumerate([*((s.name, n) for s, n in parts), ("", offset)]):
        if n or word:
            text = str(abs(n)) if not word else word if abs(n) == 1 else f"{abs(n)}{times}{word}"
            out += (minus if n < 0 else plus if k else "") + text
    return out


def computed(dims: Iterable[object]) -> tuple[Sym, ...]:
    """The computed ones among dimensions, each once, by name."""
    return tuple(sorted({d for d in dims if isinstance(d, Sym) and d.parts}, key=lambda s: s.name))


def with_computed(values: Mapping[str, int], sizes: Iterable[Sym]) -> dict[str, int]:
    """Values of symbols with those of computed sizes."""
    return {**values, **{d.name: sum(k * values[s.name] for s, k in d.parts) + d.offset for d in sizes}}
