"""How a contraction's factors come to it inside a body: through the views and maps between its loads and the node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from autocomp.cost.chip import F32
from autocomp.cost.copies import SMALL, WIDEST, copy_width
from autocomp.cost.demand import cut_rows
from autocomp.cost.pipes import BLOCK
from autocomp.egraph.subject import Subject, SubjectNode
from autocomp.ir.affine import Aff
from autocomp.ir.body import Contract, Reduce, postorder
from autocomp.ir.scalar import narrows
from autocomp.ir.types import Dim

TILE = 128  # rows and columns of a tile, before a schedule says more: a factor is copied once a tile of the other one's axes

Index = tuple[Aff, ...]
Moved = dict[tuple[int, Index], tuple[tuple[Index, Index] | None, ...]]  # node, index at which it is read -> those of its operands, guards
Moves = dict[frozenset[tuple[str, int]], Moved]  # by the extents of the contraction's axes


@dataclass(frozen=True)
class Factors:
    """What a contraction asks of its factors inside a body.

    copies   of less than 16 bytes, that bring them on chip; where they go there by blocks, blocks that begin within one of memory's
    left     of them those of the left factor, which rows of an online contraction are copied by once
    whole    nothing but whole copies from memory does: no narrow one, no factor that is computed on the way
    dtype    that the matrix units multiply
    vanish   the nodes of casts that are not computed: the units read what they cast from
    inside   the nodes of the body between the contraction and its loads
    """

    copies: float
    left: float
    whole: bool
    dtype: str
    vanish: frozenset[int]
    inside: frozenset[int]


def factors_of(s: Subject, node: SubjectNode, picks: Mapping[int, SubjectNode], copied: bool = True, tf32: bool = False,
               words: float = 1.0, blocks: bool = False, moves: Moves | None = None, by_lanes: bool = True) -> Factors:  # fmt: skip
    """Of a contraction `node`; picks: the nodes of the body by class. A factor's tile is fetched again by every tile along the axes
    that it lacks. `copied`: copies on chip have a price, else they are not counted. `tf32`: factors of f32 may be rounded to it.
    `words`: times as many copies of 4 bytes and more, which are asynchronous, as of less. `blocks`: copies are of blocks. `moves`: what
    other bodies of the subject have asked for. `by_lanes`: lanes multiply what is wide."""
    comp = node.form.comp
    assert comp is not None
    m, n, k = node.form.mnk
    total, left, whole = 0.0, 0.0, True
    dtype, vanish = narrowed(s, node, picks)
    if tf32 and dtype == "f32":
        dtype = "tf32"
    tile = TILE if by_lanes or dtype not in ("f32", "f64") else TILE // 2  # sums of f64 take twice the registers
    if not copied:
        return Factors(0.0, 0.0, True, dtype, vanish, frozenset())
    reduced = [e.axes for e in postorder(comp.value) if isinstance(e, (Contract, Reduce))]
    depth = {a.name for axes in reduced for a in axes}
    beside = {(a.name, b.name) for axes in (comp.axes, *reduced) for a, b in pairwise(axes)}
    extents = _extents(node)
    known = {a: n for a, n in extents.items() if isinstance(n, int)}
    mine_moved = ({} if moves is None else moves).setdefault(frozenset(known.items()), {})
    sides = [frozenset().union(*(i.names() for i in x.index)) for x in node.form.accesses if x is not None and x.side in ("a", "b")]
    batch = frozenset.intersection(*sides) - depth if len(sides) > 1 else frozenset()
    for access, child in zip(node.form.accesses, node.enode.children):
        if access is None or access.side not in ("a", "b"):
            continue
        mine, other = (m, n) if access.side == "a" else (n, m)
        elements = float(mine * k * node.form.batch * -(-other // tile))
        large = s.types[child].elements
        computed = _computed(s, child, picks, vanish)
        whole = whole and not computed
        for cls, index, guard in _loads(s, child, access.index, access.guard, picks, known, mine_moved):
            t = s.types[cls]
            if ((vanish and t.dtype.bytes == 1) or dtype == "tf32") and not (index and any(index[-1].coef(a) == 1 for a in depth)):
                whole = False  # bytes and tf32 go to matrix units in bulk along the depth only
            if SMALL * t.elements < large:
                continue  # a bias or a scale beside the factor stays near
            if computed and t.dtype.bytes == 1:
                continue  # bytes that are unpacked come to registers, whole words at once
            if blocks:
                total += 0.0 if computed or vanish else elements * t.dtype.bytes / BLOCK * cut_rows(t)
                continue
            width = copy_width(index, guard, t.shape, extents, t.dtype.bytes, beside) if _in_tiles(index, t.shape, batch) else 1
            if width * t.dtype.bytes < WIDEST:
                lanes = by_lanes and t.dtype.bytes >= F32 and dtype != "tf32"  # they issue what they copy beside what they multiply
                total += elements / width / (words if width * t.dtype.bytes >= F32 and not lanes else 1.0)
        left = left or total if access.side == "a" else left
    return Factors(total, left, whole and not total, dtype, vanish, prologue(node, picks))


def narrowed(s: Subject, node: SubjectNode, picks: Mapping[int, SubjectNode]) -> tuple[str, frozenset[int]]:
    """(dtype, nodes of casts) of a contraction whose factors are casts of what is narrower (`egraph.bodies`, which drops them)."""
    comp = node.form.comp
    assert comp is not None
    sums = next(e.dtype for e in postorder(comp.value) if isinstance(e, (Contract, Reduce)))
    sides = [c for access, c in zip(node.form.accesses, node.enode.children) if access is not None and access.side in ("a", "b")]
    wide = s.types[sides[0] if sides else node.enode.children[0]].dtype
    casts, narrow = [], []
    for cls in sides:
        below = picks.get(cls)
        while below is not None and below.form.view:
            cls = below.enode.children[0]
            below = picks.get(cls)
        if below is None or below.enode.op != "cast":
            return wide.name, frozenset()
        casts.append(below.id)
        narrow.append(s.types[below.enode.children[0]].dtype)
        if any(_computed(s, x, picks, frozenset()) for x in below.enode.children):
            return wide.name, frozenset()
    if len(narrow) == 2 and narrows(narrow[0], narrow[1], wide, sums):
        return max(d.name for d in narrow), frozenset(casts)
    return wide.name, frozenset()


def repeats(s: Subject, node: SubjectNode, picks: Mapping[int, SubjectNode]) -> int:
    """How many batches of a contraction read one and the same second factor (keys that query heads share): they are rows of one product."""
    access = node.form.accesses[-1] if node.form.accesses else None
    cls = node.enode.children[-1]
    if access is None or access.side != "b" or node.form.mnk[0] <= 0:
        return 1
    whole = s.types[cls].elements
    while (below := picks.get(cls)) is not None and below.form.view:
        cls = below.enode.children[0]
    return max(1, whole // max(1, s.types[cls].elements)) if node.form.batch > 1 else 1


def prologue(node: SubjectNode, picks: Mapping[int, SubjectNode]) -> frozenset[int]:
    """The nodes of the body between a contraction and its loads: what `factors_of` depends on."""
    found: set[int] = set()
    stack = list(node.enode.children)
    while stack:
        below = picks.get(stack.pop())
        if below is not None and below.id not in found:
            found.add(below.id)
            stack += below.enode.children
    return frozenset(found)


def _in_tiles(index: Index, shape: tuple[Dim, ...], batch: frozenset[str]) -> bool:
    """Whether neighbours in memory are in one tile: those along an axis of the batch are in as many tiles."""
    last = next((i for i, d in zip(reversed(index), reversed(shape)) if d != 1), Aff())
    steps = {a for a in last.names() if last.coef(a) == 1}
    return not steps or not steps <= batch


def _computed(s: Subject, cls: int, picks: Mapping[int, SubjectNode], vanish: frozenset[int]) -> bool:
    """Whether a value of the body is more than a view of a tensor in memory, casts that vanish aside."""
    node = picks.get(cls)
    if node is None:
        return False
    return not (node.form.view or node.id in vanish) or any(_computed(s, x, picks, vanish) for x in node.enode.children)


def _extents(node: SubjectNode) -> dict[str, Dim]:
    from autocomp.ir.body import bound_axes

    comp = node.form.comp
    assert comp is not None
    return {a.name: a.extent for a in (*comp.axes, *bound_axes(comp.value))}


def _placed(x: Aff, by: Mapping[str, Aff], known: Mapping[str, int]) -> Aff:
    moved = x.substitute(by)
    return moved.simplify(known) if moved.names() <= known.keys() else moved


def _loads(s: Subject, cls: int, index: Index, guard: Index, picks: Mapping[int, SubjectNode], known: Mapping[str, int],
           moved: Moved) -> Iterator[tuple[int, Index, Index]]:  # fmt: skip
    """The tensors that a value of the body is loaded from, with the composed index of each."""
    node = picks.get(cls)
    if cls in s.literal:
        return
    if node is None or node.form.comp is None or node.form.kind != "map":
        yield cls, index, guard
        return
    found = moved.get((node.id, index))
    if found is None:
        by = dict(zip((a.name for a in node.form.comp.axes), index))
        move = lambda xs: tuple([_placed(x, by, known) for x in xs])
        found = moved[node.id, index] = tuple([None if a is None else (move(a.index), move(a.guard)) for a in node.form.accesses])
    for own, child in zip(found, node.enode.children):
        if own is not None:
            yield from _loads(s, child, own[0], guard + own[1], picks, known, moved)
