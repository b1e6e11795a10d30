"""The grammar of kernel bodies (table: grammar.yaml) as a fold: kind of a value from its op's form and its operands' bodies.

A record is O(1) to compute from the operands' records, so that the enumerator asks it at every merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from autocomp.egraph.forms import Access, Form
from autocomp.files import own_table
from autocomp.ir.affine import Aff, FloorDiv, Mod
from autocomp.ir.body import Map
from autocomp.ir.types import Dim


class Contraction(NamedTuple):
    """A contraction of a body: its node, the form without the second factor, and the leaves of the first."""

    node: int
    spec: str
    first: frozenset[int]


Digit = tuple[int, int]


class Record(NamedTuple):
    """What the grammar knows about a body.

    rows      (N) the row's own axes: (output position, 0), or (output position, n) where they are its digit below n
    extents   (S, N) extents of the reduced axes, sorted by text
    levels    (S, N) depth of dependent reductions
    contractions   (C, O)
    windowed  a convolution or pooling is inside
    terms  (C, K) of the last contraction's sums
    """

    kind: str
    rows: tuple[Digit, ...] = ()
    extents: tuple[Dim, ...] = ()
    levels: int = 0
    contractions: frozenset[Contraction] = frozenset()
    windowed: bool = False
    terms: int = 0


LOADED = Record("E")


class Operand(NamedTuple):
    """One operand of a candidate: its body's record, how the op reads it, the leaves below it, how many nodes of it compute
    something, and whether it is in memory (`loaded`: a load, or a chain of views over one)."""

    record: Record
    access: Access | None
    leaves: frozenset[int]
    ops: int
    loaded: bool


@dataclass(frozen=True)
class Production:
    kind: str
    form: str
    operands: frozenset[str]
    some: frozenset[str]
    checks: tuple[str, ...]


@dataclass(frozen=True)
class Grammar:
    """`names`: letter -> the word rules use (contraction for C)."""

    names: dict[str, str]
    productions: tuple[Production, ...]
    limits: dict[str, int]


@cache
def load_grammar() -> Grammar:
    """The shipped table."""
    raw = own_table("autocomp.egraph", "grammar.yaml")
    productions = tuple(Production(p["kind"], p["form"], frozenset(p["operands"]), frozenset(p.get("some", ())),
                                   tuple(p.get("checks", ()))) for p in raw["productions"])
    return Grammar({k: v["name"] for k, v in raw["kinds"].items()}, productions, dict(raw["limits"]))


@cache
def _productions(form: str, kinds: frozenset[str]) -> tuple[Production, ...]:
    return tuple(p for p in load_grammar().productions
                 if p.form == form and kinds <= p.operands and (not p.some or kinds & p.some))


def fold(form: Form, node: int, operands: Sequence[Operand]) -> Record | str:
    """The record of `form` (node `node`) applied to these bodies, or the reason why no production takes them."""
    kinds = frozenset(o.record.kind for o in operands) or frozenset("E")
    reason = ""
    for p in _productions(form.kind, kinds):
        rec: Record | str = _base(p.kind, form, node, operands)
        for check in p.checks:
            rec = CHECKS[check](form, operands, rec)  # type: ignore[arg-type]
            if isinstance(rec, str):
                reason = reason or rec
                break
        else:
            return rec
    words = " and ".join(load_grammar().names[k] for k in sorted(kinds))
    return reason or f"no production takes a {form.kind} of {words}"


def _base(kind: str, form: Form, node: int, operands: Sequence[Operand]) -> Record:
    levels, windowed, contractions, terms = 0, form.windowed, frozenset[Contraction](), 0
    for o in operands:
        r = o.record
        levels, windowed, terms = max(levels, r.levels), windowed or r.windowed, max(terms, r.terms)
        if r.contractions:
            contractions |= r.contractions
    if form.kind in ("contract", "online"):
        contractions |= {Contraction(node, form.spec, operands[0].leaves)}
    if form.kind == "reduce":
        return Record(kind, (), form.extents, levels + 1, contractions, windowed)
    return Record(kind, (), (), levels, contractions, windowed, form.mnk[2] if form.kind == "contract" else terms)


# ---- checks: (form, operands, record so far) -> record with what the check learned, or the reason against it

def _same_statistic(form: Form, operands: Sequence[Operand], rec: Record) -> Record | str:
    extents = {o.record.extents for o in operands if o.record.kind == "S"}
    if len(extents) > 1:
        return "statistics over different extents"
    for o in operands:
        if o.record.kind == "S" and not (o.access and o.access.bijective):
            return "a statistic is broadcast along axes"
    return rec._replace(extents=next(iter(extents)))


def _same_rows(form: Form, operands: Sequence[Operand], rec: Record) -> Record | str:
    """Every statistic is broadcast exactly along the axes that it had reduced, and every row is the same set of axes."""
    rows: tuple[Digit, ...] | None = None
    extents: tuple[Dim, ...] = ()
    for o in operands:
        if o.record.kind == "E":
            continue
        if o.access is None or o.access.guard:
            return "a row is read through a mask or in several ways"
        mine = _carry(o.record.rows, o.access, form) if o.record.kind == "N" else tuple((i, 0) for i in o.access.unused)
        if mine is None:
            return "a view cuts across the row"
        shape = tuple(sorted((n or form.out.shape[i] for i, n in mine), key=str))
        if o.record.kind == "S" and shape != o.record.extents:
            return f"a statistic over {o.record.extents} is broadcast along {shape}"
        if rows is not None and rows != mine:
            return "rows along different axes"
        rows, extents = mine, shape
    return rec._replace(rows=rows or (), extents=extents)


def _carry(rows: tuple[Digit, ...], access: Access, form: Form) -> tuple[Digit, ...] | None:
    """The row axes of an operand in the output, which no other index may have: bare axes, or digits of a bijective view (eight channels of
    a group and the places of an image, read at channel mod 8 and place)."""
    axes = form.comp.axes if form.comp else ()
    at = {a.name: i for i, a in enumerate(axes)}
    plain = dict(access.plain)
    mine: dict[int, int] = {}
    for d, low in rows:
        found = [(plain[d], low)] if d in plain else _digits(access.index[d], at, form) if access.bijective and not low else None
        if found is None:
            return None
        mine |= found
    cut = {d for d, _ in rows}
    for d, i in enumerate(access.index):
        if d not in cut and any(mine[at[n]] != high for n, high in _highs(i) if at.get(n) in mine):
            return None
    return tuple(sorted(mine.items()))


def _digits(i: Aff, at: Mapping[str, int], form: Form) -> list[Digit] | None:
    """(position, 0 or n) of the axes a and digits (a mod n) that an index counts through, None for an index of another form."""
    stride, found = 1, list[Digit]()
    for atom, c in sorted(i.terms, key=lambda t: t[1]):
        names = atom.num if isinstance(atom, Mod) else Aff.of(atom) if isinstance(atom, str) else Aff()
        a = next((n for n, _ in names.terms if isinstance(n, str)), "")
        if c != stride or a not in at or names != Aff.of(a):
            return None
        size = atom.den if isinstance(atom, Mod) else form.out.shape[at[a]]
        if not isinstance(size, int):
            return None
        found.append((at[a], atom.den if isinstance(atom, Mod) else 0))
        stride *= size
    return found if not i.const else None


def _highs(i: Aff) -> Iterator[tuple[str, int]]:
    """(axis, n) of each floor(axis / n), and (axis, -1) of each axis that is there otherwise."""
    for atom, _ in i.terms:
        if isinstance(atom, FloorDiv) and len(atom.num.terms) == 1 and atom.num == Aff.of(str(atom.num.terms[0][0])):
            yield str(atom.num.terms[0][0]), atom.den
        else:
            yield from ((n, -1) for n in (atom.num.names() if isinstance(atom, (FloorDiv, Mod)) else {str(atom)}))


def _whole_output(form: Form, operands: Sequence[Operand], rec: Record) -> Record | str:
    for o in operands:
        if o.record.kind in "CKO" and not (o.access and o.access.bijective):
            return "a contraction is not read once, element by element"
    return rec


def _contractions(form: Form, operands: Sequence[Operand], rec: Record) -> Record | str:
    limit = load_grammar().limits["contractions"]
    if len(rec.contractions) > limit:
        return f"{len(rec.contractions)} contractions side by side, at most {limit}"
    if len({(c.spec, c.first) for c in rec.contractions}) > 1:
        if not _sums_products(form, operands):
            return "contractions of different shapes or over different first factors"
        one = min(rec.contractions, key=lambda c: c.node)  # one accumulator takes both
        leaves = frozenset().union(*(o.leaves for o in operands))
        return rec._replace(contractions=frozenset({Contraction(one.node, f"{one.spec} and more", leaves)}))
    return rec


def _sums_products(form: Form, operands: Sequence[Operand]) -> bool:
    """Whether a map adds two bare contractions: the second one then goes on in the first one's accumulator."""
    value = form.comp.value if form.comp else None
    while isinstance(value, Map) and value.fn == "cast":
        value = value.args[0]
    return (isinstance(value, Map) and value.fn == "add" and len(operands) == 2
            and all(o.record.kind == "C" and o.ops == 1 for o in operands))  # fmt: skip


