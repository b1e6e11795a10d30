"""Operations of a kernel's body by the unit that does them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import ceil, log2, prod

from autocomp.cost.chip import F32
from autocomp.cost.derived import constant, derived, made_by
from autocomp.cost.roles import Roles
from autocomp.ir.body import Axis, Const, Contract, Expr, Gather, Index, Load, Map, Reduce, factors, postorder
from autocomp.ir.halves import by_words, of_number
from autocomp.ir.monoid_terms import element_work
from autocomp.ir.monoids import MONOIDS
from autocomp.ir.scalar import SCALAR
from autocomp.ir.types import BOOL, I32, I64, dim_hint


@dataclass
class Operations:
    """Sums over a body. `wide`: of `vector`, more for what is wider than a word; `words`: those of whole words of 32 bits; `spared`: of
    `vector`, what factors of a product save that are computed in fewer bytes; `making`: of `vector` and `special`, what computes
    factors; `products`: the operations of each, and the kernel's axes that it has; `looked_up`: elements that integers name; `steps`: of
    `special`, in those of an exponential, where no unit computes them; `calls`: instructions of a vector unit for a tile, by maps and
    folds; `beside`: elements of those by which it makes functions; `rounded`: elements that become whole numbers, and how often a tile
    does; `masked`: how many more, over elements and a tile, make
    words where no unit compares or shifts them; `folds`: words that sums take; `sums`: of words, element by element, a tile;
    `rows`: those that integers name, and the axis along them; `long`: parts that are integers of 64 bits of memory's, by id."""

    vector: float = 0.0
    special: float = 0.0
    steps: float = 0.0
    matrix: float = 0.0
    words: float = 0.0
    wide: float = 0.0
    looked_up: float = 0.0
    spared: float = 0.0
    making: tuple[float, float] = (0.0, 0.0)
    calls: float = 0.0
    beside: float = 0.0
    rounded: tuple[float, float] = (0.0, 0.0)
    masked: tuple[float, float] = (0.0, 0.0)
    folds: float = 0.0
    sums: float = 0.0
    rows: tuple[float, str] = (0.0, "")
    products: list[tuple[float, frozenset[str]]] = field(default_factory=list)
    long: set[int] = field(default_factory=set)
    dtype: str = "f32"  # of the last product's factors


def count(nodes: Sequence[Expr], free: Mapping[int, Set[str]], roles: Roles, axes: Sequence[str], extent: Mapping[str, int]) -> Operations:
    """The operations of a body's parts; `free`: axes that each mentions, by id; `axes`: the kernel's."""
    out = Operations()
    made = {id(x) for e in nodes if isinstance(e, Contract) for x in postorder(e.a, e.b)}
    folded: set[tuple[object, ...]] = set()
    named = {id(x) for e in nodes if isinstance(e, Gather) for x in postorder(*e.index)}  # places, which are words or the scalar unit's
    for e in nodes:  # once a point of the axes that it mentions: a row's statistic once a row
        points = prod(extent[n] for n in free[id(e)] if n in extent)
        wide = any(id(a) in out.long for a in e.args)
        if e.dtype == I64 and (isinstance(e, (Load, Gather)) or wide):
            out.long.add(id(e))
        if isinstance(e, Map):
            _map(out, e, points, id(e) in made)
            if wide and id(e) not in named:
                _words(out, e, points)
        elif isinstance(e, Gather):
            last = e.index[-1]
            looked = not isinstance(last, Index)
            out.looked_up += points * looked
            out.calls, out.beside = out.calls + constant("npu_places") * looked, out.beside + (constant("npu_places") - 1) * points * looked
            along = sorted(n for n in last.index.names() if n in extent) if isinstance(last, Index) else []
            out.rows = (out.rows[0] + points, along[-1]) if along else out.rows
        elif isinstance(e, Contract):
            flops = 2.0 * points * _folds(e.axes)
            out.matrix += flops
            out.products.append((flops, frozenset(a for a in axes if a in free[id(e)])))
            out.dtype = max(e.a.dtype.name, e.b.dtype.name)  # signed by unsigned bytes: as unsigned ones, which fewer units know
        elif isinstance(e, Reduce) and len(e.operands) > 1 and roles.form == "online":
            state = (e.monoid, e.axes, e.operands)
            if state not in folded:  # else another of its states
                folded.add(state)
                out.matrix += 2.0 * prod(extent[a] for a in axes) * _folds(e.axes)
                _weights(out, e, prod(extent[n] for n in free[id(e.operands[0])] if n in extent))
        elif isinstance(e, Reduce):
            _reduce(out, e, _folds(e.axes) * points)
            if wide:
                _folded_words(out, e, _folds(e.axes) * points)
    return out


def _folds(axes: Iterable[Axis]) -> int:
    return prod(dim_hint(a.extent) for a in axes)


def _map(out: Operations, e: Map, points: int, made: bool) -> None:
    """`made`: it computes a product's factor."""
    unit = SCALAR[e.fn].unit
    vector, special = points * (unit == "vector"), points * (unit == "special")
    out.vector, out.special, out.wide = out.vector + vector, out.special + special, out.wide + vector * e.wide
    calls = _instructions(e)
    out.calls, out.beside = out.calls + calls, out.beside + points * (calls - (unit != "free"))
    times = _roundings(e)
    out.rounded = out.rounded[0] + points * times, out.rounded[1] + times
    if I32 in (e.dtype, *(x.dtype for x in e.operands[:1])):
        masked = constant("compared_by_bits") if e.dtype == BOOL and len(e.operands) == 2 else _shifted(e.fn)
        out.masked = out.masked[0] + points * masked, out.masked[1] + masked
    out.steps += special * (_steps(e) / SCALAR["exp"].steps)
    sums = constant("word_division") if e.fn in ("floordiv", "mod") else e.fn in ("add", "sub", "neg", "abs")
    sums = constant("word_product") if e.fn == "mul" else sums
    if e.dtype == I32:
        out.words, out.sums = out.words + points * sums, out.sums + sums
    if made:
        out.making = out.making[0] + vector, out.making[1] + special
        out.spared += vector * (1 - min(F32, e.dtype.bytes) / F32)


