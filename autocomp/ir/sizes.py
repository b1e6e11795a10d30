"""Sizes that are computed from symbols: `s + 1`, `2*s`, `s + t`, `(s + 1) // 2`, `s*t`, `min(s, t)`. Each is a symbol (`Sym.parts`,
`Sym.factors`), whose value is known with theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from math import ceil, gcd, lcm, prod

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff, Atom, FloorDiv
from autocomp.ir.types import Dim, Sym

LARGEST = Sym("n").hi


Linear = tuple[dict[Sym, int], int]  # coefficients of symbols, and a number


def linear(d: Dim) -> Linear:
    """A size as a sum over symbols that inputs say, and over quotients and products."""
    if isinstance(d, int):
        return {}, d
    if d.divisor > 1:
        return quotient((dict(d.parts), d.offset), d.divisor)
    if d.clipped:
        return {d: 1}, 0
    return (dict(d.parts), d.offset) if d.parts else ({d: 1}, 0)


def summed(terms: Iterable[tuple[Linear, int]], offset: int = 0) -> Linear:
    """The sum of coefficient * term, and a number."""
    sums: dict[Sym, int] = {}
    for (mine, more), k in terms:
        offset += k * more
        for s, n in mine.items():
            sums[s] = sums.get(s, 0) + k * n
    return {s: n for s, n in sums.items() if n}, offset


def quotient(of: Linear, by: int) -> Linear:
    """A sum divided by a positive number and rounded down: what is divided evenly stands outside of the quotient that is left, which is of
    as few as can be: 7*s // 8 is s less (s + 7) // 8."""
    parts, offset = of
    inner = next(iter(parts), None)
    if inner is not None and len(parts) == 1 and parts[inner] == 1 and inner.divisor > 1:  # of a quotient: one by both numbers
        return quotient((dict(inner.parts), inner.offset + offset * inner.divisor), by * inner.divisor)
    whole, rest = {s: n // by for s, n in parts.items()}, {s: n % by for s, n in parts.items() if n % by}
    if rest and all(2 * n > by for n in rest.values()):
        whole |= {s: whole[s] + 1 for s in rest}
        less = _sized({s: by - n for s, n in rest.items()}, by - 1 - offset % by, by)
        return summed([((whole, 0), 1), (({less: 1}, 0), -1)], offset // by)
    return summed([((whole, 0), 1), (({_sized(rest, offset % by, by): 1} if rest else {}, 0), 1)], offset // by)


def smaller(a: Linear, b: Linear) -> Linear:
    """The smaller of two sums: min(s, t) is s less what s has more than t."""
    return summed([(a, 1), (_clipped(summed([(a, 1), (b, -1)])), -1)])


def larger(a: Linear, b: Linear) -> Linear:
    """The larger of two sums."""
    return summed([(b, 1), (_clipped(summed([(a, 1), (b, -1)])), 1)])


def _clipped(of: Linear) -> Linear:
    """The larger of a sum and 0."""
    parts, offset = of
    known = tuple(sorted(parts.items(), key=lambda p: p[0].name))
    lo, hi = _least(known, offset), -_least(tuple((s, -n) for s, n in known), -offset)
    if lo >= 0:
        return of
    if hi <= 0:
        return {}, 0
    name = f"size_{_text(known, offset, '_plus_', '_times_', '_minus_')}_or_0"
    multiple = gcd(offset, *(n * s.multiple for s, n in known))
    return {Sym(name, 0, min(hi, LARGEST), multiple, known, offset, clipped=True): 1}, 0


def _sized(parts: Mapping[Sym, int], offset: int, by: int) -> Sym:
    """The symbol of a sum, or of its quotient."""
    known = tuple(sorted(parts.items(), key=lambda p: p[0].name))
    lo, hi = _least(known, offset), -_least(tuple((s, -n) for s, n in known), -offset)
    name = "size_" + _text(known, offset, "_plus_", "_times_", "_minus_") + (f"_by_{by}" if by > 1 else "")
    multiple = gcd(offset, *(n * s.multiple for s, n in known)) if by == 1 else 1
    return Sym(name, lo // by, min(hi // by, LARGEST), multiple, known, offset, by)


def _least(parts: tuple[tuple[Sym, int], ...], offset: int) -> int:
    """A lower bound of a sum: each symbol at its end, or, for quotients beside what they divide (`s - s // 2`), each quotient as its sum
    over its divisor, less what rounding may take."""
    if clipped := [(s, k) for s, k in parts if s.clipped]:
        s, k = max(clipped, key=lambda p: _nested(p[0]))
        rest: Linear = ({p: n for p, n in parts if p != s}, offset)
        shares = range(int(k) + 1) if k > 0 else (0, int(k))  # each of k times it is at least 0, and at least the sum
        return (max if k > 0 else min)(_least(tuple(of.items()), more) for j in shares
                                       for of, more in [summed([(rest, 1), ((dict(s.parts), s.offset), j)])])  # fmt: skip
    bound = lambda terms: sum(k * (s.lo if k > 0 else s.hi) for s, k in terms)
    found = [bound(parts) + offset]
    if any(s.divisor > 1 for s, _ in parts):
        sums: dict[Sym, Fraction] = {}
        number = Fraction(offset)
        todo = [(s, Fraction(k)) for s, k in parts]
        while todo:
            s, share = todo.pop()
            if not s.parts or s.clipped:
                sums[s] = sums.get(s, Fraction(0)) + share
                continue
            number += share * Fraction(s.offset - (s.divisor - 1 if share > 0 else 0), s.divisor)
            todo += [(p, share * n / s.divisor) for p, n in s.parts]
        found.append(ceil(bound(sums.items()) + number))
    return max(found)


def _nested(s: Sym) -> int:
    """How many clipped sums stand in one another."""
    return s.clipped + max((_nested(p) for p, _ in s.parts), default=0)


def content(d: Dim) -> tuple[int, tuple[Sym, ...]]:
    """A size as the product of a number and of symbols, by name, that no number divides: `4*s + 4` is 4 times `s + 1`."""
    if isinstance(d, int):
        return d, ()
    number, rest = 1, d
    if d.parts and d.divisor == 1 and not d.clipped:
        number = gcd(d.offset, *(n for _, n in d.parts))
        rest = size_of(({s: n // number for s, n in d.parts}, d.offset // number))  # type: ignore[assignment]
    return number, rest.factors or (rest,)


def product(dims: Iterable[Dim]) -> Dim:
    """The product of sizes."""
    split = [content(d) for d in dims]
    number, of = prod(n for n, _ in split), tuple(sorted((s for _, f in split for s in f), key=lambda s: s.name))
    if not number or not of:
        return number
    if len(of) > 1:
        name = "size_" + "_times_".join(s.name for s in of)
        of = (Sym(name, prod(s.lo for s in of), min(prod(s.hi for s in of), LARGEST), prod(s.multiple for s in of), factors=of),)
    return size_of(summed([(linear(of[0]), number)]))


def multiplied_out(of: Linear) -> Linear:
    """A sum whose products are none of sums: `2*n*n - n*(2*n - 1)` is n."""
    parts, offset = of
    terms: dict[tuple[Sym, ...], int] = {(): offset}
    for s, k in parts.items():
        mine: dict[tuple[Sym, ...], int] = {(): k}
        for by, more in map(linear, s.factors or (s,)):
            rows = [*((((p,), n) for p, n in by.items())), ((), more)]
            mine = _collected((tuple(sorted((*a, *b), key=lambda p: p.name)), n * m) for a, n in mine.items() for b, m in rows)
        terms = _collected([*terms.items(), *mine.items()])
    return summed((linear(product(of)), k) for of, k in terms.items() if k)


def _collected(terms: Iterable[tuple[tuple[Sym, ...], int]]) -> dict[tuple[Sym, ...], int]:
    found: dict[tuple[Sym, ...], int] = {}
    for of, k in terms:
        found[of] = found.get(of, 0) + k
    return found


def expression(d: Dim) -> Aff:
    """A size over the symbols that inputs say, and over products of them, each of which is a name of its own."""
    if isinstance(d, int):
        return Aff.of(d)
    return sum((expression(s) * k for s, k in d.parts), Aff.of(d.offset)) // d.divisor if d.parts and not d.clipped else Aff.of(d.name)


class Known:
    """Sizes as sums over what is no sum: symbols that inputs say, quotients, and products of these. `over` gives other sums over the sizes
    that are known, by elimination."""

    def __init__(self, sizes: Iterable[Sym]) -> None:
        self.sizes = tuple(sizes)
        self.equal: list[Aff] = []  # each is 0: sizes that others give
        self.within = {a.name: a for s in self.sizes for a in _within(s)}
        self._rows: list[tuple[Sym, dict[Sym, Fraction], dict[str, Fraction], Fraction]] = []  # (pivot, the other columns, over sizes, + n)
        for s in self.sizes:
            self._take(s)

    def _take(self, s: Sym) -> None:
        rest, by, number = self._reduced(multiplied_out(linear(s)))
        by[s.name] = by.get(s.name, Fraction(0)) - 1  # of the form less the size: 0
        if not rest:
            self.equal.append(_whole(by, number)[0])
            return
        pivot, k = next(iter(rest.items()))
        self._rows.append((pivot, {a: -n / k for a, n in rest.items() if a != pivot}, {x: -n / k for x, n in by.items()}, -number / k))

    def _reduced(self, of: Linear) -> tuple[dict[Sym, Fraction], dict[str, Fraction], Fraction]:
        """(what the sizes do not give, the sum over sizes that they give, a number), in all the sum that is given."""
        rest, by, number = {a: Fraction(n) for a, n in of[0].items()}, dict[str, Fraction](), Fraction(of[1])
        for pivot, others, sizes, more in self._rows:
            if k := rest.pop(pivot, Fraction(0)):
                for a, n in others.items():
                    rest[a] = rest.get(a, Fraction(0)) + k * n
                for x, n in sizes.items():
                    by[x] = by.get(x, Fraction(0)) + k * n
                number += k * more
        return {a: n for a, n in rest.items() if n}, {x: n for x, n in by.items() if n}, number

    def over(self, of: Linear) -> tuple[Aff, int] | None:
        """A sum over the sizes, and the number that it has to be divided by; None where they do not give it."""
        rest, by, number = self._reduced(multiplied_out(of))
        return None if rest else _whole(by, number)


    def weaker(self, of: Linear) -> Aff | None:
        """Of a sum that is never negative, what the sizes give of it that is not negative either: without what is taken off, with floors.
        None where something unknown is added."""
        rest, by, number = self._reduced(multiplied_out(of))
        total, k = _whole(by, number)
        k = lcm(k, *(n.denominator for n in rest.values()))
        total = total * (k // _whole(by, number)[1])
        for a, n in rest.items():
            inner = self.over((dict(a.parts), a.offset)) if a.divisor > 1 else None
            if inner is not None:
                total = total + inner[0] // (a.divisor * inner[1]) * int(n * k)
            elif n < 0:
                total = total + int(n * k) * a.lo
            else:
                return None
        return total


def _within(s: Sym) -> frozenset[Sym]:
    """What a size is the sum of, and what that is computed from."""
    atoms = frozenset(multiplied_out(linear(s))[0])
    inner = [p for a in atoms for p in (*a.factors, *(p for p, _ in a.parts))]
    return atoms.union(*map(_within, inner))


def _whole(by: Mapping[str, Fraction], number: Fraction) -> tuple[Aff, int]:
    """A sum times the least number that makes it whole, and that number."""
    k = lcm(number.denominator, *(n.denominator for n in by.values()))
    return sum((Aff.of(x) * int(n * k) for x, n in by.items()), Aff.of(int(number * k))), k


@lru_cache(maxsize=4096)
def relations(sizes: tuple[Sym, ...]) -> tuple[Aff, ...]:
    """What is never negative, of sizes that are computed from symbols which are not among them: sizes that others give, roundings of
    quotients, bounds."""
    known, found = Known(sizes), list[Aff]()
    for e in known.equal:
        found += [e, -e]
    for s in sizes:
        cut = {a: k for a, k in linear(s)[0].items() if a.clipped}  # of min(a, b, c), what is taken off a in all
        if len(cut) > 1 and len({k > 0 for k in cut.values()}) == 1 and (taken := known.weaker(({a: abs(k) for a, k in cut.items()}, 0))):
            found.append(taken)
    for a in sorted(known.within.values(), key=lambda a: a.name):
        if a.divisor > 1 and (rounded := known.over(summed([((dict(a.parts), a.offset), 1), (({a: 1}, 0), -a.divisor)]))):
            found += [rounded[0], Aff.of((a.divisor - 1) * rounded[1]) - rounded[0]]
        found += [x for of in (_beside_clipped(a) if a.clipped else ()) if (x := known.weaker(of)) is not None]
        if a not in sizes and (value := known.over(({a: 1}, 0))):
            found += [value[0] - a.lo * value[1], *([a.hi * value[1] - value[0]] if a.hi < LARGEST else [])]
    quotients = [(a, value) for a in sorted(known.within.values(), key=lambda a: a.name)
                 if a.divisor > 1 and (value := known.over(({a: 1}, 0)))]  # fmt: skip
    quotients += [(s, (Aff.of(s.name), 1)) for s in sizes if s.divisor > 1 and s not in known.within.values()]
    for (a, (x, p)), (b, (y, q)) in permutations(quotients, 2):
        if of := _together(a, b):
            k, n, number = of
            found.append(x * (k * q) - y * (n * p) + number * p * q)
    return tuple(found)


def _beside_clipped(a: Sym) -> Iterator[Linear]:
    """What is never negative of a clipped sum: it is as large as the sum, and no larger than that where what is taken off is least."""
    yield summed([(({a: 1}, 0), 1), ((dict(a.parts), a.offset), -1)])
    most = {s: k for s, k in a.parts if k > 0}, a.offset + sum(k * s.lo for s, k in a.parts if k < 0)
    if _least(tuple(most[0].items()), most[1]) >= 0:
        yield summed([(most, 1), (({a: 1}, 0), -1)])


def _together(a: Sym, b: Sym) -> tuple[int, int, int] | None:
    """(k, n, c) such that k*a - n*b + c is never negative, of two quotients of one sum, or of multiples of it, give or take a number; what
    the sum is need not be known. Of a = (h + 1) // 2 and b = (h + 1) // 4 it is a - 2*b. None of others."""
    first, second = dict(a.parts), dict(b.parts)
    s = next(iter(first))
    up, down = second.get(s, 0), first[s]  # up * first is down * second
    if up * down <= 0 or {x: n * up for x, n in first.items()} != {x: n * down for x, n in second.items()}:
        return None
    up, down = abs(up), abs(down)
    k, n, apart = up * a.divisor, down * b.divisor, up * a.offset - down * b.offset
    g = gcd(k, n)  # n*b <= down * (its sum) = up * (the sum of a) - apart <= k*a + up * (a.divisor - 1) - apart
    return k // g, n // g, (up * (a.divisor - 1) - apart) // g


def spelt(names: Iterable[str], dims: Iterable[Dim]) -> dict[str, Aff]:
    """Symbols that are none of these sizes over those that are: where there is `2*s + 1`, but not s, s is half of what is one less."""
    own = {d.name: d for d in dims if isinstance(d, Sym)}
    known, found = Known(own.values()), dict[str, Aff]()
    for name in sorted(set(names) - own.keys()):
        of = known.within.get(name)
        if of is not None and (value := known.over(({of: 1}, 0))):
            found[name] = value[0] // value[1]
    return found


def spelt_together(index: Aff, dims: Iterable[Dim]) -> Aff:
    """An index over sizes that are none of these, as one over these where their sum is known though none of them is: `s - t` of `s - p`
    and `t - p`."""
    own = {d.name: d for d in dims if isinstance(d, Sym)}
    known = Known(own.values())
    apart = [(x, k) for x, k in index.terms if isinstance(x, str) and x in known.within and x not in own]
    value = known.over(({known.within[x]: k for x, k in apart}, 0)) if len(apart) > 1 else None
    if value is None or value[1] != 1:
        return index
    return sum((Aff.of(x) * -k for x, k in apart), index) + value[0]


def quotients(dims: Iterable[Dim]) -> dict[Atom, Aff]:
    """The floors that sizes are, over these: floor((n + 63)/64) of the size (n + 63) // 64, whatever n is."""
    found: dict[Atom, Aff] = {}
    for d in dims:
        if isinstance(d, Sym) and d.divisor > 1:
            value = expression(d)
            floors = [a for a, k in value.terms if k == 1 and isinstance(a, FloorDiv)]
            if len(floors) == 1:
                found[floors[0]] = Aff.of(d.name) - (value - Aff(((floors[0], 1),)))
    return found


def inputs_of(d: Sym) -> frozenset[Sym]:
    """The symbols that inputs say, of which a size is computed: itself, where it is one."""
    of = (*(s for s, _ in d.parts), *d.factors)
    return frozenset().union(*map(inputs_of, of)) if of else frozenset([d])


def total(terms: Iterable[tuple[Dim, int]], offset: int = 0) -> Dim:
    """The sum of coefficient * size, and a number. Raises UnsupportedOp where it may be less than 0 within the symbols' bounds."""
    return size_of(summed(((linear(d), k) for d, k in terms), offset))


def size_of(of: Linear) -> Dim:
    """A sum as a dimension; beside one quotient, all of it is divided: `s // 2 + 1` is `(s + 2) // 2`, which says how it is bounded by s.
    Products of sums are multiplied out where fewer terms are left: `(s - 1)*(t - 1) + s + t` is `s*t + 1`. Raises UnsupportedOp where it
    may be less than 0 within the symbols' bounds."""
    if len(of[0]) > 1 and any(s.factors for s in of[0]) and len((plain := multiplied_out(of))[0]) < len(of[0]):
        of = plain
    parts, offset = of
    if not parts:
        return offset
    divided = [s for s in parts if s.divisor > 1]
    k = parts[divided[0]] if len(divided) == 1 else 0
    by = divided[0].divisor if k == 1 or (k == -1 and _below_half(divided[0])) else 1
    if by > 1:
        q = divided[0]
        up = 0 if k == 1 else by - 1  # of what is taken off, the quotient rounded up
        parts, offset = summed([((dict(q.parts), q.offset), k), (({s: n for s, n in parts.items() if s != q}, offset), by)], up)
    elif len(parts) == 1 and [*parts.values()] == [1] and not offset:
        return next(iter(parts))
    size = _sized(parts, offset, by)
    if size.lo < 0 and any(s.factors for s in parts) and (plain := multiplied_out((parts, offset))) != (parts, offset):
        return size_of(plain)
    if size.lo < 0:
        bounds = ", ".join(f"{s.lo} <= {s} <= {s.hi}" for s, _ in size.parts)
        text = _text(size.parts, offset, " + ", "*", " - ")
        raise UnsupportedOp(f"the size {f'({text}) // {by}' if by > 1 else text} may be {size.lo} ({bounds})",
                            hint="bound the symbols so that no size is negative")  # fmt: skip
    return size


def _below_half(q: Sym) -> bool:
    """Whether what is less a quotient has a form as one quotient, which `quotient` takes apart to it again."""
    return all(0 < 2 * n < q.divisor for _, n in q.parts)


def _text(parts: tuple[tuple[Sym, int], ...], offset: int, plus: str, times: str, minus: str) -> str:
    terms = sorted([*((s.name, n) for s, n in parts), *([("", offset)] if offset else [])], key=lambda t: t[1] < 0)  # sums begin with more
    out = ""
    for k, (word, n) in enumerate(terms):
        text = str(abs(n)) if not word else word if abs(n) == 1 else f"{abs(n)}{times}{word}"
        out += (minus if n < 0 else plus if k else "") + text
    return out


def computed(dims: Iterable[object]) -> tuple[Sym, ...]:
    """The computed ones among dimensions, each once, by name."""
    return tuple(sorted({d for d in dims if isinstance(d, Sym) and d.is_computed}, key=lambda s: s.name))


def with_computed(values: Mapping[str, int], sizes: Iterable[Sym]) -> dict[str, int]:
    """Values of symbols with those of computed sizes. A symbol without a value is found from the size that is computed from it: s where
    an input has `2*s`."""
    sizes = tuple(sizes)
    if any(s.name not in values for d in sizes for s in inputs_of(d)):
        values = _solved(values, sizes)
    return {**values, **{d.name: _value(d, values) for d in sizes}}


def said(names: Iterable[str], sizes: Iterable[Sym]) -> frozenset[str]:
    """The symbols whose values are known where those of `names` are."""
    return frozenset(_solved(dict.fromkeys(names, 1), tuple(sizes)))


def _solved(values: Mapping[str, int], sizes: tuple[Sym, ...]) -> dict[str, int]:
    found, left = dict(values), [d for d in sizes if d.parts and d.divisor == 1 and not d.clipped and d.name in values]
    more = True
    while more:
        more = False
        for d in left:
            open_ = [(s, k) for s, k in d.parts if any(i.name not in found for i in inputs_of(s))]
            if len(open_) == 1 and not open_[0][0].is_computed:
                s, k = open_[0]
                rest = sum(n * _value(p, found) for p, n in d.parts if p != s) + d.offset
                found[s.name] = (found[d.name] - rest) // k
                more = True
    return found


def _value(d: Sym, values: Mapping[str, int]) -> int:
    if d.factors:
        return prod(_value(s, values) for s in d.factors)
    if not d.parts:
        return values[d.name]
    value = (sum(k * _value(s, values) for s, k in d.parts) + d.offset) // d.divisor
    return max(value, 0) if d.clipped else value
