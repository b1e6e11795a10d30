"""Finding the loop transformation that makes a band tilable or a loop parallel: skew first, then interchange, then reversal.
A loop along which no step reads goes outside of time, where a rule allows to interchange them.

What may be tried, and how far, comes from the rules of the scheduling phase (`rules/skewing.yaml`): without the skewing rule
no skew is found, and tiling is refused with the two iterations that stand in its way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import islpy as isl

from autocomp.ir.body import Recurrence
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint
from autocomp.loops import legality
from autocomp.loops.dependence import dependences, order_map
from autocomp.loops.nest import LoopNest
from autocomp.loops.recurrences import band_of, recurrence_nest, require_recurrence, step_names
from autocomp.loops.schedules import legal
from autocomp.loops.transforms import Parallel, Tile, Transform, Unimodular
from autocomp.loops.verdict import Verdict
from autocomp.rewrite.expr import Lit, Ref
from autocomp.rewrite.where import Env, evaluate, listed

if TYPE_CHECKING:
    from autocomp.rewrite.rule import Rule

Matrix = tuple[tuple[int, ...], ...]
PRIORITY = ("skew", "interchange", "reverse")


@dataclass(frozen=True)
class Moves:
    """What the rules allow. `factors` are the skews to try, in order; `rules` who allows each move."""

    skew: bool = False
    interchange: bool = False
    reverse: bool = False
    factors: tuple[int, ...] = ()
    rules: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(rules: Iterable[Rule]) -> Moves:
        """The moves of the scheduling rules that match a recurrence: their right sides name them."""
        found: dict[str, Rule] = {}
        for r in rules:
            head = str(r.rhs).split("(")[0]
            if r.phase == "scheduling" and of_recurrences(r) and head in PRIORITY:
                found.setdefault(head, r)
        factors = _factors(found["skew"]) if "skew" in found else ()
        return Moves("skew" in found, "interchange" in found, "reverse" in found, factors,
                     tuple((k, r.name) for k, r in sorted(found.items())))


def _factors(skew: Rule) -> tuple[int, ...]:
    """The skews that a rule allows: those of the name that its right side has, the number as written, 1 where it says neither."""
    factor = dict(skew.rhs.attrs).get("factor")  # type: ignore[union-attr]
    if isinstance(factor, Ref):
        choices = dict(skew.choose).get(factor.name)
        return tuple(map(int, choices)) if isinstance(choices, tuple) else (1,)
    return (int(factor.value),) if isinstance(factor, Lit) else (1,)


@dataclass(frozen=True)
class Found:
    """A unimodular change of the band that grants the wish, the moves it is made of and the first refusal it met.

    `matrix` is () where none was needed, or where none was found (then `verdict` is the refusal as written).
    """

    verdict: Verdict
    matrix: Matrix = ()
    moves: tuple[str, ...] = ()
    refused: Verdict | None = None


def tilable(nest: LoopNest, band: tuple[str, ...], moves: Moves, of: tuple[str, ...] = ()) -> Found:
    """Make the band tilable at every size.   (t, i) -> (t, i + f*t) and so on."""
    return _search(nest, band, moves, of, lambda: (Tile(band, (None,) * len(band), of),))


def parallel(nest: LoopNest, band: tuple[str, ...], loop: str, moves: Moves, of: tuple[str, ...] = ()) -> Found:
    """Make the loop at that place of the band parallel."""
    return _search(nest, band, moves, of, lambda: (Parallel(loop),))


def _search(nest: LoopNest, band: tuple[str, ...], moves: Moves, of: tuple[str, ...],
            wish: Callable[[], tuple[Transform, ...]]) -> Found:
    plain = legality.check(nest, wish())
    if plain:
        return Found(plain)
    for matrix, used in _candidates(nest, band, moves, of):
        answer = legality.check(nest, (Unimodular(band, matrix, of), *wish()))
        if answer:
            return Found(answer, matrix, used, plain)
    return Found(plain, refused=plain)


def _candidates(nest: LoopNest, band: tuple[str, ...], moves: Moves,
                of: tuple[str, ...]) -> Iterator[tuple[Matrix, tuple[str, ...]]]:
    """Matrices in order of priority: one kind of move alone, then the kinds together."""
    n = len(band)
    eye = tuple(tuple(int(i == j) for j in range(n)) for i in range(n))
    skews = list(_skews(nest, band, moves, of)) if moves.skew else []
    swaps = [tuple(eye[k] for k in p) for p in permutations(range(n))][1:] if moves.interchange else []
    flips = [tuple(tuple(s * x for x in row) for s, row in zip(signs, eye)) for signs in product((1, -1), repeat=n)][1:] \
        if moves.reverse else []
    for kind, found in zip(PRIORITY, (skews, swaps, flips)):
        yield from ((m, (kind,)) for m in found)
    for a, b in product(swaps, skews):
        yield _times(a, b), ("skew", "interchange")
    for a, b in product(swaps, flips):
        yield _times(a, b), ("interchange", "reverse")
    for f, s in product(flips, skews):
        yield _times(s, f), ("reverse", "skew")


def _times(a: Matrix, b: Matrix) -> Matrix:
    return tuple(tuple(sum(x * b[k][j] for k, x in enumerate(row)) for j in range(len(b))) for row in a)


def _skews(nest: LoopNest, band: tuple[str, ...], moves: Moves, of: tuple[str, ...]) -> Iterator[Matrix]:
    """Each inner loop shifted by the outermost: first the least factors that make every distance non-negative, then larger
    ones (a wavefront inside may need more)."""
    distances = _distances(nest, band, of)
    least = [_least(distances, k, moves.factors) for k in range(1, len(band))]
    if all(f is not None for f in least):
        yield _shear(len(band), tuple(f or 0 for f in least))
    for f in moves.factors:
        yield _shear(len(band), (f,) * (len(band) - 1))
        yield _outer_shear(len(band), f)


def _shear(n: int, factors: tuple[int, ...]) -> Matrix:
    return tuple(tuple(int(i == j) or (factors[i - 1] if i and j == 0 else 0) for j in range(n)) for i in range(n))


def _outer_shear(n: int, f: int) -> Matrix:
    """(t, i, j) -> (f*t + i + j, t, j): a wavefront over which the inner loops are parallel."""
    rows = [[f, *[1] * (n - 1)], [1, *[0] * (n - 1)]] + [[int(j == i) for j in range(n)] for i in range(2, n)]
    return tuple(tuple(r) for r in rows)


def _distances(nest: LoopNest, band: tuple[str, ...], of: tuple[str, ...]) -> isl.Set | None:
    """Distance vectors over the band among its statements."""
    cls = nest.nest_class()
    inside = [n for n, (s, r) in enumerate(zip(cls.statements, cls.rows))
              if set(band) <= set(r.names()) and (not of or s.name in of)]
    if not inside:
        return None
    places = [2 * cls.rows[inside[0]].names().index(b) + 1 for b in band]
    time = order_map(cls, cls.rows)
    moved = dependences(cls.statements, cls.origin).order.pairs.apply_domain(time).apply_range(time)
    if moved.is_empty():
        return None
    deltas = isl.Map.from_union_map(moved).deltas()
    for k in range(places[0]):
        deltas = deltas.fix_val(isl.dim_type.set, k, isl.Val(0))
    every = ", ".join(f"d{k}" for k in range(deltas.dim(isl.dim_type.set)))
    return deltas.apply(isl.Map(f"{{ [{every}] -> [{', '.join(f'd{p}' for p in places)}] }}"))


def _least(distances: isl.Set | None, k: int, factors: tuple[int, ...]) -> int | None:
    """The smallest factor f with d_k + f * d_0 >= 0 for all distances."""
    if distances is None:
        return 0
    names = ", ".join(f"d{i}" for i in range(distances.dim(isl.dim_type.set)))
    for f in (0, *sorted(factors)):
        if distances.intersect(isl.Set(f"{{ [{names}] : d{k} + {f} * d0 < 0 }}")).is_empty():
            return f
    return None


# ---- schedules of recurrences
Asked = Callable[["Rule", Mapping[str, Any]], str]  # why a rule's conditions, but for `legal`, fail for these values; "" where they hold


def recurrence_schedules(kernel: Kernel, rules: Iterable[Rule], why_not: Asked | None = None,
                         refused: Counter[tuple[str, str]] | None = None) -> tuple[dict[Schedule, str], Found | None]:  # fmt: skip
    """Schedules that the rules make for a recurrence with the rule of each, the untiled one first, which has none, and what the search for
    a tilable band gave (None where no rule tiles recurrences). `refused` counts (rule, reason) of the conditions that failed."""
    rec, rules = require_recurrence(kernel), tuple(rules)
    band = band_of(rec)
    nest = recurrence_nest(kernel)
    out = {Schedule(): ""}
    if len(band) > 1 and legal(kernel, Schedule(parallel=(band[1],))):
        out[Schedule(parallel=(band[1],))] = ""

    def holds(rule: Rule, values: Mapping[str, Any]) -> bool:
        why = why_not(rule, values) if why_not is not None else ""
        if why and refused is not None:
            refused[rule.name, why] += 1
        return not why

    speak = [r for r in rules if of_recurrences(r)]
    moves = Moves.of(r for r in speak if r.phase == "scheduling" and holds(r, _matched(r, rec)))
    if moves.interchange and (outside := _outside_of_time(kernel, band)):
        out |= dict.fromkeys((Schedule(skew=outside), Schedule(skew=outside, parallel=band[:1])), dict(moves.rules)["interchange"])
    tiling = [r for r in speak if r.phase == "tiling"]
    if not tiling:
        return out, None
    found = tilable(nest, band, moves, step_names(nest))
    if not found.verdict:
        return out, found
    for r in tiling:
        for values, tile in _tiles(r, rec):
            for s in (Schedule.make(tile, skew=found.matrix), Schedule.make(tile, skew=found.matrix, parallel=band[1:2])):
                if s not in out and holds(r, values) and legal(kernel, s):
                    out[s] = r.name
    return out, found


def _outside_of_time(kernel: Kernel, band: tuple[str, ...]) -> Matrix:
    """The band with those loops outside of time along which no step reads, () where there are none.  (t, i, j) -> (i, t, j)

    What is contiguous in memory, the last loop, stays innermost.
    """
    first = lambda ks: ((*ks, *(k for k in range(len(band)) if k not in ks)))
    as_matrix = lambda order: tuple(tuple(int(j == k) for j in range(len(band))) for k in order)
    free = lambda ks: bool(legal(kernel, Schedule(skew=as_matrix(first(ks)), parallel=band[:1])))
    every = tuple(k for k in range(1, len(band) - 1) if free((k,)))
    return as_matrix(first(every)) if every and free(every) else ()


def outside_of_time(matrix: Matrix) -> tuple[int, ...]:
    """Which loops of the band a change of their order alone puts in front of the first, time."""
    places = [row.index(1) for row in matrix if sorted(row) == [0] * (len(row) - 1) + [1]]
    return tuple(places[: places.index(0)]) if matrix and len(places) == len(matrix) else ()


def unasked_schedules(kernel: Kernel, rule: Rule) -> list[Schedule]:
    """What a tiling rule that does not ask `legal` makes of a recurrence: its tiles in the order as written."""
    return [Schedule.make(tile) for _, tile in _tiles(rule, require_recurrence(kernel))]


def of_recurrences(rule: Rule) -> bool:
    """Does a rule match a recurrence?"""
    return getattr(rule.match, "op", "") == "recurrence"


def _matched(rule: Rule, rec: Recurrence) -> dict[str, Any]:
    """What a rule's names for the extents of time and of space, the longest loop of it, are here."""
    space = max((a.extent for a in rec.axes), key=dim_hint, default=1)
    extents = {"time": rec.time.extent, "space": space}
    return {e.name: extents[field] for field, e in rule.match.attrs if isinstance(e, Ref)}  # type: ignore[union-attr]


def _tiles(rule: Rule, rec: Recurrence) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
    """(values of a rule's names, tile) for each choice. The right side says which of them cuts time and which each loop of space."""
    names, matched = [n for n, _ in rule.choose], _matched(rule, rec)
    for chosen in product(*(c if isinstance(c, tuple) else listed(rule, n, c, Env(matched)) for n, c in rule.choose)):
        values = {**matched, **dict(zip(names, chosen, strict=True))}
        size = {field: int(evaluate(e, Env(values))) for field, e in rule.rhs.attrs}  # type: ignore[union-attr]
        tile = {rec.time.name: size["time"]} if "time" in size else {}
        yield values, tile | ({a.name: size["space"] for a in rec.axes} if "space" in size else {})