def _one_online(form: Form, operands: Sequence[Operand], rec: Record) -> Record | str:
    onlines = {o.record.contractions for o in operands if o.record.kind == "O"}
    return rec if len(onlines) == 1 else "two online contractions"


def _reduces_rows(form: Form, operands: Sequence[Operand], rec: Record) -> Record | str:
    """A reduction of a normalised row reduces exactly the row's axes (variance after mean)."""
    for o in operands:
        if o.record.kind != "N":
            continue
        if o.access is None or tuple((d, 0) for d in sorted(o.access.reduced)) != o.record.rows:
            return "the reduction is not along the row"
        if o.record.extents != form.extents:
            return "the reduction is not over the whole row"
    return rec


def _prologue(form: Form, operands: Sequence[Operand], rec: Record) -> Record | str:
    limit = load_grammar().limits["prologue_ops"]
    for o in operands:
        if o.access is None and not o.loaded:
            return "an operand is read in several ways"
        if o.access is not None and o.access.side in "ab" and o.ops > limit:
            return f"{o.ops} operations in front of a contraction, at most {limit}"
    return rec


def _links(form: Form, operands: Sequence[Operand], rec: Record) -> Record | str:
    """One of two contractions that follow each other sums few terms: a transform of what the other takes or gives."""
    limits = load_grammar().limits
    if len(rec.contractions) > limits["links"]:
        return f"a chain of {len(rec.contractions)} contractions, at most {limits['links']}"
    for o in operands:
        if o.record.kind in "CK" and o.access is None:
            return "a contraction's results are read in several ways"
        if o.record.kind in "CK" and min(o.record.terms, form.mnk[2]) > limits["short_sum"]:
            return f"sums of {o.record.terms} and of {form.mnk[2]} terms in a chain, the shorter of at most {limits['short_sum']}"
    return rec


