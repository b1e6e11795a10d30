"""What one op is to the cut enumerator: its form (map, reduce, contract, ..) and how it reads each operand.

Everything is read off the op table's comprehension; no op is named here. A comprehension with no reduction is a `map`
(a view is a map whose value is a bare read), with one `Reduce` a `reduce` (`online` where operands have private output
axes, as scores and values have), with one `Contract` a `contract`. Comprehensions of any other structure are `alone`:
they become kernels whose operands are all in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any

from autocomp.cost.derived import constant
from autocomp.egraph.split import digits
from autocomp.ir.affine import Aff, FloorDiv, Mod, aff
from autocomp.ir.body import Axis, Comprehension, Const, Contract, Expr, Gather, Index, Inside, Map, Read, Reduce, bound_axes, postorder
from autocomp.ir.monoid_terms import element_work
from autocomp.ir.monoids import MONOIDS
from autocomp.ir.node import Attrs
from autocomp.ir.ops.table import OPS
from autocomp.ir.reach import share_read
from autocomp.ir.scalar import SCALAR
from autocomp.ir.scans import running
from autocomp.ir.types import Dim, Sym, TensorType, dim_hint

_UNDERSTOOD = (Read, Map, Reduce, Contract, Gather, Const, Index, Inside)
SECTOR = int(constant("sector"))
_TILE = 128    # rows or columns of a contraction's output that one tile covers: what a prologue is recomputed per
LONG = 1 << 20  # elements of an open axis at most, where work grows with the square of them


@dataclass(frozen=True)
class Access:
    """How an op reads one operand.

    side      map | post (above the reduction) | r (inside a reduce) | a, b (a contract's factors) | table (of a gather)
    index     operand indices over the op's axes; `guard` as in `ir.body.Read`
    unused    positions of output dimensions (extent over 1) that the indices do not mention
    plain     operand dimension -> output position, for indices that are one bare output axis of the same extent
    reduced   operand dimensions (extent over 1) indexed by one bare reduced axis
    bijective reads every element of the operand exactly once over the output
    again     evaluations of each operand element when it is computed where it is read, at least 1
    """

    side: str
    index: tuple[Aff, ...]
    guard: tuple[Aff, ...]
    unused: tuple[int, ...]
    plain: tuple[tuple[int, int], ...]
    reduced: tuple[int, ...]
    bijective: bool
    again: float


@dataclass(frozen=True)
class Form:
    """kind: leaf | const | map | reduce | online | contract | alone | opaque. `accesses[j]` is None where operand j is
    read in several ways (its producer then has to be in memory).

    vector, special: operations for the whole output; wide: those of `vector` on numbers of 64 bits; matrix: floating point operations of
    the contraction; m, n, k, batch: its extents; uneven: its factors are read at floors or remainders that a kernel does not make axes of;
    apart: neighbours of its results lie in steps, as digits of an axis; extents: those of the reduced axes (over 1), sorted by text.
    lane_extent: extent of the output's innermost (merged) axis; lane_stride: the largest element distance between its neighbours in a
    window's operand.
    running: extent of the axis along which a reduction runs (`ir.scans`), 0 for others; inner: it is the innermost one.
    shares: of each operand's elements those that are read, where that is less than all (slices, lookups); () for all of them.
    `spec` is equal for two contractions that differ in their second factor only.
    """

    kind: str
    out: TensorType
    comp: Comprehension | None = None
    accesses: tuple[Access | None, ...] = ()
    view: bool = False
    reshape: bool = False
    extents: tuple[Dim, ...] = ()
    windowed: bool = False
    vector: float = 0.0
    special: float = 0.0
    wide: float = 0.0
    matrix: float = 0.0
    mnk: tuple[int, int, int] = (0, 0, 0)
    batch: int = 1
    uneven: bool = False
    apart: bool = False
    lane_extent: int = 1
    lane_stride: int = 1
    running: int = 0
    inner: bool = False
    shares: tuple[float, ...] = ()
    spec: str = field(default="", compare=False)


def extent_product(extents: Iterable[Dim]) -> int:
    """Product of extents, symbols at their hint."""
    return prod(dim_hint(e) for e in extents)


@lru_cache(maxsize=20_000)
def form_of(op: str, attrs: Attrs, ins: tuple[TensorType, ...], out: TensorType) -> Form:
    """The form of an op applied to operands of these types. Raises KeyError for a name that the table lacks."""
    if op in ("input", "param", "const"):
        return Form("const" if op == "const" else "leaf", out)
    entry = OPS[op]
    if entry.comprehension is None:
        return Form("opaque", out, accesses=(None,) * len(ins), vector=float(out.elements))
    return comprehension_form(entry.comprehension(ins, attrs, out), ins, out, f"{op} {attrs}")


def comprehension_form(comp: Comprehension, ins: tuple[TensorType, ...], out: TensorType, text: str) -> Form:
    """The form of a comprehension; `text` names the op with its attributes."""
    nodes = list(postorder(comp.value))
    heavy = [e for e in nodes if isinstance(e, (Reduce, Contract))]
    form = Form("alone", out, comp, (None,) * len(ins))
    form = replace(form, shares=_shares(comp, nodes, ins), **_operations(comp, nodes, out))  # type: ignore[arg-type]
    if len(heavy) > 1 or not all(isinstance(e, _UNDERSTOOD) for e in nodes):
        return form
    h = heavy[0] if heavy else None
    form = replace(form, kind=_kind(h), accesses=_accesses(comp, h, ins))
    if isinstance(comp.value, Read):
        form = replace(form, view=True, reshape=_is_reshape(comp, comp.value, ins[comp.value.operand]))
    if h is not None:
        form = replace(form, extents=tuple(sorted((a.extent for a in h.axes if a.extent != 1), key=str)), windowed=_windowed(h),
                       running=dim_hint(x.axis.extent) if (x := running(h, comp.axes)) else 0,
                       inner=x is not None and x.axis == comp.axes[-1],
                       vector=form.vector * _longest(comp, h, form.accesses) ** 2)  # fmt: skip
    if isinstance(h, Contract):
        form = replace(form, **_contraction(comp, h, ins))  # type: ignore[arg-type]
    if form.kind == "online" and isinstance(h, Reduce):
        form = replace(form, **_online(comp, h))
    if form.kind in ("contract", "online"):
        form = replace(form, spec=f"{text} {ins[0]} {out}")
    return form


def _longest(comp: Comprehension, h: Reduce | Contract, accesses: tuple[Access | None, ...]) -> float:
    """How much longer an open axis may be than expected (`dim_hint`) along which each result folds the same elements again (running sums):
    work that grows with its square is that of the longest, so that a form whose work does not takes its place. 1 for other reductions."""
    again = {comp.axes[k].extent for a in accesses if a is not None for k in a.unused}
    if not isinstance(h, Reduce) or len(h.operands) > 1:
        return 1.0
    open_ = [a.extent for a in h.axes if isinstance(a.extent, Sym) and a.extent in again]
    return prod(dim_hint(d, 0.5, LONG) / max(1, dim_hint(d)) for d in open_)


def _shares(comp: Comprehension, nodes: list[Expr], ins: tuple[TensorType, ...]) -> tuple[float, ...]:
    extents = {a.name: dim_hint(a.extent) for a in (*comp.axes, *bound_axes(comp.value))}
    each = tuple(share_read(nodes, j, t.shape, t.dtype.bytes, extents, SECTOR) for j, t in enumerate(ins))
    return each if min(each, default=1.0) < 1 else ()


def _kind(h: Reduce | Contract | None) -> str:
    if h is None:
        return "map"
    if isinstance(h, Contract):
        return "contract"
    private = _names(h.operands[-1]) - _names(h.operands[0])
    return "online" if len(h.operands) > 1 and private else "reduce"


def _names(e: Expr) -> frozenset[str]:
    out: frozenset[str] = frozenset()
    for x in postorder(e):
        if isinstance(x, Read):
            out |= frozenset().union(*(i.names() for i in x.index))
    return out


def _windowed(h: Reduce | Contract) -> bool:
    """Is an operand index a sum of a reduced and another axis (as in convolutions and pooling)?"""
    bound = {a.name for a in h.axes}
    return any((names := i.names()) & bound and names - bound
               for e in postorder(h) if isinstance(e, Read) for i in e.index)


def _accesses(comp: Comprehension, h: Reduce | Contract | None, ins: tuple[TensorType, ...]) -> tuple[Access | None, ...]:
    """One Access an operand; None where the op reads it at different indices or from different sides."""
    found: dict[int, dict[tuple[str, Read], None]] = {}
    parts: list[tuple[str, Expr]] = []
    if isinstance(h, Contract):
        parts = [("a", h.a), ("b", h.b)]
    elif isinstance(h, Reduce):
        parts = [("r" if k == 0 else "b", o) for k, o in enumerate(h.operands)] if _kind(h) == "online" \
            else [("r", o) for o in h.operands]
    below = {e for _, p in parts for e in postorder(p)}
    top = {e for e in postorder(comp.value) if e not in below and e is not h}
    tables: set[int] = set()
    for side, nodes in [*((s, list(postorder(p))) for s, p in parts), ("post" if h else "map", top)]:
        for e in nodes:
            if isinstance(e, Read):
                found.setdefault(e.operand, {})[side, e] = None
            elif isinstance(e, Gather):
                tables.add(int(e.tensor))
    out: list[Access | None] = []
    for j, t in enumerate(ins):
        ways = list(found.get(j, ()))
        out.append(None if len(ways) != 1 or j in tables else _access(comp, h, *ways[0], t))
    return tuple(out)


def _access(comp: Comprehension, h: Reduce | Contract | None, side: str, read: Read, t: TensorType) -> Access:
    position = {a.name: i for i, a in enumerate(comp.axes)}
    extent = {a.name: a.extent for a in comp.axes} | {a.name: a.extent for a in (h.axes if h else ())}
    bound = {a.name for a in (h.axes if h else ())} if side not in ("map", "post") else set()
    used = frozenset().union(*(i.names() for i in read.index)) if read.index else frozenset()
    bare = {d: i.terms[0][0] for d, i in enumerate(read.index)
            if i.const == 0 and len(i.terms) == 1 and i.terms[0][1] == 1 and isinstance(i.terms[0][0], str)}
    plain = tuple((d, position[n]) for d, n in bare.items() if n in position and extent[n] == t.shape[d])
    reduced = tuple(d for d, n in bare.items() if n in bound and extent[n] == t.shape[d] and extent[n] != 1)
    unused = tuple(i for i, a in enumerate(comp.axes) if a.extent != 1 and a.name not in used)
    points = extent_product(extent[n] for n in sorted(used) if n in extent)
    direct = len({n for n in bare.values()}) == len(bare) and all(
        d in bare or t.shape[d] == 1 for d in range(t.rank)) and all(extent[n] == t.shape[d] for d, n in bare.items())
    bijective = not read.guard and not unused and not bound & used and points == t.elements and (
        direct or _covers(read, extent, t))
    again = max(1.0, points / max(1, t.elements))
    if side in ("a", "b") and isinstance(h, Contract):
        other = _names(h.b if side == "a" else h.a)
        again *= -(-extent_product(extent[n] for n in sorted(other - used) if n in position) // _TILE)
    return Access(side, read.index, read.guard, unused, plain, reduced, bijective, again)


def _covers(read: Read, extent: dict[str, Dim], t: TensorType) -> bool:
    """Reshapes and permuted reshapes: each axis adds its own digits to the linear address, so equal counts mean one to one."""
    return t.is_static and all(isinstance(extent[n], int) for i in read.index for n in i.names())


def _is_reshape(comp: Comprehension, read: Read, t: TensorType) -> bool:
    """Does the view keep every element's place in row-major memory (so that it costs nothing)?"""
    if read.guard or not t.is_static or any(not isinstance(a.extent, int) for a in comp.axes):
        return False
    extents = {a.name: int(a.extent) for a in comp.axes}  # type: ignore[arg-type]
    if prod(extents.values()) != t.elements:
        return False
    return linear_address(read.index, t.shape, extents) == linear_address(
        tuple(Aff.of(a.name) if a.extent != 1 else Aff() for a in comp.axes), tuple(a.extent for a in comp.axes), extents)


def linear_address(index: tuple[Aff, ...], shape: tuple[Dim, ...], extents: dict[str, int]) -> Aff:
    """Row-major element address of an index, in floor normal form (so that the digits of a reshape add up again)."""
    total, stride = Aff(), 1
    for i, d in zip(reversed(index), reversed(shape), strict=True):
        total, stride = total + _floors(i) * stride, stride * dim_hint(d)
    return total.simplify(extents)


def _floors(a: Aff) -> Aff:
    """x mod n -> x - n*floor(x/n) and floor(floor(x/a)/b) -> floor(x/(a*b)): equal addresses get equal texts."""
    out = Aff((), a.const)
    for atom, c in a.terms:
        if isinstance(atom, str):
            out = out + Aff(((atom, c),))
            continue
        num = _floors(atom.num)
        low = _floor(num, atom.den)
        out = out + (low if isinstance(atom, FloorDiv) else num - low * atom.den) * c
    return out


def _floor(num: Aff, den: int) -> Aff:
    if len(num.terms) == 1 and num.terms[0][1] == 1 and isinstance(num.terms[0][0], FloorDiv):
        inner = num.terms[0][0]
        return (inner.num + num.const * inner.den) // (inner.den * den)
    return num // den


def _contraction(comp: Comprehension, h: Contract, ins: tuple[TensorType, ...]) -> dict[str, object]:
    """m, n, k, batch, the operation count, and what the innermost output axis looks like to vector lanes."""
    whole = [x for x in comp.axes if x.extent != 1]
    out, (a, b), uneven = _by_digits(whole, (h.a, h.b))
    k = extent_product(x.extent for x in h.axes)
    m = extent_product(x.extent for x in out if x.name in a and x.name not in b)
    n = extent_product(x.extent for x in out if x.name in b and x.name not in a)
    batch = extent_product(x.extent for x in out if x.name in a and x.name in b)
    return {"mnk": (m, n, k), "batch": batch, "matrix": 2.0 * m * n * k * batch, "uneven": uneven,
            "apart": bool(whole) and out[-1] != whole[-1], **_lanes(comp, h, ins)}  # fmt: skip


def _by_digits(axes: Sequence[Axis], factors: Sequence[Expr]) -> tuple[list[Axis], list[frozenset[str]], bool]:
    """Axes of which a kernel makes two (`egraph.split`) as two, those that each factor names, and whether floors and remainders stay.

    x[o // 2 + t] * w[2*t + o mod 2]  over o:63   ->   o.high:32 o.low:2, of which w names o.low alone
    """
    read = [[i for e in postorder(f) if isinstance(e, Read) for i in e.index] for f in factors]
    used = {x.name: {d for f in read for i in f for n, d in digits(i) if n == x.name} for x in axes if isinstance(x.extent, int)}
    apart = {n for f in read for i in f for x, _ in i.terms if isinstance(x, Mod) for n in x.num.names()}  # a low digit by itself
    by = {n: next(iter(d)) for n, d in used.items() if len(d) == 1 and n in apart}
    pair = {x.name: (Axis(f"{x.name}.high", -(-x.extent // by[x.name])), Axis(f"{x.name}.low", by[x.name]))  # type: ignore[operator]
            for x in axes if x.name in by}  # fmt: skip
    place = {n: aff(high.name) * by[n] + low.name for n, (high, low) in pair.items()}
    extents = {x.name: int(x.extent) for p in pair.values() for x in p}  # type: ignore[arg-type]
    split = [[i.substitute(place).simplify(extents) for i in f] for f in read]
    even = all(x.extent % by[x.name] == 0 for x in axes if x.name in by) and all(i.is_affine for f in split for i in f)  # type: ignore[operator]
    names = [frozenset().union(*(i.names() for i in f)) for f in split]
    return [x for a in axes for x in pair.get(a.name, (a,))], names, not even


def _online(comp: Comprehension, h: Reduce) -> dict[str, Any]:
    """m, n, k and lanes of a weighted sum: rows of scores, columns of values, the axis between them."""
    scores, values = _names(h.operands[0]), _names(h.operands[-1])
    out = [x for x in comp.axes if x.extent != 1]
    m = extent_product(x.extent for x in out if x.name in scores and x.name not in values)
    n = extent_product(x.extent for x in out if x.name in values and x.name not in scores)
    batch = extent_product(x.extent for x in out if x.name in scores and x.name in values)
    return {"mnk": (m, n, extent_product(x.extent for x in h.axes)), "batch": batch, "lane_extent": n}


def _lanes(comp: Comprehension, h: Contract, ins: tuple[TensorType, ...]) -> dict[str, int]:
    """Extent of the innermost output axis, merged with those left of it that every operand also walks as one.

    A strided operand that is no window can be repacked once per tile; a window's stride costs at every step.
    """
    reads = [e for e in postorder(h) if isinstance(e, Read)]
    extents = {x.name: dim_hint(x.extent) for x in (*comp.axes, *h.axes)}
    address = [linear_address(r.index, ins[r.operand].shape, extents) for r in reads]
    axes = [x for x in comp.axes if x.extent != 1]
    if not axes:
        return {}
    last, extent = axes[-1].name, extents[axes[-1].name]
    for left in reversed(axes[:-1]):
        if any(adr.coef(left.name) != adr.coef(last) * extent for adr in address):
            break
        extent *= extents[left.name]
    bound = {x.name for x in h.axes}
    windows = [abs(adr.coef(last)) for r, adr in zip(reads, address, strict=True)
               if any(last in i.names() and i.names() & bound for i in r.index)]
    return {"lane_extent": extent, "lane_stride": max([1, *windows])}


def scalar_cost(fn: str) -> tuple[float, float]:
    """(vector, special) operations of one application of a scalar function."""
    unit = SCALAR[fn].unit
    return float(unit == "vector"), float(unit == "special")


def _operations(comp: Comprehension, nodes: list[Expr], out: TensorType) -> dict[str, float]:
    """Each map counts once a point of the domain that it sees: the output's, or with the reduced axes under a reduction."""
    vector = special = matrix = wide = 0.0
    under: dict[int, int] = {}
    for e in nodes:
        if isinstance(e, (Reduce, Contract)):
            k = extent_product(a.extent for a in e.axes)
            for a in e.args:
                for x in postorder(a):
                    under[id(x)] = max(under.get(id(x), 1), k)
            if isinstance(e, Reduce) and _kind(e) == "online":  # products with the values; one exponential and rescaling a score
                scores = extent_product(x.extent for x in (*comp.axes, *e.axes) if x.name in _names(e.operands[0]))
                matrix += 2.0 * out.elements * k
                vector, special = vector + 2.0 * scores, special + float(scores)
            elif isinstance(e, Reduce):
                for fn in element_work(MONOIDS[e.monoid], e.part):
                    v, s = scalar_cost(fn)
                    vector, special = vector + v * out.elements * k, special + s * out.elements * k
                    wide += v * out.elements * k * e.wide
    for e in nodes:
        if isinstance(e, Map):
            v, s = scalar_cost(e.fn)
            vector += v * out.elements * under.get(id(e), 1)
            special += s * out.elements * under.get(id(e), 1)
            wide += v * out.elements * under.get(id(e), 1) * e.wide
    return {"vector": vector, "special": special, "wide": wide} | ({"matrix": matrix} if matrix else {})