def _words(out: Operations, e: Map, points: int) -> None:
    """What an NPU does for a function of integers of 64 bits beside one operation: the instructions of words that make it. Only chips that
    lack others convert them to floats by words."""
    leaf = lambda x, half: Load(I32, f"{half}{e.operands.index(x)}", ())
    given = lambda x: of_number(int(x.value)) if isinstance(x, Const) else (leaf(x, "low"), leaf(x, "high"))
    made = Operations()
    found = by_words(e, given, lambda x: leaf(x, "plain"))
    for x in postorder(*found):
        if isinstance(x, Map):
            _map(made, x, points, False)
    elements, calls = max(0.0, made.beside + made.vector - points), max(0.0, made.calls - 1)
    if e.dtype.is_float:
        elements, calls = elements + constant("word_steps") * made.words, calls + constant("word_steps") * made.sums
        out.masked = out.masked[0] + elements + made.masked[0], out.masked[1] + calls + made.masked[1]
        return
    out.beside, out.calls, out.words, out.sums = out.beside + elements, out.calls + calls, out.words + made.words, out.sums + made.sums
    out.masked = out.masked[0] + made.masked[0], out.masked[1] + made.masked[1]


def _folded_words(out: Operations, e: Reduce, points: int) -> None:
    """The same of a fold of integers of 64 bits: a sum is four of digits, an extreme two and the choice of whose low halves count."""
    sums = constant("npu_digits") * (e.monoid == "sum")
    out.words, out.folds = out.words + sums * points, out.folds + sums * points
    each = sums * constant("npu_digit") if sums else constant("npu_low_halves")
    out.beside, out.calls = out.beside + each * points, out.calls + each
    out.calls += sums * constant("word_steps") * ceil(log2(max(2, _folds(e.axes))))


def _shifted(fn: str) -> float:
    """Instructions more of a shift of words by masks."""
    return constant("shr_by_masks") if fn == "shr" else constant("shl_by_masks") if fn == "shl" else 0.0


def _instructions(e: Map) -> float:
    """Instructions of an NPU's vector unit that make an operation."""
    of = e.operands[0].dtype if e.operands else e.dtype
    if e.dtype == BOOL and len(e.operands) == 2 and of in (BOOL, I32):
        return constant("npu_truths") if of == BOOL else constant("npu_compared_words")
    if e.fn == "bitxor" and e.dtype == I32:
        return constant("npu_differing_words")
    if e.fn == "ordinal":
        return constant("npu_ordinals")
    if e.fn == "where" and e.dtype == I32:
        return constant("npu_chosen_words")
    return made_by(_made(e))


def _roundings(e: Map) -> float:
    """How often an NPU's vector unit rounds down, up or to 0 for an operation; half as much to even."""
    return constant(f"rounds_{_made(e)}") if f"rounds_{_made(e)}" in derived() else 0.0


def _made(e: Map) -> str:
    """The name of an operation in the list of what instructions make; of bytes, which are computed in single precision, another one."""
    if e.dtype.is_float:
        return e.fn
    if e.dtype.bytes > 1 or e.dtype == BOOL or not e.operands:
        return ""
    if e.fn == "cast":
        return "byte" if e.operands[0].dtype.is_float else ""
    return f"byte_{e.fn}" + ("_by_number" if isinstance(e.operands[-1], Const) and len(e.operands) > 1 else "")


def _steps(e: Map) -> int:
    """Instructions of a polynomial; integers and powers by a small whole number, which are products, as an exponential."""
    if not e.dtype.is_float or factors(e):
        return SCALAR["exp"].steps
    return SCALAR[e.fn].steps


def _weights(out: Operations, e: Reduce, weights: int) -> None:
    """An online reduction's weights: folds, the exponent's difference, sums, rounding."""
    monoid = MONOIDS[e.monoid]
    exponentials = weights * any("exp(" in rebase for *_, rebase in monoid.modules)
    out.special, out.steps = out.special + exponentials, out.steps + exponentials
    out.vector += weights * (len(monoid.base) + len(monoid.modules) + 1)


def _reduce(out: Operations, e: Reduce, points: int) -> None:
    picked = constant("npu_picked") if MONOIDS[e.monoid].pick else 1.0
    out.calls, out.beside = out.calls + picked, out.beside + points * (picked - 1)
    if e.dtype == I32 and e.monoid in ("sum", "prod"):
        out.words, out.folds = out.words + points, out.folds + points
        out.calls += constant("word_steps") * ceil(log2(max(2, _folds(e.axes))))  # half of the words at a time
    units = [SCALAR[fn].unit for fn in element_work(MONOIDS[e.monoid], e.part)]
    special = points * units.count("special")
    out.vector, out.special, out.steps = out.vector + points * units.count("vector"), out.special + special, out.steps + special
    out.wide += points * units.count("vector") * e.wide