def _scores(form: Form, operands: Sequence[Operand], rec: Record) -> Record | str:
    """The first operand may hold one contraction; the others are in memory; rows stay on chip."""
    limit = load_grammar().limits["head_extent"]
    for j, o in enumerate(operands):
        if j > 0 and (o.record.kind != "E" or (o.access is None and not o.loaded)):
            return "the weighted values must be element-wise"
        if o.record.kind == "C":
            if len(o.record.contractions) > 1:
                return "two contractions in the scores"
            if o.access is None or o.access.again > 1:
                return "the scores are computed more than once"
    width = form.out.shape[-1] if form.out.shape else 1
    if isinstance(width, int) and width > limit:
        return f"a row of {width} elements, at most {limit} stay on chip"
    return rec


def _loads(form: Form, operands: Sequence[Operand], rec: Record) -> Record | str:
    return rec if all(o.loaded for o in operands) else "its operands must be in memory"


CHECKS: dict[str, Callable[[Form, Sequence[Operand], Record], Record | str]] = {
    "same_statistic": _same_statistic, "same_rows": _same_rows, "whole_output": _whole_output,
    "contractions": _contractions, "one_online": _one_online, "reduces_rows": _reduces_rows, "prologue": _prologue,
    "scores": _scores, "links": _links, "loads": _loads,
}
